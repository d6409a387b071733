"""Reading series: from groups where there are some, else straight from the journals.

Everything comes from one snapshot of the tables, and of a journal nothing is read that the snapshot
has not folded: a process that folds or writes meanwhile changes nothing in an answer.
"""

from __future__ import annotations

import contextlib
import logging
import re
import zlib
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from seamark.journal.format import (
    FILE_HEADER_BYTES,
    FRAME_HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    Kind,
    salt_of,
)
from seamark.journal.reader import Block, JournalReader, payload_of, scan
from seamark.journal.walk import BLOCK_BYTES, walk
from seamark.reading.points import Points, TextPage
from seamark.store.fold.decode import RowBatch, decode
from seamark.store.fold.names import Names
from seamark.store.fold.payloads import record_points
from seamark.store.groups import (
    StoredGroup,
    group_bounds,
    load_group,
    load_groups,
    record_offsets,
)
from seamark.store.ingest import UNREADABLE
from seamark.store.read.forks import Share, Sources
from seamark.store.runs import names_before

if TYPE_CHECKING:
    import sqlalchemy as sa

    from seamark.store.fold.registers import Key
    from seamark.store.fold.run_state import JournalState, RunState
    from seamark.store.runs import Store, StoredRun
    from seamark.values.arrays import Floats, Ints

__all__ = [
    "Mark",
    "Piece",
    "Sources",
    "Span",
    "newer",
    "read_floats",
    "read_floats_part",
    "read_record_at",
    "read_records",
    "read_text_page",
    "shown",
    "shown_journals",
    "span_of",
    "tail_pieces",
    "text_begin",
    "unpacked",
]

_WHOLE_BYTES: Final = 1 << 17
"""A journal of up to this many bytes is read in one piece."""
_BEHIND: Final = 1 << 62
_NO_TIME: Final = -(1 << 64)
_AT_ONCE: Final = 512
_MAY_END_LINE: Final = re.compile(rb"\\n|\\u000[aA]")
_BLOCK: Final = 1 << 18
"""Bytes that are read at once where frames lie close together."""
_PAGE_CHARS: Final = 1 << 20
_PAGE_FRAMES: Final = 1 << 12
_BEFORE: Final = 8
"""Frames before a moment that are read too: what was printed then may begin in them."""
_KINDS: Final = {
    "string_series": Kind.TEXT,
    "file_series": Kind.OP,
    "histogram_series": Kind.HISTOGRAM,
}

log = logging.getLogger("seamark")


class Piece(NamedTuple):
    """Points of one series from one stretch of one journal, in the order of writing."""

    journal: JournalState
    step: Floats
    value: Floats
    t: Ints
    time: Ints
    place: int = _BEHIND
    """Where its group starts in the journal, bytes; behind all of them if it is in none."""

    def part(self, seen: Any) -> Piece:
        """Return some of the points."""
        step, value, t, time = self.step[seen], self.value[seen], self.t[seen], self.time[seen]
        return self._replace(step=step, value=value, t=t, time=time)


def read_floats(
    store: Store,
    connection: sa.Connection,
    shares: Sequence[Share],
    paths: Sequence[str],
    limit: int | None = None,
) -> dict[str, Points]:
    """Return the points of float series by path.

    Args:
        store: Holds the groups.
        connection: Of the transaction in which the run was loaded.
        shares: Of which runs they are made, itself first.
        paths: Of float series that it has.
        limit: Only this many of the last points of each; None for all.

    Returns:
        Points by path; series of the same rows may share the arrays of steps and times. A journal
        of which something is missing because it cannot be read now has ``stopped`` set to
        `UNREADABLE`.
    """
    found: dict[str, list[Piece]] = {path: [] for path in paths}
    for share in shares:
        wanted = [path for path in paths if _may_need(share, path, found[path], limit)]
        if wanted:
            _add_floats(store, connection, share, wanted, found, limit)
    return {path: _assembled(pieces, limit) for path, pieces in found.items()}


def _may_need(share: Share, path: str, nearer: list[Piece], limit: int | None) -> bool:
    """Return whether points of a run may be among the last ones of a series."""
    end = share.end(path)
    if end == np.inf or limit is None:
        return end > -np.inf
    least = _least_of_last(nearer, limit)
    return end > -np.inf and (least is None or least <= end)


