"""Keyed tags of a container, and those that the projects above it define."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING, Any

from seamark.errors import ArgumentError
from seamark.journal.folder import PROJECT_LOG
from seamark.opening.catalogs import first_remote, open_catalog, readable
from seamark.options.checks import TAGS
from seamark.paths import projects_above
from seamark.process.interrupts import quietly
from seamark.remote.asking import call_within
from seamark.values import Atom, decode_atom, encode_atom

if TYPE_CHECKING:
    from seamark.reading.attributes import Attribute
    from seamark.reading.reader import Reader
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

    The projects are asked once, when the first keyed tag is recorded: what this disk has of them,
    and what the server has that the container is sent to. What cannot be read then is no error.
    What is written all the same is kept, and readers show it as a conflict.

    Args:
        recorded: Reader of the container.
        remotes: URIs of the remotes that it is sent to.
        token: Token for them; None has each look for one.
    """

    def __init__(
        self, recorded: Recorded, remotes: tuple[str, ...] = (), token: str | None = None
    ) -> None:
        self._recorded, self._remotes, self._token = recorded, remotes, token

    def expect(self, atoms: Mapping[str, Atom]) -> None:
        """Refuse values that projects above have other ones for.

        Raises:
            ArgumentError: If there is one; the project is named.
        """
        if not any(map(is_tag, atoms)):
            return
        defined, _ = self._defined
        for path, atom in atoms.items():
            project, wanted = defined.get(path, ("", atom))
            if wanted != atom:
                value = decode_atom(wanted.type, wanted.value)
                msg = (
                    f"tags: {path[len(_BELOW) :]!r} is {value!r:.80} in all of project "
                    f"{project!r} and cannot be set below it, "
                    f"got {decode_atom(atom.type, atom.value)!r:.80}"
                )
                raise ArgumentError(msg)

    def server_tags(self) -> dict[str, Any]:
        """Return the values by key of what projects say on the server, and not on this disk."""
        _, far = self._defined
        return {path[len(_BELOW) :]: decode_atom(*atom) for path, atom in far.items()}

    @cached_property
    def _defined(self) -> tuple[dict[str, tuple[str, Atom]], dict[str, Atom]]:
        """Tags that projects define, each with its project, and those that only the server has."""
        folder, far = self._recorded.folder, dict[str, Atom]()
        above = projects_above(folder.project, folder.run)
        found = _tags_of(above, self._recorded.log_of)
        with quietly():
            if (place := self._server()) is not None:

                def ask() -> dict[str, tuple[str, Atom]]:
                    with closing(open_catalog(place, self._token)) as catalog:
                        return _tags_of(above, lambda one: catalog.fresh_view(one, PROJECT_LOG))

                there = call_within(ask, "seamark-tags")
                # Of one key the uppermost project counts, wherever that was said.
                upper = {project: at for at, project in enumerate(above)}
                for path, (project, atom) in there.items():
                    if path not in found or upper[project] <= upper[found[path][0]]:
                        found[path], far[path] = (project, atom), atom
        return found, far

    def _server(self) -> str | None:
        """Return the address of the server that the container is sent to, and not read from."""
        if self._recorded.remote or self._recorded.silent:
            return None
        uri = first_remote(self._remotes)
        place = None if uri is None else readable(uri)
        return place if isinstance(place, str) else None


def _tags_of(
    above: Sequence[str], log_of: Callable[[str], Reader | None]
) -> dict[str, tuple[str, Atom]]:
    """Return the keyed tags of projects: project and value by path.

    Args:
        above: The projects, the uppermost first.
        log_of: Reads the log of one; what raises says nothing.
    """
    found: dict[str, tuple[str, Atom]] = {}
    for project in reversed(above):  # the uppermost last: it counts
        with quietly():
            reader = log_of(project)
            for one in [] if reader is None else reader.attributes(TAGS):
                found[one.path] = (project, encode_atom(one.value))
    return found
