"""Paths as a tree: nested dicts, and how they are printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["nest", "structure_lines"]


def nest(flat: Mapping[str, Any], namespace: str = "") -> dict[str, Any]:
    """Return values by path as nested dicts: ``a/b`` is ``b`` in ``a``.

    The value of a path that is also a namespace is under the key ``""``.
    """
    tree: dict[str, Any] = {}
    spaces: dict[str, dict[str, Any]] = {"": tree}
    skip = len(namespace) + 1 if namespace else 0

    def space(path: str) -> dict[str, Any]:
        if path not in spaces:
            head, _, name = path.rpartition("/")
            above = space(head)
            spaces[path] = above[name] = {"": above[name]} if name in above else {}
        return spaces[path]

    for path in sorted(flat):  # a path comes before those below it
        head, _, name = path[skip:].rpartition("/")
        if name:
            space(head)[name] = flat[path]
    return tree


def structure_lines(tree: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yield the lines that ``print_structure`` prints."""
    for name, value in sorted(tree.items()):
        if isinstance(value, dict):
            yield f"{indent}{name!r}:"
            yield from structure_lines(value, indent + "    ")
        else:
            yield f"{indent}{name!r}: {value}"
