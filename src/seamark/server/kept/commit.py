"""Registration of objects in transactions, and objects that grow by groups of batches.

On SQLite, small groups of batches are appended to a growing object. Its bytes are durable before
the response to the sender. The rows about them need not be durable, because after a power loss the
lost rows can be restored from the object. The row of the object itself is durable before its first
byte, and so are all earlier rows. Therefore only the newest object can hold acknowledged bytes
without rows. It has the state `GROWING`, and is read before any new batch is accepted (`take_up`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from seamark.server.kept import layout
from seamark.server.kept.layout import REMOVE_NS, Part, read_parts, release
from seamark.server.kept.plan import Key, Rows, key_of, read_rows, read_runs
from seamark.server.objects import FolderObjects, GrowingObject, ObjectStore
from seamark.store.database import Database, Upsert, insertion


class OutrunError(Exception):
    """Another process advanced a journal or claimed the name meanwhile; nothing was written."""


_NEW_RUN: Final = Upsert(
    layout.runs, ("key", "project", "run", "position", "loose", "heard_ns"), ("key",)
)
_NEW_JOURNAL: Final = Upsert(
    layout.journals, ("run", "name", "size", "heard_ns", "ahead_ns"), ("run", "name")
)
_NEW_OBJECT: Final = Upsert(
    layout.objects,
    ("name", "size", "state", "remove_ns", "stale"),
    ("name",),
    returned=layout.objects.c.number,
)
_NEW_SEGMENT: Final = insertion(layout.segments)
_journal, _run = layout.journals, layout.runs
_ahead_ns: Any = sa.bindparam("ahead", type_=sa.BigInteger)
_ADVANCE_JOURNAL: Final = (
    sa.update(_journal)
    .values(
        size=sa.bindparam("end"),
        heard_ns=sa.bindparam("heard"),
        ahead_ns=sa.case((_journal.c.ahead_ns < _ahead_ns, _ahead_ns), else_=_journal.c.ahead_ns),
    )
    .where(
        _journal.c.number == sa.bindparam("row"),
        _journal.c.run == sa.bindparam("of"),
        _journal.c.name == sa.bindparam("called"),
        _journal.c.size == sa.bindparam("before"),
    )
)
_received_ns: Any = sa.bindparam("heard", type_=sa.BigInteger)
_added_bytes: Any = sa.bindparam("added", type_=sa.BigInteger)
_ADVANCE_RUN: Final = (
    sa.update(_run)
    .values(
        position=_run.c.position + _added_bytes,
        loose=_run.c.loose + _added_bytes,
        heard_ns=_received_ns,
        waiting_ns=sa.func.coalesce(_run.c.waiting_ns, _received_ns),
    )
    .where(
        _run.c.number == sa.bindparam("row"),
        _run.c.position == sa.bindparam("was"),
        _run.c.purged_ns.is_(None),
    )
)


def insert_object(
    database: Database,
    connection: sa.Connection,
    name: str,
    size: int,
    *,
    stale: bool = False,
    state: int = layout.LIVE,
) -> int:
    """Register an object in the tables; return its number, or raise `OutrunError` if claimed."""
    rows = database.rows(
        connection,
        _NEW_OBJECT,
        name=name,
        size=size,
        state=state,
        remove_ns=None,
        stale=int(stale),
    )
    if not rows:
        raise OutrunError
    return int(rows[0][0])


def commit(
    database: Database,
    name: str,
    size: int,
    parts: Sequence[Part],
    sizes: Mapping[Key, int],
    max_journals: int,
    recent: Rows | None = None,
    *,
    grown: int | None = None,
) -> Rows:
    """Register the bytes of journals in a durable object; return the rows of journals and runs.

    Args:
        database: Database with the tables.
        name: Name of the object.
        size: Size of the object in bytes.
        parts: Parts in the object; those of one journal in order.
        sizes: Number of stored bytes of each journal at the time of planning.
        max_journals: Maximum number of journals of one run.
        recent: Rows that this process read last, to avoid a query; None to query them.
        grown: Number of the object, if it is growing. Its rows need not survive a power loss,
            because they can be restored from the object (`take_up`).

    Raises:
        OutrunError: If the size of a journal has changed, or its run was purged.
        Conflict: If another transaction interferes.
    """
    keys: dict[Key, Part] = {}
    for part in parts:
        keys[key_of(part.project, part.run), part.journal] = part  # the last part of each journal
    is_single = database.dialect == "sqlite"  # no other process stores data
    with database.writing(lasting=grown is None) as connection:
        of_runs = {key[0]: part for key, part in keys.items()}
        if recent is None:
            runs, journals = _rows_of(database, connection, keys, of_runs, max_journals)
        elif is_single:
            runs, journals = recent.runs, recent.journals
        else:
            runs, journals = read_runs(connection, of_runs, locked=True), recent.journals
            if any(
                key not in runs or runs[key].number != recent.runs[key].number for key in of_runs
            ):
                raise OutrunError
        if any(row.purged_ns is not None for row in runs.values()):
            raise OutrunError
        if any(journals[key].size != sizes[key] for key in keys):
            raise OutrunError
        number = insert_object(database, connection, name, size) if grown is None else grown
        added: dict[str, int] = {}
        ahead: dict[Key, int] = {}
        for part in parts:
            run = key_of(part.project, part.run)
            ahead[run, part.journal] = max(ahead.get((run, part.journal), 0), part.ahead_ns)
            added[run] = added.get(run, 0) + part.length
        # Bulk statements, as each statement costs a network round trip.
        advanced = database.run_each(
            connection,
            _ADVANCE_JOURNAL,
            [
                {
                    "row": journals[key].number,
                    "of": journals[key].run,
                    "called": key[1],
                    "before": sizes[key],
                    "end": keys[key].end,
                    "heard": keys[key].heard_ns,
                    "ahead": ahead[key],
                }
                for key in sorted(keys)
            ],
        )
        if advanced != len(keys):
            raise OutrunError
        counted = database.run_each(
            connection,
            _ADVANCE_RUN,
            [
                {
                    "row": runs[run].number,
                    "was": runs[run].position,
                    "added": added[run],
                    "heard": of_runs[run].heard_ns,
                }
                for run in sorted(added)
            ],
        )
        if counted != len(added):
            raise OutrunError
        database.run_many(
            connection,
            _NEW_SEGMENT,
            (
                (
                    journals[key_of(part.project, part.run), part.journal].number,
                    part.offset,
                    part.length,
                    number,
                    part.place,
                    part.heard_ns,
                    1,
                )
                for part in parts
            ),
        )
    return Rows(
        {
            run: runs[run]._replace(position=runs[run].position + more)
            for run, more in added.items()
        },
        {key: journals[key]._replace(size=part.end) for key, part in keys.items()},
    )


def _rows_of(
    database: Database,
    connection: sa.Connection,
    keys: Mapping[Key, Part],
    of_runs: Mapping[str, Part],
    max_journals: int,
) -> Rows:
    _make_runs(database, connection, of_runs)
    runs, journals = read_rows(connection, keys, locked=True)
    new = [key for key in sorted(keys) if key not in journals]
    if new:
        rows = [
            {
                "run": runs[key[0]].number,
                "name": key[1],
                "size": 0,
                "heard_ns": keys[key].heard_ns,
                "ahead_ns": 0,
            }
            for key in new
        ]
        connection.execute(_NEW_JOURNAL.of(database.dialect), rows)
        runs, journals = read_rows(connection, keys)
        _check_count(connection, {journals[key].run for key in new}, max_journals)
    return Rows(runs, journals)


def _make_runs(database: Database, connection: sa.Connection, of_runs: Mapping[str, Part]) -> None:
    # Rows are created before any is locked, to avoid deadlocks.
    there = {
        row[0]
        for row in connection.execute(
            sa.select(_run.c.key).where(_run.c.key.in_(sa.bindparam("keys", expanding=True))),
            {"keys": list(of_runs)},
        )
    }
    rows = [
        {
            "key": key,
            "project": of_runs[key].project,
            "run": of_runs[key].run,
            "position": 0,
            "loose": 0,
            "heard_ns": of_runs[key].heard_ns,
        }
        for key in sorted(set(of_runs) - there)
    ]
    if rows:
        connection.execute(_NEW_RUN.of(database.dialect), rows)


def _check_count(connection: sa.Connection, runs: set[int], most: int) -> None:
    counts = connection.execute(
        sa.select(sa.func.count())
        .where(_journal.c.run.in_(sa.bindparam("runs", expanding=True)))
        .group_by(_journal.c.run),
        {"runs": sorted(runs)},
    )
    if any(row[0] > most for row in counts):
        raise OutrunError  # planned again, only that batch is refused


GROWN_BYTES: Final = 1 << 20
"""Maximum size of a growing object, in bytes."""
SMALL_BYTES: Final = 64 << 10
"""Maximum size of an addition, in bytes; more data is stored in a separate object."""
_MAX_AGE_NS: Final = 600 * 10**9
"""Age after which an object no longer grows, in nanoseconds."""
_NO_LIMIT: Final = 1 << 62
_log: Final = logging.getLogger("seamark.server")
_object = layout.objects
_SELECT_GROWING: Final = (
    sa.select(_object.c.number, _object.c.name)
    .where(_object.c.state == layout.GROWING)
    .order_by(_object.c.number)
)
_SEAL_OBJECT: Final = (
    sa.update(_object)
    .values(state=layout.LIVE, size=sa.bindparam("end"))
    .where(_object.c.number == sa.bindparam("row"), _object.c.state == layout.GROWING)
)


class Growing:
    """Growing object of this process; for one thread at a time."""

    def __init__(
        self,
        database: Database,
        objects: FolderObjects,
        names: Iterator[str],
        now_ns: Callable[[], int],
    ) -> None:
        self._database, self._objects, self._names = database, objects, names
        self._now_ns = now_ns
        self._file: GrowingObject | None = None
        self._until_ns = 0
        self.name = ""
        self.number = 0

    def open(self, size: int) -> GrowingObject | None:
        """Return the growing object for a number of bytes; None if they need a separate object."""
        if size > SMALL_BYTES:
            return None
        if self._file is None or self._file.capacity < size or self.is_old():
            self.seal()
            self._file = self._create_object()
        return self._file

    def _create_object(self) -> GrowingObject:
        name, now = next(self._names), self._now_ns()
        file = self._objects.grow(name, GROWN_BYTES)
        try:
            with self._database.writing() as connection:  # durable, with all earlier rows
                self.number = insert_object(
                    self._database, connection, name, GROWN_BYTES, state=layout.GROWING
                )
        except BaseException:
            file.close()
            raise
        self.name, self._until_ns = name, now + _MAX_AGE_NS
        return file

    def is_old(self) -> bool:
        """Return whether the object is due for `seal`."""
        return self._file is not None and self._now_ns() > self._until_ns

    def abandon(self) -> None:
        """Stop using an object after a failed write; `take_up` registers its contents later."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def seal(self) -> None:
        """Turn the growing object into a normal one; after an error `take_up` does it later."""
        file = self._file
        if file is None:
            return
        self.abandon()
        _seal(self._database, self._objects, self.number, self.name, file.end, self._now_ns())


