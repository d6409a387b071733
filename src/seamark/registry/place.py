"""Places where models and artifacts are recorded, found and numbered."""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from seamark.errors import PathError, RunNotNamedError, SeamarkError
from seamark.journal.folder import RunFolder
from seamark.journal.numbers import take_number
from seamark.opening.catalogs import first_remote, open_catalog, place_to_read
from seamark.opening.place import own_root
from seamark.options.checks import Tags, check_text
from seamark.options.run_options import WITHOUT_MEANING, refuse_unknown
from seamark.options.settings import check_argument, remotes_of
from seamark.paths import ARTIFACTS, MODELS, check_place, home_of
from seamark.remote.asking import call_within
from seamark.run.associated import find_among
from seamark.run.logbook import Logbook, LogSession
from seamark.run.objects import OBJECTS

if TYPE_CHECKING:
    from seamark.reading.catalog import Ref
    from seamark.reading.names import RunName

__all__ = ["NUMBER", "Place", "Registered", "check_arguments", "record_facts"]

log = logging.getLogger("seamark")

NUMBER: Final = "sys/version"
"""Path of the number of a version."""

Kind = TypeVar("Kind", bound="Registered")


@dataclass(frozen=True)
class Place:
    """Place where models or artifacts are recorded, and the place they are read from.

    Attributes:
        project: Project path.
        mode: See ``init_run``.
        root: Root folder.
        remotes: URIs of the remotes they are sent to.
        reads: Root or server that is read; None for the root.
        token: Token for remotes.
    """

    project: str
    mode: str
    root: Path
    remotes: tuple[str, ...]
    reads: Path | str | None
    token: str | None

    @classmethod
    def of(
        cls,
        project: str | None,
        mode: str | None,
        root: str | os.PathLike[str] | None,
        remote: str | Sequence[str] | None,
        token: str | None,
        *,
        named: bool,
        otherwise: Path | None = None,
    ) -> Place:
        """Check arguments, and ask the environment for what was not given.

        Args:
            project: Project path, as given, like all others.
            mode: See ``init_run``.
            root: The root.
            remote: Remotes to send to, or to read from.
            token: Token for remotes.
            named: Whether something that exists is named.
            otherwise: Root if none is given; None for the usual one.

        Raises:
            PathError: If the project breaks the grammar.
            ArgumentError: If another has no legal value.
        """
        path, stated = check_argument("project", project), check_argument("mode", mode)
        reads = place_to_read(root, remote) if stated == "read-only" else None
        own = otherwise if root is None and stated != "debug" else root
        where = own_root(stated, own, named=named)
        return cls(path, stated, where, remotes_of(remote, stated, token), reads, token)

    @property
    def remote(self) -> Path | str | None:
        """Address of the remote that is searched as well as the root; None if there is none."""
        if self.reads is not None or not self.remotes:
            return self.reads
        return place_to_read(None, first_remote(self.remotes))

    def find(self, word: str, kind: str) -> Ref:
        """Find a model, version or artifact by a word; return its path and its key, id or digest.

        Raises:
            RunNotFoundError: If there is none.
            ArgumentError: If several match.
        """
        if self.mode in ("disabled", "debug"):  # nothing is looked up or kept
            return _placeholder(self.project, word, kind)
        places = dict.fromkeys([self.reads or self.root, self.remote or self.root])
        return find_among(places, self.token, word, self.project, kind).ref

    def open(self, word: str, kind: str) -> LogSession:
        """Return the session of a model, version or artifact; see `find`."""
        return self.session(self.find(word, kind), is_new=False)

    def session(self, ref: Ref, *, is_new: bool = True) -> LogSession:
        """Return a session; nothing is on disk before something is recorded.

        Args:
            ref: Path below the project, and id.
            is_new: Whether it exists nowhere else if it is not on this disk.
        """
        folder = RunFolder(self.root, *ref)
        is_partial = not (is_new or self.mode == "read-only" or folder.exists())
        return LogSession(
            folder,
            self.mode,
            place=self.reads,
            remotes=self.remotes,
            token=self.token,
            is_partial=is_partial,
            fixed=OBJECTS if folder.kind == "artifact" else None,
        )

    def expect_writing(self, verb: str) -> None:
        """Refuse to make something new with ``mode="read-only"``.

        Raises:
            RunNotNamedError: If so.
        """
        if self.mode == "read-only":
            msg = f"{verb}: mode='read-only': expected with_id of an existing one, got none"
            raise RunNotNamedError(msg)

    def case_variant(self, place: str, name: str) -> str | None:
        """Return a folder on this disk that differs from a name by case alone."""
        there: list[str] = []
        with contextlib.suppress(OSError):
            there = os.listdir(self.root / place)  # noqa: PTH208 - names, and no paths
        others = (one for one in there if one != name)
        return next((one for one in others if one.casefold() == name.casefold()), None)

    def take_number(self, version: RunFolder) -> int:
        """Reserve the next number for a version; one that has a number keeps it.

        Raises:
            OSError: If this disk refuses.
        """
        from seamark.store.query.registered import number_of

        place, known = version.project, set()
        for at in dict.fromkeys((self.root, self.remote or self.root)):
            for one in self.names(at, place, version.kind):
                number = number_of(one)
                if one.project == place and number is not None:
                    if one.run == version.run:
                        return number
                    known.add(number)
        above, _, name = place.rpartition("/")
        folder, again = RunFolder(version.root, above, name), version.kind == "artifact"
        return take_number(folder, version.run, known, again=again)

    def names(self, at: Path | str, project: str, kind: str) -> list[RunName]:
        """Return the names in a root or on a server; none if that does not answer in time.

        Two processes may take one key or number then; that is resolved where both arrive.
        """

        def ask() -> list[RunName]:
            with contextlib.closing(open_catalog(at, self.token)) as catalog:
                catalog.refresh(project)
                return list(catalog.names(kind))

        try:
            return call_within(ask, "seamark-names") if isinstance(at, str) else ask()
        except (SeamarkError, OSError) as error:
            log.warning("seamark: %s cannot be asked for what is there: %s", at, error)
            return []


