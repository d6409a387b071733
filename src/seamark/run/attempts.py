"""Attempts of a run in one process, and the state of it in checkpoints; see `seamark.opening`.

A framework may save in the middle of a step, and ranks do not save simultaneously. Each
participating process therefore writes a *mark* after the last record that belongs to the
checkpoint. Marks are numbered from 1, identically on every rank of a training.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import RunNotFoundError
from seamark.journal.format import Kind
from seamark.journal.headers import header_of
from seamark.journal.reader import JournalReader, decode_json
from seamark.opening.restarts import Attempt, JobRun, attempt_of_peers, newest_attempt
from seamark.process.rank import restart_count

if TYPE_CHECKING:
    from seamark.journal.folder import JournalFile, RunFolder
    from seamark.opening.opening import Opening, Saved
    from seamark.run.recorder import Recorder


_BEGIN: Final = b'{"op":"checkpoint","mark":'


class Resume:
    """Attempts of a run that continues an earlier one.

    ``opening`` is the decision about the run, which `adopt` replaces; ``origin`` has the attempt
    that was begun since.
    """

    def __init__(self, opening: Opening, recorder: Recorder) -> None:
        self.opening = opening
        self._recorder = recorder
        self._marks_due: list[int] = []
        self._mark_numbers = itertools.count(1)
        self.origin = opening.origin

    def adopt(self, opening: Opening) -> None:
        """Go on after journals were copied to this disk, or rank 0 chose another folder."""
        self.opening = opening

    @property
    def _folder(self) -> RunFolder:
        return self._recorder.folder

    def _newest(self) -> int:
        remote = self.opening.remote
        elsewhere = 0 if remote is None else remote.newest_attempt
        return max(newest_attempt(self._folder), elsewhere)

    def _sizes(self) -> dict[str, int]:
        found, remote = self._folder.sizes(), self.opening.remote
        for writer, size in ({} if remote is None else remote.sizes).items():
            found[writer] = max(size, found.get(writer, 0))
        return found

    def expect_found(self) -> None:
        """Raise if ``resume="must"`` would start a new run."""
        options, origin = self.opening.options, self.origin
        found = options.names_a_run or origin.begun or origin.continues
        if not options.must_resume or found or self._recorder.silent:
            return
        raise RunNotFoundError(
            "resume='must': expected with_id or custom_run_id of an existing run, a checkpoint "
            f"that names one, or a restart of a job that recorded one in project "
            f"{self._folder.project!r} below {self._folder.root}; got none of these"
        )

    @property
    def restarted_as(self) -> int | None:
        """Attempt (0-based) that a restart began and that has no records yet, or None."""
        begun = self.origin.begun
        if begun and begun.positions is None and self._recorder.writer is None:
            return begun.number
        return None

    def checkpoint_state(self, *, marked: bool) -> dict[str, Any]:
        """Return the state of this run for a checkpoint; see `Run.checkpoint_state`."""
        recorder = self._recorder
        recorder.kept.write()
        noted = self._sizes() | recorder.positions()
        state: dict[str, Any] = {
            "run": self._folder.run,
            "project": self._folder.project,
            "positions": noted or (None if recorder.silent else {}),
        }
        if self.opening.is_unanswered:
            state["partly"] = True
        if marked:
            self._marks_due = [*self._marks_due, next(self._mark_numbers)]
            if recorder.writer is not None and recorder.writer.writer is not None:
                state["mark"] = {"writer": recorder.writer.writer, "number": self._marks_due[-1]}
        return state

    def mark_checkpoint(self) -> None:
        """Mark the end of the records that belong to the last checkpoint. Never raises."""
        due, self._marks_due = self._marks_due, []
        recorder = self._recorder
        if not due or recorder.writer is None or recorder.silent:
            return
        recorder.kept.write()
        with recorder.guard("mark", "the mark of a checkpoint could not be recorded"):
            for number in due:
                recorder.values.record_op({"op": "checkpoint", "mark": number})

    def begin_attempt(self, saved: Saved) -> Attempt | None:
        """Begin an attempt from the checkpoint's positions; None on silent ranks."""
        if self._recorder.silent:
            return None
        self.mark_checkpoint()
        begun, positions = self.origin.begun, self._positions(saved)
        number, own = None, self._recorder.positions().keys() & (positions or {})
        # An attempt that a restart has begun continues, unless its own checkpoint is loaded.
        if begun and begun.positions is None and not own:
            number = begun.number
        elif self.opening.options.ranks == "all" and not own:
            # One attempt for all ranks, whichever rank is first.
            number = attempt_of_peers(self._folder, self.origin.lineage)
        if number is None or (begun and begun.positions is not None and begun.number == number):
            number = self._newest() + 1
        found = Attempt(number, positions)
        self.origin = replace(self.origin, begun=found)
        self._recorder.begin_attempt()
        return found

    def _positions(self, saved: Saved) -> dict[str, int] | None:
        noted = saved.positions
        if noted is None or (saved.partly and self.opening.is_unanswered):
            return None  # records without a known position must not be hidden
        if saved.partly:
            noted = {**self._sizes(), **noted}
        if saved.mark is None:
            return noted
        return _marked_positions(self._folder, noted, *saved.mark)

    def begin_again(self) -> None:
        """Begin a new attempt that hides nothing of the earlier ones. Never raises.

        For a training that starts from scratch in a run that already has one. Does nothing if ranks
        share the run, because they must agree on attempts.
        """
        options, recorder = self.opening.options, self._recorder
        is_apart = options.ranks == "all" or options.resume == "never"
        if is_apart or recorder.silent or recorder.writer is None:
            return
        with recorder.guard("state", "the restart of a training could not be recorded"):
            self.mark_checkpoint()
            self.origin = replace(self.origin, begun=Attempt(self._newest() + 1, None))
            recorder.begin_attempt()

    def follow(self, attempt: int | None) -> None:
        """Continue the run in the attempt begun by rank 0; None if there is none."""
        begun = None if attempt is None else Attempt(attempt, None)
        self.origin = self.origin.at(begun)

    def header(self, *, owner: bool, takes_part: bool) -> dict[str, Any]:
        """Return the HEADER fields about the origin of a journal that is opened now."""
        origin, job_run = self.origin, self.origin.job_run
        number, positions = origin.begun or (self._newest(), None)
        return {
            "attempt": number if takes_part else None,
            "positions": positions if owner else None,
            "lineage": origin.lineage,
            "restarts": restart_count(),
            **(job_run._asdict() if job_run else dict.fromkeys(JobRun._fields)),
        }


