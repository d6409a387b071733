"""Decoder of packed frames to columns of numbers, without creating an object for each point."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from seamark.journal.format import FRAME_HEADER_BYTES, USER_TIME, ZLIB, Kind
from seamark.journal.frames import Frames
from seamark.journal.reader import Block, RawFrame, payload_of
from seamark.store.fold.payloads import PATH_BYTES, Names, legible, unpack_sparse
from seamark.values.arrays import Floats, Ints

_POINT_KINDS: Final = frozenset({int(Kind.TEXT), int(Kind.HISTOGRAM), int(Kind.OP)})


class RowBatch(NamedTuple):
    """Rows of one journal, and the values of series in them.

    Attributes:
        offset: Offset of the frame, bytes, int64 (N,).
        t: Time of the frame, nanoseconds since the Unix epoch, int64 (N,).
        time: Time given by the caller, otherwise ``t``.
        step: Step, float64 (N,).
        series: For each path, the indices of rows with a value (None: all rows), and the values.
    """

    offset: Ints
    t: Ints
    time: Ints
    step: Floats
    series: dict[str, tuple[Ints | None, Floats]]

    def part(self, start: int, end: int) -> RowBatch:
        """Return consecutive rows, from ``start`` to before ``end``."""
        rows = slice(start, end)
        series: dict[str, tuple[Ints | None, Floats]] = {}
        for path, (own, values) in self.series.items():
            if own is None:
                series[path] = (None, values[rows])
                continue
            first, last = np.searchsorted(own, [start, end]).tolist()
            if first < last:
                series[path] = (own[first:last] - start, values[first:last])
        return RowBatch(self.offset[rows], self.t[rows], self.time[rows], self.step[rows], series)

    def points(self, path: str) -> tuple[Ints, Ints, Floats, Floats]:
        """Return the offsets, times, steps and values of one series."""
        rows, values = self.series[path]
        if rows is None:
            return self.offset, self.t, self.step, values
        return self.offset[rows], self.t[rows], self.step[rows], values


@dataclass(slots=True)
class Decoded:
    """Decoded contents of a stretch of a journal.

    Attributes:
        batches: Rows of numbers.
        records: Frames with JSON, or of an unknown kind.
        points: (count, first time, last time) of readable frames with numbers of the training.
        notes: (offset, message, count) of frames that could not be decoded.
    """

    batches: list[RowBatch] = field(default_factory=list)
    records: list[RawFrame] = field(default_factory=list)
    points: list[tuple[int, int, int]] = field(default_factory=list)
    notes: list[tuple[int, str, int]] = field(default_factory=list)

    def count_progress(
        self, paths: Iterable[str | None], count: int, first_t: int, last_t: int
    ) -> None:
        """Count frames with numbers if one of the series belongs to the training."""
        if any(map(is_progress, filter(None, paths))):
            self.points.append((count, first_t, last_t))


def decode(
    block: Block,
    names: Names,
    wanted: frozenset[str] | None = None,
    stop: int | None = None,
) -> Decoded:
    """Decode a block of whole valid frames, for the ``wanted`` series or all series.

    ``names`` has the names defined before the block; those defined in the block are added. Frames
    from the offset ``stop`` on are skipped.
    """
    frames = block.frames if stop is None else block.frames.before(stop - block.base)
    return _Decoder(block, names, wanted).run(frames)


def is_progress(path: str) -> bool:
    """Return whether points of a path show progress of the training, unlike the machine's load."""
    return not path.startswith("monitoring/")


