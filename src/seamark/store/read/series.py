"""Reading float series from row groups, and from journals for points not in groups.

Only data folded into the snapshot of the tables is read: concurrent writing changes no result.
"""

from __future__ import annotations

import contextlib
import logging
import zlib
from collections.abc import Callable, Container, Iterator, Sequence
from functools import cache
from operator import itemgetter
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
import sqlalchemy as sa
from msgspec import Meta

from seamark.journal.format import (
    FILE_HEADER_BYTES,
    salt_of,
)
from seamark.journal.frames import BLOCK_BYTES, walk
from seamark.journal.reader import Block, JournalReader
from seamark.reading.points import Points
from seamark.store.fold.decode import RowBatch, decode
from seamark.store.fold.payloads import Names
from seamark.store.fold.registers import NEVER
from seamark.store.fold.run_state import JournalState, RunState
from seamark.store.groups import (
    StoredGroup,
    group_bounds,
    load_group,
    load_groups,
)
from seamark.store.ingest import UNREADABLE
from seamark.store.journals import names_before
from seamark.store.read.inherited import Share, Sources
from seamark.store.runs import Store, StoredRun
from seamark.values.arrays import Floats, Ints

_MAX_WHOLE_BYTES: Final = 1 << 17
"""Size up to which a journal is read in one piece, in bytes."""
_NO_PLACE: Final = 1 << 62

log = logging.getLogger("seamark")


class Piece(NamedTuple):
    """Points of one series from a section of one journal, in the order of writing."""

    journal: JournalState
    step: Floats
    value: Floats
    t: Ints
    time: Ints
    place: int = _NO_PLACE
    """Offset of its group in the journal, in bytes; beyond all offsets if it is in no group."""

    def part(self, seen: Any) -> Piece:
        """Return the points selected by an index or a mask."""
        step, value, t, time = self.step[seen], self.value[seen], self.t[seen], self.time[seen]
        return self._replace(step=step, value=value, t=t, time=time)


def read_floats(
    store: Store, connection: sa.Connection, shares: Sequence[Share], paths: Sequence[str]
) -> dict[str, Points]:
    """Return the points of float series by path.

    Series of the same rows may share the arrays of steps and times. If a journal cannot be read,
    its ``stopped`` is set to `UNREADABLE`.
    """
    found: dict[str, list[Piece]] = {path: [] for path in paths}
    for share in shares:
        wanted = [path for path in paths if share.end(path) > -np.inf]
        if not wanted:
            continue
        journals, run = shown_journals(share), share.run.number or 0
        for path, pieces in tail_pieces(store, connection, share, wanted).items():
            found[path] += pieces
        if not any(journal.chunked for journal, _ in journals.values()):
            continue
        numbers = store.numbers.known(connection, wanted)
        if not numbers:
            continue
        every = load_groups(store.database, connection, run, list(numbers.values()))
        for path, number in numbers.items():
            found[path] += [
                visible_points(share, path, *journals[group.journal], group)
                for group in every.get(number, ())
                if group.journal in journals
            ]
    return {path: _merge_pieces(pieces) for path, pieces in found.items()}


def read_last(
    store: Store,
    connection: sa.Connection,
    shares: Sequence[Share],
    paths: Sequence[str],
    limit: int,
) -> dict[str, Points]:
    """Return the last ``limit`` points of float series by path."""
    tails = _tails_of(store, connection, shares, paths)
    return {
        path: _SeriesReader(store, connection, shares, path, tails).read_last(limit)[-limit:]
        for path in paths
    }


class Part(NamedTuple):
    """Part of a series, and the mark of its end; None for the last part.

    ``begins`` is true for the first part, and for a restart because read points are hidden now.
    """

    points: Points
    begins: bool
    end: Mark | None


class Mark(NamedTuple):
    """End of a part of a series: the step, the number of points read at this step, and a checksum.

    The checksum covers the facts that hide points; if it changes, read points may be hidden.
    """

    step: float
    done: Annotated[int, Meta(ge=0)]
    hidden: int


