"""Output that goes to a file: read from the file, with nothing put in the place of the descriptor.

A pipe in the place of a file would be noticed: Python asks a stream once whether it can seek, and
``sys.stdout.reconfigure(encoding=...)``, ``tell()`` and ``truncate()`` fail when the answer is no
longer true. And what is written would be in the file a moment later than the process has ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import Final

__all__ = ["AppendedFile"]

_MOST: Final = 8 << 20
_OUT_OF_THE_WAY: Final = 10  # a descriptor 0, 1 or 2 that is closed stays so


class AppendedFile:
    """Reader of the data that any process adds to the file of a descriptor after construction.

    Where the descriptor appends, that is all behind the end of the file at construction. Else it is
    what lies between the position of the descriptor at construction and now: what has been
    truncated meanwhile, and the hole that a further write leaves before it, are passed over.

    Args:
        fd: Descriptor of a regular file.

    Raises:
        OSError: If the file cannot be read.
    """

    def __init__(self, fd: int) -> None:
        self._written = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY)
        self._reading = -1
        try:
            self._reading = _reopened(self._written)
            self._at = self._end(os.fstat(self._reading).st_size)
        except BaseException:
            self.close()
            raise

    def take(self) -> tuple[bytes, int]:
        """Return what is new, and how many bytes are missing after it: more than some MiB."""
        size = os.fstat(self._reading).st_size
        end = self._end(size)
        if size < self._at or end < self._at:  # somebody truncated the file, or went back in it
            self._at = end
        length = end - self._at
        data = os.pread(self._reading, min(length, _MOST), self._at)
        lost = length - _MOST if len(data) == _MOST else 0
        self._at += len(data) + lost
        return data, lost

    @property
    def descriptor(self) -> int:
        """A descriptor of the same open file as the one that was given."""
        return self._written

    def close(self) -> None:
        """Let go of the file."""
        for fd in {self._written, self._reading} - {-1}:
            with contextlib.suppress(OSError):
                os.close(fd)
        self._written = self._reading = -1

    def _end(self, size: int) -> int:
        if fcntl.fcntl(self._written, fcntl.F_GETFL) & os.O_APPEND:
            return size
        return os.lseek(self._written, 0, os.SEEK_CUR)


def _reopened(fd: int) -> int:
    """Return a descriptor to read the file with, whose position is its own."""
    if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR:
        return fd
    path = f"/proc/self/fd/{fd}"
    if hasattr(fcntl, "F_GETPATH"):
        path = os.fsdecode(fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    reading = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not os.path.samestat(os.fstat(reading), os.fstat(fd)):
        os.close(reading)
        msg = f"{path} is another file by now"
        raise OSError(msg)
    return reading
