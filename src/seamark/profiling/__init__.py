"""Statistics of durations, and the table, line and picture made of them.

Knows no framework. An adapter appends durations to `Samples` (that is all it does while training
runs) and describes them with `Source`; statistics, files and series come from there. Durations are
nanoseconds while they are collected and seconds in everything that people read.

A position says when a duration was taken: epoch and iteration as the host counts them.
"""

from __future__ import annotations

from seamark.profiling.breakdown import Breakdown, largest_cost, picture
from seamark.profiling.in_run import TimesInRun
from seamark.profiling.samples import (
    FLUSH_AT,
    POSITION_SHIFT,
    SAMPLE_LIMIT,
    Samples,
    Source,
    path_part,
    position,
    position_parts,
)
from seamark.profiling.statistics import (
    LONG_COLUMNS,
    TimeStat,
    aligned,
    summary_csv,
    table,
    time_stats,
    write_long,
)

__all__ = [
    "FLUSH_AT",
    "LONG_COLUMNS",
    "POSITION_SHIFT",
    "SAMPLE_LIMIT",
    "Breakdown",
    "Samples",
    "Source",
    "TimeStat",
    "TimesInRun",
    "aligned",
    "largest_cost",
    "path_part",
    "picture",
    "position",
    "position_parts",
    "summary_csv",
    "table",
    "time_stats",
    "write_long",
]
