"""Columns computed over the child runs of a run, such as ``children/val/acc:mean``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seamark.errors import QueryError
from seamark.reading.attributes import PARENT
from seamark.store import schema
from seamark.store.database import any_of, in_parts, written_out
from seamark.store.query.kinds import CHILDREN, OF_PARTS

if TYPE_CHECKING:
    from seamark.store.runs import Store

__all__ = ["CHILDREN", "columns_of_children", "has_parts"]

_AT_ONCE: Final = 100
_run, _cell = schema.run.c, schema.attribute.c
_AGGREGATES: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "min": min,
    "max": max,
    "mean": lambda numbers: math.fsum(numbers) / len(numbers),
    "count": len,
}

Ref = tuple[str, str]


_PARENTS: Final = (
    sa.select(_run.id, _run.project, _cell.text)
    .join(schema.attribute, _cell.run == _run.id)
    .where(_cell.path == sa.bindparam("path"), _cell.visible == 1, _cell.type == "string")
    .where(_run.trashed == 0, any_of(_cell.text, _AT_ONCE))
)
_NUMBERS: Final = (
    sa.select(_cell.run, _cell.number)
    .where(_cell.path == sa.bindparam("path"), _cell.visible == 1, _cell.number.is_not(None))
    .where(any_of(_cell.run, _AT_ONCE))
)


def children_of(
    store: Store,
    connection: sa.Connection,
    refs: Sequence[Ref],
    is_meant: Callable[[str], bool],
) -> dict[int, int]:
    """Return, by number of each child run in a meant project, the index of its parent."""
    number = store.numbers.number(connection, PARENT)
    places = {ref: at for at, ref in enumerate(refs)}
    words = [word for project, run in refs for word in (run, f"{project}/{run}")]
    found: dict[int, int] = {}
    for some in in_parts(words if number is not None else (), _AT_ONCE):
        for child, project, parent in store.database.rows(
            connection, _PARENTS, path=number, **some
        ):
            above, slash, run = parent.rpartition("/")
            at = places.get((above if slash else project, run))
            if at is not None and is_meant(project):
                found[child] = at
    return found


def has_parts(
    number_of: Callable[[str], int | None],
    projects: Sequence[str],
    path: str,
    aggregate: str,
    holds: Callable[[Any], Any] | None = None,
) -> sa.ColumnElement[bool]:
    """Return the condition that a run has child runs in some projects with numbers at a path.

    ``path`` has `CHILDREN` before it; ``holds`` returns a condition on their aggregate.
    """
    above, number = number_of(PARENT), number_of(path.removeprefix(CHILDREN))
    if above is None or number is None:
        return sa.false()
    part, says, shows = schema.run.alias(), schema.attribute.alias(), schema.attribute.alias()
    named = sa.case(
        (says.c.text.contains("/"), says.c.text),
        else_=part.c.project + "/" + says.c.text,
    )
    # Written out: no engine takes as many parameters as there may be projects.
    each = (
        sa.select(named.label("whole"), shows.c.number.label("number"))
        .select_from(part.join(says, says.c.run == part.c.id))
        .join(shows, shows.c.run == part.c.id)
        .where(says.c.path == above, says.c.visible == 1, says.c.type == "string")
        .where(shows.c.path == number, shows.c.visible == 1, shows.c.number.is_not(None))
        .where(part.c.trashed == 0, part.c.project.in_(written_out(projects)))
        .subquery()  # a database takes an expression with parameters for another each time
    )
    found = sa.select(each.c.whole).group_by(each.c.whole)
    if holds is not None:
        counted = sa.func.avg if aggregate == "mean" else getattr(sa.func, aggregate)
        found = found.having(holds(counted(each.c.number)))
    return (schema.run.c.project + "/" + schema.run.c.name).in_(found)


def columns_of_children(
    store: Store,
    connection: sa.Connection,
    refs: Sequence[Ref],
    wanted: Iterable[tuple[str, str | None]],
    is_meant: Callable[[str], bool],
) -> dict[tuple[str, str | None], list[Any]]:
    """Return a column for each path and aggregate of finite numbers of child runs.

    Paths have `CHILDREN` before them. Raises `QueryError` for an unknown aggregate.
    """
    asked = list(dict.fromkeys(wanted))
    for path, aggregate in asked:
        if aggregate not in OF_PARTS:
            known = ", ".join(f":{name}" for name in OF_PARTS)
            msg = f"column: {path!r:.200}: expected one of {known} behind it"
            raise QueryError(msg)
    children = children_of(store, connection, refs, is_meant) if asked else {}
    numbers: dict[str, list[list[float]]] = {}
    for path, _ in asked:
        if path not in numbers:
            numbers[path] = _numbers(store, connection, path, children, len(refs))
    return {
        (path, aggregate): [
            _AGGREGATES[str(aggregate)](each) if each else None for each in numbers[path]
        ]
        for path, aggregate in asked
    }


def _numbers(
    store: Store, connection: sa.Connection, path: str, children: Mapping[int, int], size: int
) -> list[list[float]]:
    found: list[list[float]] = [[] for _ in range(size)]
    number = store.numbers.number(connection, path.removeprefix(CHILDREN))
    for some in in_parts(children if number is not None else (), _AT_ONCE):
        for run, value in store.database.rows(connection, _NUMBERS, path=number, **some):
            found[children[run]].append(value)
    return found
