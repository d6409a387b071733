"""Names of containers and projects: those of the client, and those of Seamark."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final, NamedTuple

from seamark.errors import PathError
from seamark.journal.folder import PROJECT_LOG
from seamark.paths import check_place, home_of, kind_of

__all__ = ["Container", "container_id", "key_of_project", "named", "split_project"]

_KEY_CHARS: Final = 3
_PARTS: Final = 2


class Container(NamedTuple):
    """A run, a project itself, a model or a version of one.

    Attributes:
        project: Project path, or the place of models below one; see `seamark.paths.kind_of`.
        run: Run id, ``.project``, key of a model, or id of a version.
    """

    project: str
    run: str

    @property
    def is_project(self) -> bool:
        """Whether it is the project's own log."""
        return self.run == PROJECT_LOG

    @property
    def home(self) -> str:
        """Path of the project itself."""
        return home_of(self.project)

    @property
    def kind(self) -> str:
        """Kind of the container, one of `seamark.paths.KINDS`."""
        return kind_of(*self)


def container_id(container: Container) -> str:
    """Return the id that the client gets: both names, in letters that suit files and addresses.

    Nothing has to be looked up to know what it means, and it says nothing that its owner did not.
    """
    text = f"{container.project}/{container.run}".encode()
    return base64.b32encode(text).decode().rstrip("=").lower()


def named(identifier: str) -> Container | None:
    """Return what an id of `container_id` means; None if it is none."""
    padded = identifier.upper() + "=" * (-len(identifier) % 8)
    try:
        project, _, run = base64.b32decode(padded).decode().rpartition("/")
        check_place(project, run)
    except (binascii.Error, UnicodeError, ValueError, PathError):
        return None
    return Container(project, run)


def split_project(project: str) -> tuple[str, str]:
    """Return workspace and name of a project; the client knows no other paths than of two parts."""
    workspace, _, name = project.partition("/")
    return workspace, name


def key_of_project(project: str) -> str:
    """Return what the ids of runs in a project begin with where nobody chose it: ``"SAN"``."""
    letters = re.sub(r"[^A-Z0-9]", "", project.rpartition("/")[2].upper())
    return letters[:_KEY_CHARS] or "RUN"
