"""Between the state of a run and the tables: how it is written and how it comes back.

Only what a fold touches is loaded and saved. Two processes may fold the same run at once: the one
that saves second learns from the version of the run's row that it has to look again.
"""

from __future__ import annotations

import contextlib
import json
import operator
import secrets
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

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
from seamark.store.database import Conflict, Upsert, can_hold, insertion
from seamark.store.fold.names import Names
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

if TYPE_CHECKING:
    from seamark.store.database import Database
    from seamark.store.path_numbers import PathNumbers

__all__ = [
    "RUNS_AT_ONCE",
    "Conflict",
    "Place",
    "Saving",
    "Store",
    "StoredRun",
    "delete_rows",
    "filled",
    "forget_run",
    "load_attempts",
    "load_attributes",
    "load_journals",
    "load_losses",
    "load_many",
    "load_openings",
    "load_owners",
    "load_run",
    "names_before",
    "new_run",
    "numbers_of",
    "places_of",
]

_FACTS: Final = (
    "last_offset",
    "last_crc",
    "close_reason",
    "said",
    "rows",
    "first_row_t",
    "last_row_t",
    "gaps",
    "tail",
    "dropped",
    "unknown",
    "errors",
    "notes",
    "stopped",
    "diverged",
)
_NO_KEY: Final = (None, None, None)
_PLACE: Final = operator.itemgetter(0, 1)
_FEW: Final = 8
_MANY: Final = 256


# ---------------------------------------------------------------------- statements


def _upsert(table: sa.Table) -> Upsert:
    """Return a statement that writes whole rows over those with the same key."""
    columns = tuple(column.name for column in table.columns)
    keys = tuple(column.name for column in table.primary_key)
    return Upsert(table, columns, keys, overwrite=True)


def _of_run(table: sa.Table) -> Any:
    return table.c.run == sa.bindparam("run")


def filled(values: Iterable[Any], count: int) -> dict[str, Any]:
    """Return values for ``count`` bind parameters; the last value fills the rest.

    One statement of a fixed size is compiled once, where one of the right size is each time.
    """
    given = list(values)
    given += [given[-1]] * (count - len(given))
    return {f"at{place}": value for place, value in enumerate(given)}


def _one_of(column: sa.Column[Any], count: int) -> Any:
    return column.in_([sa.bindparam(f"at{place}") for place in range(count)])


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
_JOURNALS: Final = sa.select(*schema.journal.c).where(_of_run(schema.journal))
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
_AT_FEW: Final = _ATTRIBUTES.where(_one_of(_cells.path, _FEW))
_AT_MANY: Final = _ATTRIBUTES.where(_one_of(_cells.path, _MANY))
_BELOW: Final = _ATTRIBUTES.join(schema.path, schema.path.c.id == _cells.path).where(
    sa.or_(
        schema.path.c.path == sa.bindparam("at"),
        sa.and_(schema.path.c.path > sa.bindparam("from"), schema.path.c.path < sa.bindparam("to")),
    )
)


RUNS_AT_ONCE: Final = 200
"""How many runs are asked for together at most."""
_PLACES: Final = sa.select(_run.project, _run.name, *_OF_ROW).where(
    _one_of(_run.name, RUNS_AT_ONCE)
)
_NUMBERS: Final = sa.select(_run.id, _run.project, _run.name)
_FIND_MANY: Final = sa.select(_run.project, _run.name, *_OF_ROW, _run.registers).where(
    _one_of(_run.name, RUNS_AT_ONCE)
)
_journal: Final = schema.journal.c
_WELL: Final = "," + to_json([[], None, {}, {}, 0, [], None, []])[1:]
"""How the facts of a journal end that has no gaps, lost nothing and could be read to its end."""
_UNWELL: Final = sa.select(_journal.run, _journal.facts).where(_journal.facts.not_like(f"%{_WELL}"))
_ATTEMPTS: Final = sa.select(_journal.run, _journal.attempt).where(_journal.attempt.is_not(None))
_OWNERS: Final = sa.select(
    _journal.run, sa.func.coalesce(_journal.heard, _journal.last_t), _journal.header
).where(_journal.owner == 1)
_JOURNALS_MANY: Final = sa.select(*schema.journal.c).where(
    _one_of(schema.journal.c.run, RUNS_AT_ONCE)
)


