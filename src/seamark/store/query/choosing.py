"""Choosing the runs that a selection means, by asking the database."""

from __future__ import annotations

import functools
from collections.abc import Collection
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seamark.errors import QueryError
from seamark.journal.reader import SETTLE_NS
from seamark.paths import is_inside
from seamark.store import schema
from seamark.store.cells import OPEN, is_crashed
from seamark.store.query.crash_reasons import CRASH_REASON, reason_column
from seamark.store.query.kinds import CRASHED
from seamark.store.query.known import KnownPaths, Unknown, in_projects, projects_there, refuse
from seamark.store.query.language import Field, parse_field
from seamark.store.query.renumbered import asks_for_numbers, with_numbers
from seamark.store.query.sql import AGGREGATE_COLUMNS, Compiler, derived_column
from seamark.store.read.children import CHILDREN, Parts
from seamark.store.read.inherited import holder
from seamark.store.read.versions import moved_versions
from seamark.store.runs import load_journals
from seamark.store.silence import SILENT_FROM

if TYPE_CHECKING:
    from collections.abc import Callable

    from seamark.store.fold.run_state import JournalState
    from seamark.store.query.expression import Expression
    from seamark.store.query.selection import Selection
    from seamark.store.runs import Store

__all__ = ["Chosen", "choose", "state_column"]


_FEW: Final = 100
"""So many runs that are named are looked at by themselves."""


class Chosen:
    """The runs that a selection chose, in order, and how many match regardless of the limit."""

    def __init__(self, rows: list[tuple[Any, ...]], total: int) -> None:
        self.numbers: list[int] = [row[0] for row in rows]
        self.refs: list[tuple[str, str]] = [(row[1], row[2]) for row in rows]
        self.states: dict[int, str] = {row[0]: row[3] for row in rows}
        self.total = total


def state_column(store: Store, connection: sa.Connection, now_ns: int) -> sa.ColumnElement[str]:
    """Return the state of a run as SQL; ``"crashed"`` for those that say they run and do not."""
    run, dead = schema.run.c, []
    if store.here:
        fresh = store.database.rows(connection, _FRESH, since=now_ns - SETTLE_NS)
        dead = [
            number
            for (number,) in fresh
            if is_crashed("running", _owners(store, connection, number), now_ns)
        ]
    silent: sa.ColumnElement[bool] = now_ns > SILENT_FROM
    crashed = silent
    if dead:
        crashed = sa.or_(crashed, run.id.in_(dead))
    return sa.case(
        (sa.and_(run.state == "running", crashed), CRASHED),
        (sa.and_(run.state == OPEN, silent), "completed"),
        (run.state == OPEN, "running"),
        else_=run.state,
    )


_FRESH: Final = sa.select(schema.run.c.id).where(
    schema.run.c.state == "running", schema.run.c.beat >= sa.bindparam("since")
)


def _owners(store: Store, connection: sa.Connection, number: int) -> list[JournalState]:
    return [journal for journal in load_journals(store, connection, number) if journal.owner]


def _expression(store: Store, connection: sa.Connection, selection: Selection) -> Expression:
    """Return what a selection asks for, in terms of what is recorded."""
    expression = selection.expression()
    if selection.kind != "model_version" or not asks_for_numbers(expression):
        return expression
    return with_numbers(expression, moved_versions(store, connection))


