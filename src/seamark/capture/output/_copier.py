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
what it has written.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # the whole module takes as long as Python
import mmap
import os
import select
import sys

_CHUNK = 1 << 16
_AT_ONCE = 1 << 12
_BLOCK = 1 << 20
_KEPT = 16


def forgotten(record: int) -> int:
    """Return the position before which the record may have been emptied."""
    return max(0, os.lseek(record, 0, os.SEEK_CUR) // _BLOCK - _KEPT + 1) * _BLOCK


def copy(terminal: int, feed: int, source: int, record: int, original: int) -> None:
    """Copy until nobody can write any more; OSError if the original takes no more."""
    waiting = select.poll()
    waiting.register(source, select.POLLIN)
    while True:
        _show(record, original)
        if terminal >= 0 and not waiting.poll(0):
            try:
                os.splice(terminal, feed, _CHUNK)
            except OSError:  # nobody holds the other end
                return
        try:
            count = os.splice(source, record, _CHUNK, offset_dst=os.fstat(record).st_size)
        except OSError:  # the record is full: what is shown is what counts
            count = os.splice(source, original, _CHUNK)
        if not count:
            return


def _show(record: int, original: int) -> None:
    """Show what is recorded and was not shown, in whole lines where they are short."""
    shown = began = os.lseek(record, 0, os.SEEK_CUR)
    while part := os.pread(record, _AT_ONCE, shown):
        length = (len(part) == _AT_ONCE and part.rfind(b"\n") + 1) or len(part)
        try:
            shown += os.sendfile(original, record, None, length)
        except BlockingIOError:
            room = select.poll()
            room.register(original, select.POLLOUT)
            room.poll()
    number = shown // _BLOCK
    if number > began // _BLOCK and number >= _KEPT:
        try:
            with mmap.mmap(record, _BLOCK, offset=(number - _KEPT) * _BLOCK) as block:
                block.madvise(mmap.MADV_REMOVE)
        except OSError:  # not every file system can
            pass


def main(arguments: list[str]) -> None:
    """Copy in the background: the process that was started ends at once."""
    for number in range(1, _signal.NSIG):  # a scheduler signals every process of a job
        try:
            _signal.signal(number, _signal.SIG_IGN)
        except (OSError, ValueError):
            continue
    if os.fork():
        os._exit(0)
    copy(*map(int, arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
