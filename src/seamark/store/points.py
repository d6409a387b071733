"""Reading series: from chunks where there are some, else straight from the journals.

Chunks are made on first read, for all series of a run at once, and only where the run is large
enough to gain from them. A row group is a stretch of one journal; its series share the columns of
steps, times and offsets.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import sqlalchemy as sa

from seamark.journal._format import FRAME_HEADER_BYTES, Kind
from seamark.journal.reader import JournalReader, payload_of, scan
from seamark.store import schema
from seamark.store.bulk import Floats, Ints, RowTable, Sheet, gather, merge
from seamark.store.chunks import (
    join_parts,
    pack_floats,
    pack_ints,
    packed_count,
    split_parts,
    unpack_floats,
    unpack_ints,
)
from seamark.store.payloads import record_points
from seamark.store.records import dump_tables, load_tables
from seamark.store.view import Points

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.store.index import Index
    from seamark.store.run_state import JournalState, RunState
    from seamark.store.state import Key

__all__ = ["SMALL_BYTES", "read_floats", "read_records"]

SMALL_BYTES: Final = 64 * 1024
"""A run with less in its journals is read straight from them."""
_TAIL_SHARE: Final = 8
"""What was added to a journal is put into chunks when it exceeds this part of what is there."""
_GROUP_ROWS: Final = 1 << 16
_GROUP_VALUES: Final = 1 << 21

log = logging.getLogger("seamark")


class _Piece(NamedTuple):
    """Points of one series from one stretch of one journal, in the order of writing."""

    step: Floats
    value: Floats
    t: Ints
    time: Ints


def read_floats(
    index: Index,
    folder: RunFolder,
    run: RunState,
    number: int | None,
    paths: Sequence[str],
    attempt: int | str,
) -> dict[str, Points]:
    """Return the points of float series by path; see `seamark.store.view.RunView.points`.

    Args:
        index: Holds the chunks.
        folder: Of the run.
        run: Its state; what its journals hold behind their offsets is not read.
        number: Of the run in the index; None if the index does not hold this state.
        paths: Of the series.
        attempt: As checked by `seamark.store.view.check_attempt`.

    Returns:
        Points by path; series of the same rows may share the arrays of steps and times.
    """
    journals = [journal for journal in run.journals.values() if journal.point_end >= 0]
    chunked = _extend_chunks(index, folder, number, journals)
    asked = [
        path for path in dict.fromkeys(paths) if "float_series" in run.attributes.get(path, {})
    ]
    pieces: dict[str, list[tuple[JournalState, _Piece]]] = {path: [] for path in asked}
    for journal in journals if asked else ():
        cut = _cut(run, journal, attempt)
        if cut <= 0:
            continue
        done = chunked.get(journal.number)
        sheets = _plain_sheets(index, folder, journal, done, asked)
        if done is not None:
            packed = _chunked_sheet(index, number, journal, asked, offsets=cut < float("inf"))
            sheets = chain([packed], sheets)
        for sheet in sheets:
            for path, piece in _pieces(sheet, cut):
                pieces[path].append((journal, piece))
    found = {path: _assembled(run, path, parts) for path, parts in pieces.items()}
    return {path: found.get(path) or _no_points() for path in paths}


def _cut(run: RunState, journal: JournalState, attempt: int | str) -> float:
    if attempt == "all":
        return float("inf")
    return run.cut(journal, attempt if isinstance(attempt, int) else None)


def _pieces(sheet: Sheet, cut: float) -> Iterator[tuple[str, _Piece]]:
    kept = None
    if len(sheet.offset) and sheet.offset[-1] >= cut:
        kept = int(np.searchsorted(sheet.offset, cut))
    for path, (rows, values) in sheet.series.items():
        if rows is None:
            part = slice(0, kept)
            yield path, _Piece(sheet.step[part], values[part], sheet.t[part], sheet.time[part])
        else:
            size = len(rows) if kept is None else int(np.searchsorted(rows, kept))
            own = rows[:size]
            yield path, _Piece(sheet.step[own], values[:size], sheet.t[own], sheet.time[own])


def _assembled(run: RunState, path: str, parts: list[tuple[JournalState, _Piece]]) -> Points | None:
    after = run.emptied(path)
    kept = [(journal, _newer(piece, journal.uid, after)) for journal, piece in parts]
    kept = [(journal, piece) for journal, piece in kept if len(piece.step)]
    if not kept:
        return None
    step, value, time = (
        _joined([column(piece) for _, piece in kept]) for column in map(itemgetter, (0, 1, 3))
    )
    attempts = [-1 if journal.attempt is None else journal.attempt for journal, _ in kept]
    attempt = np.repeat(np.array(attempts, np.int64), [len(piece.step) for _, piece in kept])
    uids = sorted({journal.uid for journal, _ in kept})
    t = _joined([piece.t for _, piece in kept])
    # Rows with a time of their own stand apart from the others: pieces need not come in order of t.
    falling = (step[1:] < step[:-1]) | ((step[1:] == step[:-1]) & (t[1:] < t[:-1]))
    if len(uids) > 1 or falling.any():
        ranks = np.repeat(
            [uids.index(journal.uid) for journal, _ in kept], [len(piece.step) for _, piece in kept]
        )
        order = np.lexsort((ranks, t, step))
        step, value, time, attempt = step[order], value[order], time[order], attempt[order]
    return Points(step, value, time, attempt)


def _joined(parts: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _newer(piece: _Piece, uid: bytes, after: Key) -> _Piece:
    """Return the points that a delete or clear with this key does not hide."""
    if not len(piece.t) or piece.t[0] > after[0]:
        return piece
    kept = piece.t >= after[0] if uid > after[1] else piece.t > after[0]
    return _Piece(piece.step[kept], piece.value[kept], piece.t[kept], piece.time[kept])


def _no_points() -> Points:
    return Points(np.empty(0), np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))


# ---------------------------------------------------------------------- straight from journals


class _Done(NamedTuple):
    """How far a journal is in chunks, and its paths and schemas as of there."""

    offset: int
    paths: dict[int, str]
    schemas: dict[int, tuple[int, ...]]


def _plain_sheets(
    index: Index, folder: RunFolder, journal: JournalState, done: _Done | None, paths: Sequence[str]
) -> Iterator[Sheet]:
    """Yield what is not in chunks."""
    start = done.offset if done else 0
    if journal.point_end < start:
        return
    table = RowTable(done.paths, done.schemas, paths) if done else RowTable(wanted=paths)
    try:
        with JournalReader(folder.journal_dir / journal.file, now_ns=index.now_ns) as reader:
            for block in reader.blocks(start):
                yield from gather(block, table, journal.offset)[0]
                if reader.offset >= journal.offset:
                    return
    except OSError as error:
        log.warning("seamark: points of %s cannot be read: %s", journal.file, error)


# ---------------------------------------------------------------------- chunks


class _Group(NamedTuple):
    """One row group as it is stored, and how many rows it has."""

    rows: int
    step: bytes
    t: bytes
    time: bytes
    offset: bytes
    series: dict[str, tuple[bytes, bytes]]
    """By path: the rows that have a value (empty: all), and the values."""


def _chunked_sheet(
    index: Index, number: int | None, journal: JournalState, paths: Sequence[str], *, offsets: bool
) -> Sheet:
    """Return all that is in chunks, every column unpacked into its place: nothing is copied again.

    Args:
        index: Holds the chunks.
        number: Of the run in the index.
        journal: Of the run.
        paths: Of the series that are asked for.
        offsets: Whether anybody looks at the column of offsets; it stays empty otherwise.
    """
    groups = _stored_groups(index, number, journal, paths)
    ends = np.cumsum([group.rows for group in groups], dtype=np.int64).tolist()
    size = ends[-1] if ends else 0
    step, t = np.empty(size), np.empty(size, np.int64)
    time = np.empty(size, np.int64) if any(group.time for group in groups) else t
    offset = np.empty(size if offsets else 0, np.int64)
    starts = [0, *ends][:-1]
    for start, end, group in zip(starts, ends, groups, strict=True):
        unpack_floats(group.step, step[start:end])
        unpack_ints(group.t, t[start:end])
        if time is not t:
            unpack_ints(group.time or group.t, time[start:end])
        if offsets:
            unpack_ints(group.offset, offset[start:end])
    return Sheet(
        offset, t, time, step, {path: _unpacked(groups, starts, path) for path in _found(groups)}
    )


def _stored_groups(
    index: Index, number: int | None, journal: JournalState, paths: Sequence[str]
) -> list[_Group]:
    """Return the row groups that hold any of these series, in order."""
    connection = index.connection
    numbers = {index.numbers.number(connection, path): path for path in paths}
    wanted = [one for one in numbers if one is not None]
    rows = connection.execute(
        sa.select(schema.chunk.c.path, schema.chunk.c.data)
        .where(schema.chunk.c.run == number, schema.chunk.c.journal == journal.number)
        .where(schema.chunk.c.path.in_([0, *wanted]))
        .order_by(schema.chunk.c.place, schema.chunk.c.path)
    )
    groups: list[_Group] = []
    for path, data in rows.fetchall():
        if path == 0:  # the columns that the series of a group share come first
            step, t, time, offset, _ = split_parts(data)
            groups.append(_Group(packed_count(step), step, t, time, offset, {}))
        else:
            own, values = split_parts(data)
            groups[-1].series[numbers[path]] = (own, values)
    return [group for group in groups if group.series]


def _found(groups: list[_Group]) -> list[str]:
    return list(dict.fromkeys(path for group in groups for path in group.series))


def _unpacked(groups: list[_Group], starts: list[int], path: str) -> tuple[Ints | None, Floats]:
    """Return one series of all groups: the rows that have a value (None: all), and the values."""
    parts = [
        (start, group.rows, *group.series[path])
        for start, group in zip(starts, groups, strict=True)
        if path in group.series
    ]
    ends = np.cumsum([packed_count(values) for *_, values in parts], dtype=np.int64).tolist()
    found, rows = np.empty(ends[-1]), np.empty(ends[-1], np.int64)
    every = len(parts) == len(groups) and not any(own for _, _, own, _ in parts)
    for begin, end, (start, size, own, values) in zip([0, *ends[:-1]], ends, parts, strict=True):
        unpack_floats(values, found[begin:end])
        if not every:
            rows[begin:end] = (unpack_ints(own) if own else np.arange(size)) + start
    return None if every else rows, found


def _pack_group(sheet: Sheet, records: list[int]) -> tuple[bytes, dict[str, bytes]]:
    """Return a row group as its shared columns and one byte string a series."""
    same = sheet.time is sheet.t or bool((sheet.time == sheet.t).all())
    shared = [
        pack_floats(sheet.step),
        pack_ints(sheet.t),
        b"" if same else pack_ints(sheet.time),
        pack_ints(sheet.offset),
        pack_ints(np.array(records, np.int64)),
    ]
    series = {
        path: join_parts([b"" if rows is None else pack_ints(rows), pack_floats(values)])
        for path, (rows, values) in sheet.series.items()
    }
    return join_parts(shared), series


def _extend_chunks(
    index: Index, folder: RunFolder, number: int | None, journals: list[JournalState]
) -> dict[int, _Done]:
    """Put into chunks what is worth it; return how far every journal is, by its number."""
    if (
        number is None
        or index.file is None
        or sum(journal.offset for journal in journals) <= SMALL_BYTES
    ):
        return {}
    done = _chunked(index, number)
    for journal in journals:
        have = done.get(journal.number, _Done(0, {}, {}))
        rest = journal.offset - have.offset
        if journal.point_end < have.offset or (
            have.offset and rest <= max(SMALL_BYTES, have.offset // _TAIL_SHARE)
        ):
            continue
        try:
            for end in _make_chunks(index, folder, number, journal, have):
                done[journal.number] = end
        except (OSError, sa.exc.DBAPIError) as error:  # reading goes on without
            log.debug("seamark: chunks of %s cannot be made: %s", journal.file, error)
            with contextlib.suppress(sa.exc.DBAPIError):
                done = _chunked(index, number)
    return done


def _chunked(index: Index, number: int) -> dict[int, _Done]:
    rows = index.connection.exec_driver_sql(
        "SELECT j.number, j.chunked, t.chunk_numbers FROM journal j JOIN journal_text t"
        " ON t.run = j.run AND t.number = j.number WHERE j.run = ? AND j.chunked > 0",
        (number,),
    )
    return {journal: _Done(offset, *load_tables(text)) for journal, offset, text in rows.fetchall()}


def _make_chunks(
    index: Index, folder: RunFolder, number: int, journal: JournalState, done: _Done
) -> Iterator[_Done]:
    """Make row groups, one transaction each; yield how far the journal is after each."""
    table = RowTable(done.paths, done.schemas)
    sheets: list[Sheet] = []
    records: list[int] = []
    with JournalReader(folder.journal_dir / journal.file, now_ns=index.now_ns) as reader:
        for block in reader.blocks(done.offset):
            found, others = gather(block, table, journal.offset)
            sheets += found
            records += others
            last = block.frames[-1]
            end = block.base + last[0] + FRAME_HEADER_BYTES + ((last[5] + 7) & ~7)
            last_block = end >= journal.offset
            if last_block or _size(sheets)[0] >= _GROUP_ROWS or _size(sheets)[1] >= _GROUP_VALUES:
                reached = _Done(min(end, journal.offset), dict(table.paths), dict(table.schemas))
                if not _store_group(
                    index, number, journal, (done.offset, reached), sheets, records
                ):
                    return
                done, sheets, records = reached, [], []
                yield done
            if last_block:
                return


def _size(sheets: list[Sheet]) -> tuple[int, int]:
    """Return the number of rows and of values."""
    rows = sum(len(sheet.step) for sheet in sheets)
    return rows, sum(len(values) for sheet in sheets for _, values in sheet.series.values())


def _store_group(
    index: Index,
    number: int,
    journal: JournalState,
    reach: tuple[int, _Done],
    sheets: list[Sheet],
    records: list[int],
) -> bool:
    """Store one row group; False if somebody else did, or folded the run anew."""
    start, done = reach
    empty = np.empty(0, np.int64)
    sheet = merge(sheets) if sheets else Sheet(empty, empty, empty, np.empty(0), {})
    shared, series = _pack_group(sheet, records)
    connection = index.connection
    with schema.transaction(connection):
        moved = connection.exec_driver_sql(
            "UPDATE journal SET chunked = ?"
            ' WHERE run = ? AND number = ? AND chunked = ? AND "offset" >= ? AND file = ?',
            (done.offset, number, journal.number, start, done.offset, journal.file),
        )
        if not moved.rowcount:
            return False
        connection.exec_driver_sql(
            "UPDATE journal_text SET chunk_numbers = ? WHERE run = ? AND number = ?",
            (dump_tables(done.paths, done.schemas), number, journal.number),
        )
        known = index.numbers.ensure(connection, series)
        rows = [(number, 0, journal.number, start, shared)]
        rows += [
            (number, known[path], journal.number, start, data) for path, data in series.items()
        ]
        connection.exec_driver_sql(
            "INSERT INTO chunk (run, path, journal, place, data) VALUES (?, ?, ?, ?, ?)", rows
        )
    return True


# ---------------------------------------------------------------------- texts, files, histograms


def read_records(
    index: Index,
    folder: RunFolder,
    run: RunState,
    number: int | None,
    path: str,
    family: str,
    attempt: int | str,
) -> list[tuple[float, Any, int, int]]:
    """Return (step, value, time in ns, attempt) of a string, file or histogram series, in order."""
    if family not in run.attributes.get(path, {}):
        return []
    journals = [journal for journal in run.journals.values() if journal.point_end >= 0]
    chunked = _extend_chunks(index, folder, number, journals)
    after = run.emptied(path)
    found: list[tuple[float, Key, Any, int, int]] = []
    for journal in journals:
        cut = _cut(run, journal, attempt)
        own = -1 if journal.attempt is None else journal.attempt
        for offset, kind, t, payload in _record_frames(
            index, folder, journal, number, chunked.get(journal.number)
        ):
            if offset >= cut:
                break
            for at, step, value, time in record_points(kind, payload, path):
                key = (t, journal.uid, at)
                if key > after:
                    found.append((step, key, value, t if time is None else time, own))
    found.sort(key=lambda point: point[:2])
    return [(step, value, time, own) for step, _, value, time, own in found]


def _record_frames(
    index: Index, folder: RunFolder, journal: JournalState, number: int | None, done: _Done | None
) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield offset, kind, t and payload of the frames that may hold points other than numbers."""
    try:
        with JournalReader(folder.journal_dir / journal.file, now_ns=index.now_ns) as reader:
            if done is not None:
                yield from _frames_at(reader, _record_offsets(index, number, journal))
            for frame in reader.frames(done.offset if done else 0):
                if frame.offset >= journal.offset:
                    return
                if frame.kind in (Kind.TEXT, Kind.HISTOGRAM, Kind.OP):
                    yield frame.offset, frame.kind, frame.t, frame.payload
    except OSError as error:
        log.warning("seamark: points of %s cannot be read: %s", journal.file, error)


def _record_offsets(index: Index, number: int | None, journal: JournalState) -> Iterator[int]:
    rows = index.connection.exec_driver_sql(
        "SELECT data FROM chunk WHERE run = ? AND path = 0 AND journal = ? ORDER BY place",
        (number, journal.number),
    )
    for (data,) in rows.fetchall():
        yield from unpack_ints(split_parts(data)[4]).tolist()


def _frames_at(
    reader: JournalReader, offsets: Iterator[int]
) -> Iterator[tuple[int, int, int, bytes]]:
    fd = os.open(reader.path, os.O_RDONLY)
    try:
        for offset in offsets:
            data = os.pread(fd, 4096, offset)
            size = FRAME_HEADER_BYTES + ((int.from_bytes(data[4:8], "little") + 7) & ~7)
            if size > len(data):
                data = os.pread(fd, size, offset)
            frames: list[Any] = []
            scan(data[:size], reader.salt, frames)
            if frames:
                with contextlib.suppress(ValueError):
                    yield offset, frames[0][1], frames[0][4], payload_of(data, frames[0])
    finally:
        os.close(fd)
