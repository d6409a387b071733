"""Names and ids of containers, and waiting until written data can be read."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from seamark.errors import PathError
from seamark.journal.folder import PROJECT_LOG
from seamark.paths import check_place, home_of, is_inside, kind_of

if TYPE_CHECKING:
    from seamark.server.state import Server

__all__ = [
    "Container",
    "container_id",
    "is_behind",
    "key_of_project",
    "named",
    "split_project",
    "wait_in",
]


_KEY_CHARS: Final = 3
_PARTS: Final = 2


class Container(NamedTuple):
    """A run, a project itself, a model or a version of one.

    `project` may be the place of models below one, see `seamark.paths.kind_of`; `run` is a run id,
    ``.project``, the key of a model, or the id of a version.
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
    """Return the id for the client: both names, encoded for file names and URLs.

    Nothing has to be looked up to know what it means, and it says nothing that its owner did not.
    """
    text = f"{container.project}/{container.run}".encode()
    return base64.b32encode(text).decode().rstrip("=").lower()


def named(identifier: str) -> Container | None:
    """Return the container of an id made by `container_id`; None for any other text."""
    padded = identifier.upper() + "=" * (-len(identifier) % 8)
    try:
        project, _, run = base64.b32decode(padded).decode().rpartition("/")
        check_place(project, run)
    except (binascii.Error, UnicodeError, ValueError, PathError):
        return None
    return Container(project, run)


def split_project(project: str) -> tuple[str, str]:
    """Return workspace and name of a project; the client accepts only paths of two parts."""
    workspace, _, name = project.partition("/")
    return workspace, name


def key_of_project(project: str) -> str:
    """Return the default prefix of run ids in a project, such as ``"SAN"``."""
    letters = re.sub(r"[^A-Z0-9]", "", project.rpartition("/")[2].upper())
    return letters[:_KEY_CHARS] or "RUN"


_PATIENCE_S: Final = 5.0
_MOST_WAITING: Final = 1000


def is_behind(server: Server, project: str) -> bool:
    """Return whether a project or a model in it may have runs that are not indexed yet."""
    waiting = server.kept.unfolded(_MOST_WAITING)
    return len(waiting) == _MOST_WAITING or any(is_inside(one.project, project) for one in waiting)


def wait_in(server: Server, project: str) -> None:
    """Wait a few seconds until everything in a project, or a place of models, is indexed."""
    waiting = server.kept.unfolded(_MOST_WAITING)
    wanted = {
        (one.project, one.run): one.position for one in waiting if is_inside(one.project, project)
    }
    if wanted:
        server.positions.wait_for_all(wanted, _PATIENCE_S)
