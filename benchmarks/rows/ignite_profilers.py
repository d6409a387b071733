"""What the time profilers add to an iteration of an Ignite engine: target 11."""

from __future__ import annotations

from collections.abc import Iterator

from harness import Bench, Result, child, middle, spread

ITERATIONS = 30_000
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
    rounds = [child("ignite_profilers.py", turn, size, *HANDLERS) for turn in range(bench.rounds)]
    taken = {name: [each[name] for each in rounds] for name in rounds[0]}

    def added(name: str, count: int) -> float:
        none = middle(taken[f"none {count}"], "cpu_us")
        return middle(taken[f"{name} {count}"], "cpu_us") - none

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
                spread(taken[f"{name} 5"], "cpu_us"),
                spread(taken[f"{name} 5"], "wall_us"),
            ]
            for name in SHOWN
        ],
        (
            f"{size:,} iterations with an empty step and empty handlers on ITERATION_COMPLETED; "
            "each round in one process, each profiler in turn. "
            "Ours leave out the engine's debug message where nobody listens to it, which pays for "
            "part of them."
        ),
        bench.rounds,
    )
