"""Print what something takes: ``sizes.py WHAT ...``, where WHAT is a function of `SIZES`."""

from __future__ import annotations

import json
import math
import os
import random
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import seamark

Figures = dict[str, float]
CAPTURES_S = 5
"""Time in which a thread records the code and the machine, and imports modules for it."""


def memory(case: str, calls: str) -> Figures:
    """Return how much memory grows while logging the ``same`` metrics, or others in each call."""
    run = seamark.init_run()
    names = [f"train/metric_{number:04}" for number in range(10 if case == "same" else 1_000)]
    chance, end = random.Random(3), int(calls)

    def resident_kib(first: int, last: int) -> float:
        """Log some steps, and return what is resident then."""
        for step in range(first, last):
            subset = names if case == "same" else chance.sample(names, 10)
            run.log_metrics(dict.fromkeys(subset, step * 0.001), step)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1024

    warm = min(20_000, end // 2)
    resident_kib(0, warm)
    time.sleep(CAPTURES_S)
    before, after = resident_kib(warm, warm + 1), resident_kib(warm + 1, end)
    run.stop()
    return {"grown_kib": after - before, "resident_mib": after / 1024, "calls": end - warm}


def journal(metrics: str, calls: str, series: str) -> Figures:
    """Return how many bytes each point takes in the journal.

    With more series than metrics a call, each call logs a random subset of them.
    """
    run = seamark.init_run(capture={"git": False, "packages": False})
    names = [f"train/layer_{number:04}/norm" for number in range(int(series))]
    chance, size = random.Random(3), int(metrics)

    def written() -> int:
        return sum(path.stat().st_size for path in Path(".seamark").rglob("journal/*"))

    run.log_metrics(dict.fromkeys(names, 0.0), 0)  # names, once each
    before = written()
    for step in range(1, int(calls) + 1):
        subset = names if size == len(names) else chance.sample(names, size)
        run.log_metrics({name: chance.random() for name in subset}, step)
    after = written()
    run.stop()
    return {"bytes_a_point": (after - before) / (int(calls) * size)}


def folded(steps: str) -> Figures:
    """Return the bytes that a point takes in chunks.

    Ten losses as a training makes them: falling, noisy, computed in float32.
    """
    import numpy as np

    from seamark.index.file import index_path

    end, chance = int(steps), random.Random(5)
    run = seamark.init_run(capture={"packages": False})
    names = [f"train/loss_{number}" for number in range(10)]
    for step in range(end):
        falling = math.exp(-step / end * 3)
        noisy = {name: falling * (1 + 0.1 * chance.gauss(0, 1)) for name in names}
        run.log_metrics({name: float(np.float32(value)) for name, value in noisy.items()}, step)
        if step % 50 == 0:
            time.sleep(0.002)  # steps of a training do not come in the same few milliseconds
    run.stop()
    points = sum(len(run[name].fetch_points()) for name in names)
    with closing(sqlite3.connect(index_path(Path(".seamark")))) as connection:
        asked = "SELECT sum(length(data)), sum(length(cells)) FROM chunk"
        size, summaries = connection.execute(asked).fetchone()
    return {
        "bytes_a_point": (size or 0) / points,
        "summaries_a_point": (summaries or 0) / points,
        "points": points,
    }


SIZES: dict[str, Callable[..., Figures]] = {one.__name__: one for one in (memory, journal, folded)}

if __name__ == "__main__":
    what, *given = sys.argv[1:]
    print(json.dumps(SIZES[what](*given)))
