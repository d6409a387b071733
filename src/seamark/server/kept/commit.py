"""The transaction that names an object: offsets advance by compare-and-set, all or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seamark.server.kept import tables
from seamark.server.kept.plan import Key, Rows, key_of, read_rows, read_runs
from seamark.store.database import Upsert, insertion

if TYPE_CHECKING:
    from seamark.server.kept.parts import Part
    from seamark.store.database import Database

__all__ = ["OutrunError", "commit", "insert_object"]


class OutrunError(Exception):
    """Somebody else advanced a journal meanwhile, or claimed the name: nothing was written."""


_NEW_RUN: Final = Upsert(
    tables.runs, ("key", "project", "run", "position", "loose", "heard_ns"), ("key",)
)
_NEW_JOURNAL: Final = Upsert(
    tables.journals, ("run", "name", "size", "heard_ns", "ahead_ns"), ("run", "name")
)
_NEW_OBJECT: Final = Upsert(
    tables.objects,
    ("name", "size", "state", "remove_ns", "stale"),
    ("name",),
    returned=tables.objects.c.number,
)
_NEW_SEGMENT: Final = insertion(tables.segments)
_journal, _run = tables.journals, tables.runs
_later: Any = sa.bindparam("ahead", type_=sa.BigInteger)
_ADVANCE: Final = (
    sa.update(_journal)
    .values(
        size=sa.bindparam("end"),
        heard_ns=sa.bindparam("heard"),
        ahead_ns=sa.case((_journal.c.ahead_ns < _later, _later), else_=_journal.c.ahead_ns),
    )
    .where(
        _journal.c.number == sa.bindparam("row"),
        _journal.c.run == sa.bindparam("of"),
        _journal.c.name == sa.bindparam("called"),
        _journal.c.size == sa.bindparam("before"),
    )
)
_heard: Any = sa.bindparam("heard", type_=sa.BigInteger)
_added: Any = sa.bindparam("added", type_=sa.BigInteger)
_GROW: Final = (
    sa.update(_run)
    .values(
        position=_run.c.position + _added,
        loose=_run.c.loose + _added,
        heard_ns=_heard,
        waiting_ns=sa.func.coalesce(_run.c.waiting_ns, _heard),
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
    state: int = tables.LIVE,
) -> int:
    """Name an object in the tables; return its number.

    Raises:
        OutrunError: If the name was claimed, because nobody seemed to want it any more.
    """
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
    most_journals: int,
    recent: Rows | None = None,
    *,
    grown: int | None = None,
) -> Rows:
    """Advance the journals of an object by what it holds.

    Args:
        database: Which has the tables.
        name: Of the object, which is durable.
        size: Of the object, bytes.
        parts: What it holds; those of one journal in order.
        sizes: How many bytes of each journal were kept when that was decided.
        most_journals: Of one run.
        recent: Rows of all the journals as this process last saw them, which saves asking for
            them; None to ask.
        grown: Number of the object, if it is one that grows: then what is written here need not
            outlive a loss of power, because it is found in the object (`growing.take_up`).

    Returns:
        The rows of runs and journals as they are now.

    Raises:
        OutrunError: If one of the journals has another size by now, or its run was purged.
        Conflict: If another transaction is in the way.
    """
    keys: dict[Key, Part] = {}
    for part in parts:
        keys[key_of(part.project, part.run), part.journal] = part  # the last one of each
    alone = database.dialect == "sqlite"  # no other process sends anything
    with database.writing(lasting=grown is None) as connection:
        of_runs = {key[0]: part for key, part in keys.items()}
        if recent is None:
            runs, journals = _rows_of(database, connection, keys, of_runs, most_journals)
        elif alone:
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
        # In one go each: over a network, every statement alone would cost its way there and back.
        advanced = database.run_each(
            connection,
            _ADVANCE,
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
            _GROW,
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
    most_journals: int,
) -> Rows:
    """Return the rows of journals and their runs, which are locked; those that are not there made.

    Raises:
        OutrunError: If a run has too many journals.
    """
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
        _check_count(connection, {journals[key].run for key in new}, most_journals)
    return Rows(runs, journals)


def _make_runs(database: Database, connection: sa.Connection, of_runs: Mapping[str, Part]) -> None:
    """Make the rows of runs that are not there, before any row is locked: no two wait in a ring."""
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
        raise OutrunError  # planned again, that batch alone is refused
