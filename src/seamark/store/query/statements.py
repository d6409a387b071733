"""Database queries for the runs of a selection."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from seamark.errors import QueryError
from seamark.journal.reader import SETTLE_NS
from seamark.paths import is_inside
from seamark.reading.catalog import Selection, Unknown, refuse
from seamark.reading.states import CRASHED
from seamark.store import schema
from seamark.store.cells import OPEN, is_crashed
from seamark.store.journals import load_journals
from seamark.store.query.expression import Field, comparisons_of
from seamark.store.query.language import parse_field
from seamark.store.query.selection import expression_of
from seamark.store.query.sql import (
    AGGREGATE_COLUMNS,
    CRASH_REASON,
    Compiler,
)
from seamark.store.query.validation import KnownPaths, in_projects
from seamark.store.read.inherited import holder
from seamark.store.runs import Store
from seamark.store.schema import SILENT_FROM

_MAX_LOOKUPS: Final = 100
"""Maximum number of named runs that are looked up individually."""

_NUMBER, _TEXT, _NAN, _MISSING = range(4)
"""Classes of sort keys, in order."""


_run: Final = schema.run.c
# Columns that follow the state of a run in `Chosen.rows`.
_FACTS: Final = (
    sa.func.coalesce(_run.sys_id, _run.name),
    _run.detail,
    _run.owner,
    _run.created,
    _run.modified,
    _run.started,
    _run.ended,
    _run.running,
    _run.trashed,
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Selected runs, in order.

    Attributes:
        rows: Number, project, id and state of each run; if requested, also its shown id, detail,
            owner, times (ns) and trash flag.
        total: Number of matching runs, ignoring limit and offset; None if not counted.
    """

    rows: list[tuple[Any, ...]]
    total: int | None

    @property
    def numbers(self) -> list[int]:
        """Numbers of the runs in the store."""
        return [row[0] for row in self.rows]

    @property
    def refs(self) -> list[tuple[str, str]]:
        """Projects and ids of the runs."""
        return [(row[1], row[2]) for row in self.rows]


def state_column(store: Store, connection: sa.Connection, now_ns: int) -> sa.ColumnElement[str]:
    """Return an SQL expression for the state of a run, including the derived ``"crashed"``."""
    run, dead = schema.run.c, []
    if store.here:
        fresh = store.database.rows(connection, _SELECT_FRESH, since=now_ns - SETTLE_NS)
        dead = [
            number
            for (number,) in fresh
            if is_crashed(
                [one for one in load_journals(store, connection, number) if one.owner], now_ns
            )
        ]
    silent: sa.ColumnElement[bool] = now_ns > SILENT_FROM
    crashed = sa.or_(silent, run.id.in_(dead)) if dead else silent
    return sa.case(
        (sa.and_(run.state == "running", crashed), CRASHED),
        (sa.and_(run.state == OPEN, silent), "completed"),
        (run.state == OPEN, "running"),
        else_=run.state,
    )


_SELECT_FRESH: Final = sa.select(schema.run.c.id).where(
    schema.run.c.state == "running", schema.run.c.beat >= sa.bindparam("since")
)


def choose(
    store: Store,
    connection: sa.Connection,
    selection: Selection,
    now_ns: int,
    unknown: Unknown = refuse,
    *,
    counted: bool = True,
    facts: bool = False,
) -> Chosen:
    """Return the matching runs, in order.

    ``unknown`` is called with an error for each requested path that no run has; by default it
    raises the error. With ``counted``, ``total`` is known even if the limit excludes runs. With
    ``facts``, the facts of all returned runs are read. Raises `ArgumentError`, or `QueryError` if
    the query has a syntax error, or compares or sorts values without an order.
    """
    search = _Search(store, connection, selection, now_ns, unknown)
    start, limit = selection.offset, selection.limit
    columns = (_run.id, _run.project, _run.name, search.state)
    if limit is None:
        rows = search.rows((*columns, *_FACTS) if facts else columns)
        return Chosen(rows[start:], len(rows))
    # Sort only the numbers of runs: further columns are read for the returned runs alone.
    numbers = [number for (number,) in search.rows((_run.id,))]
    total = None
    if len(numbers) < limit and (numbers or not start):
        total = start + len(numbers)
    elif counted:
        total = search.count()
    wanted = sa.select(*columns, *_FACTS).where(store.database.among(_run.id, numbers))
    by_number = {row[0]: row for row in store.database.query(connection, wanted)}
    return Chosen([by_number[number] for number in numbers], total)


def count_runs(store: Store, connection: sa.Connection, selection: Selection, now_ns: int) -> int:
    """Return the number of matching runs, regardless of limit and offset; see `choose`."""
    return _Search(store, connection, selection, now_ns, lambda _: None).count()


