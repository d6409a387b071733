"""Names of runs, version numbers of models and artifacts, and paths of runs.

Each version records its number. In merged folders, several versions may have the same number: the
first one keeps it, and each other gets the next free number above its own. New numbers are not
recorded, but all readers of the versions compute the same. An alias belongs to the version that got
it last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from seamark.journal.reservations import MAX_NUMBER
from seamark.paths import kind_of, model_key
from seamark.reading.catalog import Ref, RunField
from seamark.reading.names import RunName, generated_name
from seamark.store import schema
from seamark.store.cells import FAMILY_NUMBERS, NUMBER_FAMILIES
from seamark.store.database import among
from seamark.store.query.validation import in_projects
from seamark.store.runs import Store, numbers_of

VERSION: Final = "sys/version"
"""Path of the version number."""
ALIASES: Final = "sys/aliases"
"""Path of the aliases of an artifact version; derived by readers."""
_ALIAS_PREFIX: Final = "aliases/"
"""Namespace of assigned aliases in a version."""
_KINDS: Final = ("model_version", "artifact")
_run: Final = schema.run.c
_cell, _journal = schema.attribute.c, schema.journal.c


def _select_claims(kind: str) -> sa.Select[Any]:
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
        .where(sa.or_(*(_run.kind == kind for kind in _KINDS)), among(_run.project))
    )


_CLAIMS: Final = _select_claims("int")
_ALIASES: Final = _select_claims("bool")
_MODELS: Final = sa.select(_run.project).where(_run.kind == "model_version").distinct()
_TRASHED: Final = sa.select(_run.project, _run.name).where(
    _run.kind == "artifact", _run.trashed == 1
)


def version_numbers(
    store: Store, connection: sa.Connection, refs: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    """Return the 1-based numbers of all versions of the models or artifacts of these versions."""
    return {
        (project, version): number
        for project, found in _load_number_claims(store, connection, _version_places(refs)).items()
        for version, number in _assigned_numbers(found).items()
    }


def moved_versions(store: Store, connection: sa.Connection) -> dict[str, int]:
    """Return the numbers of model versions that differ from the recorded numbers, by id."""
    models = sorted(str(project) for (project,) in store.database.rows(connection, _MODELS))
    moved: dict[str, int] = {}
    for found in _load_number_claims(store, connection, models).values():
        recorded = {claim[0]: claim[1] for claim in found}
        numbers = _assigned_numbers(found).items()
        moved |= {version: number for version, number in numbers if number != recorded[version]}
    return moved


def version_aliases(
    store: Store, connection: sa.Connection, refs: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], list[str]]:
    """Return the sorted aliases of all versions of the artifacts of these versions.

    The version with the greatest number that is not in the trash has the alias ``latest``.
    """
    refs = [ref for ref in refs if kind_of(*ref) == "artifact"]
    if not refs:
        return {}
    places = _version_places(refs)
    aliases: dict[tuple[str, str], list[str]] = {}
    for path, number in store.numbers.everything(connection).items():
        if path.startswith(_ALIAS_PREFIX):
            for project, found in _load_claims(store, connection, _ALIASES, number, places).items():
                last = max((one for one in found if one[1]), key=_claim_order, default=None)
                if last is not None:
                    aliases.setdefault((project, last[0]), []).append(path[len(_ALIAS_PREFIX) :])
    trashed = {tuple(row) for row in store.database.rows(connection, _TRASHED)}
    latest: dict[str, tuple[int, str]] = {}
    for (project, version), number in version_numbers(store, connection, refs).items():
        if (project, version) not in trashed:
            latest[project] = max((number, version), latest.get(project, (0, "")))
    for project, (_, version) in latest.items():
        aliases.setdefault((project, version), []).append("latest")
    return {ref: sorted(found) for ref, found in aliases.items()}


def _version_places(refs: Iterable[tuple[str, str]]) -> list[str]:
    return sorted({project for project, run in refs if kind_of(project, run) in _KINDS})


def _load_number_claims(
    store: Store, connection: sa.Connection, places: Sequence[str]
) -> dict[str, list[tuple[Any, ...]]]:
    number = store.numbers.number(connection, VERSION)
    return _load_claims(store, connection, _CLAIMS, number, places)


def _load_claims(
    store: Store,
    connection: sa.Connection,
    statement: sa.Select[Any],
    path: int | None,
    places: Sequence[str],
) -> dict[str, list[tuple[Any, ...]]]:
    claims: dict[str, list[tuple[Any, ...]]] = {}
    rows = store.database.rows(connection, statement, path=path, at=list(places))
    for project, *claim in rows:
        claims.setdefault(project, []).append(tuple(claim))
    return claims


def _assigned_numbers(claims: Iterable[tuple[Any, ...]]) -> Mapping[str, int]:
    numbers: dict[str, int] = {}
    late: list[tuple[str, int]] = []
    taken: set[int] = set()
    for version, number, *_ in sorted(claims, key=_claim_order):
        if number is None or not 0 < number <= MAX_NUMBER:
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


def _claim_order(claim: tuple[Any, ...]) -> tuple[Any, ...]:
    version, _, at, uid, place = claim
    return at or 0, bytes(uid or b""), place or 0, version


_MARGIN_NS: Final = 60 * 10**9
"""Margin for different clocks and transfer times, in nanoseconds."""
_row: Final = schema.attribute.c
_RECENT: Final = sa.select(_row.run, _row.path).where(
    among(_row.run), _row.t >= sa.bindparam("since")
)


def recent_paths(
    store: Store, connection: sa.Connection, refs: Sequence[tuple[str, str]], since_ns: int
) -> dict[tuple[str, str], list[str]]:
    """Return the sorted paths recorded since a time (ns), or up to a minute earlier, by run."""
    numbers = numbers_of(store, connection, refs)
    since = since_ns - _MARGIN_NS
    found: dict[tuple[str, str], set[int]] = {}
    for run, path in store.database.rows(connection, _RECENT, at=list(numbers), since=since):
        found.setdefault(numbers[run], set()).add(path)
    names = store.numbers.paths(connection, set().union(*found.values()))
    return {ref: sorted(names[path] for path in paths) for ref, paths in found.items()}


_LONG_TEXT: Final = sa.case((_row.type == "text", _row.registers))
"""Record of a text that is too long for the column; NULL for other types."""
_SHOWN: Final = (_row.type, _row["class"], _row.number, _row.whole, _row.text, _LONG_TEXT)
_SPREAD: Final = [each(column) for column in _SHOWN for each in (sa.func.min, sa.func.max)]
_FIELDS: Final = (
    sa.select(_row.path, _row.family, sa.func.count(), *_SPREAD)
    .where(_row.visible == 1, among(_row.run))
    .group_by(_row.path, _row.family)
)
_element: Final = schema.element.c
_ELEMENTS: Final = sa.select(_element.run, _element.path, _element.value).where(
    among(_element.run, name="runs"), among(_element.path, name="paths")
)


def run_fields(
    store: Store, connection: sa.Connection, numbers: Sequence[int], contains: str = ""
) -> list[RunField]:
    """Return the fields of runs whose path contains a text (case-insensitive), sorted by path."""
    rows = store.database.rows(connection, _FIELDS, at=list(numbers))
    names = store.numbers.paths(connection, {row[0] for row in rows})
    rows = [row for row in rows if contains.lower() in names[row[0]].lower()]
    sets = {path for path, family, *_ in rows if family == FAMILY_NUMBERS["string_set"]}
    elements = _load_elements(store, connection, numbers, sets)
    fields = [
        RunField(
            names[path],
            NUMBER_FAMILIES[family],
            int(count),
            count < len(numbers) or spread[::2] != spread[1::2] or len(elements.get(path, ())) > 1,
        )
        for path, family, count, *spread in rows
    ]
    # A path with different families in several runs has a field for each family, marked as
    # differing.
    fields.sort(key=lambda one: (one.path, one.family))
    return fields


def _load_elements(
    store: Store, connection: sa.Connection, numbers: Sequence[int], paths: set[int]
) -> dict[int, set[frozenset[str]]]:
    found: dict[int, dict[int, set[str]]] = {path: {} for path in paths}
    rows = store.database.rows(connection, _ELEMENTS, runs=list(numbers), paths=list(paths))
    for run, path, value in rows:
        found[path].setdefault(run, set()).add(value)
    return {
        path: {frozenset(by_run.get(number, ())) for number in numbers}
        for path, by_run in found.items()
    }


_NAME: Final = "sys/name"
_SEPARATORS: Final = {"model_version": "-", "artifact": ":"}
"""Separators between a name and a version number."""


def _select_names(path: int | None, kind: str) -> sa.Select[Any]:
    here = sa.and_(_row.run == _run.id, _row.path == path, _row.visible == 1, _row.type == "string")
    return (
        sa.select(_run.project, _run.name, _row.text, _run.created, _run.trashed, _run.sys_id)
        .select_from(schema.run.outerjoin(schema.attribute, here))
        .where(_run.kind == kind)
    )


_GIVEN_NAMES: Final = sa.select(_row.run, _row.text).where(
    among(_row.run), _row.path == sa.bindparam("path"), _row.visible == 1, _row.type == "string"
)


def names_of(store: Store, connection: sa.Connection, refs: Sequence[Ref]) -> list[str]:
    """Return the assigned or generated names of runs, in the given order."""
    number, runs = store.numbers.number(connection, _NAME), numbers_of(store, connection, refs)
    rows = store.database.rows(connection, _GIVEN_NAMES, path=number, at=list(runs))
    given = {runs[run]: name for run, name in rows}
    return [given.get(ref) or generated_name(ref[1]) for ref in refs]


def run_names(
    store: Store,
    connection: sa.Connection,
    is_meant: Callable[[str], bool] | None = None,
    kind: str = "run",
) -> list[RunName]:
    """Return the names of all runs of accepted projects, newest first; versions as ``RESNET-3``."""
    path = store.numbers.number(connection, _NAME)
    names, within = _select_names(path, kind), in_projects(store, connection, is_meant)
    rows = store.database.query(connection, names if within is None else names.where(within))
    found = [
        RunName(project, run, name, created, bool(trashed), sys_id)
        for project, run, name, created, trashed, sys_id in rows
    ]
    if kind in _SEPARATORS:
        numbers = version_numbers(store, connection, [one.ref for one in found])
        found = [
            one._replace(name=f"{model_key(*one.ref)}{_SEPARATORS[kind]}{numbers[one.ref]}")
            if one.ref in numbers
            else one
            for one in found
        ]
    return sorted(found, key=lambda one: (-one.created_ns, one.ref))
