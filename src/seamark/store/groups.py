"""Row groups: stretches of one journal whose points are kept packed, series by series.

A group's series share the columns of steps, times and offsets; what is kept with each of them in
the tables (how many points, between which steps) tells whether it has to be unpacked at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import sqlalchemy as sa

from seamark.store import schema
from seamark.store.chunks import (
    join_parts,
    pack_floats,
    pack_ints,
    packed_stride,
    split_parts,
    unpack_floats,
    unpack_floats_at,
    unpack_ints,
)
from seamark.store.database import insertion
from seamark.store.fold.decode import Decoded, RowBatch, may_hold_points, merge
from seamark.store.pyramid import Pyramid, pack_pyramid, unpack_pyramid

if TYPE_CHECKING:
    from seamark.journal.reader import Block
    from seamark.store.database import Database
    from seamark.values.arrays import Floats, Ints

__all__ = [
    "CHUNK_BYTES",
    "GROUP_ROWS",
    "SMALL_BYTES",
    "Gathering",
    "Group",
    "StoredGroup",
    "drawn_groups",
    "drop_groups",
    "group_ends",
    "last_place",
    "load_group",
    "load_groups",
    "record_offsets",
    "store_groups",
]

SMALL_BYTES: Final = 64 * 1024
"""A journal with less is read straight from its bytes."""
CHUNK_BYTES: Final = 256 * 1024
"""What was appended since is read like that too, until it is more than this."""
GROUP_ROWS: Final = 1 << 16
"""How many rows make a full group."""
_GROUP_VALUES: Final = 1 << 21
_PYRAMID_POINTS: Final = 1024
"""Fewer points of a group are read when it is drawn."""
_STEPS: Final = 0
_TIMES: Final = -1
"""What the series of a group share is in rows of its own, under numbers that no path has."""

_INSERT: Final = insertion(schema.chunk)
_INSERT_PYRAMID: Final = insertion(schema.pyramid)


def _from_place(table: sa.Table) -> Any:
    return sa.delete(table).where(
        table.c.run == sa.bindparam("run"),
        table.c.journal == sa.bindparam("journal"),
        table.c.place >= sa.bindparam("place"),
    )


_DROP: Final = (_from_place(schema.chunk), _from_place(schema.pyramid))
_chunk: Final = schema.chunk.c
_LAST: Final = (
    sa.select(_chunk.place, _chunk.count)
    .where(
        _chunk.run == sa.bindparam("run"),
        _chunk.path == _STEPS,
        _chunk.journal == sa.bindparam("journal"),
    )
    .order_by(_chunk.place.desc())
    .limit(1)
)
_SHARED: Final = (
    sa.select(_chunk.data)
    .where(
        _chunk.run == sa.bindparam("run"),
        _chunk.path == _STEPS,
        _chunk.journal == sa.bindparam("journal"),
    )
    .order_by(_chunk.place)
)
_STORED: Final = (
    _chunk.run,
    _chunk.journal,
    _chunk.place,
    _chunk.path,
    _chunk.count,
    _chunk.rising,
    _chunk.low_step,
    _chunk.high_step,
    _chunk.low_t,
    _chunk.data,
)
_ONE: Final = sa.select(*_STORED).where(
    _chunk.run == sa.bindparam("run"),
    _chunk.path.in_([_STEPS, _TIMES, sa.bindparam("number")]),
    _chunk.journal == sa.bindparam("journal"),
    _chunk.place == sa.bindparam("place"),
)
_of_series: Final = (_chunk.run == sa.bindparam("run"), _chunk.path == sa.bindparam("number"))
_DRAWN: Final = sa.select(
    _chunk.journal,
    _chunk.place,
    _chunk.count,
    _chunk.rising,
    _chunk.low_step,
    _chunk.high_step,
    _chunk.low_t,
).where(*_of_series)
_ALL_STEPS: Final = sa.select(_chunk.journal, _chunk.place, _chunk.count, _chunk.data).where(
    _chunk.run == sa.bindparam("run"), _chunk.path == _STEPS
)
_PYRAMIDS: Final = sa.select(
    schema.pyramid.c.journal, schema.pyramid.c.place, schema.pyramid.c.data
).where(
    schema.pyramid.c.run == sa.bindparam("run"), schema.pyramid.c.path == sa.bindparam("number")
)
_ENDS: Final = (
    sa.select(_chunk.journal, _chunk.place, _chunk.high_step)
    .where(_chunk.run == sa.bindparam("run"), _chunk.path == sa.bindparam("number"))
    .order_by(_chunk.high_step.desc())
)
_BEGINS: Final = (
    sa.select(_chunk.journal, _chunk.place, _chunk.low_step, _chunk.high_step)
    .where(_chunk.run == sa.bindparam("run"), _chunk.path == sa.bindparam("number"))
    .order_by(_chunk.low_step, _chunk.journal, _chunk.place)
)


# ---------------------------------------------------------------------- making


@dataclass(slots=True)
class Group:
    """One row group that is to be stored.

    Attributes:
        journal: Number of the journal.
        place: Where it starts in the journal, bytes.
        batch: Its rows.
        records: Offsets of the frames that may hold points other than numbers.
    """

    journal: int
    place: int
    batch: RowBatch
    records: list[int]


@dataclass(slots=True)
class Gathering:
    """Decoded rows of one journal on their way into groups.

    Attributes:
        journal: Number of the journal.
        place: Where the next group starts, bytes.
        done: Groups that are complete.
    """

    journal: int
    place: int
    done: list[Group] = field(default_factory=list)
    _batches: list[RowBatch] = field(default_factory=list)
    _records: list[int] = field(default_factory=list)

    def add(self, decoded: Decoded, block: Block, end: int) -> None:
        """Take what was decoded of a block, up to an offset; a group ends only there."""
        self._batches += decoded.batches
        self._records += [
            block.base + frame[0] for frame in decoded.records if may_hold_points(block, frame)
        ]
        rows = sum(len(batch.step) for batch in self._batches)
        values = sum(len(own) for batch in self._batches for _, own in batch.series.values())
        if rows > GROUP_ROWS:
            self._end_full()
        elif values >= _GROUP_VALUES:
            self.end(end)

    def _end_full(self) -> None:
        """End groups of exactly `GROUP_ROWS` rows.

        Then the stretches of a pyramid begin where parts of a picture do, for a series that has a
        point in every row.
        """
        batch = merge(self._batches)
        while len(batch.step) > GROUP_ROWS:
            # What one frame holds stays together.
            count = int(np.searchsorted(batch.offset, batch.offset[GROUP_ROWS]))
            if not count:
                count = int(np.searchsorted(batch.offset, batch.offset[0], side="right"))
            if count == len(batch.step):
                break
            place = int(batch.offset[count])
            records = [offset for offset in self._records if offset < place]
            self.done.append(Group(self.journal, self.place, batch.before(count), records))
            self._records = self._records[len(records) :]
            self.place, batch = place, batch.after(count)
        self._batches = [batch]

    def end(self, offset: int) -> None:
        """End the group that is being gathered at an offset, bytes."""
        if offset > self.place:
            self.done.append(Group(self.journal, self.place, merge(self._batches), self._records))
            self.place, self._batches, self._records = offset, [], []

    def paths(self) -> Iterable[str]:
        """Return the paths of all series in the groups that are complete."""
        return {path for group in self.done for path in group.batch.series}


def store_groups(
    database: Database,
    connection: sa.Connection,
    run: int,
    groups: Sequence[Group],
    numbers: Mapping[str, int],
) -> None:
    """Write groups, within a transaction."""
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
        bounds = _bounds(batch.step, batch.t)
        rows = [(run, _STEPS, *at, *bounds, join_parts(steps))]
        rows.append((run, _TIMES, *at, *bounds, join_parts(times)))
        pyramids = []
        for path, (own, values) in batch.series.items():
            _, t, step, _ = batch.points(path)
            data = join_parts([b"" if own is None else pack_ints(own), pack_floats(values)])
            rows.append((run, numbers[path], *at, *_bounds(step, t), data))
            if len(values) >= _PYRAMID_POINTS:
                pyramids.append((run, numbers[path], *at, join_parts([pack_pyramid(values)])))
        database.run_many(connection, _INSERT, rows)
        database.run_many(connection, _INSERT_PYRAMID, pyramids)


def _bounds(step: Floats, t: Ints) -> tuple[int, int, float, float, int]:
    """Return count, whether the steps never fall, smallest and greatest step, smallest time."""
    if not len(step):
        return 0, 1, 0.0, 0.0, 0
    rising = bool((step[1:] >= step[:-1]).all())
    low, high = (step[0], step[-1]) if rising else (step.min(), step.max())
    return len(step), int(rising), float(low), float(high), int(t.min())


def drop_groups(
    database: Database, connection: sa.Connection, run: int, journal: int, place: int
) -> None:
    """Remove the groups of a journal from a place on, bytes."""
    for statement in _DROP:
        database.run(connection, statement, run=run, journal=journal, place=place)


def last_place(
    database: Database, connection: sa.Connection, run: int, journal: int
) -> tuple[int, int] | None:
    """Return where the last group of a journal starts (bytes) and how many rows it has, or None."""
    found = database.rows(connection, _LAST, run=run, journal=journal)
    return (int(found[0][0]), int(found[0][1])) if found else None


# ---------------------------------------------------------------------- reading


@dataclass(slots=True)
class StoredGroup:
    """What the tables say of one series in one group.

    Attributes:
        journal: Number of the journal.
        place: Where the group starts in the journal, bytes.
        rows: How many rows the group has.
        count: How many points of the series are in it.
        rising: Whether their steps never fall.
        low_step: Smallest step.
        high_step: Greatest step.
        low_t: Smallest time of a frame, nanoseconds since the Unix epoch.
        shared: Steps, times of the frames, the caller's times and offsets of the group, packed.
        own: Which rows have a value, and the values, packed.
    """

    journal: int
    place: int
    rows: int
    count: int
    rising: bool
    low_step: float
    high_step: float
    low_t: int
    shared: list[bytes]
    own: list[bytes]

    def picked(self, column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return what a column of the group has in the rows of the series."""
        return column[unpack_ints(self.own[0])] if self.own[0] else column

    def steps(self) -> Floats:
        """Return the steps, float64 (count,)."""
        return self.picked(unpack_floats(self.shared[0]))

    def values(self) -> Floats:
        """Return the values, float64 (count,)."""
        return unpack_floats(self.own[1])

    def t(self) -> Ints:
        """Return the times of the frames, nanoseconds since the Unix epoch, int64 (count,)."""
        return self.picked(unpack_ints(self.shared[1]))

    def times(self, t: Ints) -> Ints:
        """Return the caller's times where there are some, else those of the frames.

        Args:
            t: The times of the frames.
        """
        return self.picked(unpack_ints(self.shared[2])) if self.shared[2] else t

    def offsets(self) -> Ints:
        """Return where the frames are, bytes, int64 (count,)."""
        return self.picked(unpack_ints(self.shared[3]))


