"""Plans for groups of batches, and the stored journals for comparison."""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from seamark.remote.protocol import Sent
from seamark.server.failures import GapError, Refusal
from seamark.server.kept import layout
from seamark.server.kept.layout import Part
from seamark.server.objects import ObjectStore
from seamark.server.quota import Quota
from seamark.store.database import Database


class DivergedError(Refusal):
    """Other bytes are stored at the same offset; ``known`` is the number of stored bytes."""

    def __init__(self, hint: str, known: int) -> None:
        super().__init__(409, "diverged", hint, known=known)


class FullError(Refusal):
    """The server is overloaded or cannot write now; the batch may be sent again."""

    def __init__(self, hint: str) -> None:
        super().__init__(503, "busy", hint, headers={"Retry-After": "5"})


def purged_refusal(project: str, run: str) -> Refusal:
    """Return the refusal of data of a purged run."""
    hint = f"run {run!r} of {project!r} was purged on this server and is not accepted again"
    return Refusal(410, "purged", hint)


class Segment(NamedTuple):
    """Location of a range of bytes of a journal in an object.

    `place` is the offset in the object, bytes; None for a declared gap, which is in no object.
    """

    offset: int
    length: int
    name: str
    place: int | None

    @property
    def end(self) -> int:
        """End of the range in the journal."""
        return self.offset + self.length


_segment = layout.segments.c
_SEGMENTS = (
    sa.select(_segment.offset, _segment.length, layout.objects.c.name, _segment.place)
    .join(layout.objects, layout.objects.c.number == _segment.object)
    .where(_segment.journal == sa.bindparam("journal"), _segment.offset < sa.bindparam("end"))
    .where(_segment.offset + _segment.length > sa.bindparam("start"))
    .order_by(_segment.offset)
)
_MAX_OFFSET = (1 << 63) - 1


def segments_of(
    database: Database,
    connection: sa.Connection,
    journal: int,
    start: int = 0,
    end: int = _MAX_OFFSET,
) -> list[Segment]:
    """Return the segments of a journal, or those that overlap the bytes from start to end."""
    rows: list[Any] = database.rows(connection, _SEGMENTS, journal=journal, start=start, end=end)
    return [Segment(*row) for row in rows]


class StoredSource:
    """Source of the bytes of a journal that were stored when it was opened.

    Declared gaps read as zeros, which are not a valid frame.
    """

    def __init__(self, objects: ObjectStore, name: str, segments: Sequence[Segment]) -> None:
        self.name = name
        self._objects = objects
        self._segments = segments
        self._starts = [segment.offset for segment in segments]

    def size(self) -> int:
        """See `seamark.journal.safe.Source.size`."""
        return self._segments[-1].end if self._segments else 0

    def pread(self, size: int, offset: int) -> bytes:
        """See `seamark.journal.safe.Source.pread`."""
        parts = [
            bytes(length) if data is None else data
            for length, data in self.stretches(offset, offset + size)
        ]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def stretches(self, start: int, end: int) -> Iterator[tuple[int, bytes | None]]:
        """Yield the stored data piece by piece: length, and bytes or None for a gap."""
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
                raise OSError(f"object {segment.name!r} was truncated")
            yield last - first, data

    def quiet_since_ns(self) -> int | None:
        """Return None: only whole frames and declared gaps are stored, so all bytes are final."""
        return None

    def gap_end(self, offset: int) -> int | None:
        """See `seamark.journal.safe.Source.gap_end`."""
        index = bisect_right(self._starts, offset) - 1
        found = None
        for segment in self._segments[max(0, index) :]:
            if segment.place is not None or not segment.offset <= (found or offset) < segment.end:
                break
            found = segment.end
        return found

    def close(self) -> None:
        """See `seamark.journal.safe.Source.close`."""


Key = tuple[str, str]
"""Key of a run (see `key_of`) and file name of a journal."""


def key_of(project: str, run: str) -> str:
    """Return the unique key of a run; run ids contain no slash."""
    return f"{project}/{run}"


@dataclass(slots=True, eq=False)
class PendingBatch:
    """Checked batch that waits to be stored; `data` is empty for a declared gap.

    `heard_ns` is the time of arrival, ns since the Unix epoch; `ahead_ns` is the lead of its
    writer's clock, 0 if less than an hour. `done` is the future of the response.
    """

    project: str
    run: str
    journal: str
    offset: int
    length: int
    data: bytes
    heard_ns: int
    ahead_ns: int
    done: Future[Sent] = field(default_factory=Future)

    @property
    def key(self) -> Key:
        """Key of its journal."""
        return key_of(self.project, self.run), self.journal

    @property
    def end(self) -> int:
        """End of the batch in the journal."""
        return self.offset + self.length


