"""Neptune's ``management``: projects, roles in them, and the trash.

The functions use the server in ``api_token`` or ``SEAMARK_REMOTE``; without either,
``NEPTUNE_API_TOKEN`` is read as in Neptune's client. Without a server, they use the folder of all
runs, which has projects and a trash but no accounts.

A ``project`` is a path, or its last part if ``workspace`` is the first part. An ``api_token`` is a
token of the server; tokens of ``seamark token create --neptune`` include its address. All functions
raise `RemoteError` if the request fails. Functions about a project on a server raise
`ProjectNotFound` if it does not exist or the user may not see it.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from seamark.errors import ArgumentError, PathError
from seamark.neptune.integrations import verify_type
from seamark.neptune.management.exceptions import (
    ConflictingWorkspaceName,
    InvalidProjectName,
    MissingWorkspaceName,
    UnsupportedValue,
)
from seamark.neptune.management.roles import MemberRole, ProjectVisibility, WorkspaceMemberRole
from seamark.paths import check_project
from seamark.remote.neptune import token_parts

if TYPE_CHECKING:
    from seamark.neptune.management.folder import FolderBackend
    from seamark.neptune.management.served import ServerBackend

__all__ = [
    "MemberRole",
    "ProjectVisibility",
    "WorkspaceMemberRole",
    "add_project_member",
    "add_project_service_account",
    "clear_trash",
    "create_project",
    "delete_objects_from_trash",
    "delete_project",
    "get_project_list",
    "get_project_member_list",
    "get_project_service_account_list",
    "get_workspace_member_list",
    "get_workspace_service_account_list",
    "get_workspace_status",
    "invite_to_workspace",
    "remove_project_member",
    "remove_project_service_account",
    "trash_objects",
]

_FORMER_SERVICE = "neptune.ai"
"""Domain of Neptune's former service; its tokens cannot be used."""
_OWN_VARIABLES = ("SEAMARK_REMOTE", "SEAMARK_API_TOKEN")
"""Environment variables that take precedence over NEPTUNE_API_TOKEN."""
_ROLES = (MemberRole.VIEWER, MemberRole.CONTRIBUTOR, MemberRole.OWNER)
_VISIBLE = (ProjectVisibility.PRIVATE, ProjectVisibility.PUBLIC, ProjectVisibility.WORKSPACE)

_OPTIONAL = (str, type(None))
log = logging.getLogger("seamark")


# ---------------------------------------------------------------------- projects


def get_project_list(*, api_token: str | None = None) -> list[str]:
    """Return the paths of all readable projects."""
    with _open_target(api_token) as place:
        return place.projects()


def create_project(
    name: str,
    *,
    key: str | None = None,
    workspace: str | None = None,
    visibility: str = ProjectVisibility.PRIVATE,
    description: str | None = None,
    api_token: str | None = None,
) -> str:
    """Create a project and return its path; without this call, its first run creates it.

    Args:
        name: Path, or its last part.
        key: Prefix of the ids of runs created by Neptune's client; by default chosen by the server.
        workspace: First part of the path.
        visibility: ``"priv"``, ``"pub"`` or ``"workspace"``; ignored for a folder.
        description: Description of the project.
        api_token: Token of the server.

    Raises:
        ProjectAlreadyExists: If the project exists.
        WorkspaceNotFound: If the workspace does not exist or the user may not see it.
        ProjectKeyInvalid: If the key is invalid.
        UnsupportedValue: If the visibility is invalid.
        ProjectPrivacyRestrictedException: If the user may not create public projects.
        ManagementOperationFailure: If the user may not do this.
        InvalidProjectName: If the path is invalid.
    """
    _verify(str, name=name, visibility=visibility)
    _verify(_OPTIONAL, key=key, workspace=workspace, description=description)
    _verify_choice("visibility", visibility, _VISIBLE)
    with _open_target(api_token) as place:
        project = _project_path(place, name, workspace)
        return place.create(project, key, visibility, description)


def delete_project(
    project: str, *, workspace: str | None = None, api_token: str | None = None
) -> None:
    """Delete a project without runs from a server; other projects are refused.

    Raises:
        ManagementOperationFailure: If the project has runs or is in a folder.
    """
    with _open_target(api_token) as place:
        place.delete(_project_path(place, project, workspace))


# ---------------------------------------------------------------------- members


def get_project_member_list(
    project: str, *, workspace: str | None = None, api_token: str | None = None
) -> dict[str, str]:
    """Return the roles in a project by user.

    Raises:
        ManagementOperationFailure: If the user may not do this, or the project is in a folder.
    """
    with _open_target(api_token) as place:
        return place.members(_project_path(place, project, workspace), service=False)


