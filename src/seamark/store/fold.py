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
import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from seamark.journal._format import FRAME_HEADER_BYTES, USER_TIME, ZLIB, Kind
from seamark.journal.reader import Block, RawFrame, decode_json, payload_of
from seamark.store.state import (
    NEVER,
    AtomState,
    FamilyState,
    FileSetState,
    FileState,
    FloatSeriesState,
    Key,
    RecordState,
    SeriesState,
    SetState,
    state_class,
)

__all__ = ["JournalState", "RunState", "fold", "record_points"]

SERIES: Final = ("float_series", "string_series", "file_series", "histogram_series")
_CLEARED: Final = (*SERIES, "string_set", "file_set")
_ATOM_TYPES: Final = {
    "int": int,
    "float": float,
    "bool": bool,
    "string": str,
    "datetime": str,
    "null": type(None),
    "json": str,
    "text": dict,
}
_STATES: Final = frozenset(
    {"created", "running", "completed", "failed", "interrupted", "suspended"}
)
_NOTES: Final = 20
"""So many fold errors of a journal are kept in words; the others are only counted."""

_FLOATS: Final[dict[int, struct.Struct]] = {}
_UNSAFE: Final = re.compile("[\x00\ud800-\udfff]")

Group = tuple[tuple[str | None, ...], int, int]
"""Rows that can be unpacked alike: paths, flags, payload length."""


class JournalState:
    """What is known of one journal of a run: how far it is folded, and what it said about itself.

    Attributes:
        writer: Writer id.
        file: Name of the file.
        uid: 16 bytes.
        number: Small number of the journal within its run, in the index.
        header: The HEADER record; empty where it is damaged or not read yet.
        offset: Where folding goes on, bytes.
        last_offset: Where the last folded frame starts, bytes; 0 if there is none.
        last_crc: Its CRC.
        first_t: Time of the first frame, nanoseconds since the Unix epoch; None if there is none.
        last_t: Time of the last frame.
        closed: Whether the last frame is CLOSE.
        gaps: Bytes that hold no valid frame: [offset, length].
        tail: The same at the end, while more may come: [offset, length] or None.
        dropped: Counts of what the writer lost, by reason.
        unknown: How many frames of every unknown kind that may be skipped there are.
        errors: How many frames or parts of frames could not be applied.
        notes: What was wrong with the first of them: [offset, message].
        stopped: Why reading stopped, see `seamark.journal.reader.JournalReader`.
        point_end: Where the last frame with points of a series starts, bytes; -1 if there is none.
        paths: Paths by number.
        schemas: Numbers of paths by number of the schema.
    """

    def __init__(self, writer: str, uid: bytes, *, file: str = "", number: int = 0) -> None:
        self.writer = writer
        self.file = file
        self.uid = uid
        self.number = number
        self.header: dict[str, Any] = {}
        self.stored_offset = -1
        self.restart()

    def restart(self) -> None:
        """Forget everything that reading from the start brings back."""
        self.offset = 0
        self.last_offset = 0
        self.last_crc = 0
        self.first_t: int | None = None
        self.last_t = 0
        self.closed = False
        self.gaps: list[list[int]] = []
        self.tail: list[int] | None = None
        self.dropped: dict[str, int] = {}
        self.unknown: dict[str, int] = {}
        self.errors = 0
        self.notes: list[list[Any]] = []
        self.stopped: str | None = None
        self.point_end = -1
        self.paths: dict[int, str] = {}
        self.schemas: dict[int, tuple[int, ...]] = {}
        self._columns: dict[int, tuple[str | None, ...]] = {}

    @property
    def attempt(self) -> int | None:
        """Number of the attempt that wrote this journal; None: of none, and never hidden."""
        attempt = self.header.get("attempt")
        return attempt if isinstance(attempt, int) else None

    @property
    def owner(self) -> bool:
        """Whether this writer speaks for the run's state; where the header is damaged, it may."""
        return bool(self.header.get("owner", True))

    def positions(self) -> dict[str, int] | None:
        """Return the positions that this attempt goes on from, or None if it names none."""
        positions = self.header.get("positions")
        return positions if isinstance(positions, dict) else None

    def columns(self, schema: int) -> tuple[str | None, ...]:
        """Return the paths of a schema; None for a path that was lost.

        Raises:
            ValueError: If there is no such schema.
        """
        known = self._columns.get(schema)
        if known is None:
            numbers = self.schemas.get(schema)
            if numbers is None:
                msg = f"row of schema {schema}, which is not in the journal"
                raise ValueError(msg)
            known = self._columns[schema] = tuple(self.paths.get(number) for number in numbers)
        return known

    def define_path(self, number: int, path: str) -> None:
        """Take a PATH frame."""
        if self.paths.get(number) != path:
            self.paths[number] = path
            self._columns.clear()

    def define_schema(self, number: int, paths: tuple[int, ...]) -> None:
        """Take a SCHEMA frame."""
        self.schemas[number] = paths
        self._columns.pop(number, None)

    def note(self, offset: int, message: str) -> None:
        """Count what could not be applied."""
        self.errors += 1
        if len(self.notes) < _NOTES:
            self.notes.append([offset, message[:300]])


