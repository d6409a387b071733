"""Which runs a table shows, in which order: arguments, query and sorting."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seamark.errors import ArgumentError, QueryError
from seamark.journal.folder import PROJECT_LOG
from seamark.journal.reader import SETTLE_NS
from seamark.paths import is_inside
from seamark.store import schema
from seamark.store.cells import is_crashed
from seamark.store.query.crash_reasons import CRASH_REASON, reason_column
from seamark.store.query.kinds import CRASHED, GROUPS, STATES, near_state
from seamark.store.query.known import KnownPaths, Unknown, in_projects, refuse
from seamark.store.query.language import (
    Among,
    And,
    Comparison,
    Expression,
    Field,
    Not,
    Value,
    parse,
    parse_field,
)
from seamark.store.query.sql import AGGREGATE_COLUMNS, Compiler, derived_column
from seamark.store.runs import load_journals
from seamark.values import escape

if TYPE_CHECKING:
    from seamark.store.fold.run_state import JournalState
    from seamark.store.runs import Store

__all__ = ["STATES", "Chosen", "Selection", "choose"]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which runs, in which order; see `seamark.Project.fetch_runs_table`.

    Attributes:
        project: Only this project and its sub-projects.
        query: In the query language.
        id: One run id or several.
        state: One state or several; ``"active"`` and ``"inactive"`` stand for several.
        owner: One owner or several.
        tag: One tag, or several that a run must all have.
        trashed: Whether runs are in the trash; None for both.
        limit: At most this many.
        offset: How many of the first to leave out.
        sort_by: Path, perhaps with an aggregate.
        ascending: Smallest first.
        local: Times in the query that name no offset are in this computer's time zone, else in UTC.
        moments: What some of these times are in the time zone of whoever asks, by their text:
            microseconds since the Unix epoch.
        readable: Tells which projects whoever asks may know of; None for all. What is in others
            neither counts nor is named anywhere.
    """

    project: str | None = None
    query: str | None = None
    id: str | Iterable[str] | None = None
    state: str | Iterable[str] | None = None
    owner: str | Iterable[str] | None = None
    tag: str | Iterable[str] | None = None
    trashed: bool | None = False
    limit: int | None = None
    offset: int = 0
    sort_by: str = "sys/creation_time"
    ascending: bool = False
    local: bool = False
    moments: Mapping[str, int] | None = None
    readable: Callable[[str], bool] | None = None

    def expression(self) -> Expression:
        """Return the query and the other conditions as one expression.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
            QueryError: If the query breaks the grammar, or compares what cannot be compared so.
        """
        terms: list[Expression] = []
        if self.query is not None:
            terms.append(parse(self.query))
        for name, path in (("id", "sys/id"), ("state", "sys/state"), ("owner", "sys/owner")):
            given = _strings(name, getattr(self, name))
            if given is not None:
                values = [
                    one
                    for value in given
                    for one in (_states(value) if name == "state" else (value,))
                ]
                terms.append(Among(Field(path), tuple(map(_text, values))))
        tags = _strings("tag", self.tag) or []
        terms += [
            Comparison(Field("sys/tags", None, "string_set"), "contains", _text(tag))
            for tag in tags
        ]
        if self.trashed is not None:
            if not isinstance(self.trashed, bool):
                msg = f"trashed: expected True, False or None for both, got {self.trashed!r}"
                raise ArgumentError(msg)
            trashed = Comparison(Field("sys/trashed"), "=", Value(True, "true"))  # noqa: FBT003 - a value, not a switch
            terms.append(trashed if self.trashed else Not(trashed))
        return And(tuple(terms))

    def check(self) -> None:
        """Check what `expression` does not look at.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
        """
        if self.limit is not None and (
            not isinstance(self.limit, int) or isinstance(self.limit, bool) or self.limit < 1
        ):
            msg = f"limit: expected a positive number of runs or None, got {self.limit!r}"
            raise ArgumentError(msg)
        if not isinstance(self.offset, int) or isinstance(self.offset, bool) or self.offset < 0:
            msg = f"offset: expected a number of runs to leave out, got {self.offset!r}"
            raise ArgumentError(msg)
        if not isinstance(self.ascending, bool):
            msg = f"ascending: expected True or False, got {self.ascending!r}"
            raise ArgumentError(msg)
        if not isinstance(self.sort_by, str):
            msg = f"sort_by: expected a path such as 'val/loss:min', got {self.sort_by!r}"
            raise ArgumentError(msg)


def _strings(name: str, given: str | Iterable[str] | None) -> list[str] | None:
    """Return one or several strings as a list; None and an empty iterable do not restrict anything.

    Raises:
        ArgumentError: If it is neither.
    """
    if given is None:
        return None
    values = (
        [given]
        if isinstance(given, str)
        else list(given)
        if isinstance(given, Iterable)
        else [given]
    )
    for value in values:
        if not isinstance(value, str):
            msg = f"{name}: expected a string or several, got {value!r:.80}"
            raise ArgumentError(msg)
    return values or None


