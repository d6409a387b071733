"""Loading and saving of the state of runs, limited to the parts that a fold changes.

Of two processes that fold a run at once, the second to save learns from the version of the run's
row that it has to look again.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from seamark.paths import kind_of
from seamark.store import schema
from seamark.store.cells import (
    FAMILY_NUMBERS,
    NUMBER_FAMILIES,
    atom_columns,
    atom_value,
    family_columns,
    run_columns,
    series_columns,
    statistic_columns,
)
from seamark.store.database import Conflict, Upsert, any_of, can_hold, in_parts, insertion
from seamark.store.fold.registers import (
    FAMILIES,
    NEVER,
    AtomState,
    FamilyState,
    Key,
    SeriesState,
    SetState,
    StatisticState,
    to_json,
)
from seamark.store.fold.run_state import Attributes, Fork, JournalState, RunState
from seamark.store.journals import (
    Store,
    StoredRun,
    journal_row,
    load_journals,
    load_many_journals,
    names_before,
    path_rows,
    schema_rows,
)

__all__ = [
    "RUNS_AT_ONCE",
    "Conflict",
    "Place",
    "Saving",
    "Store",
    "StoredRun",
    "forget_run",
    "load_attributes",
    "load_many",
    "load_run",
    "new_run",
    "numbers_of",
    "places_of",
]

_NO_KEY: Final = (None, None, None)
_FEW: Final = 8
_MANY: Final = 256


# ---------------------------------------------------------------------- statements


def _upsert(table: sa.Table) -> Upsert:
    columns = tuple(column.name for column in table.columns)
    keys = tuple(column.name for column in table.primary_key)
    return Upsert(table, columns, keys, overwrite=True)


def _of_run(table: sa.Table) -> Any:
    return table.c.run == sa.bindparam("run")


_run: Final = schema.run.c
_UPSERT_ATTRIBUTE: Final = _upsert(schema.attribute)
_UPSERT_SERIES: Final = _upsert(schema.series)
_UPSERT_JOURNAL: Final = _upsert(schema.journal)
_UPSERT_PATH: Final = _upsert(schema.journal_path)
_UPSERT_SCHEMA: Final = _upsert(schema.journal_schema)
_INSERT_ELEMENT: Final = insertion(schema.element)
_DELETE_ELEMENT: Final = sa.delete(schema.element).where(
    _of_run(schema.element), schema.element.c.path == sa.bindparam("path")
)
_WRITES: Final = (
    _UPSERT_JOURNAL,
    _UPSERT_PATH,
    _UPSERT_SCHEMA,
    _UPSERT_ATTRIBUTE,
    _UPSERT_SERIES,
    _DELETE_ELEMENT,
    _INSERT_ELEMENT,
)
"""In the order in which rows are written."""
_DELETES: Final = tuple(sa.delete(table).where(_of_run(table)) for table in schema.TABLES_OF_RUN)
_OF_ROW: Final = (_run.id, _run.version, _run.forked_from, _run.forked_at)
_FIND_RUN: Final = sa.select(*_OF_ROW, _run.registers).where(
    _run.project == sa.bindparam("project"), _run.name == sa.bindparam("name")
)
_COLUMNS: Final = tuple(
    column.name for column in schema.run.columns if column.name not in ("id", "project", "name")
)
_INSERT_RUN: Final = Upsert(
    schema.run, ("project", "name", *_COLUMNS), ("project", "name"), returned=_run.id
)
_UPDATE_RUN: Final = (
    sa.update(schema.run)
    .values({name: sa.bindparam(name) for name in _COLUMNS})
    .where(_run.id == sa.bindparam("run"), _run.version == sa.bindparam("before"))
)
_DELETE_RUN: Final = sa.delete(schema.run).where(_run.id == sa.bindparam("run"))
_cells: Final = schema.attribute.c
_ATTRIBUTES: Final = sa.select(
    _cells.path,
    _cells.family,
    _cells.type,
    _cells["class"],
    _cells.number,
    _cells.whole,
    _cells.text,
    _cells.t,
    _cells.writer,
    _cells.place,
    _cells.registers,
).where(_of_run(schema.attribute))
_AT_FEW: Final = _ATTRIBUTES.where(any_of(_cells.path, _FEW))
_AT_MANY: Final = _ATTRIBUTES.where(any_of(_cells.path, _MANY))
_BELOW: Final = _ATTRIBUTES.join(schema.path, schema.path.c.id == _cells.path).where(
    sa.or_(
        schema.path.c.path == sa.bindparam("at"),
        sa.and_(schema.path.c.path > sa.bindparam("from"), schema.path.c.path < sa.bindparam("to")),
    )
)
RUNS_AT_ONCE: Final = 200
"""How many runs are asked for together."""
_PLACES: Final = sa.select(_run.project, _run.name, *_OF_ROW).where(any_of(_run.name, RUNS_AT_ONCE))
_NUMBERS: Final = sa.select(_run.id, _run.project, _run.name)
_FIND_MANY: Final = sa.select(_run.project, _run.name, *_OF_ROW, _run.registers).where(
    any_of(_run.name, RUNS_AT_ONCE)
)


# ---------------------------------------------------------------------- a run


class _Keys:
    """Keys as JSON: the journal's number in place of its uid."""

    def __init__(self, journals: Iterable[JournalState]) -> None:
        self._numbers: dict[bytes, int] = {}
        self._uids: dict[int, bytes] = {}
        for journal in journals:
            self._numbers[journal.uid], self._uids[journal.number] = journal.number, journal.uid

    def pack(self, key: Key) -> list[int]:
        return (
            [0, -1, -1] if key is NEVER or key == NEVER else [key[0], self._numbers[key[1]], key[2]]
        )

    def unpack(self, packed: Sequence[int]) -> Key:
        return NEVER if packed[1] < 0 else (packed[0], self._uids[packed[1]], packed[2])


