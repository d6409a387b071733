"""Stragglers: which rank of a distributed training is slower than the others.

Where ranks wait for each other in every step, as with DDP, they all take the same time for one: the
slow rank works while the others wait. Ranks therefore record two times: ``profiling/step_time_s``,
from step to step, and ``profiling/own_time_s``, the part of it in which a rank does not wait for
others. The second one shows the straggler; without it, the first one is used.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from seamark.errors import MissingFieldError
from seamark.reading.points import time_of
from seamark.reading.rank_words import common_path, of_rank

if TYPE_CHECKING:
    from seamark.reading.ranks import RankStatus
    from seamark.reading.reader import Reader

__all__ = ["OWN_TIME", "STEP_TIME", "RankTiming", "rank_timings"]

STEP_TIME: Final = "profiling/step_time_s"
"""Path of the time of a step on rank 0, seconds; on rank n it has ``ranks/<n>/`` in it."""
OWN_TIME: Final = "profiling/own_time_s"
"""The same of the part of a step in which a rank does not wait for others."""

_WARM_UP: Final = 5
"""From this many times on, means leave out the first one: it compiles, allocates, connects."""


@dataclass(frozen=True, slots=True)
class RankTiming:
    """Status and step times of one rank of a distributed training.

    Attributes:
        rank: 0-based, over all nodes.
        host: Host name, or None if it is not known.
        pid: Process id, or None.
        state: ``"running"``, ``"completed"``, ``"failed"``, ``"interrupted"``, ``"suspended"``,
            ``"killed"`` (its process ended without reporting why), ``"hangs"`` (it is alive, but
            no step or heartbeat for a long time), ``"waits"`` (the same, while a rank that
            hangs is behind it), ``"lost"`` (no heartbeat for 90 s, and its process cannot be looked
            at from here), ``"missing"`` (it never recorded anything); None if nothing is known of
            its process.
        why: Error or signal that ended it, or empty.
        last_seen: Time of its last record or heartbeat (every 30 s); UTC.
        last_step: Time when it last recorded a point of a series; UTC.
        steps: Number of step times that it recorded; each is the mean since the one before.
        mean_s: Mean time of a step, seconds. Of five times and more the first one is left out:
            first steps compile and allocate. NaN if it recorded none; so are the next ones.
        p50_s: Median, seconds.
        p95_s: 95th percentile, seconds.
        max_s: The longest, seconds.
        own_s: Mean of the part of a step in which the rank does not wait for others, seconds; NaN
            if the ranks did not all record it.
        slowdown: ``own_s``, or ``mean_s`` without it, over the median of the other ranks; NaN if
            there is nothing to compare.
    """

    rank: int
    host: str | None = None
    pid: int | None = None
    state: str | None = None
    why: str = ""
    last_seen: datetime | None = None
    last_step: datetime | None = None
    steps: int = 0
    mean_s: float = math.nan
    p50_s: float = math.nan
    p95_s: float = math.nan
    max_s: float = math.nan
    own_s: float = math.nan
    slowdown: float = math.nan

    @property
    def pace_s(self) -> float:
        """Step time by which ranks are compared: ``own_s``, or ``mean_s`` without it; seconds."""
        return self.mean_s if math.isnan(self.own_s) else self.own_s


def rank_timings(view: Reader) -> list[RankTiming]:
    """Return the timing of every rank of a run, the slowest first, those without times last.

    Args:
        view: Of the run.

    Raises:
        MissingFieldError: If only one rank recorded, or no rank recorded the times of its steps.
    """
    statuses = {status.rank: status for status in view.ranks()}
    paths = view.series_paths()
    steps, own = _values(view, paths, STEP_TIME), _values(view, paths, OWN_TIME)
    timed = steps or own
    ranks = sorted({*statuses, *timed, *_ranks_of(paths)})
    if len(ranks) < 2:  # noqa: PLR2004 - one rank is nobody's straggler
        msg = (
            f"run {view.name!r} of project {view.project!r}: only one rank recorded; "
            "stragglers show in a training of several ranks with ranks='all'"
        )
        raise MissingFieldError(msg)
    if not timed:
        msg = (
            f"run {view.name!r} of project {view.project!r}: no rank recorded "
            f"{STEP_TIME}; loggers with ranks='all' do, or record it on every rank with "
            f"run.log_metrics({{{STEP_TIME!r}: seconds}}, step)"
        )
        raise MissingFieldError(msg)
    found = [_timing(rank, statuses.get(rank), timed.get(rank, ())) for rank in ranks]
    if own.keys() >= timed.keys():
        found = [replace(one, own_s=_mean(own.get(one.rank, ()))) for one in found]
    found = [replace(one, slowdown=_slowdown(one, found)) for one in found]
    known = [one for one in found if not math.isnan(one.pace_s)]
    known.sort(key=lambda one: -one.pace_s)
    return [*known, *(one for one in found if math.isnan(one.pace_s))]


def _ranks_of(paths: Sequence[str]) -> set[int]:
    """Return the ranks that have series of their own."""
    found = {rank for path in paths if (rank := of_rank(path)) is not None}
    return found | {0} if found else found


def _values(view: Reader, paths: Sequence[str], name: str) -> Mapping[int, Sequence[float]]:
    """Return the finite values of a series by rank.

    It is looked for at the root, and else in the first namespace that has it.
    """
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
    others = [other.pace_s for other in ranks if other.rank != one.rank]
    others = [pace for pace in others if not math.isnan(pace)]
    usual = statistics.median(others) if others else math.nan
    return one.pace_s / usual if usual > 0 else math.nan