def _seal(
    database: Database, objects: ObjectStore, number: int, name: str, end: int, now_ns: int
) -> None:
    objects.cut(name, end)
    with database.writing(lasting=False) as connection:
        database.run(connection, _SEAL_OBJECT, row=number, end=end)
        release(connection, [number], now_ns + REMOVE_NS)


def take_up(
    database: Database,
    objects: ObjectStore,
    *,
    gone: Callable[[str, str], bool],
    now_ns: Callable[[], int],
) -> int:
    """Register contents of growing objects of dead processes that are not in the tables.

    No data may be received meanwhile. `gone` returns whether a run that is not in the tables was
    purged. The result is the number of registered bytes of journals.
    """
    rows = database.fetch(_SELECT_GROWING)
    total = 0
    for number, name in rows:
        size = next((each.size for each in objects.listed(name) if each.name == name), None)
        if size is None:
            _log.error("object %r is missing", name)
            continue
        try:
            listed = read_parts(objects, name, size)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            _log.error("cannot read the last stored data: %s", error)
            continue
        new, sizes = _missing_parts(database, listed.parts, gone)
        if new and (number, name) == rows[-1]:  # data of the others was never acknowledged
            commit(database, name, size, new, sizes, _NO_LIMIT, grown=number)
            total += sum(part.length for part in new)
        _seal(database, objects, number, name, listed.end, now_ns())
    if total:
        _log.info("recovered %d bytes of journals after the last stop", total)
    if rows:
        with database.writing():  # durable, with the rows written above
            pass
    return total


def _missing_parts(
    database: Database, parts: Sequence[Part], gone: Callable[[str, str], bool]
) -> tuple[list[Part], dict[Key, int]]:
    with database.reading() as connection:
        keys = {(key_of(part.project, part.run), part.journal) for part in parts}
        runs, journals = read_rows(connection, keys)
    ends: dict[Key, int] = {}
    sizes: dict[Key, int] = {}
    new: list[Part] = []
    for part in parts:
        run = key_of(part.project, part.run)
        key = run, part.journal
        if (runs[run].purged_ns is not None) if run in runs else gone(part.project, part.run):
            continue
        known = ends.get(key, journals[key].size if key in journals else 0)
        if part.offset > known:
            _log.error("journal %r of %r lacks bytes before byte %d", *reversed(key), part.offset)
        elif part.offset == known:  # rows are written for whole parts
            sizes.setdefault(key, known)
            ends[key] = part.end
            new.append(part)
    return new, sizes
