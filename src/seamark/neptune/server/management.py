"""Routes for the client's ``management``: projects, roles and the trash.

The client's names of roles are ``viewer``, ``member`` (contributor) and ``manager`` (owner). A
workspace is the first part of a project path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from shutil import disk_usage
from typing import Annotated, Any, Final

from fastapi import Body, Query, Request, Response

from seamark.errors import PathError, SeamarkError
from seamark.neptune.server.answers import (
    ContainerNotFound,
    Given,
    Routes,
    answer,
    field,
    objects,
)
from seamark.neptune.server.containers import (
    ProjectId,
    Text,
    find_container,
    project_of,
    shown_project,
    workspaces_of,
)
from seamark.neptune.server.projects import (
    Container,
    all_projects,
    choose_key,
    container_id,
    forget_key,
    is_project,
    key_of_project,
    trashed_in,
    versions_of,
    wait_in,
)
from seamark.neptune.server.reading import VISIBILITIES, ContainerReader
from seamark.paths import check_project
from seamark.server.access import Identity, Role
from seamark.server.accounts.accounts import NoSuch
from seamark.server.failures import Refusal, refusal_of
from seamark.server.guard import asker, expect, expect_somebody, note, server_of
from seamark.server.routes.edits import purge_run
from seamark.values import encode_atom, escape

router: Final = Routes()
_ROLES: Final = {"viewer": Role.VIEWER, "member": Role.CONTRIBUTOR, "manager": Role.OWNER}
_ROLE_NAMES: Final = {role: word for word, role in _ROLES.items()}
_VISIBILITIES: Final = {word: name for name, word in VISIBILITIES.items()}
_NON_PUBLIC: Final = _VISIBILITIES.keys() - {"pub"}
_MAX_KEY_CHARACTERS: Final = 10
Identifiers = Annotated[list[str], Body(max_length=10_000)]
Workspace = Annotated[str, Query(alias="organizationIdentifier", max_length=1024)]
User = Annotated[str, Query(alias="userId", max_length=100)]
Service = Annotated[str, Query(alias="serviceAccountId", max_length=100)]


@router.answers("createProject")
def create(request: Request, given: Given) -> Response:
    """Create a project: set its key, visibility (``priv``, ``pub``, ``workspace``) and owner."""
    workspace, name = field(given, "organizationId") or "", field(given, "name") or ""
    who = _expect_maker(request, workspace)
    project, server = f"{workspace}/{name}", server_of(request)
    try:
        check_project(project)
    except PathError as error:
        raise _invalid("err-invalid-name", str(error)) from error
    if project.count("/") != 1:
        raise _invalid("err-invalid-name", "the client supports only projects named workspace/name")
    visibility = field(given, "visibility") or "priv"
    allowed = sorted(_VISIBILITIES if server.accounts.may_publish(who, project) else _NON_PUBLIC)
    if visibility not in allowed:
        reason = f"expected one of {', '.join(allowed)}, got {visibility!r:.60}"
        reason += "; only owners of a workspace may make a project public"
        raise Refusal(
            422,
            "visibility-restricted",
            reason,
            requestedValue=visibility,
            allowedValues=allowed,
        )
    if is_project(server, project):
        raise _invalid("err-not-unique", "the project exists")
    key = field(given, "projectKey") or key_of_project(project)
    if not (
        key.isascii() and key.isalnum() and key == key.upper() and len(key) <= _MAX_KEY_CHARACTERS
    ):
        raise Refusal(
            422,
            "project-key-invalid",
            f"expected up to {_MAX_KEY_CHARACTERS} letters A-Z and digits",
            key=key,
        )
    choose_key(server, project, key)
    server.accounts.set_visibility(project, _VISIBILITIES[visibility], by=who.name)
    if server.accounts.has_user(who.name):
        server.accounts.set_member(who.name, project, Role.OWNER)
    note(request, asker(request), "project.create", project, visibility=visibility)
    return answer(shown_project(server, project))


@router.answers("deleteProject")
def delete(request: Request, project_id: ProjectId) -> Response:
    """Delete a project without runs; the runs of other projects must be purged first."""
    project, server = project_of(request, project_id, Role.OWNER), server_of(request)
    if project.count("/") != 1 or server.has_runs(project):
        raise Refusal(
            400,
            "not-empty",
            "only projects without runs can be deleted: remove the runs with seamark purge",
        )
    server.accounts.forget_project(project)
    forget_key(server, project)
    note(request, asker(request), "project.delete", project)
    return answer({})


# ---------------------------------------------------------------------- members


def _service_names(request: Request) -> set[str]:
    return {user["name"] for user in server_of(request).accounts.users() if user["service"]}


def _describe_member(user: str, role: Role | None, *, service: bool) -> dict[str, Any]:
    word = _ROLE_NAMES[role or Role.VIEWER]
    if service:
        return {"role": word, "serviceAccountInfo": {"displayName": user}}
    return {"role": word, "registeredMemberInfo": {"username": user}}


@router.answers("listProjectMembers")
def members(request: Request, project_id: ProjectId) -> Response:
    """Return the users with a role in a project, and workspace members who can see it.

    Service accounts are not included, as with Neptune.
    """
    project = project_of(request, project_id, Role.CONTRIBUTOR)
    accounts, services = server_of(request).accounts, _service_names(request)
    found = dict(accounts.members(project))
    if accounts.visibility().of(project) == "workspace":
        for user, role in accounts.belonging(project.partition("/")[0]).items():
            found[user] = max(role or Role.VIEWER, found.get(user) or Role.VIEWER)
    people = sorted(found.keys() - services)
    return answer([_describe_member(user, found[user], service=False) for user in people])


@router.answers("listProjectServiceAccounts")
def accounts_of(request: Request, project_id: ProjectId) -> Response:
    """Return the service accounts with a role in a project."""
    project = project_of(request, project_id, Role.CONTRIBUTOR)
    services, found = _service_names(request), server_of(request).accounts.members(project)
    return answer(
        [_describe_member(*each, service=True) for each in found.items() if each[0] in services]
    )


@router.answers("addProjectMember")
@router.answers("addProjectServiceAccount")
def add(request: Request, project_id: ProjectId, given: Given) -> Response:
    """Add a user or a service account to a project with a role."""
    account, word = field(given, "serviceAccountId"), field(given, "role")
    user = account or field(given, "userId") or ""
    project = project_of(request, project_id, Role.OWNER)
    role = _ROLES.get(word or "")
    if role is None:
        raise Refusal(400, "invalid", f"expected one of {', '.join(_ROLES)}, got {word!r:.60}")
    server = server_of(request)
    if user in server.accounts.members(project):
        raise Refusal(409, "taken", f"{user[:80]!r} has a role in {project} already")
    try:
        server.accounts.set_member(user, project, role)
    except NoSuch as error:
        raise Refusal(404, "no-user", str(error)) from error
    note(request, asker(request), "member.set", project, user=user, role=role.name.lower())
    return answer(_describe_member(user, role, service=bool(account)))


@router.answers("deleteProjectMember")
@router.answers("deleteProjectServiceAccount")
def remove(
    request: Request, project_id: ProjectId, person: User = "", account: Service = ""
) -> Response:
    """Remove the role of a user or a service account in a project."""
    user = account or person
    project = project_of(request, project_id, Role.OWNER)
    server = server_of(request)
    found = server.accounts.members(project)
    if user not in found:
        raise Refusal(422, "no-access", f"{user[:80]!r} has no role in {project}")
    server.accounts.set_member(user, project, None)
    note(request, asker(request), "member.set", project, user=user, role=None)
    return answer(_describe_member(user, found[user], service=bool(account)))


# ---------------------------------------------------------------------- workspaces


@router.answers("listOrganizationMembers")
def workspace_members(request: Request, workspace: Workspace) -> Response:
    """Return the users of a workspace; its owners own all its projects."""
    _expect_member(request, workspace)
    found, services = server_of(request).accounts.belonging(workspace), _service_names(request)
    return answer(
        [
            {
                "role": "owner" if role == Role.OWNER else "member",
                "registeredMemberInfo": {"username": user},
            }
            for user, role in found.items()
            if user not in services
        ]
    )


@router.answers("listServiceAccounts")
def service_accounts(request: Request, workspace: Workspace, deactivated: Text = "") -> Response:
    """Return the service accounts with a role in a workspace or in one of its projects."""
    _expect_member(request, workspace)
    if deactivated.lower() == "true":
        return answer([])
    found = server_of(request).accounts.services_within(workspace)
    return answer([{"id": user, "displayName": user} for user in found])


@router.answers("createOrganizationInvitations")
def invite(request: Request, given: Given) -> Response:
    """Add existing users to a workspace; refuse others, because servers send no mail."""
    # The client nests the body once more than its document describes.
    whole = field(given, "newOrganizationInvitations", dict) or given
    workspace, server = field(whole, "organizationIdentifier") or "", server_of(request)
    expect(request, workspace, Role.OWNER)
    if workspace not in _known_workspaces(request):
        raise Refusal(404, "no-workspace", f"workspace {workspace[:80]!r} does not exist")
    for each in objects(whole, "invitationsEntries"):
        user = field(each, "invitee") or ""
        if field(each, "invitationType") != "user":
            raise Refusal(
                400,
                "not-here",
                "invitations by mail are not supported: use seamark token create",
            )
        if user in server.accounts.members(workspace):
            raise Refusal(409, "taken", f"{user[:80]!r} already belongs to {workspace}")
        if not server.accounts.has_user(user):
            raise Refusal(404, "no-user", f"user {user[:80]!r} does not exist")
        role = Role.CONTRIBUTOR if field(each, "addToAllProjects", bool) else None
        role = Role.OWNER if field(each, "roleGrant") == "owner" else role
        if role is None:
            server.accounts.add_to_workspace(user, workspace)
        else:
            server.accounts.set_member(user, workspace, role)
        note(
            request,
            asker(request),
            "member.set",
            workspace,
            user=user,
            role=role.name.lower() if role else None,
        )
    return answer({})


@router.answers("workspaceStatus")
def status(request: Request, workspace: Workspace) -> Response:
    """Return the number of users of a workspace, and its quota or else the disk space.

    The client subtracts one number from the other, so both are required.
    """
    _expect_member(request, workspace)
    server = server_of(request)
    used, most = server.quota.usage(workspace)
    available = most - used if most is not None else disk_usage(server.settings.folder).free
    return answer(
        {
            "storageBytesAvailable": max(0, available),
            "storageBytesLimit": used + max(0, available) if most is None else most,
            "membersCount": len(server.accounts.belonging(workspace)),
        }
    )


# ---------------------------------------------------------------------- inside


def _known_workspaces(request: Request) -> set[str]:
    server = server_of(request)
    projects = all_projects(server, asker(request))
    return server.accounts.workspaces() | {each.partition("/")[0] for each in projects}


def _expect_member(request: Request, workspace: str) -> None:
    if workspace not in expect_somebody(request).workspaces:
        expect(request, workspace, Role.CONTRIBUTOR)


def _expect_maker(request: Request, workspace: str) -> Identity:
    # A token with fewer rights than its user cannot create a project, because the user would own
    # it. The reason is given only to users who can see the workspace.
    who = expect_somebody(request)
    token = server_of(request).accounts.token(who.token) if who.token else None
    if token is not None and workspace in who.workspaces and token.role in (None, Role.OWNER):
        return who
    try:
        return expect(request, workspace, Role.OWNER)
    except Refusal as error:
        if workspace not in workspaces_of(request):
            raise
        hint = f"only owners and members of {workspace[:200]} may create projects in it"
        if token is not None and token.project not in (None, workspace):
            hint += f"; this token is limited to {token.project}"
        elif token is not None and token.role not in (None, Role.OWNER):
            hint += f"; this token has the role {token.role.name.lower()}"
        raise Refusal(403, "role-too-small", hint) from error


def _invalid(code: str, reason: str) -> Refusal:
    # The client does not show the texts of its own error types.
    name = code.upper().replace("-", "_")
    errors = [{"errorCode": {"name": name}, "context": {"reason": reason}}]
    return Refusal(400, code, reason, validationErrors=[{"errors": errors}])


def _existing_project(request: Request, identifier: str) -> str:
    # Admins pass the role check for any path, so check that the project exists.
    project = project_of(request, identifier, Role.VIEWER)
    if not is_project(server_of(request), project):
        raise Refusal(404, "no-project", f"project {project[:200]!r} does not exist")
    return project


@router.answers("trashExperiments")
def trash(
    request: Request,
    project_id: ProjectId,
    identifiers: Identifiers,
) -> Response:
    """Move runs to the trash, and models with their versions; the answer has the errors."""
    project, server = _existing_project(request, project_id), server_of(request)

    def put(container: Container) -> None:
        if container.kind == "model":
            for version, trashed in versions_of(server, container):
                if not trashed:
                    put(version)
        atoms = {"sys/trashed": list(encode_atom(True))}  # noqa: FBT003 - a value
        server.writer.record(*container, [{"op": "assign", "atoms": atoms}])

    result = _apply_to_each(request, identifiers, Role.CONTRIBUTOR, put)
    wait_in(server, project)  # so that later requests do not show them
    return result


@router.answers("deleteExperiments")
def delete_runs(
    request: Request,
    project_id: ProjectId,
    identifiers: Identifiers,
) -> Response:
    """Permanently delete runs in the trash, and models with their versions."""
    _existing_project(request, project_id)

    def delete_one(container: Container) -> None:
        if not ContainerReader(server_of(request), container).row[1]:
            raise Refusal(409, "not-trashed", "it is not in the trash")
        _purge(request, container)

    return _apply_to_each(request, identifiers, Role.OWNER, delete_one)


@router.answers("deleteAllExperiments")
def empty_trash(request: Request, project_id: ProjectId) -> Response:
    """Permanently delete the trash of a project, including models and versions."""
    project, server = project_of(request, project_id, Role.OWNER), server_of(request)
    found = map(container_id, trashed_in(server, project))
    return _apply_to_each(request, found, Role.OWNER, lambda each: _purge(request, each))


def _purge(request: Request, container: Container) -> None:
    if container.kind == "model":
        versions = versions_of(server_of(request), container)
        if left := sum(not trashed for _, trashed in versions):
            raise Refusal(
                409,
                "has-versions",
                f"{left} of its versions are not in the trash and would be deleted with it",
            )
        for version, _ in versions:
            purge_run(request, *version)
    purge_run(request, *container)


def _apply_to_each(
    request: Request, identifiers: Iterable[str], role: Role, act: Callable[[Container], None]
) -> Response:
    errors, done = [], []
    for identifier in dict.fromkeys(identifiers):
        try:
            container = find_container(request, identifier, role)
            if container.is_project:
                raise ContainerNotFound(identifier)
            if not server_of(request).intake.known(*container)[0]:
                raise ContainerNotFound(identifier)
            act(container)
            done.append(identifier)
        except (SeamarkError, Refusal) as error:
            hint = str(escape(str(refusal_of(error).detail)))
            errors.append({"errorDescription": f"{identifier[:200]}: {hint}"})
    return answer({"errors": errors, "updatedExperimentIdentifiers": done})