class RunRow(NamedTuple):
    """Row of a run."""

    number: int
    key: str
    position: int
    purged_ns: int | None


class JournalRow(NamedTuple):
    """Row of a journal."""

    number: int
    run: int
    name: str
    size: int


class Rows(NamedTuple):
    """Rows of runs and journals, by their keys."""

    runs: dict[str, RunRow]
    journals: dict[Key, JournalRow]


_run_c, _journal_c = layout.runs.c, layout.journals.c
_RUNS: Final = (
    sa.select(_run_c.number, _run_c.key, _run_c.position, _run_c.purged_ns)
    .where(_run_c.key.in_(sa.bindparam("keys", expanding=True)))
    .order_by(_run_c.key)
)
_RUNS_LOCKED: Final = _RUNS.with_for_update()
_JOURNALS: Final = (
    sa.select(_journal_c.number, _journal_c.run, _journal_c.name, _journal_c.size)
    .where(_journal_c.run.in_(sa.bindparam("runs", expanding=True)))
    .where(_journal_c.name.in_(sa.bindparam("names", expanding=True)))
)
_COUNTS: Final = (
    sa.select(_journal_c.run, sa.func.count())
    .where(_journal_c.run.in_(sa.bindparam("runs", expanding=True)))
    .group_by(_journal_c.run)
)


def read_runs(
    connection: sa.Connection, keys: Iterable[str], *, locked: bool = False
) -> dict[str, RunRow]:
    """Return the rows of runs by their keys, optionally locked until the transaction ends.

    All processes lock rows in the order of their keys.
    """
    statement = _RUNS_LOCKED if locked else _RUNS
    rows = connection.execute(statement, {"keys": sorted(set(keys))})
    return {row[1]: RunRow(*row) for row in rows}


def read_rows(
    connection: sa.Connection, keys: Iterable[Key], *, locked: bool = False
) -> tuple[dict[str, RunRow], dict[Key, JournalRow]]:
    """Return the rows of runs and of journals by their keys; see `read_runs`."""
    wanted = list(keys)
    runs = read_runs(connection, (key for key, _ in wanted), locked=locked)
    if not runs:
        return {}, {}
    keys_of = {row.number: row.key for row in runs.values()}
    given_names = {"runs": list(keys_of), "names": sorted({name for _, name in wanted})}
    rows = (JournalRow(*row) for row in connection.execute(_JOURNALS, given_names))
    return runs, {(keys_of[row.run], row.name): row for row in rows}


