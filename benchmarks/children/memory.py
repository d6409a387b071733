"""Print how much memory grows while logging: ``memory.py CASE CALLS``."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

import seamark

PAGE_KIB = os.sysconf("SC_PAGE_SIZE") / 1024


def resident_kib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_KIB


case, calls = sys.argv[1], int(sys.argv[2])
run = seamark.init_run()
names = [f"train/metric_{number:04}" for number in range(10 if case == "same" else 1_000)]
chance = random.Random(3)


def log(first: int, count: int) -> None:
    for step in range(first, first + count):
        subset = names if case == "same" else chance.sample(names, 10)
        run.log_metrics(dict.fromkeys(subset, step * 0.001), step)


warm = min(20_000, calls // 2)
log(0, warm)
before = resident_kib()
log(warm, calls - warm)
after = resident_kib()
run.stop()
figures = {"grown_kib": after - before, "resident_mib": after / 1024, "calls": calls - warm}
print(json.dumps(figures))
