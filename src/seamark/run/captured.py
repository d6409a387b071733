"""The target of captures: turns captured facts into records of a run. Nothing here raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from seamark.capture import Capture, Switches

if TYPE_CHECKING:
    from pathlib import Path

    from seamark.journal.writer import JournalWriter
    from seamark.options.settings import Settings
    from seamark.run.introduction import Introduction
    from seamark.run.lifecycle import Lifecycle
    from seamark.run.recorder import Recorder
    from seamark.run.resume import Resume
    from seamark.run.state import OwnState
    from seamark.types import File

__all__ = ["Captured", "Watch"]


class Captured:
    """The part of a run that captures write to; see `seamark.capture.part.Recorder`.

    Args:
        recorder: Of the run.
        note_state: Writes the run's state, if it is this process's to write; never raises.
    """

    def __init__(self, recorder: Recorder, note_state: Callable[..., None]) -> None:
        self._recorder = recorder
        self.note_state = note_state
        self.drop = recorder.drop
        self.note_masked = recorder.contents.note_masked
        self._guard = recorder.guard("capture", "what was captured is left out")

    @property
    def writer(self) -> str | None:
        """Writer id of this process, settled by asking; None where it does not record."""
        writer = self._recorder.writer
        return writer.name() if writer else None

    @property
    def place(self) -> Path | None:
        """The folder in which the run is kept."""
        return self._recorder.folder.path

    @property
    def is_idle(self) -> bool:
        """Whether every record is written; False while one waits for a call it interrupted."""
        return (writer := self._recorder.writer) is None or writer.is_idle

    @property
    def root(self) -> Path:
        """The folder of all runs."""
        return self._recorder.folder.root

    def assign_quietly(self, atoms: Mapping[str, Any]) -> None:
        """Assign values by path; count what cannot be kept."""
        self._recorder.values.assign_quietly(atoms)

    def append_text(self, path: str, text: str) -> None:
        """Add one point to a string series, secrets hidden; count what cannot be kept."""
        with self._guard:
            if (writer := self._open) is not None:
                self._recorder.contents.unasked.add(path)
                self._recorder.points.append_text(writer, path, text)

    def append_numbers(self, numbers: Mapping[str, float]) -> None:
        """Add one point to each of several float series; count what cannot be kept."""
        with self._guard:
            if (writer := self._open) is not None:
                # Not by the recorder's row: such points reopen no run.
                writer.append_row(numbers)

    def keep(self, path: str, file: File) -> None:
        """Store a file; count what cannot be kept."""
        with self._guard:
            if self._open is not None:
                self._recorder.values.assign(path, file)

    def keep_members(self, path: str, members: Mapping[str, bytes]) -> None:
        """Store members of a file set, by name; count what cannot be kept."""
        with self._guard:
            if self._open is not None:
                self._recorder.values.add_files(path, members)

    @property
    def _open(self) -> JournalWriter | None:
        """The open journal, or None; late captures begin no journal."""
        writer = self._recorder.writer
        return None if writer is None or writer.closed else writer


class Watch:
    """Captures of one process in a run, from the first record of a training to its end.

    Args:
        options: Of the run.
        recorder: Of the run.
        introduction: Of the run.
        lifecycle: Of the run, which captures follow.
        state: Of the run.
        resume: Of the run.
    """

    def __init__(
        self,
        options: Settings,
        recorder: Recorder,
        introduction: Introduction,
        lifecycle: Lifecycle,
        state: OwnState,
        resume: Resume,
    ) -> None:
        self._options, self._recorder = options, recorder
        self._introduction, self._lifecycle = introduction, lifecycle
        self._state, self._resume = state, resume
        self._capture: Capture | None = None

    def begin(self) -> None:
        """Capture facts of this process up to its end, and of an owner facts of the run."""
        capture = self._made()
        if self._state.owner and not capture.owner:
            capture.owner = True
            if not self._recorder.rank:
                # First: what a run says of itself is no output of the training.
                self._introduction.greet(self._resume.origin)
                if (sources := self._introduction.keep_sources()) is not None:
                    self._lifecycle.before_end(sources.finish)
        self._lifecycle.call("start")

    def note_error(self, error: BaseException | None, *, asked: bool = False) -> None:
        """Record the error with which a training ends, if captures have begun.

        Args:
            error: None if it ended well.
            asked: Whether the user reports it; then captures need not have begun.
        """
        capture = self._made() if asked else self._capture
        if error is not None and capture is not None:
            capture.note_exception(error, asked=asked)

    def saw_error(self, error: BaseException | None) -> None:
        """Record a propagating error, and the state that it leads to, if captures have begun."""
        if self._capture is not None:
            self._capture.saw_exception(error)

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
            version_at_start=self._introduction.executed_code,
            script_file=options.source_files is None,
            dependencies=None if rank else options.dependencies,
            git_ref=options.git_ref,
            monitoring_namespace=None if rank else options.monitoring_namespace,
            fail_on_exception=options.fail_on_exception is not False,
            secrets=self._recorder.secrets,
        )
