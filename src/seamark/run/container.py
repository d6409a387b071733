"""Base class of runs and projects: a tree of attributes, and keyed tags."""

from __future__ import annotations

import threading
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from seamark.errors import ArgumentError, FamilyError
from seamark.opening.place import open_catalog, remote_to_read
from seamark.options.checks import TAGS
from seamark.paths import PROJECT_LOG, check_writable, given_path, is_inside, projects_above
from seamark.pictures.printing import show
from seamark.process.interrupts import quietly
from seamark.reading.html import html_or_text
from seamark.remote.arrival import call_within
from seamark.run.handler import Handler
from seamark.run.lifecycle import NEW, STOPPED
from seamark.run.recordable import Recordable
from seamark.run.recorded import nest, structure_lines
from seamark.run.recorder import Part
from seamark.values import Atom, decode_atom, encode_atom

if TYPE_CHECKING:
    from typing_extensions import Self

    from seamark.journal.folder import RunFolder
    from seamark.reading.reader import Reader
    from seamark.run.recorded import Recorded


_BELOW = f"{TAGS}/"


def is_tag(path: str) -> bool:
    """Return whether a path is that of a keyed tag."""
    return path.startswith(_BELOW)


class TagCheck:
    """Check that keyed tags do not contradict those of the projects above.

    The projects are read once, when the first keyed tag is recorded: from this disk, and from the
    server to which the container is sent. A failure to read them is not an error. A contradicting
    tag that is recorded anyway is kept, and readers show it as a conflict.
    """

    def __init__(
        self, recorded: Recorded, remotes: tuple[str, ...] = (), token: str | None = None
    ) -> None:
        self._recorded, self._remotes, self._token = recorded, remotes, token

    def expect(self, atoms: Mapping[str, Atom]) -> None:
        """Raise `ArgumentError` for values that differ from those of projects above."""
        if not any(map(is_tag, atoms)):
            return
        defined, _ = self._defined
        for path, atom in atoms.items():
            project, wanted = defined.get(path, ("", atom))
            if wanted != atom:
                value = decode_atom(wanted.type, wanted.value)
                raise ArgumentError(
                    f"tags: {path[len(_BELOW) :]!r} is {value!r:.80} throughout project "
                    f"{project!r} and cannot be set below it, "
                    f"got {decode_atom(atom.type, atom.value)!r:.80}"
                )

    def server_tags(self) -> dict[str, Any]:
        """Return the keyed tags of projects that only the server has."""
        _, far = self._defined
        return {path[len(_BELOW) :]: decode_atom(*atom) for path, atom in far.items()}

    @cached_property
    def _defined(self) -> tuple[dict[str, tuple[str, Atom]], dict[str, Atom]]:
        """Tags of projects, each with its project, and those that only the server has."""
        folder, far = self._recorded.folder, dict[str, Atom]()
        above = projects_above(folder.project, folder.run)
        found = _tags_of(above, self._recorded.log_of)
        with quietly():
            if (place := self._server()) is not None:

                def ask() -> dict[str, tuple[str, Atom]]:
                    with closing(open_catalog(place, self._token)) as catalog:
                        return _tags_of(above, lambda one: catalog.fresh_view(one, PROJECT_LOG))

                there = call_within(ask, "seamark-tags")
                # For each key the topmost project counts, whether on this disk or on the server.
                upper = {project: at for at, project in enumerate(above)}
                for path, (project, atom) in there.items():
                    if path not in found or upper[project] <= upper[found[path][0]]:
                        found[path], far[path] = (project, atom), atom
        return found, far

    def _server(self) -> str | None:
        if self._recorded.remote or self._recorded.silent:
            return None
        place = remote_to_read(self._remotes)
        return place if isinstance(place, str) else None


def _tags_of(
    above: Sequence[str], log_of: Callable[[str], Reader | None]
) -> dict[str, tuple[str, Atom]]:
    found: dict[str, tuple[str, Atom]] = {}
    for project in reversed(above):  # the topmost comes last and counts
        with quietly():
            reader = log_of(project)
            for one in [] if reader is None else reader.attributes(TAGS):
                found[one.path] = (project, encode_atom(one.value))
    return found


def _leaf(value: Any) -> Any:
    # Return a value, so that code which walks nested dicts ends here.
    return MappingProxyType(value) if isinstance(value, dict) and value else value


class _Opening(ABCMeta):
    # Makes ``Run(...)`` and ``Project(...)`` the same as ``init_run`` and ``init_project``.

    def __call__(cls, *given: Any, **named: Any) -> Any:
        made = bool(given) and isinstance(given[0], Part)
        return super().__call__(*given, **named) if made else cls._opened(*given, **named)

    def _opened(cls, *given: Any, **named: Any) -> Any:
        return super().__call__(*given, **named)


