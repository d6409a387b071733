"""Descriptions of ranks, and detection of slow ones.

If ranks wait for each other in every step, as with DDP, their steps take equally long. Ranks
therefore record ``profiling/step_time_s``, the time from step to step, and
``profiling/own_time_s``, the part without waiting for other ranks, which reveals the straggler. The
first is used if the second is missing.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta

from seamark.errors import MissingFieldError
from seamark.reading.points import time_of
from seamark.reading.text import duration_words, plural, seen_text, shorten

if TYPE_CHECKING:
    from seamark.reading.attributes import Attribute
    from seamark.reading.ranks import RankStatus
    from seamark.reading.reader import Reader


_RANK_STATES: Final = (
    "running",
    "completed",
    "suspended",
    "waits",
    "hangs",
    "failed",
    "interrupted",
    "killed",
    "lost",
    "missing",
)
_LONGEST_REASON: Final = 300
_MAX_LISTED: Final = 32
_HEARTBEAT_S: Final = 90
_OF_RANK: Final = re.compile(r"(?:^|(?<=/))ranks/(\d{1,9})/")


def of_rank(path: str) -> int | None:
    """Return the rank above 0 that a path belongs to; None for a path of the whole run."""
    found = _OF_RANK.search(path)
    return None if found is None else int(found[1])


def common_path(path: str) -> str:
    """Return the rank 0 path of a series of any rank."""
    return _OF_RANK.sub("", path, count=1)


def has_points(attribute: Attribute) -> bool:
    """Return whether an attribute is a float series with points."""
    return attribute.family == "float_series" and attribute.value.count > 0


def lags(attributes: Iterable[Attribute]) -> dict[int, float]:
    """Return the steps that each rank is behind the foremost, over series common to all ranks."""
    steps: dict[str, dict[int, float]] = {}
    for one in attributes:
        if has_points(one):
            steps.setdefault(common_path(one.path), {})[of_rank(one.path) or 0] = (
                one.value.last_step
            )
    all_ranks = {rank for of_path in steps.values() for rank in of_path}
    found: dict[int, float] = {}
    for of_path in steps.values():
        if len(all_ranks) > 1 and of_path.keys() == all_ranks:
            first = max(of_path.values())
            for rank, step in of_path.items():
                found[rank] = max(found.get(rank, 0.0), first - step)
    return found


def rank_facts(view: Reader, state: str) -> Iterator[tuple[str, str]]:
    """Yield labels and texts of facts about ranks, and the last step of a running run."""
    ranks = view.ranks()
    if len(ranks) > 1:
        hosts = len({rank.host for rank in ranks if rank.state != "missing"})
        where = f" on {plural(hosts, 'host')}" if hosts > 1 else ""
        counts = ((sum(rank.state == one for rank in ranks), one) for one in _RANK_STATES)
        listed = ", ".join(f"{count} {one}" for count, one in counts if count)
        yield "ranks", f"{len(ranks)}{where}: {listed}"
    rows = [rank.row_t for rank in ranks if rank.row_t is not None]
    if state == "running" and rows:
        yield "last step", seen_text(max(rows), view.now_ns)


def rank_mappings(view: Reader) -> list[dict[str, Any]]:
    """Return the status of each rank, for JSON."""
    from seamark.reading.points import time_of

    return [
        {
            "rank": rank.rank,
            "host": rank.host,
            "pid": rank.pid,
            "state": rank.state,
            "why": rank.why,
            "started": time_of(rank.first_t) if rank.first_t else None,
            "last_seen": time_of(rank.last_t) if rank.last_t else None,
            "last_step": None if rank.row_t is None else time_of(rank.row_t),
        }
        for rank in view.ranks()
    ]


def rank_problems(view: Reader, state: str) -> Iterator[str]:
    """Yield a line for each rank that failed or hangs, failures by time, then groups of others.

    A single rank has a line only if it hangs; the run's state covers the rest.
    """
    ranks, now = view.ranks(), view.now_ns
    if len(ranks) < 2:  # noqa: PLR2004 - one process is the run
        if state == "running":
            yield from (_describe_hang("", rank, now) for rank in ranks if rank.state == "hangs")
        return
    bad = [rank for rank in ranks if rank.state in ("failed", "killed", "lost")]
    for rank in sorted(bad, key=lambda one: one.end_t or 0):
        if rank.rank or rank.state not in state:
            yield _describe_end(rank, now)
    for rank in ranks:
        if rank.state == "hangs":
            yield _describe_hang(f"rank {rank.rank} hangs: ", rank, now)
    waiting = [one.rank for one in ranks if one.state == "waits"]
    yield from _describe_ranks("waits", "wait", " for it: no step either", waiting)
    missing = [one.rank for one in ranks if one.state == "missing"]
    yield from _describe_ranks("never recorded", "never recorded", " anything", missing)
    yield from _describe_interrupted(
        [one for one in ranks if one.state == "interrupted" and one.rank]
    )


def _process_label(rank: RankStatus) -> str:
    return f"pid {rank.pid} on {rank.host}"


def _describe_end(rank: RankStatus, now_ns: int) -> str:
    name, seen = f"rank {rank.rank}", seen_text(rank.last_t, now_ns)
    if rank.state in ("killed", "lost") and rank.why:
        return f"{name} is gone, {rank.why} ({_process_label(rank)}): last seen {seen}"
    if rank.state == "killed":
        return f"{name} was killed ({_process_label(rank)}): last seen {seen}"
    if rank.state == "lost":
        silence = duration_words((now_ns - rank.last_t) / 1e9)
        where = f"{_process_label(rank)}, cannot be checked from here"
        return f"{name} is lost: no heartbeat for {silence} ({where})"
    when = seen_text(rank.end_t or rank.last_t, now_ns)
    why = shorten((rank.why.splitlines() or [""])[0], _LONGEST_REASON)
    return f"{name} failed ({_process_label(rank)}) {when}" + (f": {why}" if why else "")


def _describe_hang(name: str, rank: RankStatus, now_ns: int) -> str:
    unheard_s = (now_ns - rank.last_t) / 1e9
    if unheard_s > _HEARTBEAT_S:
        silence = duration_words(unheard_s)
        return (
            f"{name}no heartbeat for {silence}, although its process lives ({_process_label(rank)})"
        )
    idle = duration_words(rank.idle_ns(now_ns) / 1e9)
    return f"{name}no step for {idle}, although its process lives ({_process_label(rank)})"


def _describe_interrupted(ranks: Sequence[RankStatus]) -> Iterator[str]:
    by_reason: dict[str, list[int]] = {}
    for rank in ranks:
        by_reason.setdefault(rank.why.partition(":")[0], []).append(rank.rank)
    for why, numbers in by_reason.items():
        by = f" by {why}" if why else ""
        yield from _describe_ranks("was interrupted", "were interrupted", by, numbers)


def _describe_ranks(does: str, do: str, what: str, ranks: Sequence[int]) -> Iterator[str]:
    if len(ranks) == 1:
        yield f"rank {ranks[0]} {does}{what}"
    elif ranks:
        listed = ", ".join(map(str, ranks[:_MAX_LISTED]))
        more = len(ranks) - _MAX_LISTED
        yield f"ranks {listed}{f' and {more:,} more' if more > 0 else ''} {do}{what}"


STEP_TIME: Final = "profiling/step_time_s"
"""Path of the step time of rank 0, in seconds; rank n has ``ranks/<n>/`` in the path."""
OWN_TIME: Final = "profiling/own_time_s"
"""Path of the step time of rank 0 without waiting for other ranks, in seconds."""
Moment = Annotated[datetime, Meta(tz=True)]
_WARM_UP: Final = 5
"""Minimum number of step times for leaving the first out of means: it includes start-up work."""


@dataclass(frozen=True, slots=True)
class RankTiming:
    """Status and step times of one rank of a distributed training.

    Attributes:
        rank: 0-based rank over all nodes.
        host: Host name; None if unknown.
        pid: Process id; None if unknown.
        state: ``"running"``, ``"completed"``, ``"failed"``, ``"interrupted"``, ``"suspended"``,
            ``"killed"`` (the process ended without a reason), ``"hangs"`` (alive, but no step or
            heartbeat for a long time), ``"waits"`` (the same, while a hanging rank is behind it),
            ``"lost"`` (no heartbeat for 90 s, and the process cannot be checked from this machine),
            ``"missing"`` (never recorded anything); None if nothing is known about the process.
        why: Error or signal that ended the process; empty if unknown.
        last_seen: Time of the last record or heartbeat (every 30 s); UTC.
        last_step: Time of the last recorded point of a series; UTC.
        steps: Number of recorded step times; each is a mean since the previous one.
        mean_s: Mean step time, seconds; with five times or more without the first one, whose steps
            compile and allocate. This and the next three are NaN if there are no times.
        p50_s: Median step time, seconds.
        p95_s: 95th percentile of step times, seconds.
        max_s: Longest step time, seconds.
        own_s: Mean step time without waiting for others, seconds; NaN unless all ranks recorded it.
        slowdown: ``own_s`` (or ``mean_s`` without it) divided by the median of the other ranks; NaN
            if there is nothing to compare.
    """

    rank: int
    host: str | None = None
    pid: int | None = None
    state: str | None = None
    why: str = ""
    last_seen: Moment | None = None
    last_step: Moment | None = None
    steps: int = 0
    mean_s: float = math.nan
    p50_s: float = math.nan
    p95_s: float = math.nan
    max_s: float = math.nan
    own_s: float = math.nan
    slowdown: float = math.nan

    @property
    def pace_s(self) -> float:
        """Step time by which ranks are compared: ``own_s``, else ``mean_s``; seconds."""
        return self.mean_s if math.isnan(self.own_s) else self.own_s


def rank_timings(view: Reader) -> list[RankTiming]:
    """Return timings of the ranks, the slowest first; raises `MissingFieldError`."""
    statuses = {status.rank: status for status in view.ranks()}
    paths = view.series_paths()
    steps, own = _values(view, paths, STEP_TIME), _values(view, paths, OWN_TIME)
    timed = steps or own
    ranks = sorted({*statuses, *timed, *_ranks_of(paths)})
    if len(ranks) < 2:  # noqa: PLR2004 - one rank is nobody's straggler
        raise MissingFieldError(
            f"run {view.name!r} of project {view.project!r}: only one rank has records; "
            "stragglers need a training of several ranks with ranks='all'"
        )
    if not timed:
        raise MissingFieldError(
            f"run {view.name!r} of project {view.project!r}: no rank recorded "
            f"{STEP_TIME}; use a logger with ranks='all', or record it on every rank with "
            f"run.log_metrics({{{STEP_TIME!r}: seconds}}, step)"
        )
    found = [_timing(rank, statuses.get(rank), timed.get(rank, ())) for rank in ranks]
    if own.keys() >= timed.keys():
        found = [replace(one, own_s=_mean(own.get(one.rank, ()))) for one in found]
    found = [replace(one, slowdown=_slowdown(one, found)) for one in found]
    known = [one for one in found if not math.isnan(one.pace_s)]
    known.sort(key=lambda one: -one.pace_s)
    return [*known, *(one for one in found if math.isnan(one.pace_s))]


def _ranks_of(paths: Sequence[str]) -> set[int]:
    found = {rank for path in paths if (rank := of_rank(path)) is not None}
    return found | {0} if found else found


def _values(view: Reader, paths: Sequence[str], name: str) -> Mapping[int, Sequence[float]]:
    spaces: dict[str, dict[int, str]] = {}
    for path in paths:
        plain = common_path(path)
        if plain == name or plain.endswith(f"/{name}"):
            spaces.setdefault(plain, {})[of_rank(path) or 0] = path
    if not spaces:
        return {}
    by_rank = spaces[min(spaces, key=lambda plain: (-len(spaces[plain]), len(plain), plain))]
    points = view.many_points(list(by_rank.values()))
    values = {
        rank: [value for value in points[path].value.tolist() if math.isfinite(value)]
        for rank, path in by_rank.items()
    }
    return {rank: found for rank, found in values.items() if found}


def _mean(values: Sequence[float]) -> float:
    counted = values[1:] if len(values) >= _WARM_UP else values
    return statistics.fmean(counted) if counted else math.nan


def _timing(rank: int, status: RankStatus | None, values: Sequence[float]) -> RankTiming:
    found = RankTiming(rank)
    if status is not None:
        found = replace(
            found,
            host=status.host,
            pid=status.pid,
            state=status.state,
            why=status.why,
            last_seen=time_of(status.last_t) if status.last_t else None,
            last_step=None if status.row_t is None else time_of(status.row_t),
        )
    if not values:
        return found
    ordered = sorted(values)
    return replace(
        found,
        steps=len(values),
        mean_s=_mean(values),
        p50_s=statistics.median(ordered),
        p95_s=ordered[min(len(ordered) - 1, math.ceil(0.95 * len(ordered)) - 1)],
        max_s=ordered[-1],
    )


def _slowdown(one: RankTiming, ranks: Sequence[RankTiming]) -> float:
    others = [
        other.pace_s for other in ranks if other.rank != one.rank and not math.isnan(other.pace_s)
    ]
    usual = statistics.median(others) if others else math.nan
    return one.pace_s / usual if usual > 0 else math.nan
