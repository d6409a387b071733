"""Worker processes that do what a test says, one deed after the other, and can be killed.

A `Crew` is one machine: a process that has imported everything once, and forks a worker in a few
milliseconds, so that a test may kill as many as it likes. What a worker does is one of `Deeds`, on
what it holds open; everything goes through the public API.
"""

from __future__ import annotations

import importlib
import os
import pickle
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).parent
_ROOMS = ("blobs", "index", "journal", "process", "reading", "run", "store", "values")
_MACHINE = "MACHINE"


class RefusedError(Exception):
    """What Seamark raised in a worker; the kind is the name of the class."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class GoneError(Exception):
    """The worker ended before it answered."""


class Worker:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.pid: int = connection.recv()

    def ask(self, deed: str, *given: Any) -> None:
        """Have something done, and do not wait for it."""
        self._connection.send((deed, given))

    def answer(self) -> Any:
        """Return what the last deed returned.

        Raises:
            RefusedError: If Seamark raised one of its errors.
            AssertionError: If anything else was raised, also in a thread.
            GoneError: If the process has ended.
        """
        try:
            kind, value, *more = pickle.loads(self._connection.recv_bytes())
        except (EOFError, ConnectionError) as error:
            raise GoneError from error
        if kind == "refused":
            raise RefusedError(value, more[0])
        assert kind == "done", value
        return value

    def do(self, deed: str, *given: Any) -> Any:
        """Have something done, and return what came of it; see `answer`."""
        self.ask(deed, *given)
        return self.answer()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def end(self) -> None:
        """Have it end as a script does that has nothing more to do."""
        self._connection.send(("end", ()))
        self.wait()

    def wait(self) -> None:
        try:
            while True:
                self._connection.recv_bytes()
        except (EOFError, ConnectionError):
            self._connection.close()
        while Path(f"/proc/{self.pid}").exists():  # it is reaped by the process that forked it
            os.sched_yield()

    @property
    def lives(self) -> bool:
        """Whether nobody has killed or ended it."""
        return not self._connection.closed


class Crew:
    """A machine; without a host it has the name and boot that this one has."""

    def __init__(self, host: str | None = None) -> None:
        self._socket, other = socket.socketpair()
        environment = dict(os.environ) | ({} if host is None else {_MACHINE: host})
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(other.fileno())],
            pass_fds=[other.fileno()],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        other.close()

    def hire(self, root: Path, cache: Path) -> Worker:
        mine, other = socket.socketpair()
        socket.send_fds(self._socket, [os.fsencode(f"{root}\n{cache}")], [other.fileno()])
        other.close()
        return Worker(Connection(mine.detach()))

    def close(self) -> None:
        """End it; workers that live end as well, as nobody asks them for anything any more."""
        self._socket.close()
        self._process.wait()


@contextmanager
def crews(*hosts: str | None) -> Iterator[list[Crew]]:
    found = [Crew(host) for host in hosts]
    try:
        yield found
    finally:
        for crew in found:
            crew.close()


# ------------------------------------------------------------------- in the processes


class Deeds:
    """What a worker does; what it holds has numbers that the test chooses."""

    def __init__(self, root: str) -> None:
        from recording import QUIET

        import seamark

        self.seamark: Any = seamark
        self.root: dict[str, Any] = {"root": root}
        self.quiet: Any = QUIET
        self.held: dict[int, Any] = {}
        self.projects: dict[str, Any] = {}

    # -- containers

    def begin(self, at: int, project: str, given: dict[str, Any]) -> str:
        made = self.seamark.init_run(project=project, **given, **self.root, **self.quiet)
        self.held[at] = made
        return str(made.id)

    def open(self, at: int, project: str, run: str, owner: Any) -> None:
        self.begin(at, project, {"with_id": run, "owner": owner})

    def project(self, path: str) -> Any:
        if path not in self.projects:
            self.projects[path] = self.seamark.init_project(path, **self.root)
        return self.projects[path]

    def make_model(self, at: int, project: str, key: str) -> None:
        self.held[at] = self.seamark.init_model(project=project, key=key, **self.root)

    def version(self, at: int, project: str, model: str) -> tuple[str, int]:
        made = self.seamark.init_model_version(model=model, project=project, **self.root)
        self.held[at] = made
        return str(made.id), int(made["sys/version"].fetch())

    def stop(self, at: int) -> None:
        self.held.pop(at).stop()

    def claim(self, at: int, project: str, query: str, values: Any) -> str | None:
        found = self.project(project).claim(query, set=values, **self.quiet)
        if found is None:
            return None
        self.held[at] = found
        return str(found.id)

    def release(self, at: int) -> bool:
        return bool(self.held[at].release())

    def checkpoint(self, at: int) -> dict[str, Any]:
        return dict(self.held[at].checkpoint_state())

    def resume(self, at: int, project: str, state: dict[str, Any]) -> str:
        """Go on with the run of a checkpoint, as a training does that loads it."""
        made = self.seamark.init_run(project=project, **self.root, **self.quiet)
        self.held[at] = made.resumed(state)
        self.held[at].start()
        return str(self.held[at].id)

    def set_state(self, at: int, state: str) -> None:
        self.held[at].set_state(state)

    def trash(self, project: str, run: str, trashed: Any) -> None:
        self.project(project).trash([run], trashed=trashed)

    # -- what is recorded

    def sync(self, at: int) -> None:
        self.held[at].sync()

    def assign(self, at: int, path: str, value: Any) -> None:
        self.held[at][path] = value

    def row(self, at: int, metrics: dict[str, float], step: float) -> None:
        self.held[at].log_metrics(metrics, step=step)

    def append(self, at: int, path: str, value: Any, step: float) -> None:
        self.held[at][path].append(value, step=step)

    def extend(self, at: int, path: str, values: list[float], steps: list[float]) -> None:
        self.held[at][path].extend(values, steps=steps)

    def __getattr__(self, name: str) -> Any:
        """Return a deed that calls the method of this name of what stands at a path."""
        return lambda at, path, *given: getattr(self.held[at][path], name)(*given)

    def delete(self, at: int, path: str) -> None:
        del self.held[at][path]

    def params(self, at: int, values: dict[str, Any]) -> None:
        self.held[at].params.update(values)

    def upload(self, at: int, path: str, content: str) -> None:
        self.held[at][path].upload(self.seamark.types.File.from_content(content), wait=True)

    def upload_files(self, at: int, path: str, files: dict[str, str]) -> None:
        for name, content in files.items():
            Path(name).write_text(content)
        self.held[at][path].upload_files(list(files), wait=True)

    def keep(self, at: int, path: str, values: list[float]) -> None:
        """Keep statistics of numbers."""
        self.held[at][path].keep(self.seamark.Statistics())
        for value in values:
            self.held[at][path].append(value)

    # -- artifacts

    def draft(self, at: int, project: str, name: str) -> None:
        self.held[at] = self.seamark.init_artifact(name=name, project=project, **self.root)

    def add_file(self, at: int, name: str, content: str) -> None:
        file = Path(f"{os.getpid()}.txt")
        file.write_text(content)
        self.held[at].add_file(file, name)
        file.unlink()

    def save(self, at: int) -> tuple[str, int]:
        artifact = self.held.pop(at)
        artifact.save()
        found = artifact.digest, artifact.version
        artifact.stop()
        return found

    def alias(self, project: str, name: str, digest: str, alias: str) -> None:
        with_id = f"{project}/{name}@sha256:{digest}"
        with self.seamark.init_artifact(with_id, **self.root) as artifact:
            artifact.alias(alias)

    def bring(self, project: str, name: str, files: dict[str, bytes], remote: str) -> str:
        """Save a version of an artifact, and return its digest once a server has all of it."""
        given = {"name": name, "project": project, "remote": remote}
        with self.seamark.init_artifact(**given, **self.root) as made:
            for file, content in files.items():
                Path(file).write_bytes(content)
                made.add_file(file)
        return str(made.digest)

    # -- reading

    def own(self, at: int) -> dict[str, Any]:
        """Return what the object that records reads of itself."""
        return dict(self.held[at].session.recorded.document())

    def read_at(self, kind: str, project: str, name: str) -> dict[str, Any]:
        """Read a run or a project, opened for it."""
        given = {"project": project, "mode": "read-only", **self.root}
        if kind == "run":
            opened = self.seamark.init_run(with_id=name, **given, **self.quiet)
        else:
            opened = self.seamark.init_project(**given)
        return dict(opened.session.recorded.document())

    def found(self, project: str, query: str | None = None) -> list[str]:
        return list(self.project(project).fetch_runs_table(query=query, columns=[])["sys/id"])

    def duplicate(self, project: str, text: str) -> str | None:
        found = self.project(project).find_run(content_hash=text)
        return None if found is None else str(found.id)

    def members(self, project: str, name: str) -> list[str]:
        return list(self.project(project).group(name).fetch_runs_table(columns=[])["sys/id"])

    def versions(self, project: str, key: str) -> dict[str, int]:
        model = self.seamark.init_model(key, project=project, mode="read-only", **self.root)
        table = model.fetch_model_versions_table(columns=["sys/version", "sys/stage"])
        return {row["sys/id"]: (row["sys/version"], row["sys/stage"]) for row in table.to_rows()}

    def artifacts(self, project: str, name: str) -> dict[str, Any]:
        with_id = f"{project}/{name}"
        if not self.project(project).fetch_artifacts_table(columns=[]).total:
            return {}
        artifact = self.seamark.init_artifact(with_id, mode="read-only", **self.root)
        rows = artifact.fetch_versions_table(columns=["sys/version", "sys/aliases"]).to_rows()
        return {
            row["sys/id"]: (row["sys/version"], sorted(row.get("sys/aliases", ()))) for row in rows
        }

    def objects(self, project: str, name: str, version: str) -> dict[str, Any]:
        """Return what each object of an artifact holds, or where it is."""
        with_id = f"{project}/{name}:{version}"
        artifact = self.seamark.init_artifact(with_id, mode="read-only", **self.root)
        return {
            one.path: one.uri or artifact.open(one.path).read().decode() for one in artifact.objects
        }


def _serve(connection: Connection, root: str, cache: str) -> None:
    os.environ["XDG_CACHE_HOME"] = cache
    os.chdir(cache)
    troubles: list[str] = []
    threading.excepthook = lambda given: troubles.append(
        "".join(traceback.format_exception(given.exc_type, given.exc_value, given.exc_traceback))
    )
    deeds = Deeds(root)
    connection.send(os.getpid())
    while True:
        try:
            deed, given = connection.recv()
        except (EOFError, ConnectionError):
            os._exit(0)
        if deed == "end":
            return
        try:
            said: tuple[Any, ...] = ("done", getattr(deeds, deed)(*given))
        except deeds.seamark.errors.SeamarkError as error:
            said = ("refused", type(error).__name__, str(error))
        except BaseException:  # noqa: BLE001 - told to the test
            said = ("fault", traceback.format_exc())
        if troubles:
            said = ("fault", "\n".join(troubles))
        connection.send_bytes(pickle.dumps(said))


def _import_all() -> None:
    if host := os.environ.pop(_MACHINE, None):
        from seamark.process import liveness

        socket.gethostname = lambda: host
        liveness.boot_id = lambda: f"boot-of-{host}"
    import seamark

    for room in _ROOMS:
        package = importlib.import_module(f"seamark.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"seamark.{room}."):
            importlib.import_module(module.name)
    assert "torch" not in sys.modules
    assert seamark.init_run


def _reap(*_: object) -> None:
    """Forget workers that ended; the time that they took is counted as this process's."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _main() -> None:
    _import_all()
    parent = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        told, fds, _, _ = socket.recv_fds(parent, 4096, 1)
        if not told:
            return
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            parent.close()
            root, cache = os.fsdecode(told).split("\n")
            _serve(Connection(fds[0]), root, cache)
            return
        os.close(fds[0])


if __name__ == "__main__":
    sys.path.insert(0, str(SUPPORT))
    _main()
