"""A process that began to record before the ranks of its training were connected.

Workers of ``mp.spawn`` have nothing that names their rank until ``init_process_group``. Each of
them that calls `seamark.init_run` before takes itself for rank 0. This looks, until the process has
recorded points, whether it still is; and at the end whether the tasks of a SLURM step ever met.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Callable
from typing import Final

from seamark.process.rank import alone, connected, current_rank

__all__ = ["LateRank"]

log = logging.getLogger("seamark")

_HOW: Final = (
    "call init_run() after init_process_group() or hvd.init(), or set RANK and WORLD_SIZE before it"
)


class LateRank:
    """Looks whether a process that records as rank 0 turns out to be another rank.

    Args:
        run: Id of the run.
        ranks: ``"zero"`` or ``"all"``: which ranks record.
        withdraw: Takes this process out of the run; not called with ``"all"``, where other ranks
            record too, and nothing can be put right any more.
    """

    def __init__(self, run: str, ranks: str, withdraw: Callable[[], object]) -> None:
        self._run = run
        self._ranks = ranks
        self._withdraw = withdraw
        self._pid = os.getpid()
        self._met = connected()
        self.settled = self._met

    def may_record(self) -> bool:
        """Return whether this process still records; costs next to nothing until ranks meet."""
        return self.settled or alone() or self.look()

    def look(self) -> bool:
        """Ask for the rank; return whether this process still records."""
        if self.settled or self._pid != os.getpid():
            return True
        rank = current_rank().rank
        self._met = connected()
        self.settled = self._met or bool(rank)
        if not rank:
            return True
        if self._ranks == "all":
            log.warning(
                "seamark: this process began run %s as rank 0 and turned out to be rank %d; what "
                "it records is mixed with what rank 0 does. With ranks='all' %s",
                *(self._run, rank, _HOW),
            )
            return True
        log.warning(
            "seamark: this process began run %s and turned out to be rank %d of a training, which "
            "rank 0 records: what it began is taken back, and it records nothing more. Better %s",
            *(self._run, rank, _HOW),
        )
        self._withdraw()
        return False

    def beat(self) -> None:
        """Look at a heartbeat: a rank may have nothing to record, and a group may be left again."""
        self._met = self._met or connected()
        if not (self.settled or alone()):  # not on the thread that the end waits for
            threading.Thread(target=self.look, name="seamark-late", daemon=True).start()

    def tell_of_tasks(self) -> None:
        """Say, once in a process, if nothing connected the SLURM tasks of which one recorded."""
        rank = current_rank()
        if self._ranks == "zero" and rank.source == "SLURM_PROCID" and not self._met:
            _tell_of_tasks(rank.world_size)


@functools.cache
def _tell_of_tasks(count: int | None) -> None:
    log.warning(
        "seamark: only task 0 of the %s of this SLURM step recorded. If they are independent, and "
        "not the ranks of one training: srun ... env -u SLURM_PROCID python ...",
        count,
    )
