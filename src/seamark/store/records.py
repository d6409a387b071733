"""Between the state of a run and the tables: how it is written and how it comes back."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from seamark.store import schema
from seamark.store.run_state import JournalState, RunState
from seamark.store.state import (
    NEVER,
    AtomState,
    FamilyState,
    FileSetState,
    FileState,
    FloatSeriesState,
    Key,
    RecordState,
    SeriesState,
    SetState,
    state_class,
    to_json,
)

__all__ = [
    "FAMILY_NUMBERS",
    "NUMBER_FAMILIES",
    "Conflict",
    "PathNumbers",
    "atom_columns",
    "atom_value",
    "dump_tables",
    "instant",
    "load_journals",
    "load_run",
    "load_tables",
    "run_columns",
    "save_run",
]

FAMILY_NUMBERS: Final = {
    "atom": 0,
    "float_series": 1,
    "string_series": 2,
    "file_series": 3,
    "histogram_series": 4,
    "string_set": 5,
    "file": 6,
    "file_set": 7,
    "artifact": 8,
}
NUMBER_FAMILIES: Final = {number: family for family, number in FAMILY_NUMBERS.items()}

_EXACT: Final = 1 << 53
_SPECIAL: Final[dict[int | None, float]] = {-1: -math.inf, 1: math.inf, 2: math.nan}
_MAX_WHOLE: Final = (1 << 63) - 1
_SHOWN_TEXT: Final = 4096
"""So many characters of a string series' last text can be searched for in a runs table."""

_DIALECT: Final = sqlite.dialect(paramstyle="qmark")


class Conflict(Exception):  # noqa: N818 - not an error: somebody else folded the same run first
    """The rows of a run changed since they were loaded."""


def _sql(statement: Any, table: sa.Table) -> str:
    return str(
        statement.compile(dialect=_DIALECT, column_keys=[column.name for column in table.columns])
    )


_INSERT_ATTRIBUTE: Final = _sql(sa.insert(schema.attribute), schema.attribute)
_INSERT_JOURNAL: Final = _sql(sa.insert(schema.journal), schema.journal)
_INSERT_TEXT: Final = _sql(sa.insert(schema.journal_text), schema.journal_text)
_INSERT_ELEMENT: Final = _sql(sa.insert(schema.element), schema.element)
_INSERT_SERIES: Final = _sql(sa.insert(schema.series), schema.series)
_UPDATE_JOURNAL: Final = (
    'UPDATE journal SET file = ?, "offset" = ?, last_offset = ?, last_crc = ?, size = ?, mtime = ?,'
    ' inode = ?, retry = ? WHERE run = ? AND number = ? AND "offset" = ?'
)
_UPDATE_TEXT: Final = "UPDATE journal_text SET facts = ?, numbers = ? WHERE run = ? AND number = ?"
_FACTS: Final = (
    "header",
    "first_t",
    "last_t",
    "closed",
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
    "point_end",
)
_NOTHING: Final = (None, None, None, None)
_NO_KEY: Final = (None, None, None)
_PLACE: Final = operator.itemgetter(1, 2)
_DELETE_ATTRIBUTE: Final = "DELETE FROM attribute WHERE run = ? AND path = ? AND family = ?"
_DELETE_SERIES: Final = "DELETE FROM series WHERE run = ? AND path = ? AND family = ?"
_DELETE_ELEMENT: Final = "DELETE FROM element WHERE run = ? AND path = ?"


class PathNumbers:
    """The table of paths, kept in memory as far as needed; a number never changes its path."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew, after the tables were emptied or a transaction was undone."""
        self._numbers: dict[str, int] = {}
        self._paths: dict[int, str] = {}
        self._last = 0

    def sync(self, connection: sa.Connection) -> None:
        """Learn what was added by anybody."""
        rows = connection.exec_driver_sql(
            "SELECT id, path FROM path WHERE id > ? ORDER BY id", (self._last,)
        )
        for number, path in rows.fetchall():
            self._numbers[path], self._paths[number], self._last = number, path, number

    def number(self, connection: sa.Connection, path: str) -> int | None:
        """Return the number of a path, or None if no run ever had it."""
        if path not in self._numbers:
            self.sync(connection)
        return self._numbers.get(path)

    def path(self, connection: sa.Connection, number: int) -> str:
        """Return the path with this number."""
        if number not in self._paths:
            self.sync(connection)
        return self._paths[number]

    def paths(self, connection: sa.Connection) -> dict[str, int]:
        """Return all paths of all runs with their numbers."""
        self.sync(connection)
        return self._numbers

    def ensure(self, connection: sa.Connection, paths: Iterable[str]) -> dict[str, int]:
        """Return numbers for these paths (and others), within a transaction that may write."""
        if any(path not in self._numbers for path in paths):
            self.sync(connection)
            fresh = sorted({path for path in paths if path not in self._numbers})
            rows = [(self._last + place, path) for place, path in enumerate(fresh, 1)]
            if rows:
                connection.exec_driver_sql("INSERT INTO path (id, path) VALUES (?, ?)", rows)
                for number, path in rows:
                    self._numbers[path], self._paths[number], self._last = number, path, number
        return self._numbers


