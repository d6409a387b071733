"""Write runs of one series as TensorBoard keeps them: ``write_tensorboard.py RUNS POINTS``."""

from __future__ import annotations

import json
import random
import sys

from torch.utils.tensorboard import SummaryWriter

runs, points = map(int, sys.argv[1:])
chance = random.Random(11)
for number in range(runs):
    with SummaryWriter(f"tensorboard/run-{number:05}") as writer:
        for step in range(points):
            writer.add_scalar("metrics/loss", chance.random() / (1 + step), step)
print(json.dumps({"runs": runs}))
