"""Finding the model, or the version of one, that a person means by a word.

A model goes by its key, a version by its id and by the key and its number: ``RESNET``,
``RESNET-3``. What stands before a key and ``-`` is passed over, as Neptune put the key of the
project there (``CLS-RESNET-3``), and before a ``/`` there may be the project.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from seamark.errors import ArgumentError, RunNotFoundError
from seamark.paths import home_of, is_inside, kind_of

if TYPE_CHECKING:
    from seamark.reading.catalog import Catalog, Ref
    from seamark.reading.names import RunName

__all__ = ["find_registered", "key_in"]

_LISTED = 8


def key_in(word: str) -> str:
    """Return the key in what names a model: ``KEY``, or ``<anything>-KEY``."""
    return word.rpartition("-")[2]


def find_registered(
    catalog: Catalog,
    word: str,
    project: str | None = None,
    kinds: Iterable[str] = ("model", "model_version"),
) -> Ref:
    """Return where what a word means lies, and its key or id.

    Args:
        catalog: Of the place, up to date.
        word: What a person gave; see the module.
        project: Only of this project, or, where it has none, of those below it; None for all.
        kinds: Which of both may be meant.

    Raises:
        RunNotFoundError: If nothing is meant.
        ArgumentError: If several may be; they are listed.
    """
    names = [one for kind in kinds for one in catalog.names(kind)]
    left, _, rest = word.rpartition("/")
    if left:
        found = [one for one in names if left in (one.project, home_of(one.project))]
        names, project = found or _in(names, left), None
    for meant in (_is_exactly, _ends_with):
        found = [one for one in names if meant(one, rest)]
        near = [one for one in found if home_of(one.project) == project]
        found = near or _in(found, project)
        if len(found) > 1:
            listed = ", ".join(f"{one.project}/{one.run}" for one in found[:_LISTED])
            msg = f"{word!r:.200} may be any of {len(found)}: {listed} (name the project, too)"
            raise ArgumentError(msg)
        if found:
            return found[0].ref
    where = f"project {project!r} of {catalog.where}" if project else catalog.where
    what = " or ".join({"model": "model", "model_version": "model version"}[kind] for kind in kinds)
    msg = f"no {what} {word!r:.200} in {where}"
    raise RunNotFoundError(msg)


def _in(names: Iterable[RunName], project: str | None) -> list[RunName]:
    return [one for one in names if project is None or is_inside(one.project, project)]


def _is_exactly(one: RunName, word: str) -> bool:
    return word == one.run or (kind_of(*one.ref) == "model_version" and word == one.name)


def _ends_with(one: RunName, word: str) -> bool:
    parts = word.split("-")
    if kind_of(*one.ref) == "model":
        return len(parts) > 1 and parts[-1] == one.run
    return len(parts) > 2 and "-".join(parts[-2:]) == one.name  # noqa: PLR2004 - key and number
