"""The helper of output at the descriptor: the processes that copy, as this process sees them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path
from typing import Any, Final, Protocol

from seamark.capture.output import _copier
from seamark.process.interrupts import quietly

__all__ = ["Helper", "NotCapturableError", "close", "close_all", "dup"]

# How long one that starts is waited for, in seconds; one that did not is not started again.
_START_S: Final = 3.0
_TO_END_S: Final = 1.0
_IN_VAIN: Final = 4
# How often, and for how long, nothing has moved until the helper is given up.
_IN_VAIN_S: Final = 1.7
_OUT_OF_THE_WAY: Final = 10  # a descriptor 0, 1 or 2 that is closed stays so
_AT_ONCE: Final = 1 << 16
_EMPTY_MS: Final = 2
_COPYING_ON_S: Final = 2.0

# Pythons that did not start.
_unstartable: Final[set[str]] = set()
_NO_SIGNAL: Final = getattr(socket, "MSG_NOSIGNAL", 0)

_helpers: set[Helper] = set()


class NotCapturableError(OSError):
    """Output cannot be captured at the descriptor here; the message says why, for people."""


class Captured(Protocol):
    """A descriptor whose output a helper copies."""

    def put_back(self, helper: Helper) -> None:
        """Put the original back."""

    def hand_back(self, data: bytes) -> None:
        """Write into the buffer of Python's own stream."""


class Helper:
    """The processes that copy, as this process sees them; raises `NotCapturableError` without."""

    def __init__(self, fd: int) -> None:
        self.pid = os.getpid()
        self.lock = threading.RLock()
        self.sources: list[Captured] = []
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
            self._original = dup(fd)
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
                close(given[2])
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
        """Return new output, and the number of bytes missing after it."""
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
        close(self.writing)
        self.writing = -1
        if self.broken is None:
            self.order(b"S", deadline)
        if self.broken is not None:
            self._copy_on()  # nothing is left, unless the helper was killed

    def _read_answers(self, timeout_s: float) -> None:
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
            close(self.reading)  # who waits for room in the pipe gets the error
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
        """Copy what is in the pipe, where nobody else does, until it was empty so long."""
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
        """Copy changed settings of the pseudo-terminal to the terminal."""
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
        """Kill stopped helpers: they copy nothing, so writers would wait for ever."""
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
        """Release everything; output in transit is still copied."""
        self.closed = True
        _helpers.discard(self)
        if self._control is not None:
            self._control.close()
        for fd in (self.reading, self.writing, self._original, self._ring):
            close(fd)
        self.reading = self.writing = self._original = self._ring = -1


def close_all() -> None:
    """Let go of all helpers, in a forked child."""
    for helper in list(_helpers):
        helper.close()


# --------------------------------------------------------------------- descriptors


def dup(fd: int) -> int:
    """Return a further descriptor of an open file, above those of the standard streams."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY)


def _moved(fd: int) -> int:
    try:
        return dup(fd)
    finally:
        os.close(fd)


def close(fd: int) -> None:
    """Close a descriptor; nothing for -1."""
    if fd >= 0:
        with contextlib.suppress(OSError):
            os.close(fd)


def _in_background(terminal: int) -> bool:
    """Return whether this process would be stopped if it changed the terminal."""
    try:
        return os.tcgetpgrp(terminal) != os.getpgrp()
    except OSError:  # it is not the one that controls this process
        return False


def _look_alike(terminal: int, original: int) -> None:
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
        return dup(file.fileno())


def _no_start() -> str:
    return f"output cannot be captured at the descriptor: {sys.executable} did not start"


def _end(helper: subprocess.Popen[bytes]) -> None:
    """Kill a helper that does not start, and its child processes."""
    with quietly(only=OSError):
        os.killpg(helper.pid, signal.SIGKILL)


def _answer(control: socket.socket) -> bytes:
    """Return the first message of a helper; empty if it is invalid or late."""
    control.settimeout(_START_S)
    try:
        answer = control.recv(5, socket.MSG_WAITALL)
    except OSError:
        return b""
    return answer if answer[:1] == b"R" and len(answer) == 5 else b""  # noqa: PLR2004


def _number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")
