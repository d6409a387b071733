"""Many points at once: from packed frames straight into NumPy arrays, without objects for each."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np

from seamark.journal._format import USER_TIME, ZLIB, Kind
from seamark.journal.reader import Block, RawFrame, payload_of

__all__ = ["RowTable", "Sheet", "gather", "merge"]

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

_RECORDS: Final = frozenset({int(Kind.TEXT), int(Kind.HISTOGRAM), int(Kind.OP)})


class Sheet(NamedTuple):
    """Rows of one journal, and which series have a value in which of them.

    Attributes:
        offset: Of the frame, bytes, int64 (N,).
        t: Of the frame, nanoseconds since the Unix epoch, int64 (N,).
        time: The caller's own time where one was given, else ``t``.
        step: float64 (N,).
        series: By path: the rows that have a value (None: all), and the values.
    """

    offset: Ints
    t: Ints
    time: Ints
    step: Floats
    series: dict[str, tuple[Ints | None, Floats]]


class RowTable:
    """What it takes to read a journal's rows from some offset on: its paths and schemas by number.

    Attributes:
        paths: By number.
        schemas: Numbers of paths, by number of the schema.
        wanted: Read only these series; None for all.
    """

    def __init__(
        self,
        paths: dict[int, str] | None = None,
        schemas: dict[int, tuple[int, ...]] | None = None,
        wanted: Iterable[str] | None = None,
    ) -> None:
        self.paths = dict(paths or {})
        self.schemas = dict(schemas or {})
        self.wanted = None if wanted is None else frozenset(wanted)

    def columns(self, schema: int) -> list[tuple[int, str]]:
        """Return place and path of the wanted columns of a schema; none if it was lost."""
        found = (
            (place, self.paths.get(number))
            for place, number in enumerate(self.schemas.get(schema, ()))
        )
        return [
            (place, path)
            for place, path in found
            if path is not None and (self.wanted is None or path in self.wanted)
        ]

    def wants(self, path: str | None) -> bool:
        """Tell whether a series is to be read."""
        return path is not None and (self.wanted is None or path in self.wanted)


def gather(block: Block, table: RowTable, stop: int) -> tuple[list[Sheet], list[int]]:
    """Return the rows of one block, and the offsets of frames that may hold other points.

    Args:
        block: Valid frames.
        table: Learns the paths and schemas that the block defines.
        stop: Leave out frames from this offset on.
    """
    frames = block.frames
    if block.base + frames[-1][0] >= stop:
        frames = [frame for frame in frames if block.base + frame[0] < stop]
    sheets: list[Sheet] = []
    records: list[int] = []
    if not frames:
        return sheets, records
    words = np.frombuffer(block.data, "<i8", count=len(block.data) // 8)
    places = np.fromiter(map(itemgetter(0), frames), np.int64, len(frames)) >> 3
    kinds = words[places + 1] & 0xFF
    special = np.nonzero(kinds != Kind.ROW)[0].tolist()
    start = 0
    loose = _Loose(block, table)
    for index in special:
        frame = frames[index]
        if frame[1] == Kind.SCHEMA and _redefines(
            block, frame, table
        ):  # rows before it have the old meaning
            sheets += _rows(block, words, places[start:index], kinds[start:index], table)
            start = index
        if frame[1] in _RECORDS:
            if frame[1] != Kind.OP or b'"file_point"' in _payload(block, frame):
                records.append(block.base + frame[0])
        else:
            loose.take(frame)
    sheets += _rows(block, words, places[start:], kinds[start:], table)
    sheets += loose.sheets()
    return sheets, records


def _payload(block: Block, frame: RawFrame) -> bytes:
    try:
        return payload_of(block.data, frame)
    except ValueError:
        return b""


def _redefines(block: Block, frame: RawFrame, table: RowTable) -> bool:
    return int.from_bytes(_payload(block, frame)[:4], "little") in table.schemas


def _rows(block: Block, words: Ints, places: Ints, kinds: Ints, table: RowTable) -> list[Sheet]:
    places = places[kinds == Kind.ROW]
    sheets: list[Sheet] = []
    if not len(places):
        return sheets
    heads, lengths = words[places + 1], words[places] >> 32
    if (heads == heads[0]).all() and (lengths == lengths[0]).all():
        groups = [places]
    else:
        pairs = np.stack([heads, lengths])
        _, which = np.unique(pairs, axis=1, return_inverse=True)
        which = which.reshape(-1)
        groups = [places[which == group] for group in range(int(which.max()) + 1)]
    for group in groups:
        head, length = int(words[group[0] + 1]), int(words[group[0]]) >> 32
        flags, schema = head >> 8 & 0xFF, head >> 32 & 0xFFFFFFFF
        columns = table.columns(schema)
        if not columns:
            continue
        size = len(table.schemas[schema])
        sheet = _rows_alike(block, words, group, (flags, length, size), columns)
        if sheet is not None:
            sheets.append(sheet)
    return sheets


def _rows_alike(
    block: Block,
    words: Ints,
    places: Ints,
    shape: tuple[int, int, int],
    columns: list[tuple[int, str]],
) -> Sheet | None:
    flags, length, size = shape
    skip = 2 if flags & USER_TIME else 1
    t, offset = words[places + 2], block.base + (places << 3)
    if flags & ZLIB:
        unpacked = _inflated(block, places, flags, length, 8 * (skip + size))
        kept = [index for index, row in enumerate(unpacked) if row is not None]
        body = np.frombuffer(b"".join(row for row in unpacked if row is not None), "<i8")
        t, offset, starts = t[kept], offset[kept], np.arange(len(kept)) * (skip + size)
    elif length != 8 * (skip + size):
        return None
    else:
        body, starts = words, places + 3
    floats = body.view("<f8")
    step = floats[starts]
    sound = np.isfinite(step)
    if not sound.all():
        t, offset, starts, step = t[sound], offset[sound], starts[sound], step[sound]
    if not len(step):
        return None
    time = body[starts + 1] if flags & USER_TIME else t
    return Sheet(
        offset,
        t,
        time,
        step,
        {path: (None, floats[starts + skip + place]) for place, path in columns},
    )


def _inflated(
    block: Block, places: Ints, flags: int, length: int, wanted: int
) -> list[bytes | None]:
    found: list[bytes | None] = []
    for place in places.tolist():
        payload = _payload(block, (8 * place, Kind.ROW, flags, 0, 0, length))
        found.append(payload if len(payload) == wanted else None)
    return found


class _Loose:
    """Frames that are taken one by one: names, sparse rows and whole columns."""

    def __init__(self, block: Block, table: RowTable) -> None:
        self.block = block
        self.table = table
        self.columns: list[Sheet] = []
        self.rows: list[tuple[int, int, int, float]] = []
        self.values: dict[str, tuple[list[int], list[float]]] = {}

    def take(self, frame: RawFrame) -> None:
        """Take one frame; what makes no sense was counted by the fold and is passed over here."""
        payload = _payload(self.block, frame)
        kind, table = frame[1], self.table
        try:
            if kind == Kind.PATH:
                table.paths[int.from_bytes(payload[:4], "little")] = payload[4:].decode()
            elif kind == Kind.SCHEMA:
                number, *paths = struct.unpack(f"<{len(payload) // 4}I", payload)
                table.schemas[number] = tuple(paths)
            elif kind == Kind.SPARSE:
                self._sparse(frame, payload)
            elif kind == Kind.COLUMN:
                self._column(frame, payload)
        except (ValueError, struct.error):
            return

    def _sparse(self, frame: RawFrame, payload: bytes) -> None:
        step, time, t = struct.unpack_from("<d", payload)[0], frame[4], frame[4]
        start = 8
        if frame[2] & USER_TIME:
            (time,), start = struct.unpack_from("<q", payload, 8), 16
        (size,) = struct.unpack_from("<I", payload, start)
        values = start + 8 + ((4 * size + 7) & ~7)
        if values + 8 * size != len(payload) or not np.isfinite(step):
            return
        numbers = struct.unpack_from(f"<{size}I", payload, start + 8)
        row = len(self.rows)
        self.rows.append((self.block.base + frame[0], t, time, step))
        for number, value in zip(
            numbers, struct.unpack_from(f"<{size}d", payload, values), strict=True
        ):
            path = self.table.paths.get(number)
            if path is not None and self.table.wants(path):
                rows, found = self.values.setdefault(path, ([], []))
                rows.append(row)
                found.append(value)

    def _column(self, frame: RawFrame, payload: bytes) -> None:
        number, size = struct.unpack_from("<II", payload)
        path = self.table.paths.get(number)
        user = bool(frame[2] & USER_TIME)
        if (
            path is None
            or not self.table.wants(path)
            or len(payload) != 8 + size * (24 if user else 16)
        ):
            return
        words = np.frombuffer(payload, "<i8", offset=8)
        step, value = words[:size].view("<f8"), words[size : 2 * size].view("<f8")
        t = np.full(size, frame[4], np.int64)
        time = words[2 * size :] if user else t
        offset = np.full(size, self.block.base + frame[0], np.int64)
        sound = np.isfinite(step)
        if not sound.all():
            step, value, t, time, offset = (
                step[sound],
                value[sound],
                t[sound],
                time[sound],
                offset[sound],
            )
        if len(step):
            self.columns.append(Sheet(offset, t, time, step, {path: (None, value)}))

    def sheets(self) -> list[Sheet]:
        """Return everything taken."""
        if not self.values:
            return self.columns
        offset, t, time, step = zip(*self.rows, strict=True)
        ints = [np.array(column, np.int64) for column in (offset, t, time)]
        series: dict[str, tuple[Ints | None, Floats]] = {
            path: (np.array(rows, np.int64), np.array(values))
            for path, (rows, values) in self.values.items()
        }
        return [*self.columns, Sheet(ints[0], ints[1], ints[2], np.array(step, np.float64), series)]


def merge(sheets: Sequence[Sheet]) -> Sheet:
    """Return sheets of one journal as one, in the order in which the rows were written."""
    if len(sheets) == 1:
        return sheets[0]
    columns = [
        np.concatenate(parts) for parts in zip(*(sheet[:4] for sheet in sheets), strict=True)
    ]
    starts = np.cumsum([0, *(len(sheet.step) for sheet in sheets)])
    order = np.argsort(columns[0], kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    found: dict[str, list[tuple[Ints, Floats]]] = {}
    for start, sheet in zip(starts, sheets, strict=False):
        for path, (rows, values) in sheet.series.items():
            own = place[start : start + len(sheet.step)] if rows is None else place[start + rows]
            found.setdefault(path, []).append((own, values))
    series: dict[str, tuple[Ints | None, Floats]] = {}
    for path, parts in found.items():
        rows = np.concatenate([own for own, _ in parts])
        values = np.concatenate([own for _, own in parts])
        by_row = np.argsort(rows, kind="stable")
        rows, values = rows[by_row], values[by_row]
        every = len(rows) == len(order) and bool((np.diff(rows) == 1).all())
        series[path] = (None if every else rows, values)
    offset, t, time, step = (column[order] for column in columns)
    return Sheet(offset, t, time, step, series)
