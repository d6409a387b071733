"""Keyed tags: what a container has of its own, and what the projects above it say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from seamark.errors import ArgumentError, RunNotFoundError
from seamark.journal.folder import PROJECT_LOG
from seamark.paths import home_of
from seamark.process.interrupts import quietly
from seamark.run.options import TAGS
from seamark.values import Atom, decode_atom, encode_atom

if TYPE_CHECKING:
    from seamark.reading.attributes import Attribute
    from seamark.run.recorded import Recorded

__all__ = ["TagCheck", "is_tag", "tags_of"]

_BELOW = f"{TAGS}/"


def is_tag(path: str) -> bool:
    """Return whether a path is that of a keyed tag."""
    return path.startswith(_BELOW)


def tags_of(attributes: Iterable[Attribute]) -> dict[str, Any]:
    """Return the values of keyed tags by key."""
    return {
        one.path[len(_BELOW) :]: one.value
        for one in attributes
        if one.family == "atom" and is_tag(one.path)
    }


class TagCheck:
    """Refuses a keyed tag that a project above defines.

    The projects are asked once, when the first keyed tag is recorded; what cannot be read then is
    no error. What is written all the same is kept, and readers show it as a conflict.

    Args:
        recorded: What reads the container.
    """

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded
        self._defined: dict[str, tuple[str, Atom]] | None = None

    def expect(self, atoms: Mapping[str, Atom]) -> None:
        """Refuse values that projects above have other ones for.

        Raises:
            ArgumentError: If there is one; the project is named.
        """
        if not any(map(is_tag, atoms)):
            return
        if self._defined is None:
            self._defined = self._ask()
        for path, atom in atoms.items():
            project, wanted = self._defined.get(path, ("", atom))
            if wanted != atom:
                value = decode_atom(wanted.type, wanted.value)
                msg = (
                    f"tags: {path[len(_BELOW) :]!r} is {value!r:.80} in all of project "
                    f"{project!r} and cannot be set below it, "
                    f"got {decode_atom(atom.type, atom.value)!r:.80}"
                )
                raise ArgumentError(msg)

    def _ask(self) -> dict[str, tuple[str, Atom]]:
        found: dict[str, tuple[str, Atom]] = {}
        folder = self._recorded.folder
        parts = home_of(folder.project).split("/")
        most = len(parts) - (folder.run == PROJECT_LOG)
        for end in range(most, 0, -1):  # the uppermost last: it counts
            project = "/".join(parts[:end])
            for one in self._tags_in(project):
                found[one.path] = (project, encode_atom(one.value))
        return found

    def _tags_in(self, project: str) -> list[Attribute]:
        """Return the keyed tags in the log of a project, nothing where that cannot be read."""
        with quietly():
            try:
                reader = self._recorded.log_of(project)
                return [] if reader is None else reader.attributes(TAGS)
            except RunNotFoundError:
                return []
        return []
