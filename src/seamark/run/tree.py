"""Paths as a tree: nested dicts, and how they are printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["nest", "structure_lines"]


def nest(flat: Mapping[str, Any], namespace: str = "") -> dict[str, Any]:
    """Return values by path as nested dicts: ``a/b`` is ``b`` in ``a``.

    The value of a path that is also a namespace is under the key ``""``.

    Args:
        flat: Values by path, all below the namespace.
        namespace: Path whose tree is returned; empty for all.
    """
    tree: dict[str, Any] = {}
    spaces: dict[str, dict[str, Any]] = {"": tree}
    skip = len(namespace) + 1 if namespace else 0

    def space(path: str) -> dict[str, Any]:
        if path in spaces:
            return spaces[path]
        head, _, name = path.rpartition("/")
        above = space(head)
        inner: dict[str, Any] = {} if name not in above else {"": above[name]}
        above[name] = inner
        spaces[path] = inner
        return inner

    for path in sorted(flat):
        short = path[skip:]
        if not short:
            continue
        head, _, name = short.rpartition("/")
        above = space(head)
        if short in spaces:
            spaces[short][""] = flat[path]
        else:
            above[name] = flat[path]
    return tree


def structure_lines(tree: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yield the lines that ``print_structure`` prints."""
    for name, value in sorted(tree.items()):
        if isinstance(value, dict):
            yield f"{indent}{name!r}:"
            yield from structure_lines(value, indent + "    ")
        else:
            yield f"{indent}{name!r}: {value}"
