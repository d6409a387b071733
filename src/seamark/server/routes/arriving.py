"""Asking under which name a run may come; see `seamark.reading.arriving`."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from seamark.errors import PathError
from seamark.paths import check_name, check_place, check_project, home_of, kind_of
from seamark.reading.arriving import Arrival
from seamark.server.access import Role
from seamark.server.arriving import arrive, arrive_artifact
from seamark.server.failures import FAILURES, Refusal
from seamark.server.guard import expect, server_of

__all__ = ["router"]

router: Final = APIRouter(tags=["runs"])

_Short = Annotated[str, Field(min_length=1, max_length=1024)]
_MOST_VERSIONS: Final = 10_000


class _NameBody(BaseModel):
    """Run that is about to begin, and what to do if another one has its name."""

    model_config = ConfigDict(extra="forbid")

    project: _Short
    run: _Short
    name: Annotated[str, Field(max_length=16 << 10)] | None = None
    conflict: Literal["new", "skip", "error", "replace"] = "new"
    make_project: bool = True
    versions: Annotated[list[_Short], Field(max_length=_MOST_VERSIONS)] = []


@router.post("/arrivals", operation_id="arrive", responses=FAILURES)
def resolve_name(request: Request, body: _NameBody) -> Arrival:
    """Say what becomes of a run, or of a version of an artifact, that is to come.

    Its name is taken if it goes. ``versions`` are those of the artifact where it comes from.
    """
    project, run, is_artifact = body.project, body.run, False
    try:
        if is_artifact := kind_of(project, run) == "artifact":
            check_place(project, run)
        else:
            project, run = check_project(project), check_name(run, "run id")
    except PathError as error:
        raise Refusal(422, "not-a-name", str(error)) from error
    expect(request, home_of(project), Role.CONTRIBUTOR)
    server, make = server_of(request), body.make_project
    if is_artifact:
        versions = (run, *body.versions)
        found = arrive_artifact(server, project, versions, body.conflict, make_project=make)
    else:
        found = arrive(server, project, run, body.name, body.conflict, make_project=make)
    return found