class _Search:
    def __init__(
        self,
        store: Store,
        connection: sa.Connection,
        selection: Selection,
        now_ns: int,
        unknown: Unknown,
    ) -> None:
        selection.check()
        self._store, self._connection, self._selection = store, connection, selection
        expression = expression_of(selection)
        self._field = parse_field(selection.sort_by, "sort_by")
        known = KnownPaths(store, connection, unknown, selection.kind, selection.readable)
        known.prefetch(
            [*(leaf.field.path for leaf in comparisons_of(expression)), self._field.path]
        )
        if selection.query:
            known.check_query(selection.query)
        known.check_sort(selection.sort_by, self._field)
        self.state = state_column(store, connection, now_ns)
        project = selection.project
        inside = None if project is None else lambda one: is_inside(one, project)
        within = in_projects(store, connection, inside)
        candidates = None if within is None else _find_named(store, connection, selection, within)

        compiler = Compiler(store, connection, selection, self.state, now_ns, candidates)
        self._compiler, run = compiler, schema.run.c
        self._where = [compiler.condition(expression), run.kind == selection.kind]
        self._where += [one for one in (known.seen, within) if one is not None]
        if candidates is not None:
            self._where.append(run.id.in_(candidates))

    def _query(self, statement: sa.Select[Any]) -> list[tuple[Any, ...]]:
        database = self._store.database
        try:
            return database.query(self._connection, statement)
        except Exception as error:
            if not database.is_bad_pattern(error):
                raise
            raise QueryError(
                f"query: the database rejects the regular expression: {error}"
            ) from None

    def count(self) -> int:
        ((total,),) = self._query(sa.select(sa.func.count()).where(*self._where))
        return int(total)

    def rows(self, columns: Sequence[sa.ColumnElement[Any]]) -> list[tuple[Any, ...]]:
        selection, run, found = self._selection, schema.run.c, list[tuple[Any, ...]]()
        start, limit = selection.offset, selection.limit
        wanted = sa.select(*columns).where(*self._where)
        for source, (kinds, values) in self._sort_orders():
            given = [one.asc() if selection.ascending else one.desc() for one in values]
            last = run.created.desc(), run.project, run.name
            statement = wanted.select_from(source).order_by(*kinds, *given, *last)
            if limit is not None:
                statement = statement.limit(limit).offset(start)
            found = self._query(statement)
            if limit is not None and len(found) == limit:
                break
        return found

    def _sort_orders(self) -> Iterator[tuple[sa.FromClause, _Keys]]:
        run, field = schema.run, self._field
        derived = self._compiler.derived.get(field.path)
        if field.path == "sys/creation_time" and not self._selection.ascending:
            yield run, ([], [])  # the default order; an unknown time is 0
        elif derived is not None:
            yield run, _keys_of(derived)
        elif field.path == CRASH_REASON:
            yield run, _keys_of(self._compiler.crash_reason)
        elif (path := self._compiler.number(field.path)) is None:
            yield run, ([], [])
        else:
            by = holder(self._store, self._connection, field.path)
            # In SQLite, sorting all runs of a root is faster than two queries.
            is_large = self._store.database.dialect != "sqlite" and by is run.c.id
            is_indexed = field.aggregate in (None, "last", "min", "max")
            if is_large and is_indexed and self._selection.limit is not None:
                yield _in_order_of_numbers(path, field)
            yield _with_sort_keys(path, field, by)


def _find_named(
    store: Store, connection: sa.Connection, selection: Selection, within: sa.ColumnElement[bool]
) -> list[int] | None:
    if not isinstance(selection.id, (str, Collection)):
        return None
    names = {selection.id} if isinstance(selection.id, str) else set(selection.id)
    if not names or len(names) > _MAX_LOOKUPS:
        return None
    run = schema.run.c
    rows = store.database.query(
        connection, sa.select(run.id, run.name).where(within, run.name.in_(sorted(names)))
    )
    return [number for number, _ in rows] if {name for _, name in rows} == names else None


_Keys = tuple[list[sa.ColumnElement[Any]], list[sa.ColumnElement[Any]]]
"""Sort keys: those that always ascend, and those in the requested direction."""


def _keys_of(value: sa.ColumnElement[Any]) -> _Keys:
    return [value.is_(None)], [value]


def _in_order_of_numbers(path: int, field: Field) -> tuple[sa.FromClause, _Keys]:
    # A database that scans the index in order can stop at the end of a page.
    row, series = schema.attribute.c, schema.series.c
    here = sa.and_(row.run == schema.run.c.id, row.path == path, row.visible == 1)
    if field.aggregate in (None, "last"):
        keys = [row["class"], row.number, sa.func.coalesce(row.whole, 0)]
        return schema.run.join(schema.attribute, here & row["class"].between(-1, 1)), ([], keys)
    number = series[AGGREGATE_COLUMNS[str(field.aggregate)]]
    same = sa.and_(series.run == row.run, series.path == path, series.family == row.family)
    joined = schema.run.join(schema.attribute, here)
    return joined.join(schema.series, same & number.is_not(None)), ([], [number])


def _with_sort_keys(
    path: int, field: Field, by: sa.ColumnElement[Any]
) -> tuple[sa.FromClause, _Keys]:
    # Order in both directions: numbers, texts, NaN, missing values. "by" selects the row of each
    # run.
    row, series = schema.attribute.c, schema.series.c
    here = sa.and_(row.run == by, row.path == path, row.visible == 1)
    joined = schema.run.outerjoin(schema.attribute, here)
    if field.aggregate not in (None, "last"):
        same = sa.and_(series.run == row.run, series.path == row.path, series.family == row.family)
        number = series[AGGREGATE_COLUMNS[str(field.aggregate)]]
        kind = sa.case((series.run.is_(None), _MISSING), (number.is_(None), _NAN), else_=_NUMBER)
        return joined.outerjoin(schema.series, same), ([kind], [number])
    klass = row["class"]
    kind = sa.case(
        (sa.or_(row.path.is_(None), row.type == "null"), _MISSING),
        (klass == 2, _NAN),  # noqa: PLR2004 - see the table
        (klass.is_(None), sa.case((row.text.is_(None), _MISSING), else_=_TEXT)),
        else_=_NUMBER,
    )
    # Databases sort null at different ends. Each of these keys is therefore null for all or for
    # none of the rows of one kind and class.
    text = sa.case((klass.is_(None), row.text))
    whole = sa.case((klass.is_not(None), sa.func.coalesce(row.whole, 0)))
    return joined, ([kind], [klass, row.number, whole, text])