def _add_floats(
    store: Store,
    connection: sa.Connection,
    share: Share,
    paths: Sequence[str],
    found: dict[str, list[Piece]],
    limit: int | None,
) -> None:
    """Add what float series have of one run."""
    number_of = store.numbers.known(connection, paths)
    journals = shown_journals(share)
    tails = tail_pieces(store, connection, share, paths)
    run, every = share.run.number or 0, {}
    chunked = any(journal.chunked for journal, _ in journals.values())
    # What lies behind the step of a fork is none of the last points.
    least = limit if share.ends is None else None
    if chunked and least is None:
        every = load_groups(store.database, connection, [run], list(number_of.values()))
    for path in paths:
        pieces = found[path]
        pieces += [kept for one in tails[path] if len((kept := shown(share, path, one)).step)]
        if not chunked or path not in number_of:
            continue
        groups: Iterable[StoredGroup] = every.get((run, number_of[path]), ())
        if least is not None:
            groups = _last_groups(store, connection, run, number_of[path], pieces, least)
        for group in groups:
            if group.journal in journals:
                kept = shown(share, path, unpacked(*journals[group.journal], group))
                if len(kept.step):
                    pieces.append(kept)


class Mark(NamedTuple):
    """End of a part of a series that is read part by part.

    Attributes:
        step: Step of the last point of the part.
        done: Number of points of this step that were read.
        hidden: Checksum of what was hidden then; if it changes, points that were read may be hidden
            now.
    """

    step: float
    done: int
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
) -> tuple[Points, Mark | None] | None:
    """Return the next points of a float series, and where they end; None there for the last ones.

    Only groups are read that may hold some of them, however long the series is. Points that are
    recorded meanwhile come if they lie behind what was read.

    Args:
        store: Holds the groups.
        connection: Of the transaction in which the run was loaded.
        shares: Of which runs it is made, itself first.
        path: Of the series.
        most: How many points at most.
        after: Where the part before ended; None to begin.
        last: Without ``after``: begin with this many of the last points. So many are read.

    Returns:
        None if what is hidden has changed since the part before: it is to be read anew.
    """
    series = _Parts(store, connection, shares, path)
    if after is not None and after.hidden != series.hidden:
        return None
    begin, skip = (-np.inf, 0) if after is None else (after.step, after.done)
    if after is None and last is not None:
        ends = read_floats(store, connection, shares, [path], last)[path]
        if not len(ends):
            return ends, None
        begin = float(ends.step[0])
        of_step = series.read(begin, 0, begin)[0]
        skip = len(of_step) - int(np.count_nonzero(ends.step == begin))
    found, more = series.read(begin, skip + most)
    part = found[skip : skip + most]
    if not len(part) or not (more or len(found) > skip + most):
        return part, None
    step = float(part.step[-1])
    done = int(np.count_nonzero(found.step[: skip + most] == step))
    return part, Mark(step, done, series.hidden)


class _Parts:
    """Float series that is read in stretches of steps."""

    def __init__(
        self, store: Store, connection: sa.Connection, shares: Sequence[Share], path: str
    ) -> None:
        self._store, self._connection, self._path = store, connection, path
        self._shares = [share for share in shares if share.end(path) > -np.inf]
        self._spans = [shown_journals(share) for share in self._shares]
        self.hidden = zlib.crc32(repr([self._hidden(share) for share in self._shares]).encode())
        self._tails = [
            kept
            for share in self._shares
            for one in tail_pieces(store, connection, share, [path])[path]
            if len((kept := shown(share, path, one)).step)
        ]
        self._number = store.numbers.known(connection, [path]).get(path)

    def _hidden(self, share: Share) -> Any:
        state = share.run.state
        spans = sorted(
            (journal.uid, *span_of(state, journal, share.attempt))
            for journal in state.journals.values()
        )
        ending = [(uid, *one) for uid, *one in spans if one != [0, _FOREVER]]
        end = () if share.ends is None else (share.run.name, share.end(self._path))
        return (share.after(self._path), ending, *end)

    def read(self, begin: float, wanted: int, end: float | None = None) -> tuple[Points, bool]:
        """Return points from a step on, and whether there are more behind them.

        Args:
            begin: Smallest step.
            wanted: How many points at least, if there are as many.
            end: Instead: all up to this step.
        """
        pieces = [kept for one in self._tails if len((kept := _from(one, begin)).step)]
        horizon = np.inf
        for at, journal, place, low, high in self._groups():
            if high < begin or journal not in self._spans[at]:
                continue
            if low > end if end is not None else _count_below(pieces, low) >= wanted:
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
            piece = unpacked(*self._spans[at][journal], group)
            pieces.append(_from(shown(share, self._path, piece), begin))
        if end is not None:
            pieces = [one.part(one.step <= end) for one in pieces]
        elif horizon < np.inf:
            pieces = [one.part(one.step < horizon) for one in pieces]
        return _assembled([one for one in pieces if len(one.step)], None), horizon < np.inf

    def _groups(self) -> list[tuple[int, int, int, float, float]]:
        """Return which share, journal, place, smallest and greatest step of groups, in order."""
        found = []
        for at, share in enumerate(self._shares):
            chunked = any(journal.chunked for journal, _ in self._spans[at].values())
            if self._number is None or not chunked:
                continue
            number, last = int(share.run.number or 0), share.end(self._path)
            rows = group_bounds(self._store.database, self._connection, number, self._number)
            found += [(at, *row[:4]) for row in rows if row[2] <= last]
        return sorted(found, key=itemgetter(3))


