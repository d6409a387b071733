"""Places where models, versions of them and artifacts are recorded, found and numbered."""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.errors import (
    ArgumentError,
    PathError,
    RunNotNamedError,
    SeamarkError,
)
from seamark.journal.folder import RunFolder
from seamark.journal.numbers import take_number
from seamark.opening.catalogs import first_remote, open_catalog, place_to_read
from seamark.opening.place import own_root
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

__all__ = ["Place", "Registered", "check_arguments"]

log = logging.getLogger("seamark")


@dataclass(frozen=True)
class Place:
    """The place where models or artifacts are recorded, and the one they are read from.

    Attributes:
        project: Project path.
        mode: See ``init_run``.
        root: Root folder.
        remotes: URIs of what is sent to.
        reads: What is read in the place of the root; None for the root.
        token: To show to remotes.
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
        named: str | None,
        otherwise: Path | None = None,
    ) -> Place:
        """Check arguments, and ask the environment for what was not given.

        Args:
            project: As it was given, like all others.
            mode: See ``init_run``.
            root: The root.
            remote: What is sent to, or read from.
            token: To show to remotes.
            named: What ``with_id`` names.
            otherwise: The root where none is given; None for the usual one.

        Raises:
            PathError: If the project breaks the grammar.
            ArgumentError: If another has no legal value.
        """
        path, stated = check_argument("project", project), check_argument("mode", mode)
        reads = place_to_read(root, remote) if stated == "read-only" else None
        own = otherwise if root is None and stated != "debug" else root
        where = own_root(stated, own, named=named is not None)
        return cls(path, stated, where, remotes_of(remote, stated, token), reads, token)

    @property
    def remote(self) -> Path | str | None:
        """Address of the remote that is asked beside the root; None if there is none."""
        if self.reads is not None or not self.remotes:
            return self.reads
        return place_to_read(None, first_remote(self.remotes))

    def find(self, word: str, kind: str) -> Ref:
        """Return where what a word means lies, and its key, id or digest.

        Raises:
            RunNotFoundError: If nothing is meant.
            ArgumentError: If several may be.
        """
        if self.mode in ("disabled", "debug"):  # nobody looks for it, and nothing there is kept
            return _placeholder(self.project, word, kind)
        places = dict.fromkeys([self.reads or self.root, self.remote or self.root])
        return find_among(places, self.token, word, self.project, kind).ref

    def open(self, word: str, kind: str) -> LogSession:
        """Return this process's part in what a word means; see `find`."""
        return self.session(self.find(word, kind), is_new=False)

    def session(self, ref: Ref, *, is_new: bool = True) -> LogSession:
        """Return this process's part in a log; nothing is on disk before something is recorded.

        Args:
            ref: Place below the project, and id.
            is_new: Whether it exists nowhere else, either, if nothing of it is on this disk.
        """
        folder = RunFolder(self.root, *ref)
        is_partial = not (is_new or self.mode == "read-only" or folder.is_there())
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
        """Refuse to make something that is to be read only.

        Raises:
            RunNotNamedError: If so.
        """
        if self.mode == "read-only":
            msg = f"{verb}: mode='read-only': expected with_id of an existing one, got none"
            raise RunNotNamedError(msg)

    def case_variant(self, place: str, name: str) -> str | None:
        """Return what lies in a place of this disk and differs from a name by case alone."""
        there: list[str] = []
        with contextlib.suppress(OSError):
            there = os.listdir(self.root / place)  # noqa: PTH208 - names, and no paths
        others = (one for one in there if one != name)
        return next((one for one in others if one.casefold() == name.casefold()), None)

    def take_number(self, version: RunFolder) -> int:
        """Take the next number for a version; one that has a number keeps it.

        Raises:
            OSError: If this disk refuses.
        """
        from seamark.store.query.registered import number_of

        place, known = version.project, set()
        for at in dict.fromkeys((None, self.remote)):
            for one in self.names(at, place, version.kind):
                number = number_of(one)
                if one.project == place and number is not None:
                    if one.run == version.run:
                        return number
                    known.add(number)
        above, _, name = place.rpartition("/")
        folder, again = RunFolder(version.root, above, name), version.kind == "artifact"
        return take_number(folder, version.run, known, again=again)

    def names(self, at: Path | str | None, project: str, kind: str) -> list[RunName]:
        """Return what is in a place; nothing if it cannot be asked: recording is not to wait.

        Two that took one key or number then are put together, or apart, where both arrive.
        """

        def ask() -> list[RunName]:
            with contextlib.closing(open_catalog(at or self.root, self.token)) as catalog:
                catalog.refresh(project)
                return list(catalog.names(kind))

        try:
            return call_within(ask, "seamark-names") if isinstance(at, str) else ask()
        except (SeamarkError, OSError) as error:
            where = at or self.root
            log.warning("seamark: %s cannot be asked for what is there: %s", where, error)
            return []


class Registered(Logbook):
    """A model, a version of one, or a version of an artifact."""

    @property
    def project(self) -> str:
        """Project path."""
        return home_of(self.folder.project)


def _placeholder(project: str, word: str, kind: str) -> Ref:
    """Return where something would lie, for a word that nobody looks up."""
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
    """Check arguments of a function that opens something registered.

    Args:
        verb: The function.
        others: Names of what was given that it does not name.
        **texts: Those of its arguments that are strings, or None.

    Raises:
        UnknownArgumentError: If it has no argument of a name in ``others``.
        ArgumentError: If a text is none.
    """
    known = WITHOUT_MEANING - {"enable_remote_signals"} | inspect.signature(verb).parameters.keys()
    refuse_unknown(verb.__name__, others, known - {"others"})
    for what, text in texts.items():
        if text is not None and not isinstance(text, str):
            msg = f"{what}: expected a string or None, got {type(text).__name__}"
            raise ArgumentError(msg)
