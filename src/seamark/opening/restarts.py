"""Restarted jobs: the run that the job recorded before, and the attempt that continues it.

Found in the headers of the journals in the project's folder, with nothing remembered
elsewhere: a header names the job (see `seamark.process.rank.job_key`), how often it had been
restarted, and which of the runs of the job this is.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from seamark.journal.folder import RunFolder
from seamark.journal.format import Kind
from seamark.journal.headers import first_record_ns, header_of, headers, writer_lives
from seamark.journal.reader import JournalReader
from seamark.process.liveness import process_facts
from seamark.process.rank import current_rank, restart_count, same_job

__all__ = [
    "JobRun",
    "Restart",
    "attempt_after",
    "attempt_of_peers",
    "newest_attempt",
    "restart_of_named",
    "restart_of_unnamed",
]


class JobRun(NamedTuple):
    """Identity of a run within its job, found again when a launcher restarts the job.

    ``argv`` is a digest of the command line, whose words may be secret; ``ordinal`` counts the runs
    without a given id that this process had made before.
    """

    argv: str
    process: str
    ordinal: int

    @classmethod
    def next(cls) -> JobRun:
        """Return that of a run that is being made; counts it."""
        words = "\0".join(map(str, sys.argv)).encode("utf-8", "surrogatepass")
        loaded = sys.modules.get("multiprocessing.process")
        process = loaded.current_process().name if loaded else "MainProcess"
        return cls(hashlib.sha256(words).hexdigest()[:16], process, next(_ordinals))


_ordinals = itertools.count()
_STATE: Final = b'{"op":"state","state":'


def newest_attempt(folder: RunFolder) -> int:
    """Return the number of a run's newest attempt; opening it by id starts no new one."""
    return max((number for one in headers(folder) if (number := _attempt_of(one))), default=0)


def attempt_of_peers(folder: RunFolder, lineage: str) -> int | None:
    """Return the attempt that other ranks of this training have begun just now; None if none is.

    The newest one, if the process that records it lives, and this rank has no part in it yet.
    """
    number, rank, peers = newest_attempt(folder), current_rank().rank, 0
    for journal in folder.journals():
        with contextlib.suppress(OSError):
            header = header_of(journal.path)
            if _attempt_of(header) != number:
                continue
            if header.get("rank") != rank:
                if not writer_lives(journal.path):
                    return None
                peers += 1
            elif header.get("lineage") != lineage:
                return None
    return number if number and peers else None


def _attempt_of(header: Mapping[str, Any]) -> int | None:
    number = header.get("attempt")
    return number if type(number) is int and number >= 0 else None


class Restart(NamedTuple):
    """Run that a restarted job continues.

    ``attempt`` is 0-based, None if the job did not record the run. ``passed_over`` is the id of a
    run that did not complete and was recorded by another command line, or None.
    """

    run: RunFolder | None = None
    attempt: int | None = None
    passed_over: str | None = None


def restart_of_named(folder: RunFolder) -> Restart:
    """Return the restart of a job whose run was named."""
    return Restart(folder, attempt_after(headers(folder)))


def restart_of_unnamed(folder: RunFolder, job_run: JobRun) -> Restart:
    """Return the newest run of the project that this job recorded before it was restarted.

    By the same process of the job with the same command line, and not yet continued by another
    process since the restart.
    """
    try:
        names = os.listdir(folder.root / folder.project)  # noqa: PTH208
    except OSError:
        return Restart()
    found: list[tuple[int, str, bool]] = []
    for name in names:
        one = RunFolder(folder.root, folder.project, name)
        made_by = _recorded_before_restart(one) if name[0] != "." else []
        if any(each[1:] == job_run[1:] for each in made_by):
            found.append((first_record_ns(one), name, job_run in made_by))
    passed_over = None
    for _, name, same in sorted(found, reverse=True):  # the newest first
        one = RunFolder(folder.root, folder.project, name)
        if same:
            return restart_of_named(one)
        if passed_over is None:
            passed_over = None if _is_completed(one) else name
    return Restart(passed_over=passed_over)


def _recorded_before_restart(folder: RunFolder) -> list[tuple[Any, ...]]:
    """Return which processes of this job recorded a run; none if another continues it already."""
    found = []
    rank, restarts, me = current_rank().rank, restart_count(), process_facts()
    for header in headers(folder):
        if not same_job(header.get("job")):
            continue
        by_me = all(header.get(fact) == me[fact] for fact in ("host", "pid", "start"))
        if header.get("restarts") == restarts and header.get("rank") == rank and not by_me:
            return []
        found.append(tuple(map(header.get, JobRun._fields)))
    return found


def _is_completed(folder: RunFolder) -> bool:
    last = (0, False)
    for journal in folder.journals():
        with contextlib.suppress(OSError), JournalReader(journal.path) as reader:
            end = reader.last_frame()
            if end is None or not header_of(journal.path).get("owner"):
                continue
            noted = None
            if end.kind == Kind.CLOSE and b'"rotate"' not in end.payload:  # else it is far from it
                noted = next(reader.frames_that_begin(_STATE), None)
            completed = noted is not None and noted.payload.startswith(_STATE + b'"completed"')
            last = max(last, (end.t, completed))
    return last[1]


def attempt_after(found: Iterable[Mapping[str, Any]]) -> int | None:
    """Return the attempt (0-based) that this restart begins or has begun; None if not its run."""
    newest, mine, joined = 0, False, []
    for header in found:
        if (number := _attempt_of(header)) is None:
            continue
        newest = max(newest, number)
        if same_job(header.get("job")):
            mine = True
            if header.get("restarts") == restart_count():
                joined.append(number)
    if not mine:
        return None
    return max(joined) if joined else newest + 1
