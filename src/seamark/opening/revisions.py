"""Runs that are the same experiment: which revision one is, and which exist already.

What is compared is what was given at the start: parameters, secrets hidden, and the version of the
code. What changes later changes ``sys/content_hash``, and no revision.
"""

from __future__ import annotations

import hashlib
import logging
import re
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ArgumentError, DuplicateRunError
from seamark.journal.format import is_long
from seamark.journal.numbers import take_revision
from seamark.opening.catalogs import first_remote, open_catalog, readable
from seamark.opening.code_version import StartVersion
from seamark.process import fork
from seamark.process.interrupts import quietly
from seamark.process.job import restart_count
from seamark.process.rank import current_rank
from seamark.remote.asking import call_within
from seamark.values.content import VERSION, content_hash, is_parameter

if TYPE_CHECKING:
    from pathlib import Path

    from seamark.journal.folder import RunFolder
    from seamark.options.settings import Settings

__all__ = ["HASH", "REVISION", "Revisions", "check_hash", "start_hash"]

log = logging.getLogger("seamark")

HASH: Final = "sys/start_hash"
"""What ``sys/content_hash`` was of what a run was given at its start."""
REVISION: Final = "sys/revision"
"""Which run it is of those that were given the same, 1-based."""
_HASH: Final = re.compile("[0-9a-f]{32}")


def start_hash(options: Settings, version: StartVersion) -> str | None:
    """Return the hash of what a run is given at its start; None without parameters.

    Args:
        options: Of the run.
        version: Of its code.
    """
    secrets = options.hidden()
    atoms: dict[str, tuple[str, Any]] = {}
    for path, (kind, value) in secrets.atoms(options.params).items():
        atoms[path] = _stored_form(value) if kind == "string" and is_long(value) else (kind, value)
    if version.text:
        atoms[VERSION] = ("string", secrets.text(version.text))
    return content_hash(atoms)


def _stored_form(text: str) -> tuple[str, dict[str, Any]]:
    data = text.encode()
    return "text", {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}


class Revisions:
    """Numbers a run that begins among those that were given the same, or finds one of them.

    Args:
        options: Of the run.
        folder: Where it would be recorded.
    """

    def __init__(self, options: Settings, folder: RunFolder) -> None:
        self._options, self._folder = options, folder
        self.applies = (
            any(map(is_parameter, options.params))
            and not options.names_a_run
            and options.mode not in ("disabled", "read-only")
            and not current_rank().rank
        )

    def find_duplicate(self) -> RunFolder | None:
        """Return the newest run that is the same and is to go on; None begins another.

        Runs on this disk are looked at first, then those at the remote that is read. Where that
        does not answer, a line says so and this disk decides alone. A run that another process is
        only about to begin is not seen: who needs exactly one run claims it.

        Raises:
            DuplicateRunError: If there is one, and ``on_duplicate="error"``.
        """
        options, folder = self._options, self._folder
        if options.on_duplicate == "new" or not self.applies or restart_count():
            return None
        text = start_hash(options, StartVersion.of(options))
        assert text is not None  # noqa: S101 - there are parameters
        uri = first_remote(options.remotes)
        places = [folder.root] if uri is None else [folder.root, readable(uri)]
        found = next(filter(None, (self._find_in(place, text) for place in places)), None)
        if found is None:
            return None
        if options.on_duplicate == "error":
            raise _duplicate(found, folder)
        log.info("seamark: run %s is the same and goes on", found)
        return replace(folder, run=found)

    def _find_in(self, place: Path | str, text: str) -> str | None:
        """Return the id of the newest run of the project that is the same; never raises."""
        from seamark.store.query.duplicates import find_duplicate

        project = self._folder.project

        def ask() -> str | None:
            with fork.held_off():  # modules are imported
                catalog = open_catalog(place, self._options.api_token)
            with closing(catalog):
                catalog.refresh(project)
                return find_duplicate(catalog, project, text)

        def lost(error: Exception) -> None:
            log.warning("seamark: %s was not asked for the same run: %s", place, error)

        found: list[str | None] = [None]
        with quietly(lost):
            is_here = place == self._folder.root
            found = [ask() if is_here else call_within(ask, "seamark-same-run")]
        return found[0]

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
                folder = self._folder
                number = take_revision(folder.path.parent, text, folder.run)
                found = {HASH: text, REVISION: number}
        return found


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
