"""Neptune's names of exceptions of ``management``.

Exceptions that are never raised exist so that scripts that mention them can be imported.
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
    """An operation on a project, its members or its trash is not possible; the message says why."""


class AccessRevokedOnDeletion(ManagementOperationFailure):
    """Permission error: the user may not delete the project."""


class AccessRevokedOnMemberRemoval(ManagementOperationFailure):
    """Permission error: the user may not remove the role of a member."""


class AccessRevokedOnServiceAccountRemoval(ManagementOperationFailure):
    """Permission error: the user may not remove the role of a service account."""


class ActiveProjectsLimitReachedException(ManagementOperationFailure):
    """A name of Neptune's that nothing here raises."""


class BadRequestException(ManagementOperationFailure):
    """A name of Neptune's that nothing here raises."""


class ConflictingWorkspaceName(ManagementOperationFailure):
    """The workspace in a project's path differs from the argument ``workspace``."""


class IncorrectIdentifierException(ManagementOperationFailure):
    """A name of Neptune's that nothing here raises."""


class InvalidProjectName(ManagementOperationFailure):
    """A project's path breaks the grammar."""


class MissingWorkspaceName(ManagementOperationFailure):
    """A project's path has no workspace, which paths on a server need."""


class ObjectNotFound(ManagementOperationFailure):
    """A name of Neptune's that nothing here raises."""


class ProjectAlreadyExists(ManagementOperationFailure):
    """There is a project of this name."""


class ProjectKeyCollision(ManagementOperationFailure):
    """A name of Neptune's that nothing here raises."""


class ProjectKeyInvalid(ManagementOperationFailure):
    """Invalid key of a project, which is the prefix of the ids of its runs."""


class ProjectNameCollision(ManagementOperationFailure):
    """A name of Neptune's that nothing here raises."""


class ProjectNameInvalid(ManagementOperationFailure):
    """A server does not accept a project of this name."""


class ProjectNotFound(ManagementOperationFailure):
    """There is no such project, or the user may not see it."""


class ProjectPrivacyRestrictedException(ManagementOperationFailure):
    """The caller may not make a project with this visibility."""


class ProjectsLimitReached(ManagementOperationFailure):
    """A name of Neptune's that nothing here raises."""


class ServiceAccountAlreadyHasAccess(ManagementOperationFailure):
    """The service account has a role in the project."""


class ServiceAccountNotExistsOrWithoutAccess(ManagementOperationFailure):
    """The service account has no role in the project."""


class ServiceAccountNotFound(ManagementOperationFailure):
    """The workspace has no such service account."""


class UnsupportedValue(ManagementOperationFailure):
    """An argument is not one of its possible values."""


class UserAlreadyHasAccess(ManagementOperationFailure):
    """The user has a role in the project."""


class UserAlreadyInvited(ManagementOperationFailure):
    """A name of Neptune's that nothing here raises."""


class UserNotExistsOrWithoutAccess(ManagementOperationFailure):
    """There is no such user, or they have no role in the project."""


class WorkspaceNotFound(ManagementOperationFailure):
    """There is no such workspace, or the user may not see it."""


class WorkspaceOrUserNotFound(ManagementOperationFailure):
    """A name of Neptune's that nothing here raises."""