def _marked_positions(
    folder: RunFolder, noted: Mapping[str, int], saver: str, mark: int
) -> dict[str, int]:
    # A process of the same attempt that writes marks but not this one had recorded nothing after
    # the checkpoint yet. A process without marks took no part in it: its journals keep the noted
    # positions.
    found, sizes = dict(noted), folder.sizes()
    for chain in _chains(folder, saver):
        for writer, end in _ends_in(chain, saver, mark).items():
            if end is None:  # the noted position is larger if a power cut lost the last writes
                found[writer] = max(noted.get(writer, 0), sizes.get(writer, 0))
            elif end:
                found[writer] = end
            else:
                found.pop(writer, None)
    return found


def _ends_in(chain: Iterable[JournalFile], saver: str, mark: int) -> dict[str, int | None]:
    # None if all of a journal belongs to the checkpoint, 0 if nothing does; empty if the process
    # writes no marks.
    ends: dict[str, int | None] = {}
    marks = behind = False
    for each in chain:
        marks = marks or each.writer == saver
        if behind:
            ends[each.writer] = 0
            continue
        with contextlib.suppress(OSError), JournalReader(each.path) as reader:
            ends[each.writer], seen = _look_for(reader, mark)
            marks = marks or seen
            behind = ends[each.writer] is not None
    return ends if marks else {}


def _chains(folder: RunFolder, saver: str) -> Iterator[list[JournalFile]]:
    journals, told = {each.writer: each for each in folder.journals()}, {}
    for writer, journal in journals.items():
        with contextlib.suppress(OSError):
            told[writer] = header_of(journal.path)
    if saver not in told:
        return
    attempt = told[saver].get("attempt")
    here = {writer: each for writer, each in told.items() if each.get("attempt") == attempt}
    continues = {writer: each.get("continues") for writer, each in here.items()}
    next_of = {earlier: writer for writer, earlier in continues.items() if isinstance(earlier, str)}
    for writer, earlier in continues.items():
        if not isinstance(earlier, str) or earlier not in here:
            chain = [writer]
            while (following := next_of.get(chain[-1])) is not None:
                chain.append(following)
            yield [journals[each] for each in chain]


def _look_for(reader: JournalReader, mark: int) -> tuple[int | None, bool]:
    """Return the end offset of a mark, or None, and whether there is any mark up to it."""
    for frame in reader.frames_that_begin(_BEGIN):
        if frame.kind != Kind.OP:
            continue
        with contextlib.suppress(ValueError):
            number = decode_json(frame.payload).get("mark")
            if isinstance(number, int) and number <= mark:
                return (frame.end if number == mark else None), True
    return None, False
