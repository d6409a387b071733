"""A process of its own that copies what is printed to where it went before.

Run as a file, ``python -I -S _copier.py SOURCE ORIGINAL MEMORY ALIVE``, where the four are
descriptors; see `seamark.capture.output.descriptor`, which starts it. Imports next to nothing, and
nothing of seamark.

SOURCE is where the output arrives: the read end of a pipe, or the master of a pseudo-terminal. The
end of it is the end of this process: all that wrote to it are gone then.

MEMORY is a file that the training maps as well: a few numbers, and a ring of the last bytes that
were read. Output is read into the ring and shown from there, so that the next process can continue
where this one is killed, and the training takes from there what it records.

ALIVE is a pipe that nobody else writes to. The training learns by its end that this process is
gone; this process learns by it that the training has dealt with an ORIGINAL that takes no more.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # the whole module takes as long as Python
import errno
import mmap
import os
import select
import sys

CAPACITY = 8 << 20
CHUNK = 1 << 16
READ, SHOWN, BUSY, BROKEN = range(4)
"""Bytes read and shown so far; whether some are on the way; whether ORIGINAL takes no more."""
_READING, _SHOWING = 1, 2
_RING = 4096
SIZE = _RING + CAPACITY
_AT_ONCE = 4096  # what a pipe takes whole or not at all
_PUT_BACK_MS = 1000
_ZEROS = memoryview(bytes(CHUNK))


class Copier:
    """Copying from a source to the original destination, through a ring in shared memory.

    Args:
        source: Descriptor from which the output is read.
        original: Descriptor of the original destination.
        memory: Descriptor of the file with numbers and ring.
    """

    def __init__(self, source: int, original: int, memory: int) -> None:
        shared = memoryview(mmap.mmap(memory, SIZE))
        self.numbers = shared[: 8 * 4].cast("q")
        self.ring = shared[_RING:]
        self._source = source
        self._original = original
        self._arrives = select.poll()
        self._arrives.register(source, select.POLLIN)
        self._room = select.poll()
        self._room.register(original, select.POLLOUT)

    def copy(self, wait_ms: int | None = None) -> None:
        """Copy until the source ends.

        Args:
            wait_ms: End also when nothing has arrived for so long, in milliseconds.

        Raises:
            OSError: If the original takes no more.
        """
        self._continue()
        while self._arrives.poll(wait_ms) and self.read():
            self.show()

    def read(self) -> bool:
        """Read into the ring; return False at the end of the source."""
        at = self.numbers[READ] % CAPACITY
        chunk = self.ring[at : at + CHUNK]
        chunk[:] = _ZEROS[: len(chunk)]  # tells how much was read by a process that was killed
        self.numbers[BUSY] = _READING
        try:
            length = os.readv(self._source, [chunk])
        except OSError as error:
            if error.errno != errno.EIO:  # nobody holds the terminal any more
                raise
            length = 0
        self.numbers[READ] += length
        return length > 0

    def show(self) -> None:
        """Write to the original what was read and not shown."""
        numbers = self.numbers
        numbers[BUSY] = _SHOWING
        while (length := numbers[READ] - numbers[SHOWN]) > 0:
            at = numbers[SHOWN] % CAPACITY
            piece = self.ring[at : at + min(length, _AT_ONCE)]
            # What others write to the same pipe comes between lines.
            line = bytes(piece).rfind(b"\n") + 1
            if length > len(piece) and line:
                piece = piece[:line]
            self._room.poll()
            try:
                numbers[SHOWN] += os.write(self._original, piece)
            except BlockingIOError:
                continue
        numbers[BUSY] = 0

    def _continue(self) -> None:
        """Show what a process that was killed has read."""
        numbers = self.numbers
        if numbers[BUSY] == _READING and numbers[READ] == numbers[SHOWN]:
            at = numbers[READ] % CAPACITY
            numbers[READ] += len(bytes(self.ring[at : at + CHUNK]).rstrip(b"\0"))
        self.show()


def _drop(copier: Copier, alive: int) -> None:
    """Show nothing more, until the training has put the original back or is gone.

    For a second nothing is read, so that whoever prints fast waits and learns of it at once. Who
    goes on after that may hold the GIL, and must not wait.
    """
    copier.numbers[BROKEN] = 1
    dealt_with = select.poll()
    dealt_with.register(alive, select.POLLERR)
    wait_ms = _PUT_BACK_MS
    while not dealt_with.poll(wait_ms) and copier.read():
        wait_ms = 0


def _ignore_signals() -> None:
    """Ignore what is meant for the training: a scheduler signals every process of a job."""
    for number in range(1, _signal.NSIG):
        try:
            _signal.signal(number, _signal.SIG_IGN)
        except (OSError, ValueError):  # those that nobody can ignore
            continue


def main(source: int, original: int, memory: int, alive: int) -> None:
    """Copy in the background: the process that was started ends at once."""
    _ignore_signals()
    copier = Copier(source, original, memory)
    os.write(alive, b"R")
    if os.fork():
        os._exit(0)
    try:
        copier.copy()
    except OSError:
        _drop(copier, alive)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
