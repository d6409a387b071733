"""Process that copies output to a record and from there to its original destination.

Run as a file, ``python -I -S _copier.py TERMINAL FEED SOURCE RECORD ORIGINAL``, where all are
descriptors; see `seamark.capture.output.descriptor`, which starts it. Imports next to nothing, and
nothing of seamark.

Output arrives in the pipe SOURCE. Where a pseudo-terminal is captured, TERMINAL is its master, and
FEED the write end of the pipe; otherwise both are -1. The process ends when nobody can write to
SOURCE or TERMINAL any more, or when ORIGINAL takes no more.

All state is in the kernel, so that a successor can continue at the same byte after a kill: bytes
are in the pipe or in RECORD, and the position of RECORD says how many of them were shown.
``splice`` takes bytes from the pipe after they are in RECORD; ``sendfile`` moves the position by
what it has written. Where the kernel cannot do either with these files, bytes are read and written;
a kill in between may then repeat or lose some.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # the whole module takes as long as Python
import mmap
import os
import select
import sys

_CHUNK = 1 << 16
_AT_ONCE = 1 << 12
BLOCK = 1 << 20
_KEPT = 16


def forgotten(record: int) -> int:
    """Return the position before which the record may have been emptied."""
    return max(0, os.lseek(record, 0, os.SEEK_CUR) // BLOCK - _KEPT + 1) * BLOCK


def forget(record: int, number: int) -> None:
    """Give back the memory of a block of the record; OSError where the file system cannot."""
    with mmap.mmap(record, BLOCK, offset=number * BLOCK) as block:
        block.madvise(mmap.MADV_REMOVE)


def copy(terminal: int, feed: int, source: int, record: int, original: int) -> None:
    """Copy until nobody can write any more; OSError if the original takes no more."""
    waiting = select.poll()
    waiting.register(source, select.POLLIN)
    while True:
        _show(record, original)
        if terminal >= 0 and not waiting.poll(0) and not _feed(terminal, feed):
            return
        if not _record(source, record, original):
            return


def _feed(terminal: int, feed: int) -> int:
    """Move output from the pseudo-terminal to the pipe, which is empty; 0 at the end."""
    try:
        return os.splice(terminal, feed, _CHUNK)
    except OSError:  # nobody holds the other end, or the kernel cannot
        pass
    try:
        data = os.read(terminal, _AT_ONCE)
    except OSError:
        return 0
    return os.write(feed, data)


def _record(source: int, record: int, original: int) -> int:
    """Move output from the pipe to the end of the record; 0 at the end."""
    size = os.fstat(record).st_size
    try:
        return os.splice(source, record, _CHUNK, offset_dst=size)
    except OSError:  # the kernel or the file system cannot, or there is no room
        pass
    data = os.read(source, _CHUNK)
    try:
        written = os.pwrite(record, data, size)
    except OSError:  # the record is full: what is shown is what counts
        written = 0
    if written < len(data):
        _show(record, original)
    rest = data[written:]
    while rest:
        try:
            rest = rest[os.write(original, rest) :]
        except BlockingIOError:
            _wait(original)
    return len(data)


def _show(record: int, original: int) -> None:
    """Show what is recorded and was not shown, in whole lines where they are short."""
    shown = began = os.lseek(record, 0, os.SEEK_CUR)
    while part := os.pread(record, _AT_ONCE, shown):
        length = (len(part) == _AT_ONCE and part.rfind(b"\n") + 1) or len(part)
        try:
            shown += _send(record, original, part[:length])
        except BlockingIOError:
            _wait(original)
    number = shown // BLOCK
    if number > began // BLOCK and number >= _KEPT:
        try:  # noqa: SIM105 - contextlib is not imported
            forget(record, number - _KEPT)
        except OSError:
            pass


def _send(record: int, original: int, part: bytes) -> int:
    """Write what is next in the record to the original; return how much was written."""
    try:
        sent = os.sendfile(original, record, None, len(part))
    except BlockingIOError:
        raise
    except OSError:  # the kernel cannot, as for a terminal that was opened to append
        sent = 0
    if not sent:  # a kill between these two shows the part twice
        sent = os.write(original, part)
        os.lseek(record, sent, os.SEEK_CUR)
    return sent


def _wait(original: int) -> None:
    room = select.poll()
    room.register(original, select.POLLOUT)
    room.poll()


def main(arguments: list[str]) -> None:
    """Copy in the background: the process that was started ends at once."""
    for number in range(1, _signal.NSIG):  # a scheduler signals every process of a job
        try:
            _signal.signal(number, _signal.SIG_IGN)
        except (OSError, ValueError):
            continue
    if os.fork():
        os._exit(0)
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    while copier := os.fork():  # another one continues where one is killed
        if not os.WIFSIGNALED(os.waitpid(copier, 0)[1]):
            os._exit(0)
    copy(*map(int, arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