def load_groups(
    database: Database, connection: sa.Connection, runs: Sequence[int], numbers: Sequence[int]
) -> dict[tuple[int, int], list[StoredGroup]]:
    """Return the groups of series by (run, number of the path), in the order of the journals.

    Args:
        database: Where they are.
        connection: Of a transaction.
        runs: Numbers of the runs.
        numbers: Numbers of the paths.
    """
    if not numbers or not runs:
        return {}
    wanted = sa.select(*_STORED).where(
        _chunk.run.in_(runs), _chunk.path.in_([_STEPS, _TIMES, *numbers])
    )
    found: dict[tuple[int, int], list[StoredGroup]] = {}
    for path, run, group in _stored(database.query(connection, wanted)):
        found.setdefault((run, path), []).append(group)
    return found


def load_group(
    database: Database, connection: sa.Connection, run: int, number: int, journal: int, place: int
) -> StoredGroup:
    """Return one series in one group."""
    at = {"run": run, "number": number, "journal": journal, "place": place}
    ((_, _, group),) = _stored(database.rows(connection, _ONE, **at))
    return group


def group_ends(
    database: Database, connection: sa.Connection, run: int, number: int
) -> list[tuple[int, int, float]]:
    """Return journal, place and greatest step of the groups of a series, the greatest first."""
    return database.rows(connection, _ENDS, run=run, number=number)


