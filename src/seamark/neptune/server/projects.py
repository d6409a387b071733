"""Keys of projects, and the numbers of the runs in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from seamark.neptune.server.names import Container, key_of_project
from seamark.neptune.server.waiting import wait_in
from seamark.paths import home_of
from seamark.server.access import Identity
from seamark.server.accounts import tables
from seamark.server.answering import may_read
from seamark.server.kept.tables import runs as kept_runs
from seamark.store import schema
from seamark.store.database import Conflict, Upsert, can_hold

if TYPE_CHECKING:
    from seamark.server.state import Server

__all__ = [
    "all_projects",
    "choose_key",
    "find_run",
    "forget_key",
    "holds_something",
    "is_project",
    "key_of",
    "last_number",
    "next_id",
    "trashed_runs",
]

_project = tables.neptune_project.c
_TRIES: Final = 50
_KEY: Final = sa.select(_project.key).where(_project.path == sa.bindparam("at"))
_LAST: Final = sa.select(_project.key, _project.last).where(_project.path == sa.bindparam("at"))
_NEW: Final = Upsert(tables.neptune_project, ("path", "key", "last"), ("path",))
_NEXT: Final = (
    sa.update(tables.neptune_project)
    .values(last=_project.last + 1)
    .where(_project.path == sa.bindparam("at"))
)
_run = schema.run.c
_FIND: Final = sa.select(_run.name).where(
    _run.project == sa.bindparam("project"), _run.sys_id == sa.bindparam("sys_id")
)
_NUMBERED: Final = sa.select(_run.sys_id).where(
    _run.project == sa.bindparam("project"), _run.sys_id != ""
)


def key_of(server: Server, project: str) -> str:
    """Return what the ids of runs in a project begin with."""
    database = server.databases.account
    with database.reading() as connection:
        rows = database.rows(connection, _KEY, at=project)
    return str(rows[0][0]) if rows else key_of_project(project)


def choose_key(server: Server, project: str, key: str) -> None:
    """Say what the ids of runs in a new project begin with; a project that has a key keeps it."""
    database = server.databases.account
    with database.writing() as connection:
        database.run(connection, _NEW, path=project, key=key, last=0)


def forget_key(server: Server, project: str) -> None:
    """Take back what the ids of runs begin with in a project that has none."""
    database, table = server.databases.account, tables.neptune_project
    with database.writing() as connection:
        connection.execute(sa.delete(table).where(table.c.path == project))


def holds_something(server: Server, project: str) -> bool:
    """Return whether a project or one in it has runs, purged ones included."""
    low, high = f"{project}/", f"{project}0"
    found = sa.or_(
        kept_runs.c.project == project,
        sa.and_(kept_runs.c.project > low, kept_runs.c.project < high),
    )
    with server.databases.kept.reading() as connection:
        return (
            connection.execute(sa.select(kept_runs.c.run).where(found).limit(1)).first() is not None
        )


def is_project(server: Server, project: str) -> bool:
    """Return whether a project holds something or somebody said something of it."""
    return (
        holds_something(server, project)
        or server.accounts.is_named(project)
        or project in all_projects(server, Identity(admin=True))
    )


def next_id(server: Server, project: str) -> str:
    """Return an id for the next run of a project; nobody else gets the same.

    The counter may be older than the runs, as after a backup was restored: ids that runs have are
    passed over.
    """
    database = server.databases.account
    for _ in range(_TRIES):
        try:
            with database.writing() as connection:
                if not database.run(connection, _NEXT, at=project):
                    database.run(
                        connection,
                        _NEW,
                        path=project,
                        key=key_of_project(project),
                        last=_greatest(server, project),
                    )
                    database.run(connection, _NEXT, at=project)
                ((key, last),) = database.rows(connection, _LAST, at=project)
        except Conflict:
            continue
        found = f"{key}-{last}"
        if find_run(server, project, found) is None:
            return found
        _skip(server, project)
    msg = "others make runs in the project all the time; send it again"
    raise Conflict(msg)


def _skip(server: Server, project: str) -> None:
    database, table = server.databases.account, tables.neptune_project
    greatest = _greatest(server, project)
    with database.writing() as connection:
        connection.execute(
            sa.update(table)
            .values(last=greatest)
            .where(table.c.path == project, table.c.last < greatest)
        )


def _greatest(server: Server, project: str) -> int:
    database = server.store().database
    with database.reading() as connection:
        rows = database.rows(connection, _NUMBERED, project=project)
    numbers = (sys_id.rpartition("-")[2] for (sys_id,) in rows)
    return max((int(one) for one in numbers if one.isdecimal() and len(one) < 16), default=0)  # noqa: PLR2004


def find_run(server: Server, project: str, sys_id: str) -> Container | None:
    """Return the run that has an id such as ``SAN-1`` in a project; None if none has."""
    if not sys_id or not can_hold(sys_id):
        return None
    database = server.store().database
    with database.reading() as connection:
        rows = database.rows(connection, _FIND, project=project, sys_id=sys_id)
    return Container(project, str(rows[0][0])) if rows else None


def last_number(server: Server, project: str) -> tuple[str, int]:
    """Return what ids begin with in a project, and the number that the last run got."""
    database = server.databases.account
    with database.reading() as connection:
        rows = database.rows(connection, _LAST, at=project)
    return (str(rows[0][0]), int(rows[0][1])) if rows else (key_of_project(project), 0)


def all_projects(server: Server, who: Identity) -> list[str]:
    """Return the projects that somebody may read and the client can name, sorted.

    Those that hold something, that somebody gave a key or said of who may read them.
    """
    account, store = server.databases.account, server.store().database
    with account.reading() as connection:
        found = {row[0] for row in account.rows(connection, _KEYED)}
        found |= {row[0] for row in account.rows(connection, _SAID)}
    with store.reading() as connection:
        found |= {home_of(row[0]) for row in store.rows(connection, _HOLDING)}
    readable = server.accounts.readable(who)
    return sorted(each for each in found if each.count("/") == 1 and may_read(readable, each))


def trashed_runs(server: Server, project: str) -> list[Container]:
    """Return the runs in the trash of a project."""
    wait_in(server, project)
    database = server.store().database
    with database.reading() as connection:
        rows = database.rows(connection, _TRASHED, project=project)
    return [Container(project, str(name)) for (name,) in rows]


_KEYED: Final = sa.select(_project.path)
_SAID: Final = sa.select(tables.project.c.path)
_HOLDING: Final = sa.select(_run.project).distinct()
_TRASHED: Final = sa.select(_run.name).where(
    _run.project == sa.bindparam("project"), _run.trashed == 1
)
