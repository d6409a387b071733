"""Step times of the ranks of a distributed training, which show a slow rank."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from seamark.cli._screen import STATE_STYLES, Cell, Column, Screen, dumps
from seamark.reading.rank_text import rank_problems, rank_timings
from seamark.reading.text import seconds_text

if TYPE_CHECKING:
    from seamark.cli._runs import RunRef
    from seamark.reading.rank_text import RankTiming
    from seamark.reading.reader import Reader


_BAR_CELLS: Final = 24
_MIN_SLOWDOWN: Final = 1.1
"""Minimum slowdown of a slow rank; smaller differences are noise."""


def print_ranks(ref: RunRef, view: Reader, *, as_json: bool) -> None:
    """Print the step times of each rank, slowest first, and a verdict."""
    timings = rank_timings(view)
    if as_json:
        ranks = [dataclasses.asdict(one) for one in timings]
        shown = {
            "project": ref.project,
            "run": ref.run,
            "verdict": verdict(timings),
            "ranks": ranks,
        }
        click.echo(dumps(shown))
        return
    screen = Screen()
    _table(screen, timings)
    screen.line(f"\n{verdict(timings)}", style="bold")
    for problem in rank_problems(view, view.state):
        screen.line(f"! {problem}", style="bold red")


def _table(screen: Screen, timings: Sequence[RankTiming]) -> None:
    own = any(not math.isnan(one.own_s) for one in timings)
    columns = [
        Column("RANK", right=True),
        Column("HOST", shrink=True, rank=2),
        Column("PID", right=True, rank=4),
        Column("STATE"),
        Column("TIMES", right=True, rank=4),
        *([Column("OWN", right=True)] if own else []),
        Column("MEAN", right=True),
        Column("P50", right=True, rank=3),
        Column("P95", right=True, rank=3),
        Column("MAX", right=True, rank=3),
        Column("SLOWDOWN", right=True),
        Column("OWN TIME" if own else "STEP TIME", rank=1),
    ]
    longest = max((one.pace_s for one in timings if one.pace_s > 0), default=1.0)
    rows = []
    for one in timings:
        style = "bold red" if one.slowdown >= _MIN_SLOWDOWN else ""
        bars = 0 if math.isnan(one.pace_s) else max(1, round(_BAR_CELLS * one.pace_s / longest))
        row = [
            Cell(str(one.rank), "bold"),
            Cell(one.host or ""),
            Cell("" if one.pid is None else str(one.pid)),
            Cell(one.state or "", STATE_STYLES.get(one.state or "", "")),
            Cell(f"{one.steps:,}"),
            *([Cell(seconds_text(one.own_s), style)] if own else []),
            Cell(seconds_text(one.mean_s), "" if own else style),
            Cell(seconds_text(one.p50_s)),
            Cell(seconds_text(one.p95_s)),
            Cell(seconds_text(one.max_s)),
            Cell("" if math.isnan(one.slowdown) else f"{one.slowdown:.2f}x", style),
            Cell("█" * bars, style or "cyan"),
        ]
        rows.append(row)
    screen.table(columns, rows)


def verdict(timings: Sequence[RankTiming]) -> str:
    """Return a sentence that names the slow rank, if there is one."""
    timed = [one for one in timings if not math.isnan(one.pace_s)]
    if len(timed) < 2:  # noqa: PLR2004
        return f"Only rank {timed[0].rank} recorded the times of its steps: nothing to compare."
    slowest, own = timed[0], not math.isnan(timed[0].own_s)
    where = f" on {slowest.host}" if slowest.host else ""
    if slowest.slowdown >= _MIN_SLOWDOWN:
        usual = seconds_text(slowest.pace_s / slowest.slowdown)
        what = " of own time per step" if own else " per step"
        return (
            f"Rank {slowest.rank}{where} is the slowest: {seconds_text(slowest.pace_s)}{what}, "
            f"{slowest.slowdown:.2f} times the median of the others ({usual})."
        )
    spread = f"{max(0.0, slowest.slowdown - 1):.0%}"
    text = (
        f"No rank stands out: the slowest, rank {slowest.rank}{where}, takes {spread} longer than "
        "the median of the others."
    )
    if own:
        return text
    return (
        f"{text} Ranks that wait for each other in every step take equally long: "
        "profiling/own_time_s would show which one is slow."
    )
