"""Output of C libraries, subprocesses and Python at file descriptors 1 and 2.

A descriptor that leads to a regular file is left alone: what is appended is read there
(`AppendedFile`). What else can seek (``/dev/null``) is not captured here: a stream of Python's that
has found that it can does not bear to lose that.

Any other becomes the write end of a pipe, or, where it was a terminal, a pseudo-terminal with
the same attributes and size, without processing of its own: the real terminal does that, once. A
helper (`_copier`, another process) copies what arrives to where the descriptor pointed before, byte
for byte, and into a ring in memory that this process reads.

**No thread of this process reads the pipe.** C code that prints while it holds the GIL would wait
for a reader that waits for the GIL.

**What if the helper is killed?** It is two processes, each of which notices the end of the other
and replaces it; copying goes on at the byte where it stopped (the kernel counts the bytes of each
process). This process holds the read end as well, so that nothing that writes ever gets SIGPIPE or
EPIPE on our account. If both are killed at once, the next `DescriptorSource.take` puts the original
back, copies what is in the pipe and goes on doing so for children that still write to it; recording
ends (`DescriptorSource.broken`). Then the chunk in the hands of the helper (64 KiB at most) is
lost, what several threads or processes write at that moment may be shown in another order, and C
code that fills the pipe while it holds the GIL waits for ever. Helpers that are stopped (SIGSTOP)
are killed after some two seconds in which nothing was copied though there was something, and room.

**The ring** is an anonymous file (in memory where the system has such files, else in the temporary
folder) of some 8 MiB, and not a file in the run's folder: a network file system that hangs would
hold up what is shown on the screen, and nothing is left to clean up. What finds no room in it is
counted (`DescriptorSource.lost`) and not recorded; on the screen it is shown anyway.

**Order.** Where fd 1 and 2 are the same terminal, pipe or open file (``2>&1``), and both are
captured by the same run, they share one helper, since the person sees the order in which they are
written; all of it is recorded as the output of the first one. Separate helpers, and a stream that
is not captured beside one that is, may be shifted against each other by the time it takes to copy.

**The terminal.** A program that sets modes through fd 1, as curses does, sets those of the
pseudo-terminal; `DescriptorSource.take` and `stop` set in the terminal what has changed there, half
a second later. Whatever uses fd 0 or ``/dev/tty`` (readline, getpass, pdb) is not affected. The
size is followed in the other direction, and SIGWINCH sent when the new one is there.

**The end.** The helper copies until nobody holds the write end: it outlives a kill of the training,
and a child that goes on after the training is still shown. When the original takes no more (the
reader of the pipe is gone), it is put back, so that who writes next gets the error itself. Python
gets back some of what it believes is written, so that it fails at the latest with the last flush.
"""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

from seamark.capture.output.helper import (
    Helper,
    NotCapturableError,
    close,
    close_all,
    dup,
)
from seamark.capture.output.source import Source
from seamark.process import fork
from seamark.process.interrupts import quietly

__all__ = ["DescriptorSource", "NotCapturableError"]

_MOST: Final = 8 << 20


