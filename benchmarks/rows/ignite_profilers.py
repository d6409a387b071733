"""What the time profilers add to an iteration of an Ignite engine: target 11."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial

from harness import Bench, Result, child, spread

ITERATIONS = 10_000
HANDLERS = (0, 5, 20)
SHOWN = {
    "none": "no profiler",
    "ignite-basic": "Ignite's BasicTimeProfiler",
    "seamark-basic": "**BasicTimeProfiler**",
    "ignite-handlers": "Ignite's HandlersTimeProfiler",
    "seamark-handlers": "**HandlersTimeProfiler**",
}
TARGETS = {"seamark-basic": 5.0, "seamark-handlers": 2.5}


def added_time(bench: Bench) -> Iterator[Result]:
    """Run the same engine with each profiler and 0, 5 and 20 handlers."""
    size = bench.count(ITERATIONS)
    taken = bench.interleaved(
        {name: partial(child, "ignite_profilers.py", name, size, *HANDLERS) for name in SHOWN}
    )

    def added(name: str, count: int) -> float:
        return statistics.median(
            each[f"with {count}"]["cpu_us"] - each[f"without {count}"]["cpu_us"]
            for each in taken[name]
        )

    def spread_of(name: str, unit: str) -> str:
        return spread([each["with 5"] for each in taken[name]], unit)

    found = {name: added(name, 5) for name in TARGETS}
    yield Result(
        "ignite-profilers",
        "Added time per iteration of an Ignite engine, 5 handlers",
        "≤ 5 µs BasicTimeProfiler, ≤ 2.5 µs HandlersTimeProfiler",
        f"{found['seamark-basic']:.1f} and {found['seamark-handlers']:.1f} µs",
        all(found[name] <= target for name, target in TARGETS.items()),
        [
            "profiler",
            *(f"added CPU µs, {count} handlers" for count in HANDLERS),
            "CPU µs an iteration, 5 handlers [min..max]",
            "wall µs, 5 handlers [min..max]",
        ],
        [
            [
                SHOWN[name],
                *(f"{added(name, count):+.1f}" for count in HANDLERS),
                spread_of(name, "cpu_us"),
                spread_of(name, "wall_us"),
            ]
            for name in SHOWN
        ],
        (
            f"{size:,} iterations with an empty step and empty handlers on ITERATION_COMPLETED; "
            "each profiler in a process of its own, in turn with none; the fastest of seven turns, "
            "the median of the rounds. "
            "Ours leave out the engine's debug message where nobody listens to it, which pays for "
            "part of them."
        ),
        bench.rounds,
    )