def _newest(table: sa.Table, value: sa.Column[Any]) -> Any:
    """Return a statement for what the numbers of a journal stood for before some place."""
    return (
        sa.select(table.c.number, value)
        .where(
            _of_run(table),
            table.c.journal == sa.bindparam("journal"),
            table.c.place < sa.bindparam("before"),
            _one_of(table.c.number, _FEW),
        )
        .order_by(table.c.number, table.c.place)
    )


_NEWEST_PATH: Final = _newest(schema.journal_path, schema.journal_path.c.path)
_NEWEST_SCHEMA: Final = _newest(schema.journal_schema, schema.journal_schema.c.paths)


# ---------------------------------------------------------------------- a store


@dataclass(slots=True, eq=False)
class Store:
    """A database with the tables of a store, and the numbers of its paths.

    Attributes:
        database: Which has the tables.
        numbers: Of its paths.
        here: Whether processes of its runs may be on this machine, which then knows best whether
            they live. Where it is false, as on a server, runs are judged by when they were heard
            of alone, by the clock of whoever folds.
        is_shared: Whether several threads may use it at the same time.
        last: The run that was loaded or saved last, as it is in the database; None if it is shared.
    """

    database: Database
    numbers: PathNumbers
    here: bool = True
    is_shared: bool = True
    last: StoredRun | None = None


@dataclass(slots=True)
class StoredRun:
    """A run between the tables and its journals.

    Attributes:
        project: Project path.
        name: Run id.
        number: Of its row; None if it has none yet.
        version: Of the row as it was loaded.
        state: What was loaded and folded since.
    """

    project: str
    name: str
    number: int | None
    version: int
    state: RunState

    def saved(self, number: int | None) -> None:
        """Take note that the store has everything, under this number."""
        self.number, self.version = number, self.version + 1
        self.state.dirty.clear()
        for journal in self.state.journals.values():
            journal.touched = False
            journal.names.new_paths.clear()
            journal.names.new_schemas.clear()


class _Keys:
    """Keys as JSON: the journal's number in place of its uid."""

    def __init__(self, journals: Iterable[JournalState]) -> None:
        self.numbers: dict[bytes, int] = {}
        self._uids: dict[int, bytes] = {}
        for journal in journals:
            self.numbers[journal.uid], self._uids[journal.number] = journal.number, journal.uid

    def pack(self, key: Key) -> list[int]:
        """Return [time, number, index]."""
        return (
            [0, -1, -1] if key is NEVER or key == NEVER else [key[0], self.numbers[key[1]], key[2]]
        )

    def unpack(self, packed: Sequence[int]) -> Key:
        """Return the key."""
        return NEVER if packed[1] < 0 else (packed[0], self._uids[packed[1]], packed[2])


# ---------------------------------------------------------------------- loading


def new_run(project: str, name: str) -> StoredRun:
    """Return a run that the store does not have.

    Versions begin anywhere, so that a run that was removed and came back has none that it had.
    """
    return StoredRun(project, name, None, secrets.randbits(48), RunState())


def load_run(
    store: Store,
    connection: sa.Connection,
    project: str,
    name: str,
    *,
    for_fold: bool = False,
) -> StoredRun | None:
    """Return a run as it was saved; None if it is not there. Attributes are loaded when needed.

    Args:
        store: Where it is.
        connection: Of a transaction of the store.
        project: Project path.
        name: Run id.
        for_fold: Whether it is changed, and more of it is needed after the transaction.
    """
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
    """Take back the registers of a run, whose journals are there already."""
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
    """Location of a run in the tables.

    Attributes:
        number: Number of the run.
        version: Version of its row.
        fork: Point at which it was forked from another; None if it is no fork.
    """

    number: int
    version: int
    fork: Fork | None


def places_of(
    store: Store, connection: sa.Connection, refs: Collection[tuple[str, str]]
) -> dict[tuple[str, str], Place]:
    """Return where up to `RUNS_AT_ONCE` runs stand, by project and run id."""
    if not refs:
        return {}
    ids = filled({name for _, name in refs}, RUNS_AT_ONCE)
    rows = store.database.rows(connection, _PLACES, **ids)
    there = {
        (project, name): Place(number, version, _fork(*fork))
        for project, name, number, version, *fork in rows
    }
    return {ref: there[ref] for ref in refs if ref in there}


