"""Names of new runs at their remotes, where another run may have the same name."""

from __future__ import annotations

import dataclasses
import logging
import time
from typing import TYPE_CHECKING

from seamark.errors import ArgumentError, RunExistsError
from seamark.process.rank import current_rank
from seamark.remote.arrival import trashing
from seamark.remote.asking import ask_remote
from seamark.remote.protocol import RunKey

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.options.settings import Settings
    from seamark.reading.arriving import Arrival
    from seamark.remote.protocol import Settles

__all__ = ["resolve_name_conflict"]

log = logging.getLogger("seamark")


def resolve_name_conflict(options: Settings, folder: RunFolder) -> Settings:
    """Return the options of a run that begins, with the name that it has everywhere.

    Remotes are asked only where ``conflict`` or ``make_project=False`` was given, and for a few
    seconds: without an answer the training begins all the same.

    Args:
        options: As they were given.
        folder: Where the run is recorded.

    Raises:
        RunExistsError: If another run has its name, and that is to be an error.
        ArgumentError: If there is no such project, and none is to be made.
    """
    is_asked = options.conflict is not None or options.make_project is False
    if not is_asked or not options.remotes or folder.is_there() or current_rank().rank:
        return options
    name, kept = options.name, []
    for uri in options.remotes:
        found, said = _ask(options, folder, uri, name)
        if said:
            log.warning("seamark: %s was not asked about the name of the run: %s", uri, said[:400])
        outcome = "go" if found is None else found.outcome
        if outcome == "taken":
            msg = f"name: a run of project {folder.project!r} at {uri} has the name {name!r:.200}"
            raise RunExistsError(msg)
        if outcome == "no project":
            msg = f"project: there is no project {folder.project!r} at {uri} (make_project=False)"
            raise ArgumentError(msg)
        if outcome == "skip":
            log.warning("seamark: %s has a run called %r: this one is not sent there", uri, name)
            continue
        name = found.name if found is not None and found.name is not None else name
        kept.append(uri)
    return dataclasses.replace(options, name=name, remote=tuple(kept))


def _ask(
    options: Settings, folder: RunFolder, uri: str, name: str | None
) -> tuple[Arrival | None, str]:
    """Return what a remote says, or why it does not, after a few seconds at most.

    What the run replaces is put into the trash there.
    """
    key = RunKey(folder.project, folder.run)

    def settle(remote: Settles) -> Arrival | None:
        return remote.arrive(
            key,
            None if options.conflict is None else name,
            options.conflict or "new",
            make_project=options.make_project is not False,
        )

    def ask(remote: Settles) -> Arrival | None:
        found = settle(remote)
        if options.conflict != "replace" or found is None or found.outcome != "go":
            return found
        # As it comes at once: a run that is on its way and ends later replaces this one.
        found = settle(remote) or found
        for other in found.others:
            replaced = RunKey(folder.project, other)
            journal, data = trashing(replaced, max(time.time_ns(), (found.t_ns or 0) + 2))
            remote.send(replaced, journal, 0, data)
        return found

    try:
        return ask_remote(uri, options.api_token, ask), ""
    except Exception as error:  # noqa: BLE001 - it may be somebody else's
        return None, str(error) or type(error).__name__
