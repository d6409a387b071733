"""Conversion of nested values to points of series."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from seamark.values._fields import MAX_DEPTH, members
from seamark.values._foreign import is_array, is_tensor
from seamark.values._numbers import move, waits

__all__ = ["SeriesLeaves", "series_leaves"]

_NO_SEQUENCES = (str, bytes, bytearray, memoryview)


class SeriesLeaves(NamedTuple):
    """Points by path.

    Attributes:
        numbers: Plain numbers, and other values, which ``log_metrics`` refuses.
        texts: Points of string series.
    """

    numbers: dict[str, Any]
    texts: dict[str, str]


def series_leaves(values: Mapping[str, Any], prefix: str = "") -> SeriesLeaves:
    """Return the points in nested values.

    Mappings, dataclasses and namespaces go on by name, lists, tuples and one-dimensional arrays and
    tensors by their 0-based index: ``{"iou": [0.5, 0.7]}`` is ``iou/0`` and ``iou/1``. Tensors on a
    device are moved together, in one transfer.

    Args:
        values: Points by name; names that are no strings are turned into text.
        prefix: Namespace of the names; empty for none.
    """
    leaves = {path: (leaf, _dimensions(leaf)) for path, leaf in _flatten(values, prefix, ())}
    waiting = {
        path: leaf for path, (leaf, size) in leaves.items() if size is not None and waits(leaf)
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
    """Return how many dimensions an array has; None for more than one, or for other values."""
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
