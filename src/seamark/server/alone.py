"""Keeping a second server out of a folder of SQLite: a lock that ends with the process that has it.

The lock is one of the kernel on an open file (flock), so nothing has to be cleaned up after a
process that was killed: the file stays, and says nothing by itself. It is held by the process that
was started and inherited by none of those that it starts. On PostgreSQL several servers may share
one database, and nothing is locked. Network file systems, where a lock may hold on one machine
only, are refused for SQLite altogether (`seamark.server.databases`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from seamark.server.checks import CannotStart, check_folder
from seamark.server.databases import lock_file

if TYPE_CHECKING:
    from seamark.server.settings import Settings

__all__ = ["alone"]

_TAKEN: Final = {errno.EAGAIN, errno.EACCES}


@contextlib.contextmanager
def alone(settings: Settings, doing: str = "") -> Iterator[None]:
    """Run a block during which no other server uses the same files of SQLite.

    Args:
        settings: Where they are.
        doing: What needs them alone, for the message; by default a server.

    Raises:
        CannotStart: If a server runs there already.
        ArgumentError: If the databases cannot lie there.
    """
    path = lock_file(settings.store)
    if path is None:
        yield
        return
    check_folder(path.parent, "--store")
    fd = _open(path)
    try:
        _lock(fd, path, doing)
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)  # for people; the lock is what counts
        yield
    finally:
        os.close(fd)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        msg = f"--store: the file {str(path)!r} cannot be written: {error.strerror}"
        raise CannotStart(msg) from error


def _lock(fd: int, path: Path, doing: str) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _TAKEN:
            msg = (
                f"--store: nothing can be locked in {str(path.parent)!r} ({error.strerror}), which"
                " SQLite needs: name a folder on a disk of this machine, or a PostgreSQL"
            )
            raise CannotStart(msg) from error
        pid = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
        who = f" (process {pid})" if pid.isdigit() else ""
        todo = f"stop it before {doing}" if doing else "use that one, or stop it"
        msg = (
            f"--store: a server runs on {str(path.parent)!r} already{who}, and SQLite takes one:"
            f" {todo}; several servers can share a PostgreSQL"
        )
        raise CannotStart(msg) from error
