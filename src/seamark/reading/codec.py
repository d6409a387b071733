"""Responses to reads, and their encoding as MessagePack.

Arrays are little-endian bytes. Values of attributes that MessagePack cannot represent are
extensions of type 1 with the content ``[name, content]``, again in MessagePack. The receiver
validates everything; neither side trusts the other.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.msgpack import Encoder, Ext

from seamark.errors import SeamarkError
from seamark.process.liveness import Crash
from seamark.reading.attributes import Attribute, JournalInfo, SeriesSummary, SeriesTail
from seamark.reading.curves import Curve, RunCurve
from seamark.reading.groups import GroupCurve, RunGroup
from seamark.reading.points import HistogramPoint, Points
from seamark.reading.ranks import RankStatus
from seamark.reading.reader import Answer
from seamark.reading.tables import RunsTable, StringList
from seamark.values.aggregates import Keep, Last, Ring
from seamark.values.arrays import Floats, Ints
from seamark.values.statistics import Statistics


@dataclass(frozen=True, slots=True)
class Overview:
    """State and problems of a run; see `seamark.reading.reader.Reader`.

    ``failed`` is whether a process that represented the run recorded a failure.
    """

    project: str
    run: str
    name: str
    state: str
    reason: str
    signal: str
    traceback: str | None
    failed: bool
    crash: Crash | None
    troubles: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything known about a run at one moment, except its points."""

    overview: Overview
    ranks: list[RankStatus]
    journals: list[JournalInfo]
    attributes: list[Attribute]


@dataclass(frozen=True, slots=True)
class ProjectCounts:
    """Numbers of runs of a project; ``runs`` does not count those in the trash."""

    project: str
    runs: int
    running: int
    crashed: int
    trashed: int
    last_record_ns: int | None
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """Table of runs, at most 1,000 of their names, and the cursor for later changes."""

    table: RunsTable
    names: list[str]
    cursor: str


@dataclass(frozen=True, slots=True)
class SeriesPart:
    """Points or curve of a float series, or a part of one too long for one response.

    ``begins`` marks the first part. A further first part invalidates the parts before it: points
    already read have been hidden since, for example by a new attempt.
    """

    project: str
    run: str
    path: str
    begins: bool = True
    points: Points | None = None
    curve: Curve | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """Project, run id and path."""
        return self.project, self.run, self.path

    def __len__(self) -> int:
        series = self.points if self.curve is None else self.curve
        return 0 if series is None else len(series)


@dataclass(frozen=True, slots=True)
class Curves:
    """Drawings of series of several runs, and the cursor for later changes."""

    curves: list[RunCurve]
    cursor: str


@dataclass(frozen=True, slots=True)
class Attempts:
    """Numbers of attempts of runs, and the start of each attempt.

    Attributes:
        attempts: Project, run id and number of attempts of runs with several attempts.
        openings: Project, run id and number of times the run was opened for recording.
        begins: Project, run id, path, and (attempt, step, time in ns, x) at the start of attempts.
    """

    attempts: list[tuple[str, str, int]]
    openings: list[tuple[str, str, int]]
    begins: Sequence[tuple[str, str, str, Sequence[tuple[int, float, int, float | None]]]]


_OBJECT: Final = 1
_MIN_INT: Final = -(1 << 63)
_MAX_INT: Final = (1 << 64) - 1
_MAX_DEPTH: Final = 128
_TRUNCATED: Final = "..."
_UNTYPED_FIELDS: Final[dict[type, str]] = {Attribute: "value", RunGroup: "by", GroupCurve: "by"}
"""Classes with a field whose type does not determine its encoding."""
_PLAIN: Final = (SeriesSummary, SeriesTail, HistogramPoint)
_UNCHANGED_TYPES: Final = {str, float, bool, type(None)}
_AGGREGATES: Final = (Statistics, Last, Ring)
_DTYPES: Final[dict[Any, str]] = {Floats: "<f8", Ints: "<i8"}


class WireError(SeamarkError, ValueError):
    """Error for received bytes that are not a valid response; the message names the position."""


# ---------------------------------------------------------------------- encoding


def pack(value: Any) -> bytes:
    """Encode a value as MessagePack; raise `WireError` for unsupported types.

    Levels below the 128th become ``"..."``; lone surrogates become question marks.
    """
    made = _prepare(value)
    try:
        return _encoder.encode(made)
    except (UnicodeEncodeError, OverflowError):
        plain = msgspec.to_builtins(made, enc_hook=_encode_object, builtin_types=(bytes, Ext))
        return _encoder.encode(_without_surrogates(plain))


def _prepare(value: Any) -> Any:
    kind = type(value)
    if kind is list:
        return list(map(_prepare, value)) if value and is_dataclass(value[0]) else value
    if kind is Answer:
        # A single histogram is the last point of a series, which is not declared in the type.
        found = value.answer
        made = _encodable(found, 0) if type(found) is HistogramPoint else _prepare(found)
        return msgspec.structs.replace(value, answer=made)
    if (name := _UNTYPED_FIELDS.get(kind)) is not None:
        return replace(value, **{name: _encodable(getattr(value, name), 0)})
    if kind.__module__ == "seamark.reading.codec":
        return replace(
            value, **{one.name: _prepare(getattr(value, one.name)) for one in fields(value)}
        )
    return value


