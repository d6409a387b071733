"""Which run a job recorded before its launcher restarted it, and as which attempt it goes on.

Told from the headers of the journals that lie in the project's folder, with nothing remembered
elsewhere: a header names the job (see `seamark.ranks.job_key`), how often it had been restarted,
and which of the runs of the job this is.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from seamark.journal.folder import RunFolder
from seamark.journal.headers import headers
from seamark.journal.process import process_facts
from seamark.ranks import current_rank, restart_count, same_job

__all__ = ["Maker", "attempt_after_restart", "newest_attempt", "run_before_restart"]


class Maker(NamedTuple):
    """Which of the runs of a job a run is, found again when a launcher restarts the job.

    Attributes:
        argv: Digest of the command line, whose words may be secret.
        process: What `multiprocessing` calls the process.
        ordinal: How many runs without a given id this process had made before.
    """

    argv: str
    process: str
    ordinal: int

    @classmethod
    def next(cls) -> Maker:
        """Return that of a run that is being made; counts it."""
        words = "\0".join(map(str, sys.argv)).encode("utf-8", "surrogatepass")
        loaded = sys.modules.get("multiprocessing.process")
        process = loaded.current_process().name if loaded else "MainProcess"
        return cls(hashlib.sha256(words).hexdigest()[:16], process, next(_ordinals))


_ordinals = itertools.count()


def newest_attempt(folder: RunFolder) -> int:
    """Return the number of the newest attempt that a run knows, 0 for a new run.

    Opening a run by id starts no new one.
    """
    return max((number for one in headers(folder) if (number := _attempt_of(one))), default=0)


def _attempt_of(header: Mapping[str, Any]) -> int | None:
    number = header.get("attempt")
    return number if isinstance(number, int) else None


def run_before_restart(folder: RunFolder, maker: Maker | None) -> RunFolder | None:
    """Return the newest run of the project that this job recorded before it was restarted.

    By the same process of the job with the same command line, and not yet gone on with by another
    process since the restart.
    """
    if maker is None:
        return None
    try:
        names = sorted(os.listdir(folder.root / folder.project), reverse=True)  # noqa: PTH208
    except OSError:
        return None
    for name in names:  # of the newest first: their ids sort by time
        found = RunFolder(folder.root, folder.project, name)
        if name[0] != "." and _is_before_restart(found, maker):
            return found
    return None


def _is_before_restart(folder: RunFolder, maker: Maker) -> bool:
    wanted, ours = maker._asdict(), False
    rank, restarts, me = current_rank().rank, restart_count(), process_facts()
    for header in headers(folder):
        if not same_job(header.get("job")):
            continue
        by_me = all(header.get(fact) == me[fact] for fact in ("host", "pid", "start"))
        if header.get("restarts") == restarts and header.get("rank") == rank and not by_me:
            return False
        ours = ours or all(header.get(key) == value for key, value in wanted.items())
    return ours


def attempt_after_restart(folder: RunFolder) -> int | None:
    """Return the number of the attempt that a restart of this job begins, or has begun already.

    None if the run is none that this job recorded.
    """
    numbers = [
        (number, header.get("restarts"))
        for header in headers(folder)
        if (number := _attempt_of(header)) is not None and same_job(header.get("job"))
    ]
    if not numbers:
        return None
    joined = [number for number, restarts in numbers if restarts == restart_count()]
    return max(joined) if joined else newest_attempt(folder) + 1