def add_project_member(
    project: str,
    username: str,
    role: str,
    *,
    workspace: str | None = None,
    api_token: str | None = None,
) -> None:
    """Add a user to a project with a role: ``"viewer"``, ``"contributor"`` or ``"owner"``.

    Raises:
        UserAlreadyHasAccess: If the user has a role in the project.
        UserNotExistsOrWithoutAccess: If the user does not exist.
        UnsupportedValue: If the role is invalid.
        ManagementOperationFailure: If the user may not do this, or the project is in a folder.
    """
    _verify(str, username=username)
    _verify_choice("role", role, _ROLES)
    with _open_target(api_token) as place:
        place.add(_project_path(place, project, workspace), username, role, service=False)


def remove_project_member(
    project: str,
    username: str,
    *,
    workspace: str | None = None,
    api_token: str | None = None,
) -> None:
    """Remove the role of a user in a project.

    Raises:
        UserNotExistsOrWithoutAccess: If the user has no role in the project.
        AccessRevokedOnMemberRemoval: If the user may not do this.
        ManagementOperationFailure: If the project is in a folder.
    """
    _verify(str, username=username)
    with _open_target(api_token) as place:
        place.remove(_project_path(place, project, workspace), username, service=False)


def get_project_service_account_list(
    project: str, *, workspace: str | None = None, api_token: str | None = None
) -> dict[str, str]:
    """Return the roles in a project by service account.

    Raises:
        ManagementOperationFailure: If the user may not do this, or the project is in a folder.
    """
    with _open_target(api_token) as place:
        return place.members(_project_path(place, project, workspace), service=True)


def add_project_service_account(
    project: str,
    service_account_name: str,
    role: str,
    *,
    workspace: str | None = None,
    api_token: str | None = None,
) -> None:
    """Add a service account of the workspace to a project; see `add_project_member`.

    Raises:
        ServiceAccountNotFound: If the account does not exist in the workspace.
        ServiceAccountAlreadyHasAccess: If the account has a role in the project.
        UnsupportedValue: If the role is invalid.
        ManagementOperationFailure: If the user may not do this, or the project is in a folder.
    """
    _verify(str, service_account_name=service_account_name)
    _verify_choice("role", role, _ROLES)
    with _open_target(api_token) as place:
        path = _project_path(place, project, workspace)
        place.expect_service(path, service_account_name)
        place.add(path, service_account_name, role, service=True)


def remove_project_service_account(
    project: str,
    service_account_name: str,
    *,
    workspace: str | None = None,
    api_token: str | None = None,
) -> None:
    """Remove the role of a service account in a project.

    Raises:
        ServiceAccountNotFound: If the account does not exist in the workspace.
        ServiceAccountNotExistsOrWithoutAccess: If the account has no role in the project.
        AccessRevokedOnServiceAccountRemoval: If the user may not do this.
        ManagementOperationFailure: If the project is in a folder.
    """
    _verify(str, service_account_name=service_account_name)
    with _open_target(api_token) as place:
        path = _project_path(place, project, workspace)
        place.expect_service(path, service_account_name)
        place.remove(path, service_account_name, service=True)


# ---------------------------------------------------------------------- workspaces


def get_workspace_member_list(workspace: str, *, api_token: str | None = None) -> dict[str, str]:
    """Return the roles in a workspace by user: ``"admin"`` or ``"member"``.

    Raises:
        WorkspaceNotFound: If the workspace does not exist or the user may not see it.
        ManagementOperationFailure: If the user may not do this, or the project is in a folder.
    """
    _verify(str, workspace=workspace)
    with _open_target(api_token) as place:
        return place.workspace_members(workspace)


def get_workspace_service_account_list(
    workspace: str, *, api_token: str | None = None
) -> dict[str, str]:
    """Return the service accounts of a workspace, each with the role ``"member"``.

    Raises:
        WorkspaceNotFound: If the workspace does not exist or the user may not see it.
        ManagementOperationFailure: If the user may not do this, or the project is in a folder.
    """
    _verify(str, workspace=workspace)
    with _open_target(api_token) as place:
        return place.service_accounts(workspace)


def get_workspace_status(workspace: str, *, api_token: str | None = None) -> dict[str, int]:
    """Return the number of members of a workspace as ``membersCount``.

    Raises:
        WorkspaceNotFound: If the workspace does not exist or the user may not see it.
        ManagementOperationFailure: If the project is in a folder.
    """
    _verify(str, workspace=workspace)
    with _open_target(api_token) as place:
        return place.status(workspace)


