"""Capture of all output at file descriptors 1 and 2, on Linux.

This includes output of C libraries, subprocesses and Python. A descriptor of a regular file is not
changed: appended data is read from the file. Devices other than terminals (``/dev/null``) are not
captured, because Python checks once whether a stream is seekable and relies on the result.

Other descriptors are replaced by the write end of a pipe. A terminal is replaced by a
pseudo-terminal with the same attributes and size but without output processing, which the real
terminal does. A helper process (`_copier`) copies the output to a record (an unnamed file that this
process reads), and from there unchanged to the original destination.

**No thread of this process reads the pipe**, because C code that prints while it holds the GIL
would wait for a reader that waits for the GIL.

**If the helper is killed**, its parent starts another one, which continues at the same byte. This
process also holds the read end of the pipe, so that writers do not get SIGPIPE or EPIPE. If both
are killed, the next `DescriptorSource.take` starts them again. If the original accepts no more data
(its reader has ended), or the new ones end too without showing anything, it restores the original
(`DescriptorSource.broken`). A stopped helper is sent SIGCONT.

**The record** keeps the last 16 MiB. Bytes that are not read in time are counted
(`DescriptorSource.lost`) and not recorded, but shown. The record is not a file in the run's folder,
because a hanging network file system would delay the output. There is also nothing to delete later.

**Order.** If fd 1 and 2 are the same terminal, pipe or file (``2>&1``), they share one helper, so
that the order of their output is kept; all of it is recorded as output of the first one. With
separate helpers, the outputs may be shifted against each other by the time of copying.

**End.** The helper copies until the write end has no holder. It survives a kill of the training,
and still shows the output of a child that outlives the training.
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

_MAX_READ_BYTES: Final = 8 << 20
# Maximum time to wait for the start of a helper, in seconds; after a failure it is not retried.
_START_TIMEOUT_S: Final = 3.0
# Maximum time to wait until the content of the pipe is shown, in seconds.
_SHOW_TIMEOUT_S: Final = 0.3
# Time without new data after which everything counts as copied, in milliseconds.
_QUIET_MS: Final = 10
# More than the pipes and a pseudo-terminal hold, in bytes: do not wait for continuous writers.
_MAX_IN_TRANSIT: Final = 1 << 18
_MEMORY_FOLDER: Final = "/dev/shm"  # noqa: S108 - for an unnamed file
_MIN_DESCRIPTOR: Final = 10  # closed descriptors 0, 1 and 2 stay closed


class NotCapturableError(OSError):
    """Output cannot be captured at the descriptor; the message is the reason."""


class DescriptorSource(Source):
    """Source of the text that any process writes to one descriptor, 1 or 2, from `start` to `stop`.

    The text still reaches its original destination unchanged. In a forked child the methods do
    nothing, and the child's output is recorded by its parent. If several sources of a run
    (``folder``) have the same destination, the first one gets all text.

    Attributes:
        lost: Number of bytes that were not recorded so far. If it has increased, the gap is at the
            end of the text that `take` or `stop` just returned.
    """

    def __init__(self, fd: int, folder: Path) -> None:
        self.lost = 0
        self.fd, self.folder = fd, folder
        self.channel: _File | None = None
        self._is_duplicate = False
        self._at = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def broken(self) -> str | None:  # type: ignore[override]
        """Reason why capturing has ended, or None."""
        return None if self.channel is None or self._is_duplicate else self.channel.broken

    def start(self) -> None:
        """Start capturing, after flushing the buffers of Python and C.

        Raises:
            NotCapturableError: If the output cannot be captured; nothing is changed in this case.
        """
        with _lock:
            if self.channel is not None:
                return
            _flush_buffers()
            try:
                self.channel = channel = _open_channel(self.fd)
                self._at = channel.end()
                channel.capture(self.fd)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                self._close_channel()
                raise NotCapturableError(
                    f"fd {self.fd} cannot be captured at the descriptor: {error}"
                ) from error
            self._is_duplicate = any(
                other.channel is channel and other.folder == self.folder for other in _sources
            )
            _sources.append(self)

    def take(self) -> str:
        """Return the output since the last call. Never waits for a writer."""
        with _lock:
            if self.channel is None:
                return ""
            self.channel.check()
            return self._decode(self.channel)

    def settle(self, deadline: float) -> None:
        """Wait until all output has reached its original destination."""
        with _lock:
            if self.channel is not None:
                self.channel.settle(deadline)

    def stop(self, timeout_s: float = 2.0) -> str:
        """Restore the original descriptor, and return the remaining output.

        All earlier output has been shown when this returns. If the reader of a pipe is too slow,
        earlier output may follow later output. Output of children that still write is shown, but no
        longer recorded.
        """
        with _lock:
            if (channel := self.channel) is None:
                return ""
            deadline = time.monotonic() + timeout_s
            channel.settle(deadline)  # otherwise the flush may wait for a full pipe
            _flush_buffers()
            _sources.remove(self)
            if all(other.channel is not channel or other.fd != self.fd for other in _sources):
                channel.restore(self.fd)
            channel.settle(max(deadline, time.monotonic() + _SHOW_TIMEOUT_S))
            text = self._decode(channel, final=True)
            self._close_channel()
            return text

    def _close_channel(self) -> None:
        channel, self.channel = self.channel, None
        if channel is not None and all(other.channel is not channel for other in _sources):
            channel.close()

    def _decode(self, channel: _File, *, final: bool = False) -> str:
        if self._is_duplicate:
            return ""
        try:
            end = channel.end()
            at = min(self._at, end)  # the file was truncated, or its position moved back
            data = os.pread(channel.reading, min(end - at, _MAX_READ_BYTES), at)
        except OSError as error:
            channel.broken = f"the file cannot be read: {error.strerror}"
            return ""
        if channel.released_end() > at:
            data = b""
        self._at = end
        lost = end - at - len(data)
        self.lost += lost
        return self._decoder.decode(data, final or lost > 0)


_lock = threading.RLock()  # reentrant, because a signal handler may call `stop` during `stop`
_sources: list[DescriptorSource] = []


def _reset_sources() -> None:
    """Keep only the descriptor in a forked child; the helper belongs to the parent."""
    global _lock  # noqa: PLW0603 - the parent's lock may be held
    _lock = threading.RLock()
    for source in _sources:
        if source.channel is not None:
            source.channel.close()
            source.channel = None
    _sources.clear()


fork.register(_reset_sources)


def _open_channel(fd: int) -> _File:
    """Return the channel for a descriptor; an existing one if the destination is the same."""
    found = os.fstat(fd)
    for source in _sources:
        channel = source.channel
        if channel is not None and channel.broken is None and channel.leads_to(found):
            channel.settle(time.monotonic() + _START_TIMEOUT_S)
            return channel
    if stat.S_ISREG(found.st_mode):
        return _File(fd)
    if not (stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode) or os.isatty(fd)):
        raise NotCapturableError("it refers to a device that is not a terminal")
    return _Helper(fd)


class _File:
    """Regular file of a descriptor, from which new data of all processes is read.

    If the descriptor appends, the data ends at the end of the file, otherwise at the position of
    the descriptor.
    """

    broken: str | None = None

    def __init__(self, fd: int) -> None:
        self._descriptors: list[int] = []
        try:
            self.original = self._adopt(_dup(fd))
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        flags = os.O_RDONLY | os.O_CLOEXEC
        self.reading = self._adopt(_move_up(os.open(f"/proc/self/fd/{self.original}", flags)))

    def leads_to(self, found: os.stat_result) -> bool:
        """Return whether a descriptor with this status refers to this channel."""
        return os.path.samestat(found, os.fstat(self.original))

    def end(self) -> int:
        """Return the position of the end of output in the file."""
        if fcntl.fcntl(self.original, fcntl.F_GETFL) & os.O_APPEND:
            return os.fstat(self.reading).st_size
        return os.lseek(self.original, 0, os.SEEK_CUR)

    def released_end(self) -> int:
        """Return the position before which output may have been released."""
        return 0

    def capture(self, fd: int) -> None:
        """Redirect a descriptor to this channel."""

    def restore(self, fd: int) -> None:
        """Restore a descriptor, unless other code has replaced it."""

    def check(self) -> None:
        """Check that output is still copied."""

    def settle(self, deadline: float) -> None:
        """Wait until all output is in the file."""

    def close(self) -> None:
        """Close all descriptors."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    def _adopt(self, fd: int) -> int:
        self._descriptors.append(fd)
        return fd

    def _release(self, fd: int) -> int:
        if fd in self._descriptors:
            self._descriptors.remove(fd)
            os.close(fd)
        return -1