def _number(value: float) -> tuple[int, float | None]:
    """Return class and number, see the table."""
    if value - value == 0:
        return 0, value
    return (2 if math.isnan(value) else 1 if value > 0 else -1), None


def instant(text: str) -> int | None:
    """Return microseconds since the epoch of an ISO-8601 time; without an offset, it is UTC."""
    try:
        when = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=timezone.utc)
    since = when - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def atom_columns(kind: str, value: Any) -> tuple[int | None, float | None, int | None, str | None]:
    """Return class, number, whole and text of an atom."""
    if kind in ("string", "json"):
        return None, None, None, value
    if kind == "float":
        return (0, value, None, None) if value - value == 0 else (*_number(value), None, None)
    if kind == "bool":
        return 0, float(value), int(value), None
    if kind == "int":
        if -_EXACT < value < _EXACT:
            return 0, float(value), value, None
        whole = value if -_MAX_WHOLE <= value <= _MAX_WHOLE else None
        try:
            return 0, float(value), whole, None if whole is not None else str(value)
        except OverflowError:
            return (1 if value > 0 else -1), None, None, hex(value)
    if kind == "datetime":
        whole = instant(value)
        return (None, None, None, value) if whole is None else (0, whole / 1e6, whole, value)
    return None, None, None, None


def atom_value(
    kind: str,
    klass: int | None,
    number: float | None,
    whole: int | None,
    text: str | None,
    registers: str | None,
) -> Any:
    """Return the value of an atom's row, as it stands in the journal (floats as floats)."""
    if kind == "float":
        return number if klass == 0 else _SPECIAL.get(klass)
    if kind == "int":
        return whole if text is None else int(text, 0)
    if kind == "bool":
        return bool(whole)
    if kind == "text":
        return json.loads(registers or "{}")
    return text


def _columns(run: RunState, path: str, state: FamilyState) -> tuple[Any, ...]:
    """Return class, number, whole and text of a row that is no atom."""
    if isinstance(state, FloatSeriesState):
        return (*_number(state.last), None, None) if state.count else _NOTHING
    if isinstance(state, SeriesState):
        text = state.last[:_SHOWN_TEXT] if isinstance(state.last, str) else None
        return None, None, state.count, text
    if isinstance(state, FileState):
        return None, None, None, str(state.record.get("name", ""))
    if isinstance(state, RecordState):
        return None, None, None, str(state.record.get("hash", ""))
    if isinstance(state, FileSetState):
        return None, None, len(state.visible(run.emptied(path))), None
    return _NOTHING


def _series_columns(state: SeriesState) -> tuple[Any, ...]:
    """Return low, high, mean, count and the steps of a series."""
    if not state.count:
        return None, None, None, 0, None, None
    spread: tuple[Any, ...] = (None, None, None)
    if isinstance(state, FloatSeriesState) and state.min <= state.max:
        spread = (state.min, state.max, state.mean)
    return *spread, state.count, state.first_step, state.last_step


class _Keys:
    """Keys as JSON: the journal's number in place of its uid."""

    def __init__(self, journals: Iterable[JournalState]) -> None:
        journals = list(journals)
        self._numbers = {journal.uid: journal.number for journal in journals}
        self._uids = {journal.number: journal.uid for journal in journals}

    def pack(self, key: Key) -> list[int]:
        """Return [time, number, index]."""
        return (
            [0, -1, -1] if key is NEVER or key == NEVER else [key[0], self._numbers[key[1]], key[2]]
        )

    def unpack(self, packed: Sequence[int]) -> Key:
        """Return the key."""
        return NEVER if packed[1] < 0 else (packed[0], self._uids[packed[1]], packed[2])


def _facts(journal: JournalState) -> str:
    facts = {name: getattr(journal, name) for name in _FACTS}
    return to_json({"writer": journal.writer, "uid": journal.uid.hex(), **facts})


def running_ns(journals: Iterable[JournalState]) -> int:
    """Return for how long at least one owner was writing, in nanoseconds."""
    spans = sorted(
        (one.first_t, one.last_t) for one in journals if one.owner and one.first_t is not None
    )
    total, end = 0, None
    for first, last in spans:
        start = first if end is None or first > end else end
        total += max(0, last - start)
        end = last if end is None else max(end, last)
    return total


