"""Finding the run below a root that a person means by a word; see `seamark.reading.finding`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.errors import PathError, RunNotFoundError
from seamark.index.index import Index
from seamark.journal.safe import is_folder
from seamark.paths import check_project
from seamark.reading.finding import Finder, parted

if TYPE_CHECKING:
    from seamark.reading.catalog import Ref

__all__ = ["find_below"]


def find_below(root: Path, word: str, project: str, *, beginnings: bool) -> Ref:
    """Return project and id of the run below a root that a word means now.

    Args:
        root: Root folder.
        word: What a person gave.
        project: Where a word without ``PROJECT/`` is looked for, sub-projects included.
        beginnings: Whether the beginning of an id will do.

    Raises:
        RunNotFoundError: If no run is meant.
        ArgumentError: If several may be meant, or if the index cannot be where it is wanted.
    """
    if not root.is_dir():
        msg = f"no run {word!r:.200}: there is no folder {root}"
        raise RunNotFoundError(msg)
    with Index.open(root) as index:
        for one in dict.fromkeys([project, *_projects(root, word)]):
            index.refresh(one)
        return Finder(index).find(word, project, beginnings=beginnings)


def _projects(root: Path, word: str) -> Iterator[str]:
    """Yield the projects that a word may begin with."""
    for left, _ in parted(word):
        try:
            folder = root / check_project(left)
        except PathError:
            continue
        if is_folder(folder):
            yield left
