"""Projects and who may do what in them, as the client's ``management`` asks for it.

Roles have other names there: ``viewer``, ``member`` (contributor) and ``manager`` (owner). A
workspace is the first part of the path of a project.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Body, Query, Request, Response

from seamark.errors import PathError
from seamark.neptune.server.answers import Routes, answer
from seamark.neptune.server.containers import Text, project_of, shown_project
from seamark.neptune.server.names import key_of_project
from seamark.neptune.server.projects import all_projects, choose_key
from seamark.paths import check_project
from seamark.server.access import Role
from seamark.server.accounts.accounts import NoSuch
from seamark.server.failures import Refusal
from seamark.server.guard import asker, expect, server_of

__all__ = ["router"]

router: Final = Routes()
_ROLES: Final = {"viewer": Role.VIEWER, "member": Role.CONTRIBUTOR, "manager": Role.OWNER}
_WORDS: Final = {role: word for word, role in _ROLES.items()}
_VISIBLE: Final = {"priv": "private", "pub": "public", "workspace": "workspace"}
_MOST_KEY: Final = 10

Of = Annotated[str, Query(alias="projectIdentifier", max_length=8192)]
Workspace = Annotated[str, Query(alias="organizationIdentifier", max_length=1024)]
User = Annotated[str, Query(alias="userId", max_length=100)]
Service = Annotated[str, Query(alias="serviceAccountId", max_length=100)]


@router.answers("createProject")
def create(request: Request, given: Annotated[dict[str, Any], Body()]) -> Response:
    """Make a project, which is to say: give it a key, a visibility and an owner."""
    workspace, name = str(given.get("organizationId") or ""), str(given.get("name") or "")
    who = expect(request, workspace, Role.OWNER)
    project, server = f"{workspace}/{name}", server_of(request)
    try:
        check_project(project)
    except PathError as error:
        raise Refusal(400, "invalid", str(error), errorType="PROJECT_NAME_INVALID") from error
    visibility = given.get("visibility") or "priv"
    if visibility not in _VISIBLE or "/" in name:
        more = {"requestedValue": visibility, "allowedValues": sorted(_VISIBLE)}
        return _refusal(422, "VISIBILITY_RESTRICTED", "there is no such visibility", **more)
    if project in all_projects(server, who):
        clash = {"errorCode": {"name": "ERR_NOT_UNIQUE"}, "context": {}}
        more_of = {"validationErrors": [{"errors": [clash]}]}
        return _refusal(400, "PROJECT_NAME_COLLISION", "the project exists", **more_of)
    key = str(given.get("projectKey") or key_of_project(project))
    if not (key.isascii() and key.isalnum() and key == key.upper() and len(key) <= _MOST_KEY):
        return _refusal(422, "PROJECT_KEY_INVALID", "a key is letters A-Z and digits", key=key)
    choose_key(server, project, key)
    server.accounts.set_visibility(project, _VISIBLE[visibility], by=who.name)
    if server.accounts.has_user(who.name):
        server.accounts.set_member(who.name, project, Role.OWNER)
        server.logins.forget()
    _note(request, "project.create", project, visibility=visibility)
    return answer(shown_project(server, project))


@router.answers("deleteProject")
def delete(request: Request, project_id: Of) -> Response:
    """Say how a project is emptied: its name stays here, so nothing can be put in its place."""
    project_of(request, project_id, Role.OWNER)
    hint = "projects are not removed by this client: remove their runs with seamark purge"
    raise Refusal(400, "not-here", hint)


# ---------------------------------------------------------------------- members


def _members(request: Request, project: str, *, service: bool) -> list[tuple[str, Role | None]]:
    accounts = server_of(request).accounts
    services = {user["name"] for user in accounts.users() if user["service"]}
    found = accounts.members(project)
    return [(user, role) for user, role in found.items() if (user in services) == service]


def _shown(user: str, role: Role | None, *, service: bool) -> dict[str, Any]:
    word = _WORDS[role or Role.VIEWER]
    if service:
        return {"role": word, "serviceAccountInfo": {"displayName": user}}
    return {"role": word, "registeredMemberInfo": {"username": user}}


@router.answers("listProjectMembers")
def members(request: Request, project_id: Of) -> Response:
    """Return who has a role in a project."""
    project = project_of(request, project_id, Role.CONTRIBUTOR)
    found = _members(request, project, service=False)
    return answer([_shown(*each, service=False) for each in found])


@router.answers("listProjectServiceAccounts")
def accounts_of(request: Request, project_id: Of) -> Response:
    """Return which service accounts have a role in a project."""
    project = project_of(request, project_id, Role.CONTRIBUTOR)
    found = _members(request, project, service=True)
    return answer([_shown(*each, service=True) for each in found])


def _add(request: Request, project_id: str, user: str, word: object, *, service: bool) -> Response:
    project = project_of(request, project_id, Role.OWNER)
    role = _ROLES.get(str(word))
    if role is None:
        raise Refusal(400, "invalid", f"expected one of {', '.join(_ROLES)}, got {word!r:.60}")
    server = server_of(request)
    if user in server.accounts.members(project):
        raise Refusal(409, "taken", f"{user[:80]!r} has a role in {project} already")
    try:
        server.accounts.set_member(user, project, role)
    except NoSuch as error:
        raise Refusal(404, "no-user", str(error)) from error
    server.logins.forget()
    _note(request, "member.set", project, user=user, role=role.name.lower())
    return answer(_shown(user, role, service=service))


def _remove(request: Request, project_id: str, user: str, *, service: bool) -> Response:
    project = project_of(request, project_id, Role.OWNER)
    server = server_of(request)
    found = server.accounts.members(project)
    if user not in found:
        return _refusal(422, "NO_ACCESS", f"{user[:80]!r} has no role in {project}")
    server.accounts.set_member(user, project, None)
    server.logins.forget()
    _note(request, "member.set", project, user=user, role=None)
    return answer(_shown(user, found[user], service=service))


@router.answers("addProjectMember")
def add_member(
    request: Request, project_id: Of, member: Annotated[dict[str, Any], Body()]
) -> Response:
    """Give somebody a role in a project."""
    return _add(
        request, project_id, str(member.get("userId") or ""), member.get("role"), service=False
    )


@router.answers("addProjectServiceAccount")
def add_account(
    request: Request, project_id: Of, account: Annotated[dict[str, Any], Body()]
) -> Response:
    """Give a service account a role in a project."""
    user = str(account.get("serviceAccountId") or "")
    return _add(request, project_id, user, account.get("role"), service=True)


@router.answers("deleteProjectMember")
def remove_member(request: Request, project_id: Of, user: User) -> Response:
    """Take somebody's role in a project away."""
    return _remove(request, project_id, user, service=False)


