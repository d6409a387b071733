"""Values of other runs: tags of projects, columns over child runs, and points before a fork.

Inherited tags are stored only in the logs of projects, so a moved run inherits the tags of its new
location. If several projects define a key, the outermost project has precedence.

The points of a fork's parent are read from the parent and never copied: a series begins with the
points of the parent up to the step of the fork. Own points that begin earlier replace those of the
parent, so that copied points are not shown twice. The name of the parent is untrusted. It is looked
up only in the project of the fork, because readers of one run may read all runs of its project, and
no run is visited twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from seamark.errors import QueryError
from seamark.journal.folder import hashed_run_id
from seamark.journal.safe import Source
from seamark.paths import PROJECT_LOG, projects_above
from seamark.reading.attributes import PARENT
from seamark.reading.catalog import Ref, SharedPath
from seamark.store import schema
from seamark.store.cells import FAMILY_NUMBERS, NUMBER_FAMILIES, atom_value, decoded
from seamark.store.database import among, as_literals
from seamark.store.fold.registers import NEVER, Key
from seamark.store.fold.run_state import Fork
from seamark.store.query.kinds import CHILD_AGGREGATES, CHILDREN, SERIES
from seamark.store.runs import Store, StoredRun, load_many

TAGS: Final = "tags/"
"""Namespace of keyed tags."""
_run, _cell = schema.run.c, schema.attribute.c
_path = schema.path.c
_of_projects: Final = (
    _run.name == PROJECT_LOG,
    _run.trashed == 0,
    _cell.visible == 1,
    _cell.family == FAMILY_NUMBERS["atom"],
)


@dataclass(frozen=True, slots=True)
class Inherited:
    """Keyed tag of a project."""

    project: str
    type: str
    value: Any


_values = (_cell.type, _cell["class"], _cell.number, _cell.whole, _cell.text, _cell.registers)
_SELECT_TAGS: Final = (
    sa.select(_run.project, _path.path, *_values)
    .select_from(
        schema.run.join(schema.attribute, _cell.run == _run.id).join(
            schema.path, _path.id == _cell.path
        )
    )
    .where(
        *_of_projects,
        among(_run.project),
        _path.path > TAGS,
        _path.path < TAGS[:-1] + chr(ord("/") + 1),
    )
)


def inherited_tags(
    store: Store, connection: sa.Connection, refs: Iterable[tuple[str, str]]
) -> Iterator[tuple[tuple[str, str], Mapping[str, Inherited]]]:
    """Yield each container that has inherited tags, with these tags by path."""
    above = {ref: projects_above(*ref) for ref in dict.fromkeys(refs)}
    projects = sorted({one for found in above.values() for one in found})
    by_project: dict[str, dict[str, Inherited]] = {}
    for project, path, kind, *cells in store.database.rows(connection, _SELECT_TAGS, at=projects):
        one = Inherited(project, kind, decoded(kind, atom_value(kind, *cells)))
        by_project.setdefault(project, {})[path] = one
    for ref, found in above.items() if by_project else ():
        tags: dict[str, Inherited] = {}
        for project in reversed(found):
            tags |= by_project.get(project, {})
        if tags:
            yield ref, tags


def holder(store: Store, connection: sa.Connection, path: str) -> sa.ColumnElement[Any]:
    """Return an SQL expression for the row with a path's value: the run's or a parent project's."""
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
    return sa.case(*((_in_project(project), at) for project, at in upper.items()), else_=_run.id)


def _in_project(project: str) -> sa.ColumnElement[bool]:
    # Texts sort by code point; "0" follows "/".
    below = sa.and_(_run.project >= f"{project}/", _run.project < f"{project}0")
    return sa.or_(_run.project == project, below)


SAMPLE: Final = 50
"""Number of the first runs whose paths are examined."""
_TYPES: Final = ("int", "float", "bool", "string", "float_series")


def shared_paths(
    store: Store, connection: sa.Connection, numbers: Sequence[int], sample: int = SAMPLE
) -> list[SharedPath]:
    """Return the paths of the first runs of a selection, with counts computed by the database."""
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


_AGGREGATES: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "min": min,
    "max": max,
    "mean": lambda numbers: math.fsum(numbers) / len(numbers),
    "count": len,
}
_PARENTS: Final = (
    sa.select(_run.id, _run.project, _cell.text)
    .join(schema.attribute, _cell.run == _run.id)
    .where(_cell.path == sa.bindparam("path"), _cell.visible == 1, _cell.type == "string")
    .where(_run.trashed == 0, among(_cell.text))
)
_NUMBERS: Final = (
    sa.select(_cell.run, _cell.number)
    .where(_cell.path == sa.bindparam("path"), _cell.visible == 1, _cell.number.is_not(None))
    .where(among(_cell.run))
)


