"""Answers as JSON, for pages and scripts; our own client reads `seamark.reading.codec`.

Texts, booleans, null, finite floats and ints below 2**53 are what they are in JSON (a float has a
point or an exponent). Everything else is an object with the key ``$``, which says what it is:

- ``{"$": "float", "v": "nan"}``, ``"inf"``, ``"-inf"``; ``{"$": "int", "v": "-0x2386f26fc10000"}``;
- ``{"$": "datetime", "v": "2026-01-31T12:00:00+00:00"}``, ISO 8601;
- ``{"$": "dict", "v": {...}}``: an object that has a key ``$`` of its own;
- ``{"$": "f8", "v": "<base64>"}`` and ``"i8"``: arrays of little-endian float64 and int64. With
  ``?arrays=json`` there is a list of numbers in place of the base64, in which ``"nan"``, ``"inf"``
  and ``"-inf"`` stand for what JSON cannot write;
- the name of a class, beside its fields: ``{"$": "Attribute", "path": ...}``.
"""

from __future__ import annotations

import base64
import json
import math
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from seamark.reading.names import RunName
from seamark.reading.points import TextPage
from seamark.reading.tables import RunsTable
from seamark.reading.verbs import Answer
from seamark.values.aggregates import Keep
from seamark.values.arrays import Floats, Ints

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["schemas_of", "to_json"]

_TAG: Final = "$"
_VALUE: Final = "v"
_EXACT: Final = 1 << 53
_MOST_DEPTH: Final = 128
_TOO_DEEP: Final = "..."
_ENVELOPES: Final = "seamark.reading.answers"
_ARRAYS: Final = {"float64": "f8", "int64": "i8"}
_PLAIN: Final = {str, bool, type(None)}
_NAMED: Final = (RunName, TextPage)
"""Tuples that are objects here; other tuples are lists."""


def to_json(value: Any, *, plain_arrays: bool = False) -> bytes:
    """Return a value as JSON.

    What is nested deeper than 128 levels, as nothing is that Seamark records, becomes ``"..."``.

    Args:
        value: Of the classes that reads return.
        plain_arrays: Arrays are lists of numbers, which people can read, instead of base64.

    Raises:
        TypeError: If something in it has no form here.
    """
    given = _members_of(value) if isinstance(value, Answer) else value
    made = _Encoder(plain_arrays=plain_arrays).value(given, 0)
    try:
        return msgspec.json.encode(made)
    except UnicodeEncodeError:  # half of a surrogate pair
        return json.dumps(made, separators=(",", ":"), allow_nan=False).encode("ascii")


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
        if depth > _MOST_DEPTH:
            return _TOO_DEEP
        if kind is dict:
            made = self._members(value, depth)
            return {_TAG: "dict", _VALUE: made} if _TAG in made else made
        return self._object(value, depth)

    def _list(self, values: Iterable[Any], depth: int) -> list[Any]:
        return [self.value(one, depth + 1) for one in values]

    def _members(self, members: dict[Any, Any], depth: int) -> dict[str, Any]:
        return {str(key): self.value(one, depth + 1) for key, one in members.items()}

    def _object(self, value: Any, depth: int) -> Any:
        name = type(value).__name__
        if isinstance(value, RunsTable | Keep):
            return {_TAG: name} | self._members(_parts_of(value), depth)
        if is_dataclass(value):
            made = self._members(
                {one.name: getattr(value, one.name) for one in fields(value)}, depth
            )
            return made if type(value).__module__ == _ENVELOPES else {_TAG: name} | made
        if isinstance(value, _NAMED):
            return {_TAG: name} | self._members(value._asdict(), depth)
        if isinstance(value, list | tuple):
            return self._list(value, depth)
        if isinstance(value, set | frozenset):
            return sorted(value)
        if isinstance(value, str):  # an Escaped
            return str.__str__(value)
        if isinstance(value, datetime):
            return {_TAG: "datetime", _VALUE: value.isoformat()}
        return self._array(value)

    def _array(self, array: Any) -> dict[str, Any]:
        name = _ARRAYS.get(getattr(getattr(array, "dtype", None), "name", ""))
        if name is None:
            msg = f"{type(array).__qualname__} has no form in JSON"
            raise TypeError(msg)
        if self._plain_arrays:
            return {_TAG: name, _VALUE: [_finite(one) for one in array.tolist()]}
        packed = array.astype(f"<{name}", copy=False).tobytes()
        return {_TAG: name, _VALUE: base64.b64encode(packed).decode("ascii")}


