"""Claiming runs and groups: of many workers one gets each; see `seamark.server.claims`."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from seamark.server.access import Role
from seamark.server.failures import FAILURES, Refusal
from seamark.server.guard import asker, expect, server_of
from seamark.server.routes.edits import All, Ref, Text

__all__ = ["router"]

router: Final = APIRouter(tags=["runs"])
_MOST: Final = 1000
_LAST: Final = (1 << 63) - 1

Kind = Literal["run", "group"]
Key = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
Name = Annotated[str, Field(max_length=200)]
Count = Annotated[int, Field(ge=0, le=_LAST)]


class _Claimant(BaseModel):
    """Description of the process that makes a claim; see the HEADER of a journal.

    Attributes:
        key: Random key that is required to release the claim.
        t: Time of the request, ns since the Unix epoch.
    """

    model_config = ConfigDict(extra="forbid")

    user: Name | None = None
    host: Name
    boot: Name | None = None
    pid: Count
    start: Count | None = None
    pid_namespace: Count | None = None
    key: Key
    t: Count


class _TakeBody(BaseModel):
    """Runs or groups to claim, in order of preference, and the claimant."""

    model_config = ConfigDict(extra="forbid")

    refs: Annotated[list[Ref], Field(max_length=_MOST)]
    kind: Kind = "run"
    claimant: _Claimant


class _ClaimBody(BaseModel):
    """A claim that was made."""

    model_config = ConfigDict(extra="forbid")

    project: Text
    name: Text
    kind: Kind = "run"
    number: Annotated[int, Field(ge=1, le=_LAST)]
    key: Key


class _Claimed(BaseModel):
    """The claim that was made; null for none.

    Attributes:
        ref: Project and id of the run, or name of the group.
        number: Number of this claim of it, 1-based.
        position: Up to where the run is to be read before it is looked at, bytes.
    """

    ref: Ref | None
    number: int | None
    position: int | None


class _Held(BaseModel):
    """Whether a claim is, or was, the newest one and the asker's."""

    held: bool


def _answers(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": model}, **FAILURES}


@router.post("/runs/claims", operation_id="claimRun", responses=_answers(_Claimed))
def take(every: All, body: _TakeBody) -> Response:
    """Claim the first of some runs, or groups, that nobody has and the asker may write to.

    A claim ends when it is released, or when nothing was heard of the claimant for 90 s.
    """
    who, roles = asker(every.request), {}
    for project, _ in body.refs:
        if project not in roles:
            roles[project] = every.server.accounts.role(who, project)
    refs = [ref for ref in body.refs if (roles[ref[0]] or 0) >= Role.CONTRIBUTOR]
    if body.refs and not refs:
        hint = f"this needs the role contributor in {body.refs[0][0][:200]}"
        raise Refusal(403, "role-too-small", hint)
    found = server_of(every.request).claims.take(refs, body.kind, body.claimant.model_dump())
    told: dict[str, Any] = {"ref": None, "number": None, "position": None}
    if found is not None:
        told = {"ref": list(found.ref), "number": found.number, "position": found.position}
    return every.done(told)


@router.post("/runs/claims/held", operation_id="holdsClaim", responses=_answers(_Held))
def held(every: All, body: _ClaimBody) -> Response:
    """Return whether a claim is still the newest, and was not released."""
    expect(every.request, body.project, Role.CONTRIBUTOR)
    ref = (body.project, body.name)
    found = server_of(every.request).claims.holds(ref, body.kind, body.number, body.key)
    return every.done({"held": found})


@router.post("/runs/claims/release", operation_id="releaseClaim", responses=_answers(_Held))
def release(every: All, body: _ClaimBody) -> Response:
    """Give a claim back; ``held`` says whether it was the newest, and the asker's."""
    expect(every.request, body.project, Role.CONTRIBUTOR)
    ref = (body.project, body.name)
    found = server_of(every.request).claims.release(ref, body.kind, body.number, body.key)
    return every.done({"held": found})