class Registered(Logbook):
    """A model, a version of one, or a version of an artifact."""

    @property
    def project(self) -> str:
        """Project path."""
        return home_of(self.folder.project)


def record_facts(
    made: Kind,
    facts: Mapping[str, Any] = MappingProxyType({}),
    *,
    name: str | None = None,
    description: str | None = None,
    tags: Tags | None = None,
) -> Kind:
    """Record the facts that a model, version or artifact was given; return it.

    Args:
        made: A model, a version of one, or a version of an artifact.
        facts: Derived values by path, of a new one.
        name: Display name; None or blank for none.
        description: Free text.
        tags: Words, and values by key.
    """
    recorder = made.session.recorder
    if not recorder.recording:
        return made
    if facts:
        made.start()
        recorder.values.assign_quietly(facts)
    if name and name.strip(" "):
        made["sys/name"] = name
    if description is not None:
        made["sys/description"] = description
    if tags and tags.words:
        made["sys/tags"].add(tags.words)
    if tags and tags.keyed:
        recorder.values.record_atoms(tags.keyed)
    return made


def _placeholder(project: str, word: str, kind: str) -> Ref:
    """Return a legal path and id for a word that is not looked up."""
    name = re.split("[:@]", word.rpartition("/")[2])[0]
    key, number = (name.split("-") * 2)[-2:]
    ref = {
        "model": (f"{project}/{MODELS}", number),
        "model_version": (f"{project}/{MODELS}/{key}", number),
        "artifact": (f"{project}/{ARTIFACTS}/{name}", "0" * 64),
    }[kind]
    try:
        check_place(*ref)
    except PathError:
        return _placeholder(project, "NONE", kind)
    return ref


def check_arguments(verb: Callable[..., object], others: Iterable[str], **texts: object) -> None:
    """Check arguments of a function that opens a project, model or artifact.

    Args:
        verb: The function.
        others: Names of further arguments that were given.
        **texts: Arguments that must be strings or None.

    Raises:
        UnknownArgumentError: If it has no argument of a name in ``others``.
        ArgumentError: If a text is none.
    """
    known = WITHOUT_MEANING - {"enable_remote_signals"} | inspect.signature(verb).parameters.keys()
    refuse_unknown(verb.__name__, others, known - {"others"})
    for what, text in texts.items():
        if text is not None:
            check_text(what, text)
