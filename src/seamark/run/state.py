"""Whose state a run's is, and what its owner says of it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from seamark.capture import error_message
from seamark.errors import ArgumentError
from seamark.reading.attributes import DETAIL
from seamark.run.opened import Held, learn, learn_from, was_made
from seamark.values import escape

if TYPE_CHECKING:
    from seamark.journal.writer import JournalWriter
    from seamark.remote.opening import Opening
    from seamark.run.options import RunOptions
    from seamark.run.recorder import Recorder

__all__ = ["OwnState", "check_state", "expect_owned"]

_SETTABLE: Final = ("running", "interrupted", "failed", "suspended", "completed")
_NOT_SET: Final = {
    "created": "a run is created by init_run(start=False)",
    "crashed": "readers derive it of a run whose process is gone",
    "error": "it is a group of states",
    "finished": "it is a group of states",
}
_LONGEST: Final = 1000
"""Characters that a person's word beside a state may have."""


def check_state(state: object, detail: object, error: object) -> None:
    """Refuse what a person cannot say of a run.

    Raises:
        ArgumentError: If there is no such state, or it is none to set; if another argument has a
            value that cannot be used.
    """
    if not isinstance(state, str) or state not in _SETTABLE:
        why = _NOT_SET.get(state) if isinstance(state, str) else None
        near = difflib.get_close_matches(str(state), _SETTABLE, 1)
        hint = f" ({why})" if why else f"; did you mean {near[0]!r}?" if near else ""
        msg = f"state: expected one of {', '.join(_SETTABLE)}, got {state!r:.80}{hint}"
        raise ArgumentError(msg)
    if detail is not None and not (isinstance(detail, str) and 0 < len(detail) <= _LONGEST):
        msg = f"detail: expected a text of 1 to {_LONGEST:,} characters or None, got {detail!r:.80}"
        raise ArgumentError(msg)
    if error is not None and not isinstance(error, BaseException):
        msg = f"error: expected an exception or None, got {type(error).__name__}: {error!r:.80}"
        raise ArgumentError(msg)


def expect_owned(verb: str, words: str, *, owned: bool) -> None:
    """Refuse to tell the state of a run that is somebody else's to tell.

    Args:
        verb: What was called.
        words: What people call the run.
        owned: Whether it is this process's to tell.

    Raises:
        ArgumentError: If it is not.
    """
    if owned:
        return
    msg = (
        f"{verb}: this process neither made {words} nor trains it, and its state is its owner's to "
        "tell; to own it, open it with owner=True"
    )
    raise ArgumentError(msg)


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
        """Write the state, if it is this process's to write; see `set`.

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
        self,
        state: str,
        *,
        detail: str | None = None,
        error: BaseException | None = None,
        signal: str | None = None,
    ) -> None:
        """Write the state, whoever owns it.

        Args:
            state: The state.
            detail: A person's word beside it.
            error: What led to it.
            signal: Name of the signal that led to it.
        """
        op: dict[str, Any] = {"op": "state", "state": state}
        if detail is not None:
            op["detail"] = escape(self._recorder.hide(DETAIL, detail))
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
        held, writer = self._held, self._recorder.writer
        # Asked of the writer too: points may have come while it was being learned what was held.
        touched = held is not None and (
            held.touched or (writer is not None and writer.has_points(held.series))
        )
        if self.opening is not None and self.opening.was_made(lineage):
            return touched
        return touched or not was_made(self._recorder.folder, lineage)
