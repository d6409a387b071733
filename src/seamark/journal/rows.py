"""Encoding of numbers as frames: families, path numbers, schemas and steps of series.

A set of keys gets a schema when it is written for the second time; each of its rows is then one
short frame. A journal has at most `MAX_SCHEMAS` schemas. All other rows are sparse rows of numbered
paths. Otherwise, varying sets of keys would cost 33 bytes per point and unlimited memory.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol

from seamark.errors import FamilyError
from seamark.journal.format import FRAME_HEAD, MARK, USER_TIME, Kind
from seamark.paths import is_inside

_FAMILY_WORDS = {"atom": "a single value", "artifact": "an artifact"}
"""Names of families in messages; for other families, the article "a" and the family's name."""


class Families(dict[str, str]):
    """Families by path, of this process's values and of values already in the run.

    Paths below a namespace in ``reserved`` accept only its family, unless they have another one.
    """

    def __init__(self, reserved: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._reserved = dict(reserved or {})

    def claim(self, path: str, family: str) -> None:
        """Assign ``path`` to ``family``; FamilyError if it has, or is reserved for, another one."""
        if path not in self:
            self._expect_free(path, family)
        held = self.setdefault(path, family)
        if held != family:
            raise FamilyError(
                f"path {path!r} holds {spoken(held)} and cannot take {spoken(family)}; "
                f"use another path, or free this one with `del run[{path!r}]`"
            )

    def expect(self, families: Mapping[str, str]) -> None:
        """Check, as `claim` does, that each path accepts its family, without claiming any."""
        for path, family in families.items():
            held = self.get(path)
            if held is None:
                self._expect_free(path, family)
            elif held != family:
                self.claim(path, family)  # raises an error that names both families

    def _expect_free(self, path: str, family: str) -> None:
        for space, only in self._reserved.items():
            if family != only and path != space and is_inside(path, space):
                raise FamilyError(
                    f"path {path!r} is below {space + '/'!r}, where only {spoken(only)} can be, "
                    f"and cannot take {spoken(family)}; use another path"
                )

    def forget(self, namespace: str) -> None:
        """Remove the families of a path and of all paths below it."""
        for path in [path for path in self if is_inside(path, namespace)]:
            del self[path]


def spoken(family: str) -> str:
    """Return the name of a family in messages, such as ``a single value`` or ``a float series``."""
    return _FAMILY_WORDS.get(family) or f"a {family.replace('_', ' ')}"


MAX_SCHEMAS: Final = 256
_MAX_SEEN_KEY_SETS: Final = 4096


class FrameMaker(Protocol):
    """Function that makes one frame for the open journal, at the next tick of its clock."""

    def __call__(self, kind: int, payload: bytes, *, flags: int = 0, aux: int = 0) -> bytes:
        """Return the complete frame."""


class Series:
    """Last step of one series."""

    __slots__ = ("last_step", "last_t", "schemas")

    def __init__(self) -> None:
        self.last_t = -1
        self.last_step: float = -1
        self.schemas: list[Schema] = []

    def settle(self) -> None:
        """Update the last step from the schemas that contain the series."""
        for schema in self.schemas:
            if schema.last_t > self.last_t:
                self.last_t, self.last_step = schema.last_t, schema.last_step


class Schema:
    """Numbered set of keys in the open journal, and the data that its rows share.

    A row is ``join(crc32(row, salt), head, row)`` with ``row = pack(t, step, *values)``. The schema
    is ``live`` until the writer leaves the journal, and ``plain`` until a row contains anything
    except Python's built-in numbers.
    """

    __slots__ = (
        "_salt",
        "_timed",
        "head",
        "join",
        "last_step",
        "last_t",
        "live",
        "number",
        "pack",
        "paths",
        "plain",
        "salt",
        "series",
    )

    def __init__(
        self, number: int, paths: tuple[str, ...], series: Sequence[Series], salt: int
    ) -> None:
        self.number = number
        self.paths = paths
        self.series = series
        length = 8 + 8 * len(paths)
        self.head = FRAME_HEAD.pack(length, Kind.ROW, 0, MARK, number)
        self.salt = zlib.crc32(self.head, salt)
        self.pack = struct.Struct(f"<qd{len(paths)}d").pack
        self.join = struct.Struct(f"<I{len(self.head)}s{8 + length}s").pack
        self.live = self.plain = True
        self.last_t = -1
        self.last_step: float = -1
        self._salt = salt
        self._timed: tuple[bytes, int, Callable[..., bytes], Callable[..., bytes]] | None = None

    def timed(self, t: int, step: float, time_ns: int, values: Iterable[float]) -> bytes:
        """Return the frame of a row with a time given by the caller; times are in ns."""
        if self._timed is None:
            length = 16 + 8 * len(self.paths)
            head = FRAME_HEAD.pack(length, Kind.ROW, USER_TIME, MARK, self.number)
            pack = struct.Struct(f"<qdq{len(self.paths)}d").pack
            join = struct.Struct(f"<I{len(head)}s{8 + length}s").pack
            self._timed = head, zlib.crc32(head, self._salt), pack, join
        head, salt, pack, join = self._timed
        row = pack(t, step, time_ns, *values)
        return join(zlib.crc32(row, salt), head, row)


class RowTable:
    """Series, path numbers and schemas of one writer, which holds its lock around all calls.

    ``schemas``, by key set, are read by the fast path of `JournalWriter.append_row`. ``salt`` is
    the start value of CRCs in the open journal.
    """

    def __init__(self, frame: FrameMaker) -> None:
        self.frame = frame
        self.salt = 0
        self.schemas: dict[tuple[str, ...], Schema] = {}
        self.series: dict[str, Series] = {}
        self.numbers: dict[str, int] = {}
        self.schema_numbers: dict[tuple[str, ...], int] = {}
        self._next_number = 0
        self._next_schema = 1
        self._seen: dict[int, None] = {}

    def of(self, path: str) -> Series:
        """Return the series at a path; create it if it is new."""
        return self.series.get(path) or self.series.setdefault(path, Series())

    @staticmethod
    def after(series: Iterable[Series]) -> float:
        """Return the largest last step plus 1; 0 if no series has a point."""
        steps = []
        for one in series:
            one.settle()
            if one.last_t >= 0:
                steps.append(one.last_step)
        return max(steps) + 1 if steps else 0

    def name(self, paths: tuple[str, ...]) -> tuple[dict[str, int], list[int]]:
        """Return new numbers by path, and all numbers; none is reused, even if the write fails."""
        new, numbers = {}, []
        for path in paths:
            number = self.numbers.get(path)
            if number is None:
                number, self._next_number = self._next_number, self._next_number + 1
                new[path] = number
            numbers.append(number)
        return new, numbers

    def path_frames(self, new: Mapping[str, int]) -> list[bytes]:
        """Return the frames that assign numbers to paths."""
        return [
            self.frame(Kind.PATH, struct.pack("<I", number) + path.encode())
            for path, number in new.items()
        ]

    def new_schema(self) -> int | None:
        """Return an unused schema number of this journal; None if the limit is reached."""
        if self._next_schema > MAX_SCHEMAS:
            return None
        self._next_schema += 1
        return self._next_schema - 1

    def is_repeated(self, paths: tuple[str, ...]) -> bool:
        """Return whether a key set was seen before; a bounded number of hashes is stored."""
        key = hash(paths)
        if key in self._seen:
            return True
        if len(self._seen) >= _MAX_SEEN_KEY_SETS:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = None
        return False

    def forget(self, paths: Iterable[str]) -> None:
        """Remove the last steps of series that were deleted or cleared."""
        for path in paths:
            series = self.series.pop(path, None)
            for schema in list(series.schemas) if series else ():
                self._retire(schema)

    def retire_all(self) -> None:
        """Make the next row of every key set use the slow path."""
        for schema in list(self.schemas.values()):
            self._retire(schema)

    def _retire(self, schema: Schema) -> None:
        schema.live = False
        self.schemas.pop(schema.paths, None)
        for one in schema.series:
            one.settle()
            if schema in one.schemas:
                one.schemas.remove(schema)

    def start_journal(self) -> None:
        """Restart the numbering for a new journal."""
        self.retire_all()
        self.numbers.clear()
        self.schema_numbers.clear()
        self._next_number, self._next_schema = 0, 1


class _Points:
    """Points to write; ``last_step`` is that of the last one, for each of their series.

    `frames` is called for each journal tried, `mark_queued` if none accepts them. ``count`` is the
    number of values, and ``size`` their approximate memory in bytes.
    """

    def __init__(
        self, table: RowTable, series: Sequence[Series], last_step: float, count: int, size: int
    ) -> None:
        self._table, self._series, self._last_step = table, series, last_step
        self.count, self.size = count, size
        self._new: dict[str, int] = {}
        self._frames = 0
        self._waited = self.done = False

    def mark_written(self, whole: int, t: int) -> None:
        """Store the numbers that are now in the journal, and the last step if the points are.

        The step of points that waited is not stored: since then, later points may have been made or
        the series deleted.
        """
        self._table.numbers.update(islice(self._new.items(), whole))  # PATH frames come first
        self.done = whole == self._frames
        if self.done and not self._waited:
            self._remember(t)

    def mark_queued(self, t: int) -> None:
        """Store the last step, after which the next point is numbered; ``t`` is a time in ns."""
        self._waited = True
        self._remember(t)

    def _remember(self, t: int) -> None:
        for one in self._series:
            one.last_t, one.last_step = t, self._last_step


class Row(_Points):
    """Values of several series at one step, one for each."""

    def __init__(
        self, table: RowTable, values: Mapping[str, float], step: float | None, time_ns: int | None
    ) -> None:
        self._paths = tuple(values)
        series = [table.of(path) for path in self._paths]
        step = table.after(series) if step is None else step
        self._flags = 0 if time_ns is None else USER_TIME
        own_time = b"" if time_ns is None else struct.pack("<q", time_ns)
        self._head = struct.pack("<d", step) + own_time
        count = len(self._paths)
        self._values = struct.pack(f"<{count}d", *values.values())
        self._is_repeated = table.is_repeated(self._paths)
        self._schema: int | None = None
        # values, paths, and one or two references for each
        size = len(self._head) + 3 * len(self._values) + sum(map(len, self._paths))
        super().__init__(table, series, step, count, size)

    def frames(self) -> list[bytes]:
        """Return the row's frame, after the frames that define its new paths and schema."""
        table, paths, count = self._table, self._paths, self.count
        self._new, numbers = table.name(paths)
        frames = table.path_frames(self._new)
        self._schema = table.schema_numbers.get(paths)
        if self._schema is None and self._is_repeated and (new := table.new_schema()):
            frames.append(table.frame(Kind.SCHEMA, struct.pack(f"<I{count}I", new, *numbers)))
            self._schema = new
        if self._schema is not None:
            payload = self._head + self._values
            frames.append(table.frame(Kind.ROW, payload, flags=self._flags, aux=self._schema))
        else:
            head = self._head + struct.pack(f"<II{count}I", count, 0, *numbers)
            payload = head + bytes(-len(head) % 8) + self._values
            frames.append(table.frame(Kind.SPARSE, payload, flags=self._flags))
        self._frames = len(frames)
        return frames

    def mark_written(self, whole: int, t: int) -> None:
        """Also store the schema that is now in the journal; later rows use it."""
        super().mark_written(whole, t)
        table, paths = self._table, self._paths
        if self._schema is None or whole <= len(self._new):
            return
        table.schema_numbers[paths] = self._schema
        if self.done and not self._waited and paths not in table.schemas:
            schema = table.schemas[paths] = Schema(self._schema, paths, self._series, table.salt)
            for one in self._series:
                one.schemas.append(schema)


class Column(_Points):
    """Many points of one series."""

    def __init__(
        self,
        table: RowTable,
        path: str,
        values: Sequence[float],
        steps: Sequence[float] | None,
        times_ns: Sequence[int] | None,
    ) -> None:
        self._path = path
        series, count = table.of(path), len(values)
        if steps is None:
            first = table.after([series])
            steps = [first + index for index in range(count)]
        self._flags = 0 if times_ns is None else USER_TIME
        self._data = struct.pack("<I", count) + _pack_numbers("d", steps)
        self._data += _pack_numbers("d", values)
        if times_ns is not None:
            self._data += _pack_numbers("q", times_ns)
        super().__init__(table, [series], float(steps[-1]), count, len(self._data))

    def frames(self) -> list[bytes]:
        """Return the column's frame, after the frame that defines its path if it is new."""
        self._new, (number,) = self._table.name((self._path,))
        payload = struct.pack("<I", number) + self._data
        frame = self._table.frame
        self._frames = 1 + len(self._new)
        return [*self._table.path_frames(self._new), frame(Kind.COLUMN, payload, flags=self._flags)]


def _pack_numbers(code: str, numbers: Sequence[float]) -> bytes:
    astype: Callable[[str], object] | None = getattr(numbers, "astype", None)
    if astype is not None:  # a NumPy array: converted without Python objects
        return memoryview(astype("<f8" if code == "d" else "<i8")).tobytes()  # type: ignore[arg-type]
    packed = array(code, numbers)
    if struct.pack("=H", 1) != struct.pack("<H", 1):  # pragma: no cover - big-endian hosts
        packed.byteswap()
    return packed.tobytes()