def _from(piece: Piece, begin: float) -> Piece:
    return piece if begin == -np.inf else piece.part(piece.step >= begin)


def _count_below(pieces: Sequence[Piece], step: float) -> int:
    return sum(int(np.count_nonzero(one.step < step)) for one in pieces)


def tail_pieces(
    store: Store,
    connection: sa.Connection,
    share: Share,
    paths: Sequence[str],
    journals: Container[int] | None = None,
) -> dict[str, list[Piece]]:
    """Return what is in journals of a run only, by path; see `read_floats`.

    Args:
        store: Holds the groups.
        connection: Of the transaction in which the run was loaded.
        share: Of which run.
        paths: Of the series.
        journals: Numbers of those that are read; None for all.
    """
    found: dict[str, list[Piece]] = {path: [] for path in paths}
    for number, (journal, span) in shown_journals(share).items():
        if journals is not None and number not in journals:
            continue
        wanted = frozenset(paths)
        for batch in _tail_batches(store, connection, share.run, journal, share.sources, wanted):
            for path, piece in _pieces(journal, batch, span):
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
    """Yield groups of a series, those with the greatest steps first.

    It ends when no other can hold one of the last points of ``pieces``, which grow meanwhile.
    """
    bounds = group_bounds(store.database, connection, run, number)
    for journal, place, _, high, _ in sorted(bounds, key=itemgetter(3), reverse=True):
        least = _least_of_last(pieces, limit)
        if least is not None and high < least:
            return
        yield load_group(store.database, connection, run, number, journal, place)


def _least_of_last(pieces: list[Piece], limit: int) -> float | None:
    """Return the smallest of the last ``limit`` steps; None while there are fewer."""
    if sum(len(piece.step) for piece in pieces) < limit:
        return None
    steps = np.concatenate([piece.step for piece in pieces])
    return float(np.partition(steps, len(steps) - limit)[len(steps) - limit])


class Span(NamedTuple):
    """Between which offsets the points of a journal are shown, bytes; the second is behind them."""

    begin: float
    end: float


_FOREVER: Final = float("inf")
_EVERYTHING: Final = Span(0, _FOREVER)


def span_of(run: RunState, journal: JournalState, attempt: int | str) -> Span:
    """Return between which offsets the points of a journal are shown."""
    if attempt == "all":
        return _EVERYTHING
    if attempt == "replaced":
        return Span(run.cut(journal, None), _FOREVER)
    return Span(0, run.cut(journal, attempt if isinstance(attempt, int) else None))


def _within(offsets: Ints, span: Span) -> slice:
    """Return which of some rows lie within a span, given their sorted offsets."""
    if not len(offsets) or (offsets[0] >= span.begin and offsets[-1] < span.end):
        return slice(None)
    return slice(*np.searchsorted(offsets, span).tolist())


def _pieces(journal: JournalState, batch: RowBatch, span: Span) -> Iterator[tuple[str, Piece]]:
    seen = _within(batch.offset, span)
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
    """Return by number the journals that may hold points that are shown, and between where."""
    state = share.run.state
    spans = ((one, span_of(state, one, share.attempt)) for one in state.journals.values())
    return {one.number: (one, span) for one, span in spans if one.point_end >= 0 and span.end > 0}


