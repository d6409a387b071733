"""Staging of a file's bytes before the call returns, with as little copying as possible.

In this order, the first that works:

1. A file of up to `SMALL` bytes is read: its blob is complete when the call returns.
2. A clone in ``.staging/`` (reflink; one system call, whatever the size) is a file of our own.
3. A file that was seen to be rewritten in place is copied to ``.staging/`` at once. See below.
4. A hard link in ``.staging/`` keeps the bytes when the source is removed or replaced by another.
5. An open descriptor does the same across file systems, for as long as this process lives.

**Rewriting in place.** A link shares its inode with the source. A program that replaces a file by
renaming (what Lightning does for ``last.ckpt`` while TMPDIR is on the same file system) leaves the
old bytes to the link. One that rewrites it in place (what Lightning does when TMPDIR is elsewhere)
changes the bytes behind the link. Until the copy is complete that is noticed by size and
modification time, looked at before and after copying; such a file is recorded as ``"lost":
"changed"``, and never with bytes that are half one checkpoint and half the next. From then on, and
also when a file is taken again with the name and inode but not the bytes that it had, the writer
knows that this file is rewritten in place, and copies it before the call returns: a wait, but what
was promised. So at most the first version of such a file is lost, and only if the second one was
written before the first was copied. (A file that was uploaded rather than kept as a checkpoint may
be a log that grows: its bytes are stored as they are when they are copied, and marked ``"changed":
true``.)

Times of files move in ticks (up to 10 ms). A change within the tick of the last one cannot be seen;
therefore a large file that was written in the current tick is taken when that tick is over, and a
small one is not recognised by its time when it comes again.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from seamark.blobs.store import (
    Stamp,
    adopt,
    clone,
    copy_blob,
    copy_into,
    narrow,
    open_source,
    read_all,
)
from seamark.errors import FileMissingError
from seamark.journal.safe import closing_fd
from seamark.process.interrupts import let_pass, quietly

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder

__all__ = [
    "SMALL",
    "ChangedError",
    "HeldFile",
    "Sources",
    "TickWait",
    "look",
    "read_small",
    "take",
]

SMALL: Final = 4 << 20
"""Files of up to this many bytes are stored immediately."""

_CLOCK_REALTIME_COARSE: Final = 5  # linux/time.h; what file systems stamp with
_HAS_COARSE: Final = sys.platform == "linux"
_TICK_S: Final = 0.01
_TRIES: Final = 3
_MAX_SOURCES: Final = 4096
"""Maximum number of source files remembered as stored."""


class ChangedError(Exception):
    """A source was rewritten before its bytes were copied."""


class TickWait:
    """Limit on the time spent waiting for clock ticks: two in all, also for a folder of many files.

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
class HeldFile:
    """File whose bytes are held until they are stored.

    Attributes:
        source: Absolute path, links resolved.
        stamp: Stamp of the source when it was taken.
        staged: Clone, copy or link in ``.staging/``, or None.
        fd: Open descriptor where there is no such file, else None.
        private: Whether ``staged`` has an inode of its own.
        settled: Whether every later change of the source will show in its stamp.
    """

    source: str
    stamp: Stamp
    staged: Path | None = None
    fd: int | None = None
    private: bool = False
    settled: bool = True

    def store(self, folder: RunFolder, *, changed: bool = False) -> tuple[str, int]:
        """Make a blob of it, and return SHA-256 and size in bytes.

        With ``changed``, take the bytes that are there now; else raise ChangedError if it was
        rewritten before it was copied, or is gone.
        """
        try:
            if self.private and self.staged is not None:
                return adopt(folder, self.staged)
            fd = os.dup(self.fd) if self.fd is not None else open_source(str(self.staged))
        except FileNotFoundError as error:  # somebody removed .staging
            raise ChangedError(self.source) from error
        with closing_fd(fd):
            if changed:
                return copy_blob(folder, fd)
            self.check(fd)
            return copy_blob(folder, fd, lambda: self.check(fd))

    def check(self, fd: int) -> None:
        """Raise ChangedError unless the bytes behind ``fd`` are those that were taken."""
        now = os.fstat(fd)
        if (now.st_size, now.st_mtime_ns) != (self.stamp.size, self.stamp.mtime_ns):
            raise ChangedError(self.source)

    def close(self) -> None:
        """Close the descriptor; staged files remain."""
        if self.fd is not None:
            with quietly(only=OSError):
                os.close(self.fd)
            self.fd = None

    def release(self) -> None:
        """Let go of the bytes."""
        self.close()
        if self.staged is not None:
            with quietly(only=OSError):
                self.staged.unlink()


