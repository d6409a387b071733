"""Routes for projects, runs and models: search, creation and writing."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from seamark.errors import SeamarkError
from seamark.journal.folder import hashed_run_id, mint_run_id
from seamark.neptune.server.answers import (
    ContainerNotFound,
    Given,
    Routes,
    answer,
    field,
)
from seamark.neptune.server.operations import Changes
from seamark.neptune.server.projects import (
    API_KINDS,
    Container,
    all_projects,
    container_id,
    find_model,
    find_run,
    key_of,
    last_number,
    new_model,
    new_version,
    next_id,
    parse_container_id,
    shown_id,
    split_project,
    wait_in,
)
from seamark.neptune.server.reading import ContainerReader, system_attributes
from seamark.paths import PROJECT_LOG
from seamark.server.access import Role
from seamark.server.failures import Refusal
from seamark.server.guard import asker, expect, expect_somebody, received, server_of
from seamark.values import encode_atom

if TYPE_CHECKING:
    from seamark.neptune.server.log import Batch, Log
    from seamark.server.state import Server


router: Final = Routes()
_SMALL_BODY: Final = 256 << 10
_SMALL_BODY_DIGITS: Final = len(str(_SMALL_BODY))
"""Number of digits of `_SMALL_BODY`, the largest request read before the client's role is known."""
_DIGEST_BYTES: Final = 16
_NEW_RUN_TIMEOUT_S: Final = 10.0
_MAX_PROJECTS: Final = 1000

Text = Annotated[str, Query(max_length=8192)]
ProjectId = Annotated[str, Query(alias="projectIdentifier", max_length=8192)]
RunId = Annotated[str, Query(alias="experimentId", max_length=8192)]


# ---------------------------------------------------------------------- lookup by id


def find_container(request: Request, identifier: str, role: Role) -> Container:
    """Return the container with an id; the requester needs a minimum role in its project.

    The id is made by `container_id`, or is ``workspace/project/SAN-1``. Instead of ``SAN-1``, the
    latter may have Seamark's id of a run, ``SAN-KEY`` for a model, or ``SAN-KEY-1`` for a version
    of it. The request is refused with 404 if the container does not exist or may not be seen, and
    with 403 if the role is insufficient.
    """
    found = parse_container_id(identifier)
    if found is None:
        project, _, sys_id = identifier.rpartition("/")
        found = Container(project, sys_id)
    try:
        expect(request, found.project, role)
    except Refusal as error:
        if error.status_code == 404:  # noqa: PLR2004 - a status
            raise ContainerNotFound(identifier) from error
        raise
    if "/" in identifier:
        return _find_by_sys_id(server_of(request), found, identifier)
    return found


def _find_by_sys_id(server: Server, asked: Container, identifier: str) -> Container:
    if asked.run == key_of(server, asked.project):
        return Container(asked.project, PROJECT_LOG)
    if asked.run.startswith("."):
        raise ContainerNotFound(identifier)
    found = find_run(server, asked.project, asked.run)
    if found is None:
        with contextlib.suppress(SeamarkError, Refusal):  # not a valid run id, or purged
            if server.intake.known(*asked)[0]:
                return asked
        key, _, digits = asked.run.rpartition("-")
        given, last = last_number(server, asked.project)
        if key == given and digits.isdecimal() and int(digits[:18]) <= last:
            # Wait for a run that was created just now.
            wait_in(server, asked.project, _NEW_RUN_TIMEOUT_S)
            found = find_run(server, asked.project, asked.run)
    found = found or find_model(server, asked.project, asked.run)
    if found is None:
        raise ContainerNotFound(identifier)
    return found


def project_of(request: Request, identifier: str, role: Role) -> str:
    """Return the project with an id or a name; the requester needs a role in it."""
    found = parse_container_id(identifier)
    project = found.home if found is not None else identifier
    expect(request, project, role)
    return project


def log_of(request: Request, container: Container) -> Log:
    """Return the writer of a run."""
    found: Log = request.app.state.neptune_logs.of(container)
    return found


def read_of(request: Request, identifier: str) -> ContainerReader:
    """Return the reader of the container with an id; the requester must be allowed to read it."""
    return ContainerReader(server_of(request), find_container(request, identifier, Role.VIEWER))


# ---------------------------------------------------------------------- projects


def shown_project(server: Server, project: str) -> dict[str, Any]:
    """Return a project in the client's format."""
    workspace, name = split_project(project)
    return {
        "id": container_id(Container(project, PROJECT_LOG)),
        "name": name,
        "organizationName": workspace,
        "organizationId": workspace,
        "projectKey": key_of(server, project),
        "version": 2,
    }


