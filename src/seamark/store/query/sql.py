"""Translation of queries to SQLAlchemy Core, for both SQLite and PostgreSQL."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from seamark.process.liveness import Evidence
from seamark.reading.attributes import DETAIL
from seamark.reading.catalog import Selection
from seamark.reading.states import ACTIVE_STATES, CRASHED
from seamark.store import schema
from seamark.store.cells import FAMILY_NUMBERS, UNKNOWN_NS
from seamark.store.database import as_literals
from seamark.store.journals import load_owners
from seamark.store.query.expression import (
    SIGNS,
    And,
    Comparison,
    Expression,
    Field,
    Not,
    Or,
    Value,
)
from seamark.store.query.kinds import CHILDREN, NUMERIC, TEXTS, moment
from seamark.store.query.validation import matching_projects
from seamark.store.read.inherited import has_children, holder
from seamark.store.read.names import VERSION, moved_versions
from seamark.store.runs import Store

Clause = sa.ColumnElement[bool]
_SERIES: Final = FAMILY_NUMBERS["float_series"]
_EXACT: Final = 1 << 53
_I64: Final = 1 << 63
_NAN: Final = 2
_MAX_CHAIN: Final = 100
AGGREGATE_COLUMNS: Final = {
    "min": "low",
    "max": "high",
    "mean": "mean",
    "count": "count",
    "first_step": "first_step",
    "last_step": "last_step",
}
_TIMES: Final = ("sys/creation_time", "sys/modification_time", "sys/start_time", "sys/end_time")
_row: Final = schema.attribute.alias().c
_summary: Final = schema.series.alias().c
_element: Final = schema.element.alias().c
"""Aliases of tables for subqueries, distinct from the tables joined to the runs."""
_ID: Final = "sys/id"
_OWNER: Final = "sys/owner"
_TEXTS: Final = (_ID, _OWNER, "sys/state")
"""Texts that each run has."""


class place_of(FunctionElement[int]):  # noqa: N801 - the name of an SQL function
    """Position of one string in another, 1-based; 0 if absent. Case-sensitive, unlike LIKE."""

    type = sa.Integer()
    inherit_cache = True
    name = "place_of"


@compiles(place_of)
def _instr(element: Any, compiler: Any, **options: Any) -> str:
    return f"instr({compiler.process(element.clauses, **options)})"


@compiles(place_of, "postgresql")
@compiles(place_of, "cockroachdb")
def _strpos(element: Any, compiler: Any, **options: Any) -> str:
    return f"strpos({compiler.process(element.clauses, **options)})"


class bracketed(FunctionElement[bool]):  # noqa: N801 - named like an SQL function
    """Condition in permanent brackets; SQLAlchemy removes its own around AND and OR."""

    type = sa.Boolean()
    inherit_cache = True
    name = "bracketed"


@compiles(bracketed)
def _in_brackets(element: Any, compiler: Any, **options: Any) -> str:
    return f"({compiler.process(element.clauses, **options)})"


class Compiler:
    """Compiler of the conditions of a selection to conditions on the table of runs.

    ``derived`` has the SQL expression for each path that the run's row holds.

    Args:
        store: Store of the runs.
        connection: Connection with a transaction of the store.
        selection: Selection with the conditions.
        state: SQL expression for the state of a run, including the derived ``"crashed"``.
        now_ns: Nanoseconds since the Unix epoch.
        candidates: Numbers of the only runs that can match, if they are few; None for all.
    """

    def __init__(
        self,
        store: Store,
        connection: sa.Connection,
        selection: Selection,
        state: sa.ColumnElement[str],
        now_ns: int,
        candidates: Collection[int] | None = None,
    ) -> None:
        self._store, self._connection, self._selection = store, connection, selection
        self._state, self._now_ns, self._candidates = state, now_ns, candidates
        self._holder = functools.cache(functools.partial(holder, store, connection))
        self.derived = _derived_columns(state)

    def number(self, path: str) -> int | None:
        """Return the number of a path, or None if no run has it."""
        return self._store.numbers.number(self._connection, path)

    @functools.cached_property
    def crash_reason(self) -> sa.ColumnElement[Any]:
        """SQL expression for the crash reason; NULL for runs that did not crash."""
        return _reason_column(self._store, self._connection, self._state, self._now_ns)

    @functools.cached_property
    def _moved(self) -> Mapping[str, int]:
        # Current numbers of model versions that differ from the recorded ones.
        versions = self._selection.kind == "model_version"
        return moved_versions(self._store, self._connection) if versions else {}

    @functools.cached_property
    def _projects(self) -> list[str]:
        return matching_projects(self._store, self._connection, self._selection.reaches)

    def _have_children(
        self, path: str, aggregate: str, holds: Callable[[Any], Any] | None = None
    ) -> Clause:
        return has_children(self.number, self._projects, path, aggregate, holds)

    def _moment(self, text: str) -> int | None:
        found = moment(text, self._now_ns, local=self._selection.local)
        return found if found is None else (self._selection.moments or {}).get(text, found)

    def condition(self, expression: Expression) -> Clause:
        """Return the condition for runs that match; ``!=`` also requires a value at the path."""
        if isinstance(expression, And):
            return _join(sa.and_, [sa.true(), *map(self.condition, expression.terms)])
        if isinstance(expression, Or):
            return _join(sa.or_, [sa.false(), *map(self.condition, expression.terms)])
        if isinstance(expression, Not):
            return sa.not_(self.condition(expression.term))
        found = self._comparison(expression)
        return (
            self._on_current_numbers(found, expression)
            if expression.field.path == VERSION
            else found
        )

    def _on_current_numbers(self, recorded: Clause, leaf: Comparison) -> Clause:
        """Return a condition on the current numbers of versions instead of the recorded ones."""
        if not (moved := self._moved):
            return recorded
        if leaf.operator == "in":
            wanted = {one.value for one in leaf.values}
            names = [name for name, number in moved.items() if number in wanted]
        else:
            compare = SIGNS.get(leaf.operator)
            if compare is None or leaf.value is None or isinstance(leaf.value.value, str):
                return recorded
            limit = leaf.value.value
            names = [name for name, number in moved.items() if compare(number, limit)]
        own = sa.and_(recorded, schema.run.c.name.not_in(list(moved)))
        return sa.or_(own, schema.run.c.name.in_(names))

    def _comparison(self, leaf: Comparison) -> Clause:
        if leaf.value is not None and leaf.operator in ("matches", "not matches"):
            written = self._store.database.pattern(leaf.value.text)
            leaf = Comparison(leaf.field, leaf.operator, (Value(written, written),))
        derived = self._on_derived(leaf)
        if derived is not None:
            return derived
        asked = None if leaf.value is None else (leaf.operator, leaf.value.value)
        if leaf.field.path == "sys/failed" and asked in (("=", False), ("!=", True)):
            # Only failed runs record it; all others did not fail.
            failed = Comparison(leaf.field, "=", (Value(True, "true"),))  # noqa: FBT003 - a value
            return sa.not_(self._comparison(failed))
        number = self.number(leaf.field.path)
        if number is None:
            return self._on_parts(leaf)
        if leaf.value is None:
            return sa.not_(self._runs_where(number, sa.true(), Field(leaf.field.path)))
        clauses = [self._on_row(leaf.field, leaf.sign, value) for value in leaf.values]
        if leaf.operator == "in" and leaf.field.aggregate in (None, "last"):
            clauses.append(self._in_set(leaf.texts))
        return self._runs_where(number, _join(sa.or_, clauses), leaf.field)

    def _on_parts(self, leaf: Comparison) -> Clause:
        field = leaf.field
        if not field.path.startswith(CHILDREN):
            return sa.true() if leaf.value is None else sa.false()
        aggregate = str(field.aggregate)
        if leaf.value is None:
            return sa.not_(self._have_children(field.path, aggregate))

        def holds(found: Any) -> Clause:
            finite = filter(math.isfinite, [_as_float(value.value) for value in leaf.values])
            return _join(
                sa.or_, [sa.false(), *(_compare(found, leaf.sign, number) for number in finite)]
            )

        return self._have_children(field.path, aggregate, holds)

    def _runs_where(self, number: int, condition: Clause, field: Field) -> Clause:
        # IN scans the index of this path once; EXISTS would search it for each run.
        there = sa.select(_row.run).where(_row.path == number, _row.visible == 1)
        holder = self._holder(field.path)
        if self._candidates is not None and holder is schema.run.c.id:
            there = there.where(_row.run.in_(self._candidates))
        return holder.in_(there.where(condition, _stated_type(field)))

    # ---------------------------------------------------------------- what the run's row holds

    def _on_derived(self, leaf: Comparison) -> Clause | None:
        path, texts = leaf.field.path, leaf.texts
        if path in (CRASH_REASON, DETAIL):
            text = self.crash_reason if path == CRASH_REASON else schema.run.c.detail
            return _on_optional_text(text, leaf.operator, texts)
        if path == _ID and texts:
            return _on_id(leaf.operator, texts)
        column = self.derived.get(path)
        if column is None:
            return None
        if path in _TEXTS:
            return _on_text(column, leaf.operator, texts) if texts else sa.false()
        if leaf.value is None:
            return column.is_(None)
        return _join(
            sa.or_, [self._on_fact(path, column, leaf.sign, value) for value in leaf.values]
        )

    def _on_fact(self, path: str, column: Any, operator: str, value: Value) -> Clause:
        run = schema.run.c
        if path == "sys/trashed":
            return _compare(run.trashed, operator, int(value.value))
        if path == "sys/running_time":
            number = _as_float(value.value)
            is_finite = math.isfinite(number)
            return _compare(run.running / 1e9, operator, number) if is_finite else sa.false()
        when = self._moment(value.text)
        if when is None:
            return sa.false()
        return sa.func.coalesce(_compare(column, operator, when * 1000), sa.false())

    # ------------------------------------------------------------------ attributes

    def _on_row(self, field: Field, operator: str, value: Value) -> Clause:
        if field.aggregate not in (None, "last"):
            same = sa.and_(
                _summary.run == _row.run,
                _summary.path == _row.path,
                _summary.family == _row.family,
            )
            return sa.exists().where(same, _on_aggregate(field, operator, value))
        if operator in ("contains", "matches", "not matches"):
            return self._on_strings(operator, value.text)
        if isinstance(value.value, bool):
            return sa.and_(_row.type == "bool", _compare(_row.whole, operator, int(value.value)))
        if isinstance(value.value, int | float):
            return _on_number(operator, value.value)
        texts = sa.and_(_row.type.in_(TEXTS), _compare(_row.text, operator, value.text))
        if operator == "=":  # match the index expression of PostgreSQL
            beginning = sa.func.substr(_row.text, 1, schema.INDEXED_CHARACTERS)
            texts = sa.and_(texts, beginning == value.text[: schema.INDEXED_CHARACTERS])
        when = self._moment(value.text)
        if when is None:
            return texts
        return sa.or_(texts, sa.and_(_row.type == "datetime", _compare(_row.whole, operator, when)))

    def _on_strings(self, operator: str, text: str) -> Clause:
        strings = sa.and_(
            _row.type.in_((*TEXTS, "json", "file", "artifact")),
            _on_text(_row.text, operator, [text]),
        )
        if operator == "contains":
            return sa.or_(strings, self._in_set([text]))
        members = sa.exists().where(_element.run == _row.run, _element.path == _row.path)
        match = members.where(_element.value.regexp_match(text))
        matched = match if operator == "matches" else sa.not_(match)
        return sa.or_(strings, sa.and_(_row.type == "string_set", matched))

    @staticmethod
    def _in_set(texts: Sequence[str]) -> Clause:
        member = sa.exists().where(
            _element.run == _row.run, _element.path == _row.path, _element.value.in_(texts)
        )
        return sa.and_(_row.type == "string_set", member)


def _on_id(operator: str, texts: Sequence[str]) -> Clause:
    """Compare ids. A run may have a second id, such as ``SAN-1``."""
    both = (_on_text(schema.run.c.name, operator, texts), _on_text(_shown_id(), operator, texts))
    if operator in ("=", "in", "contains", "matches"):
        return sa.or_(*both)
    return sa.and_(*both) if operator in ("!=", "not matches") else both[1]


def _shown_id() -> sa.ColumnElement[Any]:
    return sa.func.coalesce(schema.run.c.sys_id, schema.run.c.name)


def _join(join: Callable[..., Clause], terms: list[Clause]) -> Clause:
    # SQLite limits the depth of expressions to 1,000.
    while len(terms) > _MAX_CHAIN:
        groups = (terms[start : start + _MAX_CHAIN] for start in range(0, len(terms), _MAX_CHAIN))
        terms = [bracketed(join(*group)) for group in groups]
    return join(*terms)


def _stated_type(field: Field) -> Clause:
    if field.type is None:
        return sa.true()
    return _row.type.in_({"float": NUMERIC, "string": TEXTS}.get(field.type, (field.type,)))


def _on_optional_text(column: sa.ColumnElement[Any], operator: str, texts: Sequence[str]) -> Clause:
    if not texts:
        return column.is_(None)
    # False instead of NULL for a missing value, because NOT NULL is NULL.
    return sa.func.coalesce(_on_text(column, operator, texts), sa.false())


def _compare(left: Any, operator: str, right: Any) -> Clause:
    compare: Any = SIGNS.get(operator)
    found: Clause = sa.false() if compare is None else compare(left, right)
    return found


def _on_text(column: Any, operator: str, texts: Sequence[str]) -> Clause:
    if operator == "in":  # one list: a long chain of ORs takes seconds to compile
        return column.in_(texts)  # type: ignore[no-any-return]
    text = texts[0]
    if operator == "contains":
        return place_of(column, text) > 0
    if operator in ("matches", "not matches"):
        match = column.regexp_match(text)
        return match if operator == "matches" else sa.not_(match)  # type: ignore[no-any-return]
    return _compare(column, operator, text)


def _on_aggregate(field: Field, operator: str, value: Value) -> Clause:
    number = _as_float(value.value)
    column = _summary[AGGREGATE_COLUMNS[str(field.aggregate)]]
    return sa.false() if math.isnan(number) else _compare(column, operator, number)


def _as_float(number: float | str) -> float:
    try:
        return float(number)
    except OverflowError:
        return float(str(number))


def _on_number(operator: str, number: float) -> Clause:
    """Compare numbers as Python does, except that NaN equals ``nan``; ints are exact."""
    numeric = sa.and_(_row["class"].is_not(None), _row.type.in_(NUMERIC))
    klass, column = _row["class"], _row.number
    if isinstance(number, float) and math.isnan(number):
        same = klass == _NAN
        return sa.and_(
            numeric, same if operator == "=" else sa.not_(same) if operator == "!=" else sa.false()
        )
    rough = _as_float(number) if isinstance(number, int) else number
    if math.isinf(rough):
        level = 1 if rough > 0 else -1
        less, same, more = klass < level, klass == level, sa.and_(klass > level, klass != _NAN)
    else:
        finite = klass == 0
        less = sa.or_(klass == -1, sa.and_(finite, column < rough))
        same = sa.and_(finite, column == rough)
        more = sa.or_(klass == 1, sa.and_(finite, column > rough))
    if isinstance(number, int) and abs(number) >= _EXACT:
        less, same, more = _compare_exactly(number, (less, same, more))
    chosen = {
        "=": same,
        "!=": sa.not_(same),
        "<": less,
        "<=": sa.or_(less, same),
        ">": more,
        ">=": sa.or_(more, same),
    }
    return sa.and_(numeric, chosen[operator])


def _compare_exactly(number: int, rough: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """Compare ints that float64 cannot distinguish; beyond 64 bits, only equality is exact."""
    less, same, more = rough
    if abs(number) >= _I64:
        # Most numbers have a NULL text; without coalesce, "!=" would be NULL, too.
        text = sa.func.coalesce(_row.text, "")
        digits = sa.and_(_row.type == "int", text.in_((str(number), hex(number))))
        other = sa.and_(same, _row.type != "int")
        return less, sa.or_(digits, other), more
    whole, known = _row.whole, _row.whole.is_not(None)
    return (
        sa.case((known, whole < number), else_=less),
        sa.case((known, whole == number), else_=same),
        sa.case((known, whole > number), else_=more),
    )


_DERIVED: Final[dict[str, sa.ColumnElement[Any]]] = {
    _ID: _shown_id(),
    _OWNER: schema.run.c.owner,
    DETAIL: schema.run.c.detail,
    "sys/trashed": schema.run.c.trashed,
    "sys/running_time": schema.run.c.running,
    "sys/start_time": schema.run.c.started,
    "sys/creation_time": sa.func.nullif(schema.run.c.created, UNKNOWN_NS),
    "sys/modification_time": sa.func.nullif(schema.run.c.modified, UNKNOWN_NS),
}


def _derived_columns(state: sa.ColumnElement[str]) -> dict[str, sa.ColumnElement[Any]]:
    ended = sa.case((state.in_(ACTIVE_STATES), sa.null()), else_=schema.run.c.ended)
    return _DERIVED | {"sys/state": state, "sys/end_time": ended}


CRASH_REASON: Final = "sys/crash_reason"
_NO_TEXT: Final = sa.cast(sa.null(), sa.Text)


def reasons_of(
    store: Store, connection: sa.Connection, crashed: Collection[int], now_ns: int
) -> dict[int, str]:
    """Return the crash reasons by run number; see `seamark.process.liveness.CRASH_REASONS`."""
    newest: dict[int, tuple[bool, int, str]] = {}
    for run, seen, header, closed in load_owners(store, connection, list(crashed)):
        if run not in newest or (not closed, seen) > newest[run][:2]:
            newest[run] = not closed, seen, header
    evidence = Evidence(now_ns=now_ns, here=store.here)
    return {
        run: evidence.crash(json.loads(header or "{}"), seen).reason
        for run, (_, seen, header) in newest.items()
    }


def _reason_column(
    store: Store, connection: sa.Connection, state: sa.ColumnElement[str], now_ns: int
) -> sa.ColumnElement[Any]:
    asked = sa.select(schema.run.c.id).where(state == CRASHED)
    runs = [number for (number,) in store.database.query(connection, asked)]
    by_reason: dict[str, list[int]] = {}
    for run, reason in reasons_of(store, connection, runs, now_ns).items():
        by_reason.setdefault(reason, []).append(run)
    if not by_reason:
        return _NO_TEXT
    # As literals: there may be more runs than an engine allows parameters.
    cases = [(schema.run.c.id.in_(as_literals(runs)), why) for why, runs in by_reason.items()]
    return sa.case(*cases, else_=_NO_TEXT)
