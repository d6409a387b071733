"""Reading what tests recorded through a server: for `pytest --through=server`.

Each root gets a server of its own in this process, on a real socket. Whenever a test reads, what
lies below the root is sent there and folded first; so answers have to be those of the root.

What a server writes is in memory where the machine has a place for that: a disk that is waited for
at every commit is what most of the time would go into, and no test here is about it.
"""

from __future__ import annotations

import contextlib
import os
import pkgutil
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.index.index import Index
from seamark.journal.folder import PROJECT_LOG, RunFolder, iter_runs
from seamark.remote.http.catalog import RemoteCatalog
from seamark.remote.http.connection import Connection
from seamark.remote.places import open_remote
from seamark.remote.sync import sync_run, unsent_data

if TYPE_CHECKING:
    import pytest

OTHERWISE = {
    "tests/test_browsing.py": {
        "a_link_in_the_run": "links are refused where files are recorded and sent",
    },
    "tests/test_project.py": {
        "progress_is_told": "a server folds by itself: there is nothing to wait for",
        "an_id_of_several_runs": "a journal that was copied to another project is refused there",
    },
    "tests/test_reads.py": {
        "looks_once": "it counts looks into folders",
        "interrupted": "what is interrupted is a read of this process",
        "reference": "a server opens no reference: its file is looked for where it was recorded",
    },
}
"""What is left out and why: words in the names of tests about what only a root has, by file."""


def index_of(root: Path) -> Index:
    """Return the runs of a root, as readers see them."""
    return Index(root)


def catalog_of(home: Home) -> RemoteCatalog:
    """Return the runs of a server, as readers see them."""
    return RemoteCatalog.open(home.url, home.token)


def why_not(file: str, name: str) -> str:
    """Return why a test cannot read through a server; empty if it can.

    Args:
        file: Of the test.
        name: Of the test.
    """
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
        self._taking = threading.Lock()

    def take(self) -> None:
        """Send what is new below the root, and fold it."""
        with self._taking:
            self._take()

    def _take(self) -> None:
        if not self.root.is_dir():
            return
        logs = (path.parent for path in self.root.rglob(f"{PROJECT_LOG}/journal"))
        projects = [
            RunFolder(self.root, str(path.parent.relative_to(self.root)), PROJECT_LOG)
            for path in logs
        ]
        for folder in [*iter_runs(self.root, models=True), *projects]:
            files = tuple(sorted((str(p), p.stat().st_size) for p in folder.path.rglob("*")))
            if folder.purged_mark.exists() or self._sizes.get(folder) == files:
                continue
            self._sizes[folder] = files
            sync_run(unsent_data(folder, self._remote), self._remote)
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


class Reading:
    """What one test reads through servers.

    Args:
        servers: Gives one for each root.
        open_catalog: What opens a place otherwise.
        place_of: What says otherwise where a command reads.

    Attributes:
        homes: The servers by root.
    """

    def __init__(
        self, servers: Servers, open_catalog: Callable[..., Any], place_of: Callable[..., Any]
    ) -> None:
        self.homes: dict[Path, Home] = {}
        self._servers, self._opened, self._place_of = servers, open_catalog, place_of
        self._is_local = False

    def home(self, root: Path) -> Home:
        """Return the server of a root."""
        root = root.absolute()
        if root not in self.homes:
            self.homes[root] = self._servers.home(root)
        return self.homes[root]

    def open_catalog(self, place: Path | str, token: str | None = None) -> Any:
        """See `seamark.opening.place.open_catalog`."""
        if not isinstance(place, Path) or self._is_local:
            return self._opened(place, token)
        return Through(self.home(place))

    def place_of(self, context: Any, *, local: str = "") -> Any:
        """See `place_of`: a command that can look at nothing but a root does."""
        self._is_local = bool(local)
        return self._place_of(context, local=local)


@contextlib.contextmanager
def reading_through(monkeypatch: pytest.MonkeyPatch, servers: Servers) -> Iterator[None]:
    """Have everything that reads a root in this process read it through a server.

    Args:
        monkeypatch: Puts back what it was.
        servers: Gives one for each root.
    """
    from seamark import cli
    from seamark.cli import _app
    from seamark.opening import machine, place
    from seamark.run import recorded

    for one in pkgutil.iter_modules(cli.__path__):  # before they take what is put elsewhere here
        import_module(f"{cli.__name__}.{one.name}")
    found = _app.place_of
    reading = Reading(servers, place.open_catalog, found)
    for module in (place, machine, recorded):
        monkeypatch.setattr(module, "open_catalog", reading.open_catalog)
    for name, module in list(sys.modules.items()):
        if name.startswith("seamark.cli") and getattr(module, "place_of", None) is found:
            monkeypatch.setattr(module, "place_of", reading.place_of)
    try:
        yield
    finally:
        for home in reading.homes.values():
            servers.end(home)
