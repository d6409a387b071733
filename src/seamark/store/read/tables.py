"""Runs table: the rows and columns that a query returns."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from operator import itemgetter
from typing import Any, Final

import sqlalchemy as sa

from seamark.reading.attributes import DETAIL
from seamark.reading.catalog import Columns, Selection, Unknown, refuse
from seamark.reading.points import time_of
from seamark.reading.states import ACTIVE_STATES, CRASHED
from seamark.reading.tables import RunsTable, StringList
from seamark.store import schema
from seamark.store.cells import UNKNOWN_NS, atom_value, decoded
from seamark.store.query.expression import matcher
from seamark.store.query.kinds import CHILDREN
from seamark.store.query.language import parse_field
from seamark.store.query.sql import AGGREGATE_COLUMNS, CRASH_REASON, reasons_of
from seamark.store.query.statements import Chosen, choose
from seamark.store.query.validation import KnownPaths
from seamark.store.read.inherited import TAGS, columns_of_children, inherited_tags, shared_paths
from seamark.store.read.names import ALIASES, VERSION, version_aliases, version_numbers
from seamark.store.runs import Store

_DIFFERING: Final = ":differing"
_FIRST_COLUMNS: Final = (
    "sys/id",
    "sys/name",
    "sys/state",
    "sys/owner",
    "sys/creation_time",
    "sys/modification_time",
    "sys/start_time",
    "sys/end_time",
    "sys/running_time",
    "sys/trashed",
)
_DERIVED: Final = ("sys/id", "sys/state", "sys/owner", *_FIRST_COLUMNS[4:])
_SYSTEM: Final = (*_DERIVED, DETAIL, CRASH_REASON)
_RUN_ONLY_COLUMNS: Final = frozenset(
    {"sys/state", DETAIL, "sys/start_time", "sys/end_time", "sys/running_time"}
)
"""Columns only for runs, not for models and versions."""
_FAILED: Final = "sys/failed"
"""Path of the failure flag that every Neptune run has; only failed runs record it."""
_NUMBER_TYPES: Final = frozenset({"float", "float_series", "statistic"})
_LONG_TYPES: Final = ("text", "string_series")
_SEPARATE_TYPES: Final = frozenset({"string_set", *_LONG_TYPES})
"""Types whose values are not stored in the columns of ``attribute``."""
_MAX_LOOKUPS: Final = 900
"""Maximum number of runs looked up by their numbers."""

_attribute: Final = schema.attribute.c
_ATTRIBUTES: Final = sa.select(
    _attribute.run,
    _attribute.path,
    _attribute.type,
    _attribute["class"],
    _attribute.number,
    _attribute.whole,
    _attribute.text,
).where(_attribute.visible == 1)

At = tuple[str, str | None]
"""Path and aggregate of a series; None for the visible value."""


def query_runs(
    store: Store,
    connection: sa.Connection,
    selection: Selection,
    columns: Columns,
    now_ns: int,
    unknown: Unknown = refuse,
    *,
    counted: bool = True,
) -> RunsTable:
    """Return the matching runs with the requested columns.

    Columns are paths, optionally with an aggregate (``val/loss:min``), or patterns
    (``hyperparams/*``). With the suffix ``:differing``, only columns in which the runs differ are
    returned. None returns all columns; a function receives the paths of the first runs (see
    `shared_paths`) and returns columns. For ``unknown`` and ``counted`` see `choose`.

    Raises:
        ArgumentError: If an argument is invalid.
        QueryError: If the query or a column has a syntax error, or does not fit the types.
    """
    wanted = [] if callable(columns) else [_Column(column) for column in _columns(columns)]
    chosen = choose(store, connection, selection, now_ns, unknown, counted=counted, facts=True)
    if callable(columns):
        found = columns(shared_paths(store, connection, chosen.numbers))
        wanted = [_Column(column) for column in found]
    known = _known_paths(store, connection, wanted)
    everything = any(one.pattern and one.field.path == "*" for one in wanted)
    paths = None
    if not everything:
        chosen_paths = {path for one in wanted for path in one.paths((*_SYSTEM, *known))}
        paths = {known[path]: path for path in sorted(chosen_paths) if path in known}
    cells = _Cells(store, connection, chosen, paths, selection.kind)
    if everything or any(CRASH_REASON in one.paths(_SYSTEM) for one in wanted):
        cells.read_crash_reasons(now_ns)
    if aggregates := sorted({one.aggregate for one in wanted if one.aggregate is not None}):
        cells.read_series(aggregates)
    if selection.kind in ("model_version", "artifact"):
        cells.read_versions()
    of_children = [one for one in wanted if one.is_of_children and one.field.path not in known]
    cells.read_children(of_children, selection)
    present = set(cells.paths())
    unchecked = [one for one in wanted if one not in of_children and one.needs_check(present)]
    if unchecked:
        checks = KnownPaths(store, connection, unknown, selection.kind, selection.readable)
        _check_columns(unchecked, checks, (*_SYSTEM, *known))
    labels = _labels(wanted, cells)
    empty: list[Any] = [None] * len(chosen.numbers)
    shown = {label: cells.columns.get(at, empty) for label, at in labels.items()}
    return RunsTable(shown, chosen.refs, chosen.total, selection.offset)


def _columns(columns: Iterable[str] | None) -> list[str]:
    if columns is None:
        return ["*"]
    return [columns] if isinstance(columns, str) else list(columns)


class _Column:
    def __init__(self, text: str) -> None:
        self.differing = isinstance(text, str) and text.endswith(_DIFFERING)
        self.text = text.removesuffix(_DIFFERING) if self.differing else text
        self.field = parse_field(self.text)
        self.aggregate = None if self.field.aggregate == "last" else self.field.aggregate
        self.is_qualified = (self.field.aggregate, self.field.type) != (None, None)
        self.pattern = "*" in self.text or "?" in self.text
        self.is_of_children = self.field.path.startswith(CHILDREN) and not self.pattern

    def paths(self, known: Iterable[str]) -> list[str]:
        known = list(known)
        if not self.pattern or self.field.path in known:
            return [self.field.path]
        return list(filter(matcher(self.field.path), known))

    def needs_check(self, present: Collection[str]) -> bool:
        if self.pattern:
            return self.field.path != "*" and not self.paths(present)
        return self.is_qualified or self.field.path not in present

    def label(self, path: str) -> str:
        return f"{path}:{self.field.aggregate}" if self.field.aggregate else path


def _known_paths(
    store: Store, connection: sa.Connection, wanted: Iterable[_Column]
) -> dict[str, int]:
    if any(one.pattern for one in wanted):
        return store.numbers.everything(connection)
    paths = {one.field.path for one in wanted}
    return store.numbers.known(connection, paths.difference(_DERIVED))


def _check_columns(
    unchecked: Iterable[_Column], checks: KnownPaths, known: Collection[str]
) -> None:
    for one in unchecked:
        if one.pattern:
            checks.check_pattern(one.text, one.paths(known))
        else:
            checks.check_column(one.text, one.field)


def _labels(wanted: list[_Column], cells: _Cells) -> dict[str, At]:
    labels: dict[str, At] = {"sys/id": ("sys/id", None)}
    ordered = cells.paths()
    for one in wanted:
        for path in one.paths(ordered):
            label, at = one.label(path), (path, one.aggregate)
            column = cells.columns.get(at, [])
            if label in labels:
                continue
            if one.pattern and one.aggregate and all(each is None for each in column):
                continue
            if one.differing and len({repr(each) for each in column}) < 2:  # noqa: PLR2004
                continue
            labels[label] = at
    return labels


class _Cells:
    """Columns of the chosen runs, by path and aggregate; one value or None per run, in order."""

    def __init__(
        self,
        store: Store,
        connection: sa.Connection,
        chosen: Chosen,
        paths: dict[int, str] | None,
        kind: str,
    ) -> None:
        self._store = store
        self._kind = kind
        self._connection = connection
        self._chosen = chosen
        self._paths = paths
        self._order = {number: at for at, number in enumerate(chosen.numbers)}
        self.columns: dict[At, list[Any]] = {}
        self._read_attributes()
        self._read_inherited()
        self._read_facts()

    def paths(self) -> list[str]:
        present = {path for path, aggregate in self.columns if aggregate is None}
        first = [path for path in _FIRST_COLUMNS if path in present]
        return first + sorted(present.difference(first))

    def _stream_rows(
        self, statement: sa.Select[Any], run: Any, path: Any
    ) -> Iterator[list[tuple[Any, ...]]]:
        # Rows of other runs may be included: if many runs are chosen, one scan of the table is
        # faster than many lookups.
        database, numbers = self._store.database, self._chosen.numbers
        if len(numbers) <= _MAX_LOOKUPS:
            statement = statement.where(database.among(run, numbers))
        if self._paths is not None:
            statement = statement.where(database.among(path, self._paths))
        return database.stream(self._connection, statement) if numbers else iter(())

    def _iter_cells(
        self, statement: sa.Select[Any], run: Any, path: Any
    ) -> Iterator[tuple[int, str, tuple[Any, ...]]]:
        rows = [row for part in self._stream_rows(statement, run, path) for row in part]
        names = self._path_names({row[1] for row in rows})
        for number, path_number, *rest in sorted(rows, key=itemgetter(0, 1)):
            at, path_name = self._order.get(number), names[path_number]
            if at is not None and (path_name, None) in self.columns:
                yield at, path_name, tuple(rest)

    def _path_names(self, numbers: Iterable[int]) -> dict[int, str]:
        return self._store.numbers.paths(self._connection, list(numbers))

    def _read_attributes(self) -> None:
        by_number: dict[int, list[Any]] = {}
        size, separate, place_of = len(self._order), set[str](), self._order.get
        for part in self._stream_rows(_ATTRIBUTES, _attribute.run, _attribute.path):
            for run, path, kind, klass, number, whole, text in part:
                if (at := place_of(run)) is None:
                    continue
                if (column := by_number.get(path)) is None:
                    column = by_number[path] = [None] * size
                if number is not None and kind in _NUMBER_TYPES:
                    column[at] = number
                elif kind == "string":
                    column[at] = text
                elif kind in _SEPARATE_TYPES:
                    separate.add(kind)
                    column[at] = StringList() if kind == "string_set" else None
                else:
                    column[at] = _shown_value(kind, klass, number, whole, text)
        names = self._path_names(by_number)
        self.columns = {(names[number], None): column for number, column in by_number.items()}
        if "string_set" in separate:
            self._read_sets()
        if separate.intersection(_LONG_TYPES):
            self._read_long()

    def _read_inherited(self) -> None:
        wanted = None if self._paths is None else set(self._paths.values())
        if wanted is not None and not any(path.startswith(TAGS) for path in wanted):
            return
        found = dict(inherited_tags(self._store, self._connection, self._chosen.refs))
        for at, ref in enumerate(self._chosen.refs):
            for path, one in found.get(ref, {}).items():
                if wanted is None or path in wanted:
                    empty = [None] * len(self._order)
                    self.columns.setdefault((path, None), empty)[at] = one.value

    def _read_sets(self) -> None:
        table = schema.element.c
        statement = sa.select(table.run, table.path, table.place, table.value)
        for at, path, (_, value) in self._iter_cells(statement, table.run, table.path):
            if isinstance(cell := self.columns[path, None][at], StringList):
                cell.append(value)

    def _read_long(self) -> None:
        table = schema.attribute.c
        statement = sa.select(table.run, table.path, table.type, table.registers).where(
            table.visible == 1, table.type.in_(_LONG_TYPES)
        )
        for at, path, (kind, registers) in self._iter_cells(statement, table.run, table.path):
            if registers:
                text = registers.partition("\n")[2] if kind == "string_series" else registers
                self.columns[path, None][at] = json.loads(text)

    def _read_facts(self) -> None:
        rows = self._chosen.rows
        if not rows:
            return
        states, names, details, owners, created, modified, started, ended, running, trashed = map(
            list, zip(*(row[3:] for row in rows), strict=True)
        )
        ended = [
            None if at in ACTIVE_STATES else end for at, end in zip(states, ended, strict=True)
        ]
        columns = {
            "sys/id": names,
            "sys/state": states,
            "sys/owner": owners,
            "sys/creation_time": [None if at == UNKNOWN_NS else time_of(at) for at in created],
            "sys/modification_time": [None if at == UNKNOWN_NS else time_of(at) for at in modified],
            "sys/start_time": [None if at is None else time_of(at) for at in started],
            "sys/end_time": [None if at is None else time_of(at) for at in ended],
            "sys/running_time": [ns / 1e9 for ns in running],
            "sys/trashed": [*map(bool, trashed)],
        }
        if any(detail is not None for detail in details):
            columns[DETAIL] = details
        if self._kind == "run":
            failed = self.columns.get((_FAILED, None), [None] * len(rows))
            columns[_FAILED] = [bool(one) for one in failed]
        without = frozenset() if self._kind == "run" else _RUN_ONLY_COLUMNS
        self.columns |= {
            (path, None): column for path, column in columns.items() if path not in without
        }

    def read_crash_reasons(self, now_ns: int) -> None:
        crashed = [row[0] for row in self._chosen.rows if row[3] == CRASHED]
        found = reasons_of(self._store, self._connection, crashed, now_ns)
        self.columns.pop((CRASH_REASON, None), None)  # a value recorded by the user
        if found:
            column = [found.get(number) for number in self._chosen.numbers]
            self.columns[CRASH_REASON, None] = column

    def read_versions(self) -> None:
        """Replace recorded version numbers by current ones, and add aliases."""
        refs = self._chosen.refs
        if self._kind == "artifact":
            aliases = version_aliases(self._store, self._connection, refs)
            self.columns[ALIASES, None] = [
                StringList(aliases[ref]) if ref in aliases else None for ref in refs
            ]
        if (VERSION, None) not in self.columns:
            return
        found = version_numbers(self._store, self._connection, refs)
        self.columns[VERSION, None] = [found.get(ref) for ref in refs]

    def read_children(self, wanted: Iterable[_Column], selection: Selection) -> None:
        """Add the columns of child runs in the projects of the selection."""
        asked = [(one.field.path, one.field.aggregate) for one in wanted]
        refs = self._chosen.refs
        self.columns |= columns_of_children(
            self._store, self._connection, refs, asked, selection.reaches
        )

    def read_series(self, aggregates: Collection[str]) -> None:
        table, shown, size = schema.series.c, schema.attribute.c, len(self._order)
        same = sa.and_(
            shown.run == table.run,
            shown.path == table.path,
            shown.family == table.family,
            shown.visible == 1,
        )
        columns = [table[AGGREGATE_COLUMNS[name]] for name in aggregates]
        statement = sa.select(table.run, table.path, *columns).select_from(
            schema.series.join(schema.attribute, same)
        )
        by_number: dict[int, list[list[Any]]] = {}
        for part in self._stream_rows(statement, table.run, table.path):
            for run, path, *values in part:
                if (at := self._order.get(run)) is None:
                    continue
                if (found := by_number.get(path)) is None:
                    found = by_number[path] = [[None] * size for _ in aggregates]
                for column, value in zip(found, values, strict=True):
                    column[at] = value
        names = self._path_names(by_number)
        for number, found in by_number.items():
            for name, column in zip(aggregates, found, strict=True):
                self.columns[names[number], name] = column


def _shown_value(
    kind: str, klass: int | None, number: float | None, whole: int | None, text: str | None
) -> Any:
    if kind in ("float_series", "statistic"):
        return None if klass is None else atom_value("float", klass, number, None, None, None)
    if kind in ("file", "artifact"):
        return text
    if kind in ("file_set", "file_series", "histogram_series"):
        return whole
    value = atom_value(kind, klass, number, whole, text, None)
    return decoded(kind, value) if kind in ("datetime", "json") else value