class RunState:
    """Everything that the journals of one run say, as far as they are folded.

    Attributes:
        attributes: The families of every path.
        deletes: Greatest key of the deletes of every path or namespace that was deleted.
        clears: The same for paths that were cleared.
        journals: By writer id.
        state: Key and record of the newest state that an owner wrote.
        dirty: Paths whose rows in the index are out of date.
        needs_refold: Whether summaries have to be counted anew from the journals.
    """

    def __init__(self) -> None:
        self.attributes: dict[str, dict[str, FamilyState]] = {}
        self.deletes: dict[str, Key] = {}
        self.clears: dict[str, Key] = {}
        self.journals: dict[str, JournalState] = {}
        self.state: tuple[Key, dict[str, Any]] = (NEVER, {})
        self.dirty: set[str] = set()
        self.needs_refold = False
        self._cuts: dict[str, float] | None = None
        self._namespaces: set[str] | None = None

    # ------------------------------------------------------------------ journals and attempts

    def add_journal(
        self, journal: JournalState, header: dict[str, Any] | None = None
    ) -> JournalState:
        """Take up a journal; given its header beforehand, what it hides is never counted."""
        self.journals[journal.writer] = journal
        if header:
            self._take_header(journal, header)
        return journal

    def _take_header(self, journal: JournalState, header: dict[str, Any]) -> None:
        if journal.header:
            return
        journal.header = header
        self._cuts = None
        if any(other.point_end >= self.cut(other) for other in self.journals.values()):
            self.needs_refold = True

    def cut(self, journal: JournalState, attempt: int | None = None) -> float:
        """Return the offset from which on points of a journal are hidden, infinity if none are.

        A journal of attempt a is cut where every later attempt that names positions went on from.

        Args:
            journal: One of this run's.
            attempt: Look at the run as this attempt left it; None for the latest.
        """
        if attempt is None:
            if self._cuts is None:
                self._cuts = {writer: self._cut(one, None) for writer, one in self.journals.items()}
            if journal.writer in self._cuts:
                return self._cuts[journal.writer]
        return self._cut(journal, attempt)

    def _cut(self, journal: JournalState, attempt: int | None) -> float:
        own = journal.attempt
        if own is None:
            return math.inf
        if attempt is not None and own > attempt:
            return 0
        cut = math.inf
        for other in self.journals.values():
            later, positions = other.attempt, other.positions()
            if (
                later is None
                or positions is None
                or later <= own
                or (attempt is not None and later > attempt)
            ):
                continue
            position = positions.get(journal.writer, 0)
            cut = min(cut, position if isinstance(position, int | float) else 0)
        return cut

    def reset_series(self) -> None:
        """Empty all summaries and go back to the start of every journal; registers stay."""
        for path, families in self.attributes.items():
            for state in families.values():
                if isinstance(state, SeriesState):
                    state.reset()
                    self.dirty.add(path)
        for journal in self.journals.values():
            journal.restart()
        self.needs_refold = False

    # ------------------------------------------------------------------ what is visible

    def tombstone(self, path: str) -> Key:
        """Return T(path): the greatest key among deletes of the path and of everything above it."""
        deletes = self.deletes
        if not deletes:
            return NEVER
        best = deletes.get(path, NEVER)
        slash = path.rfind("/")
        while slash > 0:
            best = max(best, deletes.get(path[:slash], NEVER))
            slash = path.rfind("/", 0, slash)
        return best

    def emptied(self, path: str) -> Key:
        """Return the key after which points and elements of a path count: of deletes and clears."""
        return max(self.tombstone(path), self.clears.get(path, NEVER))

    def surviving(self, path: str) -> list[FamilyState]:
        """Return the families that a path holds, the visible one first."""
        after = self.tombstone(path) if self.deletes else NEVER
        found = [state for state in self.attributes.get(path, {}).values() if state.key > after]
        if len(found) > 1:
            found.sort(key=lambda state: state.key, reverse=True)
        return found

    def visible(self) -> Iterator[tuple[str, FamilyState]]:
        """Yield every path that shows something, sorted, with the family that it shows."""
        for path in sorted(self.attributes):
            if found := self.surviving(path):
                yield path, found[0]

    def conflicts(self) -> dict[str, list[str]]:
        """Return the families that lost, by path."""
        found = {
            path: self.surviving(path)
            for path, families in self.attributes.items()
            if len(families) > 1
        }
        return {
            path: [state.family for state in states[1:]]
            for path, states in sorted(found.items())
            if states[1:]
        }

    # ------------------------------------------------------------------ registers

    def family(self, path: Any, family: str) -> FamilyState:
        """Return the state of a family of a path, empty if it is new, and mark the path as changed.

        Raises:
            ValueError: If the path is none.
        """
        families = self.attributes.get(path)
        if families is None:
            if not isinstance(path, str) or not path or len(path) > 4096:  # noqa: PLR2004 - four times what writers take
                msg = f"expected a path, got {path!r:.120}"
                raise ValueError(msg)
            families = self.attributes[path] = {}
            self._namespaces = None
        state = families.get(family)
        if state is None:
            state = families[family] = state_class(family)(family)
        self.dirty.add(path)
        return state

    def series(self, path: Any, family: str, key: Key) -> SeriesState:
        """Return the state of a series that gets a point, hidden or not, with this key."""
        state = self.family(path, family)
        assert isinstance(state, SeriesState)  # noqa: S101 - families and classes correspond
        state.key = max(state.key, key)
        return state

    def delete(self, path: Any, key: Key) -> None:
        """Hide what the path and everything below it hold up to ``key``."""
        if not isinstance(path, str) or not path:
            msg = f"expected a path or namespace, got {path!r:.120}"
            raise ValueError(msg)
        if key <= self.deletes.get(path, NEVER):
            return
        self.deletes[path] = key
        for inner in self._inside(path):
            self._cut_off(inner, key)

    def clear(self, path: Any, key: Key) -> None:
        """Empty the series or set at the path; it stays."""
        if not isinstance(path, str) or not path:
            msg = f"expected a path, got {path!r:.120}"
            raise ValueError(msg)
        if key > self.clears.get(path, NEVER):
            self.clears[path] = key
            if path in self.attributes:
                self._cut_off(path, key)

    def _cut_off(self, path: str, key: Key) -> None:
        self.dirty.add(path)
        for state in self.attributes[path].values():
            if not isinstance(state, SeriesState) or state.low is None or key < state.low:
                continue
            if key >= state.high:
                state.reset()
            else:
                self.needs_refold = True

    def _inside(self, namespace: str) -> list[str]:
        if self._namespaces is None:
            self._namespaces = set()
            for path in self.attributes:
                slash = path.rfind("/")
                while slash > 0 and (above := path[:slash]) not in self._namespaces:
                    self._namespaces.add(above)
                    slash = path.rfind("/", 0, slash)
        found = [namespace] if namespace in self.attributes else []
        if namespace in self._namespaces:
            below = namespace + "/"
            found += [path for path in self.attributes if path.startswith(below)]
        return found


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
            journal.first_t = frames[0][4]
        journal.last_t = t
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
        dropped = record.get("dropped") or {}
        self.journal.dropped = {
            str(reason): int(count) for reason, count in dropped.items() if count
        }

    def _header(self, frame: RawFrame, payload: bytes) -> None:
        record = decode_json(payload)
        if not isinstance(record, dict):
            msg = f"header: expected an object, got {type(record).__name__}"
            raise TypeError(msg)
        self.run._take_header(self.journal, record)  # noqa: SLF001 - the fold and its state are one thing

    def _close(self, frame: RawFrame, payload: bytes) -> None:
        self._counts(decode_json(payload))

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
            record = _legible(record)
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
                if value.__class__ is not _ATOM_TYPES[kind]:
                    value = _atom(kind, value)
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
            self._set(record).put(key, _text(value), there=there)

        self._each(_list(record["values"]), t, offset, put)

    def _op_add(self, record: dict[str, Any], t: int, offset: int) -> None:
        self._put_elements(record, t, offset, there=True)

    def _op_remove(self, record: dict[str, Any], t: int, offset: int) -> None:
        self._put_elements(record, t, offset, there=False)

    def _op_assign_set(self, record: dict[str, Any], t: int, offset: int) -> None:
        self._set(record).assign((t, self.journal.uid, 0))
        self._put_elements(record, t, offset, there=True)

    def _op_file(self, record: dict[str, Any], t: int, offset: int) -> None:
        file, token = _file(record["file"]), record.get("token")
        state = self.run.family(record["path"], "file")
        assert isinstance(state, FileState)  # noqa: S101
        state.upload((t, self.journal.uid, 0), file, None if token is None else _text(token))

    def _op_digest(self, record: dict[str, Any], t: int, offset: int) -> None:
        file, token = _file(record["file"]), _text(record["token"])
        state = self.run.family(record["path"], "file")
        assert isinstance(state, FileState)  # noqa: S101
        state.digest((t, self.journal.uid, 0), token, file)

    def _op_files(self, record: dict[str, Any], t: int, offset: int) -> None:
        def put(member: tuple[str, Any], key: Key) -> None:
            file = _file(member[1])
            self._members(record).put(key, member[0], file)

        self._each(record["members"].items(), t, offset, put)

    def _op_unfiles(self, record: dict[str, Any], t: int, offset: int) -> None:
        def put(name: Any, key: Key) -> None:
            self._members(record).put(key, _text(name), None)

        self._each(_list(record["names"]), t, offset, put)

    def _members(self, record: dict[str, Any]) -> FileSetState:
        state = self.run.family(record["path"], "file_set")
        assert isinstance(state, FileSetState)  # noqa: S101
        return state

    def _op_artifact(self, record: dict[str, Any], t: int, offset: int) -> None:
        state = self.run.family(record["path"], "artifact")
        assert isinstance(state, RecordState)  # noqa: S101
        kept = {key: value for key, value in record.items() if key not in ("op", "path")}
        state.assign((t, self.journal.uid, 0), kept)

    def _op_file_point(self, record: dict[str, Any], t: int, offset: int) -> None:
        file, step = _file(record["file"]), _step(record["step"])
        self._add_point(record["path"], "file_series", (t, self.journal.uid, 0), offset, step, file)

    def _op_state(self, record: dict[str, Any], t: int, offset: int) -> None:
        if record["state"] not in _STATES:
            msg = f"unknown state {record['state']!r:.60}"
            raise ValueError(msg)
        key = (t, self.journal.uid, 0)
        if self.journal.owner and key > self.run.state[0]:
            self.run.state = (key, {name: value for name, value in record.items() if name != "op"})

    # ------------------------------------------------------------------ points

    def _texts(self, frame: RawFrame, payload: bytes) -> None:
        record = decode_json(payload)
        if b"\\u" in payload:
            record = _legible(record)
        self._points(record, "string_series", frame, _text_value)

    def _histograms(self, frame: RawFrame, payload: bytes) -> None:
        self._points(decode_json(payload), "histogram_series", frame, _histogram_value)

    def _points(
        self,
        record: dict[str, Any],
        family: str,
        frame: RawFrame,
        value: Callable[[list[Any]], Any],
    ) -> None:
        path, offset = record["path"], self.base + frame[0]

        def put(point: list[Any], key: Key) -> None:
            self._add_point(path, family, key, offset, _step(point[0]), value(point))

        self._each(_list(record["points"]), frame[4], offset, put)

    def _add_point(
        self, path: Any, family: str, key: Key, offset: int, step: float, value: Any
    ) -> None:
        state = self.run.series(path, family, key)
        self.journal.point_end = max(self.journal.point_end, offset)
        if offset < self.run.cut(self.journal) and key > self.run.emptied(path):
            state.put(key, step, value)

    def _sparse(self, frame: RawFrame, payload: bytes) -> None:
        pos, _, flags, _, t, _ = frame
        step, paths, values = _unpack_sparse(payload, flags)
        if not math.isfinite(step):
            msg = f"step {step} is not finite"
            raise ValueError(msg)
        for index, (number, value) in enumerate(zip(paths, values, strict=True)):
            path = self.journal.paths.get(number)
            if path is None:
                self.journal.note(self.base + pos, f"sparse row: path {number} was lost")
            else:
                self.loose.setdefault(path, []).append((pos, t, index, step, value))

    def _column(self, frame: RawFrame, payload: bytes) -> None:
        pos, _, flags, _, t, _ = frame
        number, steps, values = _unpack_column(payload, flags)
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


