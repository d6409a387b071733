"""Reservations: files that only one of many processes can make, and that never change.

Names, versions, revisions and claims are settled by them, without a lock, on any disk that several
machines share; folders with reservations can be merged. A file says whose it is from the moment it
is there: it is written under another name first, and linked. What lies there may be a stranger's.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from typing import TYPE_CHECKING, Final, NamedTuple

from seamark.journal.safe import folder_below, open_file, open_folder
from seamark.process.interrupts import let_pass

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Reservations", "Reserved"]

_MOST_BYTES: Final = 64 << 10
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EMLINK})
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


class Reserved(NamedTuple):
    """A reservation that somebody made.

    Attributes:
        holder: Content of the file, at most 64 KiB.
        made_ns: When it was written, nanoseconds since the Unix epoch.
    """

    holder: bytes
    made_ns: int


class Reservations:
    """The reservations of one kind.

    Args:
        base: Folder of a project, a model or the name of an artifact.
        kind: Folders below it in which they are; none of them may be a link.
    """

    def __init__(self, base: Path, *kind: str) -> None:
        self._base, self._kind = base, kind
        self._folder = base.joinpath(*kind)

    def names(self) -> dict[str, bool]:
        """Return the names that are taken, each with whether it is a file; none below a link.

        Raises:
            OSError: If they cannot be listed.
        """
        try:
            fd = open_folder(self._folder, above=len(self._kind))
        except FileNotFoundError:
            return {}
        try:
            with os.scandir(fd) as entries:
                return {one.name: one.is_file(follow_symlinks=False) for one in entries}
        finally:
            os.close(fd)

    def reserve(self, name: str, holder: str) -> bool:
        """Make a reservation; return whether nobody else had.

        Args:
            name: A key, a number, or both; without ``/``.
            holder: Whose it is.

        Raises:
            OSError: If nothing can be written there, or a link is in the place of a folder.
        """
        part = f".tmp-{secrets.token_hex(8)}"
        with folder_below(self._base, self._kind) as fd:
            _write(fd, part, holder)
            try:
                os.link(part, name, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                try:  # a file system without links; O_EXCL follows none
                    _write(fd, name, holder)
                except FileExistsError:
                    return False
            finally:
                os.unlink(part, dir_fd=fd)
        return True

    def read(self, name: str) -> Reserved | None:
        """Return a reservation; None if nobody made it, or if it is no file."""
        try:
            fd = open_file(self._folder / name, above=1 + len(self._kind))
        except OSError as error:
            let_pass(error)
            return None
        try:
            return Reserved(os.read(fd, _MOST_BYTES), os.fstat(fd).st_mtime_ns)
        finally:
            os.close(fd)

    def remove(self, name: str) -> None:
        """Remove the reservation of a thing that is no more; a folder is nobody's, and stays.

        Raises:
            OSError: If it cannot be removed.
        """
        with contextlib.suppress(FileNotFoundError), folder_below(self._base, self._kind) as fd:
            if not stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=fd)


def _write(folder: int, name: str, text: str) -> None:
    fd = os.open(name, _NEW, 0o666, dir_fd=folder)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
