"""Facts that this machine and the remotes contribute to the opening of a run."""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from seamark.errors import ArgumentError, PathError, RunExistsError, RunNotFoundError
from seamark.journal.folder import RunFolder, hashed_run_id
from seamark.journal.safe import is_folder
from seamark.opening.opening import Presence, RemoteAnswer, resolve, resolve_checkpoint
from seamark.opening.place import open_catalog, own_root, reading_place
from seamark.opening.restarts import (
    JobRun,
    Restart,
    attempt_after,
    find_duplicate,
    restart_of,
)
from seamark.paths import check_name, check_project
from seamark.process import fork
from seamark.process.interrupts import logged, quietly
from seamark.process.rank import current_rank, restart_count
from seamark.reading.finding import Finder
from seamark.reading.names import LATEST
from seamark.remote.arrival import PATIENCE_S, ask_remote, call_within, trashing
from seamark.remote.protocol import KeepsJournals, Missing, Purged, RemoteError, RunKey, Unreachable

if TYPE_CHECKING:
    from seamark.opening.opening import CheckpointDecision, Opening, Saved
    from seamark.options.settings import Settings
    from seamark.reading.names import Arrival
    from seamark.remote.protocol import Settles


log = logging.getLogger("seamark")

_SERVERS: Final = ("http://", "https://")
"""Schemes of remotes that find runs by name; addresses are checked before they are asked."""


def open_run(options: Settings, *, trains: bool = False) -> Opening:
    """Decide where a run is recorded; first copy the journals that an owner continues."""
    return copy_run(resolve(options, _Machine.of(options)), trains=trains)


def is_run(options: Settings, project: str) -> bool:
    """Return whether ``with_id`` names a run and no project has that name; reserves nothing."""
    options = replace(options, conflict=None, make_project=None)
    world = _Machine.of(options)
    if is_folder(world.root / project):
        return False
    opening = resolve(options, world)
    is_known = not opening.is_unanswered or world.presence(opening.folder).exists
    return opening.refusal is None and is_known


def open_checkpoint(
    opening: Opening, saved: Saved, *, stay: bool, training: bool, is_new: bool
) -> CheckpointDecision:
    """Decide which run continues when a checkpoint is loaded; see `resolve_checkpoint`."""
    world = _Machine(opening.options, opening.folder.root, None)
    found = resolve_checkpoint(opening, saved, world, stay=stay, training=training, is_new=is_new)
    if found.switch is None:
        return found
    return found._replace(switch=copy_run(found.switch, trains=training))


class _Machine:
    # The disk is read once for each run: a decision reflects a single moment.

    def __init__(self, options: Settings, root: Path, place: Path | str | None) -> None:
        self._options, self.root = options, root
        self.rank = current_rank().rank
        self.restarts = restart_count()
        self._known: dict[RunFolder, Presence] = {}
        self._server = place if isinstance(place, str) else None

    @classmethod
    def of(cls, options: Settings) -> _Machine:
        root = own_root(options.mode, options.root, named=bool(options.with_id))
        place = reading_place(options)
        return cls(options, place if isinstance(place, Path) else root, place)

    def find(self) -> RunFolder:
        options, root, project = self._options, self.root, self._options.project
        if self._server is not None:
            return self._find_on_server(self._server)
        if options.custom_run_id:
            return RunFolder(root, project, hashed_run_id(project, options.custom_run_id))
        word = str(options.with_id)
        # The index is not needed for a complete run id.
        for name in ((project, word), word.rpartition("/")[::2]):
            with quietly(only=PathError):
                folder = RunFolder(root, check_project(name[0]), check_name(name[1]))
                here = self.presence(folder)
                if folder.run != LATEST and (here.exists or here.link is not None):
                    return folder
        from seamark.index.remote import find_below  # import SQLAlchemy only when needed

        beginnings = options.mode == "read-only"
        return RunFolder(root, *find_below(root, word, project, beginnings=beginnings))

    def _find_on_server(self, place: str) -> RunFolder:
        options, project = self._options, self._options.project
        if not options.custom_run_id:
            return _find_by_name(options, self.root, place)
        run = hashed_run_id(project, options.custom_run_id)
        with contextlib.closing(open_catalog(place, options.api_token)) as catalog:
            catalog.fresh_view(project, run)
        return RunFolder(self.root, project, run)

    def presence(self, folder: RunFolder) -> Presence:
        if self._server is not None:
            return Presence(exists=True)  # it has answered for the run
        if folder not in self._known:
            self._known[folder] = Presence(exists=folder.exists())
            with quietly(only=OSError):  # the project cannot be read
                purged, link = folder.is_purged, folder.link(inside=False)
                self._known[folder] = self._known[folder]._replace(is_purged=purged, link=link)
        return self._known[folder]

    def ask_remotes(self, place: RunFolder | None) -> RemoteAnswer:
        failures: list[str] = []

        def ask() -> RemoteAnswer:
            for uri in self._options.remotes:
                try:
                    found = _ask_one(self._options, uri, self.root, place)
                    if found is not None:
                        return found
                except (Missing, RunNotFoundError):
                    continue
                except Purged:
                    log.warning(
                        "seamark: the run was purged at %s, which rejects further records", uri
                    )
                except Exception as error:
                    is_ambiguous = isinstance(error, ArgumentError) and uri.startswith(_SERVERS)
                    if place is None and is_ambiguous:
                        raise
                    failures.append(str(error))
            return RemoteAnswer(failure=failures[0] if failures else None)

        try:
            return call_within(ask, "seamark-opening")
        except Unreachable as error:
            return RemoteAnswer(failure=str(error))

    def job_run(self) -> JobRun:
        return JobRun.next()

    def restarted(self, folder: RunFolder, job_run: JobRun | None) -> Restart:
        return restart_of(folder, job_run)

    def find_duplicate(self, folder: RunFolder) -> str | None:
        return find_duplicate(self._options, folder)

    def claim_name(self, folder: RunFolder) -> tuple[str | None, tuple[str, ...]]:
        """Return name and remotes of a new run, even if these are away; raise if it is refused."""
        name, kept = self._options.name, []
        for uri in self._options.remotes:
            found = None
            with logged(f"the name of the run could not be checked at {uri}"):
                found = _arrive(self._options, folder, uri, name)
            outcome = "go" if found is None else found.outcome
            if outcome == "taken":
                raise RunExistsError(
                    f"name: a run of project {folder.project!r} at {uri} has the name {name!r:.200}"
                )
            if outcome == "no project":
                raise ArgumentError(
                    f"project: there is no project {folder.project!r} at {uri} (make_project=False)"
                )
            if outcome == "skip":
                log.warning(
                    "seamark: %s already has a run named %r: this run is not sent there", uri, name
                )
                continue
            name = found.name if found is not None and found.name is not None else name
            kept.append(uri)
        return name, tuple(kept)


