"""Hyperparameters as atoms, points in nested values, and the digest of a configuration."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from seamark.paths import MAX_PATH_BYTES
from seamark.process.interrupts import quietly
from seamark.values._atoms import (
    MAX_DEPTH,
    NOT_PLAIN,
    Atom,
    JsonWalk,
    atom_of,
    members,
    scalar,
    thaw,
)
from seamark.values._numbers import move, needs_transfer
from seamark.values.arrays import is_array, is_tensor, summary

CONTENT: Final = "sys/content_hash"
VERSION: Final = "source_code/version"
"""Path of the code version of a run."""
is_parameter: Final = re.compile("^parameters/|hyperparams/").search
"""Matcher of paths of hyperparameters of a run."""
_DIGITS: Final = 32
_NO_NUMBER: Final = re.compile("NaN|Infinity")


def content_hash(atoms: Mapping[str, tuple[str, Any]]) -> str | None:
    """Return a digest that is equal for runs with equal parameters and code.

    ``atoms`` are type and value by path as in the journal, with secrets masked. The digest has 32
    hexadecimal digits; None without parameters.
    """
    found = [
        [path, kind, _normalized(kind, value)]
        for path, (kind, value) in sorted(atoms.items())
        if is_parameter(path)
    ]
    if not found:
        return None
    version = atoms.get(VERSION, ("null", None))
    text = json.dumps([found, version[1] if version[0] == "string" else None])
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _normalized(kind: str, value: Any) -> Any:
    """Return a normalized value: equal values give equal texts."""
    if kind == "float":
        return repr(float(value))
    if kind == "int":
        return atom_of(int(value, 0) if isinstance(value, str) else int(value)).value
    if kind == "text":
        return [value.get("sha256"), value.get("size")] if isinstance(value, dict) else None
    if kind == "json" and isinstance(value, str) and _NO_NUMBER.search(value):
        try:
            return json.dumps(_with_named_floats(json.loads(value)), separators=(",", ":"))
        except (ValueError, RecursionError):
            return value
    return value


def _with_named_floats(value: Any) -> Any:
    """Return a value with NaN and infinities replaced by their names, as in documents."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list):
        return [_with_named_floats(one) for one in value]
    if isinstance(value, dict):
        return {key: _with_named_floats(one) for key, one in value.items()}
    return value


_NO_SEQUENCES = (str, bytes, bytearray, memoryview)


class SeriesLeaves(NamedTuple):
    """Points by path; ``numbers`` includes unsupported values, which ``log_metrics`` rejects."""

    numbers: dict[str, Any]
    texts: dict[str, str]


def series_leaves(values: Mapping[str, Any], prefix: str = "") -> SeriesLeaves:
    """Return the points in nested values, by path.

    Members of mappings, dataclasses and namespaces are named by key, elements of lists, tuples and
    one-dimensional arrays and tensors by 0-based index: ``{"iou": [0.5, 0.7]}`` gives ``iou/0`` and
    ``iou/1``. Tensors on a device are moved in one transfer.
    """
    leaves = {path: (leaf, _dimensions(leaf)) for path, leaf in _flatten(values, prefix, ())}
    waiting = {
        path: leaf
        for path, (leaf, size) in leaves.items()
        if size is not None and needs_transfer(leaf)
    }
    moved = move(waiting) if waiting else {}
    numbers: dict[str, Any] = {}
    texts: dict[str, str] = {}
    for path, (leaf, size) in leaves.items():
        if isinstance(leaf, str):
            texts[path] = leaf
        elif size == 1:
            parts = moved[path] if path in moved else leaf.tolist()
            numbers.update((f"{path}/{index}", part) for index, part in enumerate(parts))
        elif path in moved:
            numbers[path] = moved[path][0]
        else:
            numbers[path] = leaf if size is None else leaf.item()
    return SeriesLeaves(numbers, texts)


def _dimensions(leaf: Any) -> int | None:
    kind = type(leaf)
    if kind is float or not is_array(kind) or leaf.ndim > 1:
        return None
    return None if is_tensor(kind) and leaf.device.type == "meta" else int(leaf.ndim)


def _flatten(value: Any, path: str, above: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    inside = members(value)
    if inside is None and isinstance(value, Sequence) and not isinstance(value, _NO_SEQUENCES):
        inside = list(enumerate(value))
    if inside is None or id(value) in above or len(above) >= MAX_DEPTH:
        yield path, value
        return
    for key, each in inside:
        yield from _flatten(each, f"{path}/{key}" if path else str(key), (*above, id(value)))


_MAX_FULL_SIZE: Final = 100
"""Maximum number of elements of an array or tensor recorded in full; larger ones are summarized."""
_MAX_VALUES: Final = 200_000
"""Maximum number of values per call; only repeatedly shared references reach it."""
_RESERVED_BYTES: Final = 80
"""Number of bytes of a path reserved for a shortened key."""
_ADDRESS: Final = re.compile(r" at 0x[0-9A-Fa-f]+")
_ILLEGAL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_DEFAULT_TEXT: Final = {object.__str__, object.__repr__}
_NAMED: Final = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
)


def parameters(params: Any, path: str) -> dict[str, Atom]:
    """Convert any hyperparameters to atoms below a valid path; never raises.

    Containers are flattened. Lists, tuples and sets become JSON; small tensors and arrays become
    values and large ones a summary (type, shape, dtype, extremes); functions, classes and modules
    become their names, and callable objects the names of their classes. Other objects become their
    text, without memory addresses. No callable is called, no property is read, nothing is
    truncated.

    An invalid key is replaced visibly: control characters, and the slashes of a key with empty
    segments, are percent-encoded; an empty key becomes ``(empty)``; a duplicate key gets the suffix
    ``~2``; a key too long for a path is truncated, and its value contains the full key.
    """
    with quietly():
        walk = _Walk()
        walk.visit(params, path)
        return walk.found
    return {path: Atom("string", _type_name(type(params)))}  # the last resort