def _states(state: str) -> tuple[str, ...]:
    wanted = state.lower()
    if wanted in GROUPS:
        return GROUPS[wanted]
    if wanted not in STATES:
        known = (*STATES, *GROUPS)
        msg = f"state: expected one of {', '.join(known)}, got {state!r}{near_state(wanted)}"
        raise ArgumentError(msg)
    return (wanted,)


def _text(value: str) -> Value:
    kept = escape(value)
    return Value(kept, kept)


class Chosen:
    """The runs that a selection chose, in order, and how many match regardless of the limit."""

    def __init__(self, rows: list[tuple[Any, ...]], total: int) -> None:
        self.numbers: list[int] = [row[0] for row in rows]
        self.refs: list[tuple[str, str]] = [(row[1], row[2]) for row in rows]
        self.states: dict[int, str] = {row[0]: row[3] for row in rows}
        self.total = total


def _state_column(store: Store, connection: sa.Connection, now_ns: int) -> sa.ColumnElement[str]:
    """Return the state of a run as SQL; ``"crashed"`` for those that say they run and do not."""
    run, dead = schema.run.c, []
    if store.here:
        fresh = store.database.rows(connection, _FRESH, since=now_ns - SETTLE_NS)
        dead = [
            number
            for (number,) in fresh
            if is_crashed("running", _owners(store, connection, number), now_ns)
        ]
    crashed: sa.ColumnElement[bool] = run.beat < now_ns - SETTLE_NS
    if dead:
        crashed = sa.or_(crashed, run.id.in_(dead))
    return sa.case((sa.and_(run.state == "running", crashed), CRASHED), else_=run.state)


_FRESH: Final = sa.select(schema.run.c.id).where(
    schema.run.c.state == "running", schema.run.c.beat >= sa.bindparam("since")
)


def _owners(store: Store, connection: sa.Connection, number: int) -> list[JournalState]:
    return [journal for journal in load_journals(store, connection, number) if journal.owner]


def choose(
    store: Store,
    connection: sa.Connection,
    selection: Selection,
    now_ns: int,
    unknown: Unknown = refuse,
) -> Chosen:
    """Return the runs that match, in order.

    Args:
        store: Which has them.
        connection: Of a transaction of the store.
        selection: Which runs.
        now_ns: Nanoseconds since the Unix epoch.
        unknown: Called with an error for each path asked for that no run has; raises it by itself.

    Raises:
        ArgumentError: If an argument has a value that cannot be used.
        QueryError: If the query breaks the grammar, or compares or sorts by what cannot be compared
            or sorted so.
    """
    selection.check()
    expression = selection.expression()
    field = parse_field(selection.sort_by, "sort_by")
    seen = in_projects(store, connection, selection.readable)
    known = KnownPaths(store, connection, unknown, seen)
    if selection.query:
        known.check_query(selection.query)
    known.check_sort(selection.sort_by, field)

    def number(path: str) -> int | None:
        return store.numbers.number(connection, path)

    state = _state_column(store, connection, now_ns)

    @functools.cache
    def crash_reason() -> sa.ColumnElement[Any]:
        return reason_column(store, connection, state, CRASHED, now_ns)

    compiler = Compiler(
        number,
        state,
        crash_reason,
        store.database.pattern,
        now_ns,
        local=selection.local,
        moments=selection.moments,
    )
    run = schema.run
    where = [compiler.condition(expression), run.c.name != PROJECT_LOG]
    if seen is not None:
        where.append(seen)
    if (project := selection.project) is not None:
        within = in_projects(store, connection, lambda one: is_inside(one, project))
        assert within is not None  # noqa: S101 - a condition was given
        where.append(within)
    columns = [run.c.id, run.c.project, run.c.name, state, run.c.created]
    source: sa.FromClause = run
    derived = derived_column(field.path, state)
    if derived is not None:
        more = [derived]
    elif field.path == CRASH_REASON:
        more = _reason_columns(crash_reason())
    else:
        source, more = _with_sort_columns(number(field.path), field)
    wanted = sa.select(*columns, *more).select_from(source).where(*where)
    rows = _found(store, connection, wanted)
    rows.sort(key=itemgetter(1, 2))
    rows.sort(key=itemgetter(4), reverse=True)
    if derived is not None:
        rows.sort(key=itemgetter(5), reverse=not selection.ascending)
    elif more:
        rows = _sorted(rows, ascending=selection.ascending)
    start = selection.offset
    end = None if selection.limit is None else start + selection.limit
    return Chosen(rows[start:end], len(rows))


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


def _with_sort_columns(path: int | None, field: Field) -> tuple[sa.FromClause, list[Any]]:
    """Return runs joined to what they have at a path, and its kind, class, number, whole and text.

    Kinds: 0 a number, 1 a text, 2 NaN, 3 nothing. Of a path that no run has, only runs.
    """
    if path is None:
        return schema.run, []
    row, series = schema.attribute.c, schema.series.c
    here = sa.and_(row.run == schema.run.c.id, row.path == path, row.visible == 1)
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
