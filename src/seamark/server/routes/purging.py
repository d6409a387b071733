"""Removing runs for good, and telling what was removed."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request

from seamark.errors import PathError
from seamark.paths import check_name
from seamark.server.access import Role
from seamark.server.failures import Refusal
from seamark.server.guard import expect, server_of
from seamark.server.purging import is_purged, purge

__all__ = ["router"]

router: Final = APIRouter(tags=["runs"])


@router.delete("/runs/{project:path}/{run}", operation_id="purgeRun")
def purge_run(request: Request, project: str, run: str) -> dict[str, str]:
    """Remove a run for good, with the files that no other run of its project refers to.

    What was sent of it is never taken again (410). Copies elsewhere stay.
    """
    who = expect(request, project, Role.OWNER)
    server = server_of(request)
    try:
        check_name(run, "run id")
    except PathError as error:
        raise _unknown(project, run) from error
    account = server.databases.account
    if not server.kept.journals(project, run) and not is_purged(account, project, run):
        raise _unknown(project, run)
    purge(
        account,
        server.kept,
        server.store(),
        project,
        run,
        who=who.name,
        now_ns=server.now_ns(),
        blobs=server.blobs.forget_run,
    )
    server.accounts.note(
        who, "run.purge", f"{project}/{run}", address=request.client.host if request.client else ""
    )
    return {"project": project, "run": run}


def _unknown(project: str, run: str) -> Refusal:
    return Refusal(404, "not-found", f"run {run[:200]!r} is not there in {project[:200]!r}")