def children_of(
    store: Store,
    connection: sa.Connection,
    refs: Sequence[Ref],
    is_meant: Callable[[str], bool],
) -> dict[int, int]:
    """Return the parent's index in ``refs`` by number of each child run in accepted projects."""
    number = store.numbers.number(connection, PARENT)
    places = {ref: at for at, ref in enumerate(refs)}
    words = [word for project, run in refs for word in (run, f"{project}/{run}")]
    found: dict[int, int] = {}
    rows = store.database.rows(connection, _PARENTS, path=number, at=words)
    for child, project, parent in rows:
        above, slash, run = parent.rpartition("/")
        at = places.get((above if slash else project, run))
        if at is not None and is_meant(project):
            found[child] = at
    return found


def has_children(
    number_of: Callable[[str], int | None],
    projects: Sequence[str],
    path: str,
    aggregate: str,
    holds: Callable[[Any], Any] | None = None,
) -> sa.ColumnElement[bool]:
    """Return the condition that a run has child runs in these projects with numbers at a path.

    ``path`` starts with `CHILDREN`; ``holds`` returns a condition on the aggregate of the numbers.
    """
    above, number = number_of(PARENT), number_of(path.removeprefix(CHILDREN))
    if above is None or number is None:
        return sa.false()
    part, parent_row, value_row = (
        schema.run.alias(),
        schema.attribute.alias(),
        schema.attribute.alias(),
    )
    named = sa.case(
        (parent_row.c.text.contains("/"), parent_row.c.text),
        else_=part.c.project + "/" + parent_row.c.text,
    )
    each = (
        sa.select(named.label("whole"), value_row.c.number.label("number"))
        .select_from(part.join(parent_row, parent_row.c.run == part.c.id))
        .join(value_row, value_row.c.run == part.c.id)
        .where(parent_row.c.path == above, parent_row.c.visible == 1, parent_row.c.type == "string")
        .where(
            value_row.c.path == number, value_row.c.visible == 1, value_row.c.number.is_not(None)
        )
        .where(part.c.trashed == 0, part.c.project.in_(as_literals(projects)))
        .subquery()  # databases treat equal expressions with parameters as different
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
    """Return a column of aggregates of the finite numbers of child runs, by path and aggregate.

    Paths start with `CHILDREN`. Raises `QueryError` for an unknown aggregate.
    """
    asked = list(dict.fromkeys(wanted))
    for path, aggregate in asked:
        if aggregate not in CHILD_AGGREGATES:
            known = ", ".join(f":{name}" for name in CHILD_AGGREGATES)
            raise QueryError(f"column: expected one of {known} after {path!r:.200}")
    children = children_of(store, connection, refs, is_meant) if asked else {}
    numbers: dict[str, list[list[float]]] = {}
    for path, _ in asked:
        if path not in numbers:
            numbers[path] = _load_numbers(store, connection, path, children, len(refs))
    return {
        (path, aggregate): [
            _AGGREGATES[str(aggregate)](each) if each else None for each in numbers[path]
        ]
        for path, aggregate in asked
    }


def _load_numbers(
    store: Store, connection: sa.Connection, path: str, children: Mapping[int, int], size: int
) -> list[list[float]]:
    found: list[list[float]] = [[] for _ in range(size)]
    number = store.numbers.number(connection, path.removeprefix(CHILDREN))
    for run, value in store.database.rows(connection, _NUMBERS, path=number, at=list(children)):
        found[children[run]].append(value)
    return found


Sources = Callable[[str], "Source"]
"""Function that opens a journal by its file name.

Raises:
    OSError: If it cannot be opened.
"""
GENERATIONS: Final = 100
"""Maximum number of runs in a chain of forks."""
_NOT_INHERITED: Final = ("monitoring/", "profiling/", "sys/")
"""Namespaces of a process and its machine; their steps are not training steps."""
_series = schema.series.c
_SELECT_VISIBLE: Final = (
    sa.select(_cell.path, _cell.family, _series.first_step, _cell.t)
    .join(
        schema.series,
        sa.and_(
            _series.run == _cell.run,
            _series.path == _cell.path,
            _series.family == _cell.family,
        ),
        isouter=True,
    )
    .where(_cell.run == sa.bindparam("run"), _cell.visible == 1)
)
_SELECT_VISIBLE_AT: Final = _SELECT_VISIBLE.where(among(_cell.path))


class Ancestor(NamedTuple):
    """Ancestor of a fork, and the step at which its descendant was forked from it."""

    run: StoredRun
    step: float


@dataclass(frozen=True, slots=True)
class Share:
    """Part of several series that is read from one run: the run itself or an ancestor.

    Attributes:
        run: Loaded run; its journals are not read beyond their folded offsets.
        attempt: Result of `seamark.reading.points.check_attempt`.
        ends: Last visible step by path; None for all points.
        emptied: Greatest key of deletes by its descendants, by path.
    """

    run: StoredRun
    sources: Sources
    attempt: int | str
    ends: Mapping[str, float] | None = None
    emptied: Mapping[str, Key] = field(default_factory=dict)

    def end(self, path: str) -> float:
        """Return the last visible step of a series."""
        return math.inf if self.ends is None else self.ends.get(path, -math.inf)

    def after(self, path: str) -> Key:
        """Return the greatest key of deletes of a series; only newer points are visible."""
        return max(self.run.state.emptied(path), self.emptied.get(path, NEVER))


class _VisibleSeries(NamedTuple):
    family: str
    first_step: float | None
    t: int


def possible_parents(project: str, name: str) -> list[str]:
    """Return the possible run ids for the name of a parent."""
    return list(dict.fromkeys((name, hashed_run_id(project, name))))


def ancestors_of(
    store: Store, connection: sa.Connection, ref: tuple[str, str], fork: Fork | None
) -> tuple[list[Ancestor], str | None]:
    """Return the ancestors of a run, nearest first, and the name of a missing ancestor or None."""
    project, seen = ref[0], {ref[1]}
    found: list[Ancestor] = []
    while fork is not None:
        candidates = [(project, name) for name in possible_parents(project, fork.parent)]
        there = load_many(store, connection, candidates)
        parent = next((there[one] for one in candidates if one in there), None)
        if parent is None or parent.name in seen or len(found) >= GENERATIONS:
            return found, fork.parent
        found.append(Ancestor(parent, fork.step))
        seen.add(parent.name)
        fork = parent.state.fork
    return found, None


class Line:
    """Run with its ancestors, nearest first, and the name of a missing or repeated ancestor.

    ``sources_of`` returns the function that opens the journals of a run.
    """

    def __init__(
        self,
        store: Store,
        connection: sa.Connection,
        run: StoredRun,
        sources_of: Callable[[str, str], Sources],
    ) -> None:
        self.run = run
        found = ancestors_of(store, connection, (run.project, run.name), run.state.fork)
        self.ancestors, self.missing_ancestor = found
        self._store, self._connection = store, connection
        self._sources_of = sources_of
        self._shown: dict[int | None, dict[str, _VisibleSeries]] = {}

    def shares(self, paths: Iterable[str], family: str, attempt: int | str) -> list[Share]:
        """Return the shares of runs in the given series, the run itself first.

        ``attempt`` selects own points. Ancestors add all points for ``"all"``, else visible ones.
        """
        found = [Share(self.run, self._sources_of(self.run.project, self.run.name), attempt)]
        if not self.ancestors or attempt == "replaced":
            return found
        ends = dict.fromkeys((path for path in paths if _is_inherited(path)), math.inf)
        emptied: dict[str, Key] = {}
        nearer = self.run
        for run, step in self.ancestors:
            shown = self._visible_series(nearer, ends)
            for path in list(ends):
                own = shown.get(path)
                if own is not None and own.family != family:
                    del ends[path]
                    continue
                ends[path] = min(ends[path], step)
                if own is not None and own.first_step is not None and own.first_step <= ends[path]:
                    ends[path] = math.nextafter(own.first_step, -math.inf)
                emptied[path] = max(emptied.get(path, NEVER), nearer.state.emptied(path))
            sources = self._sources_of(run.project, run.name)
            which = "all" if attempt == "all" else "latest"
            found.append(Share(run, sources, which, dict(ends), dict(emptied)))
            nearer = run
        return found

    def families(self) -> dict[str, str]:
        """Return the families of series with points of ancestors, by path."""
        families: dict[str, str] = {}
        for run in (self.run, *(one.run for one in self.ancestors)) if self.ancestors else ():
            self._shown[run.number] = self._visible_series(run)
            families = {
                path: one.family for path, one in self._shown[run.number].items()
            } | families
        found: dict[str, str] = {}
        for family in SERIES:
            paths = [path for path, one in families.items() if one == family]
            for share in self.shares(paths, family, "latest")[1:]:
                shown = self._shown[share.run.number]
                found |= {
                    path: family
                    for path in paths
                    if (one := shown.get(path)) is not None
                    and one.family == family
                    and one.first_step is not None
                    and one.first_step <= share.end(path)
                    and one.t > share.emptied.get(path, NEVER)[0]
                }
        return found

    def _visible_series(
        self, run: StoredRun, paths: Iterable[str] | None = None
    ) -> dict[str, _VisibleSeries]:
        store, connection = self._store, self._connection
        if run.number in self._shown:
            return self._shown[run.number]
        if paths is None:
            rows = store.database.rows(connection, _SELECT_VISIBLE, run=run.number)
            names = store.numbers.paths(connection, [row[0] for row in rows])
        else:
            known = store.numbers.known(connection, list(paths))
            names = {number: path for path, number in known.items()}
            at = list(names)
            rows = store.database.rows(connection, _SELECT_VISIBLE_AT, run=run.number, at=at)
        return {
            names[path]: _VisibleSeries(NUMBER_FAMILIES[family], first_step, t or 0)
            for path, family, first_step, t in rows
        }


def _is_inherited(path: str) -> bool:
    return not path.startswith(_NOT_INHERITED)
