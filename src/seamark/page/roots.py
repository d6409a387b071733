"""Root folders that a page shows, and their names on it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seamark.errors import ArgumentError
from seamark.journal.folder import root_dir
from seamark.journal.root import ROOT_NAME

__all__ = ["Root", "named_roots"]


@dataclass(frozen=True, slots=True)
class Root:
    """Root folder of runs that a page shows.

    Attributes:
        name: Displayed name, unique among the roots of a page.
        path: Absolute path, which need not exist.
    """

    name: str
    path: Path


def named_roots(paths: Sequence[str | os.PathLike[str]]) -> list[Root]:
    """Return the roots at some places, each once, with names that tell them apart.

    The name is that of the folder, of ``.seamark`` that of the folder around it, with as much of
    the path before it as is needed.

    Args:
        paths: As a person gave them; none for the root that is found without one.

    Raises:
        ArgumentError: If one cannot be a root.
    """
    found: dict[str, Path] = {}
    for one in paths or (None,):
        path = root_dir(one)
        if path.exists() and not path.is_dir():
            msg = f"root: {str(path)!r} is a file, not a folder of runs"
            raise ArgumentError(msg)
        found.setdefault(os.path.realpath(path), path)
    parts = [_parts(path) for path in found.values()]
    depth = 1
    while depth < max(map(len, parts)) and len({one[-depth:] for one in parts}) < len(parts):
        depth += 1
    names = ["/".join(one[-depth:]).replace("//", "/") for one in parts]
    if len(set(names)) < len(names):  # `x` and `x/.seamark`
        names = [str(path) for path in found.values()]
    return [Root(name, path) for name, path in zip(names, found.values(), strict=True)]


def _parts(path: Path) -> tuple[str, ...]:
    """Return the parts of a path without a ``.seamark`` at its end."""
    inside = path.parent if path.name == ROOT_NAME else path
    return inside.parts or path.parts
