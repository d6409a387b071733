"""Questions to remotes before a run begins: for a few seconds, as a training waits for nobody."""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from seamark.errors import ArgumentError, RunExistsError, RunNotFoundError
from seamark.journal.folder import RunFolder
from seamark.opening.resolve import RemoteAnswer
from seamark.opening.restarts import attempt_after
from seamark.process import fork
from seamark.process.interrupts import let_pass, quietly
from seamark.remote.arrival import trashing
from seamark.remote.asking import PATIENCE_S, ask_remote, call_within
from seamark.remote.protocol import KeepsJournals, Missing, Purged, RemoteError, RunKey, Unreachable

if TYPE_CHECKING:
    from pathlib import Path

    from seamark.opening.opening import Opening
    from seamark.options.settings import Settings
    from seamark.reading.arriving import Arrival
    from seamark.remote.protocol import Settles

__all__ = ["ask_for_run", "claim_name", "copy_run"]

log = logging.getLogger("seamark")


def ask_for_run(options: Settings, root: Path, place: RunFolder | None) -> RemoteAnswer:
    """Ask the remotes of a run for it, one after the other, until one knows it.

    Args:
        options: Of the run.
        root: Below which it is recorded.
        place: Where it lies; None for the run that ``with_id`` names there.

    Raises:
        ArgumentError: If the name may mean several runs there.
    """
    failures: list[str] = []

    def ask() -> RemoteAnswer | ArgumentError:
        for uri in options.remotes:
            try:
                found = _ask_one(options, uri, root, place)
            except (Missing, RunNotFoundError):
                continue
            except Purged:
                log.warning("seamark: the run was purged at %s, which takes nothing of it", uri)
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
    options: Settings, uri: str, root: Path, place: RunFolder | None
) -> RemoteAnswer | ArgumentError | None:
    """Return the answer of one remote, or that a name is ambiguous; None if it cannot be asked.

    Raises:
        Exception: If it does not answer, or does not have the run.
    """
    from seamark.remote.places import open_remote

    with fork.held_off():  # modules are imported
        remote = open_remote(uri, options.api_token)
    try:
        if not isinstance(remote, KeepsJournals):
            return None
        found = place or _find_by_name(options, root, remote)
        if found is None or isinstance(found, ArgumentError):
            return found
        facts = remote.opening(RunKey(found.project, found.run), PATIENCE_S)
        attempt = attempt_after(facts.journals.values())
        return RemoteAnswer(found, replace(facts, uri=uri), attempt)
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


def copy_run(opening: Opening, *, trains: bool) -> Opening:
    """Return the opening of a run once its journals are on this disk, if this process may own it.

    If they cannot be copied, a line says so, and the facts of the remote are used.

    Args:
        opening: Of the run.
        trains: As in `Opening.may_own`.
    """
    remote, folder, options = opening.remote, opening.folder, opening.options
    if remote is None:
        return opening
    here = folder.sizes()
    if remote.is_copied(here):
        return replace(opening, remote=None)
    if not opening.may_own(trains=trains):
        return opening
    try:
        _pull(remote.uri, options.api_token, folder)
        if not remote.is_copied(folder.sizes()):
            msg = "it does not return all that it lists"
            raise RemoteError(msg)  # noqa: TRY301 - one warning for all that can be wrong
    except Exception as error:  # noqa: BLE001 - it may be somebody else's
        let_pass(error)
        log.warning(
            "seamark: the journals of run %s could not be copied from %s: %s. It goes on in a new "
            "one, and is put together there; the next start tries again",
            *(folder.run, remote.uri, (str(error) or type(error).__name__)[:400]),
        )
        return opening
    # A disk that has records of its own may know of an owner that the remote does not know yet.
    return replace(opening, remote=None, is_resumable=remote.resumable and not here)


def _pull(uri: str, token: str | None, folder: RunFolder) -> None:
    """Copy the journals of a run to this disk.

    Raises:
        Exception: If that is not possible.
    """
    from seamark.pictures.progress import progress_bar
    from seamark.process.quiet import is_quiet
    from seamark.remote.places import open_remote
    from seamark.remote.pulling import pull_journals

    title = f"seamark: copying run {folder.run}"
    with (
        contextlib.closing(open_remote(uri, token)) as remote,
        progress_bar(title, quiet=is_quiet(), of_bytes=True) as progress,
    ):
        if isinstance(remote, KeepsJournals):
            pull_journals(remote, folder, progress)


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
