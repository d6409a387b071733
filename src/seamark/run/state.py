"""Ownership of a run's state, and the records that its owner writes."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from seamark.capture import error_message
from seamark.errors import ArgumentError
from seamark.process.interrupts import quietly
from seamark.reading.attributes import DETAIL
from seamark.reading.nearest import hint_for
from seamark.run.opened import Held, learn, learn_from
from seamark.values import escape

if TYPE_CHECKING:
    from seamark.journal.writer import JournalWriter
    from seamark.opening.opening import Opening
    from seamark.run.lifecycle import Lifecycle
    from seamark.run.recorder import Recorder

__all__ = ["OwnState", "check_state", "expect_owned"]

log = logging.getLogger("seamark")

_SETTABLE: Final = ("running", "interrupted", "failed", "suspended", "completed")
_NOT_SET: Final = {
    "created": "a run is created by init_run(start=False)",
    "crashed": "readers derive it of a run whose process is gone",
    "error": "it is a group of states",
    "finished": "it is a group of states",
}
_LONGEST: Final = 1000
"""Characters that a person's word beside a state may have."""
_STAGED_S: Final = 2.0
"""Seconds that the end of a run waits for files that earlier processes left to be stored."""


def check_state(state: object, detail: object, error: object) -> None:
    """Refuse what a person cannot say of a run.

    Raises:
        ArgumentError: If there is no such state, or it is none to set; if another argument has a
            value that cannot be used.
    """
    if not isinstance(state, str) or state not in _SETTABLE:
        why = _NOT_SET.get(state) if isinstance(state, str) else None
        hint = f" ({why})" if why else hint_for(str(state), _SETTABLE)
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
        opening: Of the run.
        recorder: Of the run.
        revive: Called when the run is noted as running, after a rest or not.
        owner: Whether this process decides the state; None if that is not settled.
        may_reopen: Whether this process goes on with a run that it finds left.

    Attributes:
        owner: Whether this process decides the state; None if that is not settled.
        word: The state as this process last wrote it; ``"created"`` if it wrote none.
    """

    def __init__(
        self,
        opening: Opening,
        recorder: Recorder,
        revive: Callable[[], object],
        *,
        owner: bool | None,
        may_reopen: bool,
    ) -> None:
        self._opening = opening
        self._recorder = recorder
        self._revive = revive
        self._pid = os.getpid()
        self._held = Held()
        self.owner = owner
        self._may_reopen = may_reopen
        self.word = "created"

    @property
    def is_recording_process(self) -> bool:
        """Whether this is the process that records, not a forked helper of it."""
        return self._pid == os.getpid()

    def begin(self, *, owns: bool) -> None:
        """Record in this process from now on, even if it was forked.

        Args:
            owns: Whether it decides the state, if that is not settled.
        """
        self._pid = os.getpid()
        self.word = "created"  # in a forked child that is another rank, too
        if owns:
            self.own()

    def own(self) -> bool:
        """Decide the state from now on; return False where it was settled who does."""
        if self.owner is not None:
            return False
        self.owner = True
        return True

    def disown(self) -> None:
        """Leave the state to whoever has taken the run over."""
        self.owner = False
        if (writer := self._recorder.writer) is not None:
            with quietly():
                writer.rotate()  # the header of the next journal says so

    # ---------------------------------------------------------------- telling it

    def note(
        self, state: str, *, error: BaseException | None = None, signal: str | None = None
    ) -> None:
        """Write the state, if it is this process's to write; see `set`. Never raises.

        Args:
            state: See `seamark.Run.set_state`.
            error: What ended the run; type and message are kept, secrets masked.
            signal: Name of the signal that ended it.
        """
        recorder = self._recorder

        def lost(trouble: Exception) -> None:
            warn = f"the state {state!r} could not be recorded: {trouble!r:.200}"
            recorder.drop("state", 1, warn)

        if state != "running":
            recorder.kept.write()
        with quietly(lost):
            writer = recorder.writer
            if writer is None or writer.closed or not self.owner or not self.is_recording_process:
                return
            if state == "interrupted" and self.word == "suspended":
                return  # the job is queued again already; being stopped now is part of that
            self.set(state, error=error, signal=signal)
            if state == "running":
                self._revive()

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
            op["detail"] = escape(self._recorder.contents.hide(DETAIL, detail))
        if error is not None:
            message = escape(error_message(error, self._recorder.secrets))
            op["error"] = {"type": type(error).__name__, "message": message}
        if signal is not None:
            op["signal"] = signal
        was, self.word = self.word, state
        if self._recorder.writer is not None:
            self._recorder.writer.append_op(op)
            if "failed" in (was, state):
                self._recorder.values.assign_quietly({"sys/failed": state == "failed"})

    # ---------------------------------------------------------------- a run that was there

    def learn(self, writer: JournalWriter) -> None:
        """Read the paths, the last steps and the state that the run had. Never raises."""
        namespace = self._opening.options.monitoring_namespace or "monitoring"
        folder, remote = self._recorder.folder, self._opening.remote

        def lost(error: Exception) -> None:
            log.warning("seamark: what run %s holds could not be read: %s", folder.run, error)

        with quietly(lost):
            if remote is None:
                self._held = learn(folder, writer, namespace)
            elif not folder.journals():
                self._held = learn_from(remote, writer, namespace)
            else:  # here is what was recorded last, and there what went before
                here = learn(folder, writer, namespace)
                self._held = here.merged_with(learn_from(remote, writer, namespace))

    def take_over(self, lifecycle: Lifecycle) -> None:
        """Note that a run that failed goes on, and store on a thread what dead processes left.

        Args:
            lifecycle: Of the run, whose end waits for the thread.
        """
        recorder = self._recorder
        if not self.owner or recorder.rank:
            return
        if self._held.failed and self.word != "failed":
            recorder.values.assign_quietly({"sys/failed": False})
        if recorder.folder.staging_dir.is_dir():
            from seamark.blobs import finish_staged

            finish = partial(finish_staged, recorder.folder, recorder.contents.record_file)
            thread = threading.Thread(target=finish, name="seamark-staged", daemon=True)
            thread.start()
            lifecycle.before_end(lambda: thread.join(_STAGED_S))

    @property
    def is_reopened(self) -> bool:
        """Whether this process goes on with a run that had not ended, and has no point yet."""
        undecided = self.owner is None and self._may_reopen and self.is_recording_process
        return undecided and (self._held.resumable or self._opening.is_resumable)

    @property
    def had_owner(self) -> bool:
        """Whether an owner was recording the run when this process opened it."""
        return self._held.running

    def warn_of_series(self, paths: Iterable[str]) -> bool:
        """Warn that a process that owns no state adds to the training's series; tell whether so."""
        path = next((path for path in paths if path in self._held.series), None)
        if path is None:
            return False
        log.warning(
            "seamark: this process adds to %r, which the training of %s recorded, and does not own "
            "the run: its state stays. To go on with the training, open it with owner=True",
            *(path, self._recorder.folder.words),
        )
        return True