class _Helper(_File):
    """Pipe or pseudo-terminal in place of a descriptor, with the process that copies its output."""

    def _open(self) -> None:
        self._saved: dict[int, int] = {}
        self._terminal = self._feed = self._alive = -1
        self._shown_at_restart = -1
        self.reading = self._adopt(_move_up(_create_record()))
        self._source, self.writing = (self._adopt(_move_up(fd)) for fd in os.pipe())
        if os.isatty(self.original):
            self._feed = self.writing
            self._terminal, self.writing = (self._adopt(_move_up(fd)) for fd in os.openpty())
            attributes = termios.tcgetattr(self.original)
            attributes[1] &= ~termios.OPOST
            termios.tcsetattr(self.writing, termios.TCSANOW, attributes)
            size = fcntl.ioctl(self.original, termios.TIOCGWINSZ, bytes(8))
            fcntl.ioctl(self.writing, termios.TIOCSWINSZ, size)
        self._launch()

    def leads_to(self, found: os.stat_result) -> bool:
        leads_here = self.writing >= 0 and os.path.samestat(found, os.fstat(self.writing))
        return leads_here or super().leads_to(found)

    def end(self) -> int:
        return os.fstat(self.reading).st_size

    def released_end(self) -> int:
        return _copier.released_end(self.reading)

    def capture(self, fd: int) -> None:
        if fd not in self._saved:
            self._saved[fd] = self._adopt(_dup(fd))
            os.dup2(self.writing, fd)

    def restore(self, fd: int) -> None:
        saved = self._saved.pop(fd, self.original)
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(fd), os.fstat(self.writing)):
                os.dup2(saved, fd)
        if not self._saved:
            self.writing = self._release(self.writing)

    def check(self) -> None:
        """Start another helper if it was killed; stop if the original accepts no more data."""
        if self.broken is not None:
            return
        if not _poll(self._alive):
            if self._is_busy():  # a stopped helper would block writers forever
                with contextlib.suppress(OSError):
                    os.killpg(self._group, signal.SIGCONT)
        elif _poll(self.original):
            self._give_up("its destination accepts no more output")
        elif self._is_busy() or not self._has_no_writer():
            try:
                self._restart()
            except (OSError, subprocess.SubprocessError):
                self._give_up("the process that copies it was killed")

    def settle(self, deadline: float) -> None:
        quiet, before = 0, os.lseek(self.reading, 0, os.SEEK_CUR)
        while quiet < _QUIET_MS and time.monotonic() < deadline:
            self.check()
            copied = os.lseek(self.reading, 0, os.SEEK_CUR) - before
            if self.broken is not None or copied > _MAX_IN_TRANSIT:
                return
            quiet = 0 if self._is_busy() else quiet + 1
            time.sleep(0.001)

    def _is_busy(self) -> bool:
        """Return whether data is waiting to be copied."""
        waits = _poll(self._terminal, select.POLLIN) | _poll(self._source, select.POLLIN)
        return bool(waits & select.POLLIN) or os.lseek(self.reading, 0, os.SEEK_CUR) < self.end()

    def _has_no_writer(self) -> bool:
        end = self._source if self._terminal < 0 else self._terminal
        return bool(_poll(end) & select.POLLHUP)

    def _restart(self) -> None:
        """Start another helper, unless the previous restart helped nothing."""
        shown = os.lseek(self.reading, 0, os.SEEK_CUR)
        if shown == self._shown_at_restart:
            raise NotCapturableError("no output was shown since the last restart")
        self._shown_at_restart = shown
        self._launch()

    def _launch(self) -> None:
        python = sys.executable
        impossible = not python or getattr(sys, "frozen", False) or not hasattr(os, "splice")
        if impossible or python in _failed_pythons:
            raise NotCapturableError("no process can be started for it here")
        self._release(self._alive)
        self._alive, child_end = map(_move_up, os.pipe())
        self._adopt(self._alive)
        descriptors = (self._terminal, self._feed, self._source, self.reading, self.original)
        try:
            process = subprocess.Popen(  # noqa: S603 - this Python with a file of this package
                [python, "-I", "-S", str(_copier.__file__), *map(str, descriptors)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[fd for fd in (*descriptors, child_end) if fd >= 0],
                start_new_session=True,
                cwd="/",
            )
        finally:
            os.close(child_end)
        self._group = process.pid
        code: int | None = None
        try:
            code = process.wait(_START_TIMEOUT_S)  # the copying process is its grandchild
        except subprocess.TimeoutExpired:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_SHOW_TIMEOUT_S)
        if code != 0:
            _failed_pythons.add(python)
            raise NotCapturableError(f"{python} did not start")

    def _give_up(self, why: str) -> None:
        """Restore the original; blocked writers get an error."""
        self.broken = why
        for fd in list(self._saved):
            self.restore(fd)
        self._terminal, self._feed, self._source = map(
            self._release, (self._terminal, self._feed, self._source)
        )


