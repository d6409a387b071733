"""Output of C libraries, subprocesses and Python at file descriptors 1 and 2; on Linux.

A descriptor that leads to a regular file is left alone: what is appended is read there. Where it
leads to another device than a terminal (``/dev/null``), it is not captured here: Python asks a
stream once whether it can seek, and expects that to stay so.

Any other becomes the write end of a pipe, or, where it was a terminal, a pseudo-terminal with the
same attributes and size, without processing of its own: the real terminal does that, once. A helper
(`_copier`, another process) copies what arrives to a record, a file without a name that this
process reads, and from there to where the descriptor pointed before, byte for byte.

**No thread of this process reads the pipe.** C code that prints while it holds the GIL would wait
for a reader that waits for the GIL.

**If the helper is killed**, its parent, which waits for that, starts another one, which continues
at the same byte. This process holds the read end of the pipe as well, so that no writer gets
SIGPIPE or EPIPE on our account. If both are killed, or the original takes no more (the reader of
the pipe is gone), the next `DescriptorSource.take` puts the original back
(`DescriptorSource.broken`), and a thread shows the rest. A helper that was stopped is told to
continue.

**The record** keeps the last 16 MiB. What is not read in time is counted (`DescriptorSource.lost`)
and not recorded; it is shown anyway. It is no file in the run's folder: a network file system that
hangs would hold up what is shown, and nothing is left to clean up.

**Order.** Where fd 1 and 2 are the same terminal, pipe or file (``2>&1``), they share one helper,
since the person sees the order in which they are written; all of it is recorded as the output of
the first one. Separate helpers may be shifted against each other by the time it takes to copy.

**The end.** The helper copies until nobody holds the write end: it outlives a kill of the training,
and a child that goes on after the training is still shown.
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
from seamark.capture.output.source import Source
from seamark.process import fork
from seamark.process.interrupts import quietly

__all__ = ["DescriptorSource", "NotCapturableError"]

_MOST: Final = 8 << 20
# How long a helper that starts is waited for, in seconds; one that did not is not started again.
_START_S: Final = 3.0
# How long the original waits until what is in the pipe is shown, in seconds.
_TO_SHOW_S: Final = 0.3
# Milliseconds without anything to copy after which all is taken for copied.
_QUIET_MS: Final = 10
# More than the pipes and a pseudo-terminal hold: who goes on writing is not waited for.
_ON_ITS_WAY: Final = 1 << 18
_MEMORY: Final = "/dev/shm"  # noqa: S108 - for a file without a name
_OUT_OF_THE_WAY: Final = 10  # a descriptor 0, 1 or 2 that is closed stays so


class NotCapturableError(OSError):
    """Output cannot be captured at the descriptor here; the message says why, for people."""


class DescriptorSource(Source):
    """Source of the text that any process writes to one descriptor, 1 or 2, from `start` to `stop`.

    The text still reaches its original destination, unchanged. In a forked child the methods do
    nothing, and what the child writes is recorded by its parent. Of sources of the same run
    (``folder``) that lead to the same place, the first one gets all text.

    Attributes:
        lost: Number of bytes that could not be recorded so far. When it grows, the gap is at the
            end of what `take` or `stop` has just returned.
    """

    def __init__(self, fd: int, folder: Path) -> None:
        self.lost = 0
        self.fd, self.folder = fd, folder
        self.channel: _File | None = None
        self._mute = False
        self._unreadable: str | None = None
        self._at = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def broken(self) -> str | None:  # type: ignore[override]
        """Reason, in words, why nothing more is captured; None as long as something is."""
        if self.channel is None or self._mute:
            return None
        return self._unreadable or self.channel.broken

    def start(self) -> None:
        """Begin. What is in the buffers of Python and C goes out before.

        Raises:
            NotCapturableError: If it cannot be done here; then nothing has changed.
        """
        with _lock:
            if self.channel is not None:
                return
            _flush()
            try:
                self._unreadable = None
                self.channel = channel = _channel(self.fd)
                self._at = channel.end()
                channel.capture(self.fd)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                self._leave()
                msg = f"fd {self.fd} cannot be captured at the descriptor: {error}"
                raise NotCapturableError(msg) from error
            self._mute = any(
                other.channel is channel and other.folder == self.folder for other in _sources
            )
            _sources.append(self)

    def take(self) -> str:
        """Return the output since the last call. Never waits for a writer."""
        with _lock:
            if self.channel is None:
                return ""
            self.channel.attend()
            return self._text(self.channel)

    def settle(self, deadline: float) -> None:
        """Wait until all output has reached its original destination."""
        with _lock:
            if self.channel is not None:
                self.channel.settle(deadline)

    def stop(self, timeout_s: float = 2.0) -> str:
        """Put the original back, and return the rest.

        All that was written before is shown then; where the reader of a pipe takes nothing in time,
        it may be shown after what is written next. Children that still write are shown as long as
        they live, and recorded no more.
        """
        with _lock:
            if (channel := self.channel) is None:
                return ""
            deadline = time.monotonic() + timeout_s
            channel.settle(deadline)  # else the flush waits for room where nobody makes any
            _flush()
            _sources.remove(self)
            if all(other.channel is not channel or other.fd != self.fd for other in _sources):
                channel.put_back(self.fd)
            channel.settle(max(deadline, time.monotonic() + _TO_SHOW_S))
            text = self._text(channel, final=True)
            self._leave()
            return text

    def _leave(self) -> None:
        channel, self.channel = self.channel, None
        if channel is not None and all(other.channel is not channel for other in _sources):
            channel.close()

    def _text(self, channel: _File, *, final: bool = False) -> str:
        if self._mute or self._unreadable is not None:
            return ""
        try:
            data, lost = self._read(channel)
        except OSError as error:
            self._unreadable = f"the file cannot be read: {error.strerror}"
            return ""
        self.lost += lost
        text = self._decoder.decode(data, final or lost > 0)
        if final:
            self._decoder.reset()
        return text

    def _read(self, channel: _File) -> tuple[bytes, int]:
        """Return new output, and the number of bytes missing after it."""
        end = channel.end()
        at = min(self._at, end)  # somebody truncated the file, or went back in it
        data = os.pread(channel.reading, min(end - at, _MOST), at)
        if channel.forgotten() > at:
            data = b""
        self._at = end
        return data, end - at - len(data)


_lock = threading.RLock()  # a signal's handler may stop what is being stopped
_sources: list[DescriptorSource] = []


def _forget() -> None:
    """Keep only the descriptor in a forked child; the helper belongs to the parent."""
    global _lock  # noqa: PLW0603 - the parent's may be held
    _lock = threading.RLock()
    for source in _sources:
        if source.channel is not None:
            source.channel.close()
            source.channel = None
    _sources.clear()


fork.register(_forget)


def _channel(fd: int) -> _File:
    """Return what output at a descriptor is read from; the present one if it leads there."""
    found = os.fstat(fd)
    for source in _sources:
        channel = source.channel
        if channel is not None and channel.broken is None and channel.has(found):
            channel.settle(time.monotonic() + _START_S)
            return channel
    if stat.S_ISREG(found.st_mode):
        return _File(fd)
    if not (stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode) or os.isatty(fd)):
        msg = "it leads to a device that is no terminal"
        raise NotCapturableError(msg)
    return _Helper(fd)


class _File:
    """Regular file to which a descriptor leads; what any process adds to it is read there.

    Where the descriptor appends, the data ends with the file. Otherwise it ends at the position of
    the descriptor.
    """

    broken: str | None = None

    def __init__(self, fd: int) -> None:
        self._held: list[int] = []
        try:
            self.original = self._own(_dup(fd))
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        flags = os.O_RDONLY | os.O_CLOEXEC
        self.reading = self._own(_moved(os.open(f"/proc/self/fd/{self.original}", flags)))

    def has(self, found: os.stat_result) -> bool:
        """Return whether a descriptor with this status leads here."""
        return os.path.samestat(found, os.fstat(self.original))

    def end(self) -> int:
        """Return the position in the file where output ends."""
        if fcntl.fcntl(self.original, fcntl.F_GETFL) & os.O_APPEND:
            return os.fstat(self.reading).st_size
        return os.lseek(self.original, 0, os.SEEK_CUR)

    def forgotten(self) -> int:
        """Return the position before which output is not there any more."""
        return 0

    def capture(self, fd: int) -> None:
        """Redirect a descriptor to this channel."""

    def put_back(self, fd: int) -> None:
        """Restore a descriptor, unless other code has replaced it."""

    def attend(self) -> None:
        """Keep output going."""

    def settle(self, deadline: float) -> None:
        """Wait until all output is in the file."""

    def close(self) -> None:
        """Close all descriptors."""
        while self._held:
            os.close(self._held.pop())

    def _own(self, fd: int) -> int:
        self._held.append(fd)
        return fd

    def _release(self, fd: int) -> int:
        if fd in self._held:
            self._held.remove(fd)
            os.close(fd)
        return -1


class _Helper(_File):
    """Pipe or pseudo-terminal to which a descriptor leads, and the process that copies from it."""

    def _open(self) -> None:
        self._saved: dict[int, int] = {}
        self._terminal = self._feed = -1
        self.reading = self._own(_moved(_record()))
        self._source, self.writing = (self._own(_moved(fd)) for fd in os.pipe())
        if os.isatty(self.original):
            self._feed = self.writing
            self._terminal, self.writing = (self._own(_moved(fd)) for fd in os.openpty())
            attributes = termios.tcgetattr(self.original)
            attributes[1] &= ~termios.OPOST
            termios.tcsetattr(self.writing, termios.TCSANOW, attributes)
            size = fcntl.ioctl(self.original, termios.TIOCGWINSZ, bytes(8))
            fcntl.ioctl(self.writing, termios.TIOCSWINSZ, size)
        self._launch()

    def has(self, found: os.stat_result) -> bool:
        leads_here = self.writing >= 0 and os.path.samestat(found, os.fstat(self.writing))
        return leads_here or super().has(found)

    def end(self) -> int:
        return os.fstat(self.reading).st_size

    def forgotten(self) -> int:
        return _copier.forgotten(self.reading)

    def capture(self, fd: int) -> None:
        if fd not in self._saved:
            self._saved[fd] = self._own(_dup(fd))
            os.dup2(self.writing, fd)

    def put_back(self, fd: int) -> None:
        saved = self._saved.pop(fd, self.original)
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(fd), os.fstat(self.writing)):
                os.dup2(saved, fd)
        if not self._saved:
            self.writing = self._release(self.writing)

    def attend(self) -> None:
        """Give up where the helper was killed, or has ended as the original takes no more."""
        if self.broken is not None:
            return
        if not _poll(self._alive):
            if self._is_busy():  # it may be stopped, and writers would wait for ever
                with contextlib.suppress(OSError):
                    os.killpg(self._group, signal.SIGCONT)
            return
        if self.writing < 0 and self._has_no_writer() and not self._is_busy():
            self.broken = "everything is copied"
        elif _poll(self.original):
            self._give_up("where the output went takes no more")
        else:
            self._give_up("the process that copies it was killed")

    def settle(self, deadline: float) -> None:
        quiet, before = 0, os.lseek(self.reading, 0, os.SEEK_CUR)
        while quiet < _QUIET_MS and time.monotonic() < deadline:
            self.attend()
            copied = os.lseek(self.reading, 0, os.SEEK_CUR) - before
            ended = self.broken is not None and self._source < 0
            if ended or copied > _ON_ITS_WAY:
                return
            quiet = 0 if self._is_busy() else quiet + 1
            time.sleep(0.001)

    def _is_busy(self) -> bool:
        """Return whether something is not copied yet."""
        waits = _poll(self._terminal, select.POLLIN) | _poll(self._source, select.POLLIN)
        return bool(waits & select.POLLIN) or os.lseek(self.reading, 0, os.SEEK_CUR) < self.end()

    def _has_no_writer(self) -> bool:
        end = self._source if self._terminal < 0 else self._terminal
        return bool(_poll(end) & select.POLLHUP)

    def _launch(self) -> None:
        python = sys.executable
        impossible = getattr(sys, "frozen", False) or not hasattr(os, "splice") or not python
        code: int | None = -1
        if not impossible and python not in _unstartable:
            alive, theirs = map(_moved, os.pipe())
            self._alive = self._own(alive)
            given = (self._terminal, self._feed, self._source, self.reading, self.original)
            try:
                process = subprocess.Popen(  # noqa: S603 - this Python, on a file of ours
                    [python, "-I", "-S", str(_copier.__file__), *map(str, given)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[fd for fd in (*given, theirs) if fd >= 0],
                    start_new_session=True,
                    cwd="/",
                )
            finally:
                os.close(theirs)
            self._group = process.pid
            try:
                code = process.wait(_START_S)  # what copies is its grandchild
            except subprocess.TimeoutExpired:
                with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait(_TO_SHOW_S)
        if code != 0:
            _unstartable.add(python)
            msg = f"{python} did not start"
            raise NotCapturableError(msg)

    def _give_up(self, why: str) -> None:
        """Put the original back, and show the rest on a thread."""
        ends = (self._terminal, self._feed, self._source)
        given = [fd if fd < 0 else _dup(fd) for fd in (*ends, self.reading, self.original)]
        gone = bool(_poll(self.original))
        threading.Thread(target=_copy_here, args=given, name="seamark-fd", daemon=True).start()
        until = time.monotonic() + _TO_SHOW_S
        while self._is_busy() and time.monotonic() < until:
            time.sleep(0.001)
        for fd in list(self._saved):
            self.put_back(fd)
        if gone:  # who waits for room gets the error
            for fd in ends:
                self._release(fd)
            self._terminal = self._source = -1
        self.broken = why


# Pythons that did not start.
_unstartable: Final[set[str]] = set()


def _copy_here(*given: int) -> None:
    with contextlib.suppress(OSError):
        _copier.copy(*given)
    for fd in given:
        if fd >= 0:
            os.close(fd)


# --------------------------------------------------------------------- descriptors


def _dup(fd: int) -> int:
    """Return a further descriptor of an open file, above those of the standard streams."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY)


def _moved(fd: int) -> int:
    try:
        return _dup(fd)
    finally:
        os.close(fd)


def _poll(fd: int, events: int = 0) -> int:
    """Return what is true of a descriptor now; without events, whether its other end is gone."""
    poll = select.poll()
    if fd >= 0:
        poll.register(fd, events)
    return dict(poll.poll(0)).get(fd, 0)


def _record() -> int:
    """Return a new file without a name, in memory."""
    with contextlib.suppress(AttributeError, OSError):
        return os.memfd_create("seamark-output")
    with tempfile.TemporaryFile(dir=_MEMORY) as file:
        return os.dup(file.fileno())


@quietly()
def _flush() -> None:
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with quietly():
            if stream is not None:
                stream.flush()
    # Not fflush(NULL): that one waits for a thread that reads standard input.
    import ctypes

    library = ctypes.CDLL(None)
    for name in ("stdout", "stderr"):
        library.fflush(ctypes.c_void_p.in_dll(library, name))
