"""Saying under which name a run may come; see `seamark.reading.arriving`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from seamark.reading.arriving import Arrival, settle
from seamark.server.accounts import tables
from seamark.server.held import settled
from seamark.server.kept import tables as kept
from seamark.store.read.names import run_names

if TYPE_CHECKING:
    from seamark.reading.arriving import Conflict
    from seamark.server.state import Server

__all__ = ["arrive"]


def arrive(
    server: Server,
    project: str,
    run: str,
    name: str | None,
    conflict: Conflict,
    *,
    make_project: bool,
) -> Arrival:
    """Return what becomes of a run that is to come; its name is taken if it goes.

    Args:
        server: The server.
        project: Project path.
        run: Run id.
        name: Its name; None if it has none.
        conflict: What to do if another run of the project has it.
        make_project: Whether a project that is not there is made.
    """
    if not make_project and not _is_there(server, project):
        return Arrival("no project")
    if name is None:
        return Arrival("go")
    store = server.store()

    def settled_with(held: dict[str, Any]) -> Arrival:
        # After the lock: whoever had it before has said by then what comes.
        with store.database.reading() as reading:
            known = run_names(store, reading, lambda one: one == project, "run")
        return settle(held, known, run, name, conflict, server.now_ns())

    return settled(server.databases.account, f"arriving:{project}", settled_with)


def _is_there(server: Server, project: str) -> bool:
    """Return whether a project was made, or anything of it was sent."""
    made = sa.select(tables.project.c.path).where(tables.project.c.path == project)
    with server.databases.account.reading() as connection:
        if connection.execute(made).first() is not None:
            return True
    sent = sa.select(kept.runs.c.number).where(kept.runs.c.project == project).limit(1)
    with server.databases.kept.reading() as connection:
        return connection.execute(sent).first() is not None