def run_columns(run: RunState) -> dict[str, Any]:
    """Return what the row of a run derives from its state, times in ns since the Unix epoch."""
    journals = list(run.journals.values())
    found = [one.first_t for one in journals if one.first_t is not None]
    owners = [one.last_t for one in journals if one.owner]
    trashed = run.surviving("sys/trashed")
    user = min(
        ((one.first_t or 0, one.header["user"]) for one in journals if "user" in one.header),
        default=(0, ""),
    )
    return {
        "state": run.state[1].get("state", "created"),
        "owner": str(user[1]).encode("utf-8", "replace").decode(),
        "created": min(found, default=0),
        "modified": max((one.last_t for one in journals), default=0),
        "running": running_ns(journals),
        "beat": max(owners, default=0),
        "trashed": int(bool(trashed) and getattr(trashed[0], "value", False) is True),
    }


def save_run(
    connection: sa.Connection,
    numbers: PathNumbers,
    place: tuple[int | None, str, str],
    run: RunState,
    looks: dict[str, tuple[int, int, int, int]],
    extra: dict[str, Any],
) -> int:
    """Write what changed in a run, within a transaction.

    Statements go to the driver's cursor: SQLAlchemy takes 30 µs for each, and a first open has very
    many.

    Args:
        connection: In a transaction that may write.
        numbers: The table of paths.
        place: Number of the run in the index (None if it is new), project, run id.
        run: Its ``dirty`` paths are written. It is not in step with the tables afterwards; load it
            again.
        looks: Size, mtime (ns), inode and time of the next look (ns) of every journal, by writer.
        extra: Further columns of the run's row.

    Returns:
        The number of the run.

    Raises:
        Conflict: If another process folded this run in the meantime.
    """
    run_id, project, name = place
    keys = _Keys(run.journals.values())
    pack = keys.pack
    registers = {
        "deletes": {path: pack(key) for path, key in run.deletes.items()},
        "clears": {path: pack(key) for path, key in run.clears.items()},
        "state": [pack(run.state[0]), run.state[1]],
    }
    columns = {**run_columns(run), "registers": to_json(registers)}
    columns |= {key: value for key, value in extra.items() if value or key not in columns}
    cursor = connection.connection.cursor()
    if run_id is None:
        row = {"project": project, "name": name, **columns}
        marks = ", ".join("?" * len(row))
        insert = f"INSERT INTO run ({', '.join(row)}) VALUES ({marks}) ON CONFLICT DO NOTHING"  # noqa: S608 - our names
        cursor.execute(insert, tuple(row.values()))
        run_id = int(cursor.lastrowid or 0)
    else:
        sets = ", ".join(f"{key} = ?" for key in columns)
        cursor.execute(f"UPDATE run SET {sets} WHERE id = ?", (*columns.values(), run_id))  # noqa: S608
    if cursor.rowcount != 1:
        raise Conflict
    for writer, journal in run.journals.items():
        _save_journal(cursor, run_id, journal, looks[writer])
    known = numbers.ensure(connection, run.dirty)
    rows = _Rows(run_id, run, keys)
    for path in run.dirty:
        rows.add(path, known[path])
    rows.write(cursor)
    return run_id


def _save_journal(
    cursor: Any, run_id: int, journal: JournalState, look: tuple[int, int, int, int]
) -> None:
    values = (journal.file, journal.offset, journal.last_offset, journal.last_crc, *look)
    texts = (_facts(journal), dump_tables(journal.paths, journal.schemas))
    if journal.stored_offset < 0:
        cursor.execute(_INSERT_JOURNAL, (run_id, journal.number, *values, 0))
        cursor.execute(_INSERT_TEXT, (run_id, journal.number, *texts, ""))
        return
    cursor.execute(_UPDATE_JOURNAL, (*values, run_id, journal.number, journal.stored_offset))
    if cursor.rowcount != 1:
        raise Conflict
    cursor.execute(_UPDATE_TEXT, (*texts, run_id, journal.number))


