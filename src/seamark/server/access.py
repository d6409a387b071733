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
    """Identity of a requester, with its roles as limited by its token.

    `token` is the public prefix of the token. `roles` are by project path, each for what is in it,
    too; ``""`` stands for all projects. `workspaces` are first parts of project paths, in which it
    reads what is visible to a workspace.
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
    """Project paths that may be read, sub-projects included; `but` has the exceptions."""

    everything: bool = False
    projects: frozenset[str] = frozenset()
    but: frozenset[str] = frozenset()


class Access(Protocol):
    """Authorization policy; `seamark.server.accounts` implements it with the database."""

    def role(self, who: Identity, project: str) -> Role | None:
        """Return a user's role in a project; None if they may not know that it exists."""

    def readable(self, who: Identity) -> Readable:
        """Return the projects that a user may read."""
