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
BASIC, HANDLERS_TOO = ("seamark-basic", "ignite-basic"), ("seamark-handlers", "ignite-handlers")
TARGETS = {BASIC: 5.0 / 17.0, HANDLERS_TOO: 2.5 / 5.1}
"""What ours may add, as a part of what Ignite's own adds: figures of the design, of one machine."""


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

    basic, handlers = (added(ours, 5) for ours, _ in TARGETS)
    part = {pair: added(pair[0], 5) / added(pair[1], 5) for pair in TARGETS}
    yield Result(
        "ignite-profilers",
        "Added time per iteration of an Ignite engine, 5 handlers",
        "≤ 5 µs (Basic) and ≤ 2.5 µs (Handlers) where Ignite's own add 17.0 and 5.1: ≤ 0.29 and ≤ "
        "0.49 of them",
        f"{part[BASIC]:.2f} and {part[HANDLERS_TOO]:.2f} of them "
        f"({basic:.1f} and {handlers:.1f} µs)",
        all(part[pair] <= target for pair, target in TARGETS.items()),
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
            "the median of the rounds."
        ),
        bench.rounds,
    )