class Container(Recordable, metaclass=_Opening):
    """A tree of attributes under slash-separated paths; `Run` and `Project` are the two kinds.

    Item access returns a `Handler` with the methods for a path; ``container["a/b"] = value``
    assigns; ``"a/b" in container`` is true if something is recorded there. Iterating over a run
    yields the names of the first level.
    """

    _path = ""
    container_type: ClassVar[str]
    """Kind in Neptune's words: ``"run"`` or ``"project"``."""

    def __init__(self, session: Part) -> None:
        self.session = session

    @property
    def _session(self) -> Part:
        return self.session

    @property
    def folder(self) -> RunFolder:
        """Folder of the run or project."""
        return self.session.recorder.folder

    @property
    def mode(self) -> str:
        """See ``init_run``."""
        return self.session.recorder.mode

    # ---------------------------------------------------------------- item access

    def _repr_html_(self) -> str:
        from seamark.pictures.notebook import page_of

        folder, recorded = self.folder, self.session.recorded
        return html_or_text(lambda: page_of(recorded, folder.project, folder.run), self.__repr__)

    def __getitem__(self, path: str) -> Handler:
        return Handler(self, given_path(path))

    def __setitem__(self, path: str, value: Any) -> None:
        self.session.recorder.values.assign(given_path(path), value)  # without a handler: quicker

    # ---------------------------------------------------------------- writing

    def define(self, path: str, value: Any, *, wait: bool = False) -> Handler:
        """Assign a value at a path that holds nothing, and return the path's handler.

        Raises:
            FamilyError: If something is recorded there.
            ValueKindError: If the value cannot be kept.
        """
        handler = self[path]
        if self.exists(path):
            raise FamilyError(f"{path!r} already has a value: assign to it instead")
        handler.assign(value, wait=wait)
        return handler

    def pop(self, path: str, *, wait: bool = False) -> None:
        """Delete a path and everything below it, which frees it for another family.

        Raises:
            MissingFieldError: If there is nothing.
        """
        recorder, at = self.session.recorder, check_writable(given_path(path))
        if (writer := recorder.to_share(at)) is not None:
            is_known = any(is_inside(known, at) for known in writer.families)
            if not is_known and not self.exists(at):
                raise self.session.recorded.missing(at)
        recorder.values.delete(at)

    # ---------------------------------------------------------------- reading

    def exists(self, path: str) -> bool:
        """Return whether something is recorded at a path or below it.

        Raises:
            PathError: If the path breaks the grammar.
        """
        return self.session.recorded.exists(given_path(path))

    def fetch(self) -> dict[str, Any]:
        """Return the values of all atoms as a nested dict."""
        return self.session.recorded.atoms()

    @property
    def tags(self) -> dict[str, Any]:
        """Keyed tags by key, as recorded up to now, with those of the projects above.

        They are kept under ``tags/``; tags without a key are those of ``sys/tags``.
        """
        found = self.session.recorded.attributes(TAGS)
        atoms = {one.path: one.value for one in found if one.family == "atom"}
        return {path[len(_BELOW) :]: atoms[path] for path in filter(is_tag, atoms)}

    def get_structure(self) -> dict[str, Any]:
        """Return all recorded attributes as a nested dict.

        If ``a`` and ``a/b`` both exist, the value of ``a`` is under the key ``""``. Facts about a
        file are a mapping but not a dict: dicts are namespaces.
        """
        return nest({one.path: _leaf(one.value) for one in self.session.recorded.attributes()})

    def print_structure(self) -> None:
        """Print the tree of paths with their types."""
        types = {one.path: one.type for one in self.session.recorded.attributes()}
        for line in structure_lines(nest(types)):
            show(line)

    def get_attribute_type(self, path: str) -> str:
        """Return the type at a path: ``"float"``, ``"string"``, ... for atoms, else the family.

        Raises:
            MissingFieldError: If nothing is recorded there.
        """
        return self.session.recorded.attribute(given_path(path)).type

    def get_attribute(self, path: str) -> Handler | dict[str, Any] | None:
        """Return the handler of a recorded path, or None if nothing is recorded there.

        For a namespace, return nested dicts of handlers by name; if ``a`` and ``a/b`` both exist,
        return the handler of ``a``.
        """
        at = given_path(path)
        found = self.session.recorded.families(at)
        if not found or at in found:
            return self[at] if found else None
        return nest({one: self[one] for one in found}, at)

    def set_attribute(self, path: str, attribute: Any) -> Any:
        """Return ``attribute``, and record nothing.

        In Neptune this defines the type of a path; here the type follows from the recorded values.
        """
        given_path(path)
        return attribute

    def get_state(self) -> str:
        """Return ``"created"``, ``"started"`` or ``"stopped"``.

        This is the state of this object, in Neptune's terms.
        """
        phase = self.session.lifecycle.phase
        return {NEW: "created", STOPPED: "stopped"}.get(phase, "started")

    def lock(self) -> threading.RLock:
        """Return a lock that callers can share; Seamark itself never acquires it."""
        return self.__dict__.setdefault("_lock", threading.RLock())  # type: ignore[no-any-return]

    def ping(self) -> None:
        """Do nothing: a heartbeat is recorded automatically."""

    def start(self) -> None:
        """Start recording, unless that has happened; `init_run` does it."""
        if self.session.recorder.recording:
            self.session.recorder.to_write()

    def get_url(self) -> str:
        """Return its folder as a ``file://`` URL."""
        return self.folder.path.as_uri()

    def get_root_object(self) -> Self:
        """Return this object; handlers return the object that they belong to."""
        return self

    # ---------------------------------------------------------------- waiting and the end

    def wait(self, *, disk_only: bool = False) -> None:
        """Wait until every uploaded file is stored; values are on disk already."""
        self.session.recorder.contents.flush()

    def sync(self, *, wait: bool = True) -> None:
        """Call `wait`; kept for code written for Neptune."""
        if wait:
            self.wait()

    @abstractmethod
    def stop(self, *, seconds: float | None = None) -> None:
        """Stop recording."""
