"""Reading what tests recorded through a server: for `pytest --through=server`.

Each root gets a server of its own in this process, on a real socket. Whenever a test reads, what
lies below the root is sent there and folded first; so answers have to be those of the root.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
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
    "tests/cli/test_show.py": ("folder", "reference"),
    "tests/test_browsing.py": ("a_link_in_the_run",),
    "tests/test_reads.py": ("looks_once", "a_file_is_read_into_memory"),
}
"""Words in the names of tests about what only a root has, by their file; they are left out."""


class Home:
    """A server in this process that has what lies below one root.

    Args:
        root: The root.
        folder: Where the server keeps its files.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        import uvicorn

        from seamark.server.app import make_app
        from seamark.server.folding.main import FoldWorker
        from seamark.server.settings import Settings
        from seamark.server.state import open_server

        self.root = root
        self._server = open_server(Settings.at(folder, None))
        self.token = self._server.accounts.first_admin().secret
        self._folding = FoldWorker(self._server.databases, self._server.kept, threading.Event())
        config = uvicorn.Config(
            make_app(self._server), port=0, log_level="error", access_log=False, lifespan="on"
        )
        self._answering = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._answering.run)
        self._thread.start()
        while not self._answering.started and self._thread.is_alive():
            time.sleep(0.005)
        port = self._answering.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._remote = open_remote(self.url, self.token)
        self._sizes: dict[Any, Any] = {}

    def take(self) -> None:
        """Send what is new below the root, and fold it."""
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

    def close(self) -> None:
        """Stop it."""
        self._remote.close()
        self._answering.should_exit = True
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
def reading_through(
    monkeypatch: pytest.MonkeyPatch, folder: Callable[[str], Path]
) -> Iterator[None]:
    """Have everything that reads a root in this process read it through a server.

    Args:
        monkeypatch: Puts back what it was.
        folder: Makes a folder.
    """
    from seamark.run import catalogs, place, recorded

    homes: dict[Path, Home] = {}
    opened = catalogs.open_catalog

    def open_catalog(place: Path | str) -> Any:
        if not isinstance(place, Path):
            return opened(place)
        root = place.absolute()
        if root not in homes:
            homes[root] = Home(root, folder("through") / "server")
        return Through(homes[root])

    for module in (catalogs, place, recorded):
        monkeypatch.setattr(module, "open_catalog", open_catalog)
    try:
        yield
    finally:
        for home in homes.values():
            home.close()
