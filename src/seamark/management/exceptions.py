"""Neptune's names of exceptions of ``management``; nothing in Seamark raises them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from seamark import errors

if TYPE_CHECKING:

    def __getattr__(name: str) -> type[errors.SeamarkError]:
        """Stand for the names in `_NEVER_RAISED`, which type checkers cannot see."""


class ManagementOperationFailure(errors.SeamarkError):
    """A name of Neptune's that nothing here raises."""


_NEVER_RAISED: Final = (
    "AccessRevokedOnDeletion",
    "AccessRevokedOnMemberRemoval",
    "AccessRevokedOnServiceAccountRemoval",
    "ActiveProjectsLimitReachedException",
    "BadRequestException",
    "ConflictingWorkspaceName",
    "IncorrectIdentifierException",
    "InvalidProjectName",
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
)

for _name in _NEVER_RAISED:
    _told = {"__module__": __name__, "__doc__": ManagementOperationFailure.__doc__}
    globals()[_name] = type(_name, (ManagementOperationFailure,), _told)

__all__ = ["ManagementOperationFailure", *_NEVER_RAISED]  # noqa: PLE0604 - texts