# Python executables that failed to start: another attempt might block as long.
_failed_pythons: Final[set[str]] = set()


# --------------------------------------------------------------------- descriptors


def _dup(fd: int) -> int:
    """Duplicate a descriptor, above those of the standard streams."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _MIN_DESCRIPTOR)


def _move_up(fd: int) -> int:
    try:
        return _dup(fd)
    finally:
        os.close(fd)


def _poll(fd: int, events: int = 0) -> int:
    """Return the current events of a descriptor; without ``events``, only errors and hang-ups."""
    poll = select.poll()
    if fd >= 0:
        poll.register(fd, events)
    return dict(poll.poll(0)).get(fd, 0)


def _create_record() -> int:
    """Return the descriptor of a new unnamed file in memory."""
    with contextlib.suppress(AttributeError, OSError):
        return os.memfd_create("seamark-output")
    with tempfile.TemporaryFile(dir=_MEMORY_FOLDER) as file:
        return os.dup(file.fileno())


@quietly()
def _flush_buffers() -> None:
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with quietly():
            if stream is not None:
                stream.flush()
    # Not fflush(NULL), which waits for a thread that reads standard input.
    import ctypes

    library = ctypes.CDLL(None)
    for name in ("stdout", "stderr"):
        library.fflush(ctypes.c_void_p.in_dll(library, name))
