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
            "What is captured once, on a thread, at the start. Met means that it is under 1 % of "
            "one core from the first minute on; what goes on meanwhile has a row of its own."
        ),
        rounds=bench.rounds,
    )


def other_numbers(bench: Bench) -> Iterator[Result]:
    """Measure what is no plain float, and points that are added one by one."""
    calls = bench.count(CALLS // 5)
    taken = bench.interleaved(
        {
            name: partial(child, "log_calls.py", name, calls, 10)
            for name in ("seamark", "float32", "timestamp", "numpy_step", "tensors")
        }
        | {
            "one": partial(child, "log_calls.py", "seamark", calls, 1),
            "append": partial(child, "log_calls.py", "append", calls, 1),
            "append_mapping": partial(child, "log_calls.py", "append_mapping", calls, 10),
        }
    )
    us = {name: middle(own, "median_us") for name, own in taken.items()}
    worst = max(us[name] for name in ("float32", "timestamp", "numpy_step")) / us["seamark"]
    shown = {
        "seamark": "10 metrics as Python floats",
        "float32": "10 metrics as NumPy float32",
        "timestamp": "10 metrics, `timestamp=` given",
        "numpy_step": "10 metrics, step as NumPy int64",
        "tensors": "10 metrics as 0-d CPU tensors",
        "one": "1 metric as a Python float",
        "append": '`run["x"].append(value)`',
        "append_mapping": '`run["x"].append({...})` of 10',
    }
    columns = ["a call", "calls", "median µs [min..max]", "÷ `log_metrics` of one"]
    table = [
        [shown[name], f"{calls:,}", spread(own, "median_us"), f"{us[name] / us['one']:.2f}"]
        for name, own in taken.items()
    ]
    yield Result(
        "other-numbers",
        "`log_metrics` of 10 metrics that are NumPy's or tensors, with a time, with NumPy's step",
        "≤ 2 x plain floats; tensors on the CPU ≤ 25 µs",
        f"{worst:.2f} x; {us['tensors']:.1f} µs",
        worst <= 2 and us["tensors"] <= 25,
        columns,
        table,
        rounds=bench.rounds,
    )
    append, mapping = us["append"] / us["one"], us["append_mapping"] / us["one"]
    yield Result(
        "append",
        '`run["x"].append(value)`, and a mapping of ten, beside `log_metrics` of one',
        "≤ 1.6 x; ≤ 2.5 x",
        f"{append:.2f} x; {mapping:.2f} x",
        append <= 1.6 and mapping <= 2.5,
        note="The table of the row above has the figures.",
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