def _members_of(answer: Answer[Any]) -> dict[str, Any]:
    if answer.unchanged:
        return {"unchanged": True}
    found = {name: getattr(answer, name) for name in ("seen", "next", "told", "total")}
    said = {name: one for name, one in found.items() if one not in ("", None, [])}
    return {"answer": answer.answer} | said


def _parts_of(table: RunsTable | Keep) -> dict[str, Any]:
    if isinstance(table, Keep):
        return {"state": table.state_dict()}
    return {
        "columns": table.columns,
        "cells": [table[column] for column in table.columns],
        "refs": table.refs,
        "total": table.known_total,
        "offset": table.offset,
    }


def _finite(number: float) -> float | str:
    return number if math.isfinite(number) else str(number)


# ---------------------------------------------------------------------- its description

_SPECIAL: Final = {
    "description": "What JSON cannot write by itself.",
    "type": "object",
    "properties": {_TAG: {"enum": ["float", "int", "datetime", "dict"]}, _VALUE: {}},
    "required": [_TAG, _VALUE],
}
_SPECIAL_REF: Final = {"$ref": "#/components/schemas/Special"}
_TAGGED: Final[dict[type, dict[str, Any]]] = {
    RunsTable: {
        "columns": {"type": "array", "items": {"type": "string"}},
        "cells": {"type": "array", "items": {"type": "array"}},
        "refs": {"type": "array", "items": {"type": "array"}},
        "total": {"type": ["integer", "null"]},
        "offset": {"type": "integer"},
    },
}


def schemas_of(kinds: Iterable[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return a schema of the JSON of each type, and the components to which they refer."""
    found, components = msgspec.json.schema_components(
        list(kinds), schema_hook=_schema, ref_template="#/components/schemas/{name}"
    )
    return list(map(_widened, found)), _widened(components) | {"Special": _SPECIAL}


def _schema(kind: Any) -> dict[str, Any]:
    if kind in (Floats, Ints):
        name, of = ("f8", "float64") if kind is Floats else ("i8", "int64")
        about = f"{of} values: base64 of little-endian bytes; a list with ?arrays=json."
        properties: dict[str, Any] = {_TAG: {"const": name}, _VALUE: {"type": ["string", "array"]}}
    else:
        about = (kind.__doc__ or "").partition("\n")[0]
        properties = {_TAG: {"const": kind.__name__}} | _TAGGED[kind]
    required = list(properties)
    return {"description": about, "type": "object", "properties": properties, "required": required}


def _widened(schema: Any) -> Any:
    """Return a schema that also allows the objects in place of what JSON cannot write."""
    if isinstance(schema, list):
        return list(map(_widened, schema))
    if not isinstance(schema, dict):
        return schema
    for kind in _NAMED if "prefixItems" in schema else ():
        if schema.get("title") == kind.__name__:
            schema = _named(schema, kind._fields)
    if schema.get("type") in ("integer", "number") or schema.get("format") == "date-time":
        return {"anyOf": [schema, _SPECIAL_REF]}
    return {key: _widened(one) for key, one in schema.items()}


def _named(schema: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    """Return the schema of a tuple as that of an object."""
    properties = dict(zip(fields, schema["prefixItems"], strict=True))
    return {
        "title": schema["title"],
        "description": schema.get("description", ""),
        "type": "object",
        "properties": {_TAG: {"const": schema["title"]}, **properties},
        "required": [_TAG, *fields],
    }
