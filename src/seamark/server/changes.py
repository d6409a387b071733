"""Changes of runs since a cursor, and the folded positions of runs.

The position of a run is the number of stored bytes of all its journals, gaps included; it only
grows. Every response to a batch contains it, and a read that names it sees at least the data up to
it.

The number of a change is taken from a single row, which stays locked until the change is committed.
So a reader that has seen a number has seen all smaller ones, from any process.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import unquote

import sqlalchemy as sa

from seamark.paths import is_inside
from seamark.reading.catalog import ChangedRun, Changes
from seamark.reading.reader import Answer
from seamark.server.access import Looked
from seamark.server.databases import Databases
from seamark.server.folding import tables
from seamark.store import schema
from seamark.store.cells import OPEN
from seamark.store.database import Database, Upsert
from seamark.store.read.names import recent_paths
from seamark.store.runs import Store
from seamark.store.schema import SILENT_FROM, state_of_row

POSITION: Final = "Seamark-Position"
"""Request header: ``<project>/<run>=<bytes>``, separated by commas, %-encoded."""
BEHIND: Final = "Seamark-Behind"
"""Response header: number of requested bytes that are not folded yet."""
WAIT_S: Final = 2.0
"""Maximum waiting time of a read, in seconds."""
_MIN_PAUSE_S: Final = 0.004
_MAX_PAUSE_S: Final = 0.05
_MAX_RUNS: Final = 1000
"""Maximum number of runs named by a header."""
Ref = tuple[str, str]
"""Project path and run id."""
_ALL_FOLDED: Final = sa.select(
    tables.folded.c.project, tables.folded.c.run, tables.folded.c.position
)
_FOLDED: Final = sa.select(tables.folded.c.position).where(
    tables.folded.c.project == sa.bindparam("project"), tables.folded.c.run == sa.bindparam("run")
)


class Positions:
    """Folded positions of runs; a read does not wait for a run that is `gone` (purged)."""

    def __init__(
        self, store: Callable[[], Store], gone: Callable[[str, str], bool] = lambda *_: False
    ) -> None:
        self._store = store
        self._gone = gone

    def folded(self, project: str, run: str) -> int:
        """Return the folded position of a run, in bytes; 0 if the run is missing."""
        rows = self._store().database.fetch(_FOLDED, project=project, run=run)
        return int(rows[0][0]) if rows else 0

    def all(self) -> dict[Ref, int]:
        """Return the folded positions of all runs, in bytes."""
        database = self._store().database
        return {(row[0], row[1]): int(row[2]) for row in database.fetch(_ALL_FOLDED)}

    def wait_for(self, wanted: Mapping[Ref, int], seconds: float = WAIT_S) -> int:
        """Wait until runs are folded up to their positions; return the number of missing bytes."""
        end, pause = time.monotonic() + seconds, _MIN_PAUSE_S
        missing = self._missing(wanted)
        if missing:
            missing = self._missing({run: wanted[run] for run in missing if not self._gone(*run)})
        while missing:
            left = end - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(pause, left))
            pause = min(2 * pause, _MAX_PAUSE_S)
            missing = self._missing({run: wanted[run] for run in missing})
        return sum(missing.values())

    def _missing(self, wanted: Mapping[Ref, int]) -> dict[Ref, int]:
        found = {run: position - self.folded(*run) for run, position in wanted.items()}
        return {run: left for run, left in found.items() if left > 0}


def from_header(text: str) -> dict[Ref, int]:
    """Return the positions in a header; invalid ones are ignored."""
    found: dict[Ref, int] = {}
    for part in text.split(",")[:_MAX_RUNS]:
        name, _, number = part.strip().rpartition("=")
        project, _, run = unquote(name).rpartition("/")
        if project and run and number.isascii() and number.isdigit() and len(number) < 19:  # noqa: PLR2004
            found[project, run] = int(number)
    return found


_CHANGE_KEY: Final = "changes"
_INT64: Final = re.compile(r"[0-9]{1,18}|[1-8][0-9]{18}")
"""Pattern of a 64-bit number."""
_change, _changed, _run = tables.change.c, tables.changed.c, schema.run.c
_INCREMENT: Final = (
    sa.update(tables.change)
    .values(number=_change.number + 1)
    .where(_change.key == sa.bindparam("one"))
)
_INSERT_FIRST: Final = Upsert(tables.change, ("key", "number"), ("key",))
_LAST_NUMBER: Final = sa.select(_change.number).where(_change.key == _CHANGE_KEY)
_NOTE_CHANGE: Final = Upsert(
    tables.changed, ("project", "run", "number", "gone"), ("project", "run"), overwrite=True
)


def _changes_after(number: Any) -> sa.Select[Any]:
    same = sa.and_(_run.project == _changed.project, _run.name == _changed.run)
    shown = (_changed.number, _changed.project, _changed.run, _changed.gone)
    return (
        sa.select(*shown, _run.state, _run.beat)
        .select_from(tables.changed.outerjoin(schema.run, same))
        .where(_changed.number > number)
        .order_by(_changed.number)
    )


_CHANGED_SINCE: Final = _changes_after(sa.bindparam("since")).limit(_MAX_RUNS + 1)
_MAY_FALL_SILENT: Final = sa.or_(_run.state == "running", _run.state == OPEN)
_FELL_SILENT: Final = sa.select(_run.project, _run.name, _run.state, _run.beat).where(
    _MAY_FALL_SILENT,
    sa.bindparam("since") <= SILENT_FROM,
    sa.bindparam("until") > SILENT_FROM,
)
_COUNT_SILENT: Final = sa.select(sa.func.count()).where(
    _MAY_FALL_SILENT, sa.bindparam("until") > SILENT_FROM
)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Position of a reader in the changes; a cursor of another store starts from the beginning.

    `at_ns`, in nanoseconds since the Unix epoch, is needed because a run also changes when it falls
    silent.
    """

    store: str
    number: int
    at_ns: int

    def __str__(self) -> str:
        return f"{self.store}.{self.number}.{self.at_ns}"

    @classmethod
    def of(cls, text: str) -> Cursor | None:
        """Parse a client's cursor; return None if it is invalid."""
        store, *numbers = text.rsplit(".", 2)
        if len(numbers) != 2 or not all(map(_INT64.fullmatch, numbers)):  # noqa: PLR2004 - two numbers
            return None
        return cls(store, int(numbers[0]), int(numbers[1]))


