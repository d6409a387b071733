"""What a logger adds to a Lightning step: target 10."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from harness import Bench, Result, child, middle, spread

STEPS = 4_000
SHOWN = {
    "nothing": "a logger that does nothing",
    "seamark": "**SeamarkLogger**",
    "csv": "CSVLogger",
    "tensorboard": "TensorBoardLogger",
}


def added_time(bench: Bench) -> Iterator[Result]:
    """Train the same small model with each logger."""
    steps = bench.count(STEPS)
    taken = bench.interleaved(
        {name: partial(child, "lightning_steps.py", name, steps) for name in SHOWN}
    )
    nothing = taken["nothing"]
    added = {
        name: middle(own, "step_us") - middle(nothing, "step_us") for name, own in taken.items()
    }
    yield Result(
        "lightning",
        "Added time per Lightning step, 3 metrics, logging every step",
        "≤ 15 µs over a logger that does nothing",
        f"{added['seamark']:.0f} µs",
        added["seamark"] <= 15,
        [
            "logger",
            "median µs a step [min..max]",
            "added µs",
            "CPU µs a step, mean",
            "inside the logger's hooks, mean µs a step [min..max]",
        ],
        [
            [
                SHOWN[name],
                spread(own, "step_us", ".0f"),
                f"{added[name]:+.0f}",
                f"{middle(own, 'cpu_us'):.0f}",
                spread(own, "hooks_us", ".1f"),
            ]
            for name, own in taken.items()
        ],
        (
            f"{steps:,} steps of a model with 9 parameters on one thread. The last column times "
            "`log_metrics` and `save` from outside; it is steadier than a difference of two steps."
        ),
        bench.rounds,
    )
