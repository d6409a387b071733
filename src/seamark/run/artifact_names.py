"""Finding the version of an artifact that a person means; see `seamark.reading.artifacts`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ArgumentError, RunNotFoundError
from seamark.paths import ARTIFACTS, home_of, is_inside
from seamark.reading.artifacts import ArtifactName
from seamark.reading.names import LATEST

if TYPE_CHECKING:
    from seamark.reading.catalog import Catalog, Ref

__all__ = ["find_artifact", "rows_of"]

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_LISTED: Final = 8
_COLUMNS: Final = ("sys/version", "sys/aliases", "sys/trashed")


def rows_of(catalog: Catalog, place: str) -> dict[str, dict[str, Any]]:
    """Return number, aliases and whether it is in the trash of each version, by digest.

    Args:
        catalog: Up to date.
        place: Of an artifact: ``PROJECT/.artifacts/NAME``.
    """

    def unknown(_: Exception) -> None:
        """Nobody gave an alias so far."""

    from seamark.store.query.selection import Selection

    selection = Selection(project=place, kind="artifact", trashed=None)
    table = catalog.table(selection, list(_COLUMNS), unknown)
    return {ref[1]: dict(row) for ref, row in zip(table.refs, table.rows, strict=True)}


def find_artifact(catalog: Catalog, word: str, project: str | None = None) -> Ref:
    """Return place and digest of the version that a word means.

    Args:
        catalog: Of the place that is searched, up to date.
        word: What a person gave; see the module. A whole digest is one, too.
        project: Only of this project, or, where it has none, of those below it; None for all.

    Raises:
        RunNotFoundError: If nothing is meant; what there is, is named.
        ArgumentError: If several may be; they are listed.
    """
    refs = catalog.runs(None, "artifact")
    if _DIGEST.fullmatch(word):
        return _only([ref for ref in refs if ref[1] == word], word, catalog, project)
    meant = ArtifactName.of(word)
    if meant is None:
        raise _nothing(word, catalog, "")
    places = sorted({place for place, _ in refs if place.rpartition("/")[2] == meant.name})
    places = _chosen(places, meant.project or project, strictly=meant.project is not None)
    if not places:
        known = sorted({place.rpartition("/")[2] for place, _ in refs})
        hint = f"; there are {', '.join(known[:_LISTED])}" if known else ""
        raise _nothing(word, catalog, hint)
    if len(places) > 1:
        listed = ", ".join(f"{home_of(place)}/{meant.name}" for place in places[:_LISTED])
        msg = f"{word!r:.200} may be any of {len(places)}: {listed} (name the project, too)"
        raise ArgumentError(msg)
    return places[0], _version(catalog, word, places[0], meant)


def _chosen(places: Iterable[str], project: str | None, *, strictly: bool) -> list[str]:
    places = list(places)
    near = [place for place in places if home_of(place) == project]
    if near or project is None:
        return near or places
    below = [place for place in places if is_inside(home_of(place), project)]
    return below if below or not strictly else []


def _version(catalog: Catalog, word: str, place: str, meant: ArtifactName) -> str:
    rows = rows_of(catalog, place)
    if meant.digest is not None:
        begun = [(place, digest) for digest in rows if digest.startswith(meant.digest)]
        return _only(begun, word, catalog, None)[1]
    living = {digest: row for digest, row in rows.items() if not row.get("sys/trashed")}
    numbers = {digest: row.get("sys/version") or 0 for digest, row in (living or rows).items()}
    if meant.version in (None, LATEST):
        return max(numbers, key=lambda digest: (numbers[digest], digest))
    version = str(meant.version)
    if version.isdecimal():
        found = [each for each, row in rows.items() if row.get("sys/version") == int(version)]
    else:
        found = [each for each, row in rows.items() if version in row.get("sys/aliases", ())]
    if not found:
        aliases = {one for row in rows.values() for one in row.get("sys/aliases", ())}
        there = [str(number) for number in sorted(filter(None, numbers.values()))]
        listed = [*there[-_LISTED:], *sorted(aliases)[:_LISTED]]
        raise _nothing(word, catalog, f"; {meant.name} has {', '.join(listed)}")
    return found[0]


def _only(found: list[Ref], word: str, catalog: Catalog, project: str | None) -> Ref:
    near = [ref for ref in found if home_of(ref[0]) == project] or found
    if not near:
        raise _nothing(word, catalog, "")
    if len(near) > 1:
        listed = ", ".join("@sha256:".join(ref) for ref in near[:_LISTED])
        listed = listed.replace(f"/{ARTIFACTS}", "")
        msg = f"{word!r:.200} may be any of {len(near)}: {listed}"
        raise ArgumentError(msg)
    return near[0]


def _nothing(word: str, catalog: Catalog, hint: str) -> RunNotFoundError:
    return RunNotFoundError(f"no artifact {word!r:.200} in {catalog.where}{hint}")
