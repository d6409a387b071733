"""Print the bytes that a point takes in chunks: ``folded_bytes.py STEPS``.

Ten losses as a training makes them: falling, noisy, computed in float32.
"""

from __future__ import annotations

import json
import math
import random
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np

import seamark
from seamark.index.file import index_path

steps, chance = int(sys.argv[1]), random.Random(5)
run = seamark.init_run(capture={"packages": False})
names = [f"train/loss_{number}" for number in range(10)]
for step in range(steps):
    falling = math.exp(-step / steps * 3)
    losses = {name: float(np.float32(falling * (1 + 0.1 * chance.gauss(0, 1)))) for name in names}
    run.log_metrics(losses, step)
    if step % 50 == 0:
        time.sleep(0.002)  # steps of a training do not come in the same few milliseconds
run.stop()

points = sum(len(run[name].fetch_points()) for name in names)
with closing(sqlite3.connect(index_path(Path(".seamark")))) as connection:

    def total(what: str) -> int:
        return int(connection.execute(f"SELECT {what}").fetchone()[0] or 0)

    size = total("sum(length(data)) FROM chunk")
    summaries = total("sum(length(cells)) FROM chunk")
print(
    json.dumps(
        {
            "bytes_a_point": size / points,
            "summaries_a_point": summaries / points,
            "points": points,
        }
    )
)
