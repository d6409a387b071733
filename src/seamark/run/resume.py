"""Resuming a run: what a checkpoint stores of it, and the attempts of its trainings.

An attempt begins when a checkpoint is loaded or a launcher restarts the job. It is a property of
the journals that are opened from then on: their header carries its number and, where a checkpoint
was loaded, how far every journal had come when that was saved (its *positions*). By default readers
hide what older attempts recorded from there on.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from seamark.errors import ArgumentError, RunNotFoundError
from seamark.journal.parts import known_lengths, lengths, missing_journals
from seamark.opening.restarts import (
    EarlierRun,
    JobRun,
    attempt_after,
    attempt_after_restart,
    attempt_of_peers,
    newest_attempt,
    run_before_restart,
)
from seamark.paths import check_name, check_project
from seamark.process.interrupts import quietly
from seamark.process.job import restart_count
from seamark.run.elsewhere import Elsewhere, ask_again
from seamark.run.marks import mark_op, marked_positions, with_ends

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.options.settings import Settings
    from seamark.remote.opening import Opening
    from seamark.run.recorder import Recorder

__all__ = ["Begun", "Origin", "Resume", "Saved", "origin_of"]


class Begun(NamedTuple):
    """An attempt that the next journal of a process belongs to.

    Attributes:
        number: 0-based.
        positions: {writer id: bytes} of the checkpoint that it resumes from; None if it was begun
            without one, and hides nothing.
    """

    number: int
    positions: dict[str, int] | None


@dataclass(frozen=True)
class Origin:
    """Origin of a run; travels with its copies.

    Attributes:
        lineage: The same for a run, its copies in other processes, and the run it switches to.
        job_run: Which of the runs of its job it is; None for a run with a given id.
        begun: The attempt that this process has begun, if it has.
        continues: Whether the run was chosen because it exists.
        passed_over: Id of a run that this job recorded before it was restarted, by another command
            line; None if there is none.
    """

    lineage: str = field(default_factory=lambda: secrets.token_hex(8))
    job_run: JobRun | None = None
    begun: Begun | None = None
    continues: bool = False
    passed_over: str | None = None


class Saved(NamedTuple):
    """State of a run in a checkpoint.

    Attributes:
        run: Run id.
        project: Project path.
        positions: {writer id: bytes} when it was saved; None if that was not known.
        mark: Writer id and number of the mark up to which records still belong to the checkpoint;
            None if there is no such mark.
        partly: Whether journals may have lain elsewhere that it does not name.
    """

    run: str
    project: str
    positions: dict[str, int] | None
    mark: tuple[str, int] | None = None
    partly: bool = False

    @classmethod
    def of(cls, state: object) -> Saved:
        """Check what a checkpoint holds.

        Raises:
            ArgumentError: If it holds something else.
            PathError: If a name cannot be a folder.
        """
        if isinstance(state, Mapping):
            run, project, positions = (state.get(key) for key in ("run", "project", "positions"))
            if isinstance(run, str) and isinstance(project, str):
                place = check_name(run, "run"), check_project(project)
                if positions is None:
                    return cls(*place, None)
                if isinstance(positions, Mapping):
                    noted = {str(name): int(length) for name, length in positions.items()}
                    mark, named = state.get("mark"), None
                    if isinstance(mark, Mapping):
                        named = str(mark.get("writer")), int(mark.get("number", 0))
                    return cls(*place, noted, named, state.get("partly") is True)
        msg = f"state: expected run, project and positions of a checkpoint, got {state!r:.120}"
        raise ArgumentError(msg)

    def not_found(self, here: RunFolder) -> str:
        """Say that the run is not below the root of another one."""
        return (
            f"the checkpoint is of run {self.run!r} of {self.project!r}, not found in {here.root}"
        )


def origin_of(options: Settings, folder: RunFolder) -> tuple[RunFolder, Origin]:
    """Return where a run is recorded that is being made, and where it comes from.

    That is the run that this job recorded before its launcher restarted it, if there is one. A run
    with a given id is that run in any case; after a restart it begins an attempt too.

    Args:
        options: Of the run.
        folder: Where it would be recorded.
    """
    if options.mode in ("disabled", "read-only"):
        return folder, Origin()
    given = options.names_a_run
    job_run = None if given else JobRun.next()
    if options.resume == "never" or options.owner is False or not restart_count():
        return folder, Origin(job_run=job_run)
    earlier = EarlierRun(folder) if given else run_before_restart(folder, job_run)
    if earlier.run is None:
        return folder, Origin(job_run=job_run, passed_over=earlier.passed_over)
    number = attempt_after_restart(earlier.run)
    begun = None if number is None else Begun(number, None)
    return earlier.run, Origin(job_run=job_run, begun=begun, continues=not given)


class Resume:
    """The part of a run that continues what an earlier process recorded.

    Args:
        options: Of the run.
        recorder: Of the run.
        origin: Where the run comes from.
        elsewhere: Facts that a remote knows about the run, of which not all is on this disk.
        ahead: Returns what remotes keep more of than this disk: bytes by writer id.

    Attributes:
        origin: Where the run comes from.
    """

    def __init__(
        self,
        options: Settings,
        recorder: Recorder,
        origin: Origin,
        elsewhere: Elsewhere,
        ahead: Callable[[], dict[str, int]] = dict,
    ) -> None:
        self._options = options
        self._recorder = recorder
        self._opening, self._unanswered = elsewhere.opening, elsewhere.unanswered
        self._ahead = ahead
        self._marks_due: list[int] = []
        self._mark_numbers = itertools.count(1)
        self.origin = origin
        if elsewhere.opening is not None:
            self._begin_restarted(elsewhere.opening)

    @property
    def _folder(self) -> RunFolder:
        return self._recorder.folder

    def _newest(self) -> int:
        """Return the number of the newest attempt that is known, here or elsewhere."""
        elsewhere = 0 if self._opening is None else self._opening.newest_attempt
        return max(newest_attempt(self._folder), elsewhere)

    @property
    def is_partly_elsewhere(self) -> bool:
        """Whether a part of the run lies, or may lie, only elsewhere."""
        return self._unanswered or bool(missing_journals(self._folder, self._there))

    @property
    def _there(self) -> dict[str, int]:
        """Sizes of the journals that remotes keep, in bytes by writer id."""
        return {**({} if self._opening is None else self._opening.sizes), **self._ahead()}

    def _begin_restarted(self, opening: Opening) -> None:
        """Begin an attempt as on this disk, if a launcher restarted the job on another machine."""
        options = self._options
        if restart_count() and options.resume != "never" and options.owner is not False:
            number = attempt_after(opening.journals.values())
            if number is not None and self.origin.begun is None:
                self.origin = replace(self.origin, begun=Begun(number, None))

    def expect_found(self) -> None:
        """Refuse to begin a new run with ``resume="must"``.

        Raises:
            RunNotFoundError: If this would be one.
        """
        options, origin = self._options, self.origin
        found = options.names_a_run or origin.begun or origin.continues
        if not options.must_resume or found or self._recorder.silent:
            return
        msg = (
            "resume='must': expected with_id or custom_run_id of a run that exists, a checkpoint "
            f"that names one, or a restart of a job that recorded one in project "
            f"{self._folder.project!r} below {self._folder.root}; got none of these"
        )
        if origin.passed_over:
            msg += f" (this job recorded run {origin.passed_over} with a different command line)"
        raise RunNotFoundError(msg)

    @property
    def restarted_as(self) -> int | None:
        """The attempt that a restart of the job began and that has recorded nothing yet, or None.

        0-based.
        """
        begun = self.origin.begun
        untold = begun is not None and begun.positions is None and self._recorder.writer is None
        return begun.number if begun is not None and untold else None

    def checkpoint_state(self, *, marked: bool) -> dict[str, Any]:
        """Return what a checkpoint stores of this run; see `Run.checkpoint_state`."""
        recorder = self._recorder
        recorder.kept.write()
        noted = known_lengths(self._folder, self._there) | recorder.positions()
        state: dict[str, Any] = {
            "run": self._folder.run,
            "project": self._folder.project,
            "positions": noted or (None if recorder.silent else {}),
        }
        if self._unanswered:
            state["partly"] = True
        if marked:
            self._marks_due = [*self._marks_due, next(self._mark_numbers)]
            if recorder.writer is not None and recorder.writer.writer is not None:
                state["mark"] = {"writer": recorder.writer.writer, "number": self._marks_due[-1]}
        return state

    def mark_checkpoint(self) -> None:
        """Note that what is recorded from now on came after the last checkpoint. Never raises."""
        due, self._marks_due = self._marks_due, []
        recorder = self._recorder
        if not due or recorder.writer is None or recorder.silent:
            return
        recorder.kept.write()

        def lost(error: Exception) -> None:
            recorder.drop("mark", warn=f"the mark of a checkpoint could not be recorded: {error}")

        with quietly(lost):
            for number in due:
                recorder.record_op(mark_op(number))

    def begin_attempt(self, saved: Saved) -> Begun | None:
        """Begin a new attempt, whose journal names the positions of the checkpoint.

        Returns:
            The attempt; None on a rank that records nothing.
        """
        if self._recorder.silent:
            return None
        self.mark_checkpoint()
        begun, positions = self.origin.begun, self._positions(saved)
        number, own = None, self._recorder.positions().keys() & (positions or {})
        # What a restart has begun, and no checkpoint of its own goes back behind, goes on with it.
        if begun and begun.positions is None and not own:
            number = begun.number
        elif self._options.ranks == "all" and not own:  # one attempt for all, whoever is first
            number = attempt_of_peers(self._folder, self.origin.lineage)
        if number is None or (begun and begun.positions is not None and begun.number == number):
            number = self._newest() + 1
        found = Begun(number, positions)
        self.origin = replace(self.origin, begun=found)
        self._recorder.begin_attempt()
        return found

    def _positions(self, saved: Saved) -> dict[str, int] | None:
        """Return the positions up to which journals belong to what a checkpoint holds.

        A journal that is not here, or has lost what was in it when the checkpoint was saved, is
        known to a remote as long as it was.
        """
        noted, folder = saved.positions, self._folder
        if noted is None:
            return None
        here, told = lengths(folder), self._opening
        saver = None if saved.mark is None else saved.mark[0]
        is_short = saver is not None and here.get(saver, 0) < noted.get(saver, 1)
        if self._options.remotes and (saved.partly or is_short):
            told = ask_again(self._options, folder, saved.mark) or told
        if saved.partly:
            if told is None:
                return None  # what cannot be named must not be hidden
            noted = {**told.sizes, **noted}
        if saved.mark is None:
            return noted
        if is_short and told is not None and told.ends:
            return with_ends(noted, told.ends, told.sizes)
        return marked_positions(folder, noted, *saved.mark)

    def begin_again(self) -> None:
        """Begin a new attempt that hides nothing of the earlier ones. Never raises.

        For a training that begins from nothing in a run that has one already. Where ranks share the
        run they have to agree on attempts, and nothing happens here.
        """
        options, recorder = self._options, self._recorder
        if options.ranks == "all" or options.resume == "never" or recorder.silent:
            return

        def lost(error: Exception) -> None:
            warn = f"that a training began again was not recorded: {error}"
            recorder.drop("state", warn=warn)

        if recorder.writer is not None:
            with quietly(lost):
                self.mark_checkpoint()
                self.origin = replace(self.origin, begun=Begun(self._newest() + 1, None))
                recorder.begin_attempt()

    def follow(self, attempt: int | None) -> None:
        """Continue the run in the attempt that rank 0 has begun; None if it has begun none."""
        begun = None if attempt is None else Begun(attempt, None)
        self.origin = replace(self.origin, begun=begun, continues=True)

    def header(self, *, owner: bool, takes_part: bool) -> dict[str, Any]:
        """Return what the HEADER of a journal that is opened now says of where it comes from."""
        origin, job_run = self.origin, self.origin.job_run
        number, positions = origin.begun or (self._newest(), None)
        return {
            "attempt": number if takes_part else None,
            "positions": positions if owner else None,
            "lineage": origin.lineage,
            "restarts": restart_count(),
            "elsewhere": missing_journals(self._folder, self._there) or None,
            **(job_run._asdict() if job_run else dict.fromkeys(JobRun._fields)),
        }
