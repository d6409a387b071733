"""Statistics of durations, and the table, line and picture made of them.

Independent of any framework. An adapter adds durations to `Durations`, which is all it does while
training runs; statistics, files and series are made of them. Durations are nanoseconds while they
are collected and seconds in everything that people read.

A position is the epoch and the iteration of a duration, as the host counts them.
"""

from __future__ import annotations

from seamark.profiling.durations import (
    LOCK,
    LONG_COLUMNS,
    POSITION_SHIFT,
    SAMPLE_LIMIT,
    Breakdown,
    Durations,
    TimesInRun,
    TimeStat,
    aligned,
    largest_cost,
    path_part,
    picture,
    position,
    position_parts,
    summary_csv,
    table,
    write_long,
)

__all__ = [
    "LOCK",
    "LONG_COLUMNS",
    "POSITION_SHIFT",
    "SAMPLE_LIMIT",
    "Breakdown",
    "Durations",
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
    "write_long",
]
