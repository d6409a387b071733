"""Asking which run of those that are the same goes on; see `seamark.reading.twins`."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from seamark.errors import PathError
from seamark.paths import check_name, check_project
from seamark.server.access import Role
from seamark.server.failures import Refusal
from seamark.server.guard import expect, server_of
from seamark.server.models import answers
from seamark.server.twins import twin

__all__ = ["router"]

router: Final = APIRouter(tags=["runs"])

_Short = Annotated[str, Field(min_length=1, max_length=1024)]


class _TwinBody(BaseModel):
    """Which run is to begin, and the hash of what it is given."""

    model_config = ConfigDict(extra="forbid")

    project: _Short
    run: _Short
    hash: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    take: bool = True


@router.post("/twins", operation_id="twin", responses=answers("twin"))
def twins(request: Request, body: _TwinBody) -> dict[str, Any]:
    """Say which run of those that are the same goes on: another one, or the one that asks."""
    try:
        project, run = check_project(body.project), check_name(body.run, "run id")
    except PathError as error:
        raise Refusal(422, "not-a-name", str(error)) from error
    expect(request, project, Role.CONTRIBUTOR)
    found = twin(server_of(request), project, run, body.hash, take=body.take)
    return {"run": found.run, "number": found.number, "is_there": found.is_there}
