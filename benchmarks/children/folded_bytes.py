"""Print the bytes that a point takes in chunks: ``folded_bytes.py STEPS``.

Ten losses as a training makes them: falling, noisy, computed in float32.
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
from pathlib import Path

import numpy as np

import seamark
from seamark.local.index import Index

steps, chance = int(sys.argv[1]), random.Random(5)
run = seamark.init_run(capture_packages=False)
names = [f"train/loss_{number}" for number in range(10)]
for step in range(steps):
    falling = math.exp(-step / steps * 3)
    losses = {name: float(np.float32(falling * (1 + 0.1 * chance.gauss(0, 1)))) for name in names}
    run.log_metrics(losses, step)
    if step % 50 == 0:
        time.sleep(0.002)  # steps of a training do not come in the same few milliseconds
run.stop()

index = Index.open(Path(".seamark"))
index.refresh()
view = index.view(run.project, run.id)
points = sum(len(view.points(name).value) for name in names)
size = index.connection.exec_driver_sql("SELECT sum(length(data)) FROM chunk").scalar()
print(json.dumps({"bytes_a_point": size / points, "points": points}))
