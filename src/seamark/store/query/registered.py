"""Finding the model, version or artifact that a person means by a word.

A model goes by its key, a version of one by its id and by the key and its number: ``RESNET``,
``RESNET-3``. What stands before a key and ``-`` is passed over, as Neptune put the key of the
project there (``CLS-RESNET-3``). `seamark.reading.artifacts` has the words for artifacts. Before
each there may be ``PROJECT/``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from seamark.errors import ArgumentError, RunNotFoundError
from seamark.paths import home_of, is_inside, kind_of, model_key
from seamark.reading.artifacts import ArtifactName
from seamark.reading.names import LATEST
from seamark.store.query.selection import Selection

if TYPE_CHECKING:
    from seamark.reading.catalog import Catalog
    from seamark.reading.names import RunName

__all__ = ["MODEL_KINDS", "aliases_of", "find_registered", "number_of"]

MODEL_KINDS: Final = ("model", "model_version")
_LISTED: Final = 8


def find_registered(
    catalog: Catalog,
    word: str,
    project: str | None = None,
    kinds: Sequence[str] = (*MODEL_KINDS, "artifact"),
) -> RunName:
    """Return the model, version or artifact that a word means.

    Args:
        catalog: Of the place, up to date.
        word: What a person gave; see the module.
        project: Only of this project, or, where it has none, of those below it; None for all.
        kinds: What may be meant.

    Raises:
        RunNotFoundError: If nothing is meant.
        ArgumentError: If several may be; they are listed.
    """
    left, _, rest = word.rpartition("/")
    named = [one for kind in kinds for one in catalog.names(kind)]
    for is_meant in (_is_exactly, _ends_with):
        if found := _near([one for one in named if is_meant(one, rest)], left or project):
            return _only(word, found)
    if "artifact" in kinds:
        versions = [one for one in named if kind_of(*one.ref) == "artifact"]
        return _find_version(catalog, word, left or project, versions)
    where = f"project {project!r} of {catalog.where}" if project else catalog.where
    msg = f"no {' or '.join(kinds).replace('_', ' ')} {word!r:.200} in {where}"
    raise RunNotFoundError(msg)


def _find_version(
    catalog: Catalog, word: str, project: str | None, named: list[RunName]
) -> RunName:
    """Return the version that a word means by an alias, a part of its digest, or as the latest."""
    meant = ArtifactName.of(word)
    own = [one for one in named if meant is not None and model_key(*one.ref) == meant.name]
    versions = _near(own, project)
    if meant is None or not versions:
        names = sorted({model_key(*one.ref) for one in named})
        hint = f"; there are {', '.join(names[:_LISTED])}" if names else ""
        raise _missing(catalog, word, hint)
    if meant.digest is not None:
        found = [one for one in versions if one.run.startswith(meant.digest)]
        if not found:
            raise _missing(catalog, word)
        return _only(word, found)
    place = _only(word, list({one.project: one for one in versions}.values())).project
    if meant.version in (None, LATEST):
        return max(versions, key=lambda one: (not one.trashed, number_of(one) or 0, one.run))
    aliases = aliases_of(catalog, place)
    digest = aliases.get(str(meant.version))
    if digest is None:
        numbers = [str(number) for number in sorted(filter(None, map(number_of, versions)))]
        listed = [*numbers[-_LISTED:], *sorted(aliases)[:_LISTED]]
        raise _missing(catalog, word, f"; {meant.name} has {', '.join(listed)}")
    return next(one for one in versions if one.run == digest)


def _missing(catalog: Catalog, word: str, hint: str = "") -> RunNotFoundError:
    return RunNotFoundError(f"no artifact {word!r:.200} in {catalog.where}{hint}")


def aliases_of(catalog: Catalog, place: str) -> dict[str, str]:
    """Return the digest of the version that has each alias, ``latest`` among them.

    Args:
        catalog: Up to date.
        place: Of an artifact: ``PROJECT/.artifacts/NAME``.
    """
    wanted = Selection(project=place, kind="artifact", trashed=None)
    table = catalog.table(wanted, ["sys/aliases"], lambda _: None)
    rows = zip(table.refs, table.rows, strict=True)
    return {alias: ref[1] for ref, row in rows for alias in row.get("sys/aliases", ())}


def _near(named: list[RunName], project: str | None) -> list[RunName]:
    """Return those of a project, or of one place in it; if it has none, those below it."""
    if project is None:
        return named
    own = [one for one in named if project in (one.project, home_of(one.project))]
    return own or [one for one in named if is_inside(one.project, project)]


def _only(word: str, found: list[RunName]) -> RunName:
    if len(found) > 1:
        listed = ", ".join(map(_label, found[:_LISTED]))
        msg = f"{word!r:.200} may be any of {len(found)}: {listed} (name the project, too)"
        raise ArgumentError(msg)
    return found[0]


def _label(one: RunName) -> str:
    is_artifact = kind_of(*one.ref) == "artifact"
    return f"{home_of(one.project)}/{one.name}" if is_artifact else f"{one.project}/{one.run}"


def number_of(one: RunName) -> int | None:
    """Return the number (1-based) that a version goes by; None if it has none."""
    key = re.escape(model_key(*one.ref))
    found = re.fullmatch(f"{key}[:-]([1-9][0-9]*)", one.name or "")
    return None if found is None else int(found[1])


def _is_exactly(one: RunName, word: str) -> bool:
    if word == one.run:
        return True
    return word == one.name and kind_of(*one.ref) != "model" and number_of(one) is not None


def _ends_with(one: RunName, word: str) -> bool:
    parts, kind = word.split("-"), kind_of(*one.ref)
    if kind == "model_version":
        return len(parts) > 2 and "-".join(parts[-2:]) == one.name  # noqa: PLR2004 - key and number
    return kind == "model" and len(parts) > 1 and parts[-1] == one.run