@dataclass(slots=True)
class _Decoder:
    block: Block
    names: Names
    wanted: frozenset[str] | None
    found: Decoded = field(default_factory=Decoded)
    rows: list[tuple[int, int, int, float]] = field(default_factory=list)
    values: dict[str, tuple[list[int], list[float]]] = field(default_factory=dict)

    def run(self, frames: Frames) -> Decoded:
        is_row = frames.kind == Kind.ROW
        if self.names.load is not None and is_row.any():
            self.names.need((), np.unique(frames.aux[is_row]).tolist())
        is_row &= frames.flags & ZLIB == 0
        special = np.nonzero(~is_row)[0]
        known: dict[int, Collection[int]] = {
            Kind.PATH: self.names.paths,
            Kind.SCHEMA: self.names.schemas,
        }
        start = 0
        for index, frame in zip(special.tolist(), frames.raws(special), strict=True):
            take = self._DECODERS.get(frame[1])
            if take is None:
                self.found.records.append(frame)
                continue
            try:
                payload = payload_of(self.block.data, frame)
                if int.from_bytes(payload[:4], "little") in known.get(frame[1], ()):
                    self._decode_rows(frames, is_row, start, index)  # with the old definition
                    start = index
                take(self, frame, payload)
            except (ValueError, struct.error) as error:
                self.note(frame[0], f"{type(error).__name__}: {error}")
        self._decode_rows(frames, is_row, start, None)
        self._flush_sparse()
        return self.found

    def note(self, pos: int, message: str, count: int = 1) -> None:
        self.found.notes.append((self.block.base + pos, message, count))

    # ------------------------------------------------------------------ names

    def _decode_path(self, frame: RawFrame, payload: bytes) -> None:
        # A number with an invalid path is kept with an empty path.
        number, path = int.from_bytes(payload[:4], "little"), legible(payload[4:].decode())
        size = len(path.encode())
        if not 0 < size <= PATH_BYTES:
            self.note(frame[0], f"path: expected 1 to {PATH_BYTES} bytes, got {size}: {path:.80}")
            path = ""
        self.names.define_path(number, self.block.base + frame[0], path)

    def _decode_schema(self, frame: RawFrame, payload: bytes) -> None:
        number, *paths = struct.unpack(f"<{len(payload) // 4}I", payload)
        self.names.define_schema(number, self.block.base + frame[0], tuple(paths))
        if None in (self.names.columns(number) or ()):
            self.note(frame[0], f"schema {number}: the definition of a path is missing")

    # ------------------------------------------------------------------ rows of a schema

    def _decode_rows(self, frames: Frames, is_row: Any, start: int, end: int | None) -> None:
        picked = np.nonzero(is_row[start:end])[0]
        if not len(picked):
            return
        picked += start
        words = np.frombuffer(self.block.data, "<i8", count=len(self.block.data) // 8)
        shapes = frames.shapes(picked)
        is_uniform = (shapes == shapes[0]).all()
        for shape in shapes[:1] if is_uniform else np.unique(shapes):
            alike = picked if is_uniform else picked[shapes == shape]
            places, first = frames.place[alike], frames.raw(int(alike[0]))
            starts = (places + FRAME_HEADER_BYTES) >> 3
            self._add_rows(words, starts, places, frames.t[alike], first, first[5])

    def _decode_row(self, frame: RawFrame, payload: bytes) -> None:
        words = np.frombuffer(payload, "<i8", count=len(payload) // 8)
        place, t = np.array([[frame[0]], [frame[4]]], np.int64)
        self._add_rows(words, np.zeros(1, np.int64), place, t, frame, len(payload))

    def _add_rows(
        self, words: Ints, starts: Ints, places: Ints, t: Ints, first: RawFrame, length: int
    ) -> None:
        _, _, flags, schema, _, _ = first
        columns = self.names.columns(schema)
        if columns is None:
            message = f"row: the definition of schema {schema} is missing"
            self.note(int(places[0]), message, len(places))
            return
        skip = 2 if flags & USER_TIME else 1
        size = 8 * (skip + len(columns))
        if length != size:
            self.note(int(places[0]), f"row: expected {size} bytes, got {length}", len(places))
            return
        floats = words.view("<f8")
        step = floats[starts]
        sound = np.isfinite(step)
        if not sound.all():
            bad = int((~sound).argmax())
            message = f"row: expected a finite step, got {float(step[bad])}"
            self.note(int(places[bad]), message, int((~sound).sum()))
            places, t, starts, step = places[sound], t[sound], starts[sound], step[sound]
        if not len(step):
            return
        self.found.count_progress(columns, len(step), int(t[0]), int(t[-1]))
        offset = places + self.block.base
        time = words[starts + 1] if flags & USER_TIME else t
        series: dict[str, tuple[Ints | None, Floats]] = {}
        for place, path in enumerate(columns):
            if path is not None and self._is_wanted(path):  # the last one of a repeated path
                series[path] = (None, floats[starts + (skip + place)])
        if series:
            self.found.batches.append(RowBatch(offset, t, time, step, series))

    def _is_wanted(self, path: str) -> bool:
        return self.wanted is None or path in self.wanted

    # ------------------------------------------------------------------ sparse rows and columns

    def _decode_sparse(self, frame: RawFrame, payload: bytes) -> None:
        pos, _, flags, _, t, _ = frame
        step, numbers, values = unpack_sparse(payload, flags)
        if not np.isfinite(step):
            raise ValueError(f"sparse row: expected a finite step, got {step}")
        time = struct.unpack_from("<q", payload, 8)[0] if flags & USER_TIME else t
        self.names.need(numbers, ())
        self.found.count_progress(map(self.names.paths.get, numbers), 1, t, t)
        row = len(self.rows)
        self.rows.append((self.block.base + pos, t, time, step))
        paths = self.names.paths
        for number, value in zip(numbers, values, strict=True):
            path = paths.get(number)
            if not path:
                self.note(pos, f"sparse row: the definition of path {number} is missing")
            elif self._is_wanted(path):
                rows, found = self.values.setdefault(path, ([], []))
                rows.append(row)
                found.append(value)

    def _decode_column(self, frame: RawFrame, payload: bytes) -> None:
        pos, _, flags, _, t, _ = frame
        number, size = struct.unpack_from("<II", payload)
        wanted = 8 + size * (24 if flags & USER_TIME else 16)
        if wanted != len(payload):
            raise ValueError(f"column: expected {wanted} bytes, got {len(payload)}")
        self.names.need([number], ())
        path = self.names.paths.get(number)
        if not path:
            raise ValueError(f"column: the definition of path {number} is missing")
        words = np.frombuffer(payload, "<i8", offset=8)
        step, value = words[:size].view("<f8"), words[size : 2 * size].view("<f8")
        times = np.full(size, t, np.int64)
        time = words[2 * size :] if flags & USER_TIME else times
        sound = np.isfinite(step)
        if not sound.all():
            self.note(pos, f"column: expected finite steps, got {int((~sound).sum())} others")
            step, value, times, time = step[sound], value[sound], times[sound], time[sound]
        if not len(step):
            return
        self.found.count_progress([path], 1, t, t)
        if self._is_wanted(path):
            offset = np.full(len(step), self.block.base + pos, np.int64)
            self.found.batches.append(RowBatch(offset, times, time, step, {path: (None, value)}))

    def _flush_sparse(self) -> None:
        if not self.values:
            return
        offset, t, time, step = zip(*self.rows, strict=True)
        ints = np.array((offset, t, time), np.int64)
        series: dict[str, tuple[Ints | None, Floats]] = {
            path: (np.array(rows, np.int64), np.array(values))
            for path, (rows, values) in self.values.items()
        }
        batch = RowBatch(ints[0], ints[1], ints[2], np.array(step, np.float64), series)
        self.found.batches.append(batch)

    _DECODERS: ClassVar[dict[int, Callable[[_Decoder, RawFrame, bytes], None]]] = {
        Kind.ROW: _decode_row,
        Kind.PATH: _decode_path,
        Kind.SCHEMA: _decode_schema,
        Kind.SPARSE: _decode_sparse,
        Kind.COLUMN: _decode_column,
    }


def may_hold_points(block: Block, frame: RawFrame) -> bool:
    """Return whether a frame may hold points of series other than numbers."""
    if frame[1] not in _POINT_KINDS:
        return False
    if frame[1] != Kind.OP:
        return True
    try:
        return b'"file_point"' in payload_of(block.data, frame)
    except ValueError:
        return False


def merge(batches: Sequence[RowBatch]) -> RowBatch:
    """Merge batches of one journal into one, in the order of writing."""
    if len(batches) == 1:
        return batches[0]
    if not batches:
        empty = np.empty(0, np.int64)
        return RowBatch(empty, empty, empty, np.empty(0), {})
    columns = [
        np.concatenate(parts) for parts in zip(*(batch[:4] for batch in batches), strict=True)
    ]
    starts = np.cumsum([0, *(len(batch.step) for batch in batches)])
    order = np.argsort(columns[0], kind="stable")
    if not (order[1:] > order[:-1]).all():  # usually in order: no copy
        columns = [column[order] for column in columns]
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    found: dict[str, list[tuple[Ints, Floats]]] = {}
    for start, batch in zip(starts, batches, strict=False):
        for path, (rows, values) in batch.series.items():
            own = place[start : start + len(batch.step)] if rows is None else place[start + rows]
            found.setdefault(path, []).append((own, values))
    series: dict[str, tuple[Ints | None, Floats]] = {}
    for path, parts in found.items():
        rows = np.concatenate([own for own, _ in parts])
        values = np.concatenate([own for _, own in parts])
        if not (rows[1:] > rows[:-1]).all():
            by_row = np.argsort(rows, kind="stable")
            rows, values = rows[by_row], values[by_row]
        every = len(rows) == len(order) and bool((rows[1:] == rows[:-1] + 1).all())
        series[path] = (None if every else rows, values)
    offset, t, time, step = columns
    return RowBatch(offset, t, time, step, series)
