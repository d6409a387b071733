"""Reading float series from row groups, and from journals for points not in groups.

Only data folded into the snapshot of the tables is read: concurrent writing changes no result.
"""

from __future__ import annotations

import contextlib
import logging
import zlib
from collections.abc import Container, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
import sqlalchemy as sa
from msgspec import Meta

from seamark.journal.format import (
    FILE_HEADER_BYTES,
    salt_of,
)
from seamark.journal.reader import Block, JournalReader
from seamark.journal.walk import BLOCK_BYTES, walk
from seamark.reading.points import Points
from seamark.store.fold.decode import RowBatch, decode
from seamark.store.fold.payloads import Names
from seamark.store.fold.registers import Key
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

__all__ = [
    "EVERYTHING",
    "Mark",
    "Part",
    "Piece",
    "Sources",
    "journal_reader",
    "points_in_span",
    "read_floats",
    "read_floats_part",
    "shown_journals",
    "span_of",
    "tail_pieces",
    "visible_part",
]

_MAX_WHOLE_BYTES: Final = 1 << 17
"""Size up to which a journal is read in one piece, in bytes."""
_NO_PLACE: Final = 1 << 62
_NEVER_NS: Final = -(1 << 64)

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
    store: Store,
    connection: sa.Connection,
    shares: Sequence[Share],
    paths: Sequence[str],
    limit: int | None = None,
) -> dict[str, Points]:
    """Return the points, or the last ``limit`` points, of float series by path.

    Series of the same rows may share the arrays of steps and times. If a journal cannot be read,
    its ``stopped`` is set to `UNREADABLE`.
    """
    found: dict[str, list[Piece]] = {path: [] for path in paths}
    for share in shares:
        wanted = [path for path in paths if _may_contribute(share, path, found[path], limit)]
        if wanted:
            _add_floats(store, connection, share, wanted, found, limit)
    return {path: _merge_pieces(pieces, limit) for path, pieces in found.items()}


def _may_contribute(share: Share, path: str, nearer: list[Piece], limit: int | None) -> bool:
    end = share.end(path)
    if end == np.inf or limit is None:
        return end > -np.inf
    least = _first_of_last_steps(nearer, limit)
    return end > -np.inf and (least is None or least <= end)


def _add_floats(
    store: Store,
    connection: sa.Connection,
    share: Share,
    paths: Sequence[str],
    found: dict[str, list[Piece]],
    limit: int | None,
) -> None:
    number_of = store.numbers.known(connection, paths)
    journals = shown_journals(share)
    tails = tail_pieces(store, connection, share, paths)
    run, every = share.run.number or 0, {}
    chunked = any(journal.chunked for journal, _ in journals.values())
    # The last points of an ancestor may be after the step of the fork: read all of its groups.
    least = limit if share.ends is None else None
    if chunked and least is None:
        every = load_groups(store.database, connection, [run], list(number_of.values()))
    for path in paths:
        pieces = found[path]
        pieces += [
            kept for one in tails[path] if len((kept := visible_part(share, path, one)).step)
        ]
        if not chunked or path not in number_of:
            continue
        groups: Iterable[StoredGroup] = every.get((run, number_of[path]), ())
        if least is not None:
            groups = _last_groups(store, connection, run, number_of[path], pieces, least)
        for group in groups:
            if group.journal in journals:
                kept = visible_part(share, path, points_in_span(*journals[group.journal], group))
                if len(kept.step):
                    pieces.append(kept)


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
    series = _PartReader(store, connection, shares, path)
    begins = after is None or after.hidden != series.hidden
    begin, skip = -np.inf, 0
    if after is not None and not begins:
        begin, skip = after.step, after.done
    elif last is not None:
        ends = read_floats(store, connection, shares, [path], last)[path]
        if not len(ends):
            return Part(ends, begins, None)
        begin = float(ends.step[0])
        of_step = series.read(begin, 0, begin)[0]
        skip = len(of_step) - int(np.count_nonzero(ends.step == begin))
    found, more = series.read(begin, skip + most)
    part = found[skip : skip + most]
    if not len(part) or not (more or len(found) > skip + most):
        return Part(part, begins, None)
    step = float(part.step[-1])
    done = int(np.count_nonzero(found.step[: skip + most] == step))
    return Part(part, begins, Mark(step, done, series.hidden))