class Plan:
    """Group of batches, divided by comparison with the stored journals.

    Attributes:
        parts: New parts, in order.
        data: Bytes of each part; empty for a declared gap.
        sizes: Number of bytes of each journal before.
        waiting: Batches whose response depends on the parts, each with the offset in the response.
        settled: Batches that are already stored, each with its response.
        refused: Batches that are not accepted, each with the reason.
    """

    def __init__(
        self,
        database: Database,
        objects: ObjectStore,
        max_journals: int,
        gone: Callable[[str, str], bool],
        quota: Quota,
    ) -> None:
        self._database, self._objects = database, objects
        self._most, self._gone, self._quota = max_journals, gone, quota
        self._new_bytes: dict[str, int] = {}  # new bytes of this group, by workspace
        self.parts: list[Part] = []
        self.data: list[bytes] = []
        self.sizes: dict[Key, int] = {}
        self.waiting: list[tuple[PendingBatch, int]] = []
        self.settled: list[tuple[PendingBatch, Sent]] = []
        self.refused: list[tuple[PendingBatch, Exception]] = []
        self._new_sizes: dict[Key, int] = {}
        self._part_numbers: dict[Key, list[int]] = {}

    def make(self, arrived: Iterable[PendingBatch], recent: Rows | None = None) -> None:
        """Classify batches in the order of their arrival.

        `recent` has the rows of all their journals, if each batch starts at the end of its journal;
        None to read the rows.
        """
        group = list(arrived)
        if recent is not None:
            self._runs, self._journals = recent
            self._counts: dict[str, int] = {}
            self._add_all(None, group)
            return
        with self._database.reading() as connection:
            self._runs, self._journals = read_rows(connection, [each.key for each in group])
            numbers = [row.number for row in self._runs.values()]
            counts: dict[int, int] = {}
            if numbers:
                counts = {row[0]: row[1] for row in connection.execute(_COUNTS, {"runs": numbers})}
            self._counts = {row.key: counts.get(row.number, 0) for row in self._runs.values()}
            self._add_all(connection, group)

    def _add_all(self, connection: sa.Connection | None, group: Iterable[PendingBatch]) -> None:
        for each in group:
            try:
                self._add(connection, each)
            except Exception as error:  # noqa: BLE001 - affects only this batch
                self.refused.append((each, error))

    def _add(self, connection: sa.Connection | None, batch: PendingBatch) -> None:
        key = batch.key
        self._admit(batch)
        if key not in self._new_sizes:
            row = self._journals.get(key)
            self.sizes[key] = self._new_sizes[key] = row.size if row else 0
        known = self._new_sizes[key]
        if batch.offset > known:
            raise GapError(
                f"journal {batch.journal!r} is stored up to byte {known}, and this batch starts at "
                f"{batch.offset}: send the bytes in between, or declare a gap",
                known=known,
            )
        if batch.offset < known:
            assert connection is not None  # noqa: S101 - with recent rows all batches continue
            self._compare(connection, batch, known)
        if batch.end > known:
            self._check_quota(batch.project, batch.end - known)
            self._append(batch, known)
        if batch.end > self.sizes[key]:
            self.waiting.append((batch, self._new_sizes[key]))
        else:
            position = self._runs[key[0]].position if key[0] in self._runs else 0
            self.settled.append((batch, Sent(self.sizes[key], position)))

    def _admit(self, batch: PendingBatch) -> None:
        key = batch.key
        row = self._runs.get(key[0])
        if (row and row.purged_ns is not None) or (
            row is None and self._gone(batch.project, batch.run)
        ):
            raise purged_refusal(batch.project, batch.run)
        if key in self._journals or key in self._new_sizes:
            return
        count = self._counts.get(key[0], 0) + 1
        if count > self._most:
            raise Refusal(
                413,
                "too-large",
                f"run {batch.run!r} has {self._most} journals; more are not accepted",
                limit="journals",
                allowed=self._most,
            )
        self._counts[key[0]] = count

    def _check_quota(self, project: str, more: int) -> None:
        # Other data of the workspace in the same group counts, too.
        workspace = project.partition("/")[0]
        new = self._new_bytes.get(workspace, 0) + more
        self._quota.expect(project, new)
        self._new_bytes[workspace] = new

    def _compare(self, connection: sa.Connection, batch: PendingBatch, known: int) -> None:
        at, end = batch.offset, min(batch.end, known)
        for length, data in self._stored_bytes(connection, batch.key, at, end):
            start = at - batch.offset
            sent_bytes = batch.data[start : start + length] if batch.data else None
            if sent_bytes != data:
                raise DivergedError(
                    f"journal {batch.journal!r}: different bytes are stored from byte {at} on, so "
                    "two files have the same name: one was written by a copied machine",
                    known=known,
                )
            at += length

    def _stored_bytes(
        self, connection: sa.Connection, key: Key, start: int, end: int
    ) -> Iterator[tuple[int, bytes | None]]:
        # Stored bytes, followed by new bytes of the same group.
        stored = min(end, self.sizes[key])
        if start < stored:
            found = segments_of(
                self._database, connection, self._journals[key].number, start, stored
            )
            yield from StoredSource(self._objects, key[1], found).stretches(start, stored)
        for index in self._part_numbers.get(key, ()):
            part, data = self.parts[index], self.data[index]
            first, last = max(start, part.offset), min(end, part.end)
            if first < last:
                piece = data[first - part.offset : last - part.offset] if data else None
                yield last - first, piece

    def _append(self, batch: PendingBatch, known: int) -> None:
        data = batch.data[known - batch.offset :] if batch.data else b""
        self._part_numbers.setdefault(batch.key, []).append(len(self.parts))
        self.data.append(data)
        self.parts.append(
            Part(
                batch.project,
                batch.run,
                batch.journal,
                known,
                batch.end - known,
                batch.heard_ns,
                batch.ahead_ns,
                zlib.crc32(data) if data else None,
            )
        )
        self._new_sizes[batch.key] = batch.end
