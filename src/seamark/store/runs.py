"""Loading of the state of runs, limited to the requested parts.

If two processes fold a run at the same time, the second to save finds a changed version in the
run's row and has to repeat its work.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from seamark.store import schema
from seamark.store.cells import (
    NUMBER_FAMILIES,
    atom_value,
)
from seamark.store.database import Conflict, among, can_hold
from seamark.store.fold.registers import (
    FAMILIES,
    NEVER,
    AtomState,
    FamilyState,
    Key,
)
from seamark.store.fold.run_state import Attributes, Fork, JournalState, RunState
from seamark.store.journals import (
    Store,
    StoredRun,
    load_journals,
    load_many_journals,
    names_before,
)

__all__ = [
    "RUNS_AT_ONCE",
    "Conflict",
    "Keys",
    "Place",
    "Store",
    "StoredRun",
    "delete_rows",
    "forget_run",
    "load_attributes",
    "load_many",
    "load_run",
    "new_run",
    "numbers_of",
    "places_of",
]

# ---------------------------------------------------------------------- statements


def _of_run(table: sa.Table) -> Any:
    return table.c.run == sa.bindparam("run")


_run: Final = schema.run.c
_DELETE_ROWS: Final = tuple(
    sa.delete(table).where(_of_run(table)) for table in schema.TABLES_OF_RUN
)
_PLACE_COLUMNS: Final = (_run.id, _run.version, _run.forked_from, _run.forked_at)
_FIND_RUN: Final = sa.select(*_PLACE_COLUMNS, _run.registers).where(
    _run.project == sa.bindparam("project"), _run.name == sa.bindparam("name")
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
_AT_PATHS: Final = _ATTRIBUTES.where(among(_cells.path))
_BELOW: Final = _ATTRIBUTES.join(schema.path, schema.path.c.id == _cells.path).where(
    sa.or_(
        schema.path.c.path == sa.bindparam("at"),
        sa.and_(schema.path.c.path > sa.bindparam("from"), schema.path.c.path < sa.bindparam("to")),
    )
)
RUNS_AT_ONCE: Final = 200
"""Number of runs read at once, to limit the memory used."""
_PLACES: Final = sa.select(_run.project, _run.name, *_PLACE_COLUMNS).where(among(_run.name))
_FIND_MANY: Final = _PLACES.add_columns(_run.registers)


# ---------------------------------------------------------------------- a run


class Keys:
    """Conversion of keys to JSON, with the number of a journal instead of its uid."""

    def __init__(self, journals: Iterable[JournalState]) -> None:
        self.numbers: dict[bytes, int] = {}
        self._uids: dict[int, bytes] = {}
        for journal in journals:
            self.numbers[journal.uid], self._uids[journal.number] = journal.number, journal.uid

    def pack(self, key: Key) -> list[int]:
        """Return the time, journal number and index of a key."""
        return (
            [0, -1, -1] if key is NEVER or key == NEVER else [key[0], self.numbers[key[1]], key[2]]
        )

    def unpack(self, packed: Sequence[int]) -> Key:
        """Return the key that `pack` packed."""
        return NEVER if packed[1] < 0 else (packed[0], self._uids[packed[1]], packed[2])


# ---------------------------------------------------------------------- loading


def new_run(project: str, name: str) -> StoredRun:
    """Return a new run, with a random version to distinguish it from an earlier, removed run."""
    return StoredRun(project, name, None, secrets.randbits(48), RunState())


def load_run(
    store: Store,
    connection: sa.Connection,
    project: str,
    name: str,
    *,
    for_fold: bool = False,
) -> StoredRun | None:
    """Return a saved run or None; with ``for_fold``, it can be used after the transaction."""
    run, store.last = store.last, None
    found = store.database.rows(connection, _FIND_RUN, project=project, name=name)
    if not found:
        return None
    number, version, parent, step, text = found[0]
    given = None if for_fold else connection
    if run is None or (run.number, run.version) != (number, version):
        state = RunState(fork=_make_fork(parent, step), load=_make_loader(store, number, given))
        run = StoredRun(project, name, number, version, state)
        for journal in load_journals(store, connection, number):
            run.state.add_journal(journal)
            journal.names = names_before(store, number, journal.number, journal.offset)
        _load_registers(run.state, text)
    elif run.state.load is not None:
        run.state.load = _make_loader(store, number, given)
    if not (for_fold or store.is_shared):
        store.last = run
    return run


def _load_registers(state: RunState, registers: str) -> None:
    unpack = Keys(state.journals.values()).unpack
    known = json.loads(registers)
    state.deletes = {path: unpack(key) for path, key in known["deletes"].items()}
    state.clears = {path: unpack(key) for path, key in known["clears"].items()}
    state.changed = {
        path: {unpack(key): (kind, value) for key, kind, value in entries}
        for path, entries in known["changed"].items()
    }
    state.state = (unpack(known["state"][0]), known["state"][1])
    state.started = known["started"]


def _make_fork(parent: str | None, step: float | None) -> Fork | None:
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
    rows = store.database.rows(connection, _PLACES, at=sorted({name for _, name in refs}))
    there = {
        (project, name): Place(number, version, _make_fork(*fork))
        for project, name, number, version, *fork in rows
    }
    return {ref: there[ref] for ref in refs if ref in there}


def numbers_of(
    store: Store, connection: sa.Connection, refs: Sequence[tuple[str, str]]
) -> dict[int, tuple[str, str]]:
    """Return (project, run id) by number, without removed runs."""
    return {one.number: ref for ref, one in places_of(store, connection, refs).items()}


def load_many(
    store: Store, connection: sa.Connection, refs: Collection[tuple[str, str]]
) -> dict[tuple[str, str], StoredRun]:
    """Return runs for reading points, without attributes and without ``facts`` of journals."""
    wanted = set(refs)
    found: dict[int, StoredRun] = {}
    registers: dict[int, str] = {}
    rows = store.database.rows(connection, _FIND_MANY, at=sorted({name for _, name in wanted}))
    for project, name, number, version, parent, step, text in rows:
        if (project, name) in wanted:
            found[number] = StoredRun(project, name, number, version, RunState())
            found[number].state.fork = _make_fork(parent, step)
            registers[number] = text
    for number, journal in load_many_journals(store, connection, found):
        found[number].state.add_journal(journal)
    for number, one in found.items():
        _load_registers(one.state, registers[number])
    return {(one.project, one.name): one for one in found.values()}


def load_attributes(
    store: Store,
    connection: sa.Connection,
    run: int,
    journals: Iterable[JournalState],
    paths: Collection[str] | None = None,
    namespaces: Collection[str] = (),
) -> Attributes:
    """Return the families at paths (None: all paths), and at and below namespaces."""
    database, unpack = store.database, Keys(journals).unpack
    if paths is None:
        rows = database.rows(connection, _ATTRIBUTES, run=run)
    else:
        numbers = [*store.numbers.known(connection, paths).values()]
        rows = database.rows(connection, _AT_PATHS, run=run, at=numbers)
        for namespace in filter(can_hold, namespaces):
            bounds = {"at": namespace, "from": f"{namespace}/", "to": f"{namespace}0"}
            rows += database.rows(connection, _BELOW, run=run, **bounds)
    names = store.numbers.paths(connection, [row[0] for row in rows])
    found: Attributes = {}
    for row in rows:
        state = _load_family(row, unpack)
        found.setdefault(names[row[0]], {})[state.family] = state
    return found


def _load_family(row: tuple[Any, ...], unpack: Any) -> FamilyState:
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


def _make_loader(store: Store, run: int, given: sa.Connection | None) -> Any:
    def load(
        journals: Iterable[JournalState],
        paths: Collection[str] | None,
        namespaces: Collection[str],
    ) -> Attributes:
        try:
            with store.reading(given) as connection:
                return load_attributes(store, connection, run, journals, paths, namespaces)
        except KeyError as error:  # the key of a journal that another process added meanwhile
            raise Conflict from error

    return load


def delete_rows(store: Store, connection: sa.Connection, run: int) -> None:
    """Remove all rows of a run except its row in the runs table."""
    for statement in _DELETE_ROWS:
        store.database.run(connection, statement, run=run)


def forget_run(store: Store, connection: sa.Connection, run: int) -> None:
    """Remove a run, within a transaction.

    The row of the run is removed first: a process that saves the run has locked it or misses it.
    """
    store.database.run(connection, _DELETE_RUN, run=run)
    delete_rows(store, connection, run)
