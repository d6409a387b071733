"""Asking under which name a run may come; see `seamark.reading.arriving`."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from seamark.errors import PathError
from seamark.paths import check_name, check_project
from seamark.server.access import Role
from seamark.server.arriving import arrive
from seamark.server.failures import Refusal
from seamark.server.guard import expect, server_of
from seamark.server.models import answers

__all__ = ["router"]

router: Final = APIRouter(tags=["runs"])

_Short = Annotated[str, Field(min_length=1, max_length=1024)]


class _ArrivalBody(BaseModel):
    """Which run is to come, and what to do where another one has its name."""

    model_config = ConfigDict(extra="forbid")

    project: _Short
    run: _Short
    name: Annotated[str, Field(max_length=16 << 10)] | None = None
    conflict: Literal["new", "skip", "error", "replace"] = "new"
    make_project: bool = True


@router.post("/arrivals", operation_id="arrive", responses=answers("arrival"))
def arriving(request: Request, body: _ArrivalBody) -> dict[str, Any]:
    """Say what becomes of a run that is to come, and take its name if it goes."""
    try:
        project, run = check_project(body.project), check_name(body.run, "run id")
    except PathError as error:
        raise Refusal(422, "not-a-name", str(error)) from error
    expect(request, project, Role.CONTRIBUTOR)
    found = arrive(
        server_of(request), project, run, body.name, body.conflict, make_project=body.make_project
    )
    return {"outcome": found.outcome, "name": found.name, "others": list(found.others)}