def group_begins(
    database: Database, connection: sa.Connection, run: int, number: int
) -> list[tuple[int, int, float, float]]:
    """Return journal, place, smallest and greatest step of the groups, the smallest first."""
    return database.rows(connection, _BEGINS, run=run, number=number)


def _stored(rows: list[tuple[Any, ...]]) -> Iterator[tuple[int, int, StoredGroup]]:
    """Yield (number of the path, run, group) of rows, which are put in order."""
    here: tuple[int, ...] = ()
    size, times, shared = 0, [b"", b"", b""], [b""]
    rows.sort(key=itemgetter(0, 1, 2, 3))  # the columns that the series share come first
    for run, journal, place, path, count, *facts, data in rows:
        parts = split_parts(data)
        if path == _TIMES:
            here, times = (run, journal, place), parts
        elif path == _STEPS:
            size, shared = count, [parts[0], *times]
        elif here == (run, journal, place):
            rising, low, high, low_t = facts
            group = StoredGroup(
                journal, place, size, count, bool(rising), low, high, low_t, shared, parts
            )
            yield path, run, group


class Drawn:
    """A group of a series that is drawn: what is not needed for that is not read.

    It is a `seamark.store.pyramid.Piece`.

    Args:
        load: Reads the group as a whole.
        facts: Journal, place, count, whether the steps rise, smallest and greatest step, smallest
            time, as in the tables.
        steps: The column of steps, packed.
        pyramid: Packed; None if there is none.
        all_rows: Whether the series has a value in every row of the group.
    """

    def __init__(
        self,
        load: Callable[[int, int], StoredGroup],
        facts: Sequence[Any],
        steps: bytes,
        pyramid: bytes | None,
        *,
        all_rows: bool,
    ) -> None:
        self.journal, self.place, self.count, rising, self.first, self.last, self.low_t = facts
        self.rising = bool(rising)
        self.stride = packed_stride(steps) if all_rows else None
        self._load = load
        self._pyramid = pyramid
        self._whole: StoredGroup | None = None

    def whole(self) -> StoredGroup:
        """Return everything that is stored of it."""
        if self._whole is None:
            self._whole = self._load(self.journal, self.place)
        return self._whole

    def steps(self) -> Floats:
        """Return the steps, float64 (count,)."""
        return self.whole().steps()

    def values(self) -> Floats:
        """Return the values, float64 (count,)."""
        return self.whole().values()

    def values_at(self, places: Ints) -> Floats:
        """Return some of the values."""
        return unpack_floats_at(self.whole().own[1], places)

    def pyramid(self) -> Pyramid | None:
        """Return minima, maxima and counts of its points."""
        return None if self._pyramid is None else unpack_pyramid(split_parts(self._pyramid)[0])


def drawn_groups(
    database: Database, connection: sa.Connection, run: int, number: int
) -> list[Drawn]:
    """Return the groups of a series as they are drawn, in the order of the journals."""
    at = {"run": run, "number": number}
    pyramids = {row[:2]: row[2] for row in database.rows(connection, _PYRAMIDS, **at)}
    steps = {row[:2]: row[2:] for row in database.rows(connection, _ALL_STEPS, run=run)}

    def load(journal: int, place: int) -> StoredGroup:
        return load_group(database, connection, run, number, journal, place)

    return [
        Drawn(
            load,
            facts,
            split_parts(steps[facts[:2]][1])[0],
            pyramids.get(facts[:2]),
            all_rows=facts[2] == steps[facts[:2]][0],
        )
        for facts in sorted(database.rows(connection, _DRAWN, **at))
    ]


def record_offsets(
    database: Database, connection: sa.Connection, run: int, journal: int
) -> list[int]:
    """Return where the frames lie, bytes, that may hold points other than numbers, in order."""
    found: list[int] = []
    for (data,) in database.rows(connection, _SHARED, run=run, journal=journal):
        found += unpack_ints(split_parts(data)[1]).tolist()
    return found