class _Rows:
    """The rows of what changed in one run, gathered and then written table by table."""

    def __init__(self, run_id: int, run: RunState, keys: _Keys) -> None:
        self.run_id = run_id
        self.run = run
        self.pack = keys.pack
        self.gone: list[tuple[int, int, int]] = []
        self.attributes: list[tuple[Any, ...]] = []
        self.series: list[tuple[Any, ...]] = []
        self.gone_sets: list[tuple[int, int]] = []
        self.elements: list[tuple[int, int, str]] = []

    def add(self, path: str, number: int) -> None:
        """Gather the rows of one path."""
        pack = self.pack
        shown = self.run.surviving(path)
        first = shown[0] if shown else None
        for family, state in self.run.attributes[path].items():
            at = (self.run_id, number, FAMILY_NUMBERS[family])
            if state.stored:
                self.gone.append(at)
            key = pack(state.key) if state.key is not NEVER else _NO_KEY
            if isinstance(state, AtomState):  # most of what there is
                columns = atom_columns(state.type, state.value)
                kept = None if state.type != "text" else state.dump(pack)
                self.attributes.append((*at, int(state is first), state.type, *columns, *key, kept))
                continue
            columns = _columns(self.run, path, state)
            self.attributes.append(
                (*at, int(state is first), family, *columns, *key, state.dump(pack))
            )
            if isinstance(state, SeriesState):
                self.series.append((*at, *_series_columns(state)))
            elif isinstance(state, SetState):
                self._add_set(path, number, state, seen=state is first)

    def _add_set(self, path: str, number: int, state: SetState, *, seen: bool) -> None:
        if state.stored:
            self.gone_sets.append((self.run_id, number))
        if seen:
            elements = state.visible(self.run.emptied(path))
            self.elements += [(self.run_id, number, element) for element in elements]

    def write(self, cursor: Any) -> None:
        """Write them, in the order of the tables' keys, which is quicker."""
        self.attributes.sort(key=_PLACE)
        self.series.sort(key=_PLACE)
        for statement, values in (
            (_DELETE_ATTRIBUTE, self.gone),
            (_DELETE_SERIES, self.gone),
            (_INSERT_ATTRIBUTE, self.attributes),
            (_INSERT_SERIES, self.series),
            (_DELETE_ELEMENT, self.gone_sets),
            (_INSERT_ELEMENT, self.elements),
        ):
            if values:
                cursor.executemany(statement, values)


def _load_journal(row: Any) -> JournalState:
    facts = json.loads(row.facts)
    journal = JournalState(
        facts["writer"], bytes.fromhex(facts["uid"]), file=row.file, number=row.number
    )
    journal.offset = journal.stored_offset = row.offset
    journal.last_offset, journal.last_crc = row.last_offset, row.last_crc
    for name in _FACTS:
        setattr(journal, name, facts[name])
    journal.paths, journal.schemas = load_tables(row.numbers)
    return journal


def load_journals(connection: sa.Connection, run_id: int) -> list[JournalState]:
    """Return what is known of the journals of a run."""
    journal, text = schema.journal, schema.journal_text
    same = sa.and_(text.c.run == journal.c.run, text.c.number == journal.c.number)
    columns = (*journal.c, text.c.facts, text.c.numbers)
    rows = connection.execute(
        sa.select(*columns).select_from(journal.join(text, same)).where(journal.c.run == run_id)
    )
    return [_load_journal(row) for row in rows]


def dump_tables(paths: dict[int, str], schemas: dict[int, tuple[int, ...]]) -> str:
    """Return paths and schemas by number as a column of a journal's row."""
    return to_json([paths, schemas])


def load_tables(text: str) -> tuple[dict[int, str], dict[int, tuple[int, ...]]]:
    """Return paths and schemas by number, from a journal's row."""
    paths, schemas = json.loads(text) if text else ({}, {})
    return (
        {int(number): path for number, path in paths.items()},
        {int(number): tuple(numbers) for number, numbers in schemas.items()},
    )


def load_run(connection: sa.Connection, numbers: PathNumbers, run_id: int) -> RunState:
    """Return the state of a run as it was saved.

    Raises:
        LookupError: If it is not in the index.
    """
    run = RunState()
    for journal in load_journals(connection, run_id):
        run.add_journal(journal)
    found = connection.exec_driver_sql(
        "SELECT registers FROM run WHERE id = ?", (run_id,)
    ).fetchone()
    if found is None:
        msg = f"run {run_id} is not in the index"
        raise LookupError(msg)
    unpack = _Keys(run.journals.values()).unpack
    registers = json.loads(found[0])
    run.deletes = {path: unpack(key) for path, key in registers["deletes"].items()}
    run.clears = {path: unpack(key) for path, key in registers["clears"].items()}
    run.state = (unpack(registers["state"][0]), registers["state"][1])
    for path, state in _load_attributes(connection, numbers, run_id, unpack):
        run.attributes.setdefault(path, {})[state.family] = state
    return run


def _load_attributes(
    connection: sa.Connection, numbers: PathNumbers, run_id: int, unpack: Any
) -> Iterator[tuple[str, FamilyState]]:
    rows = connection.exec_driver_sql(
        "SELECT path, family, type, class, number, whole, text, t, writer, place, registers"
        " FROM attribute"
        " WHERE run = ?",
        (run_id,),
    )
    for (
        number,
        family,
        kind,
        klass,
        value,
        whole,
        text,
        t,
        writer,
        place,
        registers,
    ) in rows.fetchall():
        name = NUMBER_FAMILIES[family]
        state = state_class(name)(name)
        state.stored = True
        if t is not None:
            state.key = unpack((t, writer, place))
        if isinstance(state, AtomState):
            state.type, state.value = kind, atom_value(kind, klass, value, whole, text, registers)
        elif registers is not None:
            state.load(registers, unpack)
        yield numbers.path(connection, number), state
