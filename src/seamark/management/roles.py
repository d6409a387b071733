"""What members of a project and of a workspace may do, and who reads a project without a role."""

from __future__ import annotations

from enum import Enum
from typing import Final

__all__ = ["MemberRole", "ProjectVisibility", "WorkspaceMemberRole"]


class MemberRole:
    """Roles in a project."""

    VIEWER: Final = "viewer"
    OWNER: Final = "owner"
    CONTRIBUTOR: Final = "contributor"
    MEMBER: Final = CONTRIBUTOR
    MANAGER: Final = OWNER


class ProjectVisibility:
    """Who reads a project without a role in it."""

    PRIVATE: Final = "priv"
    PUBLIC: Final = "pub"
    WORKSPACE: Final = "workspace"


class WorkspaceMemberRole(Enum):
    """Roles in a workspace."""

    MEMBER = "member"
    ADMIN = "admin"

    def to_api(self) -> str:
        """Return what a server calls it."""
        return "owner" if self is WorkspaceMemberRole.ADMIN else self.value