class Sources:
    """Staged files by resolved path; an unchanged file is not staged again."""

    def __init__(self) -> None:
        self._taken: dict[str, tuple[Stamp, str | None]] = {}
        self._rewritten: set[str] = set()

    def remember(self, source: str, stamp: Stamp, sha256: str | None) -> None:
        """Remember the stamp of a source when it was staged, and its digest once it is known."""
        self._taken.pop(source, None)
        self._taken[source] = (stamp, sha256)
        if len(self._taken) > _MAX_SOURCES:
            del self._taken[next(iter(self._taken))]

    def digest_of(self, source: str, stamp: Stamp) -> str | None:
        """Return the digest of a source that was taken before and did not change since."""
        before, sha256 = self._taken.get(source, (None, None))
        return sha256 if before == stamp else None

    def note_rewritten(self, source: str) -> None:
        """Remember that a source is rewritten in place."""
        self._rewritten.add(source)

    def is_rewritten(self, source: str, now: Stamp) -> bool:
        """Return whether a source is known to be rewritten in place.

        That shows when it has the inode, but not the bytes, that it had when it was taken.
        """
        before, _ = self._taken.get(source, (now, None))
        if now != before and (now.inode, now.device) == (before.inode, before.device):
            self._rewritten.add(source)
        return source in self._rewritten


def look(path: str) -> tuple[str, os.stat_result]:
    """Return the resolved path and status of a file or folder; FileMissingError for others."""
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
    if not _HAS_COARSE:
        return time.time_ns() - int(_TICK_S * 1e9)
    return time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)


def _status(fd: int) -> tuple[os.stat_result, bool]:
    """Return the status of an open file, and whether every change from now on will show in it."""
    tick = _tick_ns()  # first: what is written after this has at least this time
    found = os.fstat(fd)
    return found, found.st_mtime_ns < tick


def _stable_status(fd: int, ticks: TickWait) -> tuple[Stamp, bool]:
    """Return the stamp like `_status`, past the tick of the last change if that ends soon."""
    while True:
        found, settled = _status(fd)
        if settled or not ticks.wait():
            return Stamp.of(found), settled


def read_small(source: str) -> tuple[bytes, os.stat_result, bool] | None:
    """Return bytes and status of a small file, else None, and if later changes show in that."""
    with closing_fd(open_source(source)) as fd:
        for _ in range(_TRIES):
            before = os.fstat(fd)
            if before.st_size > SMALL:
                return None
            content = read_all(fd, SMALL + 1)
            found, settled = _status(fd)
            if Stamp.of(found) == Stamp.of(before) and len(content) == found.st_size:
                return content, found, settled
        return None if len(content) > SMALL else (content, found, False)


def take(
    source: str, staged: Path, ticks: TickWait, *, copy: bool = False, scarce: bool = False
) -> HeldFile:
    """Take hold of a large file; ``source`` is a resolved absolute path, ``ticks`` are shared.

    ``copy`` it now if it is known to be rewritten in place; if ``scarce``, as many files are open,
    rather copy it than keep it open. Raises ChangedError if it was rewritten while it was copied.
    """
    fd = open_source(source)
    taken = None
    try:
        stamp, settled = _stable_status(fd, ticks)
        taken = HeldFile(source, stamp, settled=settled)
        if _copied(fd, staged, copy=copy):
            taken.staged, taken.private = staged, True
            taken.check(fd)
            os.utime(staged, ns=(stamp.mtime_ns, stamp.mtime_ns))
        elif _linked(source, staged, stamp):
            taken.staged = staged
        elif scarce and _copied(fd, staged, copy=True):
            taken.staged, taken.private = staged, True
            taken.check(fd)
        else:
            taken.fd = os.dup(fd)
    except BaseException:
        if taken is not None:
            taken.release()
        raise
    finally:
        os.close(fd)
    return taken


def _copied(fd: int, staged: Path, *, copy: bool) -> bool:
    done = False
    try:
        with staged.open("xb") as target:
            narrow(target.fileno(), os.fstat(fd).st_mode)
            done = clone(fd, target.fileno())
            if not done and copy:
                copy_into(fd, target.fileno())
                done = True
    except OSError as error:  # no folder, no room; there are other ways to hold a file
        done = False
        let_pass(error)
    finally:
        if not done:
            with quietly(only=OSError):
                staged.unlink()
    return done


def _linked(source: str, staged: Path, stamp: Stamp) -> bool:
    try:
        os.link(source, staged)
        same = Stamp.of(os.stat(staged)) == stamp
        if not same:  # replaced between opening and linking
            staged.unlink()
    except OSError as error:  # another file system, no links there, or no right to make one
        let_pass(error)
        return False
    return same
