"""Output at the descriptor: what C libraries, subprocesses and Python write to fd 1 or 2.

A descriptor that leads to a regular file is left alone: what is appended is read there
(`AppendedFile`). What else can seek (``/dev/null``) is not captured here: a stream of Python's that
has found that it can does not bear to lose that.

Any other becomes the write end of a pipe, or, where it was a terminal, a pseudo-terminal with the
same attributes and size. A helper (`_copier`, another process) copies what arrives to where the
descriptor pointed before, byte for byte, through a ring in memory from which this process records.

**No thread of this process reads the pipe.** C code that prints while it holds the GIL would wait
for a reader that waits for the GIL.

**What if the helper is killed?** This process holds the read end as well, so that nothing that
writes ever gets SIGPIPE or EPIPE on our account. Within half a second it starts another one, which
continues where the first one stopped: what it had read lies in the ring. A piece that was being
shown may be shown twice. If no other one can be started, the original is put back, this process
shows what is in the pipe, and recording ends (`DescriptorSource.broken`). What remains: C code that
prints more than a pipe holds (64 KiB) while it holds the GIL waits for ever if the helper is gone.

**Order.** Where fd 1 and 2 are the same terminal, pipe or file (``2>&1``), and both are captured by
the same run, they share one helper, since the order in which they are written is what the person
sees; then all of it is recorded as the output of the first one. Nothing tells the bytes apart.

**The end.** The helper copies until nobody holds the write end: it outlives a kill of the training,
and a child that goes on after the training is still shown. When the original takes no more (the
reader of the pipe is gone), it is put back, so that who writes next gets the error itself; and
Python gets back some of what it believes is written, so that it fails at the latest with the last
flush, and a script that has printed all it had to ends with the exit code that says so.
"""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import select
import signal
import stat
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path
from typing import Final

from seamark.capture.output import _copier
from seamark.capture.output.appended import AppendedFile
from seamark.capture.output.source import Source
from seamark.process import fork
from seamark.process.interrupts import quietly

__all__ = ["DescriptorSource", "NotCapturableError"]

_START_S: Final = 3.0
"""How long to wait for a helper that starts, in seconds; one that did not is not started again."""
_RESTARTS: Final = 10
_OUT_OF_THE_WAY: Final = 10  # a descriptor 0, 1 or 2 that is closed stays so
_GONE: Final = "the process that copied the output is gone"

_unstartable: Final[set[str]] = set()
"""Pythons that did not start."""


class NotCapturableError(OSError):
    """Output cannot be captured at the descriptor here; the message says why, for people."""


class DescriptorSource(Source):
    """Source of the text that any process writes to one descriptor, from `start` to `stop`.

    The text still reaches its original destination, unchanged. In a forked child the methods do
    nothing, and what the child writes is recorded by its parent.

    Args:
        fd: Descriptor, 1 or 2.
        folder: Folder of the run. What a run captures of one file or terminal by both descriptors
            is recorded once, as the output of the first one.

    Attributes:
        lost: Number of bytes that could not be recorded so far. When it grows, the gap is at the
            end of what `take` or `stop` has just returned.
    """

    def __init__(self, fd: int, folder: Path) -> None:
        self.lost = 0
        self.fd = fd
        self.folder = folder
        self.redirection: _Redirection | None = None
        self.file: AppendedFile | None = None
        self._records = False
        self._taken = 0
        self._unreadable: str | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def broken(self) -> str | None:
        """Reason, in words, why nothing more is captured; None as long as something is."""
        return self.redirection.broken if self.redirection else self._unreadable

    def start(self) -> None:
        """Begin. What is in the buffers of Python and C goes out before.

        Raises:
            NotCapturableError: If it cannot be done here; then nothing has changed.
        """
        with _lock:
            if self in _sources:
                return
            try:
                _flush()
                if stat.S_ISREG(os.fstat(self.fd).st_mode):
                    self._begin_with_file()
                else:
                    self._begin_with_pipe()
            except NotCapturableError:
                raise
            except (OSError, ValueError, subprocess.SubprocessError, termios.error) as error:
                msg = f"fd {self.fd} cannot be captured at the descriptor: {error}"
                raise NotCapturableError(msg) from error
            _sources.append(self)

    def _begin_with_file(self) -> None:
        self._unreadable = None
        if not any(
            other.folder == self.folder
            and other.file is not None
            and _same_file(other.file.descriptor, self.fd)
            for other in _sources
        ):
            self.file = AppendedFile(self.fd)

    def _begin_with_pipe(self) -> None:
        if _can_seek(self.fd):
            msg = (
                f"fd {self.fd} cannot be captured at the descriptor: it leads to a device that is "
                "no terminal"
            )
            raise NotCapturableError(msg)
        redirection = next(
            (each for each in _redirections if each.includes(self)), None
        ) or _Redirection(self.fd)
        self._records = all(each.folder != self.folder for each in redirection.sources)
        self._taken = redirection.join(self)
        self.redirection = redirection

    def take(self) -> str:
        """Return what was written since the last call. Never waits for a writer."""
        with _lock:
            if self.redirection is not None:
                self.redirection.attend()
            return self._text()

    def settle(self, deadline: float) -> None:
        """Wait until what was written is where it went before."""
        with _lock:
            if self.redirection is not None:
                self.redirection.settle(deadline)

    def stop(self, timeout_s: float = 2.0) -> str:
        """Put the original back, and return the rest.

        All that was written before is shown then. Children that still write are shown as long as
        they live, and recorded no more.

        Args:
            timeout_s: The longest time to wait for that, in seconds: where the reader of a pipe
                takes nothing, what was written before may be shown after what is written next.
        """
        with _lock:
            if self not in _sources:
                return ""
            _flush()
            if self.redirection is not None:
                self.redirection.remove(self, time.monotonic() + timeout_s)
            # What is returned ends where something is missing.
            text = (self._text() or self._text()) + self._decoder.decode(b"", final=True)
            self.forget()
            _sources.remove(self)
            return text

    def forget(self) -> None:
        """Close the file, and leave the descriptor to others."""
        if self.file is not None:
            self.file.close()
        if self.redirection is not None and not self.redirection.sources:
            self.redirection.close()
        self.file = self.redirection = None

    def hand_back(self, data: bytes) -> None:
        """Write something into the buffer of Python's own stream."""
        name = {1: "stdout", 2: "stderr"}[self.fd]
        for stream in (getattr(sys, name), getattr(sys, f"__{name}__")):
            with quietly():
                if stream.fileno() == self.fd:
                    stream.buffer.write(data)
                    return

    def _text(self) -> str:
        data, lost = b"", 0
        if self.file is not None and self._unreadable is None:
            try:
                data, lost = self.file.take()
            except OSError as error:
                self._unreadable = f"the file cannot be read: {error.strerror}"
        elif self.redirection is not None and self._records:
            data, lost = self.redirection.since(self._taken)
            self._taken += len(data) + lost
        self.lost += lost
        return self._decoder.decode(data, final=lost > 0)


