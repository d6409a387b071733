"""Ownership of a run's state, the records of its owner, and the state that a run was found in."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from seamark.capture import error_message
from seamark.errors import ArgumentError
from seamark.paths import is_inside
from seamark.process.interrupts import logged, quietly
from seamark.reading.attributes import DETAIL
from seamark.reading.states import SETTABLE_STATES
from seamark.reading.text import hint_for
from seamark.values import escape
from seamark.values._numbers import argument_error

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.journal.writer import JournalWriter
    from seamark.opening.opening import Opening
    from seamark.reading.attributes import Opening as RunFacts
    from seamark.run.lifecycle import Lifecycle
    from seamark.run.recorder import Recorder


log = logging.getLogger("seamark")

_NOT_SET: Final = {
    "created": "a run is created by init_run(start=False)",
    "crashed": "readers derive it from a run whose process is gone",
    "error": "it is a group of states",
    "finished": "it is a group of states",
}
_LONGEST: Final = 1000
"""Maximum length of the detail of a state, in characters."""
_STAGED_S: Final = 2.0
"""Time limit at the end of a run for storing files left by earlier processes, in seconds."""


def check_state(state: object, detail: object, error: object) -> None:
    """Check the arguments of `seamark.Run.set_state`."""
    if not isinstance(state, str) or state not in SETTABLE_STATES:
        why = _NOT_SET.get(state) if isinstance(state, str) else None
        hint = f" ({why})" if why else hint_for(str(state), SETTABLE_STATES)
        raise ArgumentError(
            f"state: expected one of {', '.join(SETTABLE_STATES)}, got {state!r:.80}{hint}"
        )
    if detail is not None and not (isinstance(detail, str) and 0 < len(detail) <= _LONGEST):
        raise argument_error(detail, "detail", f"a text of 1 to {_LONGEST:,} characters or None")
    if error is not None and not isinstance(error, BaseException):
        raise argument_error(error, "error", "an exception or None")


def expect_owned(verb: str, words: str, *, owned: bool) -> None:
    """Raise `ArgumentError` if this process does not own the state that a verb sets."""
    if owned:
        return
    raise ArgumentError(
        f"{verb}: this process did not create {words} and does not train it; only the owner can "
        "set its state; to own it, open it with owner=True"
    )


class OwnState:
    """Ownership of a run's state (`owner`, None if it is not settled), and the records of it.

    ``had_owner`` is true if an owner was recording the run when this process opened it.
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
        self._series: set[str] = set()
        self._has_failed = False
        self._is_resumable = opening.is_resumable
        self.had_owner = False
        self.owner = owner
        self._may_reopen = may_reopen
        self.word = "created"

    @property
    def is_recording_process(self) -> bool:
        """Whether this is the process that records, not a forked helper of it."""
        return self._pid == os.getpid()

    def begin(self, *, owns: bool) -> None:
        """Record in this process from now on, even if it was forked."""
        self._pid = os.getpid()
        self.word = "created"  # in a forked child that is another rank, too
        if owns:
            self.own()

    def own(self) -> bool:
        """Own the state from now on; return False if ownership was already decided."""
        if self.owner is not None:
            return False
        self.owner = True
        return True

    def disown(self) -> None:
        """Leave the state to the process that has taken over the run."""
        self.owner = False
        if (writer := self._recorder.writer) is not None:
            with quietly():
                writer.rotate()  # the header of the next journal says so

    # ---------------------------------------------------------------- telling it

    def note(
        self, state: str, *, error: BaseException | None = None, signal: str | None = None
    ) -> None:
        """Write the state, if it is this process's to write. Never raises."""
        recorder = self._recorder
        if state != "running":
            recorder.kept.write()
        with recorder.guard("state", f"the state {state!r} could not be recorded"):
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
        """Write the state without a check of ownership."""
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

        with logged(f"the values of run {folder.run} could not be read"):
            known: list[RunFacts] = [] if remote is None else [remote]
            if remote is None or folder.journals():  # what was recorded last is on this disk
                here, self.had_owner = run_on_disk(folder)
                known.insert(0, here)
            self._is_resumable = self._is_resumable or known[0].resumable
            for one in known:
                self._has_failed = self._has_failed or one.failed
                self._series |= learn(one, writer, namespace)

    def take_over(self, lifecycle: Lifecycle) -> None:
        """Note that a failed run continues; store files that dead processes left, on a thread."""
        recorder = self._recorder
        if not self.owner or recorder.rank:
            return
        if self._has_failed and self.word != "failed":
            recorder.values.assign_quietly({"sys/failed": False})
        if recorder.folder.staging_dir.is_dir():
            from seamark.blobs import finish_staged

            thread = threading.Thread(
                target=logged("files of an ended process could not be stored")(finish_staged),
                args=(recorder.folder,),
                name="seamark-staged",
                daemon=True,
            )
            thread.start()
            lifecycle.before_end(lambda: thread.join(_STAGED_S))

    @property
    def is_reopened(self) -> bool:
        """Whether this process continues a run that had not ended, and has no point yet."""
        undecided = self.owner is None and self._may_reopen and self.is_recording_process
        return undecided and self._is_resumable

    def warn_of_series(self, paths: Iterable[str]) -> bool:
        """Warn, and return True, if points belong to the training of another owner."""
        path = next((path for path in paths if path in self._series), None)
        if path is None:
            return False
        log.warning(
            "seamark: this process adds to %r, recorded by the training of %s, and does not own "
            "the run, so its state stays. To continue the training, open it with owner=True",
            *(path, self._recorder.folder.words),
        )
        return True


def run_on_disk(folder: RunFolder) -> tuple[RunFacts, bool]:
    """Return the facts about a run on this disk, once folded, and whether an owner records it."""
    from seamark.index.index import Index

    with Index.open(folder.root) as index:
        index.refresh(folder.project, folder.run)
        view = index.view(folder.project, folder.run)
        return view.opening(), view.state == "running"


def learn(known: RunFacts, writer: JournalWriter, namespace: str = "monitoring") -> set[str]:
    """Tell a writer the families and last steps of a run; return the float series of its training.

    These are without captured ones, and without those that only processes wrote which did not own
    the run, such as evaluations.
    """
    series = set()
    for path, family in known.families.items():
        if path.startswith("sys/") and family == "atom":
            continue
        # Captured series say nothing about who trains.
        is_trained = family == "float_series" and path in known.trained
        if is_trained and not is_inside(path, namespace):
            series.add(path)
        writer.families.setdefault(path, family)
        if path in known.last_steps and family.endswith("_series"):
            writer.remember_step(path, known.last_steps[path])
    return series


def has_other_owner(headers: Iterable[Mapping[str, Any]], lineage: str) -> bool:
    """Return whether the run was owned by a process other than this one and its copies."""
    return any(one.get("owner") and one.get("lineage") != lineage for one in headers)
