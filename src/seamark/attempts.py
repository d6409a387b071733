"""Attempts: what a checkpoint stores of a run, and how a later process goes on with it.

An attempt begins when a checkpoint is loaded or a launcher restarts the job. It is a property of
the journals that are opened from then on: their header carries its number and, where a checkpoint
was loaded, how far every journal had come when that was saved (its *positions*). By default readers
hide what older attempts recorded from there on.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import secrets
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from seamark.container import Container
from seamark.errors import ArgumentError, RunNotFoundError
from seamark.journal.folder import RunFolder
from seamark.journal.marks import mark_op, marked_positions
from seamark.paths import check_name, check_project
from seamark.place import expect_run
from seamark.ranks import restart_count
from seamark.restarts import (
    Before,
    Maker,
    attempt_after_restart,
    attempt_of_peers,
    newest_attempt,
    run_before_restart,
)
from seamark.values import Atom, encode_atom

if TYPE_CHECKING:
    from typing_extensions import Self

    from seamark.settings import RunSettings

__all__ = ["Descent", "Resumable"]

log = logging.getLogger("seamark")


class Begun(NamedTuple):
    """An attempt that the next journal of a process belongs to.

    Attributes:
        number: 0-based.
        positions: {writer id: bytes} of the checkpoint that it goes on from; None if it was begun
            without one, and hides nothing.
    """

    number: int
    positions: dict[str, int] | None


@dataclass
class Descent:
    """Where a run comes from. Travels with its copies.

    Attributes:
        lineage: The same for a run, its copies in other processes, and what it goes over to.
        maker: None for a run with a given id.
        begun: The attempt that this process has begun, if it has.
        continues: Whether the run was chosen because it exists.
        passed_over: Id of a run that this job recorded before it was restarted, by another command
            line; None if there is none.
    """

    lineage: str
    maker: Maker | None = None
    begun: Begun | None = None
    continues: bool = False
    passed_over: str | None = None


class Saved(NamedTuple):
    """What a checkpoint holds of a run.

    Attributes:
        run: Run id.
        project: Project path.
        positions: {writer id: bytes} when it was saved; None if that was not known.
        mark: Writer id and number of the mark up to which records still belong to the checkpoint;
            None if there is no such mark.
    """

    run: str
    project: str
    positions: dict[str, int] | None
    mark: tuple[str, int] | None = None

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
                    lengths = {str(name): int(length) for name, length in positions.items()}
                    mark = state.get("mark")
                    if isinstance(mark, Mapping):
                        told = str(mark.get("writer")), int(mark.get("number", 0))
                        return cls(*place, lengths, told)
                    return cls(*place, lengths)
        msg = f"state: expected run, project and positions of a checkpoint, got {state!r:.120}"
        raise ArgumentError(msg)


class Resumable(Container):
    """The part of a `Run` that goes on with what an earlier process recorded."""

    _settings: RunSettings
    _descent: Descent
    _marks_due: list[int]
    _mark_numbers: Iterator[int]

    def __init__(self, folder: RunFolder, mode: str) -> None:
        super().__init__(folder, mode)
        self._descent = Descent(secrets.token_hex(8))
        self._marks_due = []
        self._mark_numbers = itertools.count(1)

    @abstractmethod
    def positions(self) -> dict[str, int]:
        """Return {writer id: bytes} of this process's journals, as they are now."""

    @abstractmethod
    def at(self, run: str, project: str | None = None) -> Self:
        """Return a run with the settings of this one and another id; nothing is on disk yet."""

    @abstractmethod
    def tell(self, atoms: Mapping[str, Atom]) -> None:
        """Record facts with the first record, or now if there was one. Never raises."""

    def after_restart(self) -> Self:
        """Return the run that this job recorded before its launcher restarted it, else this one.

        A run with a given id is that run in any case; after a restart it begins an attempt too.

        Raises:
            RunNotFoundError: If ``resume="must"`` and a run with this ``custom_run_id`` is not
                below this root.
        """
        settings, descent = self._settings, self._descent
        given = bool(settings.with_id or settings.custom_run_id)
        if self.mode in ("disabled", "read-only"):
            return self
        if not given:
            descent.maker = Maker.next()
        elif self.must_resume:
            expect_run(self.folder)
        if settings.resume == "never" or not settings.owner or not restart_count():
            return self
        before = Before(self.folder) if given else run_before_restart(self.folder, descent.maker)
        if (folder := before.run) is None:
            descent.passed_over = before.passed_over
            return self
        found = self if given else self.at(folder.run)
        number = attempt_after_restart(folder)
        if number is not None:
            found._descent.begun = Begun(number, None)  # noqa: SLF001 - of its own class
        return found

    def expect_resumed(self) -> None:
        """Refuse to begin a new run with ``resume="must"``.

        Raises:
            RunNotFoundError: If this would be one.
        """
        settings, descent = self._settings, self._descent
        given = settings.with_id or settings.custom_run_id
        if not self.must_resume or given or descent.begun or descent.continues or self._silent:
            return
        msg = (
            "resume='must': expected with_id or custom_run_id of a run that exists, a checkpoint "
            f"that names one, or a restart of a job that recorded one in project "
            f"{self.folder.project!r} below {self.folder.root}; got none of these"
        )
        if descent.passed_over:
            msg += f" (this job recorded run {descent.passed_over} by another command line)"
        raise RunNotFoundError(msg)

    @property
    def restarted_as(self) -> int | None:
        """The attempt that a restart of the job began and that has recorded nothing yet, or None.

        0-based.
        """
        begun = self._descent.begun
        return begun.number if begun and begun.positions is None and not self._writer else None

    @property
    def must_resume(self) -> bool:
        """Whether this run was asked to be one that exists: ``resume="must"``."""
        return self._settings.resume == "must" and self.mode != "disabled"

    def checkpoint_state(self, *, marked: bool = False) -> dict[str, Any]:
        """Return what a checkpoint stores of this run: see `resumed`.

        Strings, ints, dicts and None only: the run's id, its project, and how long every journal is
        now. A rank that sees no journal names no positions; then nothing is hidden by loading the
        checkpoint.

        Args:
            marked: Whether `mark_checkpoint` will be called when the last record was made that
                belongs to what the checkpoint holds. A framework may save in the middle of a step,
                and record the metrics of that step afterwards.
        """
        lengths = _lengths(self.folder) | self.positions()
        positions = lengths or (None if self._silent else {})
        state: dict[str, Any] = {
            "run": self.folder.run,
            "project": self.folder.project,
            "positions": positions,
        }
        if marked:
            self._marks_due = [*self._marks_due, next(self._mark_numbers)]
            if self._writer is not None and self._writer.writer is not None:
                state["mark"] = {"writer": self._writer.writer, "number": self._marks_due[-1]}
        return state

    def mark_checkpoint(self) -> None:
        """Say that what is recorded from now on came after the last checkpoint. Never raises."""
        due, self._marks_due = self._marks_due, []
        if not due or self._writer is None or self._silent:
            return
        try:
            for number in due:
                self.record_op(mark_op(number))
        except Exception as error:  # noqa: BLE001 - a training stands behind this
            self.drop("mark", warn=f"the end of a checkpoint could not be recorded: {error}")

    def resumed(
        self, state: Mapping[str, Any], *, stay: bool = False, training: bool = True
    ) -> Self:
        """Return the run that a checkpoint was saved in, about to begin a new attempt.

        Readers hide by default what older attempts recorded after the checkpoint. A run that has
        recorded something, that was opened by an id or with ``resume="never"``, or a checkpoint
        whose run is not below this root, leave everything as it is; the run then names where its
        weights come from under ``origin/run_id`` and ``origin/project``.

        Args:
            state: What `checkpoint_state` returned then.
            stay: Do not go over to another run.
            training: False where the checkpoint is only evaluated: no attempt begins, and only
                ``resume="must"`` goes over to its run.

        Raises:
            ArgumentError: If it is nothing of that kind.
            RunNotFoundError: If ``resume="must"`` and the run is not below this root.
        """
        saved, settings, here = Saved.of(state), self._settings, self.folder
        if self.mode in ("disabled", "read-only"):
            return self
        never, must = settings.resume == "never", settings.resume == "must"
        if (saved.run, saved.project) == (here.run, here.project):
            if training and not never:
                self._begin_attempt(saved)
            return self
        there = RunFolder(here.root, saved.project, saved.run)
        exists = there.journal_dir.is_dir()
        if must and not exists:
            raise RunNotFoundError(_not_found(saved, here))
        chosen = bool(stay or settings.with_id or settings.custom_run_id)
        if exists and (must or (training and not never)):
            if not chosen and self._writer is None:
                found = self.at(saved.run, saved.project)
                if training:
                    found._begin_attempt(saved)  # noqa: SLF001 - of its own class
                return found
            self._say("the checkpoint is of run %r; going on with %r", saved.run, here.run)
        elif training and not never:
            self._say("%s; this is a new run", _not_found(saved, here))
        if training or self._writer is None:
            self.tell(
                {
                    "origin/run_id": encode_atom(saved.run),
                    "origin/project": encode_atom(saved.project),
                }
            )
        return self

    def _say(self, message: str, *args: object) -> None:
        if not self._silent:
            log.warning(f"seamark: {message}", *args)  # noqa: G004 - the arguments are not in it

    def _begin_attempt(self, saved: Saved) -> None:
        """Have the next record open a journal of a new attempt, which names the positions."""
        if self._silent:
            return
        self.mark_checkpoint()
        begun, positions = self._descent.begun, _positions(self.folder, saved)
        number, own = None, self.positions().keys() & (positions or {})
        # What a restart has begun, and no checkpoint of its own goes back behind, goes on with it.
        if begun and begun.positions is None and not own:
            number = begun.number
        elif self._settings.ranks == "all" and not own:  # one attempt for all, whoever is first
            number = attempt_of_peers(self.folder, self._descent.lineage)
        if number is None or (begun and begun.positions is not None and begun.number == number):
            number = newest_attempt(self.folder) + 1
        self._descent.begun = Begun(number, positions)
        if self._writer is not None:
            self._writer.rotate()

    def _header_of_attempt(self, *, owner: bool, takes_part: bool) -> dict[str, Any]:
        """Return what the HEADER of a journal that is opened now says of where it comes from."""
        descent, maker = self._descent, self._descent.maker
        number, positions = descent.begun or (newest_attempt(self.folder), None)
        return {
            "attempt": number if takes_part else None,
            "positions": positions if owner else None,
            "lineage": descent.lineage,
            "restarts": restart_count(),
            **(maker._asdict() if maker else dict.fromkeys(Maker._fields)),
        }


def _not_found(saved: Saved, here: RunFolder) -> str:
    return f"the checkpoint is of run {saved.run!r} of {saved.project!r}, not found in {here.root}"


def _positions(folder: RunFolder, saved: Saved) -> dict[str, int] | None:
    """Return the positions up to which journals belong to what a checkpoint holds."""
    if saved.positions is None or saved.mark is None:
        return saved.positions
    return marked_positions(folder, saved.positions, *saved.mark)


def _lengths(folder: RunFolder) -> dict[str, int]:
    """Return {writer id: bytes} of every journal of a run."""
    found = {}
    for journal in folder.journals():
        with contextlib.suppress(OSError):  # taken away just now
            found[journal.writer] = journal.path.stat().st_size
    return found