# ---------------------------------------------------------------------- loading


def new_run(project: str, name: str) -> StoredRun:
    """Return a new run, whose version is random: a removed run that comes back needs another."""
    return StoredRun(project, name, None, secrets.randbits(48), RunState())


def load_run(
    store: Store,
    connection: sa.Connection,
    project: str,
    name: str,
    *,
    for_fold: bool = False,
) -> StoredRun | None:
    """Return a run as it was saved, or None; with ``for_fold`` for use after the transaction."""
    run, store.last = store.last, None
    found = store.database.rows(connection, _FIND_RUN, project=project, name=name)
    if not found:
        return None
    number, version, parent, step, text = found[0]
    load = _loader(store, number, None if for_fold else connection)
    if run is None or (run.number, run.version) != (number, version):
        run = StoredRun(
            project, name, number, version, RunState(fork=_fork(parent, step), load=load)
        )
        for journal in load_journals(store, connection, number):
            run.state.add_journal(journal)
            journal.names = names_before(store, number, journal.number, journal.offset)
        _recall(run.state, text)
    elif run.state.load is not None:
        run.state.load = load
    if not (for_fold or store.is_shared):
        store.last = run
    return run


def _recall(state: RunState, registers: str) -> None:
    unpack = _Keys(state.journals.values()).unpack
    known = json.loads(registers)
    state.deletes = {path: unpack(key) for path, key in known["deletes"].items()}
    state.clears = {path: unpack(key) for path, key in known["clears"].items()}
    state.changed = {
        path: {unpack(key): (kind, value) for key, kind, value in told}
        for path, told in known["changed"].items()
    }
    state.state = (unpack(known["state"][0]), known["state"][1])
    state.started = known["started"]


def _fork(parent: str | None, step: float | None) -> Fork | None:
    return None if parent is None or step is None else Fork(parent, step)


class Place(NamedTuple):
    """Number of a run in the tables, version of its row, and point at which it was forked."""

    number: int
    version: int
    fork: Fork | None


def places_of(
    store: Store, connection: sa.Connection, refs: Collection[tuple[str, str]]
) -> dict[tuple[str, str], Place]:
    """Return the places of runs, by project and run id."""
    there = {
        (project, name): Place(number, version, _fork(*fork))
        for ids in in_parts({name for _, name in refs}, RUNS_AT_ONCE)
        for project, name, number, version, *fork in store.database.rows(connection, _PLACES, **ids)
    }
    return {ref: there[ref] for ref in refs if ref in there}


def numbers_of(
    store: Store, connection: sa.Connection, refs: Sequence[tuple[str, str]]
) -> dict[int, tuple[str, str]]:
    """Return (project, run id) by number, without runs that are gone."""
    if len(refs) <= RUNS_AT_ONCE:
        return {one.number: ref for ref, one in places_of(store, connection, refs).items()}
    rows, wanted = store.database.rows(connection, _NUMBERS), set(refs)
    return {number: (project, name) for number, project, name in rows if (project, name) in wanted}


