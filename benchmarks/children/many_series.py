"""Read one path of many small runs: ``many_series.py WHOSE RUNS POINTS``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from timed_reads import empty_cache, settled, spent

LOOP, APART = 5, 4
whose, runs, points = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
empty_cache()


def seamark_reads() -> Callable[[], int]:
    import numpy  # noqa: ICN001, F401
    import sqlalchemy.dialects.sqlite  # noqa: F401

    import seamark

    project = seamark.init_project(mode="read-only")
    return lambda: len(project.fetch_series("metrics/loss").to_numpy()["value"])


def mlflow_reads() -> Callable[[], int]:
    from mlflow_store import EXPERIMENT, client

    store = client()

    def read() -> int:
        names = [one.info.run_id for one in store.search_runs([EXPERIMENT], max_results=50_000)]
        return sum(len(store.get_metric_history(name, "loss")) for name in names)

    return read


def pandas_reads() -> Callable[[], int]:
    import pandas as pd

    folder = Path("csv")
    if not folder.exists():
        folder.mkdir()
        frame = pd.DataFrame({"step": range(points), "value": 0.123456789, "time_ns": 10**18})
        for number in range(runs):
            frame.to_csv(folder / f"{number}.csv", index=False)
    files = sorted(folder.iterdir())
    pd.read_csv(files[0])
    return lambda: len(pd.concat([pd.read_csv(file) for file in files]))


def whole(found: Any) -> bool:
    return found == runs * points


read = {"seamark": seamark_reads, "mlflow": mlflow_reads, "pandas": pandas_reads}[whose]()
figures = spent("first", read, check=whole)
settled()
read()
figures |= spent("loop", read, LOOP, check=whole)
figures |= spent("apart", read, APART, apart_s=1.0, check=whole)
print(json.dumps(figures))
