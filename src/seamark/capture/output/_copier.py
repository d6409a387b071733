"""Program that copies output to a record and from there to its original destination.

It is run as ``python -I -S _copier.py TERMINAL FEED SOURCE RECORD ORIGINAL`` by
`seamark.capture.output.descriptor`; all arguments are descriptors. It imports almost nothing, and
nothing of seamark.

Output arrives in the pipe SOURCE. If a pseudo-terminal is captured, TERMINAL is its master and FEED
the write end of the pipe; otherwise both are -1. The process ends when SOURCE or TERMINAL has no
writer left, or when ORIGINAL accepts no more data.

All state is in the kernel, so that a successor can continue at the same byte after a kill. Bytes
are in the pipe or in RECORD, and the position of RECORD is the number of bytes shown. ``splice``
removes bytes from the pipe after they are in RECORD; ``sendfile`` advances the position by the
bytes written. If the kernel does not support one of them for these files, bytes are read and
written, and a kill in between may repeat or lose some.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # importing `signal` takes as long as starting Python
import mmap
import os
import select
import sys

_CHUNK = 1 << 16
_MAX_READ = 1 << 12
BLOCK = 1 << 20
_KEPT_BLOCKS = 16


def released_end(record: int) -> int:
    """Return the position before which the record may have been released."""
    return max(0, os.lseek(record, 0, os.SEEK_CUR) // BLOCK - _KEPT_BLOCKS + 1) * BLOCK


def release(record: int, number: int) -> None:
    """Release the memory of a block of the record; raise OSError if that is not supported."""
    with mmap.mmap(record, BLOCK, offset=number * BLOCK) as block:
        block.madvise(mmap.MADV_REMOVE)


def copy(terminal: int, feed: int, source: int, record: int, original: int) -> None:
    """Copy until there is no writer; raise OSError if the original accepts no more data."""
    waiting = select.poll()
    waiting.register(source, select.POLLIN)
    while True:
        _show(record, original)
        if terminal >= 0 and not waiting.poll(0) and not _feed(terminal, feed):
            return
        if not _record(source, record, original):
            return


def _feed(terminal: int, feed: int) -> int:
    """Move output from the pseudo-terminal to the empty pipe; return 0 at the end."""
    try:
        return os.splice(terminal, feed, _CHUNK)
    except OSError:  # the other end is closed, or not supported by the kernel
        pass
    try:
        data = os.read(terminal, _MAX_READ)
    except OSError:
        return 0
    return os.write(feed, data)


def _record(source: int, record: int, original: int) -> int:
    """Move output from the pipe to the end of the record; return 0 at the end."""
    size = os.fstat(record).st_size
    try:
        return os.splice(source, record, _CHUNK, offset_dst=size)
    except OSError:  # not supported, or no space
        pass
    data = os.read(source, _CHUNK)
    try:
        written = os.pwrite(record, data, size)
    except OSError:  # the record is full, but output must still be shown
        written = 0
    if written < len(data):
        _show(record, original)
    rest = data[written:]
    while rest:
        try:
            rest = rest[os.write(original, rest) :]
        except BlockingIOError:
            _wait_for_room(original)
    return len(data)


def _show(record: int, original: int) -> None:
    """Show new bytes of the record, in whole lines if these are short."""
    shown = start = os.lseek(record, 0, os.SEEK_CUR)
    while part := os.pread(record, _MAX_READ, shown):
        length = (len(part) == _MAX_READ and part.rfind(b"\n") + 1) or len(part)
        try:
            shown += _send(record, original, part[:length])
        except BlockingIOError:
            _wait_for_room(original)
    number = shown // BLOCK
    if number > start // BLOCK and number >= _KEPT_BLOCKS:
        try:  # noqa: SIM105 - contextlib is not imported
            release(record, number - _KEPT_BLOCKS)
        except OSError:
            pass


def _send(record: int, original: int, part: bytes) -> int:
    """Write the next bytes of the record to the original; return the number written."""
    try:
        sent = os.sendfile(original, record, None, len(part))
    except BlockingIOError:
        raise
    except OSError:  # not supported, as for a terminal opened for appending
        sent = 0
    if not sent:  # a kill between these calls shows the part twice
        sent = os.write(original, part)
        os.lseek(record, sent, os.SEEK_CUR)
    return sent


def _wait_for_room(original: int) -> None:
    room = select.poll()
    room.register(original, select.POLLOUT)
    room.poll()


def main(arguments: list[str]) -> None:
    """Copy in a background process; the started process ends at once."""
    for number in range(1, _signal.NSIG):  # schedulers signal every process of a job
        try:
            _signal.signal(number, _signal.SIG_IGN)
        except (OSError, ValueError):
            continue
    if os.fork():
        os._exit(0)
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    while copier := os.fork():  # a new process continues after a kill
        if not os.WIFSIGNALED(os.waitpid(copier, 0)[1]):
            os._exit(0)
    copy(*map(int, arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
