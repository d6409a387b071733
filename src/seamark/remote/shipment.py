"""Transfer of the journals of a run to a remote while it is recorded."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from seamark.errors import JournalError
from seamark.journal.folder import RunFolder
from seamark.journal.format import FILE_HEADER_BYTES
from seamark.journal.headers import may_grow
from seamark.journal.reader import JournalReader
from seamark.journal.safe import names_in
from seamark.journal.shipping import Batch, next_batch
from seamark.process.interrupts import quietly
from seamark.remote.protocol import Diverged, Gap, Remote, RunKey, Sent, TooLong, Unreachable

MAX_BATCH_BYTES: Final = 4 << 20
"""Maximum size of one request, in bytes; a single frame may be longer."""
_MIN_BATCH_BYTES: Final = 1 << 16


class Tail:
    """Sender of the missing bytes of one journal, batch by batch.

    For a journal of this process (`mine`), a batch never begins after the last byte that this
    object has sent, even if the remote reports more stored bytes. The remote compares overlapping
    bytes, so that another file of the same name, as of a cloned machine, is detected and never
    continued. For other journals, the reported size is trusted if a frame of this file begins
    there.

    Attributes:
        known: Number of stored bytes that the remote last reported; None before its first report.
        aside: Whether nothing more of it is sent.
        gaps: Number of consecutive batches before which the remote missed bytes.
    """

    def __init__(self, path: Path, *, mine: bool = True) -> None:
        self.path = path
        self.name = path.name
        self.known: int | None = None
        self.aside = False
        self._mine = mine
        self._sent = 0
        self._limit = MAX_BATCH_BYTES
        self._unsendable_size = -1
        self.gaps = 0

    # ---------------------------------------------------------------- progress

    def size(self) -> int:
        """Return the current size of the file in bytes; 0 if it does not exist."""
        try:
            return os.stat(self.path).st_size  # noqa: PTH116 - called every second
        except OSError:
            return 0

    @property
    def left(self) -> int:
        """Number of unsent bytes, as currently known."""
        size = self.size()
        if self.aside or size == self._unsendable_size:
            return 0
        return max(0, size - self._next_offset)

    @property
    def _next_offset(self) -> int:
        """Offset at which the next batch begins, in bytes."""
        known = self.known or 0
        return min(known, self._sent) if self._mine else known

    def place(self, known: int) -> None:
        """Set the stored number of bytes reported by the remote; 0 if it has no such journal."""
        self.known = known
        self._unsendable_size = -1

    def pass_over(self) -> None:
        """Skip the journal, which cannot be read, until its file grows."""
        self._unsendable_size = self.size()

    # ---------------------------------------------------------------- sending

    def step(self, remote: Remote, run: RunKey) -> Sent | None:
        """Send the next batch or declare the next gap; return None if there is nothing now.

        Raises:
            RemoteError: If the batch was not accepted. After `Gap`, the next step begins where the
                remote reports; after `TooLong`, the next batch is smaller.
            OSError: If the journal cannot be read.
        """
        size, known, start = self.size(), self.known, self._next_offset
        if self.aside or known is None or size <= start:
            return None
        from seamark.journal.frames import walk  # NumPy is imported only for sending

        with JournalReader(self.path, walk=walk) as reader:
            batch = next_batch(reader, start, self._limit)
            if batch is None:
                self._unsendable_size = size
                return None
            if batch.is_gap and start != self._sent:
                self._expect_frame(reader, start, known)
        try:
            sent = self._send(remote, run, batch)
        except Gap as gap:
            self._restart_from(gap)
            raise
        except TooLong:
            if self._limit <= _MIN_BATCH_BYTES or batch.length > self._limit:
                raise
            self._limit = max(_MIN_BATCH_BYTES, self._limit // 2)
            return self.step(remote, run)
        except Unreachable:
            # A smaller batch may pass a bad link.
            self._limit = max(_MIN_BATCH_BYTES, self._limit // 2)
            raise
        self.gaps = 0
        self._limit = min(MAX_BATCH_BYTES, 2 * self._limit)
        self._sent, self.known = batch.end, max(sent.offset, batch.end)
        return sent

    def _send(self, remote: Remote, run: RunKey, batch: Batch) -> Sent:
        if batch.is_gap:
            return remote.send_gap(run, self.name, batch.offset, batch.length)
        return remote.send(run, self.name, batch.offset, batch.data)

    def _restart_from(self, gap: Gap) -> None:
        self.gaps += 1
        self.known = gap.known
        self._sent = min(self._sent, gap.known)

    def _expect_frame(self, reader: JournalReader, start: int, known: int) -> None:
        # This may look like a gap only because the remote has other frames than this file.
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
        raise Diverged(
            f"{self.name}: no record of this file ends at the {known} bytes that are stored", end
        )


_IDLE_CHECK_S: Final = 10.0
"""Interval at which an idle run is checked, in seconds."""


class Writing(Protocol):
    """Writer of journals, such as `seamark.journal.writer.JournalWriter`."""

    @property
    def writers(self) -> tuple[str, ...]:
        """Writer ids of all its journals."""


class Shipment:
    """Transfer of one run's journals to a remote: those of this process and earlier ones.

    `add`, `rest`, `finish`, `look_now`, `left`, `unseen` and `is_refused` may be called on any
    thread; all others are called on the shipper's thread.

    Attributes:
        tails: Journals by writer id; replaced, never changed, because other threads read it.
        placed: Whether the remote has reported the stored size of each journal; unset by errors.
        over: Reason why nothing more is sent; None while it is sent.
        later: Time of the next attempt at the earliest, in seconds of the shipper's clock.
        failures: Number of consecutive failures to send it.
        refused_until: Time of the next attempt after a refusal; 0 if it was not refused.
        given_up: Whether the end of the run timed out waiting for it.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.key = RunKey.of(folder)
        self.tails: Mapping[str, Tail] = {}
        self.placed = False
        self.over: str | None = None
        self.later = self.refused_until = 0.0
        self.failures = 0
        self.given_up = False
        self._mine = f"-{os.getpid()}-"  # part of the writer ids of this process
        self._sources: list[weakref.ref[Writing]] = []
        self._ids: frozenset[str] = frozenset()
        self._check_at = 0.0
        # One process may have several objects of one run, each with its own begin, rest and end.
        self._open: weakref.WeakSet[Any] = weakref.WeakSet()
        self._busy: weakref.WeakSet[Any] = weakref.WeakSet()
        self._earlier = False

    # ---------------------------------------------------------------- on any thread

    def add(self, writer: Writing, by: object, *, earlier: bool = False) -> None:
        """Send the journals of a writer of this process; a parent process sends its own.

        `by` is the object that calls `rest` and `finish` later; only a weak reference to it is
        held. With `earlier`, journals of ended processes are sent, too.
        """
        self._earlier |= earlier
        self.given_up = False
        self._open.add(by)
        self._busy.add(by)
        self._check_at = 0.0
        if all(ref() is not writer for ref in self._sources):
            self._sources = [*self._sources, weakref.ref(writer)]
        self._note_writers()

    def rest(self, by: object) -> None:
        """Check less often once no object of the run records."""
        self._note_writers()
        self._busy.discard(by)
        self._check_at = 0.0

    def finish(self, by: object) -> None:
        """Expect no further journals of one object of the run; after the last one, of the run."""
        self._note_writers()
        self._busy.discard(by)
        self._open.discard(by)
        self._check_at = 0.0
        if self.finished:
            self._sources = []

    @property
    def finished(self) -> bool:
        """Whether no further journal is expected, as currently known."""
        return not self._open

    def _note_writers(self) -> None:
        with quietly(only=RuntimeError):  # changed while it was iterated: the thread checks again
            for ref in self._sources:
                if (writer := ref()) is not None:
                    self._ids = self._ids | {each for each in writer.writers if self._mine in each}

    # ---------------------------------------------------------------- on the thread

    def look(self, now: float) -> bool:
        """Find new journals; return whether there may be data to send."""
        if self.over or now < self.later or now < self._check_at:
            return False
        self._note_writers()
        earlier, self._earlier = self._earlier, False
        if earlier or self._ids - self.tails.keys():
            with quietly(only=OSError):
                for name in names_in(self.folder.journal_dir):
                    self._add_tail(name, earlier=earlier)
        found = any(tail.left for tail in self.tails.values())
        if not self._busy and not found:
            self._check_at = now + _IDLE_CHECK_S
        return found

    def _add_tail(self, name: str, *, earlier: bool) -> None:
        writer, path = name.rpartition(".")[0], self.folder.journal_dir / name
        mine = writer in self._ids
        if writer in self.tails or not (mine or earlier):
            return
        with quietly(only=JournalError):  # not readable: `seamark fsck` reports it
            if mine or _has_ended(path):
                self.tails = {**self.tails, writer: Tail(path, mine=mine)}
                self.placed = False

    def look_now(self) -> None:
        """Schedule an immediate check of everything; only the wait after a refusal remains."""
        self._note_writers()
        self._check_at = 0.0
        if not self.refused_until:
            self.later = 0.0

    def is_refused(self, now: float) -> bool:
        """Return whether it was refused and the delay before the next attempt is not over."""
        return bool(self.refused_until) and now < self.refused_until

    @property
    def left(self) -> int:
        """Number of unsent bytes, as currently known."""
        return 0 if self.over else sum(tail.left for tail in self.tails.values())

    @property
    def unseen(self) -> bool:
        """Whether a journal to send was not checked yet."""
        return not self.over and (self._earlier or bool(self._ids - self.tails.keys()))


def _has_ended(path: Path) -> bool:
    with JournalReader(path) as reader:
        return not may_grow(reader)