def parameter(value: Any) -> Atom:
    """Convert one value of any type to an atom, as `parameters` does; never raises."""
    with quietly():
        return _Walk().leaf(value)
    return Atom("string", _type_name(type(value)))  # the last resort


def has_name(value: Any) -> bool:
    """Return whether a value is recorded by name: a class, a function, a module or a partial."""
    return issubclass(type(value), (*_NAMED, types.ModuleType, functools.partial))


class _Walk:
    def __init__(self) -> None:
        self.found: dict[str, Atom] = {}
        self._above: list[int] = []
        self._left = _MAX_VALUES
        self._json = JsonWalk(self._substitute, array_limit=_MAX_FULL_SIZE, limit=_MAX_VALUES)

    def visit(self, value: Any, path: str) -> None:
        self._left -= 1
        inside = None
        with quietly():  # a mapping that raises is recorded as text
            value = thaw(value)
            inside = members(value)
        stuck = id(value) in self._above or len(self._above) >= MAX_DEPTH
        if (
            not inside
            or stuck
            or self._left < 0
            or len(path.encode()) + _RESERVED_BYTES > MAX_PATH_BYTES
        ):
            self.found[path] = self.leaf({} if inside == [] else value)
            return
        self._above.append(id(value))
        for key, each in inside:
            self._add_member(path, _text_of_key(key), each)
        self._above.pop()

    def _add_member(self, path: str, key: str, value: Any) -> None:
        name = _legal(key)
        full = f"{path}/{name}" if path else name
        if len(full.encode()) > MAX_PATH_BYTES:
            mark = "~" + sha256(name.encode()).hexdigest()[:8]
            full = full.encode()[: MAX_PATH_BYTES - len(mark) - 8].decode(errors="ignore") + mark
            self.found[self._free_path(full)] = self.leaf({key: value})
            return
        self.visit(value, self._free_path(full))

    def _free_path(self, path: str) -> str:
        number, free = 2, path
        while free in self.found:
            free, number = f"{path}~{number}", number + 1
        return free

    def leaf(self, value: Any) -> Atom:
        with quietly():  # recursion, or an object whose methods raise
            if id(value) in self._above:
                return Atom("string", f"<{type(value).__name__} that holds itself>")
            plain = scalar(value)
            return atom_of(self._json.walk(value) if plain is NOT_PLAIN else plain)
        return atom_of(text_of(value))

    @staticmethod
    def _substitute(value: Any, _where: str, reason: str) -> Any:
        if is_array(type(value)):
            return summary(value)
        if "itself" in reason or "after" in reason:
            return f"<{type(value).__name__} that {reason}>"
        return text_of(value)


def legal_key(key: Any) -> str:
    """Return the path, or path segment, of a key in `parameters`."""
    return _legal(_text_of_key(key))


def _text_of_key(key: Any) -> str:
    return str.__str__(key) if issubclass(type(key), str) else text_of(key)


def _legal(key: str) -> str:
    name = _ILLEGAL.sub(percent_encoded, key)
    if not name:
        return "(empty)"
    if name[0] == "/" or name[-1] == "/" or "//" in name:
        return name.replace("/", "%2F")
    return name


def percent_encoded(found: re.Match[str]) -> str:
    """Return what a pattern matched, percent-encoded."""
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))


def text_of(value: Any, *, names_callables: bool = True) -> str:
    """Return the name or text of any object; never raises and calls only its text methods.

    Memory addresses are left out, so that equal runs have equal texts. With ``names_callables``, a
    callable object, such as a metric or a model, is represented by the name of its class.
    """
    ways = (_name, str, repr) if names_callables or not _prints_itself(value) else (str, repr)
    for describe in ways:
        with quietly():  # the type is the fallback
            found: str | None = describe(value)
            if found is not None:
                return _ADDRESS.sub("", str.__str__(found))
    return f"<{_type_name(type(value))}>"


def _prints_itself(value: Any) -> bool:
    own = {getattr(type(value), name, None) for name in ("__str__", "__repr__")}
    return callable(value) and not has_name(value) and own != _DEFAULT_TEXT


def _name(value: Any) -> str | None:
    kind = type(value)
    if issubclass(kind, type):
        return str(value.__name__)  # without module, as NeptuneLogger records it
    if issubclass(kind, _NAMED):
        return _qualified(value)
    if issubclass(kind, types.ModuleType):
        return str(types.ModuleType.__getattribute__(value, "__name__"))
    if issubclass(kind, functools.partial):
        return _partial(value)
    if issubclass(kind, (bytes, bytearray)):
        return repr(value)
    if callable(value):
        return _type_name(kind)
    own = {getattr(kind, name, None) for name in ("__str__", "__repr__")}
    return f"<{_type_name(kind)} object>" if own == _DEFAULT_TEXT else None


def _qualified(value: Any) -> str:
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
    return f"{module}.{name}" if module and module != "builtins" else str(name)


def _type_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def _partial(value: functools.partial[Any]) -> str:
    arguments = [_argument(each) for each in value.args]
    arguments += [f"{key}={_argument(each)}" for key, each in value.keywords.items()]
    return f"functools.partial({', '.join([text_of(value.func), *arguments])})"


def _argument(value: Any) -> str:
    return repr(value) if type(value) in {str, int, float, bool} else text_of(value)