def numbers_of(
    store: Store, connection: sa.Connection, refs: Sequence[tuple[str, str]]
) -> dict[int, tuple[str, str]]:
    """Return runs, given as (project, run id), by number; those that are gone are left out."""
    if len(refs) <= RUNS_AT_ONCE:
        return {one.number: ref for ref, one in places_of(store, connection, refs).items()}
    rows, wanted = store.database.rows(connection, _NUMBERS), set(refs)
    return {number: (project, name) for number, project, name in rows if (project, name) in wanted}


def load_many(
    store: Store, connection: sa.Connection, refs: Collection[tuple[str, str]]
) -> dict[tuple[str, str], StoredRun]:
    """Return up to `RUNS_AT_ONCE` runs as they were saved, for reading their points.

    Their attributes are left out, and what their journals said about themselves.
    """
    database, wanted = store.database, set(refs)
    if not wanted:
        return {}
    ids = filled({name for _, name in wanted}, RUNS_AT_ONCE)
    rows = database.rows(connection, _FIND_MANY, **ids)
    found: dict[int, StoredRun] = {}
    registers: dict[int, str] = {}
    for project, name, number, version, parent, step, text in rows:
        if (project, name) in wanted:
            found[number] = StoredRun(project, name, number, version, RunState())
            found[number].state.fork = _fork(parent, step)
            registers[number] = text
    journals = []
    if found:
        journals = database.rows(connection, _JOURNALS_MANY, **filled(found, RUNS_AT_ONCE))
    for row in sorted(journals, key=operator.itemgetter(0, 1)):
        found[row[0]].state.add_journal(_journal_of(row, facts=False))
    for number, one in found.items():
        _recall(one.state, registers[number])
    return {(one.project, one.name): one for one in found.values()}


def load_journals(store: Store, connection: sa.Connection, run: int) -> list[JournalState]:
    """Return what is known of the journals of a run, in the order of their numbers."""
    rows = store.database.rows(connection, _JOURNALS, run=run)
    return [_journal_of(row) for row in sorted(rows)]


def load_losses(
    store: Store, connection: sa.Connection, runs: Sequence[int]
) -> dict[int, dict[str, int]]:
    """Return what is missing of runs, by number; only of those of which something is.

    Each is a count by name: ``gaps`` in journals, ``errors`` (records that cannot be applied),
    ``dropped`` (what a writer could not record).
    """
    found: dict[int, dict[str, int]] = {}
    for run, text in _of_runs(store, connection, _UNWELL, runs):
        facts = dict(zip(_FACTS, json.loads(text), strict=True))
        gaps = len(facts["gaps"]) + bool(facts["tail"])
        counts = (("gaps", gaps), ("errors", facts["errors"]))
        for name, count in (*counts, ("dropped", sum(facts["dropped"].values()))):
            if count:
                of_run = found.setdefault(run, {})
                of_run[name] = of_run.get(name, 0) + count
    return found


def load_attempts(store: Store, connection: sa.Connection, runs: Sequence[int]) -> dict[int, int]:
    """Return how many attempts runs are made of, by number; only of those with several."""
    found: dict[int, set[int]] = {}
    for run, attempt in _of_runs(store, connection, _ATTEMPTS, runs):
        found.setdefault(run, set()).add(attempt)
    return {run: len(attempts) for run, attempts in found.items() if len(attempts) > 1}


def load_openings(store: Store, connection: sa.Connection, runs: Sequence[int]) -> dict[int, int]:
    """Return how often runs were opened to record, by number; only of those more often than once.

    That counts what went on from a checkpoint, and what was opened again by its id.
    """
    found: dict[int, set[str]] = {}
    for run, _, text in load_owners(store, connection, runs):
        header = json.loads(text or "null") or {}  # none of a journal that cannot be read
        if not header.get("rank") and isinstance(lineage := header.get("lineage"), str):
            found.setdefault(run, set()).add(lineage)
    return {run: len(lineages) for run, lineages in found.items() if len(lineages) > 1}


def load_owners(
    store: Store, connection: sa.Connection, runs: Sequence[int]
) -> Iterator[tuple[int, int, str]]:
    """Yield run, last sign of life and HEADER (JSON) of each journal that speaks for a run.

    The time is in nanoseconds since the Unix epoch, by the clock here.
    """
    yield from _of_runs(store, connection, _OWNERS, runs)


