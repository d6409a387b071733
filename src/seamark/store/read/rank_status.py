"""Status of each rank: state, signs of life, and the error that ended it.

The status of a rank is the status of its newest process. A process that closed its journal without
a failure is completed, even if the run continues. A process that ended without a report was killed.
If a process cannot be checked (on another host, or before a reboot), only its heartbeats count. If
every rank records, a rank without records is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from seamark.journal.reader import SETTLE_NS
from seamark.process.liveness import GONE, LOST, Evidence
from seamark.reading.rank_text import common_path, of_rank
from seamark.reading.ranks import Process, RankStatus, owning_processes, process_of
from seamark.reading.states import ACTIVE_STATES

if TYPE_CHECKING:
    from seamark.store.fold.run_state import JournalState, RunState


def error_text(error: Mapping[str, Any]) -> str:
    """Format an error as ``"ValueError: diverged"``, or its type alone; the record is untrusted."""
    kind, message = (str(error.get(key) or "") for key in ("type", "message"))
    return ": ".join(part for part in (kind, message) if part.strip())


def traceback_of(run: RunState, paths: Iterable[str]) -> str | None:
    """Return the path of the traceback of the run's end; None if there is none.

    Tracebacks of other ranks, older attempts and processes that do not own the run are ignored.
    """
    owners = owning_processes(one.header for one in run.journals.values())
    journals = {f"monitoring/{one.writer}/traceback": one for one in run.journals.values()}
    speakers = [one for one in journals.values() if one.uid == run.state[0][1]]

    def order(path: str) -> float:
        one = journals.get(path)
        if one is None or not speakers:
            return 0  # a namespace chosen by the user
        rank, attempt = one.header.get("rank"), one.attempt
        same = (rank, attempt) == (speakers[0].header.get("rank"), speakers[0].attempt)
        speaks = rank or process_of(one.header) in owners
        return float(one.first_t or 0) if same and speaks else -1

    found = sorted(
        path for path in paths if path.startswith("monitoring/") and path.endswith("/traceback")
    )
    best = max(found, key=order, default=None)
    return None if best is None or order(best) < 0 else best


_MIN_HANG_NS: Final = 60 * 10**9
"""Minimum pause between two records that counts as a hang, in nanoseconds."""
_MIN_HANG_PAUSES: Final = 20
"""Minimum multiple of the mean pause that counts as a hang."""
_MAX_RANKS: Final = 1 << 16
"""Maximum number of ranks examined, because headers are untrusted."""
_UNREPORTED: Final = ("killed", "lost")
"""States of ranks that ended without a report."""
_PLAIN_REASONS: Final = (GONE, LOST)
"""Crash reasons without additional information."""


def rank_statuses(
    run: RunState, now_ns: int, world_size: int | None = None, *, here: bool = True
) -> list[RankStatus]:
    """Return the status of every current rank of a run, sorted by rank.

    Ranks of an earlier attempt, and ranks that ended during an earlier process of rank 0, are
    omitted. ``world_size`` is the recorded number of ranks; headers have precedence.
    """
    found: dict[int, list[JournalState]] = {}
    owners = owning_processes(one.header for one in run.journals.values())
    for journal in run.journals.values():
        if _is_rank(journal, owners):
            found.setdefault(journal.header["rank"], []).append(journal)
    newest = {rank: _newest_process(journals) for rank, journals in found.items()}
    present = newest.get(0, [])
    earlier = [one for one in found.get(0, []) if one not in present]
    everything = list(run.journals.values())
    current = {
        rank: journals
        for rank, journals in sorted(newest.items())
        if not _is_past(journals, present, earlier)
    }
    evidence = Evidence(now_ns=now_ns, here=here)
    statuses_found = [
        _status(rank, journals, everything, now_ns, evidence) for rank, journals in current.items()
    ]
    size = _expected_ranks([journals[0].header for journals in current.values()], world_size)
    begun = min((one.first_t for one in statuses_found), default=now_ns)
    if now_ns - begun < _MIN_HANG_NS and any(one.state == "running" for one in statuses_found):
        size = 0  # other ranks may still start
    statuses_found += [
        RankStatus(rank, None, None, (), "missing", "", 0, 0, None, None)
        for rank in range(size)
        if rank not in current
    ]
    return sorted(statuses_found, key=attrgetter("rank"))


def _expected_ranks(headers: Collection[Mapping[str, Any]], world_size: int | None) -> int:
    """Return the number of ranks that record; 0 if only rank 0 records or it is not known."""
    if not any(header.get("ranks") == "all" for header in headers):
        return 0
    sizes = [size for header in headers if isinstance(size := header.get("world_size"), int)]
    return min(max(sizes, default=world_size or 0), _MAX_RANKS)


def waiting_ranks(
    statuses: list[RankStatus], last_steps: Mapping[str, float], now_ns: int
) -> list[RankStatus]:
    """Distinguish hanging ranks from those that wait for them, by the last steps of float series.

    A rank hangs if its heartbeats have stopped, or if a series of it ends earlier than in another
    rank without progress. If no rank is behind, all of them hang.
    """
    still = {one.rank for one in statuses if one.state == "hangs"}
    steps: dict[str, dict[int, float]] = {}
    for path, step in last_steps.items():
        rank = of_rank(path) or 0
        if rank in still:
            steps.setdefault(common_path(path), {})[rank] = step
    without_heartbeat = {one.rank for one in statuses if one.last_t < now_ns - SETTLE_NS}
    behind = {
        rank
        for of_ranks in steps.values()
        if of_ranks.keys() == still
        for rank, step in of_ranks.items()
        if step < max(of_ranks.values())
    }
    hang = still & (without_heartbeat | behind) or still
    return [replace(one, state="waits") if one.rank in still - hang else one for one in statuses]


def _is_past(
    journals: list[JournalState], present: list[JournalState], earlier: list[JournalState]
) -> bool:
    # A rank that ended before the current process of rank 0 started is not always past: it may have
    # started earlier. A launcher that is rank 0 may record for the first time after the spawned
    # ranks, which have a copy of its run, have ended.
    if not present or journals[0] in present:
        return False
    lineage = journals[0].header.get("lineage")
    if lineage and any(one.header.get("lineage") == lineage for one in present):
        return False
    if (journals[0].attempt or 0) < (present[0].attempt or 0):
        return True
    began, ended = journals[-1].first_t or 0, journals[0].last_t
    return ended < (present[-1].first_t or 0) and any(one.last_t >= began for one in earlier)


def _is_rank(journal: JournalState, owners: Collection[Process]) -> bool:
    """Return whether a journal belongs to a rank, not to a helper process or a later script."""
    rank = journal.header.get("rank")
    if not isinstance(rank, int):
        return False
    owns = journal.header.get("owner") is True
    began = process_of(journal.header) in owners  # written before the process owned the run
    return owns or (journal.attempt is not None and (began or bool(rank)))


def _newest_process(journals: Iterable[JournalState]) -> list[JournalState]:
    ordered = sorted(journals, key=lambda one: one.first_t or 0, reverse=True)
    return [one for one in ordered if process_of(one.header) == process_of(ordered[0].header)]


def _status(
    rank: int,
    journals: list[JournalState],
    others: list[JournalState],
    now_ns: int,
    evidence: Evidence,
) -> RankStatus:
    header = journals[0].header
    last_state = max((one.said for one in journals), key=lambda last_state: last_state.get("t", 0))
    began = min(one.first_t or 0 for one in journals)
    # The rank may be a forked child of the launcher that records in a separate journal.
    rows = [one for one in others if one.header.get("rank") == rank and one.last_t >= began]
    row_t = max((one.local_time(one.last_row_t) for one in rows if one.rows), default=0)
    last_t = max(one.seen for one in journals)
    state = _state(last_state, journals[0], rows, now_ns, evidence)
    ended = state not in ("running", "hangs")
    why = reason_of(last_state) if state in ("failed", "interrupted") else ""
    if (
        state in _UNREPORTED
        and (found := evidence.crash(header, last_t).reason) not in _PLAIN_REASONS
    ):
        why = found
    host, pid = header.get("host"), header.get("pid")
    return RankStatus(
        rank=rank,
        host=host if isinstance(host, str) else None,
        pid=pid if isinstance(pid, int) else None,
        writers=tuple(one.writer for one in journals),
        state=state,
        why=why,
        first_t=began,
        last_t=last_t,
        row_t=row_t or None,
        end_t=(last_t if state in _UNREPORTED else last_state.get("t", last_t)) if ended else None,
    )


def _state(
    last_state: Mapping[str, Any],
    newest: JournalState,
    rows: list[JournalState],
    now_ns: int,
    evidence: Evidence,
) -> str:
    given_state = str(last_state.get("state", "running"))
    if given_state not in ACTIVE_STATES:
        return given_state
    if newest.closed and newest.close_reason != "rotate":
        return "completed"
    alive = evidence.alive(newest.header)
    if alive is False:
        return "killed"
    if newest.seen < now_ns - SETTLE_NS:
        return "hangs" if alive else "lost"
    return "hangs" if _has_stalled(rows, now_ns) else "running"


def _has_stalled(rows: list[JournalState], now_ns: int) -> bool:
    count = sum(one.rows for one in rows)
    if not count:
        return False
    last = max(one.local_time(one.last_row_t) for one in rows if one.rows)
    first = min(one.local_time(one.first_row_t) for one in rows if one.rows)
    return now_ns - last > max(_MIN_HANG_NS, _MIN_HANG_PAUSES * (last - first) // count)


def reason_of(last_state: Mapping[str, Any]) -> str:
    """Return the cause of a recorded state: an error or a signal; empty if unknown."""
    error = last_state.get("error")
    return error_text(error) if isinstance(error, Mapping) else str(last_state.get("signal") or "")
