"""Atoms (single values with a type), and flattening of containers."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import re
import types
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any, Final, NamedTuple
from uuid import UUID

from seamark.errors import ArgumentError, ValueKindError
from seamark.process.interrupts import quietly, raised_by_signal_handler
from seamark.values.arrays import (
    array_values,
    is_array,
    is_numpy_scalar,
    is_omegaconf,
    is_tensor,
    numpy_scalar,
    plain_omegaconf,
)

MAX_DEPTH: Final = 64
"""Maximum depth of nested containers."""
_NOTHING: Final = object()


def thaw(value: Any) -> Any:
    """Return an OmegaConf configuration as plain containers, any other value unchanged."""
    return plain_omegaconf(value) if is_omegaconf(type(value)) else value


def is_container(value: Any) -> bool:
    """Return whether `flatten` descends into ``value``.

    Containers are mappings, dataclass and attrs instances, pydantic models, and namespaces. Lists
    are not: they are atoms.
    """
    kind = type(thaw(value))
    return (
        issubclass(kind, (dict, argparse.Namespace, types.SimpleNamespace, Mapping))
        or bool(_field_names(kind))
        or dataclasses.is_dataclass(kind)
    )


def _field_names(kind: type) -> tuple[str, ...]:
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    attrs = getattr(kind, "__attrs_attrs__", None)
    if isinstance(attrs, tuple):
        return tuple(str(field.name) for field in attrs)
    pydantic = getattr(kind, "__pydantic_fields__", None)
    return tuple(pydantic) if isinstance(pydantic, dict) else ()


def members(value: Any) -> list[tuple[Any, Any]] | None:
    """Return a container's (key, value) pairs without calling properties; None for other values."""
    kind = type(value)
    if issubclass(kind, dict):
        return list(dict.items(value))
    if issubclass(kind, (argparse.Namespace, types.SimpleNamespace)):
        return list(vars(value).items())
    if issubclass(kind, Mapping):
        return [(key, value[key]) for key in value]
    names = _field_names(kind)
    if not names and not dataclasses.is_dataclass(kind):
        return None
    found = ((name, _stored(value, name)) for name in names)
    return [(name, each) for name, each in found if each is not _NOTHING]


def _stored(value: Any, name: str) -> Any:
    held = getattr(value, "__dict__", {})
    if name in held:
        return held[name]
    declared = getattr(type(value), name, None)
    if isinstance(declared, types.MemberDescriptorType):  # a slot
        return getattr(value, name, _NOTHING)
    return _NOTHING if declared is None or isinstance(declared, property) else declared


def flatten(value: Any, path: str, leaves: tuple[type, ...] = ()) -> dict[str, Any]:
    """Return ``{path: leaf}`` of nested containers, in order; an empty container is a leaf ``{}``.

    Keys other than strings are converted to text. A key that contains ``/`` creates levels, as in
    Neptune. Paths are validated when they are written. Instances of ``leaves`` are not flattened.

    Raises:
        ArgumentError: If two keys give the same path, such as ``1`` and ``"1"``.
        ValueKindError: If a container contains itself, or there are more than `MAX_DEPTH` levels.
    """
    found: dict[str, Any] = {}
    _flatten(value, path, leaves, found, ())
    return found


def _flatten(
    value: Any,
    path: str,
    leaves: tuple[type, ...],
    found: dict[str, Any],
    above: tuple[int, ...],
) -> None:
    value = thaw(value)
    inside = None if isinstance(value, leaves) else members(value)
    if not inside:
        if path in found:
            raise ArgumentError(
                f"{path}: expected one value for each path, got two keys with this path"
            )
        found[path] = value if inside is None else {}
        return
    if id(value) in above:
        kind = type(value).__name__
        raise ValueKindError(
            f"{path}: expected nested values without cycles, got a {kind} that contains itself"
        )
    if len(above) >= MAX_DEPTH:
        raise ValueKindError(f"{path[:80]}...: expected at most {MAX_DEPTH} nested levels")
    for key, each in inside:
        name = key if isinstance(key, str) else str(key)
        # not join_path: an empty key must give an invalid path instead of being dropped
        at = f"{path}/{name}" if path else name
        _flatten(each, at, leaves, found, (*above, id(value)))


