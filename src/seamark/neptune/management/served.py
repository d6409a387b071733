"""Projects, members and the trash of a server."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from seamark.neptune.management.exceptions import (
    AccessRevokedOnDeletion,
    AccessRevokedOnMemberRemoval,
    AccessRevokedOnServiceAccountRemoval,
    ManagementOperationFailure,
    ProjectAlreadyExists,
    ProjectKeyInvalid,
    ProjectNameInvalid,
    ProjectNotFound,
    ProjectPrivacyRestrictedException,
    ServiceAccountAlreadyHasAccess,
    ServiceAccountNotExistsOrWithoutAccess,
    ServiceAccountNotFound,
    UserAlreadyHasAccess,
    UserNotExistsOrWithoutAccess,
    WorkspaceNotFound,
)
from seamark.neptune.management.roles import MemberRole
from seamark.remote.http.connection import Connection
from seamark.remote.protocol import RemoteError

_API: Final = "/api/"
"""Address of the API of Neptune's client."""
_API_ROLES: Final = {
    MemberRole.VIEWER: "viewer",
    MemberRole.CONTRIBUTOR: "member",
    MemberRole.OWNER: "manager",
}
_ROLES: Final = {word: role for role, word in _API_ROLES.items()}
_WORKSPACE_ROLES: Final = {"owner": "admin", "member": "member"}
_MAX_IDS: Final = 100
_ERRORS_BY_TYPE: Final[Mapping[str, type[ManagementOperationFailure]]] = {
    "PROJECT_KEY_INVALID": ProjectKeyInvalid,
    "VISIBILITY_RESTRICTED": ProjectPrivacyRestrictedException,
    "ERR_NOT_UNIQUE": ProjectAlreadyExists,
    "ERR_INVALID_NAME": ProjectNameInvalid,
    "NO_USER": UserNotExistsOrWithoutAccess,
}
"""Error types, by the server's error code."""

ErrorsByStatus = Mapping[int, type[ManagementOperationFailure]]
"""Error types, by HTTP status."""

_NO_PROJECT: Final[ErrorsByStatus] = {404: ProjectNotFound}
_NO_WORKSPACE: Final[ErrorsByStatus] = {404: WorkspaceNotFound}
# For users, and for service accounts.
_PATHS: Final = ("backend/v1/members", "backend/v1/accounts")
_USER_KEYS: Final = ("userId", "serviceAccountId")
_NAME_KEYS: Final = (("registeredMemberInfo", "username"), ("serviceAccountInfo", "displayName"))
_REMOVAL_ERRORS: Final[tuple[ErrorsByStatus, ...]] = (
    {404: ProjectNotFound, 422: UserNotExistsOrWithoutAccess, 403: AccessRevokedOnMemberRemoval},
    {
        404: ProjectNotFound,
        422: ServiceAccountNotExistsOrWithoutAccess,
        403: AccessRevokedOnServiceAccountRemoval,
    },
)
log = logging.getLogger("seamark")


