"""Write runs of one series as Trackio keeps them: ``write_trackio.py RUNS POINTS``.

Run with a Python that has it; as a whole run at a time, by what its ``import_csv`` calls.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

os.environ["TRACKIO_DIR"] = str(Path("trackio").absolute())

from trackio.sqlite_storage import SQLiteStorage

runs, points = map(int, sys.argv[1:])
chance = random.Random(11)
for number in range(runs):
    values = [{"metrics/loss": chance.random() / (1 + step)} for step in range(points)]
    SQLiteStorage.bulk_log("bench", f"run-{number:05}", values, list(range(points)), config={})
print(json.dumps({"runs": runs}))
