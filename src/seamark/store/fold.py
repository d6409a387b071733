"""Folding: from frames to the state of a run, by table B of ``docs/explanation/journal.md``.

`fold` is the only way in. It takes the frames of one journal after the other, in any batches, and
whatever the order in which journals are read, the visible state is the same in the end. What an
operation says is kept in registers (`seamark.store.state`) that forget nothing a later operation
may need; only the summaries of series are counted up, and where counting up cannot be exact any
more (a delete arrives after points on both sides of it were counted, or an attempt turns out to
hide points that were counted) the run is marked with ``needs_refold``: `reset_series` and another
pass over the journals, which keeps all registers, gives the exact result.

Nothing here raises because of what a frame holds: what cannot be applied is counted in ``errors``
and passed over.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from seamark.journal._format import FRAME_HEADER_BYTES, USER_TIME, ZLIB, Kind
from seamark.journal.reader import Block, RawFrame, decode_json, payload_of
from seamark.journal.records import sound_header
from seamark.store.payloads import (
    ATOM_TYPES,
    artifact_of,
    atom_of,
    counts_of,
    file_of,
    histogram_of_point,
    legible,
    list_of,
    state_of,
    step_of,
    text_of,
    text_of_point,
    unpack_column,
    unpack_sparse,
)
from seamark.store.state import (
    AtomState,
    FileSetState,
    FileState,
    FloatSeriesState,
    Key,
    RecordState,
    SetState,
)

if TYPE_CHECKING:
    from seamark.store.run_state import JournalState, RunState

__all__ = ["fold"]

_STATES: Final = frozenset(
    {"created", "running", "completed", "failed", "interrupted", "suspended"}
)
_FLOATS: Final[dict[int, struct.Struct]] = {}
Group = tuple[tuple[str | None, ...], int, int]
"""Rows that can be unpacked alike: paths, flags, payload length."""


def fold(run: RunState, writer: str, block: Block) -> int:
    """Apply the frames of one block to a run; the only way in.

    Frames before the journal's offset were folded already and are passed over.

    Args:
        run: Changed in place.
        writer: Which journal of the run the block is from.
        block: Whole valid frames, as `seamark.journal.reader.JournalReader.blocks` yields them.

    Returns:
        The offset at which folding goes on, in bytes.

    Raises:
        ValueError: If the block starts behind the journal's offset without a gap that says why, or
            holds another frame than the one that was folded last.
    """
    journal = run.journals[writer]
    frames, base = block.frames, block.base
    if base < journal.offset:
        frames = _unfolded(journal, block)
    elif base > journal.offset and journal.offset and not _bridged(journal, base):
        msg = f"journal {writer}: frames from {base} on were given, expected {journal.offset}"
        raise ValueError(msg)
    if frames:
        _Folding(run, journal, base, block.data).apply(frames)
    return journal.offset


def _unfolded(journal: JournalState, block: Block) -> list[RawFrame]:
    seen = journal.last_offset - block.base
    if seen >= 0 and int.from_bytes(block.data[seen : seen + 4], "little") != journal.last_crc:
        where = f"journal {journal.writer}: the frame at {journal.last_offset}"
        msg = f"{where} is another one than was folded"
        raise ValueError(msg)
    return [frame for frame in block.frames if block.base + frame[0] >= journal.offset]


def _bridged(journal: JournalState, base: int) -> bool:
    return any(
        offset <= journal.offset and offset + length == base for offset, length in journal.gaps
    )


class _Folding:
    """One block on its way into a run: records are applied first, rows of numbers then in bulk.

    That order is free, because folding does not depend on order.
    """

    def __init__(self, run: RunState, journal: JournalState, base: int, data: bytes) -> None:
        self.run = run
        self.journal = journal
        self.base = base
        self.data = data
        self.rows: dict[Group, list[tuple[int, int]]] = {}
        self.loose: dict[str, list[tuple[int, int, int, float, float]]] = {}

    def apply(self, frames: Sequence[RawFrame]) -> None:
        """Fold frames of this block."""
        journal, rows, row_kind = self.journal, self.rows, int(Kind.ROW)
        last_schema, positions = (
            (-1, -1, -1),
            [],
        )  # the common case: one row after the other of the same schema
        for frame in frames:
            pos, kind, flags, aux, t, length = frame
            if kind == row_kind:
                if (aux, flags, length) != last_schema:
                    try:
                        group = (journal.columns(aux), flags, length)
                    except ValueError as error:
                        journal.note(self.base + pos, str(error))
                        continue
                    last_schema, positions = (aux, flags, length), rows.setdefault(group, [])
                positions.append((pos, t))
                continue
            last_schema = (-1, -1, -1)
            try:
                self._apply(frame)
            except Exception as error:  # noqa: BLE001 - one odd record never stops a reader
                journal.note(self.base + pos, f"{type(error).__name__}: {error}")
        for group, found in rows.items():
            self._add_rows(group, found)
        for path, points in self.loose.items():
            self._add_points(path, points)
        self._advance(frames)

    def _advance(self, frames: Sequence[RawFrame]) -> None:
        journal = self.journal
        pos, kind, _, _, t, length = frames[-1]
        if journal.first_t is None:
            journal.first_t = max(0, frames[0][4])  # a sum of what is before the epoch may not fit
        journal.last_t = max(0, t)
        journal.closed = kind == Kind.CLOSE
        journal.last_offset = self.base + pos
        journal.last_crc = int.from_bytes(self.data[pos : pos + 4], "little")
        journal.offset = journal.last_offset + FRAME_HEADER_BYTES + ((length + 7) & ~7)

    # ------------------------------------------------------------------ records

    def _apply(self, frame: RawFrame) -> None:
        kind, length = frame[1], frame[5]
        read = _READERS.get(kind)
        if read is not None:
            read(self, frame, payload_of(self.data, frame))
        elif kind == Kind.HEARTBEAT:
            if length:
                self._counts(decode_json(payload_of(self.data, frame)))
        else:
            name = str(kind)
            self.journal.unknown[name] = self.journal.unknown.get(name, 0) + 1

    def _counts(self, record: Any) -> None:
        self.journal.dropped = counts_of(record)

    def _header(self, frame: RawFrame, payload: bytes) -> None:
        record = decode_json(payload)
        if not isinstance(record, dict):
            msg = f"header: expected an object, got {type(record).__name__}"
            raise TypeError(msg)
        self.run._take_header(self.journal, sound_header(record))  # noqa: SLF001 - the fold and its state are one thing

    def _close(self, frame: RawFrame, payload: bytes) -> None:
        record = decode_json(payload)
        self.journal.close_reason = str(record.get("reason"))
        self._counts(record)

    def _path(self, frame: RawFrame, payload: bytes) -> None:
        self.journal.define_path(int.from_bytes(payload[:4], "little"), payload[4:].decode())

    def _schema(self, frame: RawFrame, payload: bytes) -> None:
        number, *paths = struct.unpack(f"<{len(payload) // 4}I", payload)
        self.journal.define_schema(number, tuple(paths))
        if None in self.journal.columns(number):
            self.journal.note(self.base + frame[0], f"schema {number} names a path that was lost")

    def _op(self, frame: RawFrame, payload: bytes) -> None:
        record = decode_json(payload)
        if b"\\u" in payload:
            record = legible(record)
        apply = _OPS.get(record["op"])
        if apply is None:
            msg = f"unknown op {record['op']!r:.60}"
            raise ValueError(msg)
        apply(self, record, frame[4], self.base + frame[0])

    def _each(
        self, items: Iterable[Any], t: int, offset: int, apply: Callable[[Any, Key], None]
    ) -> None:
        """Apply the items of one frame; a bad one does not take the others with it."""
        uid = self.journal.uid
        for index, item in enumerate(items):
            try:
                apply(item, (t, uid, index))
            except Exception as error:  # noqa: BLE001 - see above
                self.journal.note(offset, f"{type(error).__name__}: {error}")

    def _op_assign(self, record: dict[str, Any], t: int, offset: int) -> None:
        uid, family = self.journal.uid, self.run.family
        for index, (path, pair) in enumerate(record["atoms"].items()):
            try:
                kind, value = pair
                if value.__class__ is not ATOM_TYPES[kind]:
                    value = atom_of(kind, value)
                state, key = family(path, "atom"), (t, uid, index)
            except Exception as error:  # noqa: BLE001 - see above
                self.journal.note(offset, f"{type(error).__name__}: atom {path!r:.120}: {error}")
                continue
            if key > state.key and isinstance(state, AtomState):
                state.key, state.type, state.value = key, kind, value

    def _op_delete(self, record: dict[str, Any], t: int, offset: int) -> None:
        self._each(record["paths"], t, offset, self.run.delete)

    def _op_clear(self, record: dict[str, Any], t: int, offset: int) -> None:
        self.run.clear(record["path"], (t, self.journal.uid, 0))

    def _set(self, record: dict[str, Any]) -> SetState:
        state = self.run.family(record["path"], "string_set")
        assert isinstance(state, SetState)  # noqa: S101
        return state

    def _put_elements(self, record: dict[str, Any], t: int, offset: int, *, there: bool) -> None:
        def put(value: Any, key: Key) -> None:
            self._set(record).put(key, text_of(value), there=there)

        self._each(list_of(record["values"]), t, offset, put)

    def _op_add(self, record: dict[str, Any], t: int, offset: int) -> None:
        self._put_elements(record, t, offset, there=True)

    def _op_remove(self, record: dict[str, Any], t: int, offset: int) -> None:
        self._put_elements(record, t, offset, there=False)

    def _op_assign_set(self, record: dict[str, Any], t: int, offset: int) -> None:
        self._set(record).assign((t, self.journal.uid, 0))
        self._put_elements(record, t, offset, there=True)

    def _op_file(self, record: dict[str, Any], t: int, offset: int) -> None:
        file, token = file_of(record["file"]), record.get("token")
        state = self.run.family(record["path"], "file")
        assert isinstance(state, FileState)  # noqa: S101
        state.upload((t, self.journal.uid, 0), file, None if token is None else text_of(token))

    def _op_digest(self, record: dict[str, Any], t: int, offset: int) -> None:
        file, token = file_of(record["file"]), text_of(record["token"])
        state = self.run.family(record["path"], "file")
        assert isinstance(state, FileState)  # noqa: S101
        state.digest((t, self.journal.uid, 0), token, file)

    def _op_files(self, record: dict[str, Any], t: int, offset: int) -> None:
        def put(member: tuple[str, Any], key: Key) -> None:
            file = file_of(member[1])
            self._members(record).put(key, member[0], file)

        self._each(record["members"].items(), t, offset, put)

    def _op_unfiles(self, record: dict[str, Any], t: int, offset: int) -> None:
        def put(name: Any, key: Key) -> None:
            self._members(record).put(key, text_of(name), None)

        self._each(list_of(record["names"]), t, offset, put)

    def _members(self, record: dict[str, Any]) -> FileSetState:
        state = self.run.family(record["path"], "file_set")
        assert isinstance(state, FileSetState)  # noqa: S101
        return state

    def _op_artifact(self, record: dict[str, Any], t: int, offset: int) -> None:
        state = self.run.family(record["path"], "artifact")
        assert isinstance(state, RecordState)  # noqa: S101
        state.assign((t, self.journal.uid, 0), artifact_of(record))

    def _op_file_point(self, record: dict[str, Any], t: int, offset: int) -> None:
        file, step = file_of(record["file"]), step_of(record["step"])
        self.journal.saw_rows(1, t, t)
        self._add_point(record["path"], "file_series", (t, self.journal.uid, 0), offset, step, file)

    def _op_state(self, record: dict[str, Any], t: int, offset: int) -> None:
        if record["state"] not in _STATES:
            msg = f"unknown state {record['state']!r:.60}"
            raise ValueError(msg)
        key = (t, self.journal.uid, 0)
        said = state_of(record)
        self.journal.said = {**said, "t": t}
        if self.journal.owner and key > self.run.state[0]:
            self.run.state = (key, said)

    def _op_checkpoint(self, record: dict[str, Any], t: int, offset: int) -> None:
        """Change nothing: the mark is for whoever loads the checkpoint."""

    # ------------------------------------------------------------------ points

    def _texts(self, frame: RawFrame, payload: bytes) -> None:
        record = decode_json(payload)
        if b"\\u" in payload:
            record = legible(record)
        self._points(record, "string_series", frame, text_of_point)

    def _histograms(self, frame: RawFrame, payload: bytes) -> None:
        self._points(decode_json(payload), "histogram_series", frame, histogram_of_point)

    def _points(
        self,
        record: dict[str, Any],
        family: str,
        frame: RawFrame,
        value: Callable[[list[Any]], Any],
    ) -> None:
        path, offset = record["path"], self.base + frame[0]

        def put(point: list[Any], key: Key) -> None:
            self._add_point(path, family, key, offset, step_of(point[0]), value(point))

        self.journal.saw_rows(1, frame[4], frame[4])
        self._each(list_of(record["points"]), frame[4], offset, put)

    def _add_point(
        self, path: Any, family: str, key: Key, offset: int, step: float, value: Any
    ) -> None:
        state = self.run.series(path, family, key)
        self.journal.point_end = max(self.journal.point_end, offset)
        if offset < self.run.cut(self.journal) and key > self.run.emptied(path):
            state.put(key, step, value)

    def _sparse(self, frame: RawFrame, payload: bytes) -> None:
        pos, _, flags, _, t, _ = frame
        step, paths, values = unpack_sparse(payload, flags)
        if not math.isfinite(step):
            msg = f"step {step} is not finite"
            raise ValueError(msg)
        self.journal.saw_rows(1, t, t)
        for index, (number, value) in enumerate(zip(paths, values, strict=True)):
            path = self.journal.paths.get(number)
            if path is None:
                self.journal.note(self.base + pos, f"sparse row: path {number} was lost")
            else:
                self.loose.setdefault(path, []).append((pos, t, index, step, value))

    def _column(self, frame: RawFrame, payload: bytes) -> None:
        pos, _, flags, _, t, _ = frame
        number, steps, values = unpack_column(payload, flags)
        path = self.journal.paths.get(number)
        if path is None:
            msg = f"column: path {number} was lost"
            raise ValueError(msg)
        indexes: Sequence[int] = range(len(steps))
        if not math.isfinite(sum(steps)):
            indexes = [index for index in indexes if math.isfinite(steps[index])]
            self.journal.note(
                self.base + pos, f"column: {len(steps) - len(indexes)} steps are not finite"
            )
            steps, values = (
                [steps[index] for index in indexes],
                [values[index] for index in indexes],
            )
        if steps:
            size = len(steps)
            self.journal.saw_rows(1, t, t)
            self._extend(path, [pos] * size, [t] * size, indexes, steps, values)

    def _add_rows(self, group: Group, found: list[tuple[int, int]]) -> None:
        columns, flags, length = group
        skip = 2 if flags & USER_TIME else 1
        size = skip + len(columns)
        if length != 8 * size and not flags & ZLIB:
            for pos, _ in found:
                self.journal.note(self.base + pos, f"row: expected {8 * size} bytes, got {length}")
            return
        rows = self._unpack_rows(found, size, length, flags)
        by_column = list(zip(*rows, strict=True))
        if rows and not math.isfinite(sum(by_column[0])):
            found, rows = self._sound(found, rows)
            by_column = list(zip(*rows, strict=True))
        if not rows:
            return
        positions, times = [pos for pos, _ in found], [t for _, t in found]
        self.journal.saw_rows(len(times), times[0], times[-1])
        for index, path in enumerate(columns):
            if path is not None:
                self._extend(path, positions, times, index, by_column[0], by_column[skip + index])

    def _unpack_rows(
        self, found: list[tuple[int, int]], size: int, length: int, flags: int
    ) -> list[tuple[float, ...]]:
        floats = _FLOATS.setdefault(size, struct.Struct(f"<{size}d"))
        if not flags & ZLIB:
            unpack, data = floats.unpack_from, self.data
            return [unpack(data, pos + FRAME_HEADER_BYTES) for pos, _ in found]
        rows, kept = [], []
        for pos, t in found:
            try:
                rows.append(
                    floats.unpack(payload_of(self.data, (pos, Kind.ROW, flags, 0, t, length)))
                )
            except (ValueError, struct.error) as error:
                self.journal.note(self.base + pos, f"row: {error}")
            else:
                kept.append((pos, t))
        found[:] = kept
        return rows

    def _sound(
        self, found: list[tuple[int, int]], rows: list[tuple[float, ...]]
    ) -> tuple[list[tuple[int, int]], list[tuple[float, ...]]]:
        kept = [at for at, row in enumerate(rows) if math.isfinite(row[0])]
        for at in set(range(len(rows))) - set(kept):
            self.journal.note(self.base + found[at][0], f"row: step {rows[at][0]} is not finite")
        return [found[at] for at in kept], [rows[at] for at in kept]

    def _add_points(self, path: str, points: list[tuple[int, int, int, float, float]]) -> None:
        positions, times, indexes, steps, values = zip(*points, strict=True)
        self._extend(path, positions, times, indexes, steps, values)

    def _extend(
        self,
        path: str,
        positions: Sequence[int],
        times: Sequence[int],
        index: int | Sequence[int],
        steps: Sequence[float],
        values: Sequence[float],
    ) -> None:
        """Add points of one float series, in the order in which they were written."""
        run, journal = self.run, self.journal
        newest = (times[-1], journal.uid, index if isinstance(index, int) else index[-1])
        state = run.series(path, "float_series", newest)
        journal.point_end = max(journal.point_end, self.base + positions[-1])
        start, stop = 0, len(steps)
        cut = run.cut(journal)
        if cut <= self.base + positions[-1]:
            stop = bisect_left(positions, cut - self.base)
        after = run.emptied(path)
        if after >= (times[0], journal.uid, index if isinstance(index, int) else index[0]):
            # Within one journal times rise; only another writer's delete can share a frame's time.
            start = (
                bisect_right(times, after[0])
                if journal.uid <= after[1]
                else bisect_left(times, after[0])
            )
        if start >= stop:
            return
        if (start, stop) != (0, len(steps)):
            times, steps, values = times[start:stop], steps[start:stop], values[start:stop]
            index = index if isinstance(index, int) else index[start:stop]
        assert isinstance(state, FloatSeriesState)  # noqa: S101
        state.extend(journal.uid, times, index, steps, values)


_READERS: Final[dict[int, Callable[[_Folding, RawFrame, bytes], None]]] = {
    Kind.HEADER: _Folding._header,  # noqa: SLF001 - a table of the class above
    Kind.OP: _Folding._op,  # noqa: SLF001
    Kind.PATH: _Folding._path,  # noqa: SLF001
    Kind.SCHEMA: _Folding._schema,  # noqa: SLF001
    Kind.SPARSE: _Folding._sparse,  # noqa: SLF001
    Kind.COLUMN: _Folding._column,  # noqa: SLF001
    Kind.TEXT: _Folding._texts,  # noqa: SLF001
    Kind.HISTOGRAM: _Folding._histograms,  # noqa: SLF001
    Kind.CLOSE: _Folding._close,  # noqa: SLF001
}

_OPS: Final[dict[str, Callable[[_Folding, dict[str, Any], int, int], None]]] = {
    "assign": _Folding._op_assign,  # noqa: SLF001
    "delete": _Folding._op_delete,  # noqa: SLF001
    "clear": _Folding._op_clear,  # noqa: SLF001
    "add": _Folding._op_add,  # noqa: SLF001
    "remove": _Folding._op_remove,  # noqa: SLF001
    "assign_set": _Folding._op_assign_set,  # noqa: SLF001
    "file": _Folding._op_file,  # noqa: SLF001
    "own": _Folding._op_file,  # noqa: SLF001
    "digest": _Folding._op_digest,  # noqa: SLF001
    "files": _Folding._op_files,  # noqa: SLF001
    "unfiles": _Folding._op_unfiles,  # noqa: SLF001
    "artifact": _Folding._op_artifact,  # noqa: SLF001
    "file_point": _Folding._op_file_point,  # noqa: SLF001
    "state": _Folding._op_state,  # noqa: SLF001
    "checkpoint": _Folding._op_checkpoint,  # noqa: SLF001
}
