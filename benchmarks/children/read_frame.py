"""Bring all ten series of all runs below the working directory into one data frame, twice."""

from __future__ import annotations

import json
import time

import pandas as pd

import seamark

pd.DataFrame({"warm": [1.0]}).sort_values("warm")
names = ["loss", "acc", "f1", "auc", "recall", "precision", "lr", "norm", "time", "memory"]
project = seamark.init_project(mode="read-only")
project.fetch_runs_table(limit=1).to_rows()  # opens the index, which is a row of its own
taken, cpu, rows = [], [], 0
for _ in range(2):
    begun, cpu_begun = time.perf_counter(), time.process_time()
    rows = len(project.fetch_series([f"metrics/{name}" for name in names]).to_pandas())
    taken.append(time.perf_counter() - begun)
    cpu.append(time.process_time() - cpu_begun)
print(json.dumps({"first_s": taken[0], "again_s": taken[1], "first_cpu_s": cpu[0], "rows": rows}))
