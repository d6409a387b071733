"""Waiting until what was acknowledged before can be found among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from seamark.paths import is_inside

if TYPE_CHECKING:
    from seamark.server.state import Server

__all__ = ["is_behind", "wait_in"]

_PATIENCE_S: Final = 5.0
_MOST_WAITING: Final = 1000


def is_behind(server: Server, project: str) -> bool:
    """Return whether a project, or a model in it, may hold what cannot be found yet."""
    waiting = server.kept.unfolded(_MOST_WAITING)
    return len(waiting) == _MOST_WAITING or any(is_inside(one.project, project) for one in waiting)


def wait_in(server: Server, project: str) -> None:
    """Wait until all that a project holds, and the models in it, can be found, or a few seconds.

    Args:
        server: Which keeps it.
        project: Project path, or the place of models or of versions.
    """
    waiting = server.kept.unfolded(_MOST_WAITING)
    wanted = {
        (one.project, one.run): one.position for one in waiting if is_inside(one.project, project)
    }
    if wanted:
        server.positions.wait_for_all(wanted, _PATIENCE_S)
