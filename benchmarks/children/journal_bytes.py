"""Write points and print how many bytes each took: ``journal_bytes.py METRICS CALLS SERIES``.

With more series than metrics a call, each call logs a random subset of them.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import seamark

metrics, calls, series = map(int, sys.argv[1:])
run = seamark.init_run(capture={"git": False, "packages": False})
names = [f"train/layer_{number:04}/norm" for number in range(series)]
chance = random.Random(3)
run.log_metrics(dict.fromkeys(names, 0.0), 0)  # names, once each
before = sum(path.stat().st_size for path in Path(".seamark").rglob("journal/*"))
for step in range(1, calls + 1):
    subset = names if metrics == series else chance.sample(names, metrics)
    run.log_metrics({name: chance.random() for name in subset}, step)
after = sum(path.stat().st_size for path in Path(".seamark").rglob("journal/*"))
run.stop()
print(json.dumps({"bytes_a_point": (after - before) / (calls * metrics)}))