def note_changes(
    database: Database,
    connection: sa.Connection,
    refs: Iterable[tuple[str, str]],
    *,
    gone: bool = False,
) -> None:
    """Register that runs were saved or removed; called at the end of the same transaction."""
    if not database.run(connection, _INCREMENT, one=_CHANGE_KEY):
        database.run_many(connection, _INSERT_FIRST, [(_CHANGE_KEY, 0)])
        database.run(connection, _INCREMENT, one=_CHANGE_KEY)
    number = database.rows(connection, _LAST_NUMBER)[0][0]
    rows = [(project, run, number, int(gone)) for project, run in sorted(refs)]
    database.run_many(connection, _NOTE_CHANGE, rows)


def now_at(database: Database, connection: sa.Connection, now_ns: int) -> tuple[int, int]:
    """Return the number of the last change, and the number of silent runs.

    While both stay the same, no readable data of any run has changed.
    """
    rows = database.rows(connection, _LAST_NUMBER)
    ((silent,),) = database.rows(connection, _COUNT_SILENT, until=now_ns)
    return (int(rows[0][0]) if rows else 0), int(silent)


def changes_since(
    database: Database, connection: sa.Connection, cursor: Cursor, now_ns: int
) -> tuple[Cursor, list[ChangedRun], bool]:
    """Return the changes since a cursor of this store, oldest first.

    The result is the next cursor, the changed runs (without their paths), and whether there are
    more changes.
    """
    rows: list[Any] = database.rows(connection, _CHANGED_SINCE, since=cursor.number)
    more = len(rows) > _MAX_RUNS
    if more:  # whole changes only, as the next cursor is the number of the last one
        last = rows[_MAX_RUNS][0]
        whole = [row for row in rows if row[0] < last]
        rows = whole or database.query(
            connection, _changes_after(cursor.number).where(_changed.number == last)
        )
    found = {}
    for _, project, run, gone, state, beat in rows:
        now = None if state is None else state_of_row(state, beat, now_ns)
        found[project, run] = ChangedRun(project, run, now, bool(gone) or state is None, [])
    since_ns = min(cursor.at_ns, now_ns)
    fell = database.rows(connection, _FELL_SILENT, since=since_ns, until=now_ns)
    for project, run, state, beat in fell:
        now = state_of_row(state, beat, now_ns)
        found[project, run] = ChangedRun(project, run, now, gone=False, paths=[])
    number = rows[-1][0] if rows else cursor.number
    at_ns = cursor.at_ns if more else now_ns
    return Cursor(cursor.store, number, at_ns), list(found.values()), more


class ServerChanges:
    """Changes of the runs in the live store; see `seamark.server.access.Changing`."""

    def __init__(self, databases: Databases) -> None:
        self._databases = databases

    def name(self) -> str:
        """Return the name of the live store."""
        return self._databases.store_in_use

    def tag(self, now_ns: int) -> str:
        """Return a tag that changes whenever readable data changes."""
        number, silent = self._now(now_ns)
        return f"{self.name()}.{number}.{silent}"

    def cursor(self, now_ns: int) -> str:
        """Return the cursor after all changes up to now."""
        number, _ = self._now(now_ns)
        return str(Cursor(self.name(), number, now_ns))

    def _now(self, now_ns: int) -> tuple[int, int]:
        database = self._databases.store().database
        with database.reading() as connection:
            return now_at(database, connection, now_ns)

    def since(
        self, cursor: str, project: str, may_read: Callable[[str], bool], now_ns: int
    ) -> Answer[Changes]:
        """Return the changes since a cursor."""
        since = Cursor.of(cursor)
        if since is None or since.store != self.name():
            return Answer(Changes(self.cursor(now_ns), reset=True, runs=[], looked_ns=now_ns))
        store = self._databases.store()
        with store.database.reading() as connection:
            upto, found, more = changes_since(store.database, connection, since, now_ns)
            told = [
                one for one in found if is_inside(one.project, project) and may_read(one.project)
            ]
            there = [(one.project, one.run) for one in told if not one.gone]
            paths = recent_paths(store, connection, there, min(since.at_ns, now_ns))
        runs = [replace(one, paths=paths.get((one.project, one.run), [])) for one in told]
        news = Changes(str(upto), reset=False, runs=runs, looked_ns=now_ns)
        return Answer(news, next=news.cursor if more else None)

    def looked(self, now_ns: int) -> Looked:
        """Return the current time, as new data is folded continuously."""
        return Looked(now_ns)
