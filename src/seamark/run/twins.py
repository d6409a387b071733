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
from seamark.reading.twins import COMING_S
from seamark.remote.protocol import RunKey
from seamark.run.asking import settling
from seamark.run.catalogs import first_remote, open_catalog
from seamark.run.code_version import StartVersion
from seamark.values.content import VERSION, content_hash, is_parameter

if TYPE_CHECKING:
    from seamark.journal.twins import Twin
    from seamark.reading.twins import Same
    from seamark.run.options import RunOptions

__all__ = ["HASH", "REVISION", "Revisions", "check_hash", "start_hash"]

log = logging.getLogger("seamark")

HASH: Final = "sys/start_hash"
"""What ``sys/content_hash`` was of what a run was given at its start."""
REVISION: Final = "sys/revision"
"""Which run it is of those that were given the same, 1-based."""
_PAUSE_S: Final = 0.02
_AGAIN_S: Final = 0.2
"""After how long a remote is asked again for a run that another machine is about to make."""
_HASH: Final = re.compile("[0-9a-f]{32}")


def start_hash(options: RunOptions, version: StartVersion) -> str | None:
    """Return the hash of what a run is given at its start; None without parameters.

    Args:
        options: Of the run.
        version: Of its code.
    """
    from seamark.run.writes import is_long

    secrets = options.hidden()
    atoms: dict[str, tuple[str, Any]] = {}
    for path, (kind, value) in secrets.atoms(options.params).items():
        atoms[path] = _as_kept(value) if kind == "string" and is_long(value) else (kind, value)
    if version.text:
        atoms[VERSION] = ("string", secrets.text(version.text))
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
        self._is_alone = False
        self.applies = (
            any(map(is_parameter, options.params))
            and not options.names_a_run
            and options.mode not in ("disabled", "read-only")
            and not current_rank().rank
        )

    def settled(self, *, take: bool) -> tuple[RunOptions, RunFolder, dict[str, Any]]:
        """Take a revision, or find the run that is the same, as ``on_duplicate`` says.

        A remote that is read settles it for all machines that send there. Where it does not answer
        within 30 s, or cannot say, this disk does, and a line says so.

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
        text = start_hash(options, StartVersion.of(options))
        assert text is not None  # noqa: S101 - there are parameters
        until = time.monotonic() + 2 * COMING_S
        while time.monotonic() < until:
            known = _known(folder, text)
            found = self._twin(known, text)
            far = self._there(text, take=take) if found is None else None
            if far is not None and far.run != folder.run:
                found = far.run
            if found is not None:
                if options.on_duplicate == "error":
                    raise _duplicate(found, folder)
                if far is not None and not far.is_there:
                    time.sleep(_AGAIN_S)  # another machine is about to make it
                    continue
                log.info("seamark: run %s is the same and goes on", found)
                there = RunFolder(folder.root, folder.project, found)
                named = replace(options, with_id=f"{folder.project}/{found}", on_duplicate="new")
                return named, there, {}
            if not take:
                return options, folder, {}
            number = max((one.number for one in known), default=0) + 1
            number = max(number, (far and far.number) or 0)
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
        """Return the newest run here that is the same; waits for one that is just being made."""
        from seamark.local.remote import is_trashed

        for one in reversed(known):
            place = replace(self._folder, run=one.run) if one.run else None
            until = time.monotonic() + COMING_S
            while one.is_coming and not (place and (place.is_purged or place.journals())):
                if time.monotonic() > until:
                    break
                time.sleep(_PAUSE_S)
                now = {each.number: each for each in _known(self._folder, text)}
                one = now.get(one.number, one)  # noqa: PLW2901 - it is being written
                place = replace(self._folder, run=one.run) if one.run else None
            if place and place.is_there() and not place.is_purged and not is_trashed(place):
                return place.run
        from seamark.store.query.twins import find_twin

        folder = self._folder
        try:
            with closing(open_catalog(folder.root)) as index:
                index.refresh(folder.project)
                return find_twin(index, folder.project, text)
        except (SeamarkError, OSError) as error:
            log.warning("seamark: %s cannot be asked for the same run: %s", folder.root, error)
        return None

    def _there(self, text: str, *, take: bool) -> Same | None:
        """Ask the remote that is read; None if there is none, or it cannot say."""
        options, key = self._options, RunKey(self._folder.project, self._folder.run)
        uri = first_remote(options.remotes)
        if uri is None or self._is_alone:
            return None
        try:
            found = settling(
                uri, options.api_token, lambda one: one.twin(key, text, take=take), COMING_S
            )
            why = "it cannot say"
        except Exception as error:  # noqa: BLE001 - it may be somebody else's
            found, why = None, str(error)[:400]
        if found is None:
            self._is_alone = True
            log.warning(
                "seamark: %s was not asked for the same run: %s. What is recorded on this disk "
                "decides: another machine may begin the same one",
                *(uri, why),
            )
        return found

    def take(self, version: StartVersion) -> dict[str, Any]:
        """Take the next revision; nothing where that cannot be known. Never raises.

        Args:
            version: Of the code.
        """
        found: dict[str, Any] = {}

        def lost(error: Exception) -> None:
            log.warning("seamark: which revision this run is could not be recorded: %s", error)

        with quietly(lost):
            if self.applies and (text := start_hash(self._options, version)) is not None:
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


def _duplicate(run: str, folder: RunFolder) -> DuplicateRunError:
    msg = (
        f"on_duplicate='error': run {run!r} of project {folder.project!r} has the same parameters "
        f"and the same code; on_duplicate='reuse' goes on with it, 'new' begins another"
    )
    return DuplicateRunError(msg)
