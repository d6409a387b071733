"""Whose state a run's is, and what its owner says of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from seamark.capture import error_message
from seamark.run.opened import Held, learn, learn_from, was_made
from seamark.values import escape

if TYPE_CHECKING:
    from seamark.journal.writer import JournalWriter
    from seamark.remote.opening import Opening
    from seamark.run.options import RunOptions
    from seamark.run.recorder import Recorder

__all__ = ["OwnState"]


class OwnState:
    """The part of a run that knows whether its state is this process's to tell, and tells it.

    Args:
        options: Of the run.
        recorder: Of the run.
        owner: Whether this process decides the state; None if that is not settled.

    Attributes:
        owner: The same.
        word: The state as this process last wrote it.
        opening: What is known of a run that exists only elsewhere.
    """

    def __init__(self, options: RunOptions, recorder: Recorder, *, owner: bool | None) -> None:
        self._options = options
        self._recorder = recorder
        self._pid = os.getpid()
        self._held: Held | None = None
        self.owner = owner
        self.opening: Opening | None = None
        self.word = "created"

    @property
    def is_here(self) -> bool:
        """Whether this is the process that records, not a forked helper of it."""
        return self._pid == os.getpid()

    def begin_here(self) -> None:
        """Take it that this process records, even if it was forked."""
        self._pid = os.getpid()

    # ---------------------------------------------------------------- telling it

    def note(
        self, state: str, *, error: BaseException | None = None, signal: str | None = None
    ) -> bool:
        """Write the state; see `Run.note_state`.

        Returns:
            Whether it was this process's to write.
        """
        writer = self._recorder.writer
        if writer is None or writer.closed or not self.owner or not self.is_here:
            return False
        if state == "interrupted" and self.word == "suspended":
            return False  # the job is queued again already; being stopped now is part of that
        self.set(state, error=error, signal=signal)
        return True

    def set(
        self, state: str, *, error: BaseException | None = None, signal: str | None = None
    ) -> None:
        """Write the state, whoever owns it."""
        op: dict[str, Any] = {"op": "state", "state": state}
        if error is not None:
            message = escape(error_message(error, self._recorder.secrets))
            op["error"] = {"type": type(error).__name__, "message": message}
        if signal is not None:
            op["signal"] = signal
        was, self.word = self.word, state
        if self._recorder.writer is not None:
            self._recorder.writer.append_op(op)
            if "failed" in (was, state):
                self._recorder.assign_quietly({"sys/failed": state == "failed"})

    # ---------------------------------------------------------------- a run that was there

    def learn(self, writer: JournalWriter) -> None:
        """Learn what the run held; on a thread."""
        namespace = self._options.monitoring_namespace or "monitoring"
        folder, opening = self._recorder.folder, self.opening
        if opening is None:
            self._held = learn(folder, writer, namespace)
        elif all(each.writer in writer.writers for each in folder.journals()):
            self._held = learn_from(opening, writer, namespace)
        else:  # here is what was recorded last, and there what went before
            here = learn(folder, writer, namespace)
            self._held = here.beside(learn_from(opening, writer, namespace))
        self.take_over()

    def take_over(self) -> None:
        """Do what an owner does with what earlier processes left, as soon as that is known."""
        held, recorder = self._held, self._recorder
        if held is None or not self.owner or recorder.rank:
            return
        if held.failed and self.word != "failed":
            recorder.assign_quietly({"sys/failed": False})
        from seamark.blobs import finish_staged

        finish_staged(recorder.folder, recorder.record_content)

    def trains(self, paths: Iterable[str]) -> bool:
        """Tell whether points of these series show that this process trains the run.

        Whoever adds to a series that the run had trains it. False where that is settled.
        """
        held = self._held
        if self.owner is not None or held is None:
            return False
        return held.touched or not held.series or any(path in held.series for path in paths)

    def is_mine_after_all(self, lineage: str) -> bool:
        """Tell whether a run that was opened was trained here, or its maker was another rank.

        False where that is settled.

        Args:
            lineage: What this process's journals name as ``lineage``.
        """
        if self.owner is not None:
            return False
        touched = self._held is not None and self._held.touched
        if self.opening is not None and self.opening.was_made(lineage):
            return touched
        return touched or not was_made(self._recorder.folder, lineage)
