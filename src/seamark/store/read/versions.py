"""The numbers that the versions of a model go by.

Each version recorded the number that it took. Where folders were merged, two may have taken one:
then the one that recorded it first keeps it, and each other goes by the next number above its own
that is free. Nothing is written for it: whoever reads the same versions sees the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seamark.journal.numbers import MOST_NUMBER
from seamark.paths import kind_of
from seamark.store import schema
from seamark.store.runs import filled

if TYPE_CHECKING:
    from seamark.store.runs import Store

__all__ = ["VERSION", "version_numbers"]

VERSION: Final = "sys/version"
"""Where a version of a model has its number."""
_AT_ONCE: Final = 100
_run, _cell, _journal = schema.run.c, schema.attribute.c, schema.journal.c


def _claims() -> sa.Select[Any]:
    """Return a question for what number each version of some models took, and when."""
    here = sa.and_(
        _cell.run == _run.id,
        _cell.path == sa.bindparam("path"),
        _cell.visible == 1,
        _cell.type == "int",
    )
    by = sa.and_(_journal.run == _run.id, _journal.number == _cell.writer)
    some: list[Any] = [sa.bindparam(f"at{place}") for place in range(_AT_ONCE)]
    return (
        sa.select(_run.project, _run.name, _cell.whole, _cell.t, _journal.uid, _cell.place)
        .select_from(schema.run.join(schema.attribute, here).outerjoin(schema.journal, by))
        .where(_run.kind == "model_version", _run.project.in_(some))
    )


_CLAIMS: Final = _claims()


def version_numbers(
    store: Store, connection: sa.Connection, refs: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    """Return the numbers (1-based) of all versions of the models that some versions are of.

    Those that recorded none that can be one have none.

    Args:
        store: Which has them.
        connection: Of a transaction of the store.
        refs: Place and id of versions; see `seamark.paths.kind_of`.
    """
    models = sorted({project for project, run in refs if kind_of(project, run) == "model_version"})
    number = store.numbers.number(connection, VERSION)
    path = -1 if number is None else number
    claims: dict[str, list[tuple[Any, ...]]] = {}
    for start in range(0, len(models), _AT_ONCE):
        some = filled(models[start : start + _AT_ONCE], _AT_ONCE)
        for project, *claim in store.database.rows(connection, _CLAIMS, path=path, **some):
            claims.setdefault(project, []).append(tuple(claim))
    return {
        (project, version): number
        for project, found in claims.items()
        for version, number in _settled(found).items()
    }


def _settled(claims: Iterable[tuple[Any, ...]]) -> Mapping[str, int]:
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
