"""Log a long series, one row a call: ``write_series.py ROWS [KIND] [csv]``.

``one`` (metric a row, at steps 0, 1, 2, ...), ``apart`` (the same at steps 0, 50, 100, ...) or
``sets`` (1, 3 and 10 metrics in turn). One value among them is a spike. With ``csv`` its points are
also written to ``points.csv``.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import seamark

SPIKE = 1e6
EXTRA = [f"train/extra_{number}" for number in range(9)]

rows, kind = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "one"
between = 50 if kind == "apart" else 1
sets = [["train/loss"], ["train/loss", *EXTRA[:2]], ["train/loss", *EXTRA]]
sets = sets if kind == "sets" else sets[:1]
run = seamark.init_run(capture={"packages": False, "git": False})
spike_at = rows * 7 // 9
for row in range(rows):
    value = SPIKE if row == spike_at else 1 / (1 + row)
    run.log_metrics(dict.fromkeys(sets[row % len(sets)], value), row * between)
run.stop()
if "csv" in sys.argv[3:]:
    points = run["train/loss"].fetch_points()
    with Path("points.csv").open("w") as file:
        writer = csv.writer(file)
        writer.writerow(["step", "value", "time_ns"])
        writer.writerows(
            zip(points.step.tolist(), points.value.tolist(), points.time_ns.tolist(), strict=True)
        )
print(json.dumps({"run": run.id, "spike_step": spike_at * between, "spike": SPIKE}))