def load_many(
    store: Store, connection: sa.Connection, refs: Collection[tuple[str, str]]
) -> dict[tuple[str, str], StoredRun]:
    """Return runs for reading points, without attributes and ``facts`` of journals."""
    wanted = set(refs)
    found: dict[int, StoredRun] = {}
    registers: dict[int, str] = {}
    for ids in in_parts({name for _, name in wanted}, RUNS_AT_ONCE):
        rows = store.database.rows(connection, _FIND_MANY, **ids)
        for project, name, number, version, parent, step, text in rows:
            if (project, name) in wanted:
                found[number] = StoredRun(project, name, number, version, RunState())
                found[number].state.fork = _fork(parent, step)
                registers[number] = text
    for number, journal in load_many_journals(store, connection, found):
        found[number].state.add_journal(journal)
    for number, one in found.items():
        _recall(one.state, registers[number])
    return {(one.project, one.name): one for one in found.values()}


def load_attributes(
    store: Store,
    connection: sa.Connection,
    run: int,
    journals: Iterable[JournalState],
    paths: Collection[str] | None = None,
    namespaces: Collection[str] = (),
) -> Attributes:
    """Return the families of paths (None: all), and at and below namespaces."""
    database, unpack = store.database, _Keys(journals).unpack
    if paths is None:
        rows = database.rows(connection, _ATTRIBUTES, run=run)
    else:
        rows = list(_rows_at(store, connection, run, paths))
        for namespace in filter(can_hold, namespaces):
            bounds = {"at": namespace, "from": f"{namespace}/", "to": f"{namespace}0"}
            rows += database.rows(connection, _BELOW, run=run, **bounds)
    names = store.numbers.paths(connection, [row[0] for row in rows])
    found: Attributes = {}
    for row in rows:
        state = _family_of(row, unpack)
        found.setdefault(names[row[0]], {})[state.family] = state
    return found


def _rows_at(
    store: Store, connection: sa.Connection, run: int, paths: Collection[str]
) -> Iterator[tuple[Any, ...]]:
    # Short lists of paths are filled up, so that one statement serves.
    numbers = store.numbers.known(connection, paths).values()
    size, statement = (_MANY, _AT_MANY) if len(numbers) > 4 * _FEW else (_FEW, _AT_FEW)
    for some in in_parts(numbers, size):
        yield from store.database.rows(connection, statement, run=run, **some)


def _family_of(row: tuple[Any, ...], unpack: Any) -> FamilyState:
    _, family, kind, klass, number, whole, text, t, writer, place, registers = row
    name = NUMBER_FAMILIES[family]
    state = FAMILIES[name](name)
    if t is not None:
        state.key = unpack((t, writer, place))
    if isinstance(state, AtomState):
        state.type, state.value = kind, atom_value(kind, klass, number, whole, text, registers)
    elif registers is not None:
        state.load(registers, unpack)
    return state


def _loader(store: Store, run: int, given: sa.Connection | None) -> Any:
    def load(
        journals: Iterable[JournalState],
        paths: Collection[str] | None,
        namespaces: Collection[str],
    ) -> Attributes:
        try:
            with store.reading(given) as connection:
                return load_attributes(store, connection, run, journals, paths, namespaces)
        except KeyError as error:  # a key of a journal that somebody else took up meanwhile
            raise Conflict from error

    return load


# ---------------------------------------------------------------------- saving


class Saving:
    """Changes to one run, prepared outside the transaction that writes them.

    It holds rows and not the state that they were made of, so that many can wait for one
    transaction.

    Args:
        store: Store to write to.
        run: Run to write.
        anew: Whether to replace everything that is stored of the run.
        owner: Finds the owner of the run if its writer recorded none.
        paths: Further paths whose numbers ``more`` needs.
        more: Writes further rows of the run, given its number.
    """

    def __init__(
        self,
        store: Store,
        run: StoredRun,
        *,
        anew: bool = False,
        owner: Callable[[], str] = str,
        paths: Iterable[str] = (),
        more: Callable[[sa.Connection, int], None] | None = None,
    ) -> None:
        state = run.state
        self.number = run.number
        self._store, self._anew, self._more = store, anew, more
        self._place, self._version = (run.project, run.name), run.version
        journals = [one for one in state.journals.values() if anew or one.touched]
        wanted = state.dirty.union(paths)
        for journal in journals:
            wanted.update(path for _, _, path in journal.names.new_paths)
        numbers = store.numbers.ensure(wanted)
        keys = _Keys(state.journals.values())
        self._columns = _run_row(run, keys, owner)
        self._rows = _rows_of(state, journals, numbers, keys)

    def write(self, connection: sa.Connection) -> None:
        """Write it; raise `Conflict`, before anything is written, if another process did."""
        store, database = self._store, self._store.database
        if self.number is None:
            project, name = self._place
            found = database.rows(
                connection, _INSERT_RUN, project=project, name=name, **self._columns
            )
            if not found:
                raise Conflict
            self.number = int(found[0][0])
        else:
            where = {"run": self.number, "before": self._version}
            if not database.run(connection, _UPDATE_RUN, **where, **self._columns):
                raise Conflict
            if self._anew:
                delete_rows(store, connection, self.number)
        for statement, rows in self._rows.items():
            database.run_many(connection, statement, [(self.number, *row) for row in rows])
        if self._more is not None:
            self._more(connection, self.number)