class ServerBackend:
    """Management of projects on a server."""

    def __init__(self, uri: str, token: str | None) -> None:
        self._connection = Connection(uri, token, api=_API)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _ask(
        self,
        method: str,
        path: str,
        errors_by_status: ErrorsByStatus,
        body: Any = None,
        **query: str | int,
    ) -> Any:
        ask = self._connection
        try:
            if body is None:
                answer = ask.ask(method, path, query=query)
            else:
                answer = ask.send_json(method, path, body, query=query)
        except RemoteError as error:
            kind = _ERRORS_BY_TYPE.get(str(error.said.get("errorType"))) or errors_by_status.get(
                error.status
            )
            if kind is None:
                if error.status not in (400, 403, 404, 409, 422):
                    raise
                kind = ManagementOperationFailure
            why = error.said.get("title")
            raise kind(str(why)[:1000] if why else str(error)) from error
        return answer.json() if answer.body else None

    # ------------------------------------------------------------------ projects

    def projects(self) -> list[str]:
        """Return the readable projects."""
        found = self._ask("GET", "backend/v1/projects/list", {}, userRelation="viewerOrHigher")
        return [f"{one['organizationName']}/{one['name']}" for one in found["entries"]]

    def create(
        self, project: str, key: str | None, visibility: str, description: str | None
    ) -> str:
        """Create a project and return its path."""
        workspace, _, name = project.rpartition("/")
        new = {
            "name": name,
            "organizationId": workspace,
            "visibility": visibility,
            "projectKey": key,
            "description": description,
        }
        made = self._ask("POST", "backend/v1/projects/create", _NO_WORKSPACE, new)
        return f"{made['organizationName']}/{made['name']}"

    def delete(self, project: str) -> None:
        """Delete a project; the server refuses it if the project has runs."""
        errors_by_status = {**_NO_PROJECT, 403: AccessRevokedOnDeletion}
        self._ask(
            "DELETE", "backend/v1/projects/delete", errors_by_status, projectIdentifier=project
        )

    # ------------------------------------------------------------------ members

    def members(self, project: str, *, service: bool) -> dict[str, str]:
        """Return the roles of users, or of service accounts, in a project."""
        found = self._ask("GET", _PATHS[service], _NO_PROJECT, projectIdentifier=project)
        info, name = _NAME_KEYS[service]
        return {one[info][name]: _ROLES[one["role"]] for one in found}

    def add(self, project: str, user: str, role: str, *, service: bool) -> None:
        """Add a user or service account to a project with a role."""
        body = {"role": _API_ROLES[role], _USER_KEYS[service]: user}
        taken = ServiceAccountAlreadyHasAccess if service else UserAlreadyHasAccess
        errors = {**_NO_PROJECT, 409: taken}
        self._ask("POST", _PATHS[service], errors, body, projectIdentifier=project)

    def remove(self, project: str, user: str, *, service: bool) -> None:
        """Remove the role of a user or service account in a project."""
        who = {"projectIdentifier": project, _USER_KEYS[service]: user}
        self._ask("DELETE", _PATHS[service], _REMOVAL_ERRORS[service], **who)

    def expect_service(self, project: str, user: str) -> None:
        """Raise `ServiceAccountNotFound` unless the workspace has the service account."""
        workspace = project.partition("/")[0]
        if user not in self.service_accounts(workspace):
            raise ServiceAccountNotFound(f"workspace {workspace!r} has no service account {user!r}")

    # ------------------------------------------------------------------ workspaces

    def workspace_members(self, workspace: str) -> dict[str, str]:
        """Return the roles in a workspace by user."""
        found = self._ask(
            "GET",
            "backend/v1/organizations/members",
            _NO_WORKSPACE,
            organizationIdentifier=workspace,
        )
        return {
            one["registeredMemberInfo"]["username"]: _WORKSPACE_ROLES[one["role"]] for one in found
        }

    def service_accounts(self, workspace: str) -> dict[str, str]:
        """Return the service accounts of a workspace; all of them are members."""
        found = self._ask(
            "GET",
            "backend/v1/organizations/accounts",
            _NO_WORKSPACE,
            organizationIdentifier=workspace,
        )
        return {one["displayName"]: "member" for one in found}

    def status(self, workspace: str) -> dict[str, int]:
        """Return the status of a workspace."""
        found = self._ask(
            "GET",
            "backend/v1/organizations/status",
            _NO_WORKSPACE,
            organizationIdentifier=workspace,
        )
        return dict(found)

    def invite(self, workspace: str, invitation: Mapping[str, Any]) -> None:
        """Add a user to a workspace; the server refuses invitations by mail."""
        self._ask(
            "POST",
            "backend/v1/organizations/invitations",
            _NO_WORKSPACE,
            {"organizationIdentifier": workspace, "invitationsEntries": [dict(invitation)]},
        )

    # ------------------------------------------------------------------ the trash

    def trash(self, project: str, ids: Sequence[str]) -> None:
        """Move objects to the trash."""
        done = self._send_ids("leaderboard/v1/trash", project, ids)
        log.info("seamark: moved %d of %d objects to the trash of %s", done, len(ids), project)

    def delete_trashed(self, project: str, ids: Sequence[str]) -> None:
        """Permanently delete objects in the trash."""
        self._send_ids("leaderboard/v1/delete", project, ids)

    def _send_ids(self, path: str, project: str, ids: Sequence[str]) -> int:
        done = 0
        for start in range(0, len(ids), _MAX_IDS):
            some = [f"{project}/{one}" for one in ids[start : start + _MAX_IDS]]
            reply = self._ask("POST", path, _NO_PROJECT, some, projectIdentifier=project)
            done += len(reply["updatedExperimentIdentifiers"])
            _log_errors(reply["errors"])
        return done

    def clear(self, project: str) -> None:
        """Permanently delete everything in the trash."""
        reply = self._ask("DELETE", "leaderboard/v1/trash", _NO_PROJECT, projectIdentifier=project)
        _log_errors(reply["errors"])


def _log_errors(errors: Iterable[Mapping[str, Any]]) -> None:
    for error in errors:
        log.warning("seamark: %s", error["errorDescription"])
