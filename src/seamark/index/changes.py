"""Query for the runs of the index that changed since an earlier query.

Each query compares the versions and states of all runs with the previous ones. It finds changes of
any process, removed runs and crashes, and folding costs nothing more.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seamark.paths import is_inside
from seamark.reading.catalog import ChangedRun, Changes
from seamark.store import schema
from seamark.store.database import Upsert
from seamark.store.query.choosing import state_column
from seamark.store.read.names import recent_paths

if TYPE_CHECKING:
    from seamark.store.runs import Store

__all__ = ["changes_since"]

_CURSOR: Final = re.compile(r"([0-9a-f]{16})\.([0-9]{1,15})\.([0-9]{1,19})")
_KEY: Final = "changes"
"""Of the fact that names this index: another one numbers changes anew."""

_metadata = sa.MetaData()
_table = sa.Table(
    "local_change",
    _metadata,
    sa.Column("project", sa.Text, primary_key=True),
    sa.Column("run", sa.Text, primary_key=True),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("gone", sa.SmallInteger, nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False, index=True),
)
_change, _run = _table.c, schema.run.c
_same: Final = sa.and_(_change.project == _run.project, _change.run == _run.name)
_NOTE: Final = Upsert(
    _table, tuple(one.name for one in _table.columns), ("project", "run"), overwrite=True
)
_GONE: Final = (
    sa.select(_change.project, _change.run)
    .select_from(_table.outerjoin(schema.run, _same))
    .where(_run.id.is_(None), _change.gone == 0)
)
_LAST: Final = sa.select(sa.func.coalesce(sa.func.max(_change.number), 0))
_SINCE: Final = (
    sa.select(_change.project, _change.run, _change.state, _change.gone)
    .where(_change.number > sa.bindparam("since"))
    .order_by(_change.number, _change.project, _change.run)
)
_NAME: Final = sa.select(schema.meta.c.value).where(schema.meta.c.key == _KEY)


def changes_since(
    store: Store, cursor: str, project: str | None, now_ns: int, looked_ns: int
) -> Changes:
    """Return the changes of folded runs since a cursor, empty to begin; times in ns."""
    name = _name(store)
    database = store.database
    with database.reading() as connection:
        new = _news(store, connection, now_ns)
    if new:  # in one transaction: another process may ask at the same time
        with database.writing() as connection:
            new = _news(store, connection, now_ns)
            number = int(database.query(connection, _LAST)[0][0]) + 1
            database.run_many(connection, _NOTE, [(*one, number) for one in new])
    given = _CURSOR.fullmatch(cursor)
    with database.reading() as connection:
        number = int(database.query(connection, _LAST)[0][0])
        upto = f"{name}.{number}.{now_ns}"
        if given is None or given[1] != name or int(given[2]) > number:
            return Changes(upto, reset=True, runs=[], looked_ns=looked_ns)
        rows = database.rows(connection, _SINCE, since=int(given[2]))
        rows = [row for row in rows if project is None or is_inside(row[0], project)]
        there = [(parent, run) for parent, run, _, gone in rows if not gone]
        paths = recent_paths(store, connection, there, min(int(given[3]), now_ns))
    runs = [
        ChangedRun(parent, run, None if gone else state, bool(gone), paths.get((parent, run), []))
        for parent, run, state, gone in rows
    ]
    return Changes(upto, reset=False, runs=runs, looked_ns=looked_ns)


def _name(store: Store) -> str:
    # The table is made with the name.
    database = store.database
    with database.reading() as connection:
        rows = database.query(connection, _NAME)
    if rows:
        return str(rows[0][0])
    database.create_tables(_metadata)
    fact = Upsert(schema.meta, ("key", "value"), ("key",))
    with database.writing() as connection:
        database.run_many(connection, fact, [(_KEY, secrets.token_hex(8))])
    with database.reading() as connection:
        return str(database.query(connection, _NAME)[0][0])


def _news(store: Store, connection: sa.Connection, now_ns: int) -> list[tuple[Any, ...]]:
    state = state_column(store, connection, now_ns)
    changed = (
        sa.select(_run.project, _run.name, _run.version, state, sa.literal(0))
        .select_from(schema.run.outerjoin(_table, _same))
        .where(
            sa.or_(
                _change.run.is_(None),
                _change.version != _run.version,
                _change.state != state,
                _change.gone == 1,
            )
        )
    )
    found = [tuple(row) for row in store.database.query(connection, changed)]
    gone = store.database.query(connection, _GONE)
    return [*found, *((project, run, 0, "", 1) for project, run in gone)]
