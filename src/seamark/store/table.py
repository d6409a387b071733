"""The runs table: what people and the command line get from a query."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seamark.errors import MissingExtraError
from seamark.store import schema
from seamark.store.query import (
    parse_field,
)
from seamark.store.records import atom_value
from seamark.store.selection import Chosen, Selection, choose, select_runs
from seamark.store.sql import AGGREGATE_COLUMNS
from seamark.store.view import decoded, time_of

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from seamark.store.index import Index

__all__ = ["RunsTable", "Selection", "StringList", "pandas", "query_runs", "select_runs"]

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


class RunsTable:
    """Runs and what they show, one row each; made by `seamark.project.Project.fetch_runs_table`.

    A row is a dict from column to value; what a run does not have is not in its row. Series show
    their last value (or what the column asks for: ``val/loss:min``), sets of strings a sorted list,
    files their names, artifacts their hash.

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
        frame = pandas()
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


def pandas() -> Any:
    """Return the package pandas.

    Raises:
        MissingExtraError: If it is not installed; the message names the extra.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        msg = 'topandas() needs pandas; install it with: pip install "seamark[pandas]"'
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
        return index.healing(lambda: _read_table(index, choose(index, selection), wanted))


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


def _read_table(index: Index, chosen: Chosen, wanted: list[_Wanted]) -> RunsTable:
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

    def __init__(self, index: Index, chosen: Chosen, paths: list[int] | None) -> None:
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