def _ask_one(
    options: Settings, uri: str, root: Path, place: RunFolder | None
) -> RemoteAnswer | None:
    """Return the answer of one remote; None if it cannot be read."""
    from seamark.remote.schemes import open_remote

    with fork.delay_forks():  # importing modules takes time
        remote = open_remote(uri, options.api_token)
    try:
        if not isinstance(remote, KeepsJournals):
            return None
        if place is None and uri.startswith(_SERVERS):
            place = _find_by_name(options, root, uri, beginnings=False)
        if place is None:
            return None
        facts = remote.opening(RunKey(place.project, place.run), PATIENCE_S)
        attempt = attempt_after(facts.journals.values())
        return RemoteAnswer(place, replace(facts, uri=uri), attempt)
    finally:
        with quietly():  # it has answered
            remote.close()


def _find_by_name(
    options: Settings, root: Path, server: str, *, beginnings: bool = True
) -> RunFolder:
    with contextlib.closing(open_catalog(server, options.api_token)) as catalog:
        catalog.refresh()
        word = str(options.with_id)
        ref = Finder(catalog).find(word, options.project, beginnings=beginnings)
        return RunFolder(root, *ref)


def copy_run(opening: Opening, *, trains: bool) -> Opening:
    """Copy the journals of a run that this process may own to this disk; return the opening.

    If they cannot be copied, a warning is logged, and the facts of the remote are used.
    """
    remote, folder, options = opening.remote, opening.folder, opening.options
    if remote is None:
        return opening
    here = folder.sizes()
    if remote.is_copied(here):
        return replace(opening, remote=None)
    if not opening.may_own(trains=trains):
        return opening
    what = f"the journals of run {folder.run} could not be copied from {remote.uri}"
    with logged(f"{what}; recording continues in a new journal, and the next start tries again"):
        _pull(remote.uri, options.api_token, folder)
        if not remote.is_copied(folder.sizes()):
            raise RemoteError("the server lists more journals than it returns")
        # A disk with records of its own may know an owner that the remote does not know yet.
        return replace(opening, remote=None, is_resumable=remote.resumable and not here)
    return opening


def _pull(uri: str, token: str | None, folder: RunFolder) -> None:
    from seamark.pictures.printing import is_quiet, progress_bar
    from seamark.remote.schemes import open_remote
    from seamark.remote.sync import pull_journals

    title = f"seamark: copying run {folder.run}"
    with (
        contextlib.closing(open_remote(uri, token)) as remote,
        progress_bar(title, quiet=is_quiet(), of_bytes=True) as progress,
    ):
        if isinstance(remote, KeepsJournals):
            pull_journals(remote, folder, progress)


def _arrive(options: Settings, folder: RunFolder, uri: str, name: str | None) -> Arrival | None:
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
        # As of now: a run that is still being sent and ends later replaces this one.
        found = settle(remote) or found
        for other in found.others:
            replaced = RunKey(folder.project, other)
            journal, data = trashing(replaced, max(time.time_ns(), (found.t_ns or 0) + 2))
            remote.send(replaced, journal, 0, data)
        return found

    return ask_remote(uri, options.api_token, ask)
