"""Queue in memory for records that the disk refused, until it accepts them.

A full disk is often free again after minutes. Until then, what a run records waits here in order,
within limits that are reasonable for the memory of a training process. Each record keeps the time
at which it was made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from seamark.journal.rows import FrameMaker

__all__ = [
    "LARGE_BYTES",
    "MAX_BYTES",
    "MAX_RECORDS",
    "Backlog",
    "Note",
    "Payloads",
    "Record",
    "Waiting",
]

MAX_BYTES: Final = 8 << 20
"""Records wait up to this many bytes; what they take in memory is a few times that at most."""
MAX_RECORDS: Final = 10_000
"""How many calls wait at most, whatever their size: an hour of training at three a second."""
LARGE_BYTES: Final = 64 << 10
"""A record above this size that an open journal refuses does not wait: smaller ones still fit."""


class Record(Protocol):
    """Data that one call appends to a journal."""

    @property
    def count(self) -> int:
        """Number of values or records that are in no journal yet, and would be lost with it."""

    @property
    def size(self) -> int:
        """Bytes that it holds, roughly."""

    @property
    def done(self) -> bool:
        """Whether all of it is in a journal."""

    def frames(self) -> list[bytes]:
        """Return the frames that are missing in the open journal; asked again for another one."""

    def mark_written(self, whole: int, t: int) -> None:
        """Note that the first ``whole`` frames, as made last, are in the journal.

        Harmless when called twice. ``t`` is the time of the last frame that was made, in ns.
        """

    def mark_queued(self, t: int) -> None:
        """Note that it waits, and was made at a time in ns."""


class Payloads:
    """JSON records that are appended together.

    Args:
        frame: Makes frames for the open journal.
        kind: Of frame.
        packed: Payload and flags of each.
    """

    def __init__(self, frame: FrameMaker, kind: int, packed: Sequence[tuple[bytes, int]]) -> None:
        self._frame, self._kind, self._packed = frame, kind, packed
        self._start = self._end = 0

    @property
    def count(self) -> int:
        """Number of records that are not in a journal yet."""
        return len(self._packed) - self._end

    @property
    def size(self) -> int:
        """Bytes of their payloads."""
        return sum(len(payload) for payload, _ in self._packed)

    @property
    def done(self) -> bool:
        """Whether all of them are in a journal."""
        return not self.count

    def frames(self) -> list[bytes]:
        """Return one frame for each that is missing."""
        self._start = self._end
        return [
            self._frame(self._kind, payload, flags=flags)
            for payload, flags in self._packed[self._start :]
        ]

    def mark_written(self, whole: int, t: int) -> None:
        """Note how many are in the journal."""
        del t
        self._end = self._start + whole

    def mark_queued(self, t: int) -> None:
        """Nothing depends on it."""


class Note:
    """Frame about the writer itself, made when a journal is open to take it.

    Args:
        frame: Makes frames for the open journal.
        kind: Kind of the frame.
        payload: Returns its contents as they are now.
    """

    count = size = 0

    def __init__(self, frame: FrameMaker, kind: int, payload: Callable[[], bytes]) -> None:
        self._frame, self._kind, self._payload = frame, kind, payload
        self.done = False

    def frames(self) -> list[bytes]:
        """Return it."""
        return [self._frame(self._kind, self._payload())]

    def mark_written(self, whole: int, t: int) -> None:
        """Note that it was written."""
        del t
        self.done = bool(whole)

    def mark_queued(self, t: int) -> None:
        """Do nothing: it never waits."""


class Waiting(NamedTuple):
    """A record that waits, or the place between two where another journal begins.

    Attributes:
        t: When it was made, nanoseconds since the Unix epoch.
        record: The record, None where a journal begins.
        size: Bytes that it was counted with.
        header: What the HEADER of that journal says.
    """

    t: int
    record: Record | None
    size: int = 0
    header: Mapping[str, Any] | None = None


class Backlog:
    """Queue of waiting records, oldest first; the writer holds its lock around every call.

    Args:
        clock: Returns nanoseconds since the Unix epoch.

    Attributes:
        waiting: All entries.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self.waiting: deque[Waiting] = deque()
        self._bytes = 0
        self._records = 0

    def __len__(self) -> int:
        """Return how many values or records would be lost with it."""
        return sum(each.record.count for each in self.waiting if each.record is not None)

    @property
    def first(self) -> Waiting:
        """Oldest entry of the queue."""
        return self.waiting[0]

    def can_add(self, record: Record) -> bool:
        """Return whether a record can be added."""
        return self._records < MAX_RECORDS and self._bytes + record.size <= MAX_BYTES

    def add(self, record: Record) -> None:
        """Keep a record, as made now."""
        t, size = self._clock(), record.size
        record.mark_queued(t)
        self.waiting.append(Waiting(t, record, size))
        self._records, self._bytes = self._records + 1, self._bytes + size

    def begin_journal(self, header: Mapping[str, Any] | None) -> None:
        """Mark that the records added from now on go to a new journal.

        Args:
            header: Contents of its HEADER; None to determine them when it is opened.
        """
        self.waiting.append(Waiting(self._clock(), None, header=header))

    def done(self) -> None:
        """Take away what was next."""
        first = self.waiting.popleft()
        if first.record is not None:
            self._records, self._bytes = self._records - 1, self._bytes - first.size
