"""Attempts: what a checkpoint stores of a run, and how a later process goes on with it.

An attempt begins when a checkpoint is loaded or a launcher restarts the job. It is a property of
the journals that are opened from then on: their header carries its number and, where a checkpoint
was loaded, how far every journal had come when that was saved (its *positions*). By default readers
hide what older attempts recorded from there on.
"""

from __future__ import annotations

import contextlib
import logging
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from seamark.container import Container
from seamark.errors import ArgumentError, RunNotFoundError
from seamark.journal.folder import RunFolder
from seamark.journal.reader import JournalReader
from seamark.paths import check_name, check_project

if TYPE_CHECKING:
    from typing_extensions import Self

    from seamark.settings import RunSettings

__all__ = ["Begun", "Resumable", "Saved"]

log = logging.getLogger("seamark")


class Begun(NamedTuple):
    """An attempt that the next journal of a process belongs to.

    Attributes:
        number: 0-based.
        positions: {writer id: bytes} of the checkpoint that it goes on from; None if it was begun
            without one, and hides nothing.
    """

    number: int
    positions: dict[str, int] | None


class Saved(NamedTuple):
    """What a checkpoint holds of a run.

    Attributes:
        run: Run id.
        project: Project path.
        positions: {writer id: bytes} when it was saved; None if that was not known.
    """

    run: str
    project: str
    positions: dict[str, int] | None

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
                    lengths = {str(name): int(length) for name, length in positions.items()}
                    return cls(*place, lengths)
        msg = f"state: expected run, project and positions of a checkpoint, got {state!r:.120}"
        raise ArgumentError(msg)


class Resumable(Container):
    """The part of a `Run` that goes on with what an earlier process recorded."""

    _settings: RunSettings
    _begun: Begun | None = None

    @abstractmethod
    def positions(self) -> dict[str, int]:
        """Return {writer id: bytes} of this process's journals, as they are now."""

    @abstractmethod
    def at(self, run: str, project: str | None = None) -> Self:
        """Return a run with the settings of this one and another id; nothing is on disk yet."""

    def checkpoint_state(self) -> dict[str, Any]:
        """Return what a checkpoint stores of this run: see `resumed`.

        Strings and ints only: the run's id, its project, and how long every journal is now. A rank
        that sees no journal names no positions; then nothing is hidden by loading the checkpoint.
        """
        lengths = _lengths(self.folder) | self.positions()
        positions = lengths or (None if self._silent else {})
        return {"run": self.folder.run, "project": self.folder.project, "positions": positions}

    def resumed(self, state: Mapping[str, Any], *, stay: bool = False) -> Self:
        """Return the run that a checkpoint was saved in, about to begin a new attempt.

        Readers hide by default what older attempts recorded after the checkpoint. A run that has
        recorded something, that was opened by an id or with ``resume="never"``, or a checkpoint
        whose run is not below this root, leave everything as it is.

        Args:
            state: What `checkpoint_state` returned then.
            stay: Do not go over to another run.

        Raises:
            ArgumentError: If it is nothing of that kind.
            RunNotFoundError: If ``resume="must"`` and the run is not below this root.
        """
        run, project, positions = Saved.of(state)
        settings, here = self._settings, self.folder
        if settings.resume == "never" or self.mode in ("disabled", "read-only"):
            return self
        if (run, project) == (here.run, here.project):
            self._begin_attempt(positions)
            return self
        if not RunFolder(here.root, project, run).journal_dir.is_dir():
            msg = f"the checkpoint is of run {run!r} of {project!r}, not found in {here.root}"
            if settings.resume == "must":
                raise RunNotFoundError(msg)
            self._say("%s; this is a new run", msg)
            return self
        if stay or settings.with_id or settings.custom_run_id or self._writer is not None:
            self._say("the checkpoint is of run %r; going on with %r", run, here.run)
            return self
        found = self.at(run, project)
        found._begin_attempt(positions)  # noqa: SLF001 - of its own class
        return found

    def _say(self, message: str, *args: object) -> None:
        if not self._silent:
            log.warning(f"seamark: {message}", *args)  # noqa: G004 - the arguments are not in it

    def _begin_attempt(self, positions: dict[str, int] | None) -> None:
        """Have the next record open a journal of a new attempt, which names these positions."""
        if self._silent:
            return
        self._begun = Begun(newest_attempt(self.folder) + 1, positions)
        if self._writer is not None:
            self._writer.rotate()

    def _header_of_attempt(self, *, owner: bool, takes_part: bool) -> dict[str, Any]:
        """Return what the HEADER of a journal that is opened now says of its attempt."""
        number, positions = self._begun or (newest_attempt(self.folder), None)
        return {
            "attempt": number if takes_part else None,
            "positions": positions if owner else None,
        }


def newest_attempt(folder: RunFolder) -> int:
    """Return the number of the newest attempt that a run knows, 0 for a new run.

    Opening a run by id starts no new one.
    """
    newest = 0
    for journal in folder.journals():
        try:
            with JournalReader(journal.path) as reader:
                attempt = reader.header().get("attempt")
        except OSError:
            continue
        if isinstance(attempt, int):
            newest = max(newest, attempt)
    return newest


def _lengths(folder: RunFolder) -> dict[str, int]:
    """Return {writer id: bytes} of every journal of a run."""
    found = {}
    for journal in folder.journals():
        with contextlib.suppress(OSError):  # taken away just now
            found[journal.writer] = journal.path.stat().st_size
    return found
