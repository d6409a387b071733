"""JSON encoding of what reads return, shared by server and client.

The receiver checks everything it decodes: neither side trusts the other.

Texts, booleans, None, finite floats and ints below 2**53 are what they are in JSON (a float has a
point or an exponent). Everything else is an object with the key ``$``, which says what it is:

- ``{"$": "float", "v": "nan"}``, ``"inf"``, ``"-inf"``; ``{"$": "int", "v": "-0x2386f26fc10000"}``;
- ``{"$": "datetime", "v": "2026-01-31T12:00:00+00:00"}``, ISO 8601;
- ``{"$": "set", "v": [...]}`` and ``{"$": "strings", "v": [...]}``: a set of texts, also as a table
  shows it; ``{"$": "tuple", "v": [...]}``;
- ``{"$": "dict", "v": {...}}``: an object that has a key ``$`` of its own;
- ``{"$": "f8", "v": "<base64>"}`` and ``"i8"``: arrays of little-endian float64 and int64. In place
  of the base64 there may be a list of numbers, in which ``"nan"``, ``"inf"`` and ``"-inf"`` stand
  for what JSON cannot write;
- the name of a class that reads return, beside its fields: ``{"$": "Attribute", "path": ...}``;
- ``{"$": "rows", "of": "RunName", "v": {"project": [...], "created_ns": {"$": "i8", ...}, ...}}``:
  a long list of one class, field by field.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from seamark.errors import ArgumentError, SeamarkError
from seamark.process.crashes import Crash
from seamark.reading.attributes import Attribute, JournalInfo, SeriesSummary, SeriesTail
from seamark.reading.catalog import RunField
from seamark.reading.changes import ChangedRun
from seamark.reading.curves import Curve, Drawing, RunCurve
from seamark.reading.drawn import GroupCurve
from seamark.reading.groups import RunGroup, Spread
from seamark.reading.names import RunName
from seamark.reading.points import FilePoint, HistogramPoint, Points, TextPage, TextPoint
from seamark.reading.ranks import RankStatus
from seamark.reading.stragglers import RankTiming
from seamark.reading.tables import CurveTable, RunsTable, SeriesTable, StringList
from seamark.values.keeping import Last, Ring
from seamark.values.statistics import Statistics

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Rows", "WireError", "decode", "decode_list", "dumps", "encode", "loads"]

T = TypeVar("T")
Place = tuple[Any, ...]
"""Where in an answer something is: the place of what it is in, and its key, number or class there.
Words are made of it for an error only."""
Take = Callable[[Any, Place], Any]
"""Checks what was decoded and returns it as it belongs there; given with its place."""

_TAG: Final = "$"
_VALUE: Final = "v"
_OF: Final = "of"
_EXACT: Final = 1 << 53
_LONG: Final = 1 << 63
_MAX_DEPTH: Final = 128
_ROWS: Final = "rows"
_TOO_DEEP: Final = "..."
_ODD: Final = ("nan", "inf", "-inf")
_PLAIN: Final = frozenset({str, bool, type(None)})
_NUMBERS: Final = frozenset({int, float})
_SIMPLE: Final = _PLAIN | _NUMBERS
_ITEM_BYTES: Final = 8


class WireError(SeamarkError, ValueError):
    """Error for received JSON that does not encode what reads return; the message says where."""


class Rows(NamedTuple):
    """Many values of one class, which go over the wire field by field and arrive as a list.

    Attributes:
        kind: The class.
        values: What goes over the wire.
    """

    kind: type
    values: Sequence[Any]


# ---------------------------------------------------------------------- out


def dumps(value: Any, *, plain_arrays: bool = False) -> bytes:
    """Return a value as the bytes of its JSON; see `encode`."""
    return _json(encode(value, plain_arrays=plain_arrays))


def _json(made: Any) -> bytes:
    """Return what JSON can hold as JSON: by orjson where that is, which takes a tenth of the time.

    What orjson refuses (half of a surrogate pair, more than 254 levels) the other writes, in ASCII.
    """
    try:
        import orjson
    except ImportError:
        pass
    else:
        try:
            return orjson.dumps(made)
        except TypeError:
            pass
    return json.dumps(made, separators=(",", ":"), allow_nan=False).encode("ascii")


def encode(value: Any, *, plain_arrays: bool = False) -> Any:
    """Return a value as what JSON can hold.

    What is nested deeper than 128 levels, as nothing is that Seamark records, becomes ``"..."``.

    Args:
        value: Of this module's classes, or what values of attributes are made of.
        plain_arrays: Arrays are lists of numbers, which people can read, instead of base64.

    Raises:
        WireError: If something in it has no form here.
    """
    return _Encoder(plain_arrays=plain_arrays).value(value, 0)


class _Encoder:
    def __init__(self, *, plain_arrays: bool) -> None:
        self._plain_arrays = plain_arrays

    def value(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is float:
            return value if value - value == 0 else {_TAG: "float", _VALUE: str(value)}
        if kind is int:
            return value if -_EXACT < value < _EXACT else {_TAG: "int", _VALUE: hex(value)}
        if depth > _MAX_DEPTH:
            return _TOO_DEEP
        if kind is list:
            return self.list(value, depth)
        if kind is dict:
            made = {str(key): self.value(each, depth + 1) for key, each in value.items()}
            return {_TAG: "dict", _VALUE: made} if _TAG in made else made
        if (fields := _CLASSES.get(kind.__name__)) is not None and kind is fields.kind:
            return self._fields(value, fields, depth)
        return self._special(value, depth)

    def list(self, values: list[Any], depth: int) -> list[Any]:
        """Return a list; one of single values, as columns of tables are, at once."""
        return values if _is_simple(values) else [self.value(one, depth + 1) for one in values]

    def _fields(self, value: Any, fields: _Class, depth: int) -> dict[str, Any]:
        found = fields.parts(value)
        return {_TAG: fields.kind.__name__} | {
            name: self.value(one, depth + 1) for name, one in found.items()
        }

    def _special(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):  # an Escaped
            return str.__str__(value)
        if isinstance(value, datetime):
            return {_TAG: "datetime", _VALUE: value.isoformat()}
        if isinstance(value, set | frozenset):
            return {_TAG: "set", _VALUE: sorted(value)}
        if isinstance(value, StringList):
            return {_TAG: "strings", _VALUE: list(value)}
        if isinstance(value, Rows):
            return self._rows(value, depth)
        if isinstance(value, tuple):
            return {_TAG: "tuple", _VALUE: self.list(list(value), depth)}
        if type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
            return self._array(value)
        msg = f"{type(value).__qualname__} has no form on the wire"
        raise WireError(msg)

    def _rows(self, rows: Rows, depth: int) -> dict[str, Any]:
        import numpy as np

        found: dict[str, Any] = {}
        for name in _CLASSES[rows.kind.__name__].fields:
            column = [getattr(one, name) for one in rows.values]
            if set(map(type, column)) == {int} and min(column) >= -_LONG and max(column) < _LONG:
                found[name] = self._array(np.array(column, np.int64))
            else:
                found[name] = self.list(column, depth)
        return {_TAG: "rows", _OF: rows.kind.__name__, _VALUE: found}

    def _array(self, array: np.ndarray[Any, Any]) -> dict[str, Any]:
        name = "f8" if array.dtype.kind == "f" else "i8"
        if self._plain_arrays:
            values = array.tolist()
            if name == "f8":
                values = [one if one - one == 0 else str(one) for one in values]
            return {_TAG: name, _VALUE: values}
        packed = array.astype(f"<{name}", copy=False).tobytes()
        return {_TAG: name, _VALUE: base64.b64encode(packed).decode("ascii")}


def _is_simple(values: list[Any]) -> bool:
    """Return whether all of a list is in JSON what it is here."""
    kinds = set(map(type, values))
    if not kinds <= _SIMPLE:
        return False
    if not kinds & _NUMBERS:
        return True
    numbers = values
    if kinds & _PLAIN:
        # None, False, "" and zeros may go: what is looked for is none of them.
        numbers = list(filter(None, values))
        if str in kinds:
            numbers = [one for one in numbers if type(one) is not str]
    if float in kinds and not math.isfinite(_sum(numbers)):  # NaN and infinities stay in a sum
        return False
    return int not in kinds or (
        min(numbers, default=0) > -_EXACT and max(numbers, default=0) < _EXACT
    )


def _sum(numbers: list[Any]) -> float:
    try:
        return float(sum(numbers))
    except OverflowError:  # an int that is no float: to be looked at one by one
        return math.inf


# ---------------------------------------------------------------------- in


def loads(data: bytes | str) -> Any:
    """Return what `dumps` was given; lists of one class by `decode_list` of ``json.loads``.

    Raises:
        WireError: If it is not JSON, or not what reads return.
    """
    try:
        found = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        msg = f"the answer is not JSON that can be read: {error!s:.200}"
        raise WireError(msg) from error
    return decode(found)


def _no_constant(name: str) -> Any:
    msg = f"{name} is no JSON"
    raise ValueError(msg)


def decode(data: Any, kind: type[T] | None = None) -> Any:
    """Return the value that `encode` made this of.

    Args:
        data: As JSON was read.
        kind: What it has to be.

    Raises:
        WireError: If it is not what `encode` returns, or of another class.
    """
    try:
        found = _decoded(data, (), 0)
    except RecursionError as error:
        msg = "the answer is nested too deep"
        raise WireError(msg) from error
    if kind is not None and not isinstance(found, kind):
        raise _refused(where=(), wanted=kind.__name__, given=data)
    return found


def decode_list(data: Any, kind: type[T]) -> list[T]:
    """Return a list of values of one class; see `decode`.

    Raises:
        WireError: If it is none.
    """
    found: list[T] = _list_of(_instance(kind))(decode(data, list), ())
    return found


def _decoded(data: Any, where: Place, depth: int) -> Any:
    if type(data) in _SIMPLE:
        return data
    if depth > 4 * _MAX_DEPTH:
        raise _refused(where, "at most so many levels", data)
    if isinstance(data, list):
        if set(map(type, data)) <= _SIMPLE:
            return data
        return [_decoded(one, (where, at), depth + 1) for at, one in enumerate(data)]
    if not isinstance(data, dict):
        raise _refused(where, "JSON", data)
    name = data.get(_TAG)
    if name is None and _TAG not in data:
        return {key: _decoded(one, (where, key), depth + 1) for key, one in data.items()}
    if isinstance(name, str) and name in _SPECIAL:
        return _SPECIAL[name](data.get(_VALUE), where, depth)
    if name == _ROWS:
        return _rows(data, where, depth)
    if isinstance(name, str) and name in _CLASSES:
        found = {
            key: _decoded(one, (where, key), depth + 1) for key, one in data.items() if key != _TAG
        }
        return _CLASSES[name].made(found, (where, _CLASSES[name]))
    raise _refused(where, "a known kind of value", name)


def _rows(data: Mapping[str, Any], where: Place, depth: int) -> list[Any]:
    """Return a list of one class, whose columns are checked as its fields would be."""
    known = _CLASSES.get(name) if isinstance(name := data.get(_OF), str) else None
    if known is None:
        raise _refused(where, "rows of a known class", name)
    found = _decoded(_dict(data.get(_VALUE), where), where, depth)
    columns = []
    for name, take in known.fields.items():
        if name not in found:
            raise _refused((where, known), f"a field {name!r}", sorted(found))
        column, place = found[name], (where, name)
        if hasattr(column, "dtype"):
            column = column.tolist()
        columns.append(_list_of(take)(column, place))
    if len(set(map(len, columns))) > 1:
        raise _refused((where, known), "columns of one length", [len(one) for one in columns])
    names = list(known.fields)
    made = [
        known.make(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)
    ]
    if wrong := next((one for one in made if not known.holds(one)), None):
        raise _refused((where, known), "fields that belong together", wrong)
    return made


def _words(where: Place) -> str:
    """Return a place in words: ``table.columns[3]``."""
    words: list[str] = []
    while where:
        where, last = where
        if isinstance(last, int):
            words.append(f"[{last}]")
        elif isinstance(last, str):
            words.append(f".{last:.80}")
        else:
            words.append(f"({last.kind.__name__})")
    return "".join(reversed(words)).removeprefix(".")


def _refused(where: Place, wanted: str, given: Any) -> WireError:
    place = f" at {_words(where):.200}" if where else ""
    return WireError(f"the answer is not as agreed{place}: expected {wanted}, got {given!r:.80}")


def _special_float(value: Any, where: Place, _: int) -> float:
    if value not in _ODD:
        raise _refused(where, "nan, inf or -inf", value)
    return float(value)


def _special_int(value: Any, where: Place, _: int) -> int:
    try:
        return int(_str(value, where), 16)
    except ValueError:
        raise _refused(where, "a hexadecimal number", value) from None


def _special_datetime(value: Any, where: Place, _: int) -> datetime:
    try:
        return datetime.fromisoformat(_str(value, where))
    except ValueError:
        raise _refused(where, "a time in ISO 8601", value) from None


def _special_set(value: Any, where: Place, _: int) -> set[str]:
    return set(_strings(value, where))


def _special_strings(value: Any, where: Place, _: int) -> StringList:
    return StringList(_strings(value, where))


def _special_tuple(value: Any, where: Place, depth: int) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _refused(where, "a list", value)
    return tuple(_decoded(value, where, depth + 1))


def _special_dict(value: Any, where: Place, depth: int) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _refused(where, "an object", value)
    return {key: _decoded(one, (where, key), depth + 1) for key, one in value.items()}


def _array_of(name: str) -> Callable[[Any, Place, int], Any]:
    def array(value: Any, where: Place, _: int) -> Any:
        import numpy as np

        if isinstance(value, str):
            try:
                packed = base64.b64decode(value, validate=True)
            except (binascii.Error, ValueError):
                raise _refused(where, "base64", value) from None
            if len(packed) % _ITEM_BYTES:
                raise _refused(where, "whole numbers of 8 bytes", f"{len(packed)} bytes")
            return np.frombuffer(packed, f"<{name}").astype(name)
        if not isinstance(value, list):
            raise _refused(where, "base64 or a list", value)
        wanted = {int} if name == "i8" else {int, float}
        given = [float(one) if name == "f8" and one in _ODD else one for one in value]
        if not set(map(type, given)) <= wanted:
            raise _refused(where, "a list of numbers", value)
        try:
            return np.array(given, name)
        except (OverflowError, ValueError):
            raise _refused(where, "numbers of 8 bytes", value) from None

    return array


_SPECIAL: Final[dict[str, Callable[[Any, Place, int], Any]]] = {
    "float": _special_float,
    "int": _special_int,
    "datetime": _special_datetime,
    "set": _special_set,
    "strings": _special_strings,
    "tuple": _special_tuple,
    "dict": _special_dict,
    "f8": _array_of("f8"),
    "i8": _array_of("i8"),
}


# ---------------------------------------------------------------------- checks


def _instance(kind: type) -> Take:
    def take(value: Any, where: Place) -> Any:
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise _refused(where, kind.__name__, value)
        return value

    return take


_str, _int, _bool, _dict = (_instance(kind) for kind in (str, int, bool, dict))


def _any(value: Any, _: Place) -> Any:
    return value


def _number(value: Any, where: Place) -> float:
    if type(value) not in _NUMBERS:
        raise _refused(where, "a number", value)
    found: float = value
    return found


def _or_none(take: Take) -> Take:
    return lambda value, where: None if value is None else take(value, where)


def _list_of(take: Take) -> Take:
    def taken(value: Any, where: Place) -> list[Any]:
        if not isinstance(value, list):
            raise _refused(where, "a list", value)
        return [take(one, (where, at)) for at, one in enumerate(value)]

    return taken


def _tuple_of(*takes: Take) -> Take:
    def taken(value: Any, where: Place) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or len(value) != len(takes):
            raise _refused(where, f"{len(takes)} values", value)
        return tuple(take(one, where) for take, one in zip(takes, value, strict=True))

    return taken


def _dict_of(take: Take) -> Take:
    def taken(value: Any, where: Place) -> dict[str, Any]:
        found = _dict(value, where)
        return {key: take(one, (where, key)) for key, one in found.items()}

    return taken


def _text_or_file(value: Any, where: Place) -> Any:
    if not isinstance(value, str | dict):
        raise _refused(where, "a text or where it is kept", value)
    return value


_strings: Final = _list_of(_str)


def _array(name: str) -> Take:
    def taken(value: Any, where: Place) -> Any:
        if getattr(getattr(value, "dtype", None), "name", "") != name:
            raise _refused(where, f"an array of {name}", value)
        return value

    return taken


_floats, _ints = _array("float64"), _array("int64")


def _even(*names: str) -> Callable[[Any], bool]:
    """Return what tells whether some fields have the same length."""
    return lambda made: len({len(getattr(made, name)) for name in names}) == 1


def _has_its_parts(drawing: Any) -> bool:
    parts = len(drawing.curve)
    smooth = drawing.mean is None or len(drawing.mean) == parts
    return smooth and len(drawing.x) == parts and len(drawing.ends[0]) == len(drawing.ends[1])


# ---------------------------------------------------------------------- classes


class _Class(NamedTuple):
    """Encoding of one class on the wire.

    Attributes:
        kind: The class.
        fields: Function that checks each field, by the name of the field.
        parts: Function that returns the fields of an instance.
        make: Function that makes an instance of checked fields.
        holds: Function that tells whether the fields of an instance are consistent.
    """

    kind: type
    fields: Mapping[str, Take]
    parts: Callable[[Any], dict[str, Any]]
    make: Callable[..., Any]
    holds: Callable[[Any], bool] = lambda _: True

    def made(self, found: Mapping[str, Any], where: Place) -> Any:
        """Return one of decoded fields; further ones are of a newer version, and left out.

        Raises:
            WireError: If one is missing or wrong.
        """
        checked = {}
        for name, take in self.fields.items():
            if name not in found:
                raise _refused(where, f"a field {name!r}", sorted(found))
            checked[name] = take(found[name], (where, name))
        made = self.make(**checked)
        if not self.holds(made):
            raise _refused(where, "fields that belong together", made)
        return made


def _class(kind: type, holds: Callable[[Any], bool] = lambda _: True, /, **fields: Take) -> _Class:
    """Return how a class lies on the wire whose fields are its attributes and arguments."""

    def parts(value: Any) -> dict[str, Any]:
        return {name: getattr(value, name) for name in fields}

    return _Class(kind, fields, parts, kind, holds)


def _table_parts(table: Any) -> dict[str, Any]:
    return {
        "columns": table.columns,
        "cells": [table[column] for column in table.columns],
        "refs": [list(ref) for ref in table.refs],
        "total": table.known_total,
        "offset": table.offset,
        "cursor": table.cursor,
    }


def _table(
    columns: list[str],
    cells: list[list[Any]],
    refs: list[tuple[str, str]],
    total: int | None,
    offset: int,
    cursor: str,
) -> RunsTable:
    if len(cells) != len(set(columns)) or any(len(one) != len(refs) for one in cells):
        wanted = "as many cells as there are columns and runs"
        raise _refused((), f"{wanted} (RunsTable)", len(cells))
    return RunsTable(dict(zip(columns, cells, strict=True)), refs, total, offset, cursor)


def _long(kind: Any, part: type) -> _Class:
    def parts(table: Any) -> dict[str, Any]:
        return {"parts": [list(one) for one in table.parts]}

    fields = {"parts": _list_of(_tuple_of(_str, _str, _instance(part)))}
    return _Class(kind, fields, parts, kind)


def _kept(kind: Any) -> _Class:
    def parts(value: Any) -> dict[str, Any]:
        return {"state": value.state_dict()}

    def make(state: dict[str, Any]) -> Any:
        try:
            return kind.from_dict(state)
        except ArgumentError as error:
            msg = f"the answer is not as agreed ({kind.__name__}): {error}"
            raise WireError(msg) from error

    return _Class(kind, {"state": _dict}, parts, make)


_of_points: Final = {"step": _number, "time_ns": _int, "attempt": _int}
_of_series: Final = {"count": _int, "first_step": _number, "last_step": _number}
_sums: Final = dict.fromkeys(("last", "min", "max", "mean"), _number)
_POINTS: Final = {"step": _floats, "value": _floats, "time_ns": _ints, "attempt": _ints}
_PARTS: Final = {
    **dict.fromkeys(
        ("first_step", "last_step", "min", "max", "min_step", "max_step", "mean"), _floats
    ),
    **dict.fromkeys(("count", "nan_count", "inf_count"), _ints),
}
_GROUPED: Final = {"n": _ints, **dict.fromkeys(("x", "mean", "std", "min", "max"), _floats)}
_TIMES: Final = ("mean_s", "p50_s", "p95_s", "max_s", "own_s", "slowdown")

_ALL: Final = (
    _class(Attribute, path=_str, family=_str, type=_str, value=_any),
    _class(SeriesSummary, **_sums, **_of_series, nan_count=_int, inf_count=_int),
    _class(SeriesTail, last=_any, **_of_series),
    _class(
        JournalInfo,
        writer=_str,
        file=_str,
        header=_dict,
        offset=_int,
        last_t=_int,
        closed=_bool,
        gaps=_list_of(_tuple_of(_int, _int)),
        dropped=_dict_of(_int),
        errors=_int,
        notes=_list_of(_tuple_of(_int, _str)),
        stopped=_or_none(_str),
        unknown=_dict_of(_int),
    ),
    _class(Points, _even(*_POINTS), **_POINTS),
    _class(TextPoint, **_of_points, text=_text_or_file),
    _class(FilePoint, **_of_points, file=_dict, name=_or_none(_str), description=_or_none(_str)),
    _class(HistogramPoint, **_of_points, edges=_list_of(_number), counts=_list_of(_number)),
    _class(TextPage, points=_list_of(_tuple_of(_int, _str, _text_or_file)), end=_int, more=_bool),
    _class(Curve, _even(*_PARTS), width=_number, **_PARTS),
    _class(
        Drawing,
        _has_its_parts,
        curve=_instance(Curve),
        x=_floats,
        mean=_or_none(_floats),
        plus_inf=_floats,
        minus_inf=_floats,
        left_out=_int,
        not_positive=_int,
        falls=_bool,
        ends=_tuple_of(_floats, _floats),
        kept=_int,
    ),
    _class(RunCurve, project=_str, run=_str, path=_str, drawing=_instance(Drawing), cursor=_str),
    _class(
        GroupCurve,
        _even(*_GROUPED),
        path=_str,
        by=_dict,
        runs=_list_of(_tuple_of(_str, _str)),
        width=_number,
        **_GROUPED,
    ),
    _class(
        RunName,
        project=_str,
        run=_str,
        name=_or_none(_str),
        created_ns=_int,
        trashed=_bool,
        sys_id=_or_none(_str),
    ),
    _class(RunField, path=_str, family=_str, count=_int, differing=_bool),
    _class(
        Spread,
        n=_int,
        odd=_int,
        **dict.fromkeys(("mean", "std", "min", "max"), _or_none(_number)),
    ),
    _class(
        RunGroup,
        by=_dict,
        refs=_list_of(_tuple_of(_str, _str)),
        values=_dict_of(_instance(Spread)),
    ),
    _class(
        ChangedRun, project=_str, run=_str, state=_or_none(_str), gone=_bool, paths=_list_of(_str)
    ),
    _class(Crash, reason=_str, host=_or_none(_str), pid=_or_none(_int), last_t=_int, detail=_str),
    _class(
        RankStatus,
        rank=_int,
        host=_or_none(_str),
        pid=_or_none(_int),
        writers=lambda value, where: tuple(
            _strings(list(value) if isinstance(value, tuple) else value, where)
        ),
        state=_str,
        why=_str,
        first_t=_int,
        last_t=_int,
        row_t=_or_none(_int),
        end_t=_or_none(_int),
    ),
    _class(
        RankTiming,
        rank=_int,
        host=_or_none(_str),
        pid=_or_none(_int),
        state=_or_none(_str),
        why=_str,
        last_seen=_or_none(_instance(datetime)),
        last_step=_or_none(_instance(datetime)),
        steps=_int,
        **dict.fromkeys(_TIMES, _number),
    ),
    _Class(
        RunsTable,
        {
            "columns": _strings,
            "cells": _list_of(_instance(list)),
            "refs": _list_of(_tuple_of(_str, _str)),
            "total": _or_none(_int),
            "offset": _int,
            "cursor": _str,
        },
        _table_parts,
        _table,
    ),
    _kept(Statistics),
    _kept(Last),
    _kept(Ring),
    _long(SeriesTable, Points),
    _long(CurveTable, Curve),
)
_CLASSES: Final = {one.kind.__name__: one for one in _ALL}
