"""Ranks: the recording processes of a training, and their paths.

With ``ranks="zero"`` rank 0 records, and the others hold a silent run. With ``ranks="all"`` every
rank writes a journal of its own. Rank 0 records the common data (values, tags, files, deletions).
Higher ranks add their series below ``ranks/<n>/``, facts about their process below
``monitoring/<writer>/``, and how they ended.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from seamark import errors
from seamark.errors import ArgumentError, SeamarkError
from seamark.journal.folder import RunFolder
from seamark.journal.headers import headers
from seamark.opening.place import expect_writable
from seamark.paths import check_writable
from seamark.process.rank import broadcast_from_rank_zero, connected, current_rank, lasting

if TYPE_CHECKING:
    from seamark.options.settings import Settings


_REFUSED: Final = "!"
"""Prefix of the message of rank 0 when it does not start."""


class EveryRank:
    """Policy of logs, which have no ranks: every process records."""

    apart = 0

    def __init__(self, *, disabled: bool) -> None:
        self.silent = disabled

    def settle(self) -> None:
        """Do nothing: every process records."""

    def forget(self) -> None:
        """Do nothing: a forked child records, too."""


class RankPolicy:
    """Policy that decides which ranks record. Rank 0 chooses the run for all.

    ``made_in`` is the pid of the process that generated the run's id, None for a copy of a run.
    ``connected_at_start`` is true if the ranks agreed on this run at its start, so that each of
    them takes part in later decisions.
    """

    def __init__(self, options: Settings, made_in: int | None, *, connected: bool) -> None:
        self._options = options
        self.made_in = made_in
        self.connected_at_start = connected
        self._agreed = False
        self._silent: bool | None = None
        self._withdrawn = False
        self._lasting: Callable[[], bool] | None = None

    @property
    def silent(self) -> bool:
        """Whether nothing is recorded by design: disabled, or a rank that does not record."""
        options = self._options
        if options.mode == "disabled" or self._withdrawn:
            return True
        if self._silent is not None:
            return self._silent
        if options.mode == "read-only" or options.owner is False:
            return False
        # All ranks finally use the id of rank 0; before they know it, they have no run.
        if options.ranks == "all" and self.shared_id:
            return False
        if self._lasting is not None and self._lasting():
            return True
        # Evaluated at every use until something is recorded: some launchers set the rank late.
        rank = current_rank()
        self._lasting = lasting(rank) if rank.rank else None
        return rank.rank != 0

    @property
    def apart(self) -> int:
        """Return the rank of this process if it records in addition to rank 0, else 0."""
        return current_rank().rank if self._options.ranks == "all" else 0

    @property
    def common_id(self) -> bool:
        """Whether the run's id was given by the user, or came from another process.

        The value is always the same on all ranks, so it can decide whether they communicate. A name
        does not count: each rank resolves it by itself, and the result may change in between.
        """
        return self._options.names_an_id or self.made_in != os.getpid()

    @property
    def shared_id(self) -> bool:
        """Whether other processes know the run's id: by `common_id`, or since the ranks agreed."""
        return self._agreed or self.common_id

    def agree(self) -> None:
        """Note that the ranks agreed on the run."""
        self._agreed = True

    def settle(self) -> None:
        """Decide that this process records, regardless of its rank."""
        self._silent = False

    def forget(self) -> None:
        """Look up the rank again: a forked child may be another one."""
        self._silent = self._lasting = None

    def withdraw(self) -> None:
        """Record nothing from now on, whatever the rank turns out to be."""
        self._withdrawn = True

    # ---------------------------------------------------------------- agreement

    def begin(self) -> None:
        """Remember whether the ranks agreed on the run at its start."""
        self.connected_at_start = self._agreed

    @property
    def is_follower(self) -> bool:
        """Whether rank 0 determines, on its own disk, how this rank continues."""
        if self._options.mode == "read-only" or not current_rank().rank:
            return False
        return self._options.ranks == "all" or self.silent

    def refusal(self, folder: RunFolder, expect: Callable[[], object]) -> SeamarkError | None:
        """Return the reason why a run cannot start; None if it can or rank 0 decides."""
        if connected() and current_rank().rank:
            return None
        try:
            expect()
            if connected() and not self.silent:
                expect_writable(folder)
        except SeamarkError as error:
            return error
        return None

    def receive_decision(
        self, folder: RunFolder, attempt: int | None, refusal: SeamarkError | None
    ) -> tuple[RunFolder, int | None] | None:
        """Return the run and attempt of rank 0; None if no ranks are connected.

        Every rank has to call this. A ``refusal`` of rank 0 is raised on all ranks.
        """
        words = f"{'' if attempt is None else attempt} {folder.project}/{folder.run}"
        if refusal is not None:
            words = f"{_REFUSED} {type(refusal).__name__} {refusal}"
        received = broadcast_from_rank_zero(words)
        if received is None and self._options.ranks == "all" and not self.shared_id:
            _refuse_unknown_id()
        if refusal is not None:
            raise refusal
        if received is None:
            return None
        if received.startswith(_REFUSED):
            _, kind, why = received.split(" ", 2)
            raise getattr(errors, kind)(why)
        number, _, place = received.partition(" ")
        project, _, run = place.rpartition("/")
        return RunFolder(folder.root, project, run), int(number) if number else None


def _refuse_unknown_id() -> None:
    rank = current_rank()
    if rank.rank or (rank.world_size or 1) > 1:
        size = f" of {rank.world_size}" if rank.world_size else ""
        raise ArgumentError(
            f"ranks='all': this is rank {rank.rank}{size}, and the ranks are not connected yet; "
            "call init_run() after torch.distributed.init_process_group() or hvd.init(), or give "
            "custom_run_id, the same on every rank (or in SEAMARK_CUSTOM_RUN_ID), or a complete "
            "with_id"
        )


def rank_has_recorded(folder: RunFolder, rank: int) -> bool:
    """Return whether an earlier process of a rank wrote to a run, whose series are continued."""
    # A journal of an import or an edit names no rank, and counts as one of rank 0.
    return any((header.get("rank") or 0) == rank for header in headers(folder))


class RankPaths(dict[Any, Any]):
    """Cache of the paths of series on this rank, by requested path.

    A path that already contains the rank, as written by adapters with a prefix
    (``training/ranks/1/loss``), stays unchanged. So does an invalid path, which the writer reports.
    """

    def __init__(self, rank: int, is_own: Callable[[str], bool]) -> None:
        super().__init__()
        self._space = f"ranks/{rank}/"
        self._is_own = is_own

    def __missing__(self, path: Any) -> Any:
        try:
            named = f"/{self._space}" in f"/{check_writable(path)}"
        except (TypeError, ValueError):
            return path
        if named or self._is_own(path):
            return path
        self[path] = ranked = self._space + path
        return ranked


log = logging.getLogger("seamark")