def choose(
    store: Store,
    connection: sa.Connection,
    selection: Selection,
    now_ns: int,
    unknown: Unknown = refuse,
    *,
    counted: bool = True,
) -> Chosen:
    """Return the runs that match, in order.

    Args:
        store: Which has them.
        connection: Of a transaction of the store.
        selection: Which runs.
        now_ns: Nanoseconds since the Unix epoch.
        unknown: Called with an error for each path asked for that no run has; raises it by itself.
        counted: Whether ``total`` is asked for; else it may be that of those returned.

    Raises:
        ArgumentError: If an argument has a value that cannot be used.
        QueryError: If the query breaks the grammar, or compares or sorts by what cannot be compared
            or sorted so.
    """
    selection.check()
    expression = _expression(store, connection, selection)
    field = parse_field(selection.sort_by, "sort_by")
    seen = in_projects(store, connection, selection.readable)
    known = KnownPaths(store, connection, unknown, seen, selection.kind, selection.readable)
    if selection.query:
        known.check_query(selection.query)
    known.check_sort(selection.sort_by, field)

    def number(path: str) -> int | None:
        return store.numbers.number(connection, path)

    state = state_column(store, connection, now_ns)
    within = _within(store, connection, selection.project)
    few = None if within is None else _named(store, connection, selection, within)

    @functools.cache
    def crash_reason() -> sa.ColumnElement[Any]:
        return reason_column(store, connection, state, CRASHED, now_ns)

    compiler = Compiler(
        number,
        state,
        crash_reason,
        store.database.pattern,
        now_ns,
        parts=_parts(store, connection, selection, number),
        holder=functools.cache(lambda path: holder(store, connection, path)),
        local=selection.local,
        moments=selection.moments,
        among=few,
    )
    run = schema.run
    where = [compiler.condition(expression), run.c.kind == selection.kind]
    where += [one for one in (seen, within) if one is not None]
    if few is not None:
        where.append(run.c.id.in_(few))
    columns = [run.c.id, run.c.project, run.c.name, state, run.c.created]
    source: sa.FromClause = run
    derived = derived_column(field.path, state)
    if derived is not None:
        more = [derived]
    elif field.path == CRASH_REASON:
        more = _reason_columns(crash_reason())
    else:
        by = holder(store, connection, field.path)
        source, more = _with_sort_columns(number(field.path), field, by)
    wanted = sa.select(*columns, *more).select_from(source).where(*where)
    if derived is not None and selection.limit is not None:
        count = sa.select(sa.func.count()).where(*where) if counted else None
        return _first_by(store, connection, selection, wanted, derived, count)
    rows = _found(store, connection, wanted)
    rows.sort(key=itemgetter(1, 2))
    rows.sort(key=itemgetter(4), reverse=True)
    if derived is not None:
        there = [row for row in rows if row[5] is not None]
        there.sort(key=itemgetter(5), reverse=not selection.ascending)
        rows = there + [row for row in rows if row[5] is None]
    elif more:
        rows = _sorted(rows, ascending=selection.ascending)
    start = selection.offset
    end = None if selection.limit is None else start + selection.limit
    return Chosen(rows[start:end], len(rows))


def _parts(
    store: Store,
    connection: sa.Connection,
    selection: Selection,
    number: Callable[[str], int | None],
) -> Parts | None:
    """Return what tells of the parts of runs, as far as they are where the runs are sought."""
    if CHILDREN not in (selection.query or ""):
        return None

    def is_meant(project: str) -> bool:
        inside = selection.project is None or is_inside(project, selection.project)
        return inside and (selection.readable is None or selection.readable(project))

    return Parts(number, projects_there(store, connection, is_meant))


def _within(
    store: Store, connection: sa.Connection, project: str | None
) -> sa.ColumnElement[bool] | None:
    """Return which runs are in a project; None for all."""
    if project is None:
        return None
    return in_projects(store, connection, lambda one: is_inside(one, project))


def _named(
    store: Store, connection: sa.Connection, selection: Selection, within: sa.ColumnElement[bool]
) -> list[int] | None:
    """Return the numbers of the runs that a selection names by their ids; None if by other words.

    Of a few that are known nothing else need be looked at.
    """
    if not isinstance(selection.id, (str, Collection)):
        return None
    names = {selection.id} if isinstance(selection.id, str) else set(selection.id)
    if not names or len(names) > _FEW:
        return None
    run = schema.run.c
    rows = store.database.query(
        connection, sa.select(run.id, run.name).where(within, run.name.in_(sorted(names)))
    )
    return [number for number, _ in rows] if {name for _, name in rows} == names else None


