"""Read a long series for the first time: ``first_read.py WHOSE RUN POINTS``.

What takes long to import and is not ours is imported before, and pandas has read a small file.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable

from timed_reads import empty_cache, spent

whose, run, points = sys.argv[1], sys.argv[2], int(sys.argv[3])
empty_cache()


def seamark_reads() -> Callable[[], int]:
    import numpy  # noqa: ICN001, F401
    import sqlalchemy.dialects.sqlite  # noqa: F401

    import seamark

    def read() -> int:
        opened = seamark.init_run(with_id=run, mode="read-only")
        return len(opened["train/loss"].fetch_points())

    return read


def pandas_reads() -> Callable[[], int]:
    import pandas as pd

    pd.read_csv(io.StringIO("step,value\n0,1.0\n"))
    return lambda: len(pd.read_csv("points.csv"))


def mlflow_reads() -> Callable[[], int]:
    from mlflow_store import client

    store = client()
    return lambda: len(store.get_metric_history(run, "loss"))


read = {"seamark": seamark_reads, "pandas": pandas_reads, "mlflow": mlflow_reads}[whose]()
print(json.dumps(spent("first", read, check=lambda found: found == points)))
