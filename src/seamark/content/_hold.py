"""Taking hold of a file's bytes before the call returns, without copying more than is needed.

In this order, the first that works:

1. A file of up to `SMALL` bytes is read: its blob is complete when the call returns.
2. A clone in ``.staging/`` (reflink; one system call, whatever the size) is a file of our own.
3. A file that was seen to be rewritten in place is copied to ``.staging/`` at once. See below.
4. A hard link in ``.staging/`` keeps the bytes when the source is removed or replaced by another.
5. An open descriptor does the same across file systems, for as long as this process lives.

**Rewriting in place.** A link shares its inode with the source. Who replaces a file by renaming
(what Lightning does for ``last.ckpt`` while TMPDIR is on the same file system) leaves the old bytes
to the link. Who rewrites it in place (what Lightning does when TMPDIR is elsewhere) changes the
bytes behind the link. Until the copy is complete that is noticed by size and modification time,
looked at before and after copying; such a file is recorded as ``"lost": "changed"``, and never with
bytes that are half one checkpoint and half the next. From then on, and also when a file is taken
again with the name and inode but not the bytes that it had, the lane knows that this file is
rewritten in place, and copies it before the call returns: a wait, but what was promised. So at most
the first version of such a file is lost, and only if the second one was written before the first
was copied. (A file that was uploaded rather than kept as a checkpoint may be a log that grows: its
bytes are stored as they are when they are copied, and marked ``"changed": true``.)

Times of files move in ticks (up to 10 ms). A change within the tick of the last one cannot be seen;
therefore a large file that was written in the current tick is taken when that tick is over, and a
small one is not recognised by its time when it comes again.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from seamark.errors import FileMissingError
from seamark.journal.blobs import Stamp, clone, copy_into, narrow, open_source, read_all

__all__ = ["SMALL", "ChangedError", "Hold", "Patience", "look", "read_small", "take"]

SMALL: Final = 4 << 20
"""Files of up to this many bytes are stored at once."""

_CLOCK_REALTIME_COARSE: Final = 5  # linux/time.h; what file systems stamp with
_TICK_S: Final = 0.01
_TRIES: Final = 3


class ChangedError(Exception):
    """A source was rewritten before its bytes were copied."""


class Patience:
    """How long ticks are waited for: two of them in all, also for a folder of many files.

    The clock of a file server may be ahead, and the tick of its files in the future.
    """

    def __init__(self) -> None:
        self._end: float | None = None

    def wait(self) -> bool:
        """Wait a moment; False if that was done for long enough."""
        now = time.monotonic()
        if self._end is None:
            self._end = now + 2 * _TICK_S
        if now > self._end:
            return False
        time.sleep(_TICK_S / 10)
        return True


@dataclass(slots=True)
class Hold:
    """One file whose bytes are held.

    Attributes:
        source: Absolute path, links resolved.
        stamp: What the source was like when it was taken.
        staged: The clone, copy or link in ``.staging/``, or None.
        fd: The open descriptor where there is no such file, else None.
        private: Whether ``staged`` has an inode of its own.
        settled: Whether every later change of the source will show in its stamp.
    """

    source: str
    stamp: Stamp
    staged: Path | None = None
    fd: int | None = None
    private: bool = False
    settled: bool = True

    def open(self) -> int:
        """Return a descriptor of the bytes; the caller closes it."""
        return os.dup(self.fd) if self.fd is not None else open_source(str(self.staged))

    def check(self, fd: int) -> None:
        """Make sure that the bytes behind ``fd`` are those that were taken.

        Raises:
            ChangedError: If they are not.
        """
        now = os.fstat(fd)
        seen = (now.st_size, now.st_mtime_ns)
        if seen != (self.stamp.size, self.stamp.mtime_ns):
            raise ChangedError(self.source)

    def release(self) -> None:
        """Let go of the bytes."""
        if self.fd is not None:
            with contextlib.suppress(OSError):
                os.close(self.fd)
            self.fd = None
        if self.staged is not None:
            with contextlib.suppress(OSError):
                self.staged.unlink()


def look(path: str) -> tuple[str, os.stat_result]:
    """Return the resolved path and the status of a file or folder.

    Raises:
        FileMissingError: If nothing is there, or neither a regular file nor a folder.
        OSError: If it cannot be looked at.
    """
    source = os.path.realpath(path)
    try:
        found = os.stat(source)
    except (FileNotFoundError, NotADirectoryError) as error:
        msg = f"expected an existing file or folder, got {path!r}"
        raise FileMissingError(msg) from error
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        msg = f"expected a regular file or a folder, got {path!r}, which is neither"
        raise FileMissingError(msg)
    return source, found


def _tick_ns() -> int:
    """Return the time that a file written now would get, nanoseconds since the Unix epoch."""
    try:
        return time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)
    except (AttributeError, OSError):  # not Linux
        return time.time_ns() - int(_TICK_S * 1e9)


def _stamp(fd: int) -> tuple[Stamp, bool]:
    """Return the stamp of an open file, and whether every change from now on will show in it."""
    tick = _tick_ns()  # first: what is written after this has at least this time
    stamp = Stamp.of(os.fstat(fd))
    return stamp, stamp.mtime_ns < tick


def _settled(fd: int, patience: Patience) -> tuple[Stamp, bool]:
    """Do what `_stamp` does, past the tick in which the file was written if that ends soon."""
    while True:
        stamp, settled = _stamp(fd)
        if settled or not patience.wait():
            return stamp, settled


def read_small(source: str) -> tuple[bytes, Stamp, bool] | None:
    """Return the bytes of a small file, its stamp, and whether later changes will show in that.

    A file that is being written just now is read again, a few times; after that what was read
    counts.

    Returns:
        None if it is a large file.

    Raises:
        OSError: If it cannot be read.
    """
    fd = open_source(source)
    try:
        for _ in range(_TRIES):
            before = os.fstat(fd)
            if before.st_size > SMALL:
                return None
            content = read_all(fd, SMALL + 1)
            stamp, settled = _stamp(fd)
            if stamp == Stamp.of(before) and len(content) == stamp.size:
                return content, stamp, settled
        return None if len(content) > SMALL else (content, stamp, False)
    finally:
        os.close(fd)


def take(
    source: str, staged: Path, patience: Patience, *, copy: bool = False, scarce: bool = False
) -> Hold:
    """Take hold of a large file.

    Args:
        source: Resolved absolute path of a regular file.
        staged: Name for it in ``.staging/``; its folder exists, unless there is no writing there.
        patience: Shared by what is taken together.
        copy: Copy it now, because it is known to be rewritten in place.
        scarce: Rather copy it now than keep it open: many files are open already.

    Raises:
        ChangedError: If it was rewritten while it was copied.
        OSError: If the file cannot be opened.
    """
    fd = open_source(source)
    hold = None
    try:
        stamp, settled = _settled(fd, patience)
        hold = Hold(source, stamp, settled=settled)
        if _copied(fd, staged, copy=copy):
            hold.staged, hold.private = staged, True
            hold.check(fd)
            os.utime(staged, ns=(stamp.mtime_ns, stamp.mtime_ns))
        elif _linked(source, staged, stamp):
            hold.staged = staged
        elif scarce and _copied(fd, staged, copy=True):
            hold.staged, hold.private = staged, True
            hold.check(fd)
        else:
            hold.fd = os.dup(fd)
    except BaseException:
        if hold is not None:
            hold.release()
        raise
    finally:
        os.close(fd)
    return hold


def _copied(fd: int, staged: Path, *, copy: bool) -> bool:
    """Make a private copy, by sharing blocks or, if ``copy`` says so, by copying them."""
    try:
        with staged.open("xb") as target:
            narrow(target.fileno(), os.fstat(fd))
            done = clone(fd, target.fileno())
            if not done and copy:
                copy_into(fd, target.fileno())
                done = True
    except OSError:  # no folder, no room; there are other ways to hold a file
        done = False
    if not done:
        with contextlib.suppress(OSError):
            staged.unlink()
    return done


def _linked(source: str, staged: Path, stamp: Stamp) -> bool:
    try:
        os.link(source, staged)
        same = Stamp.of(os.stat(staged)) == stamp
        if not same:  # replaced between opening and linking
            staged.unlink()
    except OSError:  # another file system, no links there, or no right to make one
        return False
    return same
