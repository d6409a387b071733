"""Run an engine with each profiler, print times: ``ignite_profilers.py ROUND ITERATIONS N...``.

The step is empty and N empty handlers are on ITERATION_COMPLETED, so that an iteration is little
but Ignite's own work. All profilers have their turn in one process, since what they add is small
beside what one process differs from the next. A first short run of each warms up.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import ignite.handlers
from ignite.engine import Engine, Events

import seamark.ignite

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


turn, size, *counts = map(int, sys.argv[1:])
names = list(MAKERS)
names = names[turn % len(names) :] + names[: turn % len(names)]
for warming in names:
    measured(warming, 1, max(1, size // 10))
print(
    json.dumps(
        {f"{name} {count}": measured(name, count, size) for count in counts for name in names}
    )
)
