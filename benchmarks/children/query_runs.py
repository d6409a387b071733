"""Fetch a runs table, filtered and sorted by a metric, the first 100 rows, several times."""

from __future__ import annotations

import json
import statistics
import time

import seamark

QUERY = "metrics/acc:last > 0.5 AND parameters/lr:float = 0.01"
SORT_BY = "metrics/loss:min"
COLUMNS = ["sys/id", "sys/name", "parameters/lr", "metrics/loss:min", "metrics/acc"]
TIMES = 11

project = seamark.init_project(mode="read-only")
taken, cpu, rows = [], [], 0
for _ in range(TIMES):
    begun, cpu_begun = time.perf_counter(), time.process_time()
    table = project.fetch_runs_table(
        query=QUERY, sort_by=SORT_BY, ascending=True, columns=COLUMNS, limit=100
    )
    rows = len(table.to_rows())
    taken.append((time.perf_counter() - begun) * 1e3)
    cpu.append((time.process_time() - cpu_begun) * 1e3)
print(
    json.dumps(
        {
            "first_ms": taken[0],
            "median_ms": statistics.median(taken[1:]),
            "cpu_ms": statistics.median(cpu[1:]),
            "rows": rows,
            "times": TIMES,
            "query": QUERY,
            "sort_by": SORT_BY,
        }
    )
)
