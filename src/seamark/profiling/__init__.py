"""Statistics of durations, with tables and pictures.

Independent of any framework. An adapter only adds durations to `Durations` during training;
statistics, files and series are computed from them. Durations are nanoseconds internally and
seconds in all results.

A position consists of epoch and iteration of a duration, as counted by the framework.
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
    write_csv,
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
    "write_csv",
    "write_long",
]
