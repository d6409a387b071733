"""What a run that begins is called at its remotes, where another may have its name."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ArgumentError, RunExistsError
from seamark.process import fork
from seamark.process.interrupts import quietly
from seamark.process.rank import current_rank
from seamark.reading.arriving import Arrival
from seamark.remote.arrival import trashing
from seamark.remote.protocol import Missing, RunKey, Unreachable
from seamark.run.elsewhere import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seamark.journal.folder import RunFolder
    from seamark.reading.arriving import Conflict
    from seamark.remote.protocol import Remote
    from seamark.run.options import RunOptions

__all__ = ["ask_arrival", "settled"]

_MOST_VERSIONS: Final = 10_000
"""How many a server is told of."""

log = logging.getLogger("seamark")


def settled(options: RunOptions, folder: RunFolder) -> RunOptions:
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
        found, said = _asked(options, folder, uri, name)
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


def _asked(
    options: RunOptions, folder: RunFolder, uri: str, name: str | None
) -> tuple[Arrival | None, str]:
    """Return what a remote says, or why it does not, after a few seconds at most."""
    told: list[Arrival | None] = []
    failed = [f"no answer within {PATIENCE_S:g} s"]

    def ask() -> None:
        try:
            told.append(_ask(options, folder, uri, name))
        except Exception as error:  # noqa: BLE001 - it may be somebody else's
            failed[0] = str(error)

    thread = threading.Thread(target=ask, name="seamark-arriving", daemon=True)
    with quietly(only=RuntimeError):
        thread.start()
        thread.join(PATIENCE_S)
    return (told[0], "") if told else (None, failed[0])


def _ask(options: RunOptions, folder: RunFolder, uri: str, name: str | None) -> Arrival | None:
    """Ask a remote, and put into its trash what the run replaces.

    Raises:
        Exception: If it does not answer.
    """
    from seamark.remote.places import open_remote

    with fork.held_off():  # modules are imported
        remote: Any = open_remote(uri, options.api_token)
    with contextlib.closing(remote):
        found = ask_arrival(
            remote,
            RunKey(folder.project, folder.run),
            None if options.conflict is None else name,
            options.conflict or "new",
            make_project=options.make_project is not False,
        )
        for other in found.others if found is not None and found.outcome == "go" else ():
            key = RunKey(folder.project, other)
            journal, data = trashing(key, time.time_ns())
            remote.send(key, journal, 0, data)
    return found


def ask_arrival(
    remote: Remote,
    key: RunKey,
    name: str | None,
    conflict: Conflict,
    *,
    make_project: bool,
    versions: Sequence[str] = (),
) -> Arrival | None:
    """Return what becomes of a run that is to come; None of a place that cannot be asked.

    Args:
        remote: The place.
        key: The run.
        name: Its name; None if it has none.
        conflict: What to do if another run of the project has it.
        make_project: Whether a project that is not there is made.
        versions: Of an artifact: the digests of all its versions here.

    Raises:
        RemoteError: If it does not answer, or says no.
    """
    if isinstance(root := getattr(remote, "root", None), Path):
        from seamark.local.arriving import arrive, arrive_artifact

        try:
            if versions:
                known = (key.run, *versions)
                return arrive_artifact(
                    root, key.project, known, conflict, make_project=make_project
                )
            return arrive(root, key.project, key.run, name, conflict, make_project=make_project)
        except OSError as error:
            msg = f"{root} cannot be written: {error.strerror or error}"
            raise Unreachable(msg) from error
    if (connection := getattr(remote, "connection", None)) is None:
        return None
    asked = {
        **key._asdict(),
        "name": name,
        "conflict": conflict,
        "make_project": make_project,
        **({"versions": list(versions[:_MOST_VERSIONS])} if versions else {}),
    }
    try:
        told = connection.send_json("POST", "arrivals", asked).record()
    except Missing as error:
        if error.said:
            raise
        return None  # a server of an earlier version
    others = told.get("others")
    return Arrival(
        str(told.get("outcome")),
        told["name"] if isinstance(told.get("name"), str) else None,
        tuple(map(str, others)) if isinstance(others, list) else (),
    )
