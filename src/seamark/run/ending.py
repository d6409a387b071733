"""Target of the captures of a run, and the end of a run in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from seamark.capture import Capture, Switches
from seamark.journal.writer import CLOSE_TIMEOUT_S, HEARTBEAT_S
from seamark.run.lifecycle import RECORDING, RESTING, STOPPED, finish_at_exit, note_finished

if TYPE_CHECKING:
    from pathlib import Path

    from seamark.journal.writer import JournalWriter
    from seamark.opening.opening import Origin
    from seamark.options.settings import Settings
    from seamark.run.introduction import Introduction
    from seamark.run.lifecycle import Lifecycle
    from seamark.run.recorded import Recorded
    from seamark.run.recorder import Recorder
    from seamark.run.shipping import Shipping
    from seamark.run.state import OwnState
    from seamark.types import File


class Captured:
    """Part of a run to which captures write; see `seamark.capture.part.Recorder`."""

    def __init__(self, recorder: Recorder, note_state: Callable[..., None]) -> None:
        self._recorder = recorder
        self.note_state = note_state
        self.drop = recorder.drop
        self.note_masked = recorder.contents.note_masked
        self._guard = recorder.guard("capture", "what was captured is left out")

    @property
    def writer(self) -> str | None:
        """Writer id of this process, fixed by the first access; None if it does not record."""
        writer = self._recorder.writer
        return writer.name() if writer else None

    @property
    def place(self) -> Path | None:
        """Folder of the run."""
        return self._recorder.folder.path

    @property
    def is_idle(self) -> bool:
        """Whether every record is written; False while one waits for a call it interrupted."""
        return (writer := self._recorder.writer) is None or writer.is_idle

    def assign_quietly(self, atoms: Mapping[str, Any]) -> None:
        """Assign values by path; count failures."""
        self._recorder.values.assign_quietly(atoms)

    def append_text(self, path: str, text: str) -> None:
        """Add one point to a string series, secrets hidden; count failures."""
        self._recorder.contents.unasked.add(path)
        self._record(lambda writer: self._recorder.points.append_text(writer, path, text))

    def append_numbers(self, numbers: Mapping[str, float]) -> None:
        """Add one point to each of several float series; count failures."""
        # Not by the recorder's row: such points do not reopen a run.
        self._record(lambda writer: writer.append_row(numbers))

    def keep(self, path: str, file: File) -> None:
        """Store a file; count failures."""
        self._record(lambda _: self._recorder.values.assign(path, file))

    def keep_members(self, path: str, members: Mapping[str, bytes]) -> None:
        """Store members of a file set, by name; count failures."""
        self._record(lambda _: self._recorder.values.add_files(path, members))

    def _record(self, record: Callable[[JournalWriter], object]) -> None:
        # Late captures do not open a journal.
        writer = self._recorder.writer
        if writer is not None and not writer.closed:
            with self._guard:
                record(writer)


class Ending:
    """Captures, rests and end of one process in a run."""

    def __init__(
        self,
        options: Settings,
        recorder: Recorder,
        recorded: Recorded,
        introduction: Introduction,
        lifecycle: Lifecycle,
        state: OwnState,
        shipping: Shipping,
        show: Callable[[str, int, list[str]], None],
    ) -> None:
        self._options, self._introduction = options, introduction
        self._recorder, self._recorded = recorder, recorded
        self._lifecycle, self._state, self._shipping = lifecycle, state, shipping
        self._print = show
        self._capture: Capture | None = None

    # ---------------------------------------------------------------- captures

    def begin_captures(self, origin: Origin) -> None:
        """Capture facts about this process until its end, and for an owner facts about the run."""
        capture = self._made()
        if self._state.owner and not capture.owner:
            capture.owner = True
            if not self._recorder.rank:
                # First: lines that a run prints are not output of the training.
                self._introduction.greet(origin)
                self._introduction.keep_sources(self._lifecycle)
        self._lifecycle.call("start")

    def note_error(self, error: BaseException | None, *, asked: bool = False) -> None:
        """Record the error that ends a training, if captures have started or errors are wanted."""
        capture = self._made() if asked else self._capture
        if error is not None and capture is not None:
            capture.note_exception(error, reported=asked)

    def _made(self) -> Capture:
        if self._capture is None:
            where = Captured(self._recorder, self._state.note)
            self._capture = Capture(where, self._switches(), owner=False)
            start, stop = self._capture.start, self._capture.stop
            self._lifecycle.on(start=start, rest=stop, stop=stop)
        return self._capture

    def _switches(self) -> Switches:
        options, rank = self._options, self._recorder.rank
        captures = options.captures
        if rank:  # rank 0 records them for all
            captures.update(git=False, script=False, packages=False)
        return Switches(
            **captures,
            version=options.code_version is None,
            version_at_start=lambda: self._introduction.version.executed,
            script_file=options.source_files is None,
            dependencies=None if rank else options.dependencies,
            git_ref=options.git_ref,
            monitoring_namespace=None if rank else options.monitoring_namespace,
            fail_on_exception=options.fail_on_exception is not False,
            secrets=self._recorder.secrets,
        )

    # ---------------------------------------------------------------- rests and the end

    @property
    def _prints(self) -> bool:
        return bool(self._state.owner) and not self._recorder.rank

    def expect(self) -> None:
        """Finish when the process ends, unless that was done earlier."""
        finish_at_exit(self, self._finish_at_exit, self._recorder.folder)

    def go_on(self) -> None:
        """Resume recording after a rest or a wait."""
        self.expect()
        self._lifecycle.enter(RECORDING)
        self._recorder.beat_every(HEARTBEAT_S)

    def rest(self, state: str = "completed", *, error: BaseException | None = None) -> None:
        """Record the state at the end of a training, and release the descriptor and thread.

        Never raises. Later records go into another journal. The end of the process no longer
        affects the state of the run, until the run is ``"running"`` again.
        """
        if self._lifecycle.phase != RECORDING or not self._state.is_recording_process:
            self._state.note(state, error=error)
            return
        self.note_error(error)
        self._lifecycle.call("rest")
        self._state.note(state, error=error)
        self._lifecycle.enter(RESTING)
        word, lost = self._state.word, self._recorder.lost
        show = (lambda _: self._print(word, lost, [])) if self._prints else None
        note_finished(self, self._recorder.folder, show)
        self._recorder.rest()
        self._shipping.rest()
        self._recorded.close()

    def _finish_at_exit(self, error: BaseException | None) -> None:
        self.finish("exit", 60.0, error=error)

    def finish(
        self,
        reason: str,
        seconds: float | None = None,
        *,
        quiet: bool = False,
        error: BaseException | None = None,
    ) -> None:
        """Store pending files, mark the run completed, force everything to disk, and close.

        ``reason`` is ``"stop"``, or ``"exit"`` at the end of the process; ``seconds`` limits the
        wait for files and disk. A ``quiet`` run is withdrawn: nothing is printed or awaited. A
        propagating ``error`` fails the run, and must not be delayed.
        """
        if self._capture is not None:
            self._capture.on_exception(error)
        recorder, state, writer = self._recorder, self._state, self._recorder.writer
        if writer is not None and not state.is_recording_process:
            recorder.kept.write()
            if writer.writer is not None:  # a forked helper closes its own journal
                writer.close(reason)
                self._shipping.finish(seconds, in_haste=True)
            return
        if self._lifecycle.phase == STOPPED:
            return
        if writer is not None:
            if not quiet:
                recorder.kept.write()  # starts a waiting run, so that it can end
            writer.retry_now()
        self._lifecycle.call("stop")
        self._lifecycle.enter(STOPPED)
        note_finished(self, self._recorder.folder)
        timeout_s = CLOSE_TIMEOUT_S if seconds is None else min(seconds, CLOSE_TIMEOUT_S)
        recorder.store_files(seconds)
        if state.word == "running":
            state.note("completed")
        lost = recorder.close(reason, timeout_s)
        self._recorded.close()
        in_haste = state.word in ("interrupted", "suspended")
        later = error is not None or reason == "exit"
        sent = self._shipping.finish(
            0 if quiet else seconds, in_haste=in_haste, quiet=quiet, later=later
        )
        self._lifecycle.call("closed")
        if writer is not None and self._prints and not quiet:
            self._print(state.word, lost, sent)
