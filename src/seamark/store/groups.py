"""Row groups: sections of one journal whose points are packed, series by series.

Integers (times, offsets, most steps) are stored as differences with the smallest sufficient width,
and floats that are exact in float32 in four bytes. Bytes of equal significance are stored together
(byte shuffle), which compresses better, and compressed with zstd.

The series of a group share the columns of steps, times and offsets. Counts and bounds in the tables
show whether a series has to be unpacked.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from operator import itemgetter
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
import zstandard

from seamark.journal.reader import Block
from seamark.store import schema
from seamark.store.database import DamageError, Database, insertion
from seamark.store.fold.decode import Decoded, RowBatch, may_hold_points, merge
from seamark.store.steps import Piece, cell_starts, pack_cells
from seamark.values.arrays import Floats, Ints

_CRC_BYTES: Final = 4
_ZSTD_LEVEL: Final = 3
_EXACT_LIMIT: Final = float(1 << 53)
_HEADER: Final = struct.Struct("<BBxxIqq")
"""Header: codec, bytes per number, count, first value, smallest difference."""


class Codec(IntEnum):
    """Encoding of the data after the codec byte; a number is never reused for another codec."""

    STRIDE = 1  # only first value and difference
    DELTA = 2  # differences minus the smallest one, shuffled and compressed
    FLOAT32 = 3  # float64 that are exact in float32, shuffled and compressed
    FLOAT64 = 4


def _shuffle(numbers: np.ndarray[Any, Any]) -> bytes:
    planes = numbers.view(np.uint8).reshape(-1, numbers.dtype.itemsize).T
    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(planes.tobytes())


def _unshuffle(data: bytes, count: int, width: int) -> np.ndarray[Any, Any]:
    raw = zstandard.ZstdDecompressor().decompress(data, max_output_size=max(1, count * width))
    planes = np.frombuffer(raw, np.uint8).reshape(width, count)
    numbers = np.empty(count, f"<u{width}")
    into = numbers.view(np.uint8).reshape(count, width)
    for plane in range(width):  # faster than a copy of planes.T
        into[:, plane] = planes[plane]
    return numbers


def pack_ints(values: Ints) -> bytes:
    """Pack int64 numbers of shape (N,)."""
    count = len(values)
    if not count:
        return _HEADER.pack(Codec.STRIDE, 0, 0, 0, 0)
    first = int(values[0])
    with np.errstate(over="ignore"):
        steps = np.diff(values)  # may wrap around; unpack_ints reverses it
    least, most = (int(steps.min()), int(steps.max())) if count > 1 else (0, 0)
    if least == most:
        return _HEADER.pack(Codec.STRIDE, 0, count, first, least)
    spread = (steps - np.int64(least)).view(np.uint64)
    width = next(width for width in (1, 2, 4, 8) if most - least < 1 << (8 * width))
    return _HEADER.pack(Codec.DELTA, width, count, first, least) + _shuffle(
        spread.astype(f"<u{width}")
    )


def is_progression(values: Floats) -> bool:
    """Return whether numbers are an arithmetic progression of integers."""
    whole = _to_integers(values)
    if whole is None or not len(whole):
        return False
    steps = np.diff(whole)
    return bool((steps == steps[:1]).all())


def unpack_ints(data: bytes) -> Ints:
    """Return the numbers that `pack_ints` packed."""
    codec, width, count, first, least = _HEADER.unpack_from(data)
    if codec == Codec.STRIDE:
        return np.arange(count, dtype=np.int64) * np.int64(least) + np.int64(first)
    values = np.empty(count, np.int64)
    values[0] = first
    steps = _unshuffle(data[_HEADER.size :], count - 1, width)
    np.add(steps, np.int64(least), out=values[1:], dtype=np.int64, casting="unsafe")
    return np.cumsum(values, out=values)


def _to_integers(values: Floats) -> Ints | None:
    with np.errstate(invalid="ignore"):
        if not (np.abs(values) < _EXACT_LIMIT).all():
            return None
        whole = values.astype(np.int64)
    same = whole.astype(np.float64).view(np.int64) == values.view(np.int64)
    return whole if same.all() else None


def pack_floats(values: Floats) -> bytes:
    """Pack float64 numbers of shape (N,); the bits of NaNs are preserved."""
    values = np.ascontiguousarray(values, np.float64)
    whole = _to_integers(values)
    if whole is not None:
        return pack_ints(whole)
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = values.astype(np.float32)
        same = (narrow.astype(np.float64).view(np.int64) == values.view(np.int64)).all()
    if same:
        return _HEADER.pack(Codec.FLOAT32, 4, len(values), 0, 0) + _shuffle(narrow)
    return _HEADER.pack(Codec.FLOAT64, 8, len(values), 0, 0) + _shuffle(values)


def unpack_floats(data: bytes) -> Floats:
    """Return the numbers that `pack_floats` packed."""
    codec, width, count, _, _ = _HEADER.unpack_from(data)
    if codec in (Codec.STRIDE, Codec.DELTA):
        return unpack_ints(data).astype(np.float64)
    numbers = _unshuffle(data[_HEADER.size :], count, width).view(f"<f{width}")
    return numbers.astype(np.float64, copy=False)


def join_parts(parts: Sequence[bytes]) -> bytes:
    """Join byte strings into one, preceded by their CRC-32; see `split_parts`."""
    joined = b"".join(len(part).to_bytes(4, "little") + part for part in parts)
    return zlib.crc32(joined).to_bytes(_CRC_BYTES, "little") + joined


def split_parts(data: bytes) -> list[bytes]:
    """Return the parts that `join_parts` joined; raise `DamageError` if the checksum differs."""
    if zlib.crc32(memoryview(data)[_CRC_BYTES:]) != int.from_bytes(data[:_CRC_BYTES], "little"):
        raise DamageError(f"checksum mismatch in {len(data)} packed bytes")
    parts, pos = [], _CRC_BYTES
    while pos < len(data):
        end = pos + 4 + int.from_bytes(data[pos : pos + 4], "little")
        parts.append(data[pos + 4 : end])
        pos = end
    return parts


SMALL_BYTES: Final = 64 * 1024
"""Size below which a journal is read directly, in bytes."""
CHUNK_BYTES: Final = 256 * 1024
"""Size up to which appended data is also read directly, in bytes."""
GROUP_ROWS: Final = 1 << 14
"""Rows of a full group. All are unpacked if the border of a plot cuts one of its cells."""
_GROUP_VALUES: Final = 1 << 21
_CELL_POINTS: Final = 1024
"""Number of points of a group below which it has no cells: its points are read for drawing."""
_READ_AHEAD: Final = 16
"""Maximum number of groups whose values one query loads."""
_FALLING, _RISING, _PROGRESSION = 0, 1, 2
"""Direction of the steps of a group; the last means an arithmetic progression of integers."""
_STEPS: Final = 0
_TIMES: Final = -1
"""Path numbers, not used by paths, of the rows with data shared by the series of a group."""
_INSERT_GROUP: Final = insertion(schema.chunk)
_chunk: Final = schema.chunk.c
_DELETE_GROUPS: Final = sa.delete(schema.chunk).where(
    _chunk.run == sa.bindparam("run"),
    _chunk.journal == sa.bindparam("journal"),
    _chunk.place >= sa.bindparam("place"),
)
_SELECT_LAST: Final = (
    sa.select(_chunk.place, _chunk.count, _chunk.data)
    .where(
        _chunk.run == sa.bindparam("run"),
        _chunk.path == _TIMES,
        _chunk.journal == sa.bindparam("journal"),
    )
    .order_by(_chunk.place.desc())
    .limit(1)
)
_SELECT_SHARED: Final = (
    sa.select(_chunk.data)
    .where(
        _chunk.run == sa.bindparam("run"),
        _chunk.path == _STEPS,
        _chunk.journal == sa.bindparam("journal"),
    )
    .order_by(_chunk.place)
)
_STORED_COLUMNS: Final = (
    _chunk.journal,
    _chunk.place,
    _chunk.path,
    _chunk.data,
)
_SELECT_GROUP: Final = sa.select(*_STORED_COLUMNS).where(
    _chunk.run == sa.bindparam("run"),
    _chunk.path.in_([_STEPS, _TIMES, sa.bindparam("number")]),
    _chunk.journal == sa.bindparam("journal"),
    _chunk.place == sa.bindparam("place"),
)
_of_series: Final = (_chunk.run == sa.bindparam("run"), _chunk.path == sa.bindparam("number"))
_SELECT_DRAWN: Final = sa.select(
    _chunk.journal,
    _chunk.place,
    _chunk.count,
    _chunk.rising,
    _chunk.low_step,
    _chunk.high_step,
    _chunk.low_t,
    _chunk.cells,
).where(*_of_series)
_SELECT_VALUES: Final = (
    sa.select(_chunk.place, _chunk.data)
    .where(
        *_of_series,
        _chunk.journal == sa.bindparam("journal"),
        _chunk.place >= sa.bindparam("place"),
    )
    .order_by(_chunk.place)
    .limit(sa.bindparam("most"))
)
_SELECT_BOUNDS: Final = sa.select(
    _chunk.journal, _chunk.place, _chunk.low_step, _chunk.high_step, _chunk.low_t
).where(*_of_series)


# ---------------------------------------------------------------------- making


@dataclass(slots=True)
class Group:
    """Row group to be stored; ``records`` has offsets of frames that may hold other points."""

    journal: int
    place: int
    batch: RowBatch
    records: list[int]


@dataclass(slots=True)
class Gathering:
    """Collector of decoded rows of one journal; the next group starts at offset ``place``."""

    journal: int
    place: int
    done: list[Group] = field(default_factory=list)
    _batches: list[RowBatch] = field(default_factory=list)
    _records: list[int] = field(default_factory=list)

    def add(self, decoded: Decoded, block: Block, end: int) -> None:
        """Add the decoded rows of a block up to offset ``end``; groups end only at such offsets."""
        self._batches += decoded.batches
        self._records += [
            block.base + frame[0] for frame in decoded.records if may_hold_points(block, frame)
        ]
        rows = sum(len(batch.step) for batch in self._batches)
        values = sum(len(own) for batch in self._batches for _, own in batch.series.values())
        if rows > GROUP_ROWS:
            self._end_full_groups()
        elif values >= _GROUP_VALUES:
            self.end(end)

    def _end_full_groups(self) -> None:
        # A frame of many rows may be in several groups: the places of groups that begin within it
        # count up from its offset. They are fewer than its bytes, even if it is compressed.
        batch, start = merge(self._batches), 0
        while len(batch.step) - start > GROUP_ROWS:
            end = start + GROUP_ROWS
            place = int(batch.offset[end])
            if place == batch.offset[end - 1]:
                place = max(place, self.place) + 1
            records = [offset for offset in self._records if offset < place]
            self.done.append(Group(self.journal, self.place, batch.part(start, end), records))
            self._records = self._records[len(records) :]
            self.place, start = place, end
        self._batches = [batch.part(start, len(batch.step))] if start else [batch]

    def end(self, offset: int) -> None:
        """End the current group at an offset, in bytes."""
        if offset > self.place:
            batch = merge(self._batches)
            self.done.append(Group(self.journal, self.place, batch, self._records))
            self.place, self._batches, self._records = offset, [], []


def store_groups(
    database: Database,
    connection: sa.Connection,
    run: int,
    groups: Sequence[Group],
    numbers: Mapping[str, int],
) -> None:
    """Write groups within a transaction."""
    for group in groups:
        batch = group.batch
        same = batch.time is batch.t or bool((batch.time == batch.t).all())
        steps = [pack_floats(batch.step), pack_ints(np.array(group.records, np.int64))]
        times = [
            pack_ints(batch.t),
            b"" if same else pack_ints(batch.time),
            pack_ints(batch.offset),
        ]
        at = (group.journal, group.place)
        bounds = _bounds_of(batch.step, batch.t)
        rows: list[tuple[Any, ...]] = [(run, _STEPS, *at, *bounds, None, join_parts(steps))]
        rows.append((run, _TIMES, *at, *bounds, None, join_parts(times)))
        for path, (own, values) in batch.series.items():
            _, t, step, _ = batch.points(path)
            own_bounds = bounds if own is None else _bounds_of(step, t)
            data = join_parts([b"" if own is None else pack_ints(own), pack_floats(values)])
            cells = None
            if len(values) >= _CELL_POINTS and own_bounds[1] != _FALLING:
                cells = join_parts([pack_cells(values, cell_starts(step))])
            rows.append((run, numbers[path], *at, *own_bounds, cells, data))
        database.run_many(connection, _INSERT_GROUP, rows)


def _bounds_of(step: Floats, t: Ints) -> tuple[int, int, float, float, int]:
    if not len(step):
        return 0, _RISING, 0.0, 0.0, 0
    step_direction = _FALLING
    if (step[1:] >= step[:-1]).all():
        step_direction = _PROGRESSION if is_progression(step) else _RISING
    low, high = (step.min(), step.max()) if step_direction == _FALLING else (step[0], step[-1])
    return len(step), step_direction, float(low), float(high), int(t.min())


def drop_groups(
    database: Database, connection: sa.Connection, run: int, journal: int, place: int
) -> None:
    """Remove the groups of a journal that start at or after offset ``place``."""
    database.run(connection, _DELETE_GROUPS, run=run, journal=journal, place=place)


def last_place(
    database: Database, connection: sa.Connection, run: int, journal: int
) -> tuple[int, int] | None:
    """Return start (bytes) and row count of the last group; None if it begins within a frame."""
    found = database.rows(connection, _SELECT_LAST, run=run, journal=journal)
    if not found:
        return None
    place, count, data = found[0]
    *_, first, _ = _HEADER.unpack_from(split_parts(data)[2])
    return None if count and first < place else (int(place), int(count))


# ---------------------------------------------------------------------- reading


@dataclass(slots=True)
class StoredGroup:
    """Stored data of one series in one group.

    Attributes:
        place: Offset of the start of the group in the journal, bytes.
        shared: Packed columns of the group: steps, times of the frames, caller's times, offsets.
        own: Packed indices of the rows that have a value, and packed values.
    """

    journal: int
    place: int
    shared: list[bytes]
    own: list[bytes]

    def select_rows(self, column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the rows of a column of the group in which the series has values."""
        return column[unpack_ints(self.own[0])] if self.own[0] else column

    def steps(self) -> Floats:
        """Return the steps, float64 (count,)."""
        return self.select_rows(unpack_floats(self.shared[0]))

    def values(self) -> Floats:
        """Return the values, float64 (count,)."""
        return unpack_floats(self.own[1])

    def t(self) -> Ints:
        """Return the times of the frames, nanoseconds since the Unix epoch, int64 (count,)."""
        return self.select_rows(unpack_ints(self.shared[1]))

    def times(self, t: Ints) -> Ints:
        """Return the caller's times, or the times of the frames ``t`` if the caller gave none."""
        return self.select_rows(unpack_ints(self.shared[2])) if self.shared[2] else t

    def offsets(self) -> Ints:
        """Return the offsets of the frames, bytes, int64 (count,)."""
        return self.select_rows(unpack_ints(self.shared[3]))


