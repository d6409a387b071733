"""Tables of runs and of points: what people and the command line get from a query."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seamark.errors import ArgumentError, MissingExtraError
from seamark.journal.reader import SETTLE_NS
from seamark.store import schema
from seamark.store.query import And, Comparison, Expression, Field, Not, Or, Value, parse, parse_field
from seamark.store.records import NUMBER_FAMILIES, atom_value
from seamark.store.sql import CRASHED, Compiler, derived_order, order_by
from seamark.store.view import Points, decoded, is_crashed, time_of

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from seamark.store.fold import JournalState
    from seamark.store.index import Index

__all__ = ["STATES", "RunsTable", "Selection", "SeriesTable", "StringList", "query_runs", "read_series", "select_runs"]

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
_PART: Final = 500
"""So many ids stand in one statement."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which runs, in which order; every argument is optional. See `seamark.project.Project.fetch_runs_table`.

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
                values = [one for value in given for one in (_states(value) if name == "state" else (value,))]
                terms.append(Or(tuple(_equals(path, value) for value in values)))
        tags = _strings("tag", self.tag) or []
        terms += [Comparison(Field("sys/tags", None, "string_set"), "contains", Value(tag, tag)) for tag in tags]
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
        if self.limit is not None and (not isinstance(self.limit, int) or isinstance(self.limit, bool) or self.limit < 1):
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
    values = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
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
    """The numbers of runs that a selection chose, in order, and what is needed to read them."""

    def __init__(self, runs: list[tuple[int, str, str, str]], total: int) -> None:
        self.numbers = [number for number, _, _, _ in runs]
        self.refs = [(project, name) for _, project, name, _ in runs]
        self.states = {number: state for number, _, _, state in runs}
        self.total = total


