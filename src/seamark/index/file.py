"""Database file of a root's index: its path, and its replacement when it is damaged."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import secrets
import socket
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from seamark.errors import ArgumentError
from seamark.index import statuses
from seamark.index.statuses import FileStatuses
from seamark.journal.folder import cache_folder
from seamark.process import fork
from seamark.process.interrupts import quietly
from seamark.store import schema
from seamark.store.database import (
    DamageError,
    Database,
    file_connection,
    memory_engine,
    sqlite_engine,
)
from seamark.store.runs import Store
from seamark.store.schema import SCHEMA_VERSION, PathNumbers

_SUFFIXES: Final = ("-wal", "-shm", "-journal", "")
_MAX_AGE_S: Final = 30 * 24 * 3600.0
"""Age at which an unused index of another version is removed, in seconds."""


def index_path(root: Path) -> Path:
    """Return the path of a root's index; raise `ArgumentError` if it is inside the root.

    ``SEAMARK_INDEX`` is a folder or a file ``*.db``; the default is in the cache folder, below
    ``XDG_CACHE_HOME``. The file name is a hash of host name and real path, because home folders may
    be shared by several hosts but SQLite files must not. It ends with the version of the tables, so
    that different versions of Seamark do not delete each other's index.
    """
    real = os.path.realpath(root)
    digest = hashlib.sha256(f"{socket.gethostname()}\0{real}".encode("utf-8", "surrogateescape"))
    name = f"{digest.hexdigest()[:32]}.v{SCHEMA_VERSION}.db"
    given = os.environ.get("SEAMARK_INDEX")
    if given:
        target = Path(given) if given.endswith(".db") else Path(given, name)
        if os.path.realpath(target).startswith(real + os.sep):
            raise ArgumentError(
                f"SEAMARK_INDEX: expected a path outside the root {real!r}, got {given!r}"
            )
        return target
    return cache_folder() / name


def file_engine(file: Path) -> sa.Engine:
    """Return an engine for an existing file."""
    return sqlite_engine(lambda: file_connection(file))


def make_file(file: Path) -> None:
    """Create an empty private file; SQLite's helper files get the same permissions."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600))


def remove_file(file: Path) -> None:
    """Remove an index file and its helper files if possible."""
    for suffix in _SUFFIXES:
        with quietly(only=OSError):
            os.unlink(f"{file}{suffix}")  # noqa: PTH108


def remove_old_files(file: Path) -> None:
    """Remove indexes of other versions from the cache that were not written for 30 days."""
    if os.environ.get("SEAMARK_INDEX"):
        return
    limit = time.time() - _MAX_AGE_S
    with quietly(only=OSError):
        for path in file.parent.glob("*.v*.db*"):
            if f".v{SCHEMA_VERSION}.db" not in path.name and path.stat().st_mtime < limit:
                path.unlink()


_MAX_LOCK_WAIT_S: Final = 10.0
"""Time limit for acquiring the lock under which the file is rebuilt, in seconds."""
NAME_KEY: Final = "changes"
"""Key of the random id of an index, because another index numbers changes differently."""
_FACTS: Final = sa.select(schema.meta.c.key, schema.meta.c.value)
log = logging.getLogger("seamark")
_parent_stores: list[Any] = []
"""Connections of the parent process, referenced so that this process does not close them."""