@router.answers("getProject")
def get_project(request: Request, project_id: ProjectId) -> Response:
    """Return a project.

    A user who may record at a path gets a project there even if it has no runs yet, because
    projects begin with their first run.
    """
    project = project_of(request, project_id, Role.VIEWER)
    server = server_of(request)
    if project.count("/") != 1:
        raise Refusal(404, "no-project", "the client supports only projects named workspace/name")
    role = server.accounts.role(asker(request), project)
    may_record = role is not None and role >= Role.CONTRIBUTOR
    if not may_record and project not in all_projects(server, asker(request)):
        raise Refusal(404, "no-project", f"project {project[:200]!r} does not exist")
    return answer(shown_project(server, project))


@router.answers("listProjects")
def list_projects(
    request: Request,
    organizationIdentifier: Text = "",  # noqa: N803 - theirs
    searchTerm: Text = "",  # noqa: N803 - theirs
    userRelation: Text = "",  # noqa: N803 - theirs
    limit: Annotated[int, Query(ge=0)] = _MAX_PROJECTS,
    offset: Annotated[int, Query(ge=0)] = 0,
) -> Response:
    """Return the projects that the requester may read or record in."""
    who, server = expect_somebody(request), server_of(request)
    found = []
    for project in all_projects(server, who):
        workspace, name = split_project(project)
        if organizationIdentifier and workspace != organizationIdentifier:
            continue
        if searchTerm.lower() not in name.lower():
            continue
        role = server.accounts.role(who, project)
        if role is None or (userRelation == "memberOrHigher" and role < Role.CONTRIBUTOR):
            continue
        found.append(project)
    entries = [shown_project(server, each) for each in found[offset : offset + limit]]
    return answer(
        {"entries": entries, "matchingItemCount": len(found), "totalItemCount": len(found)}
    )


@router.answers("listOrganizations")
def list_organizations(request: Request) -> Response:
    """Return the workspaces that the requester may see."""
    return answer([{"id": name, "name": name} for name in sorted(workspaces_of(request))])


def workspaces_of(request: Request) -> set[str]:
    """Return the workspaces in which a user may read data or create projects."""
    who, server = expect_somebody(request), server_of(request)
    found = {split_project(project)[0] for project in all_projects(server, who)}
    found |= {project.partition("/")[0] for project in who.roles if project} | set(who.workspaces)
    if who.admin:  # admins may create projects in empty workspaces
        found |= server.accounts.workspaces()
    return found


# ---------------------------------------------------------------------- runs and models


@router.answers("createExperiment")
def create(request: Request, given: Given) -> Response:
    """Create a ``run``, ``model`` or ``modelVersion``, or return the existing run of the custom id.

    ``customId`` is the id that the client chose for a run, ``parentId`` that of a version's model.
    """
    kind = field(given, "type") or "run"
    project = project_of(request, field(given, "projectIdentifier") or "", Role.CONTRIBUTOR)
    if kind not in _MAKERS:
        raise Refusal(
            400, "not-here", f"Neptune's client cannot create {kind!r:.60} on this server"
        )
    return _MAKERS[kind](request, project, given)


def _make_run(request: Request, project: str, given: Given) -> Response:
    server = server_of(request)
    custom = field(given, "customId") or ""
    run = hashed_run_id(project, custom) if custom else mint_run_id()
    container = Container(project, run)
    if custom and server.intake.known(*container)[0]:
        return answer(_describe(server, container))
    sys_id = next_id(server, project)
    who = asker(request)

    values: dict[str, Any] = {"sys/custom_run_id": custom} if custom else {}
    git = field(given, "gitInfo", dict) or {}
    if isinstance(git.get("commit"), dict):
        values["source_code/git"] = git
    fill = _make_fill(values, {"op": "state", "state": "running"})
    facts = {"sys_id": sys_id, "silence": "ended", "user": who.name, "attempt": 0}
    made = log_of(request, container).create(facts, fill)
    return answer(_describe(server, container, sys_id if made else ""))


def _make_model(request: Request, project: str, given: Given) -> Response:
    server = server_of(request)
    model, first_attributes = new_model(server, project, field(given, "key"))
    if not _create_log(request, model, first_attributes):
        raise Refusal(409, "taken", f"the project already has a model {model.run!r}")
    return answer(_describe(server, model))


