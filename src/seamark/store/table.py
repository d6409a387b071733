"""Tables of runs and of points: what people and the command line get from a query."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seamark.errors import ArgumentError, MissingExtraError
from seamark.journal.folder import PROJECT_LOG
from seamark.journal.reader import SETTLE_NS
from seamark.paths import is_inside
from seamark.store import schema
from seamark.store.query import (
    And,
    Comparison,
    Expression,
    Field,
    Not,
    Or,
    Value,
    parse,
    parse_field,
)
from seamark.store.records import atom_value
from seamark.store.sql import AGGREGATE_COLUMNS, CRASHED, Compiler, derived_column
from seamark.store.view import Points, decoded, is_crashed, time_of

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from seamark.store.fold import JournalState
    from seamark.store.index import Index

__all__ = [
    "STATES",
    "RunsTable",
    "Selection",
    "SeriesTable",
    "StringList",
    "query_runs",
    "read_series",
    "select_runs",
]

STATES: Final = ("created", "running", "completed", "failed", "interrupted", "suspended", CRASHED)
_GROUPS: Final = {"active": ("created", "running"), "inactive": tuple(STATES[2:])}
_DIFFERING: Final = ":differing"
_FIRST: Final = (
    "sys/id",
    "sys/name",
    "sys/state",
    "sys/owner",
    "sys/creation_time",
    "sys/modification_time",
    "sys/running_time",
    "sys/trashed",
)
_DERIVED: Final = ("sys/id", "sys/state", "sys/owner", *_FIRST[4:])
_PART: Final = 900
"""So many values stand in one statement; old SQLite takes 999."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which runs, in which order; see `seamark.project.Project.fetch_runs_table`.

    Attributes:
        project: Only this project and its sub-projects.
        query: In the query language.
        id: One run id or several.
        state: One state or several; ``"active"`` and ``"inactive"`` stand for several.
        owner: One owner or several.
        tag: One tag, or several that a run must all have.
        trashed: Whether runs are in the trash; None for both.
        limit: At most so many.
        sort_by: Path, perhaps with an aggregate.
        ascending: Smallest first.
    """

    project: str | None = None
    query: str | None = None
    id: str | Iterable[str] | None = None
    state: str | Iterable[str] | None = None
    owner: str | Iterable[str] | None = None
    tag: str | Iterable[str] | None = None
    trashed: bool | None = False
    limit: int | None = None
    sort_by: str = "sys/creation_time"
    ascending: bool = False

    def expression(self) -> Expression:
        """Return the query and the other conditions as one expression.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
            QueryError: If the query breaks the grammar.
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
                terms.append(Or(tuple(_equals(path, value) for value in values)))
        tags = _strings("tag", self.tag) or []
        terms += [
            Comparison(Field("sys/tags", None, "string_set"), "contains", Value(tag, tag))
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
    if wanted in _GROUPS:
        return _GROUPS[wanted]
    if wanted not in STATES:
        msg = f"state: expected one of {', '.join((*STATES, *_GROUPS))}, got {state!r}"
        raise ArgumentError(msg)
    return (wanted,)


def _equals(path: str, value: str) -> Comparison:
    return Comparison(Field(path), "=", Value(value, value))


# ---------------------------------------------------------------------- choosing runs


class _Chosen:
    """The runs that a selection chose, in order, and how many match regardless of the limit."""

    def __init__(self, rows: list[tuple[Any, ...]], total: int) -> None:
        self.numbers: list[int] = [row[0] for row in rows]
        self.refs: list[tuple[str, str]] = [(row[1], row[2]) for row in rows]
        self.states: dict[int, str] = {row[0]: row[3] for row in rows}
        self.total = total


def _state_column(index: Index) -> sa.ColumnElement[str]:
    """Return the state of a run as SQL; ``"crashed"`` for those that say they run and do not."""
    run, now = schema.run.c, index.now_ns()
    fresh = index.connection.execute(
        sa.select(run.id).where(run.state == "running", run.beat >= now - SETTLE_NS)
    ).scalars()
    dead = [number for number in fresh if is_crashed("running", _owners(index, number), now)]
    crashed = run.beat < now - SETTLE_NS
    if dead:
        crashed = sa.or_(crashed, run.id.in_(dead))
    return sa.case((sa.and_(run.state == "running", crashed), CRASHED), else_=run.state)


def _owners(index: Index, number: int) -> list[JournalState]:
    from seamark.store.records import load_journals

    return [journal for journal in load_journals(index.connection, number) if journal.owner]


def _choose(index: Index, selection: Selection) -> _Chosen:
    selection.check()
    expression = selection.expression()
    field = parse_field(selection.sort_by, "sort_by")
    connection, run = index.connection, schema.run

    def number(path: str) -> int | None:
        return index.numbers.number(connection, path)

    state = _state_column(index)
    where = [Compiler(number, state).condition(expression), run.c.name != PROJECT_LOG]
    if selection.project is not None:
        where.append(run.c.project.in_(_projects(index, selection.project)))
    derived, path = derived_column(field.path, state), number(field.path)
    columns = [run.c.id, run.c.project, run.c.name, state, run.c.created]
    source: sa.FromClause = run
    if derived is not None:
        columns.append(derived)
    elif path is not None:
        source, more = _with_sort_columns(path, field)
        columns += more
    rows = schema.fetch(connection, sa.select(*columns).select_from(source).where(*where))
    rows.sort(key=itemgetter(1, 2))
    rows.sort(key=itemgetter(4), reverse=True)
    if derived is not None:
        rows.sort(key=itemgetter(5), reverse=not selection.ascending)
    elif path is not None:
        rows = _sorted(rows, ascending=selection.ascending)
    return _Chosen(rows[: selection.limit], len(rows))


def _with_sort_columns(path: int, field: Field) -> tuple[sa.FromClause, list[Any]]:
    """Return runs joined to what they have at a path, and its kind, class, number, whole and text.

    Kinds: 0 a number, 1 a text, 2 NaN, 3 nothing.
    """
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


def _sorted(rows: list[tuple[Any, ...]], *, ascending: bool) -> list[tuple[Any, ...]]:
    """Return rows in the order numbers, texts, NaN, nothing; equal ones stay as they are."""
    kinds: tuple[list[tuple[Any, ...]], ...] = ([], [], [], [])
    for row in rows:
        kinds[row[5]].append(row)
    kinds[0].sort(key=itemgetter(6, 7, 8), reverse=not ascending)
    kinds[1].sort(key=itemgetter(9), reverse=not ascending)
    return [row for kind in kinds for row in kind]


def _projects(index: Index, project: str) -> list[str]:
    """Return the project and its sub-projects, of those that have runs."""
    known = schema.fetch(index.connection, sa.select(schema.run.c.project).distinct())
    return [name for (name,) in known if is_inside(name, project)]


def select_runs(index: Index, selection: Selection) -> list[tuple[str, str]]:
    """Return (project, run id) of the runs that match, in order, as last folded.

    Raises:
        ArgumentError: If an argument has a value that cannot be used.
        QueryError: If the query breaks the grammar.
    """
    with index.lock:
        return index.healing(lambda: _choose(index, selection).refs)


# ---------------------------------------------------------------------- the runs table


class RunsTable:
    """Runs and what they show, one row each; made by `seamark.project.Project.fetch_runs_table`.

    A row is a dict from column to value; what a run does not have is not in its row. Series show
    their last value (or
    what the column asks for: ``val/loss:min``), sets of strings a sorted list, files their names,
        artifacts their hash.

    Attributes:
        columns: All columns, ``sys/id`` first.
        rows: The rows, in order.
        refs: (project, run id) of the rows.
        total: How many runs match, regardless of the limit.
    """

    def __init__(
        self,
        columns: list[str],
        rows: list[dict[str, Any]],
        refs: list[tuple[str, str]],
        total: int,
    ) -> None:
        self.columns = columns
        self.rows = rows
        self.refs = refs
        self.total = total

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def __repr__(self) -> str:
        """Return the size."""
        return f"<RunsTable: {len(self.rows)} of {self.total} runs, {len(self.columns)} columns>"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the rows."""
        return self.rows

    def to_numpy(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return one array a column: float64 for numbers (NaN: no value), objects for others."""
        import numpy as np

        found: dict[str, np.ndarray[Any, Any]] = {}
        for column in self.columns:
            values = [row.get(column) for row in self.rows]
            if _all_numbers(values):
                found[column] = np.array(
                    [np.nan if value is None else float(value) for value in values]
                )
            else:
                found[column] = np.empty(len(values), object)
                found[column][:] = values
        return found

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame; sets of strings become ``"a,b"``, as Neptune has them.

        Raises:
            MissingExtraError: If pandas is not installed.
        """
        frame = _pandas()
        data = {column: [_joined(row.get(column)) for row in self.rows] for column in self.columns}
        made: pd.DataFrame = frame.DataFrame(data, columns=self.columns)
        return made


def _all_numbers(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(
        isinstance(value, float) or (type(value) is int and abs(value) < 1 << 53) for value in known
    )


def _joined(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, StringList) else value


class StringList(list[str]):
    """The sorted elements of a string set in a row; tells them from a list that was recorded."""


def _pandas() -> Any:
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        msg = 'to_pandas() needs pandas; install it with: pip install "seamark[pandas]"'
        raise MissingExtraError(msg) from error
    return pd


def query_runs(
    index: Index, selection: Selection, columns: Iterable[str] | None = None
) -> RunsTable:
    """Return the runs that match with the columns that are asked for, as last folded.

    Args:
        index: Of the root.
        selection: Which runs.
        columns: Paths, perhaps with an aggregate (``val/loss:min``); patterns (``hyperparams/*``);
            with ``:differing`` behind, only the columns in which the chosen runs differ. None for
            everything.

    Raises:
        ArgumentError: If an argument has a value that cannot be used.
        QueryError: If the query or a column breaks the grammar.
    """
    wanted = [_Wanted(column) for column in _columns(columns)]
    with index.lock:
        return index.healing(lambda: _read_table(index, _choose(index, selection), wanted))


def _columns(columns: Iterable[str] | None) -> list[str]:
    if columns is None:
        return ["*"]
    if isinstance(columns, str):
        return [columns]
    return list(columns)


class _Wanted:
    """One entry of ``columns``."""

    def __init__(self, text: str) -> None:
        self.differing = isinstance(text, str) and text.endswith(_DIFFERING)
        self.text = text.removesuffix(_DIFFERING) if self.differing else text
        self.field = parse_field(self.text)
        self.aggregate = None if self.field.aggregate == "last" else self.field.aggregate
        self.pattern = "*" in self.text or "?" in self.text

    def paths(self, known: Iterable[str]) -> list[str]:
        """Return the paths meant, of those that exist."""
        if not self.pattern:
            return [self.field.path]
        return [path for path in known if fnmatchcase(path, self.field.path)]

    def label(self, path: str) -> str:
        """Return the column's name for a path."""
        return f"{path}:{self.field.aggregate}" if self.field.aggregate else path


def _read_table(index: Index, chosen: _Chosen, wanted: list[_Wanted]) -> RunsTable:
    known = index.numbers.paths(index.connection)
    everything = any(one.pattern and one.field.path == "*" for one in wanted)
    paths = (
        None if everything else {path for one in wanted for path in one.paths((*_DERIVED, *known))}
    )
    cells = _Cells(
        index,
        chosen,
        None if paths is None else [known[path] for path in sorted(paths) if path in known],
    )
    if any(one.field.aggregate not in (None, "last") for one in wanted):
        cells.read_series()
    labels: dict[str, tuple[str, str | None]] = {"sys/id": ("sys/id", None)}
    ordered = cells.paths()
    for one in wanted:
        found = {one.label(path): (path, one.aggregate) for path in one.paths(ordered)}
        if one.pattern and one.aggregate:
            found = {
                label: at
                for label, at in found.items()
                if any(run.get(at) is not None for run in cells)
            }
        if one.differing:
            found = {
                label: at
                for label, at in found.items()
                if len({repr(run.get(at)) for run in cells}) > 1
            }
        labels |= {label: at for label, at in found.items() if label not in labels}
    rows = [
        {label: value for label, at in labels.items() if (value := run.get(at)) is not None}
        for run in cells
    ]
    return RunsTable(list(labels), rows, chosen.refs, chosen.total)


At = tuple[str, str | None]
"""A path and what is asked of a series there; None: what it shows."""


class _Cells:
    """What the chosen runs show: iterates over one dict a run, by path and aggregate, in order."""

    def __init__(self, index: Index, chosen: _Chosen, paths: list[int] | None) -> None:
        self._index = index
        self._chosen = chosen
        self._paths = paths
        self._runs: dict[int, dict[At, Any]] = {number: {} for number in chosen.numbers}
        for runs, part in self._parts():
            self._read_attributes(runs, part)
        for start in range(0, len(chosen.numbers), _PART):
            self._read_facts(chosen.numbers[start : start + _PART])

    def __iter__(self) -> Iterator[dict[At, Any]]:
        return iter(self._runs.values())

    def _parts(self) -> Iterator[tuple[list[int], list[int] | None]]:
        """Yield runs and paths for one statement each."""
        numbers, size = self._chosen.numbers, _PART // 2
        for start in range(0, len(numbers), size):
            if self._paths is None:
                yield numbers[start : start + size], None
                continue
            for at in range(0, len(self._paths), size):
                yield numbers[start : start + size], self._paths[at : at + size]

    def paths(self) -> list[str]:
        """Return the paths that any of the runs has, the best known ones first."""
        present = {path for run in self for path, aggregate in run if aggregate is None}
        first = [path for path in _FIRST if path in present]
        return first + sorted(present.difference(first))

    def _read_attributes(self, runs: list[int], paths: list[int] | None) -> None:
        table = schema.attribute.c
        long = sa.case((table.type.in_(("text", "string_series")), table.registers))
        shown = (table["class"], table.number, table.whole, table.text, long)
        statement = sa.select(table.run, table.path, table.type, *shown)
        statement = statement.where(table.run.in_(runs), table.visible == 1)
        if paths is not None:
            statement = statement.where(table.path.in_(paths))
        connection, path_of = self._index.connection, self._index.numbers.path
        sets = False
        for run, number, kind, klass, value, whole, text, registers in schema.fetch(
            connection, statement
        ):
            at = (path_of(connection, number), None)
            if kind == "string_set":
                sets, self._runs[run][at] = True, StringList()
            else:
                self._runs[run][at] = _shown(kind, klass, value, whole, text, registers)
        if sets:
            self._read_sets(runs)

    def _read_sets(self, runs: list[int]) -> None:
        table, connection = schema.element.c, self._index.connection
        rows = schema.fetch(
            connection, sa.select(table.run, table.path, table.value).where(table.run.in_(runs))
        )
        for run, number, value in sorted(rows):
            elements = self._runs[run].get((self._index.numbers.path(connection, number), None))
            if isinstance(elements, StringList):
                elements.append(value)

    def _read_facts(self, runs: list[int]) -> None:
        table = schema.run.c
        times = (table.created, table.modified, table.running)
        statement = sa.select(table.id, table.name, table.owner, *times, table.trashed)
        statement = statement.where(table.id.in_(runs))
        for number, name, owner, created, modified, running, trashed in schema.fetch(
            self._index.connection, statement
        ):
            facts = {
                "sys/id": name,
                "sys/state": self._chosen.states[number],
                "sys/owner": owner,
                "sys/creation_time": time_of(created),
                "sys/modification_time": time_of(modified),
                "sys/running_time": running / 1e9,
                "sys/trashed": bool(trashed),
            }
            self._runs[number].update({(path, None): value for path, value in facts.items()})

    def read_series(self) -> None:
        """Read what else can be asked of series."""
        table, connection = schema.series.c, self._index.connection
        names = list(AGGREGATE_COLUMNS)
        columns = [table[AGGREGATE_COLUMNS[name]] for name in names]
        same = sa.and_(
            schema.attribute.c.run == table.run,
            schema.attribute.c.path == table.path,
            schema.attribute.c.family == table.family,
            schema.attribute.c.visible == 1,
        )
        for runs, paths in self._parts():
            statement = sa.select(table.run, table.path, *columns).select_from(
                schema.series.join(schema.attribute, same)
            ).where(table.run.in_(runs))  # fmt: skip
            if paths is not None:
                statement = statement.where(table.path.in_(paths))
            for run, number, *values in schema.fetch(connection, statement):
                path = self._index.numbers.path(connection, number)
                self._runs[run].update(
                    {(path, name): value for name, value in zip(names, values, strict=True)}
                )


def _shown(
    kind: str,
    klass: int | None,
    number: float | None,
    whole: int | None,
    text: str | None,
    long: Any,
) -> Any:
    """Return what a row of ``attribute`` shows in a table; None for nothing."""
    if kind == "float_series":
        return None if klass is None else atom_value("float", klass, number, None, None, None)
    if kind in ("file", "artifact"):
        return text
    if kind == "string_series":
        return json.loads(long.partition("\n")[2]) if long else None
    if kind in ("file_set", "file_series", "histogram_series"):
        return whole
    value = atom_value(kind, klass, number, whole, text, long)
    return decoded(kind, value) if kind in ("datetime", "json") else value


# ---------------------------------------------------------------------- the table of points


class SeriesTable:
    """Points of several series of several runs; see `seamark.project.Project.fetch_series`.

    Columns: ``run``, ``path``, ``step``, ``value``, ``time`` and ``attempt`` (-1: of a writer that
        belongs to none).

    Attributes:
        parts: (run id, path, points) of every series that has points, in the order of the runs.
    """

    columns: Final = ("run", "path", "step", "value", "time", "attempt")

    def __init__(self, parts: list[tuple[str, str, Points]]) -> None:
        self.parts = parts

    def __len__(self) -> int:
        """Return the number of points."""
        return sum(len(points) for _, _, points in self.parts)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate over the points as dicts."""
        for run, path, points in self.parts:
            rows = zip(
                points.step.tolist(),
                points.value.tolist(),
                points.time_ns.tolist(),
                points.attempt.tolist(),
                strict=True,
            )
            for step, value, time_ns, attempt in rows:
                yield {
                    "run": run,
                    "path": path,
                    "step": step,
                    "value": value,
                    "time": time_of(time_ns),
                    "attempt": attempt,
                }

    def __repr__(self) -> str:
        """Return the size."""
        return f"<SeriesTable: {len(self)} points of {len(self.parts)} series>"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dict a point, times as aware datetimes in UTC."""
        return list(self)

    def to_numpy(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return one array a column; ``time`` is in nanoseconds since the Unix epoch."""
        import numpy as np

        sizes = [len(points) for _, _, points in self.parts]
        found: dict[str, np.ndarray[Any, Any]] = {}
        for name, place in (("run", 0), ("path", 1)):
            words = np.empty(len(self.parts), object)
            words[:] = [part[place] for part in self.parts]
            found[name] = np.repeat(words, sizes)
        kinds = {"step": np.float64, "value": np.float64, "time": np.int64, "attempt": np.int64}
        for name, kind in kinds.items():
            own = "time_ns" if name == "time" else name
            columns = [getattr(points, own) for _, _, points in self.parts]
            found[name] = np.concatenate(columns) if columns else np.empty(0, kind)
        return found

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame; run and path are categories, time is UTC.

        Raises:
            MissingExtraError: If pandas is not installed.
        """
        import numpy as np

        frame = _pandas()
        sizes = [len(points) for _, _, points in self.parts]

        def category(place: int) -> Any:
            words = [str(part[place]) for part in self.parts]
            known = list(dict.fromkeys(words))
            place_of = {word: at for at, word in enumerate(known)}
            codes = np.repeat(np.array([place_of[word] for word in words], np.int32), sizes)
            return frame.Categorical.from_codes(codes, known)

        def column(name: str, kind: Any) -> Any:
            columns = [getattr(points, name) for _, _, points in self.parts]
            return np.concatenate(columns) if columns else np.empty(0, kind)

        time = frame.DatetimeIndex(column("time_ns", np.int64).view("M8[ns]"), tz="UTC")
        data = {
            "run": category(0),
            "path": category(1),
            "step": column("step", np.float64),
            "value": column("value", np.float64),
            "time": time,
            "attempt": column("attempt", np.int64),
        }
        made: pd.DataFrame = frame.DataFrame(data, columns=list(self.columns), copy=False)
        return made


def read_series(
    index: Index,
    refs: Sequence[tuple[str, str]],
    patterns: Sequence[str],
    attempt: int | str = "latest",
    progress: Callable[[int, int], None] | None = None,
) -> SeriesTable:
    """Return the points of the float series that match, of these runs.

    Args:
        index: Of the root.
        refs: (project, run id) of the runs.
        patterns: Paths, or patterns with ``*`` and ``?``.
        attempt: See `seamark.store.view.RunView.points`.
        progress: Called with the number of runs read and of all.

    Raises:
        ArgumentError: If ``attempt`` cannot be one.
    """
    parts: list[tuple[str, str, Points]] = []
    for done, (project, name) in enumerate(refs):
        if progress is not None:
            progress(done, len(refs))
        view = index.view(project, name)
        known = view.series_paths()
        paths = [
            path
            for pattern in patterns
            for path in known
            if path == pattern or fnmatchcase(path, pattern)
        ]
        found = view.many_points(list(dict.fromkeys(paths)), attempt)  # type: ignore[arg-type]  # checked there
        parts += [(name, path, points) for path, points in found.items() if len(points)]
    if progress is not None and refs:
        progress(len(refs), len(refs))
    return SeriesTable(parts)
