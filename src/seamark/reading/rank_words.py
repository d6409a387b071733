"""Text that describes the state of the ranks of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from seamark.reading.ages import duration_words
from seamark.reading.words import plural, seen_text, shorten

if TYPE_CHECKING:
    from seamark.reading.attributes import Attribute
    from seamark.reading.ranks import RankStatus
    from seamark.reading.reader import Reader

__all__ = [
    "common_path",
    "has_points",
    "lags",
    "of_rank",
    "rank_facts",
    "rank_mappings",
    "rank_problems",
]

_STATES: Final = (
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
_MOST_LISTED: Final = 32
_HEARTBEAT_S: Final = 90
_OF_RANK: Final = re.compile(r"(?:^|(?<=/))ranks/(\d{1,9})/")


def of_rank(path: str) -> int | None:
    """Return the rank above 0 whose series a path is; None if it is that of the whole run."""
    found = _OF_RANK.search(path)
    return None if found is None else int(found[1])


def common_path(path: str) -> str:
    """Return the path that a series of a rank has on rank 0."""
    return _OF_RANK.sub("", path, count=1)


def has_points(attribute: Attribute) -> bool:
    """Return whether an attribute is a series of numbers with points."""
    return attribute.family == "float_series" and attribute.value.count > 0


def lags(attributes: Iterable[Attribute]) -> dict[int, float]:
    """Return by rank how many steps it is behind the foremost, in the series that all of them have.

    Nothing where only one rank records series.

    Args:
        attributes: Of the run.
    """
    steps: dict[str, dict[int, float]] = {}
    for one in attributes:
        if has_points(one):
            steps.setdefault(common_path(one.path), {})[of_rank(one.path) or 0] = (
                one.value.last_step
            )
    everybody = {rank for of_path in steps.values() for rank in of_path}
    found: dict[int, float] = {}
    for of_path in steps.values():
        if len(everybody) > 1 and of_path.keys() == everybody:
            first = max(of_path.values())
            for rank, step in of_path.items():
                found[rank] = max(found.get(rank, 0.0), first - step)
    return found


def rank_facts(view: Reader, state: str) -> Iterator[tuple[str, str]]:
    """Yield label and text of the facts that are shown of a run with ranks, or a running one."""
    ranks = view.ranks()
    if len(ranks) > 1:
        hosts = len({rank.host for rank in ranks if rank.state != "missing"})
        where = f" on {plural(hosts, 'host')}" if hosts > 1 else ""
        counts = ((sum(rank.state == one for rank in ranks), one) for one in _STATES)
        listed = ", ".join(f"{count} {one}" for count, one in counts if count)
        yield "ranks", f"{len(ranks)}{where}: {listed}"
    rows = [rank.row_t for rank in ranks if rank.row_t is not None]
    if state == "running" and rows:
        yield "last step", seen_text(max(rows), view.now_ns)


def rank_mappings(view: Reader) -> list[dict[str, Any]]:
    """Return how each rank is doing, for JSON."""
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
    """Yield a line for each rank that ended badly or hangs, in the order of their last records.

    Of a run whose only rank is 0, the state says everything but a hang; of several ranks, what
    happened to rank 0 alone is in the line of the run's state.
    """
    ranks, now = view.ranks(), view.now_ns
    if len(ranks) < 2:  # noqa: PLR2004 - one process is the run
        if state == "running":
            yield from (_hang("", rank, now) for rank in ranks if rank.state == "hangs")
        return
    bad = [rank for rank in ranks if rank.state in ("failed", "killed", "lost")]
    for rank in sorted(bad, key=lambda one: one.end_t or 0):
        if rank.rank or rank.state not in state:
            yield _end(rank, now)
    for rank in ranks:
        if rank.state == "hangs":
            yield _hang(f"rank {rank.rank} hangs: ", rank, now)
    waiting = [one.rank for one in ranks if one.state == "waits"]
    yield from _several("waits", "wait", " for it: no step either", waiting)
    missing = [one.rank for one in ranks if one.state == "missing"]
    yield from _several("never recorded", "never recorded", " anything", missing)
    yield from _interrupted([one for one in ranks if one.state == "interrupted" and one.rank])


def _process_label(rank: RankStatus) -> str:
    return f"pid {rank.pid} on {rank.host}"


def _end(rank: RankStatus, now_ns: int) -> str:
    name = f"rank {rank.rank}"
    if rank.state in ("killed", "lost") and rank.why:
        seen = seen_text(rank.last_t, now_ns)
        return f"{name} is gone, {rank.why} ({_process_label(rank)}): last seen {seen}"
    if rank.state == "killed":
        seen = seen_text(rank.last_t, now_ns)
        return f"{name} was killed ({_process_label(rank)}): last seen {seen}"
    if rank.state == "lost":
        silence = duration_words((now_ns - rank.last_t) / 1e9)
        where = f"{_process_label(rank)}, cannot be checked from here"
        return f"{name} is lost: no heartbeat for {silence} ({where})"
    when = seen_text(rank.end_t or rank.last_t, now_ns)
    why = shorten((rank.why.splitlines() or [""])[0], _LONGEST_REASON)
    return f"{name} failed ({_process_label(rank)}) {when}" + (f": {why}" if why else "")


def _hang(name: str, rank: RankStatus, now_ns: int) -> str:
    unheard_s = (now_ns - rank.last_t) / 1e9
    if unheard_s > _HEARTBEAT_S:
        silence = duration_words(unheard_s)
        return (
            f"{name}no heartbeat for {silence}, although its process lives ({_process_label(rank)})"
        )
    idle = duration_words(rank.idle_ns(now_ns) / 1e9)
    return f"{name}no step for {idle}, although its process lives ({_process_label(rank)})"


def _interrupted(ranks: Sequence[RankStatus]) -> Iterator[str]:
    by_reason: dict[str, list[int]] = {}
    for rank in ranks:
        by_reason.setdefault(rank.why.partition(":")[0], []).append(rank.rank)
    for why, numbers in by_reason.items():
        by = f" by {why}" if why else ""
        yield from _several("was interrupted", "were interrupted", by, numbers)


def _several(does: str, do: str, what: str, ranks: Sequence[int]) -> Iterator[str]:
    """Yield a line about ranks of which the same is to be said, if there is any."""
    if len(ranks) == 1:
        yield f"rank {ranks[0]} {does}{what}"
    elif ranks:
        listed = ", ".join(map(str, ranks[:_MOST_LISTED]))
        more = len(ranks) - _MOST_LISTED
        yield f"ranks {listed}{f' and {more:,} more' if more > 0 else ''} {do}{what}"