MAX_ARRAY: Final = 10_000
"""Maximum number of elements of an array that is assigned as an atom."""
_MAX_VALUES: Final = 10_000_000
_EXACT_BITS: Final = 2048
"""Maximum number of bits of a decimal integer; larger ones are hexadecimal (Python's limit)."""
_UNPRINTABLE: Final = re.compile("[\x00\ud800-\udfff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_AS_TEXT: Final = (PurePath, UUID, Decimal, Fraction, date, time, timedelta)
_LISTS: Final = (list, tuple, set, frozenset)
NOT_PLAIN: Final = object()
"""Result of `scalar` for a value that is not a scalar."""


class Atom(NamedTuple):
    """Type and value of a single value in the journal.

    Attributes:
        type: ``int``, ``float``, ``bool``, ``string``, ``datetime``, ``null``, ``json``, ``text``.
        value: JSON value: non-finite floats are ``"nan"``, ``"inf"`` and ``"-inf"``, ints over 2048
            bits are hexadecimal text, datetimes are ISO 8601 with an offset, lists are JSON text.
    """

    type: str
    value: Any


class Escaped(str):
    r"""Text with NUL and lone surrogates written as visible escapes (``\x00``, ``\udc80``)."""

    __slots__ = ()


def escape(text: str) -> str:
    """Return text that UTF-8 and SQL can store; it is an `Escaped` if characters were replaced."""
    if not _UNPRINTABLE.search(text):
        return str.__str__(text)
    return Escaped(_UNPRINTABLE.sub(_escape_character, text))


def _escape_character(found: re.Match[str]) -> str:
    return "\\x00" if found[0] == "\x00" else f"\\u{ord(found[0]):04x}"


def encode_atom(value: Any) -> Atom:
    """Convert a value to an atom.

    Supported are None, bools, ints of any size, floats, strings, datetimes (a naive one is local
    time), enums, paths, dates, decimals, NumPy scalars, tensors and arrays of up to `MAX_ARRAY`
    elements, and lists, tuples, sets and mappings of these, as JSON. Raises ValueKindError, with
    the location, for other values and for containers of other values.
    """
    plain = scalar(value)
    if plain is NOT_PLAIN:
        plain = JsonWalk(_refuse, array_limit=MAX_ARRAY, limit=_MAX_VALUES).walk(thaw(value))
    return atom_of(plain)


def atom_of(plain: Any) -> Atom:
    """Convert a plain Python value (from `scalar` or `JsonWalk`) to an atom."""
    if plain is None:
        return Atom("null", None)
    kind = type(plain)
    if kind is bool:
        return Atom("bool", plain)
    if kind is int:
        return Atom("int", plain if plain.bit_length() <= _EXACT_BITS else hex(plain))
    if kind is float:
        return Atom("float", plain if math.isfinite(plain) else str(plain))
    if issubclass(kind, str):
        return Atom("string", escape(plain))
    if kind is datetime:
        return Atom("datetime", plain.isoformat())
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    # JSON has escapes for characters that UTF-8 cannot encode, so nothing is lost
    return Atom("json", _SURROGATE.sub(_escape_character, text))


def scalar(value: Any) -> Any:
    """Return a value as a plain None, bool, int, float, str or aware datetime.

    For other values, return `NOT_PLAIN`. Subclasses are converted with the methods of the built-in
    type, so that overridden methods are not called.
    """
    kind = type(value)
    if value is None or kind is bool:
        return value
    if issubclass(kind, int):
        return int.__int__(value)
    if issubclass(kind, float):
        return float.__float__(value)
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, datetime):
        return _aware(value)
    if issubclass(kind, _AS_TEXT):
        return str(value)
    if issubclass(kind, Enum):
        return _enum(value)
    if is_numpy_scalar(kind):
        item = numpy_scalar(value)
        return NOT_PLAIN if is_numpy_scalar(type(item)) else scalar(item)
    return NOT_PLAIN


def _enum(value: Enum) -> str:
    name = getattr(value, "_name_", None)
    return (
        f"{type(value).__name__}.{name}" if name else f"{type(value).__name__}({value._value_!r})"
    )


def _aware(value: datetime) -> datetime | None:
    if value != value:  # noqa: PLR0124 - "not a time" alone differs from itself
        return None
    parts = (value.year, value.month, value.day, value.hour, value.minute, value.second)
    exact = datetime(*parts, value.microsecond, tzinfo=value.tzinfo, fold=value.fold)
    if exact.utcoffset() is not None:
        return exact.replace(tzinfo=timezone(exact.utcoffset() or timedelta(0)))
    try:
        return exact.astimezone()
    except (ValueError, OverflowError, OSError):  # near the limits of datetime
        return exact.replace(tzinfo=timezone.utc)


