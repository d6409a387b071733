"""The loop around every contestant of the logging rows: timed calls, and CPU until closed."""

from __future__ import annotations

import json
import resource
import time
from array import array
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["cpu_s", "time_calls"]


def cpu_s() -> float:
    """Return user and system time of this process and of the children it waited for, in seconds."""
    both = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def time_calls(
    call: Callable[[Mapping[str, Any], int], object],
    close: Callable[[], object],
    calls: int,
    metrics: int,
    number: Callable[[float], Any] = float,
) -> None:
    """Log ``calls`` times and close; print the figures as JSON.

    The dict of a call is built outside the timed part; the loop's own CPU is in everybody's.
    ``number`` makes what the dict holds.
    """
    names = [f"train/metric_{number:03}" for number in range(metrics)]
    spent = array("q", bytes(8 * calls))
    clock = time.perf_counter_ns
    cpu_before, begun = cpu_s(), clock()
    for step in range(calls):
        value = step * 0.001
        values = {name: number(value) for name in names}
        before = clock()
        call(values, step)
        spent[step] = clock() - before
    close()
    wall_s, cpu = (clock() - begun) / 1e9, cpu_s() - cpu_before
    ordered = sorted(spent)
    figures = {
        "median_us": ordered[calls // 2] / 1e3,
        "p99_us": ordered[calls * 99 // 100] / 1e3,
        "wall_us": wall_s / calls * 1e6,
        "cpu_us": cpu / calls * 1e6,
        "cpu_s": cpu,
        "wall_s": wall_s,
        "points_per_s": calls * metrics / (sum(spent) / 1e9),
    }
    print(json.dumps(figures))