class _Redirection:
    """A pipe or pseudo-terminal in the place of descriptors, and the process that copies from it.

    Args:
        fd: Descriptor that leads to the original destination.

    Raises:
        NotCapturableError: If no process can be started.
    """

    def __init__(self, fd: int) -> None:
        self.sources: list[DescriptorSource] = []
        self.broken: str | None = None
        self.original = self._reading = self._writing = self._memory = self._alive = -1
        self._size = b""
        self._restarts = 0
        try:
            self.original = _dup(fd)
            self._is_terminal = os.isatty(fd)
            ends = os.openpty() if self._is_terminal else os.pipe()
            self._reading, self._writing = map(_move, ends)
            if self._is_terminal:
                _look_alike(self._writing, self.original)
                self._follow_size()
            self._memory = _new_memory()
            self._copier = _copier.Copier(self._reading, self.original, self._memory)
            self._launch()
        except BaseException:
            self.close()
            raise

    # ---------------------------------------------------------------- who captures

    def includes(self, source: DescriptorSource) -> bool:
        """Return whether this is what a source captures."""
        if self.broken is not None:
            return False
        return _same_file(self._writing, source.fd) or (
            _same_file(self.original, source.fd)
            and all(each.folder == source.folder for each in self.sources)
        )

    def join(self, source: DescriptorSource) -> int:
        """Capture for a source; return how many bytes had been read before."""
        self.settle(time.monotonic() + _START_S if self.sources else 0.0)
        self.sources.append(source)
        if self not in _redirections:
            _redirections.append(self)
        os.dup2(self._writing, source.fd)
        return self._copier.numbers[_copier.READ]

    def remove(self, source: DescriptorSource, deadline: float) -> None:
        """Capture for a source no more; after the last one the original is back."""
        if all(each is source or each.fd != source.fd for each in self.sources):
            self._put_back(source.fd)
        self.settle(deadline)
        self.sources.remove(source)

    def settle(self, deadline: float) -> None:
        """Wait until what was written is where it went before."""
        idle = 0  # what is written to a terminal takes a moment to arrive
        self.attend()
        while self.broken is None and idle < 2 and time.monotonic() < deadline:  # noqa: PLR2004
            time.sleep(0.001)
            self.attend()
            busy = _is_ready(self._reading) or self._copier.numbers[_copier.BUSY]
            idle = 0 if busy else idle + 1

    def since(self, taken: int) -> tuple[bytes, int]:
        """Return what is new after so many bytes, or how many bytes are missing there."""
        numbers, ring = self._copier.numbers, self._copier.ring
        length = numbers[_copier.READ] - taken
        at = taken % _copier.CAPACITY
        data = bytes(ring[at : at + length])
        data += bytes(ring[: length - len(data)])
        # Where something else is written by now.
        lost = max(0, numbers[_copier.READ] + _copier.CHUNK - _copier.CAPACITY - taken)
        return (b"", lost) if lost else (data, 0)

    # ---------------------------------------------------------------- while it copies

    def attend(self) -> None:
        """Follow the size of the terminal, and replace a helper that is gone."""
        if self.broken is not None:
            self._copy_on()
        elif self._copier.numbers[_copier.BROKEN]:
            self._end_broken()
        elif _is_ready(self._alive):
            self._restart()
        elif self._is_terminal:
            self._follow_size()

    def _launch(self) -> None:
        if getattr(sys, "frozen", False) or not sys.executable:
            msg = "output cannot be captured at the descriptor: there is no Python to start"
            raise NotCapturableError(msg)
        started = False
        self._alive, alive = map(_move, os.pipe())
        try:
            if sys.executable not in _unstartable:
                given = (self._reading, self.original, self._memory, alive)
                helper = subprocess.Popen(  # noqa: S603 - this Python, on a file of ours
                    [sys.executable, "-I", "-S", _copier.__file__, *map(str, given)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=given,
                    start_new_session=True,
                    cwd="/",
                )
                started = _has_started(helper)
        finally:
            os.close(alive)
        if not started or os.read(self._alive, 1) != b"R":
            _unstartable.add(sys.executable)
            msg = f"output cannot be captured at the descriptor: {sys.executable} did not start"
            raise NotCapturableError(msg)

    def _restart(self) -> None:
        self._restarts += 1
        _close(self._alive)
        self._alive = -1
        try:
            if self._restarts <= _RESTARTS:
                self._launch()
                return
        except (OSError, subprocess.SubprocessError):
            _close(self._alive)
        self._copy_on()
        for fd in (1, 2):
            self._put_back(fd)
        self._copy_on()
        self.broken = _GONE

    def _end_broken(self) -> None:
        """Put the original back, which takes no more: whoever writes next learns of it."""
        for fd in (1, 2):
            self._put_back(fd)
        self.broken = "where the output went takes no more"
        for fd in (self._reading, self._alive):  # who waits for room in the pipe gets the error
            _close(fd)
        self._reading = self._alive = -1
        # Earlier writes of Python's seemed to succeed: it fails when it flushes its streams, at the
        # latest at exit.
        for source in self.sources[:1]:
            source.hand_back(b"\n")

    def _put_back(self, fd: int) -> None:
        """Put the original back, unless somebody put something else there."""
        with contextlib.suppress(OSError):
            if _same_file(fd, self._writing):
                os.dup2(self.original, fd)

    def _copy_on(self) -> None:
        """Show what is in the pipe, where no helper does."""
        if self._reading >= 0:
            with contextlib.suppress(OSError):
                self._copier.copy(0)

    def _follow_size(self) -> None:
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(self.original, termios.TIOCGWINSZ, bytes(8))
            if size != self._size:
                fcntl.ioctl(self._reading, termios.TIOCSWINSZ, size)
                self._size = size

    def close(self) -> None:
        """Let go of everything; what is being copied is copied on."""
        if self in _redirections:
            _redirections.remove(self)
        for fd in (self._reading, self._writing, self.original, self._memory, self._alive):
            _close(fd)
        self._reading = self._writing = self.original = self._memory = self._alive = -1


_lock = threading.RLock()  # a signal's handler may stop what is being stopped
_sources: list[DescriptorSource] = []
_redirections: list[_Redirection] = []


def _forget() -> None:
    """Leave a forked child with the descriptor alone: what keeps the helper alive is not its."""
    global _lock  # noqa: PLW0603 - the parent's may be held
    _lock = threading.RLock()
    for redirection in _redirections:
        redirection.sources.clear()
    for source in _sources:
        source.forget()
    _sources.clear()


fork.register(_forget)


# --------------------------------------------------------------------- descriptors


def _dup(fd: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY)


def _move(fd: int) -> int:
    try:
        return _dup(fd)
    finally:
        os.close(fd)


def _close(fd: int) -> None:
    if fd >= 0:
        with contextlib.suppress(OSError):
            os.close(fd)


def _can_seek(fd: int) -> bool:
    try:
        os.lseek(fd, 0, os.SEEK_CUR)
    except OSError:  # a pipe, a socket, a terminal
        return False
    return True


def _same_file(one: int, other: int) -> bool:
    return os.path.samestat(os.fstat(one), os.fstat(other))


def _is_ready(fd: int) -> bool:
    """Return whether there is something to read, or nobody left who writes."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def _look_alike(terminal: int, original: int) -> None:
    """Give a pseudo-terminal the attributes of a terminal, but let it change nothing."""
    attributes = termios.tcgetattr(original)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)


def _new_memory() -> int:
    """Return a new file without a name, in memory where the system has such files."""
    if hasattr(os, "memfd_create"):
        memory = _move(os.memfd_create("seamark-output"))
    else:
        with tempfile.TemporaryFile() as file:
            memory = _dup(file.fileno())
    os.truncate(memory, _copier.SIZE)
    return memory


def _has_started(helper: subprocess.Popen[bytes]) -> bool:
    """Wait until a helper copies in the background; else kill it, and what it started."""
    try:
        return helper.wait(_START_S) == 0
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError):
            os.killpg(helper.pid, signal.SIGKILL)
        helper.wait(_START_S)
        return False


@quietly()
def _flush() -> None:
    """Write what waits in the buffers of Python and C."""
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