def _first_by(
    store: Store,
    connection: sa.Connection,
    selection: Selection,
    wanted: sa.Select[Any],
    by: sa.ColumnElement[Any],
    count: sa.Select[Any] | None,
) -> Chosen:
    """Return the first runs by what their own rows hold: the database can sort these itself."""
    run, limit = schema.run.c, selection.limit or 0
    order = by.asc() if selection.ascending else by.desc()
    ordered = wanted.order_by(order.nulls_last(), run.created.desc(), run.project, run.name)
    rows = _found(store, connection, ordered.limit(limit).offset(selection.offset))
    if count is None or (len(rows) < limit and not selection.offset):
        return Chosen(rows, len(rows))
    ((total,),) = _found(store, connection, count)
    return Chosen(rows, int(total))


def _found(
    store: Store, connection: sa.Connection, wanted: sa.Select[Any]
) -> list[tuple[Any, ...]]:
    try:
        return store.database.query(connection, wanted)
    except Exception as error:
        if not store.database.is_bad_pattern(error):
            raise
        msg = f"query: expected a regular expression that this database can read, but: {error}"
        raise QueryError(msg) from None


def _with_sort_columns(
    path: int | None, field: Field, by: sa.ColumnElement[Any]
) -> tuple[sa.FromClause, list[Any]]:
    """Return runs joined to what they have at a path, and its kind, class, number, whole and text.

    ``by`` is which row says it for each run.

    Kinds: 0 a number, 1 a text, 2 NaN, 3 nothing. Of a path that no run has, only runs.
    """
    if path is None:
        return schema.run, []
    row, series = schema.attribute.c, schema.series.c
    here = sa.and_(row.run == by, row.path == path, row.visible == 1)
    joined = schema.run.outerjoin(schema.attribute, here)
    if field.aggregate not in (None, "last"):
        same = sa.and_(series.run == row.run, series.path == row.path, series.family == row.family)
        number = series[AGGREGATE_COLUMNS[str(field.aggregate)]]
        kind = sa.case((series.run.is_(None), 3), (number.is_(None), 2), else_=0)
        nothing = [sa.literal(0), sa.literal("")]
        return joined.outerjoin(schema.series, same), [
            kind,
            sa.literal(0),
            sa.func.coalesce(number, 0.0),
            *nothing,
        ]
    klass = row["class"]
    kind = sa.case(
        (sa.or_(row.path.is_(None), row.type == "null"), 3),
        (klass == 2, 2),  # noqa: PLR2004 - see the table
        (klass.is_(None), sa.case((row.text.is_(None), 3), else_=1)),
        else_=0,
    )
    fill = sa.func.coalesce
    return joined, [
        kind,
        fill(klass, 0),
        fill(row.number, 0.0),
        fill(row.whole, 0),
        fill(row.text, ""),
    ]


def _reason_columns(reason: sa.ColumnElement[Any]) -> list[Any]:
    """Return what `_with_sort_columns` does, of a text that is NULL for most runs."""
    kind = sa.case((reason.is_(None), 3), else_=1)
    return [kind, sa.literal(0), sa.literal(0.0), sa.literal(0), sa.func.coalesce(reason, "")]


def _sorted(rows: list[tuple[Any, ...]], *, ascending: bool) -> list[tuple[Any, ...]]:
    """Return rows in the order numbers, texts, NaN, nothing; equal ones stay as they are."""
    kinds: tuple[list[tuple[Any, ...]], ...] = ([], [], [], [])
    for row in rows:
        kinds[row[5]].append(row)
    kinds[0].sort(key=itemgetter(6, 7, 8), reverse=not ascending)
    kinds[1].sort(key=itemgetter(9), reverse=not ascending)
    return [row for kind in kinds for row in kind]
