"""Tags inherited from projects, and paths that runs share.

Inherited tags are only in the logs of the projects, so a run that is moved inherits the tags of its
new place. If several projects define a key, the outermost project wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seamark.paths import PROJECT_LOG, projects_above
from seamark.reading.catalog import SharedPath
from seamark.store import schema
from seamark.store.cells import FAMILY_NUMBERS, atom_value, decoded
from seamark.store.database import any_of, in_parts

if TYPE_CHECKING:
    from seamark.store.runs import Store

__all__ = ["TAGS", "Inherited", "SharedPath", "holder", "inherited_tags", "shared_paths"]


TAGS: Final = "tags/"
"""Below it are keyed tags."""
_AT_ONCE: Final = 100
_run, _cell, _path = schema.run.c, schema.attribute.c, schema.path.c
_of_projects: Final = (
    _run.name == PROJECT_LOG,
    _run.trashed == 0,
    _cell.visible == 1,
    _cell.family == FAMILY_NUMBERS["atom"],
)


@dataclass(frozen=True, slots=True)
class Inherited:
    """Keyed tag of a project, as stored; ``cells``: type, class, number, whole and text."""

    project: str
    type: str
    value: Any
    cells: tuple[Any, ...]


_values = (_cell.type, _cell["class"], _cell.number, _cell.whole, _cell.text, _cell.registers)
_TAGS_OF: Final = (
    sa.select(_run.project, _path.path, *_values)
    .select_from(
        schema.run.join(schema.attribute, _cell.run == _run.id).join(
            schema.path, _path.id == _cell.path
        )
    )
    .where(
        *_of_projects,
        any_of(_run.project, _AT_ONCE),
        _path.path > TAGS,
        _path.path < TAGS[:-1] + chr(ord("/") + 1),
    )
)


def inherited_tags(
    store: Store, connection: sa.Connection, refs: Iterable[tuple[str, str]]
) -> Iterator[tuple[tuple[str, str], Mapping[str, Inherited]]]:
    """Yield the inherited tags of containers by path, where there are any."""
    above = {ref: projects_above(*ref) for ref in dict.fromkeys(refs)}
    projects = sorted({one for found in above.values() for one in found})
    said: dict[str, dict[str, Inherited]] = {}
    for some in in_parts(projects, _AT_ONCE):
        for project, path, *cells in store.database.rows(connection, _TAGS_OF, **some):
            kind, klass, number, whole, text, registers = cells
            value = decoded(kind, atom_value(kind, klass, number, whole, text, registers))
            one = Inherited(project, kind, value, (kind, klass, number, whole, text))
            said.setdefault(project, {})[path] = one
    for ref, found in above.items() if said else ():
        tags: dict[str, Inherited] = {}
        for project in reversed(found):
            tags |= said.get(project, {})
        if tags:
            yield ref, tags


def holder(store: Store, connection: sa.Connection, path: str) -> sa.ColumnElement[Any]:
    """Return the row with the value of a path for each run: its own, or that of a project above."""
    if not path.startswith(TAGS):
        return _run.id
    number = store.numbers.number(connection, path)
    statement = (
        sa.select(_run.project, _run.id)
        .join(schema.attribute, _cell.run == _run.id)
        .where(*_of_projects, _cell.path == number)
        .order_by(_run.project)
    )
    rows = [] if number is None else store.database.query(connection, statement)
    others = dict(rows)
    upper = {
        project: at
        for project, at in rows
        if others.keys().isdisjoint(projects_above(project, PROJECT_LOG))
    }
    if not upper:
        return _run.id
    return sa.case(*((_within(project), at) for project, at in upper.items()), else_=_run.id)


def _within(project: str) -> sa.ColumnElement[bool]:
    # By the order of code points.
    below = sa.and_(_run.project >= f"{project}/", _run.project < f"{project}0")
    return sa.or_(_run.project == project, below)


SAMPLE: Final = 50
"""Of how many runs, the first ones, the paths are looked at."""
_TYPES: Final = ("int", "float", "bool", "string", "float_series")


def shared_paths(
    store: Store, connection: sa.Connection, numbers: Sequence[int], sample: int = SAMPLE
) -> list[SharedPath]:
    """Return the paths of the first runs of a selection, counted by the database."""
    row = schema.attribute.c
    shown = (row["class"], row.number, row.text, row.type)
    spread = [each(column) for column in shown for each in (sa.func.min, sa.func.max)]
    length = sa.func.max(sa.func.coalesce(sa.func.length(row.text), 0))
    statement = (
        sa.select(row.path, sa.func.count(), length, *spread)
        .where(row.run.in_(numbers[:sample]), row.visible == 1, row.type.in_(_TYPES))
        .group_by(row.path)
    )
    rows = store.database.query(connection, statement) if numbers else []
    paths = store.numbers.paths(connection, [number for number, *_ in rows])
    return [
        SharedPath(
            paths[number],
            "float_series" in least_and_most[-2:],
            runs,
            any(least_and_most[at] != least_and_most[at + 1] for at in range(0, 8, 2)),
            longest,
        )
        for number, runs, longest, *least_and_most in rows
    ]
