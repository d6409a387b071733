"""Staging of a file's bytes before the call returns, with as little copying as possible.

The first of these methods that works is used:

1. A file of up to `SMALL` bytes is read: its blob is complete when the call returns.
2. A clone in ``.staging/`` (reflink; one system call, whatever the size) is a private file.
3. A file known to be rewritten in place is copied to ``.staging/`` at once. See below.
4. A hard link in ``.staging/`` keeps the bytes when the source is removed or replaced.
5. An open descriptor does the same across file systems, as long as this process lives.

**Rewriting in place.** A link shares its inode with the source. If a program replaces the file by
renaming, the link keeps the old bytes. (Lightning does so for ``last.ckpt`` if TMPDIR is on the
same file system.) If a program rewrites the file in place, the bytes of the link change too.
(Lightning does so if TMPDIR is on another file system.) Such a change is detected by comparing size
and modification time before and after copying. The file is then recorded as ``"lost": "changed"``,
never with a mixture of two checkpoints. From then on, the writer treats the file as rewritten in
place, and copies it before the call returns, which takes longer but keeps the promise. It does the
same if a file comes again with the same name and inode but other bytes. So at most the first
version of such a file is lost, and only if the second one was written before the first was copied.
(An uploaded file, unlike a checkpoint, may be a log that grows. Its bytes are stored as they are
when copied, and marked ``"changed": true``.)

File times advance in ticks of up to 10 ms. Two changes within one tick cannot be distinguished.
Therefore a large file that was written in the current tick is staged after that tick, and a small
one is not recognised by its time later.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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
from seamark.journal.folder import RunFolder
from seamark.journal.safe import closing_fd
from seamark.process.interrupts import let_pass, quietly

SMALL: Final = 4 << 20
"""Files of up to this many bytes are stored immediately."""

_CLOCK_REALTIME_COARSE: Final = 5  # linux/time.h; the clock of file systems
_HAS_COARSE_CLOCK: Final = sys.platform == "linux"
_TICK_S: Final = 0.01
_MAX_ATTEMPTS: Final = 3
_MAX_SOURCES: Final = 4096
"""Maximum number of remembered source files."""


class ChangedError(Exception):
    """A source was rewritten before its bytes were copied."""


class TickWait:
    """Limit on the time spent waiting for clock ticks: two ticks in total, even for many files.

    The clock of a file server may be ahead, so that the times of its files are in the future.
    """

    def __init__(self) -> None:
        self._end: float | None = None

    def wait(self) -> bool:
        """Wait a moment; return False if the limit was reached."""
        now = time.monotonic()
        if self._end is None:
            self._end = now + 2 * _TICK_S
        if now > self._end:
            return False
        time.sleep(_TICK_S / 10)
        return True


@dataclass(slots=True)
class HeldFile:
    """File whose bytes are preserved until they are stored.

    Attributes:
        source: Absolute path, links resolved.
        stamp: Stamp of the source when it was staged.
        staged: Clone, copy or link in ``.staging/``, or None.
        fd: Open descriptor if there is no staged file, else None.
        private: Whether ``staged`` has an inode of its own.
        settled: Whether all later changes of the source will change its stamp.
    """

    source: str
    stamp: Stamp
    staged: Path | None = None
    fd: int | None = None
    private: bool = False
    settled: bool = True

    def store(self, folder: RunFolder, *, changed: bool = False) -> tuple[str, int]:
        """Store the file as a blob; return SHA-256 and size in bytes.

        With ``changed``, store the current bytes. Otherwise raise ChangedError if the file was
        rewritten before it was copied, or was removed.
        """
        try:
            if self.private and self.staged is not None:
                return adopt(folder, self.staged)
            fd = os.dup(self.fd) if self.fd is not None else open_source(str(self.staged))
        except FileNotFoundError as error:  # .staging was removed
            raise ChangedError(self.source) from error
        with closing_fd(fd):
            if changed:
                return copy_blob(folder, fd)
            self.check(fd)
            return copy_blob(folder, fd, lambda: self.check(fd))

    def check(self, fd: int) -> None:
        """Raise ChangedError if the file of ``fd`` has changed since it was staged."""
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
        """Release the bytes."""
        self.close()
        if self.staged is not None:
            with quietly(only=OSError):
                self.staged.unlink()


class Sources:
    """Staged files by resolved path; an unchanged file is not staged again."""

    def __init__(self) -> None:
        self._stamps: dict[str, tuple[Stamp, str | None]] = {}
        self._rewritten: set[str] = set()

    def remember(self, source: str, stamp: Stamp, sha256: str | None) -> None:
        """Remember the stamp of a staged source, and its digest if known."""
        self._stamps.pop(source, None)
        self._stamps[source] = (stamp, sha256)
        if len(self._stamps) > _MAX_SOURCES:
            del self._stamps[next(iter(self._stamps))]

    def digest_of(self, source: str, stamp: Stamp) -> str | None:
        """Return the digest of a source if it is unchanged since it was staged."""
        before, sha256 = self._stamps.get(source, (None, None))
        return sha256 if before == stamp else None

    def note_rewritten(self, source: str) -> None:
        """Remember that a source is rewritten in place."""
        self._rewritten.add(source)

    def is_rewritten(self, source: str, now: Stamp) -> bool:
        """Return whether a source is known to be rewritten in place.

        This is also detected if it has the same inode as when it was staged, but other bytes.
        """
        before, _ = self._stamps.get(source, (now, None))
        if now != before and (now.inode, now.device) == (before.inode, before.device):
            self._rewritten.add(source)
        return source in self._rewritten


def resolve_source(path: str) -> tuple[str, os.stat_result]:
    """Return the resolved path and status of a file or folder; otherwise FileMissingError."""
    source = os.path.realpath(path)
    try:
        found = os.stat(source)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileMissingError(f"expected an existing file or folder, got {path!r}") from error
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        raise FileMissingError(
            f"expected a regular file or a folder, got {path!r}, which is neither"
        )
    return source, found


def _tick_ns() -> int:
    """Return the current file system time in nanoseconds since the Unix epoch."""
    if not _HAS_COARSE_CLOCK:
        return time.time_ns() - int(_TICK_S * 1e9)
    return time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)


def _status(fd: int) -> tuple[os.stat_result, bool]:
    """Return the status of an open file, and whether all later changes will change it."""
    tick = _tick_ns()  # read first: later writes have at least this time
    found = os.fstat(fd)
    return found, found.st_mtime_ns < tick


def _stable_status(fd: int, ticks: TickWait) -> tuple[Stamp, bool]:
    """Return the stamp as `_status` does, after the tick of the last change if it ends soon."""
    while True:
        found, settled = _status(fd)
        if settled or not ticks.wait():
            return Stamp.of(found), settled


def read_small(source: str) -> tuple[bytes, os.stat_result, bool] | None:
    """Return bytes, status, and whether later changes will show, of a small file; else None."""
    with closing_fd(open_source(source)) as fd:
        for _ in range(_MAX_ATTEMPTS):
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
    """Stage a large file; ``source`` is a resolved absolute path, ``ticks`` are shared.

    ``copy``: copy it now, because it is known to be rewritten in place. ``scarce``: many files are
    open, so copy it rather than keep it open. Raises ChangedError if the file is rewritten
    meanwhile.
    """
    with closing_fd(open_source(source)) as fd:
        stamp, settled = _stable_status(fd, ticks)
        taken = HeldFile(source, stamp, settled=settled)
        try:
            taken.private = _try_copy(fd, staged, copy=copy)
            is_linked = not taken.private and _try_link(source, staged, stamp)
            if scarce and not (taken.private or is_linked):
                taken.private = _try_copy(fd, staged, copy=True)
            if taken.private or is_linked:
                taken.staged = staged
            else:
                taken.fd = os.dup(fd)
            if taken.private:
                taken.check(fd)
                os.utime(staged, ns=(stamp.mtime_ns, stamp.mtime_ns))
        except BaseException:
            taken.release()
            raise
    return taken


def _try_copy(fd: int, staged: Path, *, copy: bool) -> bool:
    done = False
    try:
        with staged.open("xb") as target:
            narrow(target.fileno(), os.fstat(fd).st_mode)
            done = clone(fd, target.fileno())
            if not done and copy:
                copy_into(fd, target.fileno())
                done = True
    except OSError as error:  # no folder or no space; there are other ways to preserve the file
        done = False
        let_pass(error)
    finally:
        if not done:
            with quietly(only=OSError):
                staged.unlink()
    return done


def _try_link(source: str, staged: Path, stamp: Stamp) -> bool:
    with quietly(only=OSError):  # another file system, no links supported or permitted
        os.link(source, staged)
        if Stamp.of(os.stat(staged)) == stamp:
            return True
        staged.unlink()  # replaced between opening and linking
    return False
