"""The numbers of versions of models and artifacts, and the aliases of artifacts.

Each version recorded the number that it took. In merged folders two may have taken one: the first
keeps it, each other gets the next free number above its own. This is not recorded, but every reader
of the same versions computes the same numbers. An alias belongs to the version that got it last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seamark.journal.reservations import MOST_NUMBER
from seamark.paths import kind_of
from seamark.store import schema
from seamark.store.database import any_of, in_parts

if TYPE_CHECKING:
    from seamark.store.runs import Store

__all__ = ["ALIASES", "VERSION", "moved_versions", "version_aliases", "version_numbers"]

VERSION: Final = "sys/version"
"""Where a version has its number."""
ALIASES: Final = "sys/aliases"
"""Where readers derive which aliases an artifact has."""
_GIVEN: Final = "aliases/"
"""Below which it says which it was given."""
_KINDS: Final = ("model_version", "artifact")
_AT_ONCE: Final = 100
_run, _cell, _journal = schema.run.c, schema.attribute.c, schema.journal.c


def _claims(kind: str) -> sa.Select[Any]:
    here = sa.and_(
        _cell.run == _run.id,
        _cell.path == sa.bindparam("path"),
        _cell.visible == 1,
        _cell.type == kind,
    )
    by = sa.and_(_journal.run == _run.id, _journal.number == _cell.writer)
    return (
        sa.select(_run.project, _run.name, _cell.whole, _cell.t, _journal.uid, _cell.place)
        .select_from(schema.run.join(schema.attribute, here).outerjoin(schema.journal, by))
        .where(sa.or_(*(_run.kind == kind for kind in _KINDS)), any_of(_run.project, _AT_ONCE))
    )


_CLAIMS: Final = _claims("int")
_ALIASES: Final = _claims("bool")
_MODELS: Final = sa.select(_run.project).where(_run.kind == "model_version").distinct()
_TRASHED: Final = sa.select(_run.project, _run.name).where(
    _run.kind == "artifact", _run.trashed == 1
)


def version_numbers(
    store: Store, connection: sa.Connection, refs: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    """Return the 1-based numbers of all versions of the same models or artifacts."""
    return {
        (project, version): number
        for project, found in _numbered(store, connection, _places(refs)).items()
        for version, number in _assigned_numbers(found).items()
    }


def moved_versions(store: Store, connection: sa.Connection) -> dict[str, int]:
    """Return the numbers of model versions that differ from the recorded ones, by id."""
    models = sorted(str(project) for (project,) in store.database.rows(connection, _MODELS))
    moved: dict[str, int] = {}
    for found in _numbered(store, connection, models).values():
        recorded = {claim[0]: claim[1] for claim in found}
        numbers = _assigned_numbers(found).items()
        moved |= {version: number for version, number in numbers if number != recorded[version]}
    return moved


def version_aliases(
    store: Store, connection: sa.Connection, refs: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], list[str]]:
    """Return the aliases of all versions of the same artifacts, sorted.

    The one with the greatest number, of those that are not in the trash, is the ``latest``.
    """
    refs = [ref for ref in refs if kind_of(*ref) == "artifact"]
    if not refs:
        return {}
    places = _places(refs)
    aliases: dict[tuple[str, str], list[str]] = {}
    for path, number in store.numbers.everything(connection).items():
        if path.startswith(_GIVEN):
            for project, found in _found(store, connection, _ALIASES, number, places).items():
                last = max((one for one in found if one[1]), key=_order, default=None)
                if last is not None:
                    aliases.setdefault((project, last[0]), []).append(path[len(_GIVEN) :])
    trashed = {tuple(row) for row in store.database.rows(connection, _TRASHED)}
    latest: dict[str, tuple[int, str]] = {}
    for (project, version), number in version_numbers(store, connection, refs).items():
        if (project, version) not in trashed:
            latest[project] = max((number, version), latest.get(project, (0, "")))
    for project, (_, version) in latest.items():
        aliases.setdefault((project, version), []).append("latest")
    return {ref: sorted(found) for ref, found in aliases.items()}


def _places(refs: Iterable[tuple[str, str]]) -> list[str]:
    return sorted({project for project, run in refs if kind_of(project, run) in _KINDS})


def _numbered(
    store: Store, connection: sa.Connection, places: Sequence[str]
) -> dict[str, list[tuple[Any, ...]]]:
    number = store.numbers.number(connection, VERSION)
    return _found(store, connection, _CLAIMS, -1 if number is None else number, places)


def _found(
    store: Store,
    connection: sa.Connection,
    statement: sa.Select[Any],
    path: int,
    places: Sequence[str],
) -> dict[str, list[tuple[Any, ...]]]:
    claims: dict[str, list[tuple[Any, ...]]] = {}
    for some in in_parts(places, _AT_ONCE):
        for project, *claim in store.database.rows(connection, statement, path=path, **some):
            claims.setdefault(project, []).append(tuple(claim))
    return claims


def _assigned_numbers(claims: Iterable[tuple[Any, ...]]) -> Mapping[str, int]:
    numbers: dict[str, int] = {}
    late: list[tuple[str, int]] = []
    taken: set[int] = set()
    for version, number, *_ in sorted(claims, key=_order):
        if number is None or not 0 < number <= MOST_NUMBER:
            continue
        if number in taken:
            late.append((version, number))
        taken.add(number)
        numbers.setdefault(version, number)
    for version, number in late:
        free = number + 1
        while free in taken:
            free += 1
        taken.add(free)
        numbers[version] = free
    return numbers


def _order(claim: tuple[Any, ...]) -> tuple[Any, ...]:
    version, _, at, uid, place = claim
    return at or 0, bytes(uid or b""), place or 0, version
