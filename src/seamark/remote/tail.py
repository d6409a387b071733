"""Journal that is being sent to a remote: what the remote stores, and what is sent next."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from seamark.journal.format import FILE_HEADER_BYTES
from seamark.journal.reader import JournalReader
from seamark.journal.shipping import Batch, next_batch
from seamark.remote.protocol import Diverged, Gap, TooLong, Unreachable

if TYPE_CHECKING:
    from pathlib import Path

    from seamark.remote.protocol import Remote, RunKey, Sent

__all__ = ["MOST_BYTES", "Tail"]

MOST_BYTES: Final = 4 << 20
"""At most so much of a file is sent at once, in bytes; a single frame may be longer."""
_LEAST_BYTES: Final = 1 << 16


class Tail:
    """Sends what is missing of one journal, batch by batch.

    Whatever the remote says that it keeps, what is sent next begins no later than where this object
    knows its own bytes to be: a remote compares what overlaps, so that another file of the same
    name (of a cloned machine) is found out and never continued.

    Args:
        path: The journal.
        mine: Whether this process writes it, so that it has sent every byte that is known. False:
            what the remote says is believed where a frame of this file begins there.

    Attributes:
        path: The journal.
        name: Its file name.
        known: How many bytes the remote keeps, as it has said last; None if it was not asked yet.
        aside: Whether nothing more is sent of it.
        gaps: How often in a row the remote said that bytes before a batch are missing.
    """

    def __init__(self, path: Path, *, mine: bool = True) -> None:
        self.path = path
        self.name = path.name
        self.known: int | None = None
        self.aside = False
        self._mine = mine
        self._sent = 0
        self._limit = MOST_BYTES
        self._nothing_at = -1
        self.gaps = 0

    # ---------------------------------------------------------------- how far it is

    def size(self) -> int:
        """Return the size of the file now, in bytes; 0 if it is gone."""
        try:
            return os.stat(self.path).st_size  # noqa: PTH116 - asked every second
        except OSError:
            return 0

    @property
    def left(self) -> int:
        """Number of bytes that are still to be sent, as far as that is known now."""
        size = self.size()
        if self.aside or size == self._nothing_at:
            return 0
        return max(0, size - self._start)

    @property
    def _start(self) -> int:
        """Offset at which the next batch begins, in bytes."""
        known = self.known or 0
        return min(known, self._sent) if self._mine else known

    def place(self, known: int) -> None:
        """Take what the remote says that it keeps, in bytes; 0 if it has no such journal."""
        self.known = known
        self._nothing_at = -1

    def forget(self) -> None:
        """Discard the known size on the remote, so that it is asked for again after an error."""
        self.known = None

    def pass_over(self) -> None:
        """Send nothing until the file has grown: it cannot be read."""
        self._nothing_at = self.size()

    # ---------------------------------------------------------------- sending

    def step(self, remote: Remote, run: RunKey) -> Sent | None:
        """Send the next batch or declare the next gap; return None if there is nothing now.

        Args:
            remote: That was asked: see `place`.
            run: The run.

        Raises:
            RemoteError: If it was not taken. After `Gap` and `TooLong` the next step begins where
                the remote says, or is smaller.
            OSError: If the journal cannot be read.
        """
        size, known, start = self.size(), self.known, self._start
        if self.aside or known is None or size <= start:
            return None
        from seamark.journal.walk import walk  # numpy is for those who send

        with JournalReader(self.path, walk=walk) as reader:
            batch = next_batch(reader, start, self._limit)
            if batch is None:
                self._nothing_at = size
                return None
            if batch.is_gap and start != self._sent:
                self._expect_frame(reader, start, known)
        try:
            sent = self._send(remote, run, batch)
        except Gap as gap:
            self._begin_again(gap)
            raise
        except TooLong:
            if self._limit <= _LEAST_BYTES or batch.length > self._limit:
                raise
            self._limit = max(_LEAST_BYTES, self._limit // 2)
            return self.step(remote, run)
        except Unreachable:
            self._limit = max(_LEAST_BYTES, self._limit // 2)  # the link may take a smaller one
            raise
        self.gaps = 0
        self._limit = min(MOST_BYTES, 2 * self._limit)
        self._sent, self.known = batch.end, max(sent.offset, batch.end)
        return sent

    def _send(self, remote: Remote, run: RunKey, batch: Batch) -> Sent:
        if batch.is_gap:
            return remote.send_gap(run, self.name, batch.offset, batch.length)
        return remote.send(run, self.name, batch.offset, batch.data)

    def _begin_again(self, gap: Gap) -> None:
        """Go on where the remote says."""
        self.gaps += 1
        self.known = gap.known
        self._sent = min(self._sent, gap.known)

    def _expect_frame(self, reader: JournalReader, start: int, known: int) -> None:
        """Make sure that a gap is none only because a remote has other frames than this file.

        Raises:
            Diverged: If no frame of this file ends where the remote ends.
        """
        if start <= FILE_HEADER_BYTES:
            return
        end = FILE_HEADER_BYTES
        for block in reader.blocks(0, unknown=True):
            if block.base > start:
                break
            if start <= block.end:
                starts = {block.base + block.frames.raw(at)[0] for at in range(len(block.frames))}
                if start in starts or start == block.end:
                    return
            end = block.end
        msg = f"{self.name}: no record of this file ends after the {known} bytes that are kept"
        raise Diverged(msg, end)
