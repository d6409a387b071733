"""Saying under which name a run may come; see `seamark.reading.arriving`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seamark.paths import home_of
from seamark.reading.arriving import Arrival, settle, settle_artifact
from seamark.server.accounts import tables
from seamark.server.accounts.tables import lock_account
from seamark.server.kept import tables as kept
from seamark.store.database import Upsert, retry
from seamark.store.read.names import run_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from seamark.reading.arriving import Conflict
    from seamark.reading.names import RunName
    from seamark.server.state import Server

__all__ = ["arrive", "arrive_artifact"]

_KEEP: Final = Upsert(tables.fact, ("key", "value"), ("key",), overwrite=True)


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
    if not make_project and not _project_exists(server, project):
        return Arrival("no project")
    if name is None:
        return Arrival("go")

    def decide(held: dict[str, Any], known: list[RunName]) -> Arrival:
        return settle(held, known, run, name, conflict, server.now_ns())

    return _decide_alone(server, f"arriving:{project}", (project, "run"), decide)


def arrive_artifact(
    server: Server,
    place: str,
    versions: Sequence[str],
    conflict: Conflict,
    *,
    make_project: bool,
) -> Arrival:
    """Return what becomes of a version of an artifact that is to come.

    Args:
        server: The server.
        place: Of the artifact: ``PROJECT/.artifacts/NAME``.
        versions: As of `settle_artifact`.
        conflict: What to do if another artifact of the project has its name.
        make_project: Whether a project that is not there is made.
    """
    home = home_of(place)
    if not make_project and not _project_exists(server, home):
        return Arrival("no project")

    def decide(held: dict[str, Any], known: list[RunName]) -> Arrival:
        return settle_artifact(held, known, versions, place, conflict, server.now_ns())

    return _decide_alone(server, f"arriving-artifacts:{home}", (place, "artifact"), decide)


def _decide_alone(
    server: Server,
    key: str,
    among: tuple[str, str],
    decide: Callable[[dict[str, Any], list[RunName]], Arrival],
) -> Arrival:
    """Let something be decided in a transaction, one after the other, whichever worker is asked.

    Args:
        server: The server.
        key: Of what was taken so far.
        among: Project or place, and kind, of what decides.
        decide: Decides, given what was taken and what is there.
    """
    store, account, (place, kind) = server.store(), server.databases.account, among

    def resolve() -> Arrival:
        with account.writing() as connection:
            lock_account(connection)
            was = connection.scalar(sa.select(tables.fact.c.value).where(tables.fact.c.key == key))
            held = json.loads(was or "{}")
            # After the lock: whoever had it before has said by then what comes.
            with store.database.reading() as reading:
                known = run_names(store, reading, lambda one: one == place, kind)
            found = decide(held, known)
            account.run(connection, _KEEP, key=key, value=json.dumps(held))
            return found

    return retry(resolve)


def _project_exists(server: Server, project: str) -> bool:
    """Return whether a project was made, or anything of it was sent."""
    made = sa.select(tables.project.c.path).where(tables.project.c.path == project)
    with server.databases.account.reading() as connection:
        if connection.execute(made).first() is not None:
            return True
    sent = sa.select(kept.runs.c.number).where(kept.runs.c.project == project).limit(1)
    with server.databases.kept.reading() as connection:
        return connection.execute(sent).first() is not None
