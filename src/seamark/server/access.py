"""Identities of requesters, and their roles in projects."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NOBODY", "Access", "Identity", "Readable", "Role"]


class Role(IntEnum):
    """Role in a project; each role includes the permissions of the lower ones."""

    VIEWER = 1
    """Read."""
    CONTRIBUTOR = 2
    """Record, edit, and move to the trash."""
    OWNER = 3
    """Purge, and say who may do what."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of a requester, with the roles that it has.

    Attributes:
        name: User or service account; empty for an anonymous requester.
        token: Public prefix of the token that was sent; empty for none.
        admin: Whether everything is allowed, everywhere.
        roles: Project paths (each for what is in it, too) and the role there; what the token does
            not allow is taken off already. The path ``""`` stands for all projects.
        workspaces: First parts of project paths; in them they read what is visible to a workspace.
    """

    name: str = ""
    token: str = ""
    admin: bool = False
    roles: Mapping[str, Role] = field(default_factory=dict)
    workspaces: frozenset[str] = frozenset()


NOBODY = Identity()
"""Somebody who did not say who they are."""


@dataclass(frozen=True, slots=True)
class Readable:
    """Projects that somebody may read, each with what is in it.

    Attributes:
        everything: All, but those below `but`.
        projects: Project paths that may be read.
        but: Project paths that may not be read although one above them may.
    """

    everything: bool = False
    projects: frozenset[str] = frozenset()
    but: frozenset[str] = frozenset()


class Access(Protocol):
    """Decides who may do what; `seamark.server.accounts` has the one that asks the database."""

    def role(self, who: Identity, project: str) -> Role | None:
        """Return the role of somebody in a project; None if they may not know that it exists."""
        ...

    def readable(self, who: Identity) -> Readable:
        """Return which projects somebody may read."""
        ...
