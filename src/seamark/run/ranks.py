"""Ranks: the processes of a training that record, and the paths of each.

With ``ranks="zero"`` rank 0 records and the others hold a silent run. With ``ranks="all"`` every
rank writes a journal of its own: rank 0 records what is common to all (values, tags, files,
deletes); a rank above it adds its series, below ``ranks/<n>/``, facts of its process below
``monitoring/<writer>/``, and how it ended.
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

__all__ = ["EveryRank", "RankPaths", "RankPolicy", "rank_has_recorded"]

_REFUSED: Final = "!"
"""Prefix of the message of rank 0 when it does not start."""


class EveryRank:
    """Policy of a log, which has no ranks: every process records."""

    apart = 0

    def __init__(self, *, disabled: bool) -> None:
        self.silent = disabled

    def settle(self) -> None:
        """Do nothing: every process records."""

    def forget(self) -> None:
        """Do nothing: a forked child records, too."""


class RankPolicy:
    """Decide which processes of a training record into a run, which rank 0 chooses for all.

    ``made_in`` is the pid of the process that minted the run's id, None for a copy of a run.
    ``connected_at_start`` tells whether the ranks agreed on this run when it began, so that each of
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
        # Rank 0's id is everybody's in the end; before the others know it, they have no run.
        if options.ranks == "all" and self.shared_id:
            return False
        if self._lasting is not None and self._lasting():
            return True
        # Asked at every use until something is recorded: some launchers tell the rank late.
        rank = current_rank()
        self._lasting = lasting(rank) if rank.rank else None
        return rank.rank != 0

    @property
    def apart(self) -> int:
        """Return this process's rank if it records beside rank 0, else 0."""
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
        """Remember whether the ranks agreed on the run as it begins."""
        self.connected_at_start = self._agreed

    @property
    def is_follower(self) -> bool:
        """Whether rank 0 finds out on its own disk how this rank continues."""
        if self._options.mode == "read-only" or not current_rank().rank:
            return False
        return self._options.ranks == "all" or self.silent

    def refusal(self, folder: RunFolder, expect: Callable[[], object]) -> SeamarkError | None:
        """Return why a run cannot begin; None if it can, or if rank 0 answers for this rank."""
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
        msg = (
            f"ranks='all': this is rank {rank.rank}{size}, and nothing connects the ranks yet; "
            "call init_run() after torch.distributed.init_process_group() or hvd.init(), or give "
            "custom_run_id, the same on every rank (or in SEAMARK_CUSTOM_RUN_ID), or with_id as a "
            "whole id"
        )
        raise ArgumentError(msg)


def rank_has_recorded(folder: RunFolder, rank: int) -> bool:
    """Return whether an earlier process of a rank wrote to a run, whose series are continued."""
    # A journal of an import or an edit names no rank, and counts as one of rank 0.
    return any((header.get("rank") or 0) == rank for header in headers(folder))


class RankPaths(dict[Any, Any]):
    """The path of a series on this rank, by the path that was asked for; grows with the paths.

    A path that names the rank already, as adapters with a prefix write it
    (``training/ranks/1/loss``), stays as it is. So does one that breaks the grammar: the writer
    says what is wrong with it.
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