def read_floats_part(
    store: Store,
    connection: sa.Connection,
    shares: Sequence[Share],
    path: str,
    most: int,
    *,
    after: Mark | None = None,
    last: int | None = None,
) -> Part:
    """Return the next points of a float series, at most ``most``.

    Only groups that may contain these points are read. ``after`` is the end of the previous part;
    None starts a series, at the ``last`` points if given. The series also restarts if hidden points
    have changed. New points are returned if they are after the points already read.
    """
    tails = _tails_of(store, connection, shares, [path])
    series = _SeriesReader(store, connection, shares, path, tails)
    hidden = series.hiding_facts()
    begins = after is None or after.hidden != hidden
    begin, skip = -np.inf, 0
    if after is not None and not begins:
        begin, skip = after.step, after.done
    elif last is not None:
        ends = series.read_last(last)
        if not len(ends):
            return Part(ends, begins, None)
        begin = float(ends.step[-last:][0])
        skip = int(np.count_nonzero(ends.step[:-last] == begin))
    found, more = series.read(begin, skip + most)
    part = found[skip : skip + most]
    if not len(part) or not (more or len(found) > skip + most):
        return Part(part, begins, None)
    step = float(part.step[-1])
    done = int(np.count_nonzero(found.step[: skip + most] == step))
    return Part(part, begins, Mark(step, done, hidden))


_Tails = Callable[[int], dict[str, "list[Piece]"]]


def _tails_of(
    store: Store, connection: sa.Connection, shares: Sequence[Share], paths: Sequence[str]
) -> _Tails:
    # Reads the tail of a share, by its index, once and for all paths.
    return cache(lambda at: tail_pieces(store, connection, shares[at], paths))


class _SeriesReader:
    # Loads only the groups and tails that may contain the requested points.

    def __init__(
        self,
        store: Store,
        connection: sa.Connection,
        shares: Sequence[Share],
        path: str,
        tails: _Tails,
    ) -> None:
        self._store, self._connection, self._path = store, connection, path
        self._shares = {at: one for at, one in enumerate(shares) if one.end(path) > -np.inf}
        self._journals = {at: shown_journals(share) for at, share in self._shares.items()}
        self._tails = tails
        self._number = store.numbers.number(connection, path)
        self._bounds = sorted(self._iter_bounds(), key=itemgetter(3))

    def _iter_bounds(self) -> Iterator[tuple[int, int | None, int, float, float]]:
        # Index of the share, journal, place, low and high step of each group. A tail, which may
        # hold any visible step, has no journal.
        for at, share in self._shares.items():
            end, journals = share.end(self._path), self._journals[at]
            yield at, None, _NO_PLACE, -np.inf, end
            if self._number is None or not any(one.chunked for one, _ in journals.values()):
                continue
            run = int(share.run.number or 0)
            bounds = group_bounds(self._store.database, self._connection, run, self._number)
            for journal, place, low, high, _ in bounds:
                if journal in journals and low <= end:
                    yield at, journal, place, low, min(high, end)

    def hiding_facts(self) -> int:
        """Return a checksum of the facts that hide points."""
        facts: list[Any] = []
        for share in self._shares.values():
            state = share.run.state
            spans = sorted(
                (journal.uid, *span_of(state, journal, share.attempt))
                for journal in state.journals.values()
            )
            ending = [(uid, *one) for uid, *one in spans if one != [0, _NO_END]]
            end = () if share.ends is None else (share.run.name, share.end(self._path))
            facts.append((share.after(self._path), ending, *end))
        return zlib.crc32(repr(facts).encode())

    def _load(self, at: int, journal: int | None, place: int) -> list[Piece]:
        if journal is None:
            return self._tails(at)[self._path]
        share, database = self._shares[at], self._store.database
        run, number = int(share.run.number or 0), int(self._number or 0)
        group = load_group(database, self._connection, run, number, journal, place)
        return [visible_points(share, self._path, *self._journals[at][journal], group)]

    def read(self, begin: float, wanted: int) -> tuple[Points, bool]:
        """Return at least ``wanted`` points from a step on, and whether there are more."""
        pieces: list[Piece] = []
        for at, journal, place, low, high in self._bounds:
            if high < begin:
                continue
            if sum(int(np.count_nonzero(one.step < low)) for one in pieces) >= wanted:
                return _merge_pieces([one.part(one.step < low) for one in pieces]), True
            pieces += [_points_from(one, begin) for one in self._load(at, journal, place)]
        return _merge_pieces(pieces), False

    def read_last(self, limit: int) -> Points:
        """Return at least the last ``limit`` points, and all of the first of their steps."""
        pieces: list[Piece] = []
        for at, journal, place, _, high in sorted(self._bounds, key=itemgetter(4), reverse=True):
            if high < _first_of_last_steps(pieces, limit):
                break
            pieces += self._load(at, journal, place)
        return _merge_pieces(pieces)


