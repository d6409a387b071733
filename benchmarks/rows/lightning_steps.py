"""What a logger adds to a Lightning step: target 10."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from harness import Bench, Result, child, middle, spread

STEPS = 4_000
LEAST_STEPS = 500  # the first 200 are not counted
SHOWN = {
    "nothing": "a logger that does nothing",
    "write": "a logger that does one `os.write` of 64 bytes",
    "seamark": "**SeamarkLogger**",
    "csv": "CSVLogger",
    "tensorboard": "TensorBoardLogger",
}


def added_time(bench: Bench) -> Iterator[Result]:
    """Train the same small model with each logger."""
    steps = max(bench.count(STEPS), LEAST_STEPS)
    taken = bench.interleaved(
        {name: partial(child, "lightning_steps.py", name, steps) for name in SHOWN}
    )
    added_us = middle(taken["seamark"], "added_us")
    floor_us = middle(taken["write"], "added_us")
    yield Result(
        "lightning",
        "Added time per Lightning step, 3 metrics, logging every step",
        "≤ 15 µs over a logger that does nothing",
        f"{added_us:.0f} µs, of which one bare `os.write` is {floor_us:.0f}",
        added_us <= 15,
        [
            "logger",
            "median step with its hooks off, µs",
            "added, median µs [min..max]",
            "added, mean µs",
            "inside its hooks, median µs [min..max]",
            "inside its hooks, mean µs",
        ],
        [
            [
                SHOWN[name],
                f"{middle(own, 'off_us'):.0f}",
                spread(own, "added_us", ".0f"),
                f"{middle(own, 'added_mean_us'):.0f}",
                spread(own, "hooks_us", ".1f"),
                f"{middle(own, 'hooks_mean_us'):.1f}",
            ]
            for name, own in taken.items()
        ],
        (
            f"{steps:,} steps of a model with 9 parameters, on one thread; 20 steps with the "
            "logger's `log_metrics` and `save`, 20 without, in turn. Between two calls Lightning "
            "and torch use the caches for themselves, so that a call costs several times what it "
            "costs in a tight loop."
        ),
        bench.rounds,
    )
