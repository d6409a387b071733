"""Places of models, model versions and artifacts, and the catalogs that find them."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.errors import ArgumentError, RunNotNamedError, SeamarkError
from seamark.journal.folder import RunFolder
from seamark.opening.catalogs import first_remote, open_catalog, place_to_read
from seamark.opening.place import own_root
from seamark.options.settings import check_argument, remotes_of
from seamark.remote.asking import call_within
from seamark.run.logbook import Logbook, LogSession
from seamark.run.through import Through

if TYPE_CHECKING:
    from seamark.reading.catalog import Catalog

__all__ = ["Place", "check_texts", "expect_writing", "names_there", "session_at", "tell"]


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
    def asked(self) -> Path | str | None:
        """Address of the remote that is asked beside the root; None if there is none."""
        if self.reads is not None or not self.remotes:
            return self.reads
        return place_to_read(None, first_remote(self.remotes))

    def folder(self, project: str, run: str) -> RunFolder:
        """Return the folder of a model or version, of a place below a project."""
        return RunFolder(self.root, project, run)

    @contextlib.contextmanager
    def catalog(self, project: str, place: Path | str | None) -> Iterator[Catalog]:
        """Open what has the models of a project, or of a place below it, up to date."""
        with contextlib.closing(open_catalog(place or self.root, self.token)) as catalog:
            catalog.refresh(project or None)
            yield catalog


def check_texts(**given: object) -> None:
    """Make sure that arguments are strings, or None.

    Raises:
        ArgumentError: If one is not.
    """
    for what, text in given.items():
        if text is not None and not isinstance(text, str):
            msg = f"{what}: expected a string or None, got {type(text).__name__}"
            raise ArgumentError(msg)


def session_at(
    place: Place, ref: tuple[str, str], *, elsewhere: bool = False, fixed: str | None = None
) -> LogSession:
    """Return this process's part in a log; nothing is on disk before something is recorded.

    Args:
        place: Where it is recorded.
        ref: Place below the project, and id.
        elsewhere: Whether nothing of it lies on this disk.
        fixed: Path at and below which nothing is changed; None if there is none.
    """
    partly = elsewhere and place.mode != "read-only"
    through = Through(place.remotes, place.token, lambda: True) if partly else None
    return LogSession(
        place.folder(*ref),
        place.mode,
        place=place.reads,
        remotes=place.remotes,
        token=place.token,
        through=through,
        fixed=fixed,
    )


def expect_writing(place: Place, verb: str) -> None:
    """Refuse to make something that is to be read only.

    Raises:
        RunNotNamedError: If so.
    """
    if place.mode == "read-only":
        msg = f"{verb}: mode='read-only': expected with_id of an existing one, got none"
        raise RunNotNamedError(msg)


def tell(made: Logbook, facts: dict[str, Any]) -> None:
    """Record what is known from the start; here something is made on disk."""
    if made.session.recorder.recording:
        made.start()
        made.session.recorder.assign_quietly(facts)


def names_there(place: Place, at: Path | str | None, project: str, kind: str) -> list[Any]:
    """Return what is in a place; nothing if it cannot be asked: recording is not to wait for it.

    Two that took one key or number then are put together, or apart, where both arrive.
    """

    def ask() -> list[Any]:
        with place.catalog(project, at) as catalog:
            return list(catalog.names(kind))

    try:
        return call_within(ask, "seamark-names") if isinstance(at, str) else ask()
    except (SeamarkError, OSError) as error:
        where = at or place.root
        log.warning("seamark: %s cannot be asked for what is there: %s", where, error)
        return []