@router.answers("deleteProjectServiceAccount")
def remove_account(request: Request, project_id: Of, user: Service) -> Response:
    """Take a service account's role in a project away."""
    return _remove(request, project_id, user, service=True)


# ---------------------------------------------------------------------- workspaces


@router.answers("listOrganizationMembers")
def workspace_members(request: Request, workspace: Workspace) -> Response:
    """Return who has a role in a workspace: its owners are those of all projects in it."""
    expect(request, workspace, Role.CONTRIBUTOR)
    found = _members(request, workspace, service=False)
    return answer(
        [
            {
                "role": "owner" if role == Role.OWNER else "member",
                "registeredMemberInfo": {"username": user},
            }
            for user, role in found
        ]
    )


@router.answers("listServiceAccounts")
def service_accounts(request: Request, workspace: Workspace, deactivated: Text = "") -> Response:
    """Return the service accounts that have a role in a workspace or a project of it."""
    expect(request, workspace, Role.CONTRIBUTOR)
    if deactivated.lower() == "true":
        return answer([])
    server = server_of(request)
    projects = [workspace, *all_projects(server, asker(request))]
    inside = [each for each in projects if each.partition("/")[0] == workspace]
    found = {user for each in inside for user, _ in _members(request, each, service=True)}
    return answer([{"id": user, "displayName": user} for user in sorted(found)])


@router.answers("createOrganizationInvitations")
def invite(request: Request, given: Annotated[dict[str, Any], Body()]) -> Response:
    """Say how somebody is let in: a server sends no mail."""
    whole = given.get("newOrganizationInvitations") or given
    expect(request, str(whole.get("organizationIdentifier") or ""), Role.OWNER)
    hint = "nobody is invited by mail here: make a token for them with seamark token create"
    raise Refusal(400, "not-here", hint)


@router.answers("workspaceStatus")
def status(request: Request, workspace: Workspace) -> Response:
    """Return how many belong to a workspace."""
    expect(request, workspace, Role.VIEWER)
    return answer({"membersCount": len(server_of(request).accounts.members(workspace))})


# ---------------------------------------------------------------------- inside


def _refusal(status_code: int, error_type: str, title: str, **more: Any) -> Response:
    found = answer({"code": status_code, "errorType": error_type, "title": title, **more})
    found.status_code = status_code
    return found


def _note(request: Request, action: str, subject: str, **detail: Any) -> None:
    address = request.client.host if request.client else ""
    server_of(request).accounts.note(asker(request), action, subject, address=address, **detail)