class _PartReader:
    def __init__(
        self, store: Store, connection: sa.Connection, shares: Sequence[Share], path: str
    ) -> None:
        self._store, self._connection, self._path = store, connection, path
        self._shares = [share for share in shares if share.end(path) > -np.inf]
        self._spans = [shown_journals(share) for share in self._shares]
        self.hidden = zlib.crc32(
            repr([self._hiding_facts(share) for share in self._shares]).encode()
        )
        self._tails = [
            kept
            for share in self._shares
            for one in tail_pieces(store, connection, share, [path])[path]
            if len((kept := visible_part(share, path, one)).step)
        ]
        self._number = store.numbers.known(connection, [path]).get(path)

    def _hiding_facts(self, share: Share) -> Any:
        state = share.run.state
        spans = sorted(
            (journal.uid, *span_of(state, journal, share.attempt))
            for journal in state.journals.values()
        )
        ending = [(uid, *one) for uid, *one in spans if one != [0, _NO_END]]
        end = () if share.ends is None else (share.run.name, share.end(self._path))
        return (share.after(self._path), ending, *end)

    def read(self, begin: float, wanted: int, end: float | None = None) -> tuple[Points, bool]:
        # Reads at least "wanted" points if there are enough, or all points up to the step "end".
        pieces = [kept for one in self._tails if len((kept := _points_from(one, begin)).step)]
        horizon = np.inf
        for at, journal, place, low, high in self._sorted_bounds():
            if high < begin or journal not in self._spans[at]:
                continue
            below = sum(int(np.count_nonzero(one.step < low)) for one in pieces)
            if low > end if end is not None else below >= wanted:
                horizon = low
                break
            share = self._shares[at]
            group = load_group(
                self._store.database,
                self._connection,
                int(share.run.number or 0),
                int(self._number or 0),
                journal,
                place,
            )
            piece = points_in_span(*self._spans[at][journal], group)
            pieces.append(_points_from(visible_part(share, self._path, piece), begin))
        if end is not None:
            pieces = [one.part(one.step <= end) for one in pieces]
        elif horizon < np.inf:
            pieces = [one.part(one.step < horizon) for one in pieces]
        return _merge_pieces([one for one in pieces if len(one.step)], None), horizon < np.inf

    def _sorted_bounds(self) -> list[tuple[int, int, int, float, float]]:
        found = []
        for at, share in enumerate(self._shares):
            chunked = any(journal.chunked for journal, _ in self._spans[at].values())
            if self._number is None or not chunked:
                continue
            number, last = int(share.run.number or 0), share.end(self._path)
            rows = group_bounds(self._store.database, self._connection, number, self._number)
            found += [(at, *row[:4]) for row in rows if row[2] <= last]
        return sorted(found, key=itemgetter(3))


def _points_from(piece: Piece, begin: float) -> Piece:
    return piece if begin == -np.inf else piece.part(piece.step >= begin)


def tail_pieces(
    store: Store,
    connection: sa.Connection,
    share: Share,
    paths: Sequence[str],
    journals: Container[int] | None = None,
) -> dict[str, list[Piece]]:
    """Return the points that are not in groups, by path, optionally only of some journals."""
    found: dict[str, list[Piece]] = {path: [] for path in paths}
    for number, (journal, span) in shown_journals(share).items():
        if journals is not None and number not in journals:
            continue
        wanted = frozenset(paths)
        for batch in _tail_batches(store, connection, share.run, journal, share.sources, wanted):
            for path, piece in _split_batch(journal, batch, span):
                found[path].append(piece)
    return found


def _last_groups(
    store: Store,
    connection: sa.Connection,
    run: int,
    number: int,
    pieces: list[Piece],
    limit: int,
) -> Iterator[StoredGroup]:
    bounds = group_bounds(store.database, connection, run, number)
    for journal, place, _, high, _ in sorted(bounds, key=itemgetter(3), reverse=True):
        least = _first_of_last_steps(pieces, limit)
        if least is not None and high < least:
            return
        yield load_group(store.database, connection, run, number, journal, place)


def _first_of_last_steps(pieces: list[Piece], limit: int) -> float | None:
    if sum(len(piece.step) for piece in pieces) < limit:
        return None
    steps = np.concatenate([piece.step for piece in pieces])
    return float(np.partition(steps, len(steps) - limit)[len(steps) - limit])


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


def points_in_span(journal: JournalState, span: Span, group: StoredGroup) -> Piece:
    """Return the points of a group within a span."""
    t = group.t()
    piece = Piece(journal, group.steps(), group.values(), t, group.times(t), group.place)
    if span.begin <= group.place and span.end >= journal.chunked:
        return piece
    return piece.part(_slice_within(group.offsets(), span))


def visible_part(share: Share, path: str, piece: Piece) -> Piece:
    """Return the visible points of a piece."""
    kept, end = without_deleted(piece, share.after(path)), share.end(path)
    return kept if end == np.inf else kept.part(kept.step <= end)


def without_deleted(piece: Piece, after: Key) -> Piece:
    """Return the points that are not hidden by a delete or clear with this key."""
    if after[0] == _NEVER_NS or not len(piece.t) or piece.t.min() > after[0]:
        return piece
    kept = piece.t >= after[0] if piece.journal.uid > after[1] else piece.t > after[0]
    return piece.part(kept)


def _merge_pieces(pieces: list[Piece], limit: int | None) -> Points:
    if not pieces:
        return Points(np.empty(0), np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))
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
    last = slice(None) if limit is None else slice(-limit, None)
    if len(uids) > 1 or falling:
        ranks = np.repeat([uids.index(piece.journal.uid) for piece in pieces], sizes)
        order = np.lexsort((ranks, t, step))[last]
        return Points(step[order], value[order], time[order], attempt[order])
    return Points(step[last], value[last], time[last], attempt[last])


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