def _first_of_last_steps(pieces: Sequence[Piece], limit: int) -> float:
    if sum(len(one.step) for one in pieces) < limit:
        return -np.inf
    steps = np.concatenate([one.step for one in pieces])
    return float(np.partition(steps, len(steps) - limit)[len(steps) - limit])


def _points_from(piece: Piece, begin: float) -> Piece:
    return piece if begin == -np.inf else piece.part(piece.step >= begin)


def tail_pieces(
    store: Store,
    connection: sa.Connection,
    share: Share,
    paths: Sequence[str],
    journals: Container[int] | None = None,
) -> dict[str, list[Piece]]:
    """Return the visible points not in groups, by path, optionally only of some journals."""
    found: dict[str, list[Piece]] = {path: [] for path in paths}
    for number, (journal, span) in shown_journals(share).items():
        if journals is not None and number not in journals:
            continue
        wanted = frozenset(paths)
        for batch in _tail_batches(store, connection, share.run, journal, share.sources, wanted):
            for path, piece in _split_batch(journal, batch, span):
                found[path].append(visible_part(share, path, piece))
    return found


class Span(NamedTuple):
    """Range of byte offsets in which a journal's points are visible; the end is exclusive."""

    begin: float
    end: float


_NO_END: Final = float("inf")
EVERYTHING: Final = Span(0, _NO_END)


def span_of(run: RunState, journal: JournalState, attempt: int | str) -> Span:
    """Return the range of offsets in which an attempt's points in a journal are visible."""
    if attempt == "all":
        return EVERYTHING
    if attempt == "replaced":
        return Span(run.cut(journal, None), _NO_END)
    return Span(0, run.cut(journal, attempt if isinstance(attempt, int) else None))


def _slice_within(offsets: Ints, span: Span) -> slice:
    if not len(offsets) or (offsets[0] >= span.begin and offsets[-1] < span.end):
        return slice(None)
    return slice(*np.searchsorted(offsets, span).tolist())


def _split_batch(journal: JournalState, batch: RowBatch, span: Span) -> Iterator[tuple[str, Piece]]:
    seen = _slice_within(batch.offset, span)
    first, end, _ = seen.indices(len(batch.offset))
    for path, (rows, values) in batch.series.items():
        if rows is None:
            part: Any = seen
            own = values[part]
        else:
            some = slice(*np.searchsorted(rows, (first, end)).tolist())
            part, own = rows[some], values[some]
        yield path, Piece(journal, batch.step[part], own, batch.t[part], batch.time[part])


def shown_journals(share: Share) -> dict[int, tuple[JournalState, Span]]:
    """Return the journals that may hold visible points, and their spans, by number."""
    state = share.run.state
    spans = ((one, span_of(state, one, share.attempt)) for one in state.journals.values())
    return {one.number: (one, span) for one, span in spans if one.point_end >= 0 and span.end > 0}


def piece_of(journal: JournalState, group: StoredGroup) -> Piece:
    """Return all points of a group."""
    t = group.t()
    return Piece(journal, group.steps(), group.values(), t, group.times(t), group.place)


def visible_points(
    share: Share, path: str, journal: JournalState, span: Span, group: StoredGroup
) -> Piece:
    """Return the visible points of a group."""
    piece = piece_of(journal, group)
    if span.begin > group.place or span.end < journal.chunked:
        piece = piece.part(_slice_within(group.offsets(), span))
    return visible_part(share, path, piece)


