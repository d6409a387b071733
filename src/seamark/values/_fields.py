"""Containers: what `flatten` goes into, and the named members of it."""

from __future__ import annotations

import argparse
import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Final

from seamark.errors import ArgumentError, ValueKindError
from seamark.values._foreign import is_omegaconf, plain_omegaconf

__all__ = ["MAX_DEPTH", "flatten", "is_container", "members", "thaw"]

MAX_DEPTH: Final = 64
"""How many levels of containers are gone into."""

_NOTHING: Final = object()


def thaw(value: Any) -> Any:
    """Return an OmegaConf configuration as plain containers, anything else as it is."""
    return plain_omegaconf(value) if is_omegaconf(type(value)) else value


def is_container(value: Any) -> bool:
    """Return whether `flatten` would go into ``value``.

    Containers are mappings, dataclass and attrs instances, pydantic models, and namespaces. Lists
    are not: they are atoms.
    """
    return _is_named(type(thaw(value)))


def _is_named(kind: type) -> bool:
    return (
        issubclass(kind, (dict, argparse.Namespace, types.SimpleNamespace, Mapping))
        or bool(_field_names(kind))
        or dataclasses.is_dataclass(kind)
    )


def _field_names(kind: type) -> tuple[str, ...]:
    """Return the names of the fields that a class declares, if it is of the kind that does."""
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    attrs = getattr(kind, "__attrs_attrs__", None)
    if isinstance(attrs, tuple):
        return tuple(str(field.name) for field in attrs)
    pydantic = getattr(kind, "__pydantic_fields__", None)
    return tuple(pydantic) if isinstance(pydantic, dict) else ()


def members(value: Any) -> list[tuple[Any, Any]] | None:
    """Return (key, value) of what a container holds, in order; None if it is not a container.

    Fields are read from where they are stored, so that no property of the object is called.
    """
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
    """Return a field's value without running a property; `_NOTHING` if it was never set."""
    held = getattr(value, "__dict__", {})
    if name in held:
        return held[name]
    declared = getattr(type(value), name, None)
    if isinstance(declared, types.MemberDescriptorType):  # a slot
        return getattr(value, name, _NOTHING)
    return _NOTHING if declared is None or isinstance(declared, property) else declared


def flatten(value: Any, path: str, leaves: tuple[type, ...] = ()) -> dict[str, Any]:
    """Return the leaves of nested containers with their paths.

    Args:
        value: A container (see `is_container`), or a leaf.
        path: Where it is being assigned; ``""`` is the root of the run. Keys that are no strings
            are turned into text; a key that holds ``/`` makes levels, as in Neptune.
        leaves: Classes whose instances are not taken apart.

    Returns:
        ``{path: leaf}`` in order. A container that is empty is a leaf itself, ``{}``. Whether the
        paths are legal is checked where they are written.

    Raises:
        ArgumentError: If two keys lead to one path, such as ``1`` and ``"1"``.
        ValueKindError: If a container holds itself, or more than `MAX_DEPTH` levels are nested.
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
            msg = f"{path}: expected one value for each path, got two keys that lead to it"
            raise ArgumentError(msg)
        found[path] = value if inside is None else {}
        return
    if id(value) in above:
        kind = type(value).__name__
        msg = f"{path}: expected nested values that end, got a {kind} that holds itself"
        raise ValueKindError(msg)
    if len(above) >= MAX_DEPTH:
        msg = f"{path[:80]}...: expected at most {MAX_DEPTH} nested levels"
        raise ValueKindError(msg)
    for key, each in inside:
        name = key if isinstance(key, str) else str(key)
        # not join_path: an empty key has to end in an illegal path, rather than vanish
        at = f"{path}/{name}" if path else name
        _flatten(each, at, leaves, found, (*above, id(value)))
