"""Route that decides the name of an arriving run; see `seamark.reading.names`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import sqlalchemy as sa
from fastapi import APIRouter, Request
from pydantic import Field

from seamark.errors import PathError
from seamark.paths import check_name, check_place, check_project, home_of, kind_of
from seamark.reading.names import Arrival, settle, settle_artifact
from seamark.server.access import Role
from seamark.server.accounts import tables
from seamark.server.accounts.tables import lock_account
from seamark.server.failures import FAILURES, Refusal
from seamark.server.guard import Body, expect, server_of
from seamark.server.kept import tables as kept
from seamark.store.database import Upsert, retry
from seamark.store.read.names import run_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from seamark.reading.names import RunName
    from seamark.server.state import Server

__all__ = ["router"]


_KEEP: Final = Upsert(tables.fact, ("key", "value"), ("key",), overwrite=True)


def _decide_alone(
    server: Server,
    key: str,
    among: tuple[str, str],
    decide: Callable[[dict[str, Any], list[RunName]], Arrival],
) -> Arrival:
    # One decision after the other, whichever worker is asked. What was taken so far is kept by
    # `key`.
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
    made = sa.select(tables.project.c.path).where(tables.project.c.path == project)
    with server.databases.account.reading() as connection:
        if connection.execute(made).first() is not None:
            return True
    sent = sa.select(kept.runs.c.number).where(kept.runs.c.project == project).limit(1)
    with server.databases.kept.reading() as connection:
        return connection.execute(sent).first() is not None


router: Final = APIRouter(tags=["runs"])
_Short = Annotated[str, Field(min_length=1, max_length=1024)]
_MOST_VERSIONS: Final = 10_000


class _NameBody(Body):
    """Run that is about to begin, and the policy if another one has its name."""

    project: _Short
    run: _Short
    name: Annotated[str, Field(max_length=16 << 10)] | None = None
    conflict: Literal["new", "skip", "error", "replace"] = "new"
    make_project: bool = True
    versions: Annotated[list[_Short], Field(max_length=_MOST_VERSIONS)] = []


@router.post("/arrivals", operation_id="arrive", responses=FAILURES)
def resolve_name(request: Request, body: _NameBody) -> Arrival:
    """Decide about an arriving run, or an arriving version of an artifact.

    Its name is taken if it goes. ``versions`` are those of the artifact where it comes from.
    """
    project, run, name, server = body.project, body.run, body.name, server_of(request)
    try:
        if is_artifact := kind_of(project, run) == "artifact":
            check_place(project, run)
        else:
            project, run = check_project(project), check_name(run, "run id")
    except PathError as error:
        raise Refusal(422, "not-a-name", str(error)) from error
    home = home_of(project)
    expect(request, home, Role.CONTRIBUTOR)
    if not body.make_project and not _project_exists(server, home):
        return Arrival("no project")
    if is_artifact:
        versions = (run, *body.versions)
        return _decide_alone(
            server,
            f"arriving-artifacts:{home}",
            (project, "artifact"),
            lambda held, known: settle_artifact(
                held, known, versions, project, body.conflict, server.now_ns()
            ),
        )
    if name is None:
        return Arrival("go")
    return _decide_alone(
        server,
        f"arriving:{project}",
        (project, "run"),
        lambda held, known: settle(held, known, run, name, body.conflict, server.now_ns()),
    )
