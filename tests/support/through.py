"""Reading what tests recorded through a server: for `pytest --through=server`.

Each root gets a server of its own in this process, on a real socket. Whenever a test reads, what
lies below the root is sent there and folded first; so answers have to be those of the root.

What a server writes is in memory where the machine has a place for that: a disk that is waited for
at every commit is what most of the time would go into, and no test here is about it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pkgutil
import shutil
import sys
import tempfile
import threading
from importlib import import_module
from pathlib import Path

from seamark.journal.folder import RunFolder, iter_runs
from seamark.paths import PROJECT_LOG
from seamark.remote.http.catalog import RemoteCatalog
from seamark.remote.http.connection import Connection
from seamark.remote.schemes import open_remote
from seamark.remote.sync import sync_run, unsent_data

OTHERWISE = {
    "tests/test_project.py": {
        "progress_is_told": "a server folds by itself: there is nothing to wait for",
        "an_id_of_several_runs": "a journal that was copied to another project is refused there",
    },
    "tests/test_reads.py": {
        "interrupted": "what is interrupted is a read of this process",
        "reference": "a server opens no reference: its file is looked for where it was recorded",
    },
}
"""What is left out and why: words in the names of tests about what only a root has, by file."""


def why_not(file, name):
    """Return why a test cannot read through a server; empty if it can."""
    return next((why for word, why in OTHERWISE.get(file, {}).items() if word in name), "")


class Servers:
    """The servers of all tests of one process, and where they keep what they have."""

    def __init__(self):
        memory = Path("/dev/shm")
        fit = memory.is_dir() and os.access(memory, os.W_OK | os.X_OK)
        self._folder = Path(
            tempfile.mkdtemp(prefix="seamark-through-", dir=memory if fit else None)
        )
        self._numbers = itertools.count()
        self._token = ""

    def home(self, root):
        first = self._folder / "first"
        if not first.exists():
            self._token = _make_first(first)
        folder = self._folder / str(next(self._numbers))
        shutil.copytree(first, folder)
        return Home(root, folder, self._token)

    def end(self, home):
        home.stop()
        shutil.rmtree(home.folder, ignore_errors=True)

    def close(self):
        shutil.rmtree(self._folder, ignore_errors=True)


def _make_first(folder):
    """Make the tables that every server begins with, as a copy; return the token of its admin."""
    from served import served

    with served(folder) as found:
        found.server.store()
        return found.token


class Home:
    """A server in this process that has what lies below one root."""

    def __init__(self, root, folder, token):
        from served import served

        from seamark.server.folding.main import FoldWorker

        self.root, self.folder, self.token = root, folder, token
        self._stack = contextlib.ExitStack()
        found = self._stack.enter_context(served(folder))
        self.url = found.url
        self._folding = FoldWorker(found.server.databases, found.server.kept, threading.Event())
        self._remote = open_remote(self.url, self.token)
        self._stack.callback(self._remote.close)
        self._sizes = {}
        self._taking = threading.Lock()

    def take(self):
        """Send what is new below the root, and fold it."""
        with self._taking:
            self._take()

    def _take(self):
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

    def stop(self):
        self._stack.close()


class Through(RemoteCatalog):
    """Reads a root through its server."""

    def __init__(self, home):
        super().__init__(Connection(home.url, home.token))
        self._home = home

    @property
    def where(self):
        return str(self._home.root)

    def refresh(self, *where, **how):
        self._home.take()
        super().refresh(*where, **how)


class Reading:
    """What one test reads through servers: each method stands in for what has its name."""

    def __init__(self, servers, open_catalog, place_of):
        self.homes = {}
        self._servers, self._opened, self._place_of = servers, open_catalog, place_of
        self._is_local = False

    def open_catalog(self, place, token=None):
        if not isinstance(place, Path) or self._is_local:
            return self._opened(place, token)
        root = place.absolute()
        if root not in self.homes:
            self.homes[root] = self._servers.home(root)
        return Through(self.homes[root])

    def place_of(self, context, *, local=""):
        """Note whether a command can look at nothing but a root: then it does."""
        self._is_local = bool(local)
        return self._place_of(context, local=local)


@contextlib.contextmanager
def reading_through(monkeypatch, servers):
    """Have everything that reads a root in this process read it through a server."""
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
