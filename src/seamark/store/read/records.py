"""Reading series of texts, files and histograms from the folded parts of journals."""

from __future__ import annotations

import contextlib
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final

import numpy as np
import sqlalchemy as sa

from seamark.journal.format import (
    FRAME_HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    Kind,
)
from seamark.journal.reader import JournalReader, payload_of, scan
from seamark.reading.points import TextPage
from seamark.store.fold.payloads import record_points
from seamark.store.fold.registers import Key
from seamark.store.fold.run_state import JournalState
from seamark.store.groups import (
    record_offsets,
)
from seamark.store.read.inherited import Share, Sources
from seamark.store.read.series import journal_reader, span_of
from seamark.store.runs import Store, StoredRun

_FRAMES_PER_BATCH: Final = 512
_LINE_END: Final = re.compile(rb"\\n|\\u000[aA]")
_BLOCK_BYTES: Final = 1 << 18
"""Number of bytes read at once if frames are close together."""
_PAGE_CHARS: Final = 1 << 20
_PAGE_FRAMES: Final = 1 << 12
_FRAMES_BEFORE: Final = 8
"""Number of frames before a time that are also read, because a line of output may begin there."""
_KINDS: Final = {
    "string_series": Kind.TEXT,
    "file_series": Kind.OP,
    "histogram_series": Kind.HISTOGRAM,
}


def read_records(
    store: Store, connection: sa.Connection, shares: Sequence[Share], path: str, family: str
) -> list[tuple[float, Any, int, int]]:
    """Return sorted (step, value, time in ns, attempt) of a string, file or histogram series."""
    wanted = _KINDS[family]  # a path may have several families
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


def _record_frames(
    store: Store,
    connection: sa.Connection,
    run: StoredRun,
    journal: JournalState,
    sources: Sources,
    begin: int = 0,
) -> Iterator[tuple[int, int, int, bytes]]:
    # "begin" is an offset in bytes; a frame that starts before it is not read.
    with journal_reader(journal, sources) as reader:
        if reader is None:
            return
        if journal.chunked:
            offsets = record_offsets(store.database, connection, run.number or 0, journal.number)
            yield from _frames_at(reader, offsets[bisect_left(offsets, begin) :])
        for frame in reader.frames(max(journal.chunked, begin - 1)):
            if frame.offset >= journal.offset:
                return
            if frame.offset >= begin and frame.kind in (Kind.TEXT, Kind.HISTOGRAM, Kind.OP):
                yield frame.offset, frame.kind, frame.t, frame.payload


def _frames_at(
    reader: JournalReader, offsets: Iterable[int]
) -> Iterator[tuple[int, int, int, bytes]]:
    block, begin, before = b"", 0, -_BLOCK_BYTES
    for offset in offsets:
        if not begin <= offset <= begin + len(block) - FRAME_HEADER_BYTES:
            near = 0 <= offset - before < _BLOCK_BYTES  # the block includes the next frames
            block, begin = reader.bytes_at(_BLOCK_BYTES if near else 4096, offset), offset
        before, at = offset, offset - begin
        size = FRAME_HEADER_BYTES + ((int.from_bytes(block[at + 4 : at + 8], "little") + 7) & ~7)
        data = block[at : at + size]
        if size > len(data) and size <= FRAME_HEADER_BYTES + MAX_PAYLOAD_BYTES:
            block, begin = reader.bytes_at(max(size, _BLOCK_BYTES), offset), offset
            data = block[:size]
        frames: list[Any] = []
        scan(data, reader.salt, frames)
        if frames:
            with contextlib.suppress(ValueError):
                yield offset, frames[0][1], frames[0][4], payload_of(data, frames[0])


# ---------------------------------------------------------------------- texts, page by page


def _find_journal(run: StoredRun, file: str) -> JournalState | None:
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
    """Return a page of the texts of all attempts in one journal; ``begin`` is 0 or a page's end."""
    journal = _find_journal(run, file)
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
    """Return the offset at which to start reading the last texts; see `RunReader.text_begin`."""
    journal = _find_journal(run, file)
    if journal is None or journal.point_end < 0:
        return 0
    with journal_reader(journal, sources) as reader:
        if reader is None:
            return 0
        offsets: list[int] = []
        if journal.chunked:
            offsets = record_offsets(store.database, connection, run.number or 0, journal.number)
        offsets += [
            frame.offset
            for frame in reader.frames(journal.chunked)
            if frame.offset < journal.offset and frame.kind == Kind.TEXT
        ]
        first = 0
        if since_ns is not None:
            first = max(0, bisect_left(offsets, since_ns, key=reader.time_at) - _FRAMES_BEFORE)
        if points is not None:
            first = max(first, len(offsets) - points)
        if lines is not None:
            first += _find_first_text(reader, offsets[first:], paths, lines)
    return offsets[first - 1] + 1 if first else 0


def _find_first_text(
    reader: JournalReader, offsets: Sequence[int], paths: Sequence[str], lines: int
) -> int:
    for end in range(len(offsets), 0, -_FRAMES_PER_BATCH):
        start = max(0, end - _FRAMES_PER_BATCH)
        counts = dict.fromkeys(offsets[start:end], 0)
        for offset, kind, _, payload in _frames_at(reader, offsets[start:end]):
            # Line ends are escapes in JSON; most texts of a progress bar have none.
            if kind == Kind.TEXT and b"\\" in payload and _LINE_END.search(payload):
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
