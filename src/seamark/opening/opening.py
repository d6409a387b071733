"""Result of the decision how a process takes part in a run, and what a checkpoint says about it.

An attempt begins when a checkpoint is loaded or a launcher restarts the job. It is a property of
the journals that are opened from then on: their header carries its number and, where a checkpoint
was loaded, how far every journal had come when that was saved (its *positions*). By default readers
hide what older attempts recorded from there on.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from seamark.errors import ArgumentError, RunNotFoundError, SeamarkError
from seamark.paths import check_name, check_project

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.opening.restarts import JobRun
    from seamark.options.settings import Settings
    from seamark.remote.remote_run import RemoteRun

__all__ = ["Attempt", "Opening", "Origin", "Saved"]


class Attempt(NamedTuple):
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

    lineage: str = field(default_factory=partial(secrets.token_hex, 8))
    job_run: JobRun | None = None
    begun: Attempt | None = None
    continues: bool = False
    passed_over: str | None = None


@dataclass(frozen=True)
class Opening:
    """Decision how a process takes part in a run; made before the first byte is written.

    Attributes:
        options: Arguments of the run, as they hold for it.
        folder: Where it is recorded on this disk.
        origin: Where it comes from.
        remote: Facts that a remote has about it; None if none was asked, if none has it, or if all
            that it has is on this disk.
        is_unanswered: Whether a remote was asked for it and did not answer.
        is_resumable: Whether it was begun but not ended for good and no owner of it lives, as a
            remote knows; False if this disk has to be asked.
        refusal: Error to raise instead of beginning it; None if it may begin.
    """

    options: Settings
    folder: RunFolder
    origin: Origin = field(default_factory=Origin)
    remote: RemoteRun | None = None
    is_unanswered: bool = False
    is_resumable: bool = False
    refusal: SeamarkError | None = None

    def may_own(self, *, trains: bool) -> bool:
        """Return whether this process may decide the state of a run that a remote has.

        Args:
            trains: Whether the process belongs to a training, which owns a run whatever its state.
        """
        if self.remote is None or self.options.owner is not None:
            return bool(self.options.owner)
        return trains or self.origin.begun is not None or self.remote.resumable

    def at(self, folder: RunFolder, remote: RemoteRun | None = None) -> Opening:
        """Return the opening of another run, with the same options and lineage.

        Args:
            folder: Of the other run.
            remote: Facts that a remote has about it.
        """
        origin = replace(self.origin, begun=None, continues=True)
        return Opening(self.options, folder, origin, remote)


class Saved(NamedTuple):
    """State of a run in a checkpoint.

    Attributes:
        run: Run id.
        project: Project path.
        positions: {writer id: bytes} when it was saved; None if that was not known.
        mark: Writer id and number of the mark up to which records still belong to the checkpoint;
            None if there is no such mark.
        partly: Whether a remote may have had journals that it does not name.
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

    def not_found(self, here: RunFolder) -> RunNotFoundError:
        """Return the error that the run is not below the root of another one."""
        return RunNotFoundError(
            f"the checkpoint is of run {self.run!r} of {self.project!r}, not found in {here.root}"
        )
