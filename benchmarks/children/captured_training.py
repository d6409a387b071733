"""A training that captures watch: ``captured_training.py KIND CAPTURES SECONDS``.

KIND is ``idle`` (ten steps a second, nothing printed) or ``chatty`` (a hundred a second, each with
a line, and a progress bar drawn after each). CAPTURES is ``off``, ``on`` or ``fd``. What starting
costs is over before the measurement begins; CPU is that of this process and of those it started.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from typing import Any

import psutil
from log_calls import captures_of

WARM_S = 4.0
clock = time.perf_counter_ns


def start(captures: str) -> Any:
    import seamark

    given: dict[str, Any] = captures_of(on=captures != "off")
    if captures == "fd":
        given.update(capture_stdout="fd", capture_stderr="fd")
    return seamark.init_run(**given)


def cpu_s() -> float:
    """Return user and system time of this process and of all that it started, in seconds."""
    here = psutil.Process()
    taken = [each.cpu_times() for each in (here, *here.children(recursive=True))]
    return sum(times.user + times.system for times in taken)


def main() -> None:
    kind, captures, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    chatty, metrics = kind == "chatty", {f"train/metric_{number:03}": 0.5 for number in range(10)}
    results = os.dup(1)
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    run = start(captures)
    logged, printed = [], []
    period_s = 0.01 if chatty else 0.1
    due, begun, cpu_before, step = time.monotonic(), 0.0, 0.0, 0
    end = due + WARM_S + seconds
    while due < end:
        if not begun and due >= end - seconds:
            begun, cpu_before = time.monotonic(), cpu_s()
            logged.clear()
            printed.clear()
        before = clock()
        run.log_metrics(metrics, step)
        logged.append(clock() - before)
        if chatty:
            before = clock()
            print(
                f"step {step}: loss 0.{step:06} accuracy 0.{step:06} learning rate 0.001, all well"
            )
            printed.append(clock() - before)
            print(f"\r{step % 100:3}% |{'#' * (step % 60):60}| {step}", end="", file=sys.stderr)
        step += 1
        due += period_s
        time.sleep(max(0.0, due - time.monotonic()))
    figures = {
        "share": (cpu_s() - cpu_before) / (time.monotonic() - begun),
        "log_us": statistics.median(logged) / 1e3,
        "print_us": statistics.median(printed) / 1e3 if printed else 0.0,
    }
    run.stop()
    os.write(results, json.dumps(figures).encode() + b"\n")


main()