def load_groups(
    database: Database, connection: sa.Connection, run: int, numbers: Sequence[int]
) -> dict[int, list[StoredGroup]]:
    """Return lists of groups by number of the path, in the order of the journals."""
    wanted = sa.select(*_STORED_COLUMNS).where(
        _chunk.run == run, _chunk.path.in_([_STEPS, _TIMES, *numbers])
    )
    found: dict[int, list[StoredGroup]] = {}
    for path, group in _iter_groups(database.query(connection, wanted)):
        found.setdefault(path, []).append(group)
    return found


def load_group(
    database: Database, connection: sa.Connection, run: int, number: int, journal: int, place: int
) -> StoredGroup:
    """Return the part of a series in one group."""
    at = {"run": run, "number": number, "journal": journal, "place": place}
    ((_, group),) = _iter_groups(database.rows(connection, _SELECT_GROUP, **at))
    return group


def group_bounds(
    database: Database, connection: sa.Connection, run: int, number: int
) -> list[tuple[int, int, float, float, int]]:
    """Return (journal, place, low step, high step, low time in ns) of a series' groups."""
    return sorted(database.rows(connection, _SELECT_BOUNDS, run=run, number=number))


def _iter_groups(rows: list[tuple[Any, ...]]) -> Iterator[tuple[int, StoredGroup]]:
    shared: list[bytes] = []
    rows.sort(key=itemgetter(0, 1, 2))  # shared columns come first
    for journal, place, path, data in rows:
        parts = split_parts(data)
        if path == _TIMES:
            shared = parts
        elif path == _STEPS:
            shared = [parts[0], *shared]
        else:
            yield path, StoredGroup(journal, place, shared, parts)


