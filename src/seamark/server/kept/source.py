"""A journal that lies in objects, as a source of bytes for readers and folds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from seamark.server.kept import tables

if TYPE_CHECKING:
    from seamark.server.objects import ObjectStore
    from seamark.store.database import Database

__all__ = ["Segment", "StoredSource", "segments_of"]


class Segment(NamedTuple):
    """Location of a range of bytes of a journal.

    Attributes:
        offset: Offset in the journal, bytes.
        length: Length in bytes.
        name: Name of the object.
        place: Offset in the object, bytes; None for a declared gap, which is in no object.
    """

    offset: int
    length: int
    name: str
    place: int | None

    @property
    def end(self) -> int:
        """End of the range in the journal."""
        return self.offset + self.length


_of = tables.segments.c
_SEGMENTS = (
    sa.select(_of.offset, _of.length, tables.objects.c.name, _of.place)
    .join(tables.objects, tables.objects.c.number == _of.object)
    .where(_of.journal == sa.bindparam("journal"), _of.offset < sa.bindparam("end"))
    .where(_of.offset + _of.length > sa.bindparam("start"))
    .order_by(_of.offset)
)
_ALL = (1 << 63) - 1


def segments_of(
    database: Database, connection: sa.Connection, journal: int, start: int = 0, end: int = _ALL
) -> list[Segment]:
    """Return where a journal lies, or those of its stretches that touch some bytes of it.

    Args:
        database: Which has the tables.
        connection: Of a transaction.
        journal: Its number.
        start: First byte.
        end: Behind the last byte.
    """
    rows: list[Any] = database.rows(connection, _SEGMENTS, journal=journal, start=start, end=end)
    return [Segment(*row) for row in rows]


class StoredSource:
    """The bytes of a journal as far as they were kept when it was opened.

    Declared gaps read as zeros, which are no frame.

    Args:
        objects: Where they lie.
        name: File name of the journal.
        segments: Of it, in order, from its beginning on.
    """

    def __init__(self, objects: ObjectStore, name: str, segments: Sequence[Segment]) -> None:
        self.name = name
        self._objects = objects
        self._segments = segments
        self._starts = [segment.offset for segment in segments]

    def size(self) -> int:
        """See `seamark.journal.source.Source.size`."""
        return self._segments[-1].end if self._segments else 0

    def pread(self, size: int, offset: int) -> bytes:
        """See `seamark.journal.source.Source.pread`."""
        parts = [
            bytes(length) if data is None else data
            for length, data in self.stretches(offset, offset + size)
        ]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def stretches(self, start: int, end: int) -> Iterator[tuple[int, bytes | None]]:
        """Yield what is kept from one byte to another, piece by piece: length, and bytes or None.

        Raises:
            OSError: If an object cannot be read, or is shorter than it was.
        """
        index = max(0, bisect_right(self._starts, start) - 1)
        for segment in self._segments[index:]:
            first, last = max(start, segment.offset), min(end, segment.end)
            if segment.offset >= end:
                return
            if first >= last:
                continue
            if segment.place is None:
                yield last - first, None
                continue
            place = segment.place + first - segment.offset
            data = self._objects.get(segment.name, place, last - first)
            if len(data) < last - first:
                msg = f"object {segment.name!r} is shorter than it was"
                raise OSError(msg)
            yield last - first, data

    def quiet_since_ns(self) -> int | None:
        """Return None: only whole frames and declared gaps are kept, so what is there is final."""
        return None

    def owner(self) -> int | None:
        """See `seamark.journal.source.Source.owner`."""
        return None

    def gap_end(self, offset: int) -> int | None:
        """See `seamark.journal.source.Source.gap_end`."""
        index = bisect_right(self._starts, offset) - 1
        found = None
        for segment in self._segments[max(0, index) :]:
            if segment.place is not None or not segment.offset <= (found or offset) < segment.end:
                break
            found = segment.end
        return found

    def close(self) -> None:
        """See `seamark.journal.source.Source.close`."""
