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
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

SUPPORT = Path(__file__).parent
_ROOMS = ("blobs", "index", "journal", "process", "reading", "run", "store", "values")
_MACHINE = "MACHINE"


class RefusedError(Exception):
    """What Seamark raised in a worker; the kind is the name of the class."""

    def __init__(self, kind, message):
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class GoneError(Exception):
    """The worker ended before it answered."""


class Worker:
    def __init__(self, connection):
        self._connection = connection
        self.pid = connection.recv()

    def ask(self, deed, *given):
        """Have something done, and do not wait for it."""
        self._connection.send((deed, given))

    def answer(self):
        """Return what the last deed returned, or raise what came of it; GoneError: it has ended."""
        try:
            kind, value, *more = pickle.loads(self._connection.recv_bytes())
        except (EOFError, ConnectionError) as error:
            raise GoneError from error
        if kind == "refused":
            raise RefusedError(value, more[0])
        assert kind == "done", value
        return value

    def do(self, deed, *given):
        """Have something done, and return what came of it; see `answer`."""
        self.ask(deed, *given)
        return self.answer()

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def end(self):
        """Have it end as a script does that has nothing more to do."""
        self._connection.send(("end", ()))
        self.wait()

    def wait(self):
        try:
            while True:
                self._connection.recv_bytes()
        except (EOFError, ConnectionError):
            self._connection.close()
        while Path(f"/proc/{self.pid}").exists():  # it is reaped by the process that forked it
            os.sched_yield()

    @property
    def lives(self):
        """Whether nobody has killed or ended it."""
        return not self._connection.closed


class Crew:
    """A machine; without a host it has the name and boot that this one has."""

    def __init__(self, host=None):
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

    def hire(self, root, cache):
        mine, other = socket.socketpair()
        socket.send_fds(self._socket, [os.fsencode(f"{root}\n{cache}")], [other.fileno()])
        other.close()
        return Worker(Connection(mine.detach()))

    def close(self):
        """End it; workers that live end as well, as nobody asks them for anything any more."""
        self._socket.close()
        self._process.wait()


@contextmanager
def crews(*hosts):
    found = [Crew(host) for host in hosts]
    try:
        yield found
    finally:
        for crew in found:
            crew.close()


# ------------------------------------------------------------------- in the processes


class Deeds:
    """What a worker does; what it holds has numbers that the test chooses."""

    def __init__(self, root):
        from recording import QUIET

        import seamark

        self.seamark = seamark
        self.root = {"root": root}
        self.quiet = QUIET
        self.held = {}
        self.projects = {}

    def begin(self, at, project, given):
        made = self.seamark.init_run(project=project, **given, **self.root, **self.quiet)
        self.held[at] = made
        return str(made.id)

    def open(self, at, project, run, owner):
        self.begin(at, project, {"with_id": run, "owner": owner})

    def project(self, path):
        if path not in self.projects:
            self.projects[path] = self.seamark.init_project(path, **self.root)
        return self.projects[path]

    def stop(self, at):
        self.held.pop(at).stop()

    def claim(self, at, project, query, values):
        found = self.project(project).claim(query, set=values, **self.quiet)
        if found is None:
            return None
        self.held[at] = found
        return str(found.id)

    def release(self, at):
        return bool(self.held[at].release())

    def checkpoint(self, at):
        return dict(self.held[at].checkpoint_state())

    def resume(self, at, project, state):
        """Go on with the run of a checkpoint, as a training does that loads it."""
        made = self.seamark.init_run(project=project, **self.root, **self.quiet)
        self.held[at] = made.resumed(state)
        self.held[at].start()
        return str(self.held[at].id)

    def set_state(self, at, state):
        self.held[at].set_state(state)

    def sync(self, at):
        self.held[at].sync()

    def assign(self, at, path, value):
        self.held[at][path] = value

    def row(self, at, metrics, step):
        self.held[at].log_metrics(metrics, step=step)

    def append(self, at, path, value, step):
        self.held[at][path].append(value, step=step)

    def extend(self, at, path, values, steps):
        self.held[at][path].extend(values, steps=steps)

    def __getattr__(self, name):
        """Return a deed that calls the method of this name of what stands at a path."""
        return lambda at, path, *given: getattr(self.held[at][path], name)(*given)

    def delete(self, at, path):
        del self.held[at][path]

    def upload(self, at, path, content):
        self.held[at][path].upload(self.seamark.types.File.from_content(content), wait=True)

    def own(self, at):
        """Return what the object that records reads of itself."""
        return dict(self.held[at].session.recorded.document())

    def read_at(self, kind, project, name):
        """Read a run or a project, opened for it."""
        given = {"project": project, "mode": "read-only", **self.root}
        if kind == "run":
            opened = self.seamark.init_run(with_id=name, **given, **self.quiet)
        else:
            opened = self.seamark.init_project(**given)
        return dict(opened.session.recorded.document())


def _serve(connection, root, cache):
    os.environ["XDG_CACHE_HOME"] = cache
    os.chdir(cache)
    troubles = []
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
            said = ("done", getattr(deeds, deed)(*given))
        except deeds.seamark.errors.SeamarkError as error:
            said = ("refused", type(error).__name__, str(error))
        except BaseException:  # noqa: BLE001 - told to the test
            said = ("fault", traceback.format_exc())
        if troubles:
            said = ("fault", "\n".join(troubles))
        connection.send_bytes(pickle.dumps(said))


def _import_all():
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


def _reap(*_):
    """Forget workers that ended; the time that they took is counted as this process's."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _main():
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
