"""Agreement of all ranks on one run: rank 0 decides and broadcasts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from seamark import errors
from seamark.errors import SeamarkError
from seamark.opening.place import expect_writable
from seamark.process.rank import connected, current_rank

if TYPE_CHECKING:
    from seamark.options.settings import Settings
    from seamark.run.ranks import RankPolicy
    from seamark.run.recorder import Recorder
    from seamark.run.resume import Resume

__all__ = ["Agreed", "RankAgreement"]

_REFUSED: Final = "!"
"""Begins what rank 0 says if it does not begin."""


class Agreed(NamedTuple):
    """The run and attempt that rank 0 decided on.

    Attributes:
        run: Run id.
        project: Project path.
        attempt: The attempt that it has begun, 0-based; None if it has begun none.
    """

    run: str
    project: str
    attempt: int | None


class RankAgreement:
    """Agreement of all ranks on the run and the attempt that rank 0 decided on.

    Args:
        options: Of the run.
        recorder: Of the run.
        policy: Of the run.
        resume: Of the run.
        connected: Whether the ranks agreed on the run before this one that it continues.

    Attributes:
        connected_at_start: Whether the ranks agreed on this run when it began, so that each of them
            takes part whenever it is decided what to go on with.
    """

    def __init__(
        self,
        options: Settings,
        recorder: Recorder,
        policy: RankPolicy,
        resume: Resume,
        *,
        connected: bool,
    ) -> None:
        self._options = options
        self._recorder = recorder
        self._policy = policy
        self._resume = resume
        self.connected_at_start = connected

    @property
    def is_follower(self) -> bool:
        """Whether rank 0 finds out what this rank goes on with, from its own disk."""
        if self._recorder.mode == "read-only" or not current_rank().rank:
            return False
        return self._options.ranks == "all" or self._policy.silent

    def refusal(self, expect: Callable[[], object]) -> SeamarkError | None:
        """Return why a run cannot begin; None if it can, or where rank 0 answers for this rank.

        Args:
            expect: Raises what is wrong with the run that was asked for.
        """
        if connected() and current_rank().rank:
            return None
        try:
            expect()
            if connected() and not self._recorder.silent:
                expect_writable(self._recorder.folder)
        except SeamarkError as error:
            return error
        return None

    def receive_decision(self, refusal: SeamarkError | None) -> Agreed | None:
        """Return what rank 0 goes on with; None if there is nobody to talk to.

        Args:
            refusal: Why rank 0 does not begin, which is raised on all ranks.

        Raises:
            ArgumentError: If ``ranks="all"`` and other ranks cannot learn the id.
            SeamarkError: What rank 0 was given as ``refusal``.
        """
        folder, begun = self._recorder.folder, self._resume.origin.begun
        words = f"{'' if begun is None else begun.number} {folder.project}/{folder.run}"
        if refusal is not None:
            words = f"{_REFUSED} {type(refusal).__name__} {refusal}"
        said = self._policy.broadcast_from_rank_zero(words)
        if refusal is not None:
            raise refusal
        if said is None:
            return None
        if said.startswith(_REFUSED):
            _, kind, why = said.split(" ", 2)
            raise getattr(errors, kind)(why)
        attempt, _, place = said.partition(" ")
        project, _, run = place.rpartition("/")
        return Agreed(run, project, int(attempt) if attempt else None)

    def begin(self) -> None:
        """Remember whether the ranks agreed on the run as it begins."""
        self.connected_at_start = self._policy.agreed

    def accept(self, attempt: int | None) -> None:
        """Adopt this run, and the attempt of rank 0: the ranks agreed on them."""
        self._policy.agree()
        self._recorder.ask_again()  # what was another's to record may be ours now
        if current_rank().rank:  # as far as this is asked for, rank 0 answers for it
            self._resume.follow(attempt)