class JsonWalk:
    """Conversion of nested values to values that `json.dumps` accepts, level by level.

    ``odd`` is called with a value without a JSON form, its location, and the reason ("" if it is
    the type); it returns a substitute, or raises. It is also called for containers that contain
    themselves or are nested too deeply, for arrays above ``array_limit``, and for containers after
    ``limit`` values (shared references can multiply).
    """

    def __init__(
        self, odd: Callable[[Any, str, str], Any], *, array_limit: int, limit: int
    ) -> None:
        self._odd = odd
        self._array_limit = array_limit
        self._above: list[int] = []
        self._limit = self._left = limit

    def walk(self, value: Any, where: str = "") -> Any:
        """Return the JSON form of ``value``; its location is ``where``, such as ``[3].lr``."""
        self._left -= 1
        plain = scalar(value)
        if plain is not NOT_PLAIN:
            return self._leaf(plain)
        value = thaw(value)
        if is_array(type(value)):
            return self._array(value, where)
        inside = members(value)
        if inside is None and not issubclass(type(value), _LISTS):
            return self._odd(value, where, "")
        if id(value) in self._above:
            return self._odd(value, where, "holds itself")
        if len(self._above) >= MAX_DEPTH - 2:
            return self._odd(value, where, f"is nested more than {MAX_DEPTH} levels deep")
        if self._left <= 0:
            return self._odd(value, where, f"comes after {self._limit} values")
        self._above.append(id(value))
        try:
            return self._list(value, where) if inside is None else self._dict(inside, where)
        finally:
            self._above.pop()

    def _leaf(self, plain: Any) -> Any:
        if type(plain) is int:
            return atom_of(plain).value
        return plain.isoformat() if type(plain) is datetime else plain

    def _array(self, value: Any, where: str) -> Any:
        size = int(value.numel() if is_tensor(type(value)) else value.size)
        if size > self._array_limit:
            return self._odd(value, where, f"has {size} elements, over {self._array_limit}")
        try:
            inside = array_values(value)
        except Exception as error:  # without data (meta, fake), or inaccessible
            if raised_by_signal_handler(error):
                raise
            return self._odd(value, where, "cannot be read")
        return self.walk(inside, where)

    def _dict(self, inside: list[tuple[Any, Any]], where: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, each in inside:
            name = self._key(key)
            while name in found:  # 1 and "1" are different keys in Python, but not in JSON
                name += "~"
            found[name] = self.walk(each, f"{where}.{name}")
        return found

    def _key(self, key: Any) -> str:
        plain = scalar(key)
        if plain is not NOT_PLAIN:
            return str(plain)
        return str(key if isinstance(key, tuple) else self._odd(key, "a key", ""))

    def _list(self, value: Any, where: str) -> list[Any]:
        if issubclass(type(value), (set, frozenset)):
            value = _sorted(value)
        return [self.walk(each, f"{where}[{n}]") for n, each in enumerate(value)]


def _sorted(value: Any) -> list[Any]:
    with quietly():  # mixed types, or an invalid order
        return sorted(value)
    return sorted(value, key=lambda each: (type(each).__qualname__, repr(each)))


def _refuse(value: Any, where: str, reason: str) -> Any:
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    place = f" at {where.removeprefix('.')}" if where else ""
    raise ValueKindError(
        "value: expected None, a bool, number, string, datetime, small array, or lists or mappings "
        f"of these, got {kind}{place}{f', which {reason}' if reason else ''}; "
        "seamark.utils.stringify_unsupported(value) converts unsupported values to text"
    )


def decode_atom(type: str, value: Any) -> Any:  # noqa: A002 - the journal's own word
    """Return the Python value of an atom from a journal; raise ValueKindError if it is invalid.

    Datetimes are aware; ``json`` is decoded; the value of ``text``, a string too long for a
    journal, is the record of its blob (``sha256``, ``size``).
    """
    try:
        return _DECODERS[type](value)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        known = ", ".join(_DECODERS)
        raise ValueKindError(
            f"atom: expected one of {known} with a valid value, got {type!r}: {value!r:.80}"
        ) from error


def _decode_int(value: Any) -> int:
    return int(value, 16) if isinstance(value, str) else _expect_type(int, value)


def _decode_float(value: Any) -> float:
    if isinstance(value, str) and value not in {"nan", "inf", "-inf"}:
        raise ValueError(value)
    return float(value)


def _expect_type(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(value)
    return value


def _decode_json(value: Any) -> Any:
    # deeper than we write; encoding it again would fail
    found = json.loads(value)
    if value.count("[") + value.count("{") <= MAX_DEPTH:  # cannot be too deep
        return found
    level = [found]
    for _ in range(MAX_DEPTH):
        inside = [each.values() if isinstance(each, dict) else each for each in level]
        level = [one for several in inside for one in several if isinstance(one, list | dict)]
    if level:
        raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
    return found


_DECODERS: Final[dict[str, Callable[[Any], Any]]] = {
    "null": lambda value: _expect_type(type(None), value),
    "bool": lambda value: _expect_type(bool, value),
    "int": _decode_int,
    "float": _decode_float,
    "string": str.__str__,
    "datetime": datetime.fromisoformat,
    "json": _decode_json,
    "text": lambda value: _expect_type(dict, value),
}