def _of_runs(
    store: Store, connection: sa.Connection, journals: sa.Select[Any], runs: Sequence[int]
) -> Iterator[tuple[Any, ...]]:
    """Yield rows of journals of runs; of very many one walk is quicker than many questions."""
    if len(runs) > 4 * RUNS_AT_ONCE:
        wanted = set(runs)
        for part in store.database.stream(connection, journals):
            yield from (row for row in part if row[0] in wanted)
    elif runs:
        yield from store.database.query(connection, journals.where(_journal.run.in_(runs)))


def _journal_of(row: Sequence[Any], *, facts: bool = True) -> JournalState:
    _, number, file, writer, uid, offset, prefix_crc, chunked, point_end, *more = row
    attempt, owner, closed, first_t, last_t, heard, positions, header, told = more
    return JournalState(
        writer,
        bytes(uid),
        file,
        number,
        attempt,
        bool(owner),
        header,
        positions,
        offset,
        touched=False,
        prefix_crc=prefix_crc,
        chunked=chunked,
        first_t=first_t,
        last_t=last_t,
        heard=heard,
        closed=bool(closed),
        point_end=point_end,
        **(dict(zip(_FACTS, json.loads(told), strict=True)) if facts else {}),
    )


def load_attributes(
    store: Store,
    connection: sa.Connection,
    run: int,
    journals: Iterable[JournalState],
    paths: Collection[str] | None = None,
    namespaces: Collection[str] = (),
) -> Attributes:
    """Return the families of paths, and of what lies at and below namespaces.

    Args:
        store: Where they are.
        connection: Of a transaction of the store.
        run: Number of the run.
        journals: Of the run.
        paths: Which paths; None for all.
        namespaces: Which namespaces.
    """
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
    """Yield rows of ``attribute``; short lists of paths are filled up, so that one text serves."""
    numbers = list(store.numbers.known(connection, paths).values())
    for statement, values in _batches(numbers, _AT_FEW, _AT_MANY):
        yield from store.database.rows(connection, statement, run=run, **values)


def _batches(numbers: Sequence[int], few: Any, many: Any) -> Iterator[tuple[Any, dict[str, int]]]:
    """Yield a statement and its values for every few or many numbers."""
    start = 0
    while start < len(numbers):
        size = _MANY if len(numbers) - start > 4 * _FEW else _FEW
        yield (many if size == _MANY else few), filled(numbers[start : start + size], size)
        start += size


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
            with _reading(store, given) as connection:
                return load_attributes(store, connection, run, journals, paths, namespaces)
        except KeyError as error:  # a key of a journal that somebody else took up meanwhile
            raise Conflict from error

    return load


def _reading(store: Store, given: sa.Connection | None) -> AbstractContextManager[sa.Connection]:
    """Return the transaction that is given, or a new one."""
    return store.database.reading() if given is None else contextlib.nullcontext(given)


def names_before(
    store: Store, run: int, journal: int, before: int, connection: sa.Connection | None = None
) -> Names:
    """Return what the numbers of a journal stood for before some place, bytes.

    Args:
        store: Which has them.
        run: Number of the run.
        journal: Number of the journal.
        before: Bytes.
        connection: Of the transaction in which they are looked up; a new one each time if left out.
    """
    where = {"run": run, "journal": journal, "before": before}

    def load(
        paths: set[int], schemas: set[int]
    ) -> tuple[dict[int, str], dict[int, tuple[int, ...]]]:
        with _reading(store, connection) as asked:
            found_paths = _newest_of(store, asked, _NEWEST_PATH, sorted(paths), where)
            texts = store.numbers.paths(asked, list(found_paths.values()))
            found_schemas = _newest_of(store, asked, _NEWEST_SCHEMA, sorted(schemas), where)
        return (
            {number: texts[path] for number, path in found_paths.items() if path in texts},
            {
                number: struct.unpack(f"<{len(packed) // 4}I", packed)
                for number, packed in found_schemas.items()
            },
        )

    return Names(load)


def _newest_of(
    store: Store, connection: sa.Connection, statement: Any, numbers: list[int], where: Any
) -> dict[int, Any]:
    """Return values by number; of several of one number the last, which was defined last."""
    found: dict[int, Any] = {}
    for start in range(0, len(numbers), _FEW):
        values = filled(numbers[start : start + _FEW], _FEW)
        found.update(store.database.rows(connection, statement, **where, **values))
    return found


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

    Attributes:
        number: Number of the run, once it is written.
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
        self._rows = _Rows(state, keys)
        for journal in journals:
            self._rows.add_journal(journal, numbers)
        for path in state.dirty:
            self._rows.add(path, numbers[path])
        self._rows.let_go()

    def write(self, connection: sa.Connection) -> None:
        """Write it, within a transaction.

        Raises:
            Conflict: If another process folded this run in the meantime; nothing is written then.
        """
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
        self._rows.write(database, connection, self.number)
        if self._more is not None:
            self._more(connection, self.number)