class DrawingGroup(Piece):
    """Group of a stored series, read only as needed for drawing.

    Its steps are places on the x axis. ``facts`` are the columns journal, place, count, direction
    of steps, first and last step, smallest time, and cells.
    """

    def __init__(self, series: _DrawingSeries, facts: Sequence[Any]) -> None:
        self.journal, self.place, self.count, step_direction, self.first, self.last, self.low_t = (
            facts[:7]
        )
        self._series, self._cells = series, facts[7]
        self._places: Floats | None = None
        self.rising = step_direction != _FALLING
        if step_direction == _PROGRESSION:
            first, last = int(self.first), int(self.last)
            self.stride = (first, (last - first) // max(1, self.count - 1))

    def move_to(self, x: Floats) -> None:
        """Move the points to other places on the x axis."""
        self._places, self.stride = x, None
        self.first, self.last = float(x[0]), float(x[-1])
        self.rising = bool((x[1:] >= x[:-1]).all())

    def number_from(self, start: int) -> None:
        """Move the points to consecutive integers on the x axis."""
        self.first, self.last = float(start), float(start + self.count - 1)
        self.rising, self.stride = True, (start, 1)

    def whole(self) -> StoredGroup:
        """Return the whole group."""
        return self._series.group(self.journal, self.place)

    def steps(self) -> Floats:
        """Return the steps, float64 (count,)."""
        if self.stride is not None:
            first, difference = self.stride
            return (first + difference * np.arange(self.count)).astype(np.float64)
        return self.whole().steps() if self._places is None else self._places

    def values(self) -> Floats:
        """Return the values, float64 (count,)."""
        return unpack_floats(self._series.values(self.journal, self.place))

    def cells(self) -> bytes | None:
        """Return the packed cells; None if the group has none."""
        return None if self._cells is None else split_parts(self._cells)[0]


class _DrawingSeries:
    # Returned data is not cached: a series may be larger than the memory.

    def __init__(
        self, database: Database, connection: sa.Connection, run: int, number: int
    ) -> None:
        self._database, self._connection = database, connection
        self._at = {"run": run, "number": number}
        self._values: dict[tuple[int, int], bytes] = {}
        self._next_read = 1

    def group(self, journal: int, place: int) -> StoredGroup:
        at = {**self._at, "journal": journal, "place": place}
        return load_group(self._database, self._connection, **at)

    def values(self, journal: int, place: int) -> bytes:
        if (journal, place) not in self._values:
            at = {**self._at, "journal": journal, "place": place, "most": self._next_read}
            rows = self._database.rows(self._connection, _SELECT_VALUES, **at)
            self._values = {(journal, place): data for place, data in rows}
            self._next_read = min(2 * self._next_read, _READ_AHEAD)
        return split_parts(self._values.pop((journal, place)))[1]


def drawing_groups(
    database: Database, connection: sa.Connection, run: int, number: int
) -> list[DrawingGroup]:
    """Return the groups of a series for drawing, in the order of the journals."""
    series = _DrawingSeries(database, connection, run, number)
    rows = database.rows(connection, _SELECT_DRAWN, run=run, number=number)
    return [DrawingGroup(series, facts) for facts in sorted(rows, key=itemgetter(0, 1))]


def record_offsets(
    database: Database, connection: sa.Connection, run: int, journal: int
) -> list[int]:
    """Return sorted byte offsets of the frames that may hold points other than numbers."""
    found: list[int] = []
    for (data,) in database.rows(connection, _SELECT_SHARED, run=run, journal=journal):
        found += unpack_ints(split_parts(data)[1]).tolist()
    return found
