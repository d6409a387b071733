"""Statistics of durations, and the tables made of them."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Final

from seamark.profiling.samples import Source, position_parts

__all__ = [
    "LONG_COLUMNS",
    "TimeStat",
    "aligned",
    "summary_csv",
    "table",
    "time_stats",
    "write_long",
]

LONG_COLUMNS: Final = ("kind", "event", "name", "clock", "epoch", "iteration", "seconds")
"""Columns of the long layout: one row for each duration."""

_HEAD: Final = (
    "what", "event", "count", "total s", "self s", "mean s", "std s",
    "p50 s", "p95 s", "p99 s", "min s (epoch/iteration)", "max s (epoch/iteration)",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TimeStat:
    """Times of one thing: numbers only, in seconds.

    Without a single duration, ``count`` is 0 and every other number is 0 as well.

    Attributes:
        kind: ``"processing"``, ``"dataflow"``, ``"event"``, ``"handler"`` or ``"action"``.
        name: Name of the handler, event or action.
        event: Name of the event that a handler belongs to, else empty.
        clock: ``"wall"``, or ``"cuda"`` for times between CUDA events.
        count: How often.
        total_s: Sum, what happened inside included.
        self_s: Sum without what is timed elsewhere, such as the handlers of an event that this
            handler fires.
        min_s: Shortest.
        max_s: Longest.
        mean_s: Mean.
        std_s: Standard deviation of a sample (divided by count - 1); 0 for a single duration.
        p50_s: Median; like the other percentiles of the kept rows, that is exact up to
            `SAMPLE_LIMIT` durations.
        p95_s: 95th percentile.
        p99_s: 99th percentile.
        min_epoch: Epoch of the shortest, as the host counts; of several, the first.
        min_iteration: Iteration of the shortest, as the host counts.
        max_epoch: Epoch of the longest.
        max_iteration: Iteration of the longest.
    """

    kind: str
    name: str
    event: str
    clock: str
    count: int
    total_s: float
    self_s: float
    min_s: float
    max_s: float
    mean_s: float
    std_s: float
    p50_s: float
    p95_s: float
    p99_s: float
    min_epoch: int
    min_iteration: int
    max_epoch: int
    max_iteration: int


def time_stats(sources: Iterable[Source]) -> list[TimeStat]:
    """Return the statistics of each source, in their order."""
    return [_time_stat(source) for source in sources]


def _time_stat(source: Source) -> TimeStat:
    import numpy as np

    running = source.samples.running()
    found, shortest, longest, mean = running.moments, 0.0, 0.0, 0.0
    percentiles = [0.0, 0.0, 0.0]
    if found.count:
        shortest, longest, mean = found.min, found.max, found.mean
        percentiles = (np.percentile(source.samples.rows()[1], (50, 95, 99)) / 1e9).tolist()
    min_epoch, min_iteration = position_parts(running.min_at)
    max_epoch, max_iteration = position_parts(running.max_at)
    return TimeStat(
        kind=source.kind,
        name=source.name,
        event=source.event,
        clock=source.clock,
        count=found.count,
        total_s=running.total / 1e9,
        self_s=source.own_ns / 1e9,
        min_s=shortest / 1e9,
        max_s=longest / 1e9,
        mean_s=mean / 1e9,
        std_s=found.std / 1e9,
        p50_s=percentiles[0],
        p95_s=percentiles[1],
        p99_s=percentiles[2],
        min_epoch=min_epoch,
        min_iteration=min_iteration,
        max_epoch=max_epoch,
        max_iteration=max_iteration,
    )


def table(stats: Iterable[TimeStat]) -> str:
    """Return statistics as a table for a terminal, one line for each, ended by a line break."""
    rows = [list(_HEAD)]
    for one in stats:
        name = one.name if one.clock == "wall" else f"{one.name} ({one.clock})"
        times = (one.total_s, one.self_s, one.mean_s, one.std_s, one.p50_s, one.p95_s, one.p99_s)
        least = f"{one.min_s:.6f} ({one.min_epoch}/{one.min_iteration})"
        most = f"{one.max_s:.6f} ({one.max_epoch}/{one.max_iteration})"
        shown = [*(f"{time:.6f}" for time in times), least, most] if one.count else ["-"] * 9
        rows.append([name, one.event, str(one.count), *shown])
    head, *lines = aligned(rows)
    return "\n".join([head, "-" * max(map(len, [head, *lines])), *lines, ""])


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each row: two columns of names, then numbers, each as wide as need be."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        names = [cell.ljust(width) for cell, width in zip(row[:2], widths, strict=False)]
        numbers = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        lines.append("  ".join([*names, *numbers]).rstrip())
    return lines


def summary_csv(stats: Iterable[TimeStat]) -> str:
    """Return statistics as CSV text, one line for each; the columns are those of `TimeStat`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(field.name for field in fields(TimeStat))
    writer.writerows(astuple(one) for one in stats)
    return out.getvalue()


def write_long(sources: Iterable[Source], path: str | os.PathLike[str]) -> None:
    """Write one row for each kept duration: `LONG_COLUMNS`.

    Raises:
        OSError: If the file cannot be written.
    """
    with Path(path).open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(LONG_COLUMNS)
        for one in sources:
            positions, durations = one.samples.rows()
            epochs, iterations = position_parts(positions)
            named = (one.kind, one.event, one.name, one.clock)
            writer.writerows(
                (*named, epoch, iteration, f"{ns / 1e9:.9f}")
                for epoch, iteration, ns in zip(
                    epochs.tolist(),  # type: ignore[attr-defined]
                    iterations.tolist(),  # type: ignore[attr-defined]
                    durations.tolist(),
                    strict=True,
                )
            )
