"""Routes for edits and claims of runs, and for their permanent removal.

An edit is written to a journal of the server, and is newer than all records of the run. State,
times and owner are derived and cannot be edited.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field, model_validator

from seamark.errors import PathError, SeamarkError
from seamark.paths import PROJECT_LOG, check_name
from seamark.server.access import Identity, Role
from seamark.server.answering import Several, several
from seamark.server.failures import FAILURES, Refusal, refusal_of
from seamark.server.guard import Body, asker, expect, note, server_of
from seamark.server.purging import Claim, is_purged, purge
from seamark.values import encode_atom

router: Final = APIRouter(tags=["runs"])
server_router: Final = APIRouter(tags=["runs"])
"""Routes of servers only; the page of local folders has no claims and never purges."""
_MAX_REFS: Final = 1000
_MAX_INT64: Final = (1 << 63) - 1
Kind = Literal["run", "group"]
Key = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
Name = Annotated[str, Field(max_length=200)]
Count = Annotated[int, Field(ge=0, le=_MAX_INT64)]


class _Claimant(Body):
    """Description of the claiming process, with a random key for releasing the claim."""

    user: Name | None = None
    host: Name
    boot: Name | None = None
    pid: Count
    start: Count | None = None
    pid_namespace: Count | None = None
    key: Key
    t: Count


class _TakeBody(Body):
    """Runs or groups to claim, in order of preference, and the claimant."""

    refs: Annotated[list[Ref], Field(max_length=_MAX_REFS)]
    kind: Kind = "run"
    claimant: _Claimant


class _ClaimBody(Body):
    """Existing claim."""

    project: Text
    name: Text
    kind: Kind = "run"
    number: Annotated[int, Field(ge=1, le=_MAX_INT64)]
    key: Key


class _Held(BaseModel):
    """Flag whether a claim is (or was) the newest one and belongs to the requester."""

    held: bool


@server_router.post("/runs/claims", operation_id="claimRun", responses=FAILURES)
def take(every: All, body: _TakeBody) -> Claim:
    """Claim the first free run or group of some to which the requester may write.

    A claim ends when it is released, or when the claimant has sent nothing for 90 s.
    """
    who, role = asker(every.request), every.server.accounts.role
    refs = [ref for ref in body.refs if (role(who, ref[0]) or 0) >= Role.CONTRIBUTOR]
    if body.refs and not refs:
        raise Refusal(
            403, "role-too-small", f"the role contributor is required in {body.refs[0][0][:200]}"
        )
    return server_of(every.request).claims.take(refs, body.kind, body.claimant.model_dump())


@server_router.post("/runs/claims/held", operation_id="holdsClaim", responses=FAILURES)
def held(every: All, body: _ClaimBody) -> _Held:
    """Return whether a claim is the newest one and was not released."""
    expect(every.request, body.project, Role.CONTRIBUTOR)
    claims, ref = server_of(every.request).claims, (body.project, body.name)
    return _Held(held=claims.holds(ref, body.kind, body.number, body.key))


@server_router.post("/runs/claims/release", operation_id="releaseClaim", responses=FAILURES)
def release(every: All, body: _ClaimBody) -> _Held:
    """Release a claim; ``held`` tells whether it was the newest one and the requester's."""
    expect(every.request, body.project, Role.CONTRIBUTOR)
    claims, ref = server_of(every.request).claims, (body.project, body.name)
    return _Held(held=claims.release(ref, body.kind, body.number, body.key))


_MAX_RUNS: Final = 200
_RECORDS_AT_ONCE: Final = 16
"""Maximum number of records that are made durable together."""
_NAME: Final = "sys/name"
_DESCRIPTION: Final = "sys/description"
_TAGS: Final = "sys/tags"
_TRASHED: Final = "sys/trashed"
All = Annotated[Several, Depends(several)]
Text = Annotated[str, Field(max_length=4096)]
Ref = tuple[Text, Text]
Tags = Annotated[list[Annotated[str, Field(min_length=1, max_length=1000)]], Field(max_length=100)]


