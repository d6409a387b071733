"""What the rank of a process means for its run: who records, into which run, at which paths."""

from __future__ import annotations

import os
import weakref
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from seamark.attempts import Begun, Resumable
from seamark.errors import ArgumentError, MissingFieldError
from seamark.journal.folder import RunFolder
from seamark.journal.rank_writer import RankWriter
from seamark.journal.writer import JournalWriter
from seamark.paths import join_path
from seamark.ranks import broadcast_from_zero, current_rank, lasting

if TYPE_CHECKING:
    from typing_extensions import Self

    from seamark.stragglers import RankTiming

__all__ = ["Ranked"]


class Ranked(Resumable):
    """The part of a `Run` that depends on the rank of its process."""

    _state: str
    _told_before: bool
    _row: Any

    def __init__(self, folder: RunFolder, mode: str) -> None:
        super().__init__(folder, mode)
        self._silent_rank: bool | None = None
        self._still_other_rank: Callable[[], bool] | None = None
        self._made_in: int | None = None
        self._agreed = False
        self._inherited: JournalWriter | None = None
        _living.add(self)

    @abstractmethod
    def _header(self) -> dict[str, Any]:
        """Return what the HEADER of a journal that is opened now says."""

    @abstractmethod
    def _start(self) -> JournalWriter:
        """Return the writer, started."""

    @abstractmethod
    def _first_row(self, metrics: Any, step: Any = None, time_ns: int | None = None) -> None:
        """Record a row, whatever that takes; what comes after it may take a shorter way."""

    # ---------------------------------------------------------------- who records

    @property
    def recording(self) -> bool:
        """Whether this process can record: not on silent ranks, not once stopped or read-only."""
        return not (self._silent or self._stopped or self.mode == "read-only")

    @property
    def _silent(self) -> bool:
        if self.mode == "disabled":
            return True
        if self._silent_rank is None:
            if self.mode == "read-only" or not self._settings.owner:
                return False
            # Rank 0's id is everybody's in the end; before the others know it, they have no run.
            if self._settings.ranks == "all" and self.shared_id:
                return False
            if self._still_other_rank is not None and self._still_other_rank():
                return True
            # Asked at every use until something is recorded: some launchers tell the rank late.
            rank = current_rank()
            self._still_other_rank = lasting(rank) if rank.rank else None
            return rank.rank != 0
        return self._silent_rank

    @property
    def common_id(self) -> bool:
        """Whether the run's id was given, not minted, or came here from another process.

        The same on every rank, whatever became of the run since, so that it can decide whether they
        talk to each other.
        """
        given = self._settings.with_id or self._settings.custom_run_id
        return bool(given) or self._made_in != os.getpid()

    @property
    def shared_id(self) -> bool:
        """Whether other processes know the run's id: by `common_id`, or since the ranks agreed."""
        return self._agreed or self.common_id

    @property
    def ranks(self) -> str:
        """``"zero"`` or ``"all"``: which ranks record."""
        return self._settings.ranks

    def series_base(self, base: str) -> str:
        """Return where in a namespace the series of this process belong.

        A rank above 0 that records too has ``ranks/<rank>`` there for its own; in the run as a
        whole, whose namespace is empty, the run itself sees to it.

        Args:
            base: Path of the namespace.
        """
        rank = current_rank().rank if base and self.ranks == "all" else 0
        return join_path(base, f"ranks/{rank}") if rank else base

    @property
    def speaks_for_all(self) -> bool:
        """Whether this process records what is said once for all ranks: values, tags and files.

        False on ranks that record nothing, and on those that record only their own series.
        """
        return self.recording and not self._rank_apart()

    def agree(self) -> Self:
        """Return the run that all ranks record into: that of rank 0. Every rank has to call this.

        For loggers, which mint their id before the ranks can talk; once a process group or Horovod
        is initialised. Without either, or if the id is known to the other ranks anyway, it is this
        run.

        Raises:
            ArgumentError: If ``ranks="all"`` and other ranks cannot learn the id.
        """
        begun = self._descent.begun
        number = "" if begun is None else begun.number
        said = broadcast_from_zero(f"{number} {self.folder.project}/{self.folder.run}")
        if said is None:
            if self.ranks == "all" and not self.shared_id:
                refuse_alone()
            return self
        attempt, _, place = said.partition(" ")
        project, _, run = place.rpartition("/")
        found = self
        if (run, project) != (self.folder.run, self.folder.project):
            if self._writer is None and self._index is None:  # whoever holds it holds the right one
                self.folder = RunFolder(self.folder.root, project, run)
            else:
                found = self.at(run, project)
        found._agreed = True  # noqa: SLF001 - of its own class
        if found._writer is None:  # noqa: SLF001 - what was another's to record may be ours now
            found._row = found._first_row  # noqa: SLF001
        if current_rank().rank:
            descent = found._descent  # noqa: SLF001
            descent.begun = Begun(int(attempt), None) if attempt else None
            descent.continues = True  # as far as this is asked for, rank 0 answers for it
        return found

    # ---------------------------------------------------------------- writing

    def _rank_apart(self) -> int:
        """Return this process's rank if it records beside rank 0, else 0."""
        if self._settings.ranks != "all":
            return 0
        return self._writer.rank if self._writer is not None else current_rank().rank

    def _open_writer(self) -> JournalWriter:
        if rank := self._rank_apart():
            return RankWriter(self.folder, self._header, rank=rank)
        return JournalWriter(self.folder, self._header)

    def _forget_rank(self) -> None:
        """Ask for the rank again: a forked child may be another one."""
        self._silent_rank = self._still_other_rank = None
        self._row = self._first_row
        if self._settings.ranks == "all" and self._writer is not None:
            self._inherited, self._writer = self._writer, None

    def _go_on(self, inherited: JournalWriter) -> JournalWriter:
        """Record in a forked child: as a helper of its parent, or as another rank."""
        self._inherited = None
        if inherited.rank != current_rank().rank:
            self._state, self._told_before = "created", True
            return self._start()
        self._writer, self._silent_rank, self._row = inherited, False, inherited.append_row
        return inherited

    def stragglers(self) -> list[RankTiming]:
        """Return how each rank is doing and how long its steps take, the slowest rank first.

        For runs that every rank recorded (``ranks="all"``), together with
        ``profiling/step_time_s`` and, better, ``profiling/own_time_s``.

        Raises:
            MissingFieldError: If only one rank recorded, or none the times of its steps.
        """
        from seamark.stragglers import rank_timings

        if self._nothing_recorded():
            msg = f"{self._what}: nothing is recorded yet"
            raise MissingFieldError(msg)
        return rank_timings(self._view())


def refuse_alone() -> None:
    """Refuse to mint an id that other ranks cannot know.

    Raises:
        ArgumentError: If there are other ranks.
    """
    rank = current_rank()
    if rank.rank or (rank.world_size or 1) > 1:
        size = f" of {rank.world_size}" if rank.world_size else ""
        msg = (
            f"ranks='all': this is rank {rank.rank}{size}, and nothing connects the ranks yet; "
            "call init_run() after torch.distributed.init_process_group() or hvd.init(), or give "
            "custom_run_id, the same on every rank (or in SEAMARK_CUSTOM_RUN_ID)"
        )
        raise ArgumentError(msg)


_living: weakref.WeakSet[Ranked] = weakref.WeakSet()


def _forget_ranks() -> None:
    for run in list(_living):
        run._forget_rank()  # noqa: SLF001 - of this module


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_ranks)