def _encodable(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in _UNCHANGED_TYPES:
        return value
    if kind is int:
        return value if _MIN_INT <= value <= _MAX_INT else _box("int", hex(value))
    if depth > _MAX_DEPTH:
        return _TRUNCATED
    if kind is list:
        return [_encodable(one, depth + 1) for one in value]
    if kind is dict:
        return {str(key): _encodable(one, depth + 1) for key, one in value.items()}
    return _encodable_object(value, kind, depth)


def _encodable_object(value: Any, kind: type, depth: int) -> Any:
    if kind in _PLAIN:
        return _box(
            kind.__name__,
            {one.name: _encodable(getattr(value, one.name), depth + 1) for one in fields(value)},
        )
    if isinstance(value, str):  # an Escaped
        return str.__str__(value)
    if isinstance(value, datetime):
        return _box("datetime", value.isoformat())
    if isinstance(value, set | frozenset):
        return _box("set", sorted(value))
    if kind in (StringList, tuple):
        return _box(kind.__name__, [_encodable(one, depth + 1) for one in value])
    if isinstance(value, Keep):
        return _box(kind.__name__, value.state_dict())
    raise WireError(f"cannot encode a value of type {kind.__qualname__}")


def _encodable_column(values: list[Any]) -> list[Any]:
    """Return the encodable cells of a column, unchanged if MessagePack supports all of them."""
    kinds = set(map(type, values))
    if int in kinds:
        ints = [one for one in values if type(one) is int]
        if min(ints) >= _MIN_INT and max(ints) <= _MAX_INT:
            kinds.discard(int)
    return values if kinds <= _UNCHANGED_TYPES else [_encodable(one, 0) for one in values]


def _box(name: str, content: Any) -> Ext:
    return Ext(_OBJECT, pack([name, content]))


def _encode_object(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, RunsTable):
        return _Table.of(value)
    dtype = "<f8" if getattr(getattr(value, "dtype", None), "kind", "") == "f" else "<i8"
    if type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
        return value.astype(dtype, copy=False).tobytes()
    raise WireError(f"cannot encode a value of type {type(value).__qualname__}")


_encoder: Final = Encoder(enc_hook=_encode_object)


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int):
        return _encodable(value, 0)
    if isinstance(value, list | tuple):
        return list(map(_without_surrogates, value))
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(one) for key, one in value.items()}
    return value


# ---------------------------------------------------------------------- decoding


def unpack(data: bytes, kind: Any) -> Any:
    """Decode a value encoded by `pack`, ignoring unknown fields; raises `WireError`."""
    try:
        return _decoder(kind).decode(data)
    except RecursionError:
        raise WireError("the answer is nested too deeply") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise WireError(f"unexpected answer: {error!s:.300}") from error


@functools.lru_cache(256)
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind, dec_hook=_decode_object, ext_hook=_decode_extension)


def _decode_object(kind: type, given: Any) -> Any:
    import numpy as np

    if (dtype := _DTYPES.get(kind)) is not None:
        if not isinstance(given, bytes):
            raise ValueError(f"Expected `bytes`, got `{type(given).__name__}`")
        return np.frombuffer(given, dtype).astype(dtype[1:])
    if kind is RunsTable:
        return _convert(given, _Table).table()
    raise NotImplementedError(kind)


def _convert(given: Any, kind: Any) -> Any:
    return msgspec.convert(given, kind, dec_hook=_decode_object)


def _decode_extension(code: int, data: memoryview) -> Any:
    if code != _OBJECT:
        raise ValueError(f"Expected an extension of type {_OBJECT}, got {code}")
    name, content = _decoder(tuple[str, Any]).decode(data)
    if (make := _OBJECTS.get(name)) is None:
        raise ValueError(f"Expected a known kind of value, got {name!r:.80}")
    return make(content)


_OBJECTS: Final = {
    "int": lambda content: int(_convert(content, str), 16),
    "datetime": lambda content: datetime.fromisoformat(_convert(content, str)),
    "set": lambda content: set(_convert(content, list[str])),
    "StringList": lambda content: StringList(_convert(content, list[str])),
    "tuple": lambda content: tuple(_convert(content, list[Any])),
    **{kind.__name__: functools.partial(_convert, kind=kind) for kind in _PLAIN},
    **{kind.__name__: kind.from_dict for kind in _AGGREGATES},
}


class _Table(msgspec.Struct):
    columns: list[str]
    cells: list[list[Any]]
    refs: list[tuple[str, str]]
    total: int | None
    offset: int

    @classmethod
    def of(cls, table: RunsTable) -> _Table:
        cells = [_encodable_column(table[column]) for column in table.columns]
        return cls(table.columns, cells, table.refs, table.known_total, table.offset)

    def table(self) -> RunsTable:
        rows = len(self.refs)
        if len(self.cells) != len(set(self.columns)) or any(len(one) != rows for one in self.cells):
            raise ValueError("Expected as many cells as there are columns and runs")
        cells = dict(zip(self.columns, self.cells, strict=True))
        return RunsTable(cells, self.refs, self.total, self.offset)