def _state_column(index: Index) -> sa.ColumnElement[str]:
    """Return the state of a run as SQL, with ``"crashed"`` for those that say they run and do not."""
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
    where = [Compiler(number, state).condition(expression), run.c.name != ".project"]
    if selection.project is not None:
        inside = run.c.project.between(selection.project + "/", selection.project + "/\U0010ffff")
        where.append(sa.or_(run.c.project == selection.project, inside))
    source: Any = run
    row = summary = None
    derived = derived_order(field.path, state)
    path = None if derived is not None else number(field.path)
    if path is not None:
        row = schema.attribute.alias()
        on = sa.and_(row.c.run == run.c.id, row.c.path == path, row.c.visible == 1)
        source = run.outerjoin(row, on)
        if field.aggregate not in (None, "last"):
            summary = schema.series.alias()
            same = (summary.c.run == row.c.run, summary.c.path == row.c.path, summary.c.family == row.c.family)
            source = source.outerjoin(summary, sa.and_(*same))
    order = list(order_by(field, row, summary, ascending=selection.ascending))
    if derived is not None:
        order.insert(0, derived.asc() if selection.ascending else derived.desc())
    columns = [run.c.id, run.c.project, run.c.name, state.label("shown_state")]
    statement = sa.select(*columns).select_from(source).where(*where).order_by(*order)
    if selection.limit is not None:
        statement = statement.limit(selection.limit)
    rows = [tuple(found) for found in connection.execute(statement)]
    total = len(rows)
    if selection.limit is not None and total == selection.limit:
        total = connection.execute(sa.select(sa.func.count()).select_from(run).where(*where)).scalar_one()
    return _Chosen(rows, total)


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

    A row is a dict from column to value; what a run does not have is not in its row. Series show their last value (or
    what the column asks for: ``val/loss:min``), sets of strings a sorted list, files their names, artifacts their hash.

    Attributes:
        columns: All columns, ``sys/id`` first.
        rows: The rows, in order.
        refs: (project, run id) of the rows.
        total: How many runs match, regardless of the limit.
    """

    def __init__(self, columns: list[str], rows: list[dict[str, Any]], refs: list[tuple[str, str]], total: int) -> None:
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
        """Return one array a column: float64 if it holds numbers only (NaN: no value), else objects."""
        import numpy as np

        found: dict[str, np.ndarray[Any, Any]] = {}
        for column in self.columns:
            values = [row.get(column) for row in self.rows]
            if _all_numbers(values):
                found[column] = np.array([np.nan if value is None else float(value) for value in values])
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
        data = {
            column: [_joined(row.get(column)) for row in self.rows] for column in self.columns
        }
        return frame.DataFrame(data, columns=self.columns)


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


def query_runs(index: Index, selection: Selection, columns: Iterable[str] | None = None) -> RunsTable:
    """Return the runs that match with the columns that are asked for, as last folded.

    Args:
        index: Of the root.
        selection: Which runs.
        columns: Paths, perhaps with an aggregate (``val/loss:min``); patterns (``hyperparams/*``); with
            ``:differing`` behind, only the columns in which the chosen runs differ. None for everything.

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
    paths = None if everything else {path for one in wanted for path in one.paths((*_DERIVED, *known))}
    cells = _read_cells(index, chosen, None if paths is None else [known[path] for path in paths if path in known])
    present = {path for run in cells.values() for path in run}
    first = [path for path in _FIRST if path in present]
    ordered = first + sorted(present.difference(first))
    labels: dict[str, tuple[str, str | None]] = {"sys/id": ("sys/id", None)}
    for one in wanted:
        found: dict[str, tuple[str, str | None]] = {}
        for path in one.paths(ordered):
            if not (one.pattern and one.field.aggregate and not _has(cells, path, one.field.aggregate)):
                found[one.label(path)] = (path, one.field.aggregate)
        if one.differing:
            found = {label: at for label, at in found.items() if _differs(chosen, cells, at)}
        labels |= {label: at for label, at in found.items() if label not in labels}
    rows = [
        {label: value for label, at in labels.items() if (value := _cell(cells[number], at)) is not None}
        for number in chosen.numbers
    ]
    return RunsTable(list(labels), rows, chosen.refs, chosen.total)


def _cell(run: dict[str, _Value], at: tuple[str, str | None]) -> Any:
    found = run.get(at[0])
    if found is None:
        return None
    return found.shown if at[1] in (None, "last") else found.aggregates.get(str(at[1]))


def _has(cells: dict[int, dict[str, _Value]], path: str, aggregate: str) -> bool:
    return any(aggregate in run[path].aggregates for run in cells.values() if path in run)


def _differs(chosen: _Chosen, cells: dict[int, dict[str, _Value]], at: tuple[str, str | None]) -> bool:
    return len({repr(_cell(cells[number], at)) for number in chosen.numbers}) > 1


class _Value:
    """What a run shows at a path: the value itself, and for series what else can be asked for."""

    __slots__ = ("aggregates", "shown")

    def __init__(self, shown: Any, aggregates: dict[str, Any] | None = None) -> None:
        self.shown = shown
        self.aggregates = aggregates or {}


def _read_cells(index: Index, chosen: _Chosen, paths: list[int] | None) -> dict[int, dict[str, _Value]]:
    """Return what the chosen runs show, by number of the run and path; derived facts always."""
    cells: dict[int, dict[str, _Value]] = {number: {} for number in chosen.numbers}
    for start in range(0, len(chosen.numbers), _PART):
        part = chosen.numbers[start : start + _PART]
        for parts in [None] if paths is None else [paths[at : at + _PART] for at in range(0, len(paths), _PART)]:
            _read_attributes(index, part, parts, cells)
        _read_facts(index, part, chosen, cells)
    return cells


def _read_attributes(
    index: Index, runs: list[int], paths: list[int] | None, cells: dict[int, dict[str, _Value]]
) -> None:
    connection, table = index.connection, schema.attribute.c
    series = schema.series.c
    same = sa.and_(series.run == table.run, series.path == table.path, series.family == table.family)
    statement = (
        sa.select(
            table.run, table.path, table.family, table.type, table["class"], table.number, table.whole, table.text,
            series.low, series.high, series.mean, series.count, series.first_step, series.last_step,
            sa.case((table.type.in_(("text", "string_series")), table.registers)),
        )
        .select_from(schema.attribute.outerjoin(schema.series, same))
        .where(table.run.in_(runs), table.visible == 1)
    )  # fmt: skip
    if paths is not None:
        statement = statement.where(table.path.in_(paths))
    path_of = index.numbers.path
    sets: list[tuple[int, int]] = []
    for run, number, family, kind, klass, value, whole, text, *rest, registers in connection.execute(statement):
        path = path_of(connection, number)
        if family == 0:
            shown = atom_value(kind, klass, value, whole, text, registers)
            cells[run][path] = _Value(decoded(kind, shown) if kind in ("datetime", "json") else shown)
        elif NUMBER_FAMILIES[family] == "string_set":
            sets.append((run, number))
        else:
            cells[run][path] = _shown(NUMBER_FAMILIES[family], (klass, value, whole, text), rest, registers)
    if sets:
        _read_sets(index, runs, sets, cells)


def _shown(family: str, own: tuple[Any, Any, Any, Any], rest: Sequence[Any], registers: str | None) -> _Value:
    klass, value, whole, text = own
    low, high, mean, count, first, last = rest
    if family in ("file", "artifact"):
        return _Value(text)
    if family == "file_set":
        return _Value(whole, {"count": whole})
    aggregates = {"count": count, "first_step": first, "last_step": last}
    if family == "float_series":
        shown = None if klass is None else atom_value("float", klass, value, None, None, None)
        return _Value(shown, {**aggregates, "min": low, "max": high, "mean": mean})
    if family == "string_series":
        return _Value(json.loads(registers.partition("\n")[2]) if registers else None, aggregates)
    return _Value(count, aggregates)


def _read_sets(
    index: Index, runs: list[int], sets: list[tuple[int, int]], cells: dict[int, dict[str, _Value]]
) -> None:
    connection, table = index.connection, schema.element.c
    found: dict[tuple[int, int], list[str]] = {}
    for run, number, value in connection.execute(
        sa.select(table.run, table.path, table.value).where(table.run.in_(runs))
    ):
        found.setdefault((run, number), []).append(value)
    for run, number in sets:
        elements = StringList(sorted(found.get((run, number), [])))
        cells[run][index.numbers.path(connection, number)] = _Value(elements)


def _read_facts(index: Index, runs: list[int], chosen: _Chosen, cells: dict[int, dict[str, _Value]]) -> None:
    table = schema.run.c
    rows = index.connection.execute(
        sa.select(
            table.id, table.name, table.owner, table.created, table.modified, table.running, table.trashed
        ).where(table.id.in_(runs))
    )
    for number, name, owner, created, modified, running, trashed in rows:
        facts = {
            "sys/id": name,
            "sys/state": chosen.states[number],
            "sys/owner": owner,
            "sys/creation_time": time_of(created),
            "sys/modification_time": time_of(modified),
            "sys/running_time": running / 1e9,
            "sys/trashed": bool(trashed),
        }
        cells[number].update({path: _Value(value) for path, value in facts.items()})


# ---------------------------------------------------------------------- the table of points


class SeriesTable:
    """Points of several series of several runs, one long table; made by `seamark.project.Project.fetch_series`.

    Columns: ``run``, ``path``, ``step``, ``value``, ``time`` and ``attempt`` (-1: of a writer that belongs to none).

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
                points.step.tolist(), points.value.tolist(), points.time_ns.tolist(), points.attempt.tolist(), strict=True
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
        """Return one array a column: run and path as objects, ``time`` as int64 nanoseconds since the Unix epoch."""
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
        return frame.DataFrame(data, columns=list(self.columns), copy=False)


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
        paths = [path for pattern in patterns for path in known if path == pattern or fnmatchcase(path, pattern)]
        found = view.many_points(list(dict.fromkeys(paths)), attempt)  # type: ignore[arg-type]  # checked there
        parts += [(name, path, points) for path, points in found.items() if len(points)]
    if progress is not None and refs:
        progress(len(refs), len(refs))
    return SeriesTable(parts)

