"""Process that copies output to its original destination and to a ring buffer.

Run as a file, ``python -I -S _copier.py SOURCE ORIGINAL CONTROL RING``, where the four are
descriptors; see `seamark.capture.output.descriptor`, which starts it. Imports next to nothing, and
nothing of seamark.

There are two processes. One copies. The other one waits for its end, and when that was no ordinary
one it starts the next, which goes on at the byte where the last one was killed: what has been read
lies in memory that both share, and how much of a chunk was read and shown the kernel knows, which
counts the bytes of each process (``/proc/PID/io``) until the process is reaped. Without that count
(no Linux) a chunk may be shown twice in part. When the waiting one is killed, the copying one takes
its place and starts another.

SOURCE is where the output arrives: the read end of a pipe, or the master of a pseudo-terminal. The
end of it is the end of this process: all that wrote to it are gone then.

CONTROL, a socket, takes one byte per order and gives one per answer:

* ``R`` is sent at the beginning, with 4 bytes for the pid of the waiting process: ready.
* ``D``: copy what is waiting now, then answer ``d``.
* ``S``: the same, and record nothing more.
* ``Q``: end at once.
* ``E`` is sent when ORIGINAL takes no more, and what it did not take is recorded. Whoever reads
  this puts ORIGINAL back, so that writers learn of it as they would have. For a second nothing more
  is read then, so that who prints fast waits and learns of it at once; after that (who prints holds
  the GIL, perhaps), what comes is recorded and not shown.

The RING is a file of fixed size: four numbers of 8 bytes, little-endian, and from `DATA` on the
last `CAPACITY` bytes. The first two are written here: how many bytes were put in, and how many were
left out because there was no room. The reader writes the other two: how many of each it knows of.
After something was left out nothing is put in before the reader knows of all of it: the gap is
always at the end of what there is to read.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # the whole module takes as long as Python
import errno
import mmap
import os
import select
import sys

DATA = 4096
CAPACITY = 8 << 20
CHUNK = 1 << 16
_AT_ONCE = 4096  # what a pipe takes without waiting, if it takes anything
_HELD_BACK = 1 << 20  # more than a pipe or a terminal has waiting
_ATTEMPTS = 5
_PUT_BACK_MS = 1000
_KIND, _FILE = 0o170000, 0o100000

# What the copier is doing, in memory that outlives it.
_IDLE, _READING, _SHOWING, _RECORDING = range(4)
(
    _DOING,
    _LENGTH,  # of the chunk
    _SHOWN,  # of the chunk, before the counts below began
    _PID,  # whose counts they are
    _READ_BEFORE,  # bytes the process had read when it began to read the chunk
    _WRITTEN_BEFORE,  # bytes the process had written when it began to show the chunk
    _IN,  # bytes put into the ring
    _OUT,  # bytes left out
    _IN_BEFORE,
    _OUT_BEFORE,
    _LEAVING_OUT,
    _KEEP,  # whether anything is recorded
    _BROKEN,  # 1 when the original takes no more, 2 when that is said
    _ASKED,  # how many answers are owed
    _STOPPING,  # whether nothing is to be recorded after the next
    _COPIED,  # bytes since it was asked for
    _TOTAL,  # bytes ever
    _FIELDS,
) = range(18)


class _Orphaned(Exception):  # noqa: N818 - no error
    """The process that waits for this one is gone."""


class _Finished(Exception):  # noqa: N818 - no error
    """All is copied."""


class Copier:
    """Copying loop, with state in shared memory that the next copying process continues from."""

    def __init__(self, source: int, original: int, control: int, ring: int) -> None:
        self._source = source
        self._original = original
        self._control = control
        self._ring = ring
        shared = memoryview(mmap.mmap(-1, 4096 + CHUNK))  # shared with what is forked
        self._state = shared[: 8 * _FIELDS].cast("q")
        self._chunk = shared[4096:]
        self._state[_KEEP] = 1
        self._room = select.poll()
        self._at_once = CHUNK if os.fstat(original).st_mode & _KIND == _FILE else _AT_ONCE
        self._read = self._written = 0  # by this process, as the kernel counts

    @property
    def total(self) -> int:
        """Number of bytes copied in all, also by earlier copying processes."""
        return self._state[_TOTAL]

    def copy(self, waiting: int | None) -> None:
        """Copy until everything is copied.

        ``waiting`` is readable when the process that waits for this one is gone.

        Raises:
            _Finished: If everything is copied.
            _Orphaned: If the waiting process is gone.
        """
        state = self._state
        counts = _open_counts("self")
        self._read, self._written = _counted(counts, own=True)
        if counts is not None:
            os.close(counts)
        state[_READ_BEFORE], state[_WRITTEN_BEFORE] = self._read, self._written
        state[_PID] = os.getpid()
        self._room = select.poll()
        self._room.register(self._original, select.POLLOUT)
        if waiting is not None:
            self._room.register(waiting, select.POLLIN)
        self._finish_chunk()
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._control, select.POLLIN)
        if waiting is not None:
            poll.register(waiting, select.POLLIN)
        while True:
            ready = dict(poll.poll(0 if state[_ASKED] else None))
            if waiting in ready:
                raise _Orphaned
            if self._source in ready:
                self._next_chunk()
            if state[_ASKED] and (self._source not in ready or state[_COPIED] > _HELD_BACK):
                if state[_STOPPING]:
                    state[_KEEP] = 0
                answers, state[_ASKED] = state[_ASKED], 0
                self._send(b"d" * answers)
            if self._control in ready and not self._take_order():
                poll.unregister(self._control)

    def recover(self, pid: int, counts: int | None) -> None:
        """Find out how far the copier got that was killed, from a descriptor of its counts."""
        state = self._state
        if state[_PID] != pid or state[_DOING] == _IDLE:
            return
        read, written = _counted(counts)
        if state[_DOING] == _READING:
            # Where nothing counts, it may have read and not said so: then a chunk is lost.
            state[_LENGTH] = max(0, read - state[_READ_BEFORE])
            state[_SHOWN] = 0
            state[_DOING] = _SHOWING
        elif state[_DOING] == _SHOWING and written:
            state[_SHOWN] += max(0, written - state[_WRITTEN_BEFORE])

    def introduce(self) -> None:
        """Announce that copying begins, and the process that waits for its end."""
        self._send(b"R" + os.getpid().to_bytes(4, "little"))

    # ---------------------------------------------------------------- a chunk

    def _next_chunk(self) -> None:
        state = self._state
        state[_READ_BEFORE] = self._read
        state[_DOING] = _READING
        try:
            length = os.readv(self._source, [self._chunk])
        except OSError as error:  # EIO: nobody holds the terminal any more
            if error.errno == errno.EAGAIN:
                length = -1
            elif error.errno == errno.EIO:
                length = 0
            else:
                raise
        if length <= 0:
            state[_DOING] = _IDLE
            if length == 0:
                raise _Finished
            return
        self._read += length
        state[_LENGTH] = length
        state[_SHOWN] = 0
        state[_WRITTEN_BEFORE] = self._written
        state[_DOING] = _SHOWING
        self._finish_chunk()

    def _finish_chunk(self) -> None:
        state = self._state
        if state[_DOING] == _READING:
            state[_DOING] = _IDLE
        if state[_DOING] == _SHOWING:
            self._show()
            state[_IN_BEFORE], state[_OUT_BEFORE] = state[_IN], state[_OUT]
            state[_DOING] = _RECORDING
        if state[_DOING] == _RECORDING:
            self._record()
            state[_COPIED] += state[_LENGTH]
            state[_TOTAL] += state[_LENGTH]
            state[_DOING] = _IDLE
        if state[_BROKEN] == 1:
            if not self._send(b"E"):
                raise _Finished  # nobody is left who would put the original back
            state[_BROKEN] = 2
            orders = select.poll()
            orders.register(self._control, select.POLLIN)
            orders.poll(_PUT_BACK_MS)

    def _show(self) -> None:
        state = self._state
        begin, length = state[_SHOWN], state[_LENGTH]
        while begin < length and not state[_BROKEN]:
            try:
                if not self._wait_writable():
                    state[_SHOWN], state[_WRITTEN_BEFORE] = begin, self._written
                    raise _Orphaned
                end = min(begin + self._at_once, length)
                # What others write to the same pipe comes between lines.
                line = bytes(self._chunk[begin:end]).rfind(b"\n") + 1
                if end < length and line:
                    end = begin + line
                written = os.write(self._original, self._chunk[begin:end])
            except BlockingIOError:
                continue
            except OSError:
                state[_BROKEN] = 1
                return
            self._written += written
            begin += written

    def _wait_writable(self) -> bool:
        """Wait until the original takes something; False if this process is an orphan before."""
        return self._original in [fd for fd, _ in self._room.poll()]

    def _record(self) -> None:
        """Put the chunk into the ring; may be done twice."""
        state = self._state
        if not state[_KEEP]:
            return
        length, put, left_out = state[_LENGTH], state[_IN_BEFORE], state[_OUT_BEFORE]
        try:
            known = os.pread(self._ring, 16, 16)
            self._read += len(known)
            taken, told = _number(known, 0), _number(known, 8)
            if state[_LEAVING_OUT] and taken == put and told == left_out:
                state[_LEAVING_OUT] = 0
            if CAPACITY - (put - taken) < length:
                state[_LEAVING_OUT] = 1
            if not state[_LEAVING_OUT]:
                at = put % CAPACITY
                until_end = min(length, CAPACITY - at)
                self._put(self._chunk[:until_end], DATA + at)
                self._put(self._chunk[until_end:length], DATA)
                put += length
        except OSError:  # no room on the disk: what is shown is what counts
            state[_LEAVING_OUT] = 1
        if state[_LEAVING_OUT]:
            left_out += length
        try:
            self._put(put.to_bytes(8, "little") + left_out.to_bytes(8, "little"), 0)
        except OSError:
            state[_KEEP] = 0
        state[_IN], state[_OUT] = put, left_out

    def _put(self, data: bytes | memoryview, at: int) -> None:
        while len(data):
            written = os.pwrite(self._ring, data, at)
            self._written += written
            data, at = data[written:], at + written

    # ---------------------------------------------------------------- orders

    def _take_order(self) -> bool:
        """Return whether there may be another."""
        try:
            order = os.read(self._control, 1)
        except OSError:
            order = b""
        self._read += len(order)
        if order == b"Q":
            raise _Finished
        if order in (b"D", b"S"):
            self._state[_COPIED] = 0
            self._state[_ASKED] += 1
        if order == b"S":
            self._state[_STOPPING] = 1
        if not order:  # nobody reads what is recorded
            self._state[_KEEP] = self._state[_ASKED] = 0
            if self._state[_BROKEN]:
                raise _Finished
        return bool(order)

    def _send(self, answer: bytes) -> bool:
        try:
            self._written += os.write(self._control, answer)
        except OSError:
            return False
        return True


def _number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _open_counts(pid: int | str) -> int | None:
    # The file of a process that has ended belongs to root: it can be read then, but not opened.
    try:
        return os.open(f"/proc/{pid}/io", os.O_RDONLY)
    except OSError:
        return None


def _counted(counts: int | None, *, own: bool = False) -> tuple[int, int]:
    """Return how many bytes a process has read and written; zeros where nobody counts."""
    try:
        text = os.pread(-1 if counts is None else counts, 4096, 0)
        lines = dict(line.split(b": ") for line in text.splitlines())
        read, written = int(lines[b"rchar"]), int(lines[b"wchar"])
    except (OSError, ValueError, KeyError):
        return 0, 0
    return (read + len(text) if own else read), written


def _ignore_signals() -> None:
    """Ignore signals for the training: a scheduler signals every process of a job."""
    ours = {_signal.SIGKILL, _signal.SIGSTOP, _signal.SIGCHLD, _signal.SIGCONT}
    deadly = {_signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL, _signal.SIGABRT}
    for number in range(1, _signal.NSIG):
        if number not in ours | deadly:
            try:
                _signal.signal(number, _signal.SIG_IGN)
            except (OSError, ValueError, RuntimeError):
                continue
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)


def _fork() -> int | None:
    try:
        return os.fork()
    except OSError:
        return None


def _copy_guarded(copier: Copier) -> None:
    attempts, total = 0, -1
    while True:
        there, gone = os.pipe()
        pid = _fork()
        if pid is None:
            copier.copy(None)  # ends with _Finished
            return
        if pid == 0:
            os.close(gone)
            try:
                copier.copy(there)
            except _Orphaned:
                os.close(there)
                attempts, total = 0, -1
                continue
        os.close(there)
        if _ended_well(copier, pid):
            return
        os.close(gone)
        attempts, total = (attempts + 1 if copier.total == total else 0), copier.total
        if attempts >= _ATTEMPTS:
            return  # no kill: a defect; the training puts the original back


def _ended_well(copier: Copier, pid: int) -> bool:
    """Wait for the end of the copying process, and take note of how far it got."""
    counts = _open_counts(pid)
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except AttributeError:  # no such call here: what it has counted is gone with it
        _, status = os.waitpid(pid, 0)
        copier.recover(pid, counts)
    else:
        copier.recover(pid, counts)
        _, status = os.waitpid(pid, 0)
    finally:
        if counts is not None:
            os.close(counts)
    return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0


def main(arguments: list[str]) -> None:
    """Copy in the background: the process that was started ends at once."""
    _ignore_signals()
    copier = Copier(*map(int, arguments))
    if os.fork() == 0:
        code = 1
        try:
            copier.introduce()
            _copy_guarded(copier)
            code = 0
        except _Finished:
            code = 0
        finally:
            os._exit(code)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
