"""Runs that are the same experiment: which revision one is, and which exist already.

What is compared is what was given at the start: parameters, secrets hidden, and the version of the
code. What changes later changes ``sys/content_hash``, and no revision.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ArgumentError, DuplicateRunError, JournalError, SeamarkError
from seamark.journal.folder import RunFolder
from seamark.journal.twins import make_twin, twins_of
from seamark.process.interrupts import quietly
from seamark.process.job import restart_count
from seamark.process.rank import current_rank
from seamark.run.catalogs import first_remote, open_catalog, place_to_read
from seamark.values.content import VERSION, content_hash, is_parameter

if TYPE_CHECKING:
    from pathlib import Path

    from seamark.journal.twins import Twin
    from seamark.reading.catalog import Catalog
    from seamark.run.options import RunOptions

__all__ = ["HASH", "REVISION", "Revisions", "check_hash", "find_twin", "start_hash"]

log = logging.getLogger("seamark")

HASH: Final = "sys/start_hash"
"""What ``sys/content_hash`` was of what a run was given at its start."""
REVISION: Final = "sys/revision"
"""Which run it is of those that were given the same, 1-based."""
_PATIENCE_S: Final = 30.0
"""How long a run is waited for that another process is just about to make."""
_PAUSE_S: Final = 0.02
_TRIES: Final = 1000
_HASH: Final = re.compile("[0-9a-f]{32}")


def start_hash(options: RunOptions) -> str | None:
    """Return the hash of what a run is given at its start; None without parameters."""
    from seamark.run.writes import is_long

    atoms: dict[str, tuple[str, Any]] = {}
    for path, (kind, value) in options.hidden().atoms(options.params).items():
        atoms[path] = _as_kept(value) if kind == "string" and is_long(value) else (kind, value)
    if options.captures["script"]:
        from seamark.capture.code.executed import version_now

        with quietly():
            if version := version_now():
                atoms[VERSION] = ("string", version)
    return content_hash(atoms)


def _as_kept(text: str) -> tuple[str, dict[str, Any]]:
    data = text.encode()
    return "text", {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}


class Revisions:
    """Says which revision a run is that begins now, or which one it is to go on with.

    Args:
        options: Of the run.
        folder: Where it would be recorded.
    """

    def __init__(self, options: RunOptions, folder: RunFolder) -> None:
        self._options, self._folder = options, folder
        self.applies = (
            any(map(is_parameter, options.params))
            and not options.names_a_run
            and options.mode not in ("disabled", "read-only")
            and not current_rank().rank
        )

    def settled(self, *, take: bool) -> tuple[RunOptions, RunFolder, dict[str, Any]]:
        """Take a revision, or find the run that is the same, as ``on_duplicate`` says.

        Args:
            take: Whether the run begins at once; else its revision is taken when it does.

        Returns:
            Options and folder, of the other run where that is gone on with, and what is to be
            recorded of the revision.

        Raises:
            DuplicateRunError: If there is one, and ``on_duplicate="error"``.
            JournalError: If the root cannot be written to.
        """
        options, folder = self._options, self._folder
        if options.on_duplicate == "new" or not self.applies or restart_count():
            return options, folder, {}
        text = start_hash(options)
        assert text is not None  # noqa: S101 - there are parameters
        for _ in range(_TRIES):
            known = _known(folder, text)
            if (there := self._twin(known, text)) is not None:
                if options.on_duplicate == "error":
                    raise _duplicate(there, folder)
                log.info("seamark: run %s is the same and goes on", there)
                found = RunFolder(folder.root, folder.project, there)
                named = replace(options, with_id=f"{folder.project}/{there}", on_duplicate="new")
                return named, found, {}
            if not take:
                return options, folder, {}
            number = max((one.number for one in known), default=0) + 1
            if self._make(text, number):
                return options, folder, {HASH: text, REVISION: number}
        msg = f"on_duplicate: other processes begin the same run in {folder.project!r} all the time"
        raise JournalError(None, msg)

    def _make(self, text: str, number: int) -> bool:
        try:
            return make_twin(self._folder.path.parent, text, number, self._folder.run)
        except OSError as error:
            msg = f"root: expected a folder that can be written, got {self._folder.root}: {error}"
            raise JournalError(error.errno, msg) from error

    def _twin(self, known: list[Twin], text: str) -> str | None:
        """Return the newest run that is the same; waits for one that is just being made."""
        for one in reversed(known):
            place = replace(self._folder, run=one.run) if one.run else None
            until = time.monotonic() + _PATIENCE_S
            while one.is_coming and not (place and (place.is_purged or place.journals())):
                if time.monotonic() > until:
                    break
                time.sleep(_PAUSE_S)
                now = {each.number: each for each in _known(self._folder, text)}
                one = now.get(one.number, one)  # noqa: PLW2901 - it is being written
                place = replace(self._folder, run=one.run) if one.run else None
            if place and place.is_there() and not place.is_purged and not _is_trashed(place):
                return place.run
        return self._recorded(text)

    def _recorded(self, text: str) -> str | None:
        """Return the newest run that says it is the same, here or on the remote that is read."""
        options, folder = self._options, self._folder
        places: list[Path | str] = [folder.root]
        with quietly(only=SeamarkError):
            if options.remotes and (there := place_to_read(None, first_remote(options.remotes))):
                places.append(there)
        for place in places:
            try:
                if found := _asked(place, options.api_token, folder.project, text):
                    return found
            except (SeamarkError, OSError) as error:
                log.warning("seamark: %s cannot be asked for the same run: %s", place, error)
        return None

    def take(self) -> dict[str, Any]:
        """Take the next revision; nothing where that cannot be known. Never raises."""
        found: dict[str, Any] = {}

        def lost(error: Exception) -> None:
            log.warning("seamark: which revision this run is could not be recorded: %s", error)

        with quietly(lost):
            if self.applies and (text := start_hash(self._options)) is not None:
                known = _known(self._folder, text)
                number = max((one.number for one in known), default=0) + 1
                while not make_twin(self._folder.path.parent, text, number, self._folder.run):
                    number += 1
                found = {HASH: text, REVISION: number}
        return found


def _known(folder: RunFolder, text: str) -> list[Twin]:
    try:
        return twins_of(folder.path.parent, text)
    except OSError as error:
        msg = f"root: expected a folder that can be read, got {folder.path.parent}: {error}"
        raise JournalError(error.errno, msg) from error


def _is_trashed(folder: RunFolder) -> bool:
    with closing(open_catalog(folder.root)) as index:
        found = index.fresh_view(folder.project, folder.run).attribute("sys/trashed")
    return found is not None and found.value is True


def _asked(place: Path | str, token: str | None, project: str, text: str) -> str | None:
    with closing(open_catalog(place, token)) as catalog:
        catalog.refresh(project)
        return find_twin(catalog, project, text)


def check_hash(text: object, revision: object) -> None:
    """Refuse what can be no hash of a run, and no revision.

    Raises:
        ArgumentError: If one cannot.
    """
    if not isinstance(text, str) or not _HASH.fullmatch(text):
        msg = f"content_hash: expected 32 hexadecimal digits, got {text!r:.80}"
        raise ArgumentError(msg)
    is_number = isinstance(revision, int) and not isinstance(revision, bool) and revision > 0
    if revision is not None and not is_number:
        msg = f"revision: expected a number from 1 on, or None, got {revision!r:.80}"
        raise ArgumentError(msg)


def find_twin(catalog: Catalog, project: str, text: str, revision: int | None = None) -> str | None:
    """Return the id of the newest run of a project that is the same; None if there is none.

    Args:
        catalog: What has the runs, up to date.
        project: The project; runs of those below are others.
        text: Hash, as the run has it now or had it at its start.
        revision: Which of them; None for any.
    """
    from seamark.store.query.selection import Selection

    query = f'(sys/start_hash = "{text}" OR sys/content_hash = "{text}")'
    if revision is not None:
        query += f" AND sys/revision = {revision}"
    refs = catalog.select(Selection(project=project, query=query), lambda _: None)
    return next((run for at, run in refs if at == project), None)


def _duplicate(run: str, folder: RunFolder) -> DuplicateRunError:
    msg = (
        f"on_duplicate='error': run {run!r} of project {folder.project!r} has the same parameters "
        f"and the same code; on_duplicate='reuse' goes on with it, 'new' begins another"
    )
    return DuplicateRunError(msg)