def delete_rows(store: Store, connection: sa.Connection, run: int) -> None:
    """Remove all rows of a run but its own."""
    for statement in _DELETES:
        store.database.run(connection, statement, run=run)


def forget_run(store: Store, connection: sa.Connection, run: int) -> None:
    """Remove a run, within a transaction.

    Its own row goes first: a process that is saving the run has locked it, or finds it gone.
    """
    store.database.run(connection, _DELETE_RUN, run=run)
    delete_rows(store, connection, run)


def _run_row(run: StoredRun, keys: _Keys, owner: Callable[[], str]) -> dict[str, Any]:
    state, pack = run.state, keys.pack
    registers = {
        "deletes": {path: pack(key) for path, key in state.deletes.items()},
        "clears": {path: pack(key) for path, key in state.clears.items()},
        "changed": {
            path: [[pack(key), kind, value] for key, (kind, value) in sorted(told.items())]
            for path, told in state.changed.items()
        },
        "state": [pack(state.state[0]), state.state[1]],
        "started": state.started,
    }
    columns = run_columns(state)
    fork = state.fork if state.fork is not None and can_hold(state.fork.parent) else None
    columns["forked_from"], columns["forked_at"] = fork or (None, None)
    columns |= {"registers": to_json(registers), "version": run.version + 1}
    columns["kind"] = kind_of(run.project, run.name)
    columns["owner"] = columns["owner"] or owner()
    return columns


def _rows_of(
    state: RunState, journals: Iterable[JournalState], numbers: Mapping[str, int], keys: _Keys
) -> dict[Any, list[tuple[Any, ...]]]:
    rows: dict[Any, list[tuple[Any, ...]]] = {statement: [] for statement in _WRITES}
    for journal in journals:
        rows[_UPSERT_JOURNAL].append(journal_row(journal))
        rows[_UPSERT_PATH] += path_rows(journal, numbers)
        rows[_UPSERT_SCHEMA] += schema_rows(journal)
    for number, path in sorted((numbers[path], path) for path in state.dirty):
        _add_families(rows, state, path, number, keys.pack)
    return rows


def _add_families(
    rows: Mapping[Any, list[tuple[Any, ...]]],
    run: RunState,
    path: str,
    number: int,
    pack: Callable[[Key], list[int]],
) -> None:
    families = run.attributes[path]
    first: FamilyState | None
    if len(families) == 1 and not run.deletes:  # most of what there is
        (one,) = families.values()
        first = one if one.key is not NEVER else None
    else:
        first = next(iter(run.surviving(path)), None)
    for family, state in families.items():
        at = (number, FAMILY_NUMBERS[family])
        key = pack(state.key) if state.key is not NEVER else _NO_KEY
        if isinstance(state, AtomState):
            kind, columns = state.type, atom_columns(state.type, state.value)
        else:
            kind, columns = family, family_columns(run, path, state)
        kept = state.dump(pack)
        rows[_UPSERT_ATTRIBUTE].append((*at, int(state is first), kind, *columns, *key, kept))
        if isinstance(state, SeriesState):
            rows[_UPSERT_SERIES].append((*at, *series_columns(state)))
        elif isinstance(state, StatisticState):
            rows[_UPSERT_SERIES].append((*at, *statistic_columns(run, path, state)))
        elif isinstance(state, SetState):
            rows[_DELETE_ELEMENT].append((number,))
            elements = sorted(state.visible(run.emptied(path))) if state is first else []
            rows[_INSERT_ELEMENT] += [(number, *element) for element in enumerate(elements)]