def unpacked(journal: JournalState, span: Span, group: StoredGroup) -> Piece:
    """Return the points of a group that are within a span."""
    t = group.t()
    piece = Piece(journal, group.steps(), group.values(), t, group.times(t), group.place)
    if span.begin <= group.place and span.end >= journal.chunked:
        return piece
    return piece.part(_within(group.offsets(), span))


def shown(share: Share, path: str, piece: Piece) -> Piece:
    """Return the points of a run that a series shows."""
    kept, end = newer(piece, share.after(path)), share.end(path)
    return kept if end == np.inf else kept.part(kept.step <= end)


def newer(piece: Piece, after: Key) -> Piece:
    """Return the points that a delete or clear with this key does not hide."""
    if after[0] == _NO_TIME or not len(piece.t) or piece.t.min() > after[0]:
        return piece
    kept = piece.t >= after[0] if piece.journal.uid > after[1] else piece.t > after[0]
    return piece.part(kept)


def _assembled(pieces: list[Piece], limit: int | None) -> Points:
    if not pieces:
        return Points(np.empty(0), np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))
    uids = sorted({piece.journal.uid for piece in pieces})
    # Groups may share a frame, of which all points have one time: they keep their order.
    pieces.sort(key=lambda piece: piece.place)
    if len(uids) == 1:
        pieces.sort(key=lambda piece: int(piece.t[0]))
    step, value, t = (
        _joined([column(piece) for piece in pieces]) for column in map(itemgetter, (1, 2, 3))
    )
    own = any(piece.time is not piece.t for piece in pieces)
    time = _joined([piece.time for piece in pieces]) if own else t
    sizes = [len(piece.step) for piece in pieces]
    attempts = [-1 if one.journal.attempt is None else one.journal.attempt for one in pieces]
    attempt = np.repeat(np.array(attempts, np.int64), sizes)
    # Rows with a time of their own stand apart from the others: pieces need not come in order of t.
    falling = bool((step[1:] < step[:-1]).any())
    if not falling and (same := step[1:] == step[:-1]).any():
        falling = bool((same & (t[1:] < t[:-1])).any())
    last = slice(None) if limit is None else slice(-limit, None)
    if len(uids) > 1 or falling:
        ranks = np.repeat([uids.index(piece.journal.uid) for piece in pieces], sizes)
        order = np.lexsort((ranks, t, step))[last]
        return Points(step[order], value[order], time[order], attempt[order])
    return Points(step[last], value[last], time[last], attempt[last])