def visible_part(share: Share, path: str, piece: Piece) -> Piece:
    """Return the points of a piece that are not deleted, up to the last visible step."""
    after, end = share.after(path), share.end(path)
    if after != NEVER and len(piece.t) and piece.t.min() <= after[0]:
        newer = piece.t >= after[0] if piece.journal.uid > after[1] else piece.t > after[0]
        piece = piece.part(newer)
    return piece if end == np.inf else piece.part(piece.step <= end)


def _merge_pieces(pieces: Sequence[Piece]) -> Points:
    pieces = [one for one in pieces if len(one.step)]
    if not pieces:
        return Points.none()
    uids = sorted({piece.journal.uid for piece in pieces})
    # Groups may share a frame, whose points all have the same time: keep the order of groups.
    pieces.sort(key=lambda piece: piece.place)
    if len(uids) == 1:
        pieces.sort(key=lambda piece: int(piece.t[0]))
    step, value, t = (
        _concatenate([column(piece) for piece in pieces]) for column in map(itemgetter, (1, 2, 3))
    )
    own = any(piece.time is not piece.t for piece in pieces)
    time = _concatenate([piece.time for piece in pieces]) if own else t
    sizes = [len(piece.step) for piece in pieces]
    attempts = [-1 if one.journal.attempt is None else one.journal.attempt for one in pieces]
    attempt = np.repeat(np.array(attempts, np.int64), sizes)
    # Rows with a caller's time are in separate pieces, so pieces may not be in the order of t.
    falling = bool((step[1:] < step[:-1]).any())
    if not falling and (same := step[1:] == step[:-1]).any():
        falling = bool((same & (t[1:] < t[:-1])).any())
    if len(uids) > 1 or falling:
        ranks = np.repeat([uids.index(piece.journal.uid) for piece in pieces], sizes)
        order = np.lexsort((ranks, t, step))
        return Points(step[order], value[order], time[order], attempt[order])
    return Points(step, value, time, attempt)


def _concatenate(parts: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


# ---------------------------------------------------------------------- straight from journals


def _tail_batches(
    store: Store,
    connection: sa.Connection,
    run: StoredRun,
    journal: JournalState,
    sources: Sources,
    paths: frozenset[str],
) -> Iterator[RowBatch]:
    if journal.point_end < journal.chunked:
        return
    names = Names()
    if journal.chunked:
        names = names_before(store, run.number or 0, journal.number, journal.chunked, connection)
    if not journal.chunked and journal.offset <= _MAX_WHOLE_BYTES:
        found = _small_batches(journal, sources, paths)
        if found is not None:
            yield from found
            return
    with journal_reader(journal, sources) as reader:
        if reader is not None:
            for block in reader.blocks(journal.chunked):
                yield from decode(block, names, paths, stop=journal.offset).batches
                if block.end >= journal.offset:
                    return


def _small_batches(
    journal: JournalState, sources: Sources, paths: frozenset[str]
) -> list[RowBatch] | None:
    # Fast path, because a run may have a thousand small journals; None for a damaged journal.
    start = FILE_HEADER_BYTES
    try:
        with contextlib.closing(sources(journal.file)) as source:
            data = source.pread(journal.offset - start, start)
    except OSError as error:
        _warn_unreadable(journal, error)
        return []
    frames, end, _ = walk(data, salt_of(journal.uid))
    if start + end < journal.offset:
        return None
    return decode(Block(start, data, frames, start + end), Names(), paths).batches


def _warn_unreadable(journal: JournalState, error: OSError) -> None:
    journal.stopped = UNREADABLE
    log.warning("seamark: points of %s cannot be read: %s", journal.file, error)


@contextlib.contextmanager
def journal_reader(journal: JournalState, sources: Sources) -> Iterator[JournalReader | None]:
    """Open a journal; log a warning and yield None if this fails."""
    try:
        rest = journal.offset - journal.chunked
        size = min(BLOCK_BYTES, max(4096, rest))
        with JournalReader(sources(journal.file), walk=walk, block_bytes=size) as reader:
            yield reader
    except OSError as error:
        _warn_unreadable(journal, error)
        yield None
