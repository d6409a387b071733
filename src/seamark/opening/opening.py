"""Decision about the opening of a run: its folder, role, rank and attempt.

A new attempt begins when a checkpoint is loaded or a launcher restarts the job. The attempt is a
property of the journals that are opened from then on: their header has its number and, if a
checkpoint was loaded, the *positions*: the size of every journal when the checkpoint was saved. By
default readers hide records of older attempts after these positions.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from seamark.errors import (
    ArgumentError,
    DuplicateRunError,
    PathError,
    RunNotFoundError,
    SeamarkError,
)
from seamark.journal.folder import RunFolder, hashed_run_id, mint_run_id
from seamark.opening.place import missing_run
from seamark.opening.restarts import Attempt
from seamark.paths import check_name, check_project
from seamark.process.interrupts import quietly
from seamark.reading.names import LATEST
from seamark.values._numbers import argument_error

if TYPE_CHECKING:
    from pathlib import Path

    from seamark.opening.restarts import JobRun, Restart
    from seamark.options.settings import Settings
    from seamark.remote.protocol import RemoteRun


@dataclass(frozen=True)
class Origin:
    """Origin of a run; included in its copies.

    Attributes:
        lineage: Identifier shared by a run, its copies in other processes, and a run it switches
            to.
        job_run: Identity of the run within its job; None for a run with a given id.
        continues: Whether an existing run was chosen.
    """

    lineage: str = field(default_factory=partial(secrets.token_hex, 8))
    job_run: JobRun | None = None
    begun: Attempt | None = None
    continues: bool = False

    def at(self, begun: Attempt | None) -> Origin:
        """Return the origin of another run that continues this one."""
        return replace(self, begun=begun, continues=True)


@dataclass(frozen=True)
class Opening:
    """Decision about the role of a process in a run, made before the first byte is written.

    Attributes:
        remote: Facts about the run from a remote; None if none was queried, if none has the run, or
            if this disk has all of its data.
        is_unanswered: Whether a remote was queried and did not answer.
        is_resumable: Whether a remote reports that the run was started, has not finished and has no
            live owner; False if this disk decides.
        refusal: Error to raise instead of starting the run; None if it may start.
    """

    options: Settings
    folder: RunFolder
    origin: Origin = field(default_factory=Origin)
    remote: RemoteRun | None = None
    is_unanswered: bool = False
    is_resumable: bool = False
    refusal: SeamarkError | None = None

    def may_own(self, *, trains: bool) -> bool:
        """Return whether this process may own the state of a run known to a remote."""
        if self.remote is None or self.options.owner is not None:
            return bool(self.options.owner)
        return trains or self.origin.begun is not None or self.remote.resumable


class Saved(NamedTuple):
    """State of a run in a checkpoint.

    Attributes:
        positions: {writer id: bytes} when it was saved; None if unknown.
        mark: Writer id and number of the mark up to which records still belong to the checkpoint;
            None if there is no such mark.
        partly: Whether a remote may have had further journals.
    """

    run: str
    project: str
    positions: dict[str, int] | None
    mark: tuple[str, int] | None = None
    partly: bool = False

    @classmethod
    def of(cls, state: object) -> Saved:
        """Return the content of a checkpoint, or raise `ArgumentError`."""
        if isinstance(state, Mapping):
            run, project, positions, mark = map(state.get, ("run", "project", "positions", "mark"))
            known = isinstance(positions, Mapping | None)
            if isinstance(run, str) and isinstance(project, str) and known:
                noted = named = None
                if positions is not None:
                    noted = {str(name): int(length) for name, length in positions.items()}
                if isinstance(mark, Mapping):
                    named = str(mark.get("writer")), int(mark.get("number", 0))
                place = check_name(run, "run"), check_project(project)
                return cls(*place, noted, named, state.get("partly") is True)
        raise argument_error(state, "state", "run, project and positions of a checkpoint")

    def not_found(self, here: RunFolder) -> RunNotFoundError:
        """Return the error for a run that is not below the root of another one."""
        return RunNotFoundError(
            f"the checkpoint is of run {self.run!r} of {self.project!r}, not found in {here.root}"
        )


log = logging.getLogger("seamark")
_SILENT: Final = ("disabled", "read-only")
_AS_NEW: Final = (
    ". It is recorded on this disk as if it were new, and merged with existing records when it "
    "is sent"
)


class Presence(NamedTuple):
    """State of a run on this disk. A purged run must not be recreated; a `link` is not followed."""

    exists: bool = False
    is_purged: bool = False
    link: Path | None = None


class RemoteAnswer(NamedTuple):
    """Answer of the remotes to the query for a run.

    ``folder`` is below the run's project on the remote, None if no remote has it. ``attempt`` is
    0-based, None unless this is a restart of the job that recorded the run. ``failure`` is the
    reason why a remote did not answer, None if all did.
    """

    folder: RunFolder | None = None
    run: RemoteRun | None = None
    attempt: Attempt | None = None
    failure: str | None = None


class World(Protocol):
    """Inputs of a decision besides the options: disk, launcher and remotes."""

    root: Path
    rank: int
    """Rank of this process, 0-based."""
    restarts: int
    """Number of restarts of its job."""

    def find(self) -> RunFolder:
        """Return the run that ``with_id`` names, or that ``custom_run_id`` names for reading."""

    def presence(self, folder: RunFolder) -> Presence:
        """Return the state of a run on this disk."""

    def ask_remotes(self, place: RunFolder | None) -> RemoteAnswer:
        """Query the remotes for a run, or without a folder for the run that ``with_id`` names."""

    def job_run(self) -> JobRun:
        """Return the identity of an unnamed run within its job, and count the run."""

    def restarted(self, folder: RunFolder, job_run: JobRun | None) -> Restart:
        """Return the run that this restarted job continues."""

    def find_duplicate(self, folder: RunFolder) -> str | None:
        """Return the id of the newest run of the project for the same experiment."""

    def claim_name(self, folder: RunFolder) -> tuple[str | None, tuple[str, ...]]:
        """Return the name of a new run, which is free at its remotes, and these remotes."""


def resolve(options: Settings, world: World) -> Opening:
    """Decide where a run is recorded, and which run it continues."""
    is_named = options.names_a_run
    folder, unfound = _locate(options, world)
    if (same := _duplicate(options, folder, world)) is not None:
        folder, named = same, f"{same.project}/{same.run}"
        owner = options.owner is not False
        options = replace(options, with_id=named, on_duplicate="new", owner=owner)
    found = Opening(options, folder)
    if options.names_a_run and options.resume != "never":
        is_whole = options.names_an_id and (options.with_id or folder.run).endswith(folder.run)
        place = folder if is_whole else None
        found = _find_at_remotes(options, folder, place, world, _AS_NEW)
    folder, origin = _continue_job(options, found.folder, world, is_named=is_named)
    if folder != found.folder:
        found = _find_at_remotes(options, folder, folder, world)
    attempts = [one for one in (origin.begun, found.origin.begun) if one is not None]
    newest = max(attempts, key=lambda one: one.number, default=None)
    origin = replace(origin, begun=newest)
    found = replace(found, origin=origin)
    is_known = not found.is_unanswered or world.presence(folder).exists
    if found.remote is None and is_known:
        found = replace(found, refusal=unfound or _refusal(options, folder, world))
    return _with_free_name(found, world)


def _locate(options: Settings, world: World) -> tuple[RunFolder, SeamarkError | None]:
    """Return the folder of the run, and the error if it is named but was not found."""
    root, project, word = world.root, options.project, options.with_id
    unfound = None
    if word or options.mode == "read-only":
        try:
            return world.find(), None
        except SeamarkError as error:
            unfound = error
    if options.custom_run_id:
        return RunFolder(root, project, hashed_run_id(project, options.custom_run_id)), unfound
    if not word:
        return RunFolder(root, project, mint_run_id()), None
    if word != LATEST:
        above, _, run = word.rpartition("/")
        with quietly(only=PathError):
            project = check_project(above) if above else project
            return RunFolder(root, project, check_name(run, "run")), unfound
    return RunFolder(root, project, hashed_run_id(project, f"with_id\0{word}")), unfound


def _duplicate(options: Settings, folder: RunFolder, world: World) -> RunFolder | None:
    is_silent = options.mode in _SILENT or world.rank
    if options.on_duplicate == "new" or is_silent or world.restarts:
        return None
    if (run := world.find_duplicate(folder)) is None:
        return None
    if options.on_duplicate == "error":
        raise DuplicateRunError(
            f"on_duplicate='error': run {run!r} of project {folder.project!r} has the same "
            "parameters and the same code; on_duplicate='reuse' continues it, 'new' begins "
            "another"
        )
    log.info("seamark: run %s has the same parameters and code, and continues", run)
    return replace(folder, run=run)


def _find_at_remotes(
    options: Settings,
    folder: RunFolder,
    place: RunFolder | None,
    world: World,
    unknown: str = "",
) -> Opening:
    found = Opening(options, folder)
    if not options.remotes or world.rank:
        return found
    here = world.presence(folder)
    if here.is_purged:
        return found
    place = folder if here.exists else place
    answer = world.ask_remotes(place)
    if answer.run is not None:
        begun = answer.attempt if _begins_attempts(options, world) else None
        origin = replace(found.origin, begun=begun)
        return replace(found, folder=answer.folder or folder, origin=origin, remote=answer.run)
    if answer.failure is None:
        return found
    if here.exists:
        log.warning(
            "seamark: cannot determine whether run %s has records elsewhere: %s. "
            "It continues with the records on this disk",
            *(folder.run, answer.failure[:400]),
        )
        return replace(found, is_unanswered=True)
    log.warning(
        "seamark: cannot determine whether run %s exists elsewhere: %s%s",
        *(options.with_id if place is None else place.run, answer.failure[:400]),
        "" if place is None else unknown,
    )
    return found if place is None else replace(found, folder=place, is_unanswered=True)


def _begins_attempts(options: Settings, world: World) -> bool:
    is_silent = options.mode in _SILENT or options.owner is False
    return bool(world.restarts) and options.resume != "never" and not is_silent


def _continue_job(
    options: Settings, folder: RunFolder, world: World, *, is_named: bool
) -> tuple[RunFolder, Origin]:
    # After a restart of the job, this is the run that the job recorded before. A named run stays
    # the same and begins an attempt.
    is_counted = not (is_named or options.mode in _SILENT)
    job_run = world.job_run() if is_counted else None
    if _begins_attempts(options, world):
        earlier, begun = world.restarted(folder, job_run)
        if earlier is not None:
            return earlier, Origin(job_run=job_run, begun=begun, continues=job_run is not None)
    return folder, Origin(job_run=job_run)


def _refusal(options: Settings, folder: RunFolder, world: World) -> SeamarkError | None:
    if not options.names_a_run:
        return None
    here = world.presence(folder)
    if options.with_id or options.must_resume or options.mode == "read-only":
        is_here = here.exists and here.link is None
        return None if is_here else missing_run(folder, here.link)
    if not here.is_purged:
        return None
    return ArgumentError(
        f"custom_run_id: run {options.custom_run_id!r} of project {folder.project!r} was purged, "
        f"and cannot be recorded again; use another id, or remove {folder.purged_mark}"
    )


def _with_free_name(found: Opening, world: World) -> Opening:
    options = found.options
    is_asked = options.conflict is not None or options.make_project is False
    begins = found.remote is None and found.refusal is None
    if not (is_asked and begins and options.remotes) or world.rank:
        return found
    if world.presence(found.folder).exists:
        return found
    name, remotes = world.claim_name(found.folder)
    return replace(found, options=replace(options, name=name, remote=remotes))


class CheckpointDecision(NamedTuple):
    """Decision about the run that continues after a checkpoint is loaded.

    The run is that of ``switch``, or the current one if it is None. If ``begins``, it begins an
    attempt; if ``notes_origin``, it records the run from which its weights come.
    """

    switch: Opening | None = None
    begins: bool = False
    notes_origin: bool = False
    warning: str | None = None


def resolve_checkpoint(
    opening: Opening, saved: Saved, world: World, *, stay: bool, training: bool, is_new: bool
) -> CheckpointDecision:
    """Decide which run continues after a checkpoint is loaded.

    ``training`` is False if the checkpoint is only evaluated: no attempt begins, and only
    ``resume="must"`` switches to its run. ``is_new`` is true if the current run has no records
    besides its arguments.
    """
    options, here = opening.options, opening.folder
    must, begins = options.resume == "must", training and options.resume != "never"
    if options.mode in _SILENT:
        return CheckpointDecision()
    if (saved.run, saved.project) == (here.run, here.project):
        return CheckpointDecision(begins=begins)
    if not (must or begins):
        return CheckpointDecision(notes_origin=True)
    place = RunFolder(here.root, saved.project, saved.run)
    found = _find_at_remotes(options, place, place, world)
    if found.remote is None and not world.presence(place).exists:
        if must:
            raise saved.not_found(here)
        warning = f"{saved.not_found(here)}; recording a new run"
        return CheckpointDecision(notes_origin=True, warning=warning)
    if is_new and not (stay or options.names_a_run):
        switch = replace(found, origin=opening.origin.at(found.origin.begun if training else None))
        return CheckpointDecision(switch, training)
    warning = f"the checkpoint is of run {saved.run!r}; continuing with run {here.run!r}"
    return CheckpointDecision(notes_origin=True, warning=warning)