def _joined(parts: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
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
    """Yield what is folded of a journal and not in groups."""
    if journal.point_end < journal.chunked:
        return
    names = Names()
    if journal.chunked:
        assert run.number is not None  # noqa: S101 - it was loaded
        names = names_before(store, run.number, journal.number, journal.chunked, connection)
    if not journal.chunked and journal.offset <= _WHOLE_BYTES:
        found = _small_batches(journal, sources, paths)
        if found is not None:
            yield from found
            return
    with _reader(journal, sources) as reader:
        if reader is not None:
            for block in reader.blocks(journal.chunked):
                yield from decode(block, names, paths, stop=journal.offset).batches
                if block.end >= journal.offset:
                    return


def _small_batches(
    journal: JournalState, sources: Sources, paths: frozenset[str]
) -> list[RowBatch] | None:
    """Return the same of a small journal; None where there is damage in it.

    Of a thousand of them every step counts.
    """
    start = FILE_HEADER_BYTES
    try:
        source = sources(journal.file)
        try:
            data = source.pread(journal.offset - start, start)
        finally:
            source.close()
    except OSError as error:
        _warn(journal, error)
        return []
    frames, end, _ = walk(data, salt_of(journal.uid))
    if start + end < journal.offset:
        return None
    return decode(Block(start, data, frames, start + end), Names(), paths).batches


def _warn(journal: JournalState, error: OSError) -> None:
    journal.stopped = UNREADABLE
    log.warning("seamark: points of %s cannot be read: %s", journal.file, error)


@contextlib.contextmanager
def _reader(journal: JournalState, sources: Sources) -> Iterator[JournalReader | None]:
    """Open a journal; None, and one warning, where that fails."""
    try:
        rest = journal.offset - journal.chunked
        size = min(BLOCK_BYTES, max(4096, rest))
        with JournalReader(sources(journal.file), walk=walk, block_bytes=size) as reader:
            yield reader
    except OSError as error:
        _warn(journal, error)
        yield None


# ---------------------------------------------------------------------- texts, files, histograms


def read_records(
    store: Store, connection: sa.Connection, shares: Sequence[Share], path: str, family: str
) -> list[tuple[float, Any, int, int]]:
    """Return (step, value, time in ns, attempt) of a string, file or histogram series, in order."""
    wanted = _KINDS[family]  # a path may hold several families
    found: list[tuple[float, Key, Any, int, int]] = []
    for share in shares:
        run, state, after, last = share.run, share.run.state, share.after(path), share.end(path)
        for journal in state.journals.values() if last > -np.inf else ():
            span = span_of(state, journal, share.attempt)
            if journal.point_end < 0 or span.end <= 0:
                continue
            own = -1 if journal.attempt is None else journal.attempt
            frames = _record_frames(store, connection, run, journal, share.sources)
            for offset, kind, t, payload in frames:
                if offset >= span.end:
                    break
                if kind != wanted or offset < span.begin:
                    continue
                for at, step, value, time in record_points(kind, payload, path):
                    key = (t, journal.uid, at)
                    if key > after and step <= last:
                        found.append((step, key, value, t if time is None else time, own))
    found.sort(key=itemgetter(0, 1))
    return [(step, value, time, own) for step, _, value, time, own in found]


def read_record_at(
    store: Store,
    connection: sa.Connection,
    run: StoredRun,
    sources: Sources,
    path: str,
    key: Key,
) -> tuple[float, Any, int, int] | None:
    """Return (step, value, time in ns, attempt) of the one point with this key, or None."""
    journal = next((one for one in run.state.journals.values() if one.uid == key[1]), None)
    if journal is None:
        return None
    own = -1 if journal.attempt is None else journal.attempt
    for _, kind, t, payload in _record_frames(store, connection, run, journal, sources, at=key[0]):
        if t == key[0]:
            for index, step, value, time in record_points(kind, payload, path):
                if index == key[2]:
                    return step, value, t if time is None else time, own
    return None


def _record_frames(
    store: Store,
    connection: sa.Connection,
    run: StoredRun,
    journal: JournalState,
    sources: Sources,
    at: int | None = None,
    begin: int = 0,
) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield offset, kind, t and payload of the frames that may hold points other than numbers.

    Args:
        store: Holds the groups.
        connection: Of the transaction.
        run: As loaded.
        journal: Of the run.
        sources: Opens its journals.
        at: Only the frame of this time, where it is known without reading everything.
        begin: Only frames from this offset on, bytes; one that was yielded, or anywhere in it.
    """
    assert run.number is not None  # noqa: S101 - it was loaded
    with _reader(journal, sources) as reader:
        if reader is None:
            return
        if journal.chunked:
            offsets = record_offsets(store.database, connection, run.number, journal.number)
            if at is not None:
                offsets = _nearest(reader, offsets, at)
            yield from _frames_at(reader, offsets[bisect_left(offsets, begin) :])
        for frame in reader.frames(max(journal.chunked, begin - 1)):
            if frame.offset >= journal.offset:
                return
            if frame.offset >= begin and frame.kind in (Kind.TEXT, Kind.HISTOGRAM, Kind.OP):
                yield frame.offset, frame.kind, frame.t, frame.payload


def _nearest(reader: JournalReader, offsets: list[int], t: int) -> list[int]:
    """Return the one of the frames at these offsets that was written at a time, if any.

    Times rise within a journal, so that a few looks find it.
    """
    low, high = 0, len(offsets)
    while low < high:
        middle = (low + high) // 2
        if reader.time_at(offsets[middle]) < t:
            low = middle + 1
        else:
            high = middle
    return offsets[low : low + 1]


def _frames_at(
    reader: JournalReader, offsets: Iterable[int]
) -> Iterator[tuple[int, int, int, bytes]]:
    block, begin, before = b"", 0, -_BLOCK
    for offset in offsets:
        if not begin <= offset <= begin + len(block) - FRAME_HEADER_BYTES:
            near = 0 <= offset - before < _BLOCK  # the next ones will be in it, too
            block, begin = reader.bytes_at(_BLOCK if near else 4096, offset), offset
        before, at = offset, offset - begin
        size = FRAME_HEADER_BYTES + ((int.from_bytes(block[at + 4 : at + 8], "little") + 7) & ~7)
        data = block[at : at + size]
        if size > len(data) and size <= FRAME_HEADER_BYTES + MAX_PAYLOAD_BYTES:
            block, begin = reader.bytes_at(max(size, _BLOCK), offset), offset
            data = block[:size]
        frames: list[Any] = []
        scan(data, reader.salt, frames)
        if frames:
            with contextlib.suppress(ValueError):
                yield offset, frames[0][1], frames[0][4], payload_of(data, frames[0])


# ---------------------------------------------------------------------- texts, page by page


def _journal(run: StoredRun, file: str) -> JournalState | None:
    return next((one for one in run.state.journals.values() if one.file == file), None)


def read_text_page(
    store: Store,
    connection: sa.Connection,
    run: StoredRun,
    sources: Sources,
    file: str,
    paths: Sequence[str],
    begin: int,
) -> TextPage:
    """Return points of string series of one journal, as many as fit into a page.

    Nothing is hidden that an older attempt recorded.

    Args:
        store: Holds the groups.
        connection: Of the transaction.
        run: As loaded.
        sources: Opens its journals.
        file: Name of the journal.
        paths: Of the series.
        begin: Where to begin, in bytes: 0, or the end of a page.
    """
    journal = _journal(run, file)
    if journal is None or journal.point_end < begin:
        return TextPage([], begin, more=False)
    found: list[tuple[int, str, Any]] = []
    after = {path: run.state.emptied(path) for path in paths}
    end, chars, frames = begin, 0, 0
    for offset, kind, t, payload in _record_frames(
        store, connection, run, journal, sources, begin=begin
    ):
        if chars >= _PAGE_CHARS or frames >= _PAGE_FRAMES:
            return TextPage(found, end, more=True)
        end, frames = offset + 1, frames + 1
        if kind != Kind.TEXT:
            continue
        for path in paths:
            for at, _, text, _ in record_points(kind, payload, path):
                if (t, journal.uid, at) > after[path]:
                    found.append((t, path, text))
                    chars += len(payload)
    return TextPage(found, max(end, journal.last_offset + 1), more=False)


def text_begin(
    store: Store,
    connection: sa.Connection,
    run: StoredRun,
    sources: Sources,
    file: str,
    paths: Sequence[str],
    *,
    since_ns: int | None = None,
    lines: int | None = None,
    points: int | None = None,
) -> int:
    """Return where in a journal to begin to read for the last part of string series, in bytes.

    Args:
        store: Holds the groups.
        connection: Of the transaction.
        run: As loaded.
        sources: Opens its journals.
        file: Name of the journal.
        paths: Of the series.
        since_ns: Only what was recorded since then, in nanoseconds since the Unix epoch.
        lines: Only so many line ends of all of them.
        points: Only so many records with points of any series of texts or files.
    """
    journal = _journal(run, file)
    if journal is None or journal.point_end < 0:
        return 0
    with _reader(journal, sources) as reader:
        if reader is None:
            return 0
        offsets: list[int] = []
        if journal.chunked:
            assert run.number is not None  # noqa: S101 - it was loaded
            offsets = record_offsets(store.database, connection, run.number, journal.number)
        offsets += [
            frame.offset
            for frame in reader.frames(journal.chunked)
            if frame.offset < journal.offset and frame.kind == Kind.TEXT
        ]
        first = 0
        if since_ns is not None:
            first = max(0, bisect_left(offsets, since_ns, key=reader.time_at) - _BEFORE)
        if points is not None:
            first = max(first, len(offsets) - points)
        if lines is not None:
            first += _first_of_last(reader, offsets[first:], paths, lines)
    return offsets[first - 1] + 1 if first else 0


def _first_of_last(
    reader: JournalReader, offsets: Sequence[int], paths: Sequence[str], lines: int
) -> int:
    """Return the index of the first frame that is needed for so many line ends."""
    for end in range(len(offsets), 0, -_AT_ONCE):
        start = max(0, end - _AT_ONCE)
        counts = dict.fromkeys(offsets[start:end], 0)
        for offset, kind, _, payload in _frames_at(reader, offsets[start:end]):
            # A line end stands as an escape in JSON: most of a progress bar has none.
            if kind == Kind.TEXT and b"\\" in payload and _MAY_END_LINE.search(payload):
                for path in paths:
                    texts = (text for _, _, text, _ in record_points(kind, payload, path))
                    counts[offset] += sum(
                        text.count("\n") for text in texts if isinstance(text, str)
                    )
        for index in range(end - 1, start - 1, -1):
            lines -= counts[offsets[index]]
            if lines < 0:
                return index
    return 0