class DescriptorSource(Source):
    """Source of the text that any process writes to one descriptor, 1 or 2, from `start` to `stop`.

    The text still reaches its original destination, unchanged. In a forked child the methods do
    nothing, and what the child writes is recorded by its parent. Sources of the same run
    (``folder``) may share a helper.

    Attributes:
        lost: Number of bytes that could not be recorded so far. When it grows, the gap is at the
            end of what `take` or `stop` has just returned.
    """

    def __init__(self, fd: int, folder: Path) -> None:
        self.lost = 0
        self.original = -1
        self.ended = False
        self._fd = fd
        self.folder = folder
        self.helper: Helper | None = None
        self._file: AppendedFile | None = None
        self._unreadable: str | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def broken(self) -> str | None:
        """Reason, in words, why nothing more is captured; None as long as something is."""
        return self.helper.broken if self.helper else self._unreadable

    @property
    def shared(self) -> bool:
        """Whether output here is recorded as output of the other descriptor."""
        return self.helper is not None and self.helper.sources[:1] != [self]

    def start(self) -> None:
        """Begin. What is in the buffers of Python and C goes out before.

        Raises:
            NotCapturableError: If it cannot be done here; then nothing has changed.
        """
        with _lock:
            if self.helper is not None or self in _files:
                return
            try:
                if not self._begin_with_file():
                    self._begin()
            except NotCapturableError:
                raise
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                msg = f"fd {self._fd} cannot be captured at the descriptor: {error}"
                raise NotCapturableError(msg) from error

    def take(self) -> str:
        """Return the output since the last call. Never waits for a writer."""
        helper = self.helper
        if self._file is not None:
            return self._text_of_file(self._file)
        if helper is None or helper.pid != os.getpid():
            return ""
        with helper.lock:
            if helper.closed:
                return ""
            helper.attend()
            return self._text(helper)

    def stop(self, timeout_s: float = 2.0) -> str:
        """Put the original back, and return the rest.

        All that was written before is shown then; where the reader of a pipe takes nothing in time,
        it may be shown after what is written next. Children that still write are shown as long as
        they live, and recorded no more.
        """
        with _lock:
            helper, text = self.helper, ""
            if self in _files:
                return self._end_file()
            if helper is None or helper.pid != os.getpid():
                return ""
            deadline = time.monotonic() + timeout_s
            _flush()
            self.ended = True
            sources = _stacks[self._fd]
            if sources[-1] is not self:  # another run captures it first, and passes it on
                for later in reversed(sources[sources.index(self) + 1 :]):
                    later.settle(deadline)
                with helper.lock:
                    helper.order(b"D", deadline)
                    text = self._text(helper, final=True)
            while sources and sources[-1].ended:
                last = sources[-1]
                rest = last._end(deadline)  # noqa: SLF001
                text = rest if last is self else text
                if last in sources:
                    sources.remove(last)
            return text

    # ---------------------------------------------------------------- a file

    def _begin_with_file(self) -> bool:
        """Return whether the descriptor leads to a file, which is read from now on."""
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            if _can_seek(self._fd):
                msg = (
                    f"fd {self._fd} cannot be captured at the descriptor: it leads to a device "
                    "that is no terminal"
                )
                raise NotCapturableError(msg)
            return False
        _flush()
        self._unreadable = None
        recorded = any(
            other.folder == self.folder
            and other._file is not None  # noqa: SLF001
            and _same_file(other._file.descriptor, self._fd)  # noqa: SLF001
            for other in _files
        )
        if not recorded:
            self._file = AppendedFile(self._fd)
        _files.append(self)
        return True

    def _text_of_file(self, file: AppendedFile, *, final: bool = False) -> str:
        if self._unreadable is not None:
            return ""
        try:
            data, lost = file.take()
        except OSError as error:
            self._unreadable = f"the file cannot be read: {error.strerror}"
            return ""
        self.lost += lost
        text = self._decoder.decode(data, final or lost > 0)
        if final:
            self._decoder.reset()
        return text

    def _end_file(self) -> str:
        _flush()
        text = "" if self._file is None else self._text_of_file(self._file, final=True)
        self.forget_file()
        _files.remove(self)
        return text

    def forget_file(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    # ---------------------------------------------------------------- inside

    def _begin(self) -> None:
        _flush()
        helper = self._neighbour() or Helper(self._fd)
        sources = _stacks.setdefault(self._fd, [])
        try:
            self.original = dup(self._fd)
            with helper.lock:
                helper.sources.append(self)
                self.helper, self.ended = helper, False
                sources.append(self)
                os.dup2(helper.writing, self._fd)
        except BaseException:
            self.put_back(helper)
            self.helper = None
            for kept in (sources, helper.sources):
                if self in kept:
                    kept.remove(self)
            if not helper.sources:
                helper.close()
            self.forget()
            raise

    def _neighbour(self) -> Helper | None:
        """Return the helper of the other descriptor, where both are the same open file."""
        for fd, sources in _stacks.items():
            if fd == self._fd or not sources:
                continue
            other = sources[-1]
            helper = other.helper
            if (
                helper is not None
                and helper.broken is None
                and not other.ended
                and other.folder == self.folder
                and _same_file(other.original, self._fd)
            ):
                return helper
        return None

    def _end(self, deadline: float) -> str:
        helper, text = self.helper, ""
        if helper is None:
            return text
        with helper.lock:
            self.put_back(helper)
            if len(helper.sources) > 1:
                helper.order(b"D", deadline)
                text = self._text(helper, final=True)
            else:
                helper.end(deadline)
                text = self._text(helper, final=True)
                helper.close()
            if self in helper.sources:
                helper.sources.remove(self)
        self.helper = None
        self.forget()
        return text

    def settle(self, deadline: float) -> None:
        """Wait until all output has reached its original destination."""
        if self.helper is not None:
            with self.helper.lock:
                self.helper.order(b"D", deadline)

    def put_back(self, helper: Helper) -> None:
        """Restore the original, unless other code has replaced the descriptor."""
        with contextlib.suppress(OSError):
            if _same_stat(self._fd, helper.writing):
                os.dup2(self.original, self._fd)

    def hand_back(self, data: bytes) -> None:
        """Write something into the buffer of Python's own stream."""
        name = {1: "stdout", 2: "stderr"}[self._fd]
        for stream in (getattr(sys, name), getattr(sys, f"__{name}__")):
            with quietly():
                if stream.fileno() == self._fd:
                    stream.buffer.write(data)
                    return

    def forget(self) -> None:
        """Close descriptors that are no longer needed."""
        close(self.original)
        self.original = -1

    def _text(self, helper: Helper, *, final: bool = False) -> str:
        if helper.sources[:1] != [self]:
            return ""
        data, lost = helper.take()
        self.lost += lost
        text = self._decoder.decode(data, final or lost > 0)
        if final:
            self._decoder.reset()
        return text


_lock = threading.RLock()  # a signal's handler may stop what is being stopped
# By descriptor: who captures it, the one whose helper it leads to last.
_stacks: dict[int, list[DescriptorSource]] = {}
# Those whose descriptor leads to a file.
_files: list[DescriptorSource] = []


def _forget() -> None:
    """Keep only the descriptor in a forked child; the helper belongs to the parent."""
    global _lock  # noqa: PLW0603 - the parent's may be held
    _lock = threading.RLock()
    for sources in _stacks.values():
        for source in sources:
            source.forget()
    for source in _files:
        source.forget_file()
    close_all()
    _stacks.clear()
    _files.clear()


fork.register(_forget)


# --------------------------------------------------------------------- descriptors


def _can_seek(fd: int) -> bool:
    try:
        os.lseek(fd, 0, os.SEEK_CUR)
    except OSError:  # a pipe, a socket, a terminal
        return False
    return True


def _same_stat(one: int, other: int) -> bool:
    return os.path.samestat(os.fstat(one), os.fstat(other))


def _same_file(one: int, other: int) -> bool:
    """Return whether it makes no difference to which of two descriptors something is written."""
    if not _same_stat(one, other):
        return False
    if not stat.S_ISREG(os.fstat(one).st_mode):
        return True
    if all(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND for fd in (one, other)):
        return True
    return _same_position(one, other)


def _same_position(one: int, other: int) -> bool:
    """Return whether two descriptors of a file are one open file: one's owner is the other's."""
    with contextlib.suppress(OSError):  # not every system has owners of files
        before = fcntl.fcntl(one, fcntl.F_GETOWN)
        if fcntl.fcntl(other, fcntl.F_GETOWN) == before:
            mark = os.getpid() if before != os.getpid() else 0
            fcntl.fcntl(one, fcntl.F_SETOWN, mark)
            try:
                return fcntl.fcntl(other, fcntl.F_GETOWN) == mark
            finally:
                fcntl.fcntl(one, fcntl.F_SETOWN, before)
    return False


@quietly()
def _flush() -> None:
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with quietly():
            if stream is not None:
                stream.flush()
    # Not fflush(NULL): that one waits for a thread that reads standard input.
    import ctypes

    library = ctypes.CDLL(None)
    names = ("__stdoutp", "__stderrp") if sys.platform == "darwin" else ("stdout", "stderr")
    for name in names:
        library.fflush(ctypes.c_void_p.in_dll(library, name))


# --------------------------------------------------------------------- files


class AppendedFile:
    """Reader of the data that any process adds to the file of a descriptor after construction.

    A pipe in the place of a file would be noticed: Python asks a stream once whether it can seek.
    And what is written would be in the file a moment later than the process has ended.

    Where the descriptor appends, the data is all behind the end of the file at construction. Else
    it is what lies between the position of the descriptor then and now: what has been truncated
    meanwhile, and the hole that a further write leaves before it, are passed over.
    """

    def __init__(self, fd: int) -> None:
        self._written = dup(fd)
        self._reading = -1
        try:
            self._reading = _reopened(self._written)
            self._at = self._end(os.fstat(self._reading).st_size)
        except BaseException:
            self.close()
            raise

    def take(self) -> tuple[bytes, int]:
        """Return new output, and the number of bytes missing after it if it exceeds some MiB."""
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
    # To read the file with; its position is its own.
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
