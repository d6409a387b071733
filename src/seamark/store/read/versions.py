"""The numbers that the versions of a model or an artifact go by, and the aliases of the latter.

Each version recorded the number that it took. Where folders were merged, two may have taken one:
then the one that recorded it first keeps it, and each other goes by the next number above its own
that is free. Nothing is written for it: whoever reads the same versions sees the same numbers.

An alias is that of the version to which it was given last.
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
    """Return a question for what each version of some models or artifacts claimed, and when.

    Args:
        kind: Of the value that says it.
    """
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
    """Return the numbers (1-based) of all versions of what some versions are of.

    Those that recorded none that can be one have none.

    Args:
        store: Which has them.
        connection: Of a transaction of the store.
        refs: Place and id of versions; see `seamark.paths.kind_of`.
    """
    return {
        (project, version): number
        for project, found in _numbered(store, connection, _places(refs)).items()
        for version, number in _assigned_numbers(found).items()
    }


def moved_versions(store: Store, connection: sa.Connection) -> dict[str, int]:
    """Return the numbers of those versions of models that go by another than they recorded, by ids.

    Args:
        store: Which has them.
        connection: Of a transaction of the store.
    """
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
    """Return the aliases of all versions of what some artifacts are versions of, sorted.

    The one with the greatest number, of those that are not in the trash, is the ``latest``.

    Args:
        store: Which has them.
        connection: Of a transaction of the store.
        refs: Place and digest of artifacts; see `seamark.paths.kind_of`.
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
    """Return the places of what some versions are of, each once."""
    return sorted({project for project, run in refs if kind_of(project, run) in _KINDS})


def _numbered(
    store: Store, connection: sa.Connection, places: Sequence[str]
) -> dict[str, list[tuple[Any, ...]]]:
    """Return which numbers were claimed, by the place of what they are versions of."""
    number = store.numbers.number(connection, VERSION)
    return _found(store, connection, _CLAIMS, -1 if number is None else number, places)


def _found(
    store: Store,
    connection: sa.Connection,
    statement: sa.Select[Any],
    path: int,
    places: Sequence[str],
) -> dict[str, list[tuple[Any, ...]]]:
    """Return the claims by the place of what they are versions of."""
    claims: dict[str, list[tuple[Any, ...]]] = {}
    for some in in_parts(places, _AT_ONCE):
        for project, *claim in store.database.rows(connection, statement, path=path, **some):
            claims.setdefault(project, []).append(tuple(claim))
    return claims


def _assigned_numbers(claims: Iterable[tuple[Any, ...]]) -> Mapping[str, int]:
    """Return the number of each version of one model that took one."""
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
    """Return what sorts claims by their keys: time, journal, place in it."""
    version, _, at, uid, place = claim
    return at or 0, bytes(uid or b""), place or 0, version