def _make_version(request: Request, project: str, given: Given) -> Response:
    server, parent = server_of(request), field(given, "parentId") or ""
    model = find_container(request, parent, Role.CONTRIBUTOR)
    if model.kind != "model" or not server.intake.known(*model)[0]:
        raise ContainerNotFound(parent)
    if model.home != project:
        raise Refusal(400, "invalid", "the model belongs to another project")
    version, first_attributes = new_version(server, model)
    _create_log(request, version, first_attributes)
    return answer(
        _describe(server, version, shown_id(server, version, first_attributes["sys/version"]))
    )


def _create_log(
    request: Request, container: Container, first_attributes: Mapping[str, Any]
) -> bool:
    facts = {"user": asker(request).name, "attempt": None, "owner": False}
    return log_of(request, container).create(facts, _make_fill(first_attributes))


def _make_fill(values: Mapping[str, Any], *ops: Mapping[str, Any]) -> Callable[[Batch], None]:
    """Return a function that writes operations and values to a new journal."""
    atoms = {path: encode_atom(value) for path, value in values.items()}

    def fill(batch: Batch) -> None:
        for op in ops:
            batch.op(op)
        batch.assign(atoms)
        batch.kinds.update({path: f"atom:{atom.type}" for path, atom in atoms.items()})

    return fill


_MAKERS: Final[dict[Any, Callable[[Request, str, Given], Response]]] = {
    "run": _make_run,
    "model": _make_model,
    "modelVersion": _make_version,
}


def _describe(server: Server, container: Container, sys_id: str = "") -> dict[str, Any]:
    workspace, name = split_project(container.home)
    trashed = False
    if container.is_project:
        sys_id = key_of(server, container.project)
    elif not sys_id:
        sys_id, trashed, _, _ = ContainerReader(server, container).row
        if container.kind != "run":
            sys_id = shown_id(server, container)
    return {
        "id": container_id(container),
        "type": API_KINDS[container.kind],
        "shortId": sys_id or container.run,
        "organizationName": workspace,
        "organizationId": workspace,
        "projectName": name,
        "trashed": trashed,
    }


@router.answers("getExperiment")
def get(request: Request, identifier: RunId) -> Response:
    """Return the description of a run, a project, a model or a version."""
    container = find_container(request, identifier, Role.VIEWER)
    server = server_of(request)
    if not container.is_project and not server.intake.known(*container)[0]:
        raise ContainerNotFound(identifier)
    return answer(_describe(server, container))


@router.answers("ping")
def ping(request: Request, identifier: RunId) -> Response:
    """Record a heartbeat of the client."""
    container = find_container(request, identifier, Role.CONTRIBUTOR)
    if container.kind == "run":
        log_of(request, container).beat()
    elif not container.is_project and not server_of(request).intake.known(*container)[0]:
        raise ContainerNotFound(identifier)
    return answer()


@router.answers("executeOperations")
async def execute(request: Request, identifier: RunId) -> Response:
    """Apply operations of the client; they are durable when this returns."""
    arrived_ns = server_of(request).now_ns()
    length = request.headers.get("content-length", "")
    with server_of(request).intake.counting_bytes() as arriving:
        known = length.isdecimal() and len(length) <= _SMALL_BODY_DIGITS
        if not known or int(length) > _SMALL_BODY:  # otherwise one thread does everything
            await run_in_threadpool(find_container, request, identifier, Role.CONTRIBUTOR)
        body = await received(request, arriving)
        return await run_in_threadpool(_execute, request, identifier, body, arrived_ns)


def _execute(request: Request, identifier: str, body: bytes, arrived_ns: int) -> Response:
    container = find_container(request, identifier, Role.CONTRIBUTOR)
    try:
        operations = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "invalid", f"the operations are not JSON: {error}") from error
    if not isinstance(operations, list):
        raise Refusal(400, "invalid", "expected a list of operations")
    digest = digest_of(body)
    changes = Changes(server_of(request), container, operations, digest)
    log_of(request, container).write(changes.fill, digest, arrived_ns)
    return answer([{"errorDescription": each} for each in changes.errors])


def digest_of(body: bytes) -> str:
    """Return the digest that identifies a request."""
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).hexdigest()


@router.answers("getExperimentAttributes")
def attributes(request: Request, identifier: RunId) -> Response:
    """Return all attributes of a run."""
    found = read_of(request, identifier).attributes()
    return answer({"attributes": found, "systemAttributes": system_attributes(found)})


@router.answers("createEmptyCheckpoint")
def checkpoint(request: Request) -> Response:
    """Refuse a notebook checkpoint; the client continues without notebooks."""
    expect_somebody(request)
    raise Refusal(404, "not-here", "notebooks are not supported")
