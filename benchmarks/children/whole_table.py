"""Bring every column of every run into one data frame: ``whole_table.py WHOSE RUNS``.

Memory is what the kernel says was resident at most (``ru_maxrss``) after the first call; what was
resident just before that call is told beside. A first, small call has opened whatever is opened.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from timed_reads import settled, spent

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
whose, runs = sys.argv[1], int(sys.argv[2])
pd.DataFrame({"warm": [1.0]}).sort_values("warm")


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES / 1e6


def seamark_reads() -> Callable[[], Any]:
    import seamark

    project = seamark.init_project(mode="read-only")
    project.fetch_runs_table(limit=1).to_pandas()
    return lambda: project.fetch_runs_table().to_pandas()


def mlflow_reads() -> Callable[[], Any]:
    import mlflow
    from mlflow_store import EXPERIMENT, URI, client

    client()
    mlflow.set_tracking_uri(URI)
    mlflow.search_runs([EXPERIMENT], max_results=1)
    return lambda: mlflow.search_runs([EXPERIMENT], max_results=50_000)


def pandas_reads() -> Callable[[], Any]:
    pd.read_csv("table.csv", nrows=1)
    return lambda: pd.read_csv("table.csv")


read = {"seamark": seamark_reads, "mlflow": mlflow_reads, "pandas": pandas_reads}[whose]()
settled()
kept: list[Any] = []
gc.collect()
before_mb, peak_before_mb = resident_mb(), peak_mb()
figures: dict[str, Any] = spent("first", read, check=lambda made: kept.append(made.shape) is None)
peak = peak_mb()
if whose == "seamark" and not Path("table.csv").exists():
    read().to_csv("table.csv", index=False)
figures |= spent("apart", read, 3, apart_s=1.0, check=lambda made: len(made) == runs)
assert kept[0][0] == runs
figures |= {"columns": kept[0][1], "before_mb": before_mb, "peak_before_mb": peak_before_mb}
print(json.dumps(figures | {"peak_mb": peak, "grown_mb": peak - before_mb}))
