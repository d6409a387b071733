"""Output at the descriptor: what C libraries, subprocesses and Python write to fd 1 or 2.

A descriptor that leads to a regular file is left alone: what is appended is read there
(`AppendedFile`). What else can seek (``/dev/null``) is not captured here: a stream of Python's that
has found that it can does not bear to lose that.

Any other becomes the write end of a pipe, or, where it was a terminal, a pseudo-terminal with
the same attributes and size, without processing of its own: the real terminal does that, once. A
helper (`_copier`, another process) copies what arrives to where the descriptor pointed before, byte
for byte, and into a ring in memory that this process reads.

**No thread of this process reads the pipe.** C code that prints while it holds the GIL would wait
for a reader that waits for the GIL.

**What if the helper is killed?** It is two processes, each of which holds the read end and takes
note of the other's end without this process: the copying one is replaced by the waiting one and the
waiting one by the copying one, and copying goes on at the byte where it stopped (the kernel counts
the bytes of each process). This process holds the read end as well, so that nothing that writes
ever gets SIGPIPE or EPIPE on our account. Are both killed before one of them could replace the
other, then the next `DescriptorSource.take` puts the original back, copies what is in the pipe and
goes on doing so for children that still write to it; recording ends (`DescriptorSource.broken`).
What remains: the chunk that was in the hands of the helper (64 KiB at most) is lost then; what
several threads or processes write at that moment may be shown in another order, as one of them may
still write to the pipe when another one finds the original; and C code that fills the pipe while it
holds the GIL waits for ever if both are gone. Helpers that are stopped (SIGSTOP) are killed after
some two seconds in which nothing was copied though there was something, and room for it.

**The ring** is an anonymous file (in memory where the system has such files, else one in the
temporary folder that has no name any more) of some 8 MiB, and not a file in the run's folder: a
network file system that hangs would hold up what is shown on the screen, and nothing is left to
clean up whoever is killed. What finds no room in it is counted (`DescriptorSource.lost`) and not
recorded; on the screen it is shown anyway.

**Order.** Where fd 1 and 2 are the same terminal, pipe or open file (``2>&1``), and both are
captured by the same run, they share one helper, since the order in which they are written is what
the person sees; then all of it is recorded as the output of the first one. Nothing tells the bytes
apart. Separate helpers, and a stream that is not captured beside one that is, may be shifted
against each other by the time it takes to copy.

**The terminal.** A program that sets modes through fd 1, as curses does, sets those of the
pseudo-terminal; `DescriptorSource.take` and `stop` set in the terminal what has changed there, half
a second later. Whatever uses fd 0 or ``/dev/tty`` (readline, getpass, pdb) is not affected. The
size is followed in the other direction, and SIGWINCH sent when the new one is there.

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
import socket
import stat
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path
from typing import Any, Final

from seamark.capture.output import _copier
from seamark.capture.output.appended import AppendedFile
from seamark.capture.output.source import Source
from seamark.process import fork
from seamark.process.interrupts import quietly

__all__ = ["DescriptorSource", "NotCapturableError"]

_START_S: Final = 3.0
"""How long one that starts is waited for, in seconds; one that did not is not started again."""
_TO_END_S: Final = 1.0
_IN_VAIN: Final = 4
_IN_VAIN_S: Final = 1.7
"""How often, and for how long, nothing has moved until the helper is given up."""
_OUT_OF_THE_WAY: Final = 10  # a descriptor 0, 1 or 2 that is closed stays so
_AT_ONCE: Final = 1 << 16
_EMPTY_MS: Final = 2
_COPYING_ON_S: Final = 2.0

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
        folder: Folder of the run; sources of the same run may share a helper.

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
        self.helper: _Helper | None = None
        self._file: AppendedFile | None = None
        self._unreadable: str | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def broken(self) -> str | None:
        """Reason, in words, why nothing more is captured; None as long as something is."""
        return self.helper.broken if self.helper else self._unreadable

    @property
    def shared(self) -> bool:
        """Whether what is written here is recorded as the output of the other descriptor."""
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
        """Return what was written since the last call. Never waits for a writer."""
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

        All that was written before is shown then. Children that still write are shown as long as
        they live, and recorded no more.

        Args:
            timeout_s: The longest time to wait for that, in seconds: where the reader of a pipe
                takes nothing, what was written before may be shown after what is written next.
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
        helper = self._neighbour() or _Helper(self._fd)
        sources = _stacks.setdefault(self._fd, [])
        try:
            self.original = _dup(self._fd)
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

    def _neighbour(self) -> _Helper | None:
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
        """Wait until what was written is where it went before."""
        if self.helper is not None:
            with self.helper.lock:
                self.helper.order(b"D", deadline)

    def put_back(self, helper: _Helper) -> None:
        """Put the original back, unless somebody put something else there."""
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
        """Close what is not needed any more."""
        _close(self.original)
        self.original = -1

    def _text(self, helper: _Helper, *, final: bool = False) -> str:
        if helper.sources[:1] != [self]:
            return ""
        data, lost = helper.take()
        self.lost += lost
        text = self._decoder.decode(data, final or lost > 0)
        if final:
            self._decoder.reset()
        return text


class _Helper:
    """The processes that copy, as this process sees them.

    Raises:
        NotCapturableError: If they cannot be started.
    """

    def __init__(self, fd: int) -> None:
        self.pid = os.getpid()
        self.lock = threading.RLock()
        self.sources: list[DescriptorSource] = []
        self.broken: str | None = None
        self.closed = False
        self.reading = self.writing = self._original = self._ring = -1
        self._control: socket.socket | None = None
        self._group = 0
        self._waiting = 0  # pid of the process that waits for the copying one
        self._owed = 0  # answers
        self._taken = self._told = 0
        self._size = b""
        self._modes: list[Any] = []
        self._seen = (-1, 0, 0.0)  # bytes that were copied, how often that was found, and since
        try:
            self._original = _dup(fd)
            self._terminal = os.isatty(fd)
            self.reading, self.writing = map(_moved, os.openpty() if self._terminal else os.pipe())
            if self._terminal:
                _look_alike(self.writing, self._original)
                self._modes = termios.tcgetattr(self.writing)
                self._follow_size()
            self._ring = _ring()
            self._launch()
        except BaseException:
            self.close()
            raise
        _helpers.add(self)

    def _launch(self) -> None:
        file = Path(_copier.__file__)
        if getattr(sys, "frozen", False) or not sys.executable or not file.is_file():
            msg = "output cannot be captured at the descriptor: there is no Python to start"
            raise NotCapturableError(msg)
        if sys.executable in _unstartable:
            raise NotCapturableError(_no_start())
        ours, theirs = socket.socketpair()
        try:
            given = (self.reading, self._original, _moved(theirs.detach()), self._ring)
            try:
                helper = subprocess.Popen(  # noqa: S603 - this Python, on a file of ours
                    [sys.executable, "-I", "-S", str(file), *map(str, given)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=given,
                    start_new_session=True,
                    cwd="/",
                )
            finally:
                _close(given[2])
            until = time.monotonic() + _START_S
            answer = _answer(ours)
            if not answer:
                _end(helper)
            helper.wait(max(0.1, until - time.monotonic()))  # what copies is its grandchild
        except subprocess.TimeoutExpired:
            answer = b""
            _end(helper)
            helper.returncode = -signal.SIGKILL  # it hangs in the kernel; nobody waits for it
        except BaseException:
            ours.close()
            raise
        if not answer:
            ours.close()
            _unstartable.add(sys.executable)
            raise NotCapturableError(_no_start())
        self._group = helper.pid
        self._waiting = int.from_bytes(answer[1:], "little")
        self._control = ours

    # ---------------------------------------------------------------- while it copies

    def attend(self) -> None:
        """Follow the size of the terminal, and see whether the helper is well."""
        if self.broken is None:
            self._follow_size()
            self._follow_modes()
            self._kill_stopped()
            self._read_answers(0.0)
        else:
            self._copy_on()

    def take(self) -> tuple[bytes, int]:
        """Return what is new, and how many bytes are missing after it."""
        if self._ring < 0:
            return b"", 0
        numbers = os.pread(self._ring, 16, 0)
        put, left_out = _number(numbers, 0), _number(numbers, 8)
        length = put - self._taken
        at = self._taken % _copier.CAPACITY
        until_end = min(length, _copier.CAPACITY - at)
        data = os.pread(self._ring, until_end, _copier.DATA + at)
        if length > until_end:
            data += os.pread(self._ring, length - until_end, _copier.DATA)
        lost = left_out - self._told
        if length or lost:
            self._taken, self._told = put, left_out
            os.pwrite(self._ring, numbers, 16)
        return data, lost

    def order(self, order: bytes, deadline: float) -> None:
        """Give an order, and wait for the answer."""
        if self.broken is not None or self._control is None:
            return
        try:
            self._control.send(order, _NO_SIGNAL)
        except OSError:
            self._read_answers(0.0)  # why, is said there
            return
        self._owed += 1
        while self._owed and self.broken is None and (left := deadline - time.monotonic()) > 0:
            self._read_answers(left)

    def end(self, deadline: float) -> None:
        """Wait until all is copied that was written, and let the helper end when nobody writes."""
        self._follow_modes()
        _close(self.writing)
        self.writing = -1
        if self.broken is None:
            self.order(b"S", deadline)
        if self.broken is not None:
            self._copy_on()  # nothing is left, unless the helper was killed

    def _read_answers(self, timeout_s: float) -> None:
        """Take note of what the helper says within that time."""
        if self._control is None:
            return
        try:
            self._control.settimeout(timeout_s)
            said = self._control.recv(64)
        except (BlockingIOError, TimeoutError):
            return
        except OSError:
            said = b""
        self._owed -= said.count(b"d")
        if not said and self.writing >= 0:
            self._copy_on(_EMPTY_MS)
            self._put_back()
            self._copy_on(_EMPTY_MS)
            self.broken = "the process that copied the output is gone"
        elif not said:
            self.broken = "everything is copied"
            self._reap()
        if b"E" in said:
            self._put_back()
            self.broken = "where the output went takes no more"
            with contextlib.suppress(OSError):
                self._control.send(b"Q", _NO_SIGNAL)
            _close(self.reading)  # who waits for room in the pipe gets the error
            self.reading = -1
            self._hand_back()

    @quietly()
    def _hand_back(self) -> None:
        """Put output that was not shown back into Python's buffer, so that Python gets the error.

        It gets the error when it flushes its streams, at the latest at exit; all earlier writes
        seemed to succeed. The last bytes are enough, because the original destination accepts
        nothing more.
        """
        put = _number(os.pread(self._ring, 8, 0), 0)
        length = min(put, 64)
        data = os.pread(self._ring, length, _copier.DATA + (put - length) % _copier.CAPACITY)
        for source in self.sources[:1]:
            source.hand_back(data or b"\n")

    def _put_back(self) -> None:
        for source in self.sources:
            source.put_back(self)

    def _copy_on(self, empty_ms: int = 0) -> None:
        """Copy what is in the pipe, where nobody else does.

        Args:
            empty_ms: How long it must have been empty, in milliseconds.
        """
        if self.reading < 0:
            return
        poll = select.poll()
        poll.register(self.reading, select.POLLIN)
        until = time.monotonic() + _COPYING_ON_S
        with contextlib.suppress(OSError):
            while dict(poll.poll(empty_ms)).get(self.reading, 0) & select.POLLIN:
                data = os.read(self.reading, _AT_ONCE)
                while data:
                    data = data[os.write(self._original, data) :]
                if time.monotonic() > until:
                    break

    def _follow_size(self) -> None:
        if not self._terminal:
            return
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(self._original, termios.TIOCGWINSZ, bytes(8))
            if size != self._size:
                fcntl.ioctl(self.reading, termios.TIOCSWINSZ, size)
                known, self._size = self._size, size
                # The terminal has sent it already, when the new size could not be seen here.
                if known and callable(signal.getsignal(signal.SIGWINCH)):
                    os.kill(os.getpid(), signal.SIGWINCH)

    def _follow_modes(self) -> None:
        """Set in the terminal what somebody has changed in ours."""
        if not self._terminal or self.writing < 0:
            return
        with contextlib.suppress(OSError, termios.error):
            modes = termios.tcgetattr(self.writing)
            if modes == self._modes or _in_background(self._original):
                return
            known, self._modes = self._modes, modes
            theirs = termios.tcgetattr(self._original)
            for field in range(4):  # of flags
                changed = modes[field] ^ known[field]
                theirs[field] = (theirs[field] & ~changed) | (modes[field] & changed)
            for key, character in enumerate(modes[6]):
                if character != known[6][key]:
                    theirs[6][key] = character
            termios.tcsetattr(self._original, termios.TCSANOW, theirs)

    def _kill_stopped(self) -> None:
        """Kill helpers that were stopped: they copy nothing, and whoever prints waits for ever."""
        numbers = os.pread(self._ring, 16, 0)
        copied, times, since = self._seen
        now = _number(numbers, 0) + _number(numbers, 8)
        poll = select.poll()
        poll.register(self.reading, select.POLLIN)
        poll.register(self._original, select.POLLOUT)
        ready = dict(poll.poll(0))
        waits = ready.get(self.reading, 0) & select.POLLIN
        hangs = waits and ready.get(self._original, 0) & select.POLLOUT
        moment = time.monotonic()
        if not hangs or now != copied:
            self._seen = (now, 0, moment)
            return
        self._seen = (now, times + 1, since)
        # Not by the clock alone: this process may have been stopped with them.
        if times + 1 >= _IN_VAIN and moment - since >= _IN_VAIN_S:
            with contextlib.suppress(OSError):
                os.killpg(self._group, signal.SIGKILL)
            if self._control is not None:
                self._read_answers(_TO_END_S)

    def _reap(self) -> None:
        # Who is the first process of a container inherits what it started through another one.
        if os.getpid() == 1 and self._waiting > 1:
            with contextlib.suppress(OSError):
                os.waitpid(self._waiting, 0)

    def close(self) -> None:
        """Let go of everything; what is being copied is copied on."""
        self.closed = True
        _helpers.discard(self)
        if self._control is not None:
            self._control.close()
        for fd in (self.reading, self.writing, self._original, self._ring):
            _close(fd)
        self.reading = self.writing = self._original = self._ring = -1


_lock = threading.RLock()  # a signal's handler may stop what is being stopped
_stacks: dict[int, list[DescriptorSource]] = {}
"""By descriptor: who captures it, the one whose helper it leads to last."""
_files: list[DescriptorSource] = []
"""Those whose descriptor leads to a file."""
_helpers: set[_Helper] = set()
_NO_SIGNAL: Final = getattr(socket, "MSG_NOSIGNAL", 0)


def _forget() -> None:
    """Leave a forked child with the descriptor alone: what keeps the helper alive is not its."""
    global _lock  # noqa: PLW0603 - the parent's may be held
    _lock = threading.RLock()
    for sources in _stacks.values():
        for source in sources:
            source.forget()
    for source in _files:
        source.forget_file()
    for helper in list(_helpers):
        helper.close()
    _stacks.clear()
    _files.clear()


fork.register(_forget)


# --------------------------------------------------------------------- descriptors


def _dup(fd: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY)


def _moved(fd: int) -> int:
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


def _in_background(terminal: int) -> bool:
    """Return whether this process would be stopped if it changed the terminal."""
    try:
        return os.tcgetpgrp(terminal) != os.getpgrp()
    except OSError:  # it is not the one that controls this process
        return False


def _look_alike(terminal: int, original: int) -> None:
    """Give a pseudo-terminal the attributes of a terminal, but let it change nothing."""
    attributes = termios.tcgetattr(original)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)


def _ring() -> int:
    """Return a new file without a name, of the ring's size."""
    if hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):
            ring = _moved(os.memfd_create("seamark-output"))
            os.truncate(ring, _copier.DATA + _copier.CAPACITY)
            return ring
    with tempfile.TemporaryFile() as file:
        file.truncate(_copier.DATA + _copier.CAPACITY)
        return _dup(file.fileno())


def _no_start() -> str:
    return f"output cannot be captured at the descriptor: {sys.executable} did not start"


def _end(helper: subprocess.Popen[bytes]) -> None:
    """Kill a helper that does not start, and what it started."""
    with quietly(only=OSError):
        os.killpg(helper.pid, signal.SIGKILL)


def _answer(control: socket.socket) -> bytes:
    """Return what a helper says first; nothing if it says something else, or nothing in time."""
    control.settimeout(_START_S)
    try:
        answer = control.recv(5, socket.MSG_WAITALL)
    except OSError:
        return b""
    return answer if answer[:1] == b"R" and len(answer) == 5 else b""  # noqa: PLR2004


def _number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


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
