"""Run an engine without and with a profiler: ``ignite_profilers.py WHICH ITERATIONS N...``.

The step is empty and N empty handlers are on ITERATION_COMPLETED, so that an iteration is little
but Ignite's own work. Prints the time of the fastest turn of each as ``"<without|with> N"``. What a
profiler adds is the difference in one process: from one process to the next, an iteration differs
by more. A first short run warms up.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import ignite.handlers
from ignite.engine import Engine, Events

import seamark.ignite

TURNS = 7
MAKERS: dict[str, Any] = {
    "none": None,
    "ignite-basic": ignite.handlers.BasicTimeProfiler,
    "ignite-handlers": ignite.handlers.HandlersTimeProfiler,
    "seamark-basic": seamark.ignite.BasicTimeProfiler,
    "seamark-handlers": seamark.ignite.HandlersTimeProfiler,
}


def empty_handler() -> Any:
    def handler() -> None:
        pass

    return handler


def measured(which: str, handlers: int, iterations: int) -> dict[str, float]:
    engine = Engine(lambda _engine, _batch: None)
    for _ in range(handlers):
        engine.add_event_handler(Events.ITERATION_COMPLETED, empty_handler())
    if MAKERS[which] is not None:
        MAKERS[which]().attach(engine)
    data = range(iterations)
    wall, cpu = time.perf_counter(), time.process_time()
    engine.run(data, max_epochs=1)
    return {
        "wall_us": (time.perf_counter() - wall) / iterations * 1e6,
        "cpu_us": (time.process_time() - cpu) / iterations * 1e6,
    }


name, (size, *counts) = sys.argv[1], map(int, sys.argv[2:])
taken: dict[str, list[dict[str, float]]] = {}
for turn in range(1 + TURNS):
    for count in counts:
        for label, which in [("without", "none"), ("with", name)]:
            found = measured(which, count, size if turn else size // 10)
            if turn:
                taken.setdefault(f"{label} {count}", []).append(found)
print(
    json.dumps(
        {
            label: {unit: min(one[unit] for one in each) for unit in each[0]}
            for label, each in taken.items()
        }
    )
)
