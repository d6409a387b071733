"""Exceptions of ``management``, with Neptune's names.

Exceptions that are never raised exist for scripts that import them.
"""

from __future__ import annotations

from seamark.errors import SeamarkError

__all__ = [
    "AccessRevokedOnDeletion",
    "AccessRevokedOnMemberRemoval",
    "AccessRevokedOnServiceAccountRemoval",
    "ActiveProjectsLimitReachedException",
    "BadRequestException",
    "ConflictingWorkspaceName",
    "IncorrectIdentifierException",
    "InvalidProjectName",
    "ManagementOperationFailure",
    "MissingWorkspaceName",
    "ObjectNotFound",
    "ProjectAlreadyExists",
    "ProjectKeyCollision",
    "ProjectKeyInvalid",
    "ProjectNameCollision",
    "ProjectNameInvalid",
    "ProjectNotFound",
    "ProjectPrivacyRestrictedException",
    "ProjectsLimitReached",
    "ServiceAccountAlreadyHasAccess",
    "ServiceAccountNotExistsOrWithoutAccess",
    "ServiceAccountNotFound",
    "UnsupportedValue",
    "UserAlreadyHasAccess",
    "UserAlreadyInvited",
    "UserNotExistsOrWithoutAccess",
    "WorkspaceNotFound",
    "WorkspaceOrUserNotFound",
]


class ManagementOperationFailure(SeamarkError):  # noqa: N818 - as all names here, Neptune's
    """An operation on a project, its members or its trash failed; the message says why."""


class AccessRevokedOnDeletion(ManagementOperationFailure):
    """Permission error: the user may not delete the project."""


class AccessRevokedOnMemberRemoval(ManagementOperationFailure):
    """Permission error: the user may not remove the role of a member."""


class AccessRevokedOnServiceAccountRemoval(ManagementOperationFailure):
    """Permission error: the user may not remove the role of a service account."""


class ActiveProjectsLimitReachedException(ManagementOperationFailure):
    """Exception of Neptune's client that Seamark never raises."""


class BadRequestException(ManagementOperationFailure):
    """Exception of Neptune's client that Seamark never raises."""


class ConflictingWorkspaceName(ManagementOperationFailure):
    """The workspace in a project's path differs from the argument ``workspace``."""


class IncorrectIdentifierException(ManagementOperationFailure):
    """Exception of Neptune's client that Seamark never raises."""


class InvalidProjectName(ManagementOperationFailure):
    """A project path is invalid."""


class MissingWorkspaceName(ManagementOperationFailure):
    """A project path has no workspace, which is required on a server."""


class ObjectNotFound(ManagementOperationFailure):
    """Exception of Neptune's client that Seamark never raises."""


class ProjectAlreadyExists(ManagementOperationFailure):
    """A project of this name exists."""


class ProjectKeyCollision(ManagementOperationFailure):
    """Exception of Neptune's client that Seamark never raises."""


class ProjectKeyInvalid(ManagementOperationFailure):
    """The key of a project, the prefix of its run ids, is invalid."""


class ProjectNameCollision(ManagementOperationFailure):
    """Exception of Neptune's client that Seamark never raises."""


class ProjectNameInvalid(ManagementOperationFailure):
    """The server does not accept this project name."""


class ProjectNotFound(ManagementOperationFailure):
    """The project does not exist, or the user may not see it."""


class ProjectPrivacyRestrictedException(ManagementOperationFailure):
    """The user may not create a project with this visibility."""


class ProjectsLimitReached(ManagementOperationFailure):
    """Exception of Neptune's client that Seamark never raises."""


class ServiceAccountAlreadyHasAccess(ManagementOperationFailure):
    """The service account has a role in the project."""


class ServiceAccountNotExistsOrWithoutAccess(ManagementOperationFailure):
    """The service account has no role in the project."""


class ServiceAccountNotFound(ManagementOperationFailure):
    """The workspace has no such service account."""


class UnsupportedValue(ManagementOperationFailure):
    """The value of an argument is not one of the allowed values."""


class UserAlreadyHasAccess(ManagementOperationFailure):
    """The user has a role in the project."""


class UserAlreadyInvited(ManagementOperationFailure):
    """Exception of Neptune's client that Seamark never raises."""


class UserNotExistsOrWithoutAccess(ManagementOperationFailure):
    """The user does not exist or has no role in the project."""


class WorkspaceNotFound(ManagementOperationFailure):
    """The workspace does not exist, or the user may not see it."""


class WorkspaceOrUserNotFound(ManagementOperationFailure):
    """Exception of Neptune's client that Seamark never raises."""
