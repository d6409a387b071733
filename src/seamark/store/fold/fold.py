"""Folding of frames into the state of a run, by table B of ``docs/reference/journal.md``.

`fold` applies the frames of one journal after the other, in batches of any size. The visible state
does not depend on the order in which journals are read. Registers (`seamark.store.fold.registers`)
keep everything that a later operation may need; only summaries of series are accumulated. If a
summary can no longer be exact (a delete arrives after points on both sides of it were counted, or
an attempt hides counted points), the run gets ``needs_refold``. A second pass, which starts with
the facts that hide points (`RunState.restarted`), then gives the exact result.

The content of a frame never raises an error: frames that cannot be applied are counted in
``errors``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

from seamark.journal.format import Kind, file_of, sound_header
from seamark.journal.reader import Block, RawFrame, decode_json, payload_of
from seamark.reading.attributes import FORKED_AT, FORKED_FROM, holds_parameters
from seamark.reading.states import RECORDED_STATES
from seamark.store.fold.decode import Decoded, decode, is_progress
from seamark.store.fold.payloads import (
    ATOM_TYPES,
    artifact_of,
    atom_of,
    counts_of,
    histogram_of_point,
    legible,
    list_of,
    state_of,
    statistic_of,
    step_of,
    text_of,
    text_of_point,
    time_of_point,
)
from seamark.store.fold.registers import (
    NEVER,
    AtomState,
    FamilyState,
    FileSetState,
    FileState,
    FloatSeriesState,
    Key,
    RecordState,
    SetState,
    StatisticState,
)
from seamark.store.fold.run_state import JournalState, RunState
from seamark.values.arrays import Floats, Ints

S = TypeVar("S", bound=FamilyState)
_FORK_PATHS: Final = frozenset({FORKED_AT, FORKED_FROM})


def fold(run: RunState, writer: str, block: Block) -> Decoded:
    """Decode the next block of a journal, of whole valid frames, and apply it to a run."""
    journal = run.journals[writer]
    journal.touched = True
    decoded = decode(block, journal.names)
    _Folding(run, journal, block).apply(decoded)
    _advance(journal, block)
    return decoded


def _advance(journal: JournalState, block: Block) -> None:
    frames, pos = block.frames, int(block.frames.place[-1])
    if journal.first_t is None:
        # Sums of times before the epoch may overflow.
        journal.first_t = max(0, int(frames.t[0]))
    journal.last_t = max(0, int(frames.t[-1]))
    journal.closed = bool(frames.kind[-1] == Kind.CLOSE)
    journal.last_offset = block.base + pos
    journal.last_crc = int.from_bytes(block.data[pos : pos + 4], "little")
    journal.offset = block.end


class _Record(NamedTuple):
    offset: int
    kind: int
    t: int
    content: Any


@dataclass(slots=True)
class _Folding:
    # Records are applied first, then rows of numbers in bulk; the order does not matter.

    run: RunState
    journal: JournalState
    block: Block

    def apply(self, decoded: Decoded) -> None:
        for offset, message, count in decoded.notes:
            self.journal.note(offset, message, count)
        for record in self._read_records(decoded):
            try:
                self._READERS[record.kind](self, record)
            except Exception as error:  # noqa: BLE001 - one odd record never stops a reader
                self.journal.note(record.offset, f"{type(error).__name__}: {error}")
        if not _FORK_PATHS.isdisjoint(self.run.dirty):
            self.run.note_fork()
        for count, first_t, last_t in decoded.points:
            self.journal.count_rows(count, first_t, last_t)
        for batch in decoded.batches:
            for path in batch.series:
                self._extend_series(path, *batch.points(path))

    def _read_records(self, decoded: Decoded) -> list[_Record]:
        """Return the readable records, and load the stored state of all decoded paths."""
        paths, namespaces = {"sys/trashed"}, set[str]()  # a column of the run's row
        for batch in decoded.batches:
            paths.update(batch.series)
        records = []
        for frame in decoded.records:
            if (record := self._read_record(frame)) is not None:
                records.append(record)
                _add_touched(record, paths, namespaces)
        if not _FORK_PATHS.isdisjoint(paths):
            paths |= _FORK_PATHS  # both are needed
        self.run.need(paths, namespaces)
        return records

    def _read_record(self, frame: RawFrame) -> _Record | None:
        pos, kind, _, _, t, length = frame
        offset = self.block.base + pos
        if kind not in self._READERS:
            name = str(kind)
            self.journal.unknown[name] = self.journal.unknown.get(name, 0) + 1
            return None
        if kind == Kind.HEARTBEAT and not length:
            return None
        try:
            payload = payload_of(self.block.data, frame)
            content = decode_json(payload)
            if b"\\u" in payload and kind in (Kind.OP, Kind.TEXT, Kind.HISTOGRAM):
                content = legible(content)
        except (ValueError, RecursionError) as error:
            self.journal.note(offset, f"{type(error).__name__}: {error}")
            return None
        return _Record(offset, kind, t, content)

    # ------------------------------------------------------------------ records

    def _heartbeat(self, record: _Record) -> None:
        self.journal.dropped = counts_of(record.content)

    def _header(self, record: _Record) -> None:
        if not isinstance(record.content, dict):
            raise TypeError(f"header: expected an object, got {type(record.content).__name__}")
        if not self.journal.header_text:  # only the first one is valid
            self.run.take_header(self.journal, sound_header(record.content))

    def _close(self, record: _Record) -> None:
        self.journal.close_reason = str(record.content.get("reason"))
        self._heartbeat(record)

    def _op(self, record: _Record) -> None:
        apply = self._OPS.get(record.content["op"])
        if apply is None:
            raise ValueError(f"unknown op {record.content['op']!r:.60}")
        apply(self, record.content, record.t, record.offset)

    def _apply_each(
        self, items: Iterable[Any], t: int, offset: int, apply: Callable[[Any, Key], None]
    ) -> None:
        # An invalid item must not affect the others.
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
            if key == state.key or not isinstance(state, AtomState):
                continue
            if state.key != NEVER and holds_parameters(path):
                old = (key, kind, value)
                self.run.note_change(
                    path, *(old if key < state.key else (state.key, state.type, state.value))
                )
            if key > state.key:
                state.key, state.type, state.value = key, kind, value

    def _op_delete(self, record: dict[str, Any], t: int, offset: int) -> None:
        self._apply_each(record["paths"], t, offset, self.run.delete)

    def _op_clear(self, record: dict[str, Any], t: int, offset: int) -> None:
        self.run.clear(record["path"], (t, self.journal.uid, 0))

    def _typed_state(self, record: dict[str, Any], family: str, kind: type[S]) -> S:
        state = self.run.family(record["path"], family)
        assert isinstance(state, kind)  # noqa: S101 - families and classes correspond
        return state

    def _op_elements(self, record: dict[str, Any], t: int, offset: int) -> None:
        def put(value: Any, key: Key) -> None:
            there = record["op"] != "remove"
            self._typed_state(record, "string_set", SetState).put(key, text_of(value), there)

        if record["op"] == "assign_set":
            self._typed_state(record, "string_set", SetState).assign((t, self.journal.uid, 0))
        self._apply_each(list_of(record["values"]), t, offset, put)

    def _op_file(self, record: dict[str, Any], t: int, offset: int) -> None:
        file, token = file_of(record["file"]), record.get("token")
        state = self._typed_state(record, "file", FileState)
        state.upload((t, self.journal.uid, 0), file, None if token is None else text_of(token))

    def _op_digest(self, record: dict[str, Any], t: int, offset: int) -> None:
        file, token = file_of(record["file"]), text_of(record["token"])
        self._typed_state(record, "file", FileState).digest((t, self.journal.uid, 0), token, file)

    def _op_files(self, record: dict[str, Any], t: int, offset: int) -> None:
        def put(member: tuple[str, Any], key: Key) -> None:
            file = file_of(member[1])
            self._typed_state(record, "file_set", FileSetState).put(key, member[0], file)

        self._apply_each(record["members"].items(), t, offset, put)

    def _op_unfiles(self, record: dict[str, Any], t: int, offset: int) -> None:
        def put(name: Any, key: Key) -> None:
            self._typed_state(record, "file_set", FileSetState).put(key, text_of(name), None)

        self._apply_each(list_of(record["names"]), t, offset, put)

    def _op_artifact(self, record: dict[str, Any], t: int, offset: int) -> None:
        state = self._typed_state(record, "artifact", RecordState)
        state.assign((t, self.journal.uid, 0), artifact_of(record))

    def _op_file_point(self, record: dict[str, Any], t: int, offset: int) -> None:
        file, step = file_of(record["file"]), step_of(record["step"])
        self._count_progress(record["path"], t)
        self._add_point(record["path"], "file_series", (t, self.journal.uid, 0), offset, step, file)

    def _op_statistic(self, record: dict[str, Any], t: int, offset: int) -> None:
        part, kind, aggregate = statistic_of(record)
        key = (t, self.journal.uid, 0)
        state = self._typed_state(record, "statistic", StatisticState)
        state.key = max(state.key, key)
        # As for points, states after the position at which a later attempt resumed are hidden.
        self.journal.point_end = max(self.journal.point_end, offset)
        self._count_progress(record["path"], t)
        if offset < self.run.cut(self.journal):
            state.put(key, part, (kind, aggregate))

    def _op_state(self, record: dict[str, Any], t: int, offset: int) -> None:
        if record["state"] not in RECORDED_STATES:
            raise ValueError(f"unknown state {record['state']!r:.60}")
        key = (t, self.journal.uid, 0)
        content = state_of(record)
        self.journal.said = {**content, "t": t}
        if not self.journal.owner:
            return
        if key > self.run.state[0]:
            self.run.state = (key, content)
        if record["state"] == "running":
            self.run.started = t if self.run.started is None else min(self.run.started, t)

    def _ignored_op(self, record: dict[str, Any], t: int, offset: int) -> None:
        """Ignore an op for checkpoints or the display of a series."""

    # ------------------------------------------------------------------ points

    def _points(self, record: _Record) -> None:
        path, is_text = record.content["path"], record.kind == Kind.TEXT
        family = "string_series" if is_text else "histogram_series"

        def put(point: list[Any], key: Key) -> None:
            value: Any = text_of_point(point) if is_text else histogram_of_point(point)
            if not is_text:
                value.append(time_of_point(point, 3, record.t))
            self._add_point(path, family, key, record.offset, step_of(point[0]), value)

        self._count_progress(path, record.t)
        self._apply_each(list_of(record.content["points"]), record.t, record.offset, put)

    def _count_progress(self, path: Any, t: int) -> None:
        if is_progress(text_of(path)):
            self.journal.count_rows(1, t, t)

    def _add_point(
        self, path: Any, family: str, key: Key, offset: int, step: float, value: Any
    ) -> None:
        state = self.run.series(path, family, key)
        self.journal.point_end = max(self.journal.point_end, offset)
        if offset < self.run.cut(self.journal) and key > self.run.emptied(path):
            state.put(key, step, value)

    def _extend_series(self, path: str, offset: Ints, t: Ints, step: Floats, value: Floats) -> None:
        run, journal = self.run, self.journal
        try:
            state = run.series(path, "float_series", (int(t[-1]), journal.uid, 0))
        except ValueError as error:
            journal.note(int(offset[0]), f"ValueError: {error}", len(step))
            return
        journal.point_end = max(journal.point_end, int(offset[-1]))
        cut, after = run.cut(journal), run.emptied(path)
        seen: Any = slice(None)
        if cut <= offset[-1]:
            seen = offset < cut
        if after[0] >= t[0]:
            # Times rise within a journal, so only another writer's delete can have a frame's time.
            newer = t > after[0] if journal.uid <= after[1] else t >= after[0]
            seen = newer if isinstance(seen, slice) else seen & newer
        t, step, value = t[seen], step[seen], value[seen]
        if len(step):
            assert isinstance(state, FloatSeriesState)  # noqa: S101
            state.extend(journal.uid, t, step, value)

    _READERS: ClassVar[dict[int, Callable[[_Folding, _Record], None]]] = {
        Kind.HEADER: _header,
        Kind.OP: _op,
        Kind.TEXT: _points,
        Kind.HISTOGRAM: _points,
        Kind.HEARTBEAT: _heartbeat,
        Kind.CLOSE: _close,
    }

    _OPS: ClassVar[dict[str, Callable[[_Folding, dict[str, Any], int, int], None]]] = {
        "assign": _op_assign,
        "delete": _op_delete,
        "clear": _op_clear,
        "add": _op_elements,
        "remove": _op_elements,
        "assign_set": _op_elements,
        "file": _op_file,
        "own": _op_file,
        "digest": _op_digest,
        "files": _op_files,
        "unfiles": _op_unfiles,
        "artifact": _op_artifact,
        "file_point": _op_file_point,
        "state": _op_state,
        "statistic": _op_statistic,
        "checkpoint": _ignored_op,
        "series_config": _ignored_op,  # of earlier versions
    }


def _add_touched(record: _Record, paths: set[str], namespaces: set[str]) -> None:
    content = record.content
    if not isinstance(content, dict):
        return
    if isinstance(path := content.get("path"), str):
        paths.add(path)
    if record.kind == Kind.OP:
        if isinstance(atoms := content.get("atoms"), dict):
            paths.update(atoms)
        if isinstance(deleted := content.get("paths"), list):
            namespaces.update(one for one in deleted if isinstance(one, str))
