"""Questions to remotes before a run begins: for a few seconds, as a training waits for nobody."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from seamark.errors import ArgumentError, RunExistsError, RunNotFoundError
from seamark.journal.folder import RunFolder
from seamark.opening.resolve import RemoteAnswer
from seamark.opening.restarts import attempt_after
from seamark.process import fork
from seamark.process.interrupts import let_pass, quietly
from seamark.remote.arrival import trashing
from seamark.remote.asking import PATIENCE_S, ask_remote, call_within
from seamark.remote.protocol import Missing, RunKey, Unreachable

if TYPE_CHECKING:
    from pathlib import Path

    from seamark.options.settings import Settings
    from seamark.reading.arriving import Arrival
    from seamark.remote.protocol import Settles
    from seamark.remote.remote_run import RemoteRun

__all__ = ["ask_for_run", "claim_name"]

log = logging.getLogger("seamark")


def ask_for_run(
    options: Settings, root: Path, place: RunFolder | None, mark: tuple[str, int] | None = None
) -> RemoteAnswer:
    """Ask the remotes of a run for it, one after the other, until one knows it.

    Args:
        options: Of the run.
        root: Below which it is recorded.
        place: Where it lies; None for the run that ``with_id`` names there.
        mark: Writer id and number of the mark of a checkpoint, if its ends are asked for.

    Raises:
        ArgumentError: If the name may mean several runs there.
    """
    failures: list[str] = []

    def ask() -> RemoteAnswer | ArgumentError:
        for uri in options.remotes:
            try:
                found = _ask_one(options, uri, root, place, mark)
            except (Missing, RunNotFoundError):
                continue
            except Exception as error:  # noqa: BLE001 - it may be somebody else's
                failures.append(str(error))
                continue
            if found is not None:
                return found
        return RemoteAnswer(failure=failures[0] if failures else None)

    try:
        answer = call_within(ask, "seamark-opening")
    except Unreachable as error:
        return RemoteAnswer(failure=str(error))
    if isinstance(answer, ArgumentError):
        raise answer
    return answer


def _ask_one(
    options: Settings,
    uri: str,
    root: Path,
    place: RunFolder | None,
    mark: tuple[str, int] | None,
) -> RemoteAnswer | ArgumentError | None:
    """Return the answer of one remote, or that a name is ambiguous; None if it cannot be asked.

    Raises:
        Exception: If it does not answer, or does not have the run.
    """
    from seamark.remote.places import open_remote

    with fork.held_off():  # modules are imported
        remote: Any = open_remote(uri, options.api_token)
    try:
        if (ask := getattr(remote, "opening", None)) is None:
            return None
        found = place or _find_by_name(options, root, remote)
        if found is None or isinstance(found, ArgumentError):
            return found
        told = {} if mark is None else {"mark": mark}
        facts: RemoteRun = ask(RunKey(found.project, found.run), PATIENCE_S, **told)
        return RemoteAnswer(found, facts, attempt_after(facts.journals.values()))
    finally:
        with quietly():
            remote.close()


def _find_by_name(options: Settings, root: Path, remote: Any) -> RunFolder | ArgumentError | None:
    """Return the run that ``with_id`` means at a remote, or the error that it may mean several.

    None if the remote cannot be asked.

    Raises:
        RunNotFoundError: If it means none.
        RemoteError: If that cannot be known.
    """
    if (connection := getattr(remote, "connection", None)) is None:
        return None
    from seamark.reading.finding import Finder
    from seamark.remote.http.catalog import RemoteCatalog

    catalog = RemoteCatalog(connection)
    catalog.refresh()
    finder = Finder(catalog)
    try:
        ref = finder.find(str(options.with_id), options.project, beginnings=False)
    except ArgumentError as error:
        return error
    return RunFolder(root, *ref)


def claim_name(options: Settings, folder: RunFolder) -> tuple[str | None, tuple[str, ...]]:
    """Return the name of a run that begins, and the remotes that it is sent to.

    Without an answer the training begins all the same.

    Args:
        options: As they were given.
        folder: Where the run is recorded.

    Raises:
        RunExistsError: If another run has its name, and that is to be an error.
        ArgumentError: If there is no such project, and none is to be made.
    """
    name, kept = options.name, []
    for uri in options.remotes:
        found = None
        try:
            found = _arrive(options, folder, uri, name)
        except Exception as error:  # noqa: BLE001 - it may be somebody else's
            let_pass(error)
            why = (str(error) or type(error).__name__)[:400]
            log.warning("seamark: %s was not asked about the name of the run: %s", uri, why)
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
    return name, tuple(kept)


def _arrive(options: Settings, folder: RunFolder, uri: str, name: str | None) -> Arrival | None:
    """Announce a run to a remote; put the runs that it replaces into the trash there.

    Raises:
        Exception: If the remote does not answer within a few seconds.
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

    return ask_remote(uri, options.api_token, ask)