class IndexFile:
    """Database of one root's index, opened on first use and again after a fork.

    Attributes:
        path: Path of the file; None if the index is held in memory.
        statuses: Statuses of the files of runs in the store; valid once the store is open.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path: Path | None = None
        self.statuses = FileStatuses()
        self._store: Store | None = None
        fork.register(self._after_fork)

    @property
    def store(self) -> Store:
        """Store of the index, opened if necessary; a forked child opens its own."""
        return self._store or self.open()

    def open(self) -> Store:
        """Open the file; recreate it if it is missing, damaged or of another version."""
        target = index_path(self.root)
        try:
            is_inside = os.path.realpath(target).startswith(os.path.realpath(self.root) + os.sep)
            if not is_inside and self._open_file(target) and self._store is not None:
                return self._store
        except (OSError, sqlite3.Error, sa.exc.DBAPIError) as error:
            log.debug(
                "seamark: the index %s cannot be used, using one in memory: %s", target, error
            )
        return self._use_memory()

    def _after_fork(self) -> None:
        # A child process must neither use nor close SQLite connections of its parent.
        _parent_stores.append(self._store)
        self._store = None

    def _use_memory(self) -> Store:
        self.close()
        return self._create_tables(memory_engine(), None)

    def _open_file(self, target: Path) -> bool:
        if self._try_open(target):
            return True
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with exclusive(target, _MAX_LOCK_WAIT_S) as is_locked:
            if not is_locked:
                return False
            if self._try_open(target):  # another process created it meanwhile
                return True
            self.close()
            remove_file(target)
            make_file(target)
            self._create_tables(file_engine(target), target)
            remove_old_files(target)
        return True

    def _try_open(self, target: Path) -> bool:
        self.close()
        if not target.exists():
            return False
        if not (os.access(target, os.W_OK) and os.access(target.parent, os.W_OK)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
        try:
            facts = dict(self._use(file_engine(target), target).database.fetch(_FACTS))
        except (sqlite3.Error, sa.exc.DBAPIError) as error:
            self.close()
            if is_damaged(error):
                return False
            raise
        known = facts.get("schema"), facts.get("root")
        return known == (schema.SCHEMA_VERSION, str(self.root)) and NAME_KEY in facts

    def _use(self, engine: sa.Engine, path: Path | None) -> Store:
        database = Database(engine)
        self._store = Store(database, PathNumbers(database), is_shared=False)
        self.path, self.statuses = path, FileStatuses()
        return self._store

    def _create_tables(self, engine: sa.Engine, path: Path | None) -> Store:
        store = self._use(engine, path)
        database = store.database
        database.create_tables(schema.metadata, statuses.metadata)
        facts = {
            "schema": schema.SCHEMA_VERSION,
            "root": str(self.root),
            NAME_KEY: secrets.token_hex(8),
        }
        with database.writing() as connection:
            for key, value in facts.items():
                connection.execute(sa.insert(schema.meta).values(key=key, value=value))
        return store

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if self._store is not None:
            self._store.database.engine.dispose()
        self._store = None

    def __del__(self) -> None:
        # The file was not closed, and no index or view of a run uses it.
        with contextlib.suppress(Exception):
            self.close()

    def replace(self) -> None:
        """Replace the file by a new one."""
        path = self.path
        self.close()
        if path is not None:
            with exclusive(path, _MAX_LOCK_WAIT_S) as is_locked:
                if is_locked:
                    remove_file(path)
        self.open()

    def recover(self, error: BaseException) -> bool:
        """Replace an unusable database by an empty one; return False for an unrelated error."""
        if isinstance(error, DamageError) or is_damaged(error):
            log.debug("seamark: the index %s is damaged, rebuilding it: %s", self.path, error)
            self.replace()
        elif self.path is not None and _is_unwritable(error):
            log.warning(
                "seamark: the index %s cannot be written, using one in memory: %s", self.path, error
            )
            self._use_memory()
        else:
            return False
        return True

    @property
    def driver(self) -> Any:
        """Connection of the driver; all reads use this one, so that none starts a transaction."""
        database = (self._store or self.open()).database
        pool: Any = database.engine.pool
        if pool.connection.driver_connection is None:  # discarded after an interrupt
            with database.reading():
                pass
        return pool.connection.driver_connection

    def version(self) -> object:
        """Return a value that changes when another connection writes to the index."""
        connection = self.driver
        return connection, connection.execute("PRAGMA data_version").fetchone()


def is_damaged(error: BaseException) -> bool:
    """Return whether an SQLite error means that the file is damaged."""
    # Search only the message of SQLite: SQLAlchemy adds the statement and its values.
    text = str(getattr(error, "orig", None) or error)
    words = (
        "malformed",
        "not a database",
        "unsupported file format",
        "disk I/O error",
        "no such table",
        "no such column",
    )
    return any(word in text for word in words)


def _is_unwritable(error: BaseException) -> bool:
    return any(
        word in str(error) for word in ("is full", "readonly", "unable to open", "is locked")
    )


_POLL_S: Final = 0.005


@contextlib.contextmanager
def exclusive(file: Path, wait_s: float) -> Iterator[bool]:
    """Hold the lock file of the index; yield False if it is not acquired within ``wait_s`` seconds.

    If the file system does not support locks, yield True: every write compares offsets anyway.
    """
    import fcntl  # not on Windows

    try:
        fd = os.open(f"{file}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield True
        return
    is_locked = False
    try:
        is_locked = _acquire_lock(fcntl, fd, wait_s)
        yield is_locked
    finally:
        if is_locked:  # closing is not enough: a forked process shares the lock
            with quietly(only=OSError):
                fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


def _acquire_lock(fcntl: Any, fd: int, wait_s: float) -> bool:
    end = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(_POLL_S)
        except OSError:
            return True
        else:
            return True