def record_points(
    kind: int, payload: bytes, path: str
) -> Iterator[tuple[int, float, Any, int | None]]:
    """Yield index, step, value and the caller's time (ns) of one series' points in one record.

    Points that the fold refused are passed over; the value of a file point is its file, name and
    description.

    Args:
        kind: TEXT, HISTOGRAM or OP.
        payload: Of the frame.
        path: Of the series.
    """
    try:
        record = decode_json(payload)
        if b"\\u" in payload:
            record = _legible(record)
        if record.get("path") != path:
            return
        if kind == Kind.OP:
            if record.get("op") == "file_point":
                extra = {name: record.get(name) for name in ("name", "description")}
                yield (
                    0,
                    _step(record["step"]),
                    {"file": _file(record["file"]), **extra},
                    record.get("time"),
                )
            return
        points, place = _list(record["points"]), 2 if kind == Kind.TEXT else 3
    except (ValueError, TypeError, KeyError, AttributeError):
        return
    value = _text_value if kind == Kind.TEXT else _histogram_value
    for index, point in enumerate(points):
        try:
            time = point[place] if len(point) > place else None
            yield index, _step(point[0]), value(point), time if isinstance(time, int) else None
        except (ValueError, TypeError, KeyError, IndexError):
            continue


def _text_value(point: list[Any]) -> str | dict[str, Any]:
    """Return a text, or the record of the blob that holds a very long one."""
    return point[1] if isinstance(point[1], dict) else _text(point[1])


