"""The runs table: what people and the command line get from a query."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seamark.reading.points import time_of
from seamark.reading.tables import RunsTable, StringList
from seamark.store import schema
from seamark.store.cells import atom_value, decoded
from seamark.store.query.language import parse_field
from seamark.store.query.selection import Chosen, Selection, choose
from seamark.store.query.sql import AGGREGATE_COLUMNS

if TYPE_CHECKING:
    from seamark.store.runs import Store

__all__ = ["query_runs"]

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
_NUMBERS: Final = frozenset({"float", "float_series"})
_LONG: Final = ("text", "string_series")
_APART: Final = frozenset({"string_set", *_LONG})
"""What these show does not stand in the columns that all have."""
_PART: Final = 900
"""So many values stand in one statement; old SQLite takes 999."""

At = tuple[str, str | None]
"""A path and what is asked of a series there; None: what it shows."""


def query_runs(
    store: Store,
    connection: sa.Connection,
    selection: Selection,
    columns: Iterable[str] | None,
    now_ns: int,
) -> RunsTable:
    """Return the runs that match with the columns that are asked for.

    Args:
        store: Which has them.
        connection: Of a transaction of the store.
        selection: Which runs.
        columns: Paths, perhaps with an aggregate (``val/loss:min``); patterns (``hyperparams/*``);
            with ``:differing`` behind, only the columns in which the chosen runs differ. None for
            everything.
        now_ns: Nanoseconds since the Unix epoch.

    Raises:
        ArgumentError: If an argument has a value that cannot be used.
        QueryError: If the query or a column breaks the grammar.
    """
    wanted = [_Wanted(column) for column in _columns(columns)]
    chosen = choose(store, connection, selection, now_ns)
    known = store.numbers.everything(connection)
    everything = any(one.pattern and one.field.path == "*" for one in wanted)
    paths = None
    if not everything:
        meant = {path for one in wanted for path in one.paths((*_DERIVED, *known))}
        paths = {known[path]: path for path in sorted(meant) if path in known}
    cells = _Cells(store, connection, chosen, paths)
    if any(one.aggregate is not None for one in wanted):
        cells.read_series()
    labels = _labels(wanted, cells, chosen)
    rows = [dict[str, Any]() for _ in chosen.numbers]
    place = {number: rows[at] for at, number in enumerate(chosen.numbers)}
    for label, at in labels.items():
        for number, value in cells.columns.get(at, {}).items():
            if value is not None:
                place[number][label] = value
    return RunsTable(list(labels), rows, chosen.refs, chosen.total, selection.offset)


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


def _labels(wanted: list[_Wanted], cells: _Cells, chosen: Chosen) -> dict[str, At]:
    """Return what every column shows, by its name, in order."""
    labels: dict[str, At] = {"sys/id": ("sys/id", None)}
    ordered = cells.paths()
    for one in wanted:
        for path in one.paths(ordered):
            label, at = one.label(path), (path, one.aggregate)
            column = cells.columns.get(at, {})
            if label in labels:
                continue
            if one.pattern and one.aggregate and all(each is None for each in column.values()):
                continue
            if one.differing and not _differs(column, len(chosen.numbers)):
                continue
            labels[label] = at
    return labels


def _differs(column: dict[int, Any], runs: int) -> bool:
    seen = {repr(value) for value in column.values()}
    return len(seen) > 1 or (bool(seen - {"None"}) and len(column) < runs)


class _Cells:
    """What the chosen runs show: by path and aggregate, the values by number of the run.

    Args:
        store: Which has them.
        connection: Of a transaction of the store.
        chosen: Which runs.
        paths: Which paths, by number; None for all.
    """

    def __init__(
        self,
        store: Store,
        connection: sa.Connection,
        chosen: Chosen,
        paths: dict[int, str] | None,
    ) -> None:
        self._store = store
        self._connection = connection
        self._chosen = chosen
        self._paths = paths
        self._names: dict[int, str] = {}
        self._order = {number: at for at, number in enumerate(chosen.numbers)}
        self.columns: dict[At, dict[int, Any]] = {}
        self._read_attributes()
        self._read_facts()

    def paths(self) -> list[str]:
        """Return the paths that any of the runs has, the best known ones first."""
        present = {path for path, aggregate in self.columns if aggregate is None}
        first = [path for path in _FIRST if path in present]
        return first + sorted(present.difference(first))

    def _rows(self, statement: sa.Select[Any], run: Any, path: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the chosen runs and paths; each begins with the run and the path.

        Of most of the runs there are, one walk through the table is quicker than many questions.
        """
        database, numbers = self._store.database, self._chosen.numbers
        paths = None if self._paths is None else list(self._paths)
        many = len(numbers) > _PART
        for start in range(0, 1 if many else len(numbers), _PART // 2):
            some = statement
            if not many:
                some = some.where(run.in_(numbers[start : start + _PART // 2]))
            if paths is None:
                yield from database.stream(self._connection, some)
                continue
            for at in range(0, len(paths), _PART // 2):
                part = some.where(path.in_(paths[at : at + _PART // 2]))
                yield from database.stream(self._connection, part)

    def _named(self, numbers: Iterable[int]) -> dict[int, str]:
        return self._store.numbers.paths(self._connection, list(numbers))

    def _read_attributes(self) -> None:
        table = schema.attribute.c
        shown = (table.type, table["class"], table.number, table.whole, table.text)
        statement = sa.select(table.run, table.path, *shown).where(table.visible == 1)
        by_number: dict[int, dict[int, Any]] = {}
        known, apart = self._order, set[str]()
        for run, path, kind, klass, number, whole, text in self._rows(
            statement, table.run, table.path
        ):
            if run not in known:
                continue
            column = by_number.get(path)
            if column is None:
                column = by_number[path] = {}
            if number is not None and kind in _NUMBERS:
                column[run] = number
            elif kind == "string":
                column[run] = text
            elif kind in _APART:
                apart.add(kind)
                column[run] = StringList() if kind == "string_set" else None
            else:
                column[run] = _shown(kind, klass, number, whole, text)
        names = self._named(by_number)
        self.columns = {(names[number], None): column for number, column in by_number.items()}
        if "string_set" in apart:
            self._read_sets()
        if apart.intersection(_LONG):
            self._read_long()

    def _read_sets(self) -> None:
        table = schema.element.c
        statement = sa.select(table.run, table.path, table.place, table.value)
        rows = sorted(self._rows(statement, table.run, table.path))
        names = self._named({row[1] for row in rows})
        for run, number, _, value in rows:
            elements = self.columns.get((names[number], None), {}).get(run)
            if isinstance(elements, StringList):
                elements.append(value)

    def _read_long(self) -> None:
        table = schema.attribute.c
        statement = sa.select(table.run, table.path, table.type, table.registers).where(
            table.visible == 1, table.type.in_(_LONG)
        )
        rows = list(self._rows(statement, table.run, table.path))
        names = self._named({row[1] for row in rows})
        for run, number, kind, registers in rows:
            if run not in self._order or not registers:
                continue
            text = registers.partition("\n")[2] if kind == "string_series" else registers
            self.columns[names[number], None][run] = json.loads(text)

    def _read_facts(self) -> None:
        table = schema.run.c
        times = (table.created, table.modified, table.running)
        statement = sa.select(table.id, table.name, table.owner, *times, table.trashed)
        columns: dict[str, dict[int, Any]] = {path: {} for path in _DERIVED}
        for number, name, owner, created, modified, running, trashed in self._facts(statement):
            if number not in self._order:
                continue
            facts = (
                name,
                self._chosen.states[number],
                owner,
                time_of(created),
                time_of(modified),
                running / 1e9,
                bool(trashed),
            )
            for path, value in zip(_DERIVED, facts, strict=True):
                columns[path][number] = value
        for path, column in columns.items():
            if column:
                self.columns[path, None] = self.columns.get((path, None), {}) | column

    def _facts(self, statement: sa.Select[Any]) -> Iterator[tuple[Any, ...]]:
        numbers = self._chosen.numbers
        if len(numbers) > _PART:
            yield from self._store.database.stream(self._connection, statement)
        elif numbers:
            some = statement.where(schema.run.c.id.in_(numbers))
            yield from self._store.database.stream(self._connection, some)

    def read_series(self) -> None:
        """Read what else can be asked of series."""
        table = schema.series.c
        names = list(AGGREGATE_COLUMNS)
        columns = [table[AGGREGATE_COLUMNS[name]] for name in names]
        shown = schema.attribute.c
        same = sa.and_(
            shown.run == table.run,
            shown.path == table.path,
            shown.family == table.family,
            shown.visible == 1,
        )
        statement = sa.select(table.run, table.path, *columns).select_from(
            schema.series.join(schema.attribute, same)
        )
        rows = list(self._rows(statement, table.run, table.path))
        paths = self._named({row[1] for row in rows})
        for run, number, *values in rows:
            if run in self._order:
                for name, value in zip(names, values, strict=True):
                    self.columns.setdefault((paths[number], name), {})[run] = value


def _shown(
    kind: str, klass: int | None, number: float | None, whole: int | None, text: str | None
) -> Any:
    """Return what a row of ``attribute`` shows in a table; None for nothing."""
    if kind == "float_series":
        return None if klass is None else atom_value("float", klass, number, None, None, None)
    if kind in ("file", "artifact"):
        return text
    if kind in ("file_set", "file_series", "histogram_series"):
        return whole
    value = atom_value(kind, klass, number, whole, text, None)
    return decoded(kind, value) if kind in ("datetime", "json") else value
