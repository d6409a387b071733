"""Rests and end of one process's part in a run, whichever way it ends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from seamark.journal.writer import CLOSE_TIMEOUT_S, HEARTBEAT_S
from seamark.run.lifecycle import (
    RECORDING,
    RESTING,
    STOPPED,
    finish_at_exit,
    note_finished,
)

if TYPE_CHECKING:
    from seamark.run.captured import Watch
    from seamark.run.claims import OwnClaim
    from seamark.run.lifecycle import Lifecycle
    from seamark.run.recorded import Recorded
    from seamark.run.recorder import Recorder
    from seamark.run.shipping import Shipping
    from seamark.run.state import OwnState

__all__ = ["Ending"]


class Ending:
    """Rests and end of one process's part in a run.

    Args:
        recorder: Of the run.
        recorded: Of the run.
        lifecycle: Of the run.
        state: Of the run.
        shipping: Of the run.
        watch: Captures of the run.
        claim: Claim on the run.
        show: Prints the end: state, number of losses, and remotes that have all records.
    """

    def __init__(
        self,
        recorder: Recorder,
        recorded: Recorded,
        lifecycle: Lifecycle,
        state: OwnState,
        shipping: Shipping,
        watch: Watch,
        claim: OwnClaim,
        show: Callable[[str, int, list[str]], None],
    ) -> None:
        self._recorder, self._recorded = recorder, recorded
        self._lifecycle, self._state = lifecycle, state
        self._shipping, self._watch, self._claim = shipping, watch, claim
        self._print = show

    @property
    def _prints(self) -> bool:
        """Whether this process is the one that prints how the run ended."""
        return bool(self._state.owner) and not self._recorder.rank

    def expect(self) -> None:
        """Finish when the process ends, unless that has been done by then."""
        finish_at_exit(self, self._recorder.folder)

    def go_on(self) -> None:
        """Record again after a rest, or after having waited."""
        self.expect()
        self._lifecycle.enter(RECORDING)
        self._recorder.beat_every(HEARTBEAT_S)

    def rest(self, state: str, *, error: BaseException | None = None) -> None:
        """Record the state at the end of a training, and free its descriptor and thread.

        Later records go into another journal. The fate of the process says nothing about the run
        any more, until it is ``"running"`` again. Never raises.

        Args:
            state: See `seamark.Run.set_state`.
            error: Exception that ended it, with its traceback.
        """
        if self._lifecycle.phase != RECORDING or not self._state.is_recording_process:
            self._state.note(state, error=error)
            return
        self._watch.note_error(error)
        self._lifecycle.call("rest")
        self._state.note(state, error=error)
        self._lifecycle.enter(RESTING)
        show = partial(self._print, self._state.word, 0, [])
        note_finished(self, self._recorder.folder, show if self._prints else None)
        self._recorder.rest()
        self._shipping.rest()
        self._recorded.close()

    def exit(self, error: BaseException | None) -> None:
        """Finish at the end of a ``with`` block; an exception fails the run."""
        self._watch.saw_error(error)
        self.finish("stop", failed=error is not None)

    def finish_at_exit(self, error: BaseException | None) -> None:
        """Finish because the process ends, by an error unless it is None."""
        self._watch.saw_error(error)
        self.finish("exit", 60.0)

    def finish(
        self,
        reason: str,
        seconds: float | None = None,
        *,
        quiet: bool = False,
        failed: bool = False,
    ) -> None:
        """Store pending files, mark the run completed, force everything to disk, and close.

        Args:
            reason: ``"stop"``, or ``"exit"`` at the end of the process.
            seconds: Time limit for files and the disk; None for none while files are being stored.
            quiet: Whether the run is withdrawn, so that nothing is printed or awaited.
            failed: Whether an exception propagates, which nothing may hold up.
        """
        recorder, state, writer = self._recorder, self._state, self._recorder.writer
        if writer is not None and not state.is_recording_process:
            recorder.kept.write()
            if writer.writer is not None:  # a forked helper closes what it wrote itself
                writer.close(reason)
                self._shipping.finish(seconds, in_haste=True)
            return
        if self._lifecycle.phase == STOPPED:
            return
        if writer is not None:
            if not quiet:
                recorder.kept.write()  # with which a run that waited begins, so that it ends
            writer.retry_now()
        hold = self._claim.end()
        self._lifecycle.call("stop")
        self._lifecycle.enter(STOPPED)
        note_finished(self, self._recorder.folder)
        timeout_s = CLOSE_TIMEOUT_S if seconds is None else min(seconds, CLOSE_TIMEOUT_S)
        recorder.store_files(seconds)
        if state.word == "running":
            state.note("completed")
        lost = recorder.close(reason, timeout_s)
        self._recorded.close()
        in_haste, later = state.word in ("interrupted", "suspended"), failed or reason == "exit"
        sent = self._shipping.finish(
            0 if quiet else seconds, in_haste=in_haste, quiet=quiet, later=later
        )
        if hold is not None:
            hold.release(recorder.positions())
        if writer is not None and self._prints and not quiet:
            self._print(state.word, lost, sent)