def delete_rows(store: Store, connection: sa.Connection, run: int) -> None:
    """Remove everything that belongs to a run, but not its own row."""
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


class _Rows:
    """The rows of what changed in one run, gathered and then written table by table.

    The number of the run, which every row begins with, is known only when they are written.
    """

    def __init__(self, run: RunState, keys: _Keys) -> None:
        self.run = run
        self.pack, self.of_journals = keys.pack, keys.numbers
        self.journals: list[tuple[Any, ...]] = []
        self.paths: list[tuple[Any, ...]] = []
        self.schemas: list[tuple[Any, ...]] = []
        self.attributes: list[tuple[Any, ...]] = []
        self.series: list[tuple[Any, ...]] = []
        self.sets: list[tuple[Any, ...]] = []
        self.elements: list[tuple[Any, ...]] = []

    def add_journal(self, journal: JournalState, numbers: Mapping[str, int]) -> None:
        """Gather the rows of one journal."""
        self.journals.append(
            (
                journal.number,
                journal.file,
                journal.writer,
                journal.uid,
                journal.offset,
                journal.prefix_crc,
                journal.chunked,
                journal.point_end,
                journal.attempt,
                int(journal.owner),
                int(journal.closed),
                journal.first_t,
                journal.last_t,
                journal.heard,
                journal.positions_text,
                journal.header_text,
                to_json([getattr(journal, name) for name in _FACTS]),
            )
        )
        at = journal.number
        self.paths += [
            (at, one, place, numbers[path]) for one, place, path in journal.names.new_paths
        ]
        self.schemas += [
            (at, one, place, struct.pack(f"<{len(paths)}I", *paths))
            for one, place, paths in journal.names.new_schemas
        ]

    def add(self, path: str, number: int) -> None:
        """Gather the rows of one path."""
        run, pack = self.run, self.pack
        families = run.attributes[path]
        first: FamilyState | None
        if len(families) == 1 and not run.deletes:  # most of what there is
            (one,) = families.values()
            first = one if one.key is not NEVER else None
        else:
            shown = run.surviving(path)
            first = shown[0] if shown else None
        for family, state in families.items():
            at = (number, FAMILY_NUMBERS[family])
            t, uid, place = state.key
            key = _NO_KEY if state.key is NEVER else (t, self.of_journals[uid], place)
            if isinstance(state, AtomState):
                columns = atom_columns(state.type, state.value)
                kept = None if state.type != "text" else state.dump(pack)
                self.attributes.append((*at, int(state is first), state.type, *columns, *key, kept))
                continue
            columns = family_columns(run, path, state)
            self.attributes.append(
                (*at, int(state is first), family, *columns, *key, state.dump(pack))
            )
            if isinstance(state, SeriesState):
                self.series.append((*at, *series_columns(state)))
            elif isinstance(state, StatisticState):
                self.series.append((*at, *statistic_columns(run, path, state)))
            elif isinstance(state, SetState):
                self._add_set(path, number, state, seen=state is first)

    def let_go(self) -> None:
        """Forget the run that the rows were made of."""
        del self.run, self.pack, self.of_journals

    def _add_set(self, path: str, number: int, state: SetState, *, seen: bool) -> None:
        self.sets.append((number,))
        if seen:
            elements = sorted(state.visible(self.run.emptied(path)))
            self.elements += [(number, place, element) for place, element in enumerate(elements)]

    def write(self, database: Database, connection: sa.Connection, run: int) -> None:
        """Write them, in the order of the tables' keys, which is quicker."""
        self.attributes.sort(key=_PLACE)
        self.series.sort(key=_PLACE)
        for statement, rows in (
            (_UPSERT_JOURNAL, self.journals),
            (_UPSERT_PATH, self.paths),
            (_UPSERT_SCHEMA, self.schemas),
            (_UPSERT_ATTRIBUTE, self.attributes),
            (_UPSERT_SERIES, self.series),
            (_DELETE_ELEMENT, self.sets),
            (_INSERT_ELEMENT, self.elements),
        ):
            if rows:
                database.run_many(connection, statement, map((run,).__add__, rows))
