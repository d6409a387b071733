"""What the disk refused, in memory until it takes it.

A full disk is often free again after minutes. What a run recorded meanwhile waits here in the order
in which it was made, as much of it as is reasonable in the memory of a training, and each record
keeps the time at which it was made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from seamark.journal.rows import FrameMaker

__all__ = ["LARGE_BYTES", "MAX_BYTES", "MAX_RECORDS", "Backlog", "Payloads", "Record", "Waiting"]

MAX_BYTES: Final = 8 << 20
"""Records wait up to this many bytes; what they take in memory is a few times that at most."""
MAX_RECORDS: Final = 10_000
"""So many calls wait, whatever their size: an hour of training at three a second."""
LARGE_BYTES: Final = 64 << 10
"""A record above this size that an open journal refuses does not wait: smaller ones still fit."""


class Record(Protocol):
    """What one call appends to a journal, all of it or nothing."""

    @property
    def count(self) -> int:
        """How many values or records are lost with it."""

    @property
    def size(self) -> int:
        """Bytes that it holds, roughly."""

    def frames(self) -> bytes:
        """Return its frames for the open journal; asked again for another one."""

    def written(self, t: int) -> None:
        """Take note that it is in the journal, at a time in ns."""

    def kept(self, t: int) -> None:
        """Take note that it waits, and was made at a time in ns."""

    def caught_up(self) -> None:
        """Take note that it is in the journal after having waited."""


class Payloads:
    """JSON records that are appended together.

    Args:
        frame: Makes frames for the open journal.
        kind: Of frame.
        packed: Payload and flags of each.
    """

    def __init__(self, frame: FrameMaker, kind: int, packed: Sequence[tuple[bytes, int]]) -> None:
        self._frame, self._kind, self._packed = frame, kind, packed

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self._packed)

    @property
    def size(self) -> int:
        """Bytes of their payloads."""
        return sum(len(payload) for payload, _ in self._packed)

    def frames(self) -> bytes:
        """Return one frame for each."""
        return b"".join(
            [self._frame(self._kind, payload, flags=flags) for payload, flags in self._packed]
        )

    def written(self, t: int) -> None:
        """Nothing depends on it."""

    def kept(self, t: int) -> None:
        """Nothing depends on it."""

    def caught_up(self) -> None:
        """Nothing depends on it."""


class Waiting(NamedTuple):
    """A record that waits, or the place between two where another journal begins.

    Attributes:
        t: When it was made, nanoseconds since the Unix epoch.
        record: The record, None where a journal begins.
        header: What the HEADER of that journal says.
    """

    t: int
    record: Record | None
    header: Mapping[str, Any] | None = None


class Backlog:
    """What waits, oldest first; the writer holds its lock around every call.

    Args:
        clock: Nanoseconds since the Unix epoch.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._waiting: deque[Waiting] = deque()
        self._bytes = 0
        self._records = 0

    def __bool__(self) -> bool:
        """Tell whether anything waits."""
        return bool(self._waiting)

    def __len__(self) -> int:
        """Return how many values or records would be lost with it."""
        return sum(each.record.count for each in self._waiting if each.record is not None)

    @property
    def first(self) -> Waiting:
        """What is next."""
        return self._waiting[0]

    def has_room_for(self, record: Record) -> bool:
        """Tell whether a record can be added."""
        return self._records < MAX_RECORDS and self._bytes + record.size <= MAX_BYTES

    def add(self, record: Record) -> None:
        """Keep a record, as made now."""
        t = self._clock()
        record.kept(t)
        self._waiting.append(Waiting(t, record))
        self._records, self._bytes = self._records + 1, self._bytes + record.size

    def begin_journal(self, header: Mapping[str, Any] | None) -> None:
        """Have what is added from now on written to a journal of its own.

        Args:
            header: What its HEADER says; None to ask when it is opened.
        """
        self._waiting.append(Waiting(self._clock(), None, header))

    def done(self) -> None:
        """Take away what was next."""
        record = self._waiting.popleft().record
        if record is not None:
            self._records, self._bytes = self._records - 1, self._bytes - record.size
