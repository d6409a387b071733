"""Runs of the same experiment: their hash and their revisions.

What is compared is what was given at the start: parameters, secrets hidden, and the version of the
code. What changes later changes ``sys/content_hash``, and no revision.
"""

from __future__ import annotations

import hashlib
import logging
import re
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ArgumentError
from seamark.journal import reservations
from seamark.journal.format import is_long
from seamark.opening.place import first_remote, open_catalog, readable
from seamark.process import fork
from seamark.process.interrupts import quietly
from seamark.process.rank import current_rank
from seamark.remote.arrival import call_within
from seamark.values.content import VERSION, content_hash, is_parameter

if TYPE_CHECKING:
    from pathlib import Path

    from seamark.capture.code.executed import CodeVersion
    from seamark.journal.folder import RunFolder
    from seamark.options.settings import Settings

__all__ = ["StartVersion", "check_hash", "find_duplicate", "take_revision"]

log = logging.getLogger("seamark")

HASH: Final = "sys/start_hash"
"""What ``sys/content_hash`` was of what a run was given at its start."""
REVISION: Final = "sys/revision"
"""Which run it is of those that were given the same, 1-based."""
_HASH: Final = re.compile("[0-9a-f]{32}")


_PATIENCE_S: Final = 2.0
"""How long the start of a run waits for a disk to say what was executed, in seconds."""


@dataclass(frozen=True, slots=True)
class StartVersion:
    """Version of the code at a run's start, empty if unknown; one given has no `executed`."""

    text: str
    executed: CodeVersion | None = None

    @classmethod
    def of(cls, options: Settings) -> StartVersion:
        """Return the version of the code given by the user, else that of the code executed so far.

        Waits for that, because a run is found by a hash of it, but no longer than two seconds.
        """
        if options.code_version is not None or not options.captures["script"]:
            return cls(options.code_version or "")
        with quietly():
            from seamark.capture.code import Script
            from seamark.capture.code.executed import CodeVersion

            script = Script.running()
            found = call_within(
                lambda: CodeVersion.at_start(script), "seamark-version", _PATIENCE_S
            )
            return cls(found.first, found)
        return cls("")


def start_hash(options: Settings, version: StartVersion) -> str | None:
    """Return the hash of a run's inputs at its start; None without parameters."""
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


def find_duplicate(options: Settings, folder: RunFolder) -> str | None:
    """Return the id of the newest run of the project that is the same; None if there is none.

    Runs on this disk are looked at first, then those at the remote that is read. Where that does
    not answer, a line says so and this disk decides alone. A run that another process is only
    about to begin is not seen: to get exactly one run, claim it.
    """
    text = start_hash(options, StartVersion.of(options))
    assert text is not None  # noqa: S101 - there are parameters
    uri = first_remote(options.remotes)
    places = [folder.root] if uri is None else [folder.root, readable(uri)]
    found = (_find_in(place, options, folder, text) for place in places)
    return next(filter(None, found), None)


def _find_in(place: Path | str, options: Settings, folder: RunFolder, text: str) -> str | None:
    from seamark.store.query import selection

    def ask() -> str | None:
        with fork.held_off():  # modules are imported
            catalog = open_catalog(place, options.api_token)
        with closing(catalog):
            catalog.refresh(folder.project)
            return selection.find_duplicate(catalog, folder.project, text)

    def lost(error: Exception) -> None:
        log.warning("seamark: %s was not asked for the same run: %s", place, error)

    found: list[str | None] = [None]
    with quietly(lost):
        found = [ask() if place == folder.root else call_within(ask, "seamark-same-run")]
    return found[0]


def take_revision(options: Settings, folder: RunFolder, version: StartVersion) -> dict[str, Any]:
    """Take the next revision of a run's inputs; nothing if impossible. Never raises."""
    found: dict[str, Any] = {}

    def lost(error: Exception) -> None:
        log.warning("seamark: which revision this run is could not be recorded: %s", error)

    if options.names_a_run or current_rank().rank or not any(map(is_parameter, options.params)):
        return found
    with quietly(lost):
        text = start_hash(options, version)
        assert text is not None  # noqa: S101 - there are parameters
        number = reservations.take_revision(folder.path.parent, text, folder.run)
        found = {HASH: text, REVISION: number}
    return found  # noqa: RET504 - empty if it was lost


def check_hash(text: object, revision: object) -> None:
    """Raise `ArgumentError` for a value that is neither a hash of a run nor a revision."""
    if not isinstance(text, str) or not _HASH.fullmatch(text):
        msg = f"content_hash: expected 32 hexadecimal digits, got {text!r:.80}"
        raise ArgumentError(msg)
    is_number = isinstance(revision, int) and not isinstance(revision, bool) and revision > 0
    if revision is not None and not is_number:
        msg = f"revision: expected a number from 1 on, or None, got {revision!r:.80}"
        raise ArgumentError(msg)
