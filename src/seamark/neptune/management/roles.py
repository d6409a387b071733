"""Roles in projects and workspaces, and the visibility of projects."""

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
    """Visibility of a project to users without a role in it."""

    PRIVATE: Final = "priv"
    PUBLIC: Final = "pub"
    WORKSPACE: Final = "workspace"


class WorkspaceMemberRole(Enum):
    """Roles in a workspace."""

    MEMBER = "member"
    ADMIN = "admin"

    def to_api(self) -> str:
        """Return the server's name of the role."""
        return "owner" if self is WorkspaceMemberRole.ADMIN else self.value