def invite_to_workspace(
    *,
    username: str | None = None,
    email: str | None = None,
    workspace: str,
    api_token: str | None = None,
    role: WorkspaceMemberRole | str = WorkspaceMemberRole.MEMBER,
    add_to_all_projects: bool = False,
) -> None:
    """Add an existing user of the server to a workspace; invitations by mail are refused.

    Args:
        username: Name of the user.
        email: Mail address, which is refused because servers send no mail.
        workspace: First part of the paths of its projects.
        api_token: Token of the server.
        role: ``"member"`` or ``"admin"``.
        add_to_all_projects: Whether the user gets a role in all projects.

    Raises:
        ArgumentError: If not exactly one of ``username`` and ``email`` is given.
        UnsupportedValue: If the role is invalid.
        ManagementOperationFailure: If the user cannot be added; the message says why.
    """
    _verify(str, workspace=workspace)
    _verify(_OPTIONAL, username=username, email=email)
    verify_type("add_to_all_projects", add_to_all_projects, bool)
    if bool(username) == bool(email):
        raise ArgumentError(
            f"expected either username or email, got {'both' if email else 'neither'}"
        )
    _verify_choice(
        "role", role, (*WorkspaceMemberRole, *(one.value for one in WorkspaceMemberRole))
    )
    invitation = {
        "invitee": username or email,
        "invitationType": "user" if username else "emailRecipient",
        "roleGrant": WorkspaceMemberRole(role).to_api(),
        "addToAllProjects": add_to_all_projects,
    }
    with _open_target(api_token) as place:
        place.invite(workspace, invitation)


# ---------------------------------------------------------------------- the trash


def trash_objects(
    project: str,
    ids: str | Iterable[str],
    *,
    workspace: str | None = None,
    api_token: str | None = None,
) -> None:
    """Move runs, models and versions to the trash; the versions of a model move with it.

    Objects that cannot be moved cause a warning, and the others are moved.

    Args:
        project: Path, or its last part.
        ids: One or several ids of runs, models (``CLS-RESNET``) and versions (``CLS-RESNET-3``).
        workspace: First part of the path.
        api_token: Token of the server.
    """
    found = _id_list(ids)
    with _open_target(api_token) as place:
        place.trash(_project_path(place, project, workspace), found)


def delete_objects_from_trash(
    project: str,
    ids: str | Iterable[str],
    *,
    workspace: str | None = None,
    api_token: str | None = None,
) -> None:
    """Permanently delete runs, models and versions in the trash; see `trash_objects`.

    Objects that cannot be deleted cause a warning, and the others are deleted.
    """
    found = _id_list(ids)
    with _open_target(api_token) as place:
        place.delete_trashed(_project_path(place, project, workspace), found)


def clear_trash(
    project: str, *, workspace: str | None = None, api_token: str | None = None
) -> None:
    """Permanently delete everything in the trash of a project.

    Raises:
        ManagementOperationFailure: If the user may not do this.
    """
    with _open_target(api_token) as place:
        place.clear(_project_path(place, project, workspace))


# ---------------------------------------------------------------------- inside


@contextlib.contextmanager
def _open_target(api_token: str | None) -> Iterator[ServerBackend | FolderBackend]:
    from seamark.journal.folder import root_dir
    from seamark.neptune.management.folder import FolderBackend
    from seamark.neptune.management.served import ServerBackend
    from seamark.opening.place import place_to_read

    _verify(_OPTIONAL, api_token=api_token)
    if api_token is None and not any(map(os.environ.get, _OWN_VARIABLES)):
        api_token = os.environ.get("NEPTUNE_API_TOKEN") or None
    address, token = _parse_token(api_token)
    place = address or place_to_read(None, None)
    opened = (
        ServerBackend(place, token)
        if isinstance(place, str)
        else FolderBackend(place or root_dir(None))
    )
    with contextlib.closing(opened):
        yield opened


def _parse_token(api_token: str | None) -> tuple[str, str | None]:
    address, token = token_parts(api_token or "")
    host = urlsplit(address).hostname or ""
    if host == _FORMER_SERVICE or host.endswith(f".{_FORMER_SERVICE}"):
        log.warning("seamark: api_token: it belongs to %s and is not used", host)
        return "", None
    return address, token or None


def _project_path(place: ServerBackend | FolderBackend, name: str, workspace: str | None) -> str:
    from seamark.neptune.management.folder import FolderBackend

    _verify(str, project=name)
    _verify(_OPTIONAL, workspace=workspace)
    own = name.partition("/")[0] if "/" in name else ""
    if workspace and own and own != workspace:
        raise ConflictingWorkspaceName(
            f"project {name!r:.200} is not in workspace {workspace!r:.200}"
        )
    path = f"{workspace}/{name}" if workspace and not own else name
    if "/" not in path and not isinstance(place, FolderBackend):
        raise MissingWorkspaceName(
            f"project {name!r:.200}: expected 'workspace/project', or also workspace='...'"
        )
    try:
        return check_project(path)
    except PathError as error:
        raise InvalidProjectName(str(error)) from error


def _id_list(ids: str | Iterable[str]) -> list[str]:
    found = [ids] if isinstance(ids, str) else list(ids)
    for each in found:
        verify_type("ids", each, str)
    return found


def _verify(kind: type | tuple[type, ...], **given: object) -> None:
    for name, value in given.items():
        verify_type(name, value, kind)


def _verify_choice(name: str, value: object, known: Iterable[object]) -> None:
    if value not in (some := list(known)):
        words = ", ".join(repr(one) for one in some if isinstance(one, str))
        raise UnsupportedValue(f"{name}: expected one of {words}, got {value!r:.80}")
