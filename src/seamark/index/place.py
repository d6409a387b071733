"""Path of the local index of a root, and access to its file, which only its owner can read.

The values of a root that only its owner can read must not be in a cache that everybody can read.
"""

from __future__ import annotations

import hashlib
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from seamark.errors import ArgumentError
from seamark.journal.root import cache_folder
from seamark.process.interrupts import quietly
from seamark.store.database import file_connection, sqlite_engine
from seamark.store.schema import SCHEMA_VERSION

if TYPE_CHECKING:
    import sqlalchemy as sa

__all__ = [
    "file_engine",
    "index_path",
    "keep_private",
    "make_file",
    "remove_file",
    "remove_old_files",
]

_SUFFIXES: Final = ("-wal", "-shm", "-journal", "")
_PRIVATE: Final = (*_SUFFIXES, ".lock")
_OLD_S: Final = 30 * 24 * 3600.0
"""An index of another version that nobody used for so long is removed, seconds."""


def index_path(root: Path) -> Path:
    """Return where the index of a root lies.

    ``SEAMARK_INDEX`` names a folder, or a file ``*.db``; else it is below ``XDG_CACHE_HOME``.

    The name is hashed from the host and the real path of the root: the same path may be another
    folder on another host, and SQLite cannot share a file between hosts although their home folders
    may be one. It ends in the version of the tables, so that two versions of Seamark that read one
    root do not empty each other's index.

    Raises:
        ArgumentError: If ``SEAMARK_INDEX`` points into the root.
    """
    real = os.path.realpath(root)
    digest = hashlib.sha256(f"{socket.gethostname()}\0{real}".encode("utf-8", "surrogateescape"))
    name = f"{digest.hexdigest()[:32]}.v{SCHEMA_VERSION}.db"
    given = os.environ.get("SEAMARK_INDEX")
    if given:
        target = Path(given) if given.endswith(".db") else Path(given, name)
        if os.path.realpath(target).startswith(real + os.sep):
            msg = f"SEAMARK_INDEX: expected a place outside the root {real!r}, got {given!r}"
            raise ArgumentError(msg)
        return target
    return cache_folder() / name


def file_engine(file: Path) -> sa.Engine:
    """Return an engine on a file that exists."""
    return sqlite_engine(lambda: file_connection(file))


def make_file(file: Path) -> None:
    """Make an empty file that only its owner can read; SQLite gives its helpers the same rights.

    Raises:
        OSError: If that is impossible.
    """
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600))


def keep_private(file: Path) -> None:
    """Take from others what an earlier version, or somebody's umask, let them read."""
    if os.name != "posix":
        return
    for path, mode in ((file.parent, 0o700), *((Path(f"{file}{end}"), 0o600) for end in _PRIVATE)):
        with quietly(only=OSError):
            found = path.stat()
            # A folder that somebody chose with SEAMARK_INDEX may hold other things.
            ours = path != file.parent or path.name == "seamark"
            if ours and found.st_uid == os.getuid() and found.st_mode & 0o077:
                path.chmod(found.st_mode & mode)


def remove_file(file: Path) -> None:
    """Remove an index file with its helpers, as far as that is possible."""
    for suffix in _SUFFIXES:
        with quietly(only=OSError):
            os.unlink(f"{file}{suffix}")  # noqa: PTH108


def remove_old_files(file: Path, now_s: float | None = None) -> None:
    """Remove indexes in the cache that have another version and were not used for 30 days.

    Args:
        file: The index that is used.
        now_s: Seconds since the Unix epoch; now if left out.
    """
    if os.environ.get("SEAMARK_INDEX"):
        return
    limit = (time.time() if now_s is None else now_s) - _OLD_S
    ending = f".v{SCHEMA_VERSION}.db"
    with quietly(only=OSError):
        for path in file.parent.glob("*.db"):
            used = max(
                (
                    Path(f"{path}{end}").stat().st_mtime
                    for end in _SUFFIXES
                    if Path(f"{path}{end}").exists()
                ),
                default=0.0,
            )
            if not path.name.endswith(ending) and used < limit:
                remove_file(path)
                with quietly(only=OSError):
                    Path(f"{path}.lock").unlink()
