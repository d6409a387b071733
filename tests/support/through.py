"""Reading what tests recorded through a server: for `pytest --through=server`.

Each root gets a server of its own in this process, on a real socket. Whenever a test reads, what
lies below the root is sent there and folded first; so answers have to be those of the root.

What a server writes is in memory where the machine has a place for that: a disk that is waited for
at every commit is what most of the time would go into, and no test here is about it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.journal.folder import PROJECT_LOG, RunFolder, iter_runs
from seamark.remote.http.catalog import RemoteCatalog
from seamark.remote.http.connection import Connection
from seamark.remote.places import open_remote
from seamark.remote.sync import sync_run, what_is_left

if TYPE_CHECKING:
    import pytest

OTHERWISE = {
    "tests/cli/test_show.py": {
        "folder": "a server has no folder of the run to show",
        "reference": "what a reference leads to is looked for on this machine only",
    },
    "tests/test_browsing.py": {
        "a_link_in_the_run": "links are refused where files are recorded and sent",
    },
    "tests/test_project.py": {
        "progress_is_told": "a server folds by itself: there is nothing to wait for",
        "a_name_of_several_runs": "a journal that was copied to another project is refused there",
    },
    "tests/test_reads.py": {
        "looks_once": "it counts looks into folders",
        "a_file_is_read_into_memory": "it looks into the folder of the run",
    },
}
"""What is left out and why: words in the names of tests about what only a root has, by file."""
_PROCESSES = frozenset({"shell", "terminal", "live_terminal"})


def why_not(file: str, name: str, fixtures: Iterable[str]) -> str:
    """Return why a test cannot read through a server here; empty if it can.

    Args:
        file: Of the test.
        name: Of the test.
        fixtures: Names of what it asks for.
    """
    if _PROCESSES & set(fixtures):
        return "it reads in a process of its own: tests/remote does that with a server"
    return next((why for word, why in OTHERWISE.get(file, {}).items() if word in name), "")


class Servers:
    """The servers of all tests of one process, and where they keep what they have."""

    def __init__(self) -> None:
        memory = Path("/dev/shm")
        fit = memory.is_dir() and os.access(memory, os.W_OK | os.X_OK)
        self._folder = Path(
            tempfile.mkdtemp(prefix="seamark-through-", dir=memory if fit else None)
        )
        self._count = 0
        self._ending: list[Home] = []
        self._first: tuple[Path, str] | None = None

    def home(self, root: Path) -> Home:
        """Return an empty server for a root."""
        if self._first is None:
            self._first = self._make_first()
        folder = self._folder / str(self._count)
        self._count += 1
        shutil.copytree(self._first[0], folder)
        return Home(root, folder, self._first[1])

    def end(self, home: Home) -> None:
        """Have a server stop, without waiting for it."""
        home.stop()
        self._ending.append(home)
        while self._ending and self._ending[0].has_stopped():
            shutil.rmtree(self._ending.pop(0).folder, ignore_errors=True)

    def close(self) -> None:
        """Wait for all and remove what they kept."""
        for home in self._ending:
            home.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _make_first(self) -> tuple[Path, str]:
        """Make the tables that every server begins with, once: each is a copy."""
        from seamark.server.settings import Settings
        from seamark.server.state import open_server

        folder = self._folder / "first"
        server = open_server(Settings.at(folder, None))
        try:
            server.store()
            return folder, server.accounts.first_admin().secret
        finally:
            server.close()


class Home:
    """A server in this process that has what lies below one root.

    Args:
        root: The root.
        folder: Where the server keeps its files; its tables are there.
        token: Of its admin.
    """

    def __init__(self, root: Path, folder: Path, token: str) -> None:
        import uvicorn

        from seamark.server.app import make_app
        from seamark.server.folding.main import FoldWorker
        from seamark.server.settings import Settings
        from seamark.server.state import open_server

        self.root, self.folder, self.token = root, folder, token
        self._server = open_server(Settings.at(folder, None))
        self._folding = FoldWorker(self._server.databases, self._server.kept, threading.Event())
        config = uvicorn.Config(
            make_app(self._server), port=0, log_level="error", access_log=False, lifespan="on"
        )
        self._answering = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._answering.run, daemon=True)
        self._thread.start()
        while not self._answering.started and self._thread.is_alive():
            time.sleep(0.001)
        port = self._answering.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._remote = open_remote(self.url, self.token)
        self._sizes: dict[Any, Any] = {}

    def take(self) -> None:
        """Send what is new below the root, and fold it."""
        if not self.root.is_dir():
            return
        logs = (path.parent for path in self.root.rglob(f"{PROJECT_LOG}/journal"))
        projects = [
            RunFolder(self.root, str(path.parent.relative_to(self.root)), PROJECT_LOG)
            for path in logs
        ]
        for folder in [*iter_runs(self.root), *projects]:
            files = tuple(sorted((str(p), p.stat().st_size) for p in folder.path.rglob("*")))
            if folder.purged_mark.exists() or self._sizes.get(folder) == files:
                continue
            self._sizes[folder] = files
            sync_run(what_is_left(folder, self._remote), self._remote)
        while self._folding.round():
            pass

    def stop(self) -> None:
        """Have it stop."""
        self._remote.close()
        self._answering.should_exit = True

    def has_stopped(self) -> bool:
        """Return whether it has."""
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Wait until it has."""
        self._thread.join(30)


class Through(RemoteCatalog):
    """Reads a root through its server."""

    def __init__(self, home: Home) -> None:
        super().__init__(Connection(home.url, home.token))
        self._home = home

    @property
    def where(self) -> str:
        """The root: messages name it."""
        return str(self._home.root)

    def refresh(self, *where: Any, **how: Any) -> None:
        """Send what is new first."""
        self._home.take()
        super().refresh(*where, **how)


@contextlib.contextmanager
def reading_through(monkeypatch: pytest.MonkeyPatch, servers: Servers) -> Iterator[None]:
    """Have everything that reads a root in this process read it through a server.

    Args:
        monkeypatch: Puts back what it was.
        servers: Gives one for each root.
    """
    from seamark.cli import _app
    from seamark.run import catalogs, place, recorded

    homes: dict[Path, Home] = {}
    opened, place_of = catalogs.open_catalog, _app.place_of
    is_local = False

    def open_catalog(place: Path | str) -> Any:
        if not isinstance(place, Path) or is_local:
            return opened(place)
        root = place.absolute()
        if root not in homes:
            homes[root] = servers.home(root)
        return Through(homes[root])

    def noted(context: Any, *, local: str = "") -> Any:
        """See `place_of`: a command that can look at nothing but a root does."""
        nonlocal is_local
        is_local = bool(local)
        return place_of(context, local=local)

    for module in (catalogs, place, recorded):
        monkeypatch.setattr(module, "open_catalog", open_catalog)
    for name, module in list(sys.modules.items()):
        if name.startswith("seamark.cli") and getattr(module, "place_of", None) is place_of:
            monkeypatch.setattr(module, "place_of", noted)
    try:
        yield
    finally:
        for home in homes.values():
            servers.end(home)
