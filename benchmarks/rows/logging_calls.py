"""What a call of ``log_metrics`` costs: targets 1 to 3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from harness import Bench, Result, Sample, child, middle, spread

CALLS = 100_000
PEER_CALLS = 10_000  # SummaryWriter takes some 0.3 ms a call
COLUMNS = [
    "10 metrics a call",
    "calls",
    "median µs a call [min..max]",
    "p99 µs",
    "CPU µs a call, until closed",
    "median ÷ os.write",
    "CPU ÷ os.write",
]
SHOWN = {
    "baseline": "os.write, 32 bytes a metric",
    "seamark": "**Seamark**",
    "captured": "Seamark, captures on",
    "csv": "Lightning CSVLogger (its writer, saving every 100 calls)",
    "tensorboard": "TensorBoard SummaryWriter",
    "empty": "(an empty call: the loop itself)",
}


def cost_of_a_call(bench: Bench) -> Iterator[Result]:
    """Measure 10 metrics a call, captures off and on, beside the baseline and the peers."""
    calls, peer_calls = bench.count(CALLS), bench.count(PEER_CALLS)
    taken = bench.interleaved(
        {
            "baseline": partial(child, "baseline_oswrite.py", calls, 10),
            "seamark": partial(child, "log_calls.py", "seamark", calls, 10),
            "captured": partial(child, "log_calls.py", "captured", calls, 10),
            "empty": partial(child, "log_calls.py", "empty", calls, 10),
        }
    )
    taken |= bench.interleaved(
        {
            name: partial(child, "log_calls.py", name, peer_calls, 10)
            for name in ("csv", "tensorboard")
        },
        rounds=min(3, bench.rounds),
    )
    base = taken["baseline"]
    table = []
    for name, shown in SHOWN.items():
        own = taken[name]
        table.append(
            [
                shown,
                f"{calls if name not in ('csv', 'tensorboard') else peer_calls:,}",
                spread(own, "median_us"),
                f"{middle(own, 'p99_us'):.1f}",
                spread(own, "cpu_us"),
                f"{middle(own, 'median_us') / middle(base, 'median_us'):.2f}",
                f"{middle(own, 'cpu_us') / middle(base, 'cpu_us'):.2f}",
            ]
        )
    median = middle(taken["seamark"], "median_us")
    ratio = middle(taken["seamark"], "cpu_us") / middle(base, "cpu_us")
    yield Result(
        "log-metrics",
        "`log_metrics`, 10 metrics, captures off, from after `init_run` to after `stop`",
        "median ≤ 2.5 µs; CPU ≤ 1.3 x os.write",
        f"{median:.2f} µs; {ratio:.2f} x",
        median <= 2.5 and ratio <= 1.3,
        COLUMNS,
        table,
        "CPU includes the loop, which makes the dict of each call outside the timed part.",
        bench.rounds,
    )
    yield _captures(taken["seamark"], taken["captured"], bench)


def _captures(off: Sequence[Sample], on: Sequence[Sample], bench: Bench) -> Result:
    more_s = middle(on, "cpu_s") - middle(off, "cpu_s")
    return Result(
        "captures",
        "The same with all captures on",
        "≤ 1 % of one core more",
        f"{more_s * 1e3:.0f} ms of CPU, once: 1 % of one core over {more_s * 100:.0f} s",
        more_s * 100 <= 60,
        note=(
            "Everything is captured once, on a thread, at the start. Met means that it is under "
            "1 % of one core from the first minute on; what goes on meanwhile has a row of its own."
        ),
        rounds=bench.rounds,
    )


def points_a_second(bench: Bench) -> Iterator[Result]:
    """Measure 100 metrics a call."""
    calls = bench.count(CALLS // 4)
    taken = bench.interleaved(
        {
            "baseline": partial(child, "baseline_oswrite.py", calls, 100),
            "seamark": partial(child, "log_calls.py", "seamark", calls, 100),
        }
    )
    millions = {name: middle(own, "points_per_s") / 1e6 for name, own in taken.items()}
    yield Result(
        "points-per-second",
        "Points appended per second and process, 100 metrics a call",
        "≥ 10 million",
        f"{millions['seamark']:.1f} million",
        millions["seamark"] >= 10,
        ["100 metrics a call", "calls", "million points a second", "median µs a call"],
        [
            [SHOWN[name], f"{calls:,}", f"{millions[name]:.1f}", spread(own, "median_us")]
            for name, own in taken.items()
        ],
        "Points by the sum of the times of all calls.",
        bench.rounds,
    )