class _EditBody(Body):
    """Runs to edit, and the changes; missing fields do not change.

    A null name or description is removed. ``description_was`` is the expected current description;
    null for none.
    """

    refs: Annotated[list[Ref], Field(min_length=1, max_length=_MAX_RUNS)]
    name: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    description: Annotated[str, Field(max_length=16 << 10)] | None = None
    description_was: str | None = None
    add_tags: Tags = []
    remove_tags: Tags = []
    trashed: bool | None = None

    @model_validator(mode="after")
    def _check_ops(self) -> _EditBody:
        if not self.ops():
            raise ValueError(
                "expected at least one change: name, description, add_tags, remove_tags, trashed"
            )
        return self

    def ops(self) -> list[dict[str, Any]]:
        atoms: dict[str, Any] = {}
        gone = []
        for field, path in (("name", _NAME), ("description", _DESCRIPTION)):
            if field in self.model_fields_set:
                value = getattr(self, field)
                if value is None:
                    gone.append(path)
                else:
                    atoms[path] = list(encode_atom(value))
        if self.trashed is not None:
            atoms[_TRASHED] = list(encode_atom(self.trashed))
        ops: list[dict[str, Any]] = [{"op": "assign", "atoms": atoms}] if atoms else []
        if gone:
            ops.append({"op": "delete", "paths": gone})
        for op, tags in (("add", self.add_tags), ("remove", self.remove_tags)):
            if tags:
                values = [encode_atom(tag).value for tag in dict.fromkeys(tags)]
                ops.append({"op": op, "path": _TAGS, "values": values})
        return ops


class _EditedRun(BaseModel):
    """Result for one run; the edit is visible from ``position`` on.

    If the run was not edited, ``error`` is a short code of the reason and ``hint`` an explanation.
    """

    project: str
    run: str
    ok: bool = True
    error: str | None = None
    hint: str | None = None
    position: int | None = None


class _Edited(BaseModel):
    """Results of an edit by run."""

    runs: list[_EditedRun]


@router.patch(
    "/runs",
    operation_id="editRuns",
    responses={409: {"description": "The description was changed meanwhile."}, **FAILURES},
)
def edit(every: All, body: _EditBody) -> _Edited:
    """Change name, description, tags or trash state of runs; return a result for each run.

    If a single run is given and cannot be edited, the response is an error: 403, 404, or 409 with
    ``description`` if it differs from ``description_was``.
    """
    if every.server.read_only:
        raise Refusal(403, "read-only", every.server.read_only)
    who = asker(every.request)
    refs = list(dict.fromkeys(body.refs))
    with ThreadPoolExecutor(_RECORDS_AT_ONCE, thread_name_prefix="seamark-edit") as pool:
        found = list(pool.map(partial(_edit_run, every, who, body), refs))
    if len(found) == 1 and isinstance(found[0], Refusal):
        raise found[0]
    return _Edited(runs=[_edit_result(ref, one) for ref, one in zip(refs, found, strict=True)])


def _edit_run(every: Several, who: Identity, body: _EditBody, ref: Ref) -> int | Refusal:
    project, run = ref
    try:
        role = every.server.accounts.role(who, project)
        if role is None:
            return Refusal(404, "not-found", f"run {run!r:.200} does not exist or is not visible")
        if role < Role.CONTRIBUTOR:
            hint = f"the role contributor is required in {project}"
            return Refusal(403, "role-too-small", hint)
        if run == PROJECT_LOG and not {"name", "trashed"}.isdisjoint(body.model_fields_set):
            hint = f"{project} is a project: only its description and tags can be edited"
            return Refusal(422, "invalid", hint)
        now = every.server.reader(project, run).attribute(_DESCRIPTION)
        is_text = now is not None and isinstance(now.value, str)
        shown = now.value if now is not None and is_text else None
        if "description" in body.model_fields_set and shown != body.description_was:
            hint = "the description was changed meanwhile: read it, and send it as description_was"
            return Refusal(409, "changed", hint, description=shown)
        position: int = every.server.writer.record(project, run, body.ops())
    except (SeamarkError, Refusal) as error:
        return refusal_of(error)
    return position


def _edit_result(ref: Ref, found: int | Refusal) -> _EditedRun:
    project, run = ref
    if isinstance(found, Refusal):
        hint = str(found.detail)
        return _EditedRun(project=project, run=run, ok=False, error=found.error, hint=hint)
    return _EditedRun(project=project, run=run, position=found)


@server_router.delete("/runs/{project:path}/{run}", operation_id="purgeRun")
def purge_run(request: Request, project: str, run: str) -> dict[str, str]:
    """Remove a run permanently, with the files that no other run of its project uses.

    Its data is never accepted again (410). Copies outside the server stay.
    """
    who = expect(request, project, Role.OWNER)
    server = server_of(request)
    try:
        check_name(run, "run id")
    except PathError as error:
        raise _unknown_run(project, run) from error
    account = server.databases.account
    if not server.kept.journals(project, run) and not is_purged(account, project, run):
        raise _unknown_run(project, run)
    purge(
        account,
        server.kept,
        server.store(),
        project,
        run,
        who=who.name,
        now_ns=server.now_ns(),
    )
    note(request, who, "run.purge", f"{project}/{run}")
    return {"project": project, "run": run}


def _unknown_run(project: str, run: str) -> Refusal:
    return Refusal(404, "not-found", f"run {run[:200]!r} does not exist in {project[:200]!r}")
