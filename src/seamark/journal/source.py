"""Sources of the bytes of a journal; all reads go through one."""

from __future__ import annotations

import os
from typing import Protocol

from seamark.errors import JournalError
from seamark.journal.safe import open_file
from seamark.process.interrupts import let_pass

__all__ = ["FileSource", "Source"]


class Source(Protocol):
    """Bytes of a journal (``<writer id>.<uid>``) that grow only at their end; may raise OSError."""

    name: str

    def size(self) -> int:
        """Return how many bytes there are now."""

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to ``size`` bytes from ``offset`` on; fewer only where they end."""

    def quiet_since_ns(self) -> int | None:
        """Return when the last bytes came, ns since the Unix epoch; None: no more will come."""

    def owner(self) -> int | None:
        """Return the number of the user whose file it is; None if it is not a file."""

    def gap_end(self, offset: int) -> int | None:
        """Return where bytes from ``offset`` end that are known to be no frame; None: unknown."""

    def close(self) -> None:
        """Let go of it; harmless when called twice."""


class FileSource:
    """A journal in a file; an open ``fd`` of it is closed with the source."""

    def __init__(self, path: str | os.PathLike[str], fd: int | None = None) -> None:
        self.path = os.fspath(path)
        self.name = os.path.basename(self.path)  # noqa: PTH119 - 10,000 of them are opened
        try:
            self._fd = open_file(path) if fd is None else fd
        except OSError as error:
            let_pass(error)
            msg = f"journal {self.path!r} cannot be opened: {error.strerror or error}"
            raise JournalError(error.errno, msg) from error

    def size(self) -> int:
        """See `Source.size`."""
        return os.fstat(self._fd).st_size

    def pread(self, size: int, offset: int) -> bytes:
        """See `Source.pread`. A mapped file that shrinks would kill the reader with SIGBUS."""
        return os.pread(self._fd, size, offset)

    def quiet_since_ns(self) -> int | None:
        """See `Source.quiet_since_ns`."""
        return os.fstat(self._fd).st_mtime_ns

    def owner(self) -> int | None:
        """See `Source.owner`."""
        return os.fstat(self._fd).st_uid

    def gap_end(self, offset: int) -> int | None:
        """See `Source.gap_end`."""
        return None

    def close(self) -> None:
        """See `Source.close`."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
