"""Detection of processes that began to record before the ranks of their training were connected.

Workers of ``mp.spawn`` have nothing that names their rank until ``init_process_group``. Each of
them that calls `seamark.init_run` before takes itself for rank 0 and records a run of its own.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from seamark.process.rank import alone, connected, current_rank

if TYPE_CHECKING:
    from seamark.options.settings import Settings
    from seamark.run.ranks import RankPolicy
    from seamark.run.recorder import Recorder
    from seamark.run.resume import Resume
    from seamark.run.state import OwnState

__all__ = ["LateRank"]

log = logging.getLogger("seamark")

_HOW: Final = (
    "call init_run() after init_process_group() or hvd.init(), or set RANK and WORLD_SIZE before it"
)
_STOPS: Final = (
    "seamark: this process began run %s and turned out to be rank %d of a training, which rank 0 "
    "records: it records nothing more. To record one run, %s"
)
_MIXED: Final = (
    "seamark: this process began run %s as rank 0 and turned out to be rank %d; what it records is "
    "mixed with what rank 0 does. With ranks='all' %s"
)


class LateRank:
    """Check at heartbeats and at the end whether a process that records as rank 0 is rank 0."""

    def __init__(
        self,
        options: Settings,
        recorder: Recorder,
        policy: RankPolicy,
        state: OwnState,
        resume: Resume,
        *,
        own: Callable[[], object],
        stop: Callable[[], object],
    ) -> None:
        self._options, self._recorder, self._policy = options, recorder, policy
        self._state, self._resume = state, resume
        self._own, self._stop = own, stop
        self._pid = os.getpid()
        self._met = connected()
        self._settled = self._met

    def check(self, *, stops: bool = False) -> None:
        """Check the rank; if it is not 0, warn, and leave a run that rank 0 records alone."""
        if self._settled or self._pid != os.getpid():
            return
        rank = current_rank().rank
        self._met = connected()
        self._settled = self._met or bool(rank)
        if not rank:
            if self._met and self._state.had_owner:
                self._own()
            return
        leaves = self._options.ranks != "all"
        log.warning(_STOPS if leaves else _MIXED, self._recorder.folder.run, rank, _HOW)
        if leaves:
            self._withdraw()
            if stops:
                self._stop()

    def _withdraw(self) -> None:
        shared = self._options.names_a_run or self._policy.common_id
        if shared or self._resume.origin.continues:
            self._state.disown()  # rank 0 records it, too, and owns its state
        elif self._state.word == "running":
            self._state.note("interrupted")
        self._policy.withdraw()
        self._recorder.ask_again()

    def beat(self) -> None:
        """Check at a heartbeat, on another thread than the one that the end of a run waits for."""
        self._met = self._met or connected()  # a group may be left again
        if not (self._settled or alone()):
            # No daemon: the process is not to end before the run has.
            threading.Thread(
                target=self.check, kwargs={"stops": True}, name="seamark-late", daemon=False
            ).start()

    def warn_of_slurm_tasks(self) -> None:
        """Warn, once in a process, if nothing connected the SLURM tasks of which one recorded."""
        rank = current_rank()
        if self._options.ranks == "zero" and rank.source == "SLURM_PROCID" and not self._met:
            _warn_of_slurm_tasks(rank.world_size)


@functools.cache
def _warn_of_slurm_tasks(count: int | None) -> None:
    log.warning(
        "seamark: only task 0 of the %s of this SLURM step recorded. If they are independent, and "
        "not the ranks of one training: srun ... env -u SLURM_PROCID python ...",
        count,
    )