def _histogram_value(point: list[Any]) -> list[list[float]]:
    edges, counts = [float(edge) for edge in point[1]], [float(count) for count in point[2]]
    if len(edges) != len(counts) + 1:
        msg = f"histogram: expected one edge more than counts, got {len(edges)} and {len(counts)}"
        raise ValueError(msg)
    return [edges, counts]


def _unpack_sparse(payload: bytes, flags: int) -> tuple[float, tuple[int, ...], tuple[float, ...]]:
    (step,) = struct.unpack_from("<d", payload)
    start = 16 if flags & USER_TIME else 8
    (size,) = struct.unpack_from("<I", payload, start)
    values = start + 8 + ((4 * size + 7) & ~7)
    if values + 8 * size != len(payload):
        msg = f"sparse row: expected {values + 8 * size} bytes, got {len(payload)}"
        raise ValueError(msg)
    return (
        step,
        struct.unpack_from(f"<{size}I", payload, start + 8),
        struct.unpack_from(f"<{size}d", payload, values),
    )


def _unpack_column(payload: bytes, flags: int) -> tuple[int, Sequence[float], Sequence[float]]:
    number, size = struct.unpack_from("<II", payload)
    wanted = 8 + size * (24 if flags & USER_TIME else 16)
    if wanted != len(payload):
        msg = f"column: expected {wanted} bytes, got {len(payload)}"
        raise ValueError(msg)
    steps = struct.unpack_from(f"<{size}d", payload, 8)
    return number, steps, struct.unpack_from(f"<{size}d", payload, 8 + 8 * size)


def _legible(value: Any) -> Any:
    """Return JSON with NUL and lone surrogates, which no database takes, as visible escapes."""
    if isinstance(value, str):
        return _UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", value)
    if isinstance(value, list):
        return [_legible(item) for item in value]
    if isinstance(value, dict):
        return {_legible(name): _legible(item) for name, item in value.items()}
    return value


def _atom(kind: str, value: Any) -> Any:
    """Return the value of an atom that JSON could not write as it is."""
    if kind == "float" and (value in ("nan", "inf", "-inf") or type(value) is int):
        return float(value)
    if kind == "int" and isinstance(value, str):  # longer than JSON readers take
        return int(value, 16)
    msg = f"expected a value of type {kind}, got {value!r:.60}"
    raise TypeError(msg)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        msg = f"expected a string, got {value!r:.60}"
        raise TypeError(msg)
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        msg = f"expected a list, got {value!r:.60}"
        raise TypeError(msg)
    return value


def _file(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        msg = f"file: expected an object, got {value!r:.60}"
        raise TypeError(msg)
    return value


def _step(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        msg = f"step: expected a finite number, got {value!r:.60}"
        raise ValueError(msg)
    return float(value)


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
}
