"""Bring all ten series of all runs below the working directory into one data frame."""

from __future__ import annotations

import json

import pandas as pd
from timed_reads import empty_cache, settled, spent

import seamark

empty_cache()
pd.DataFrame({"warm": [1.0]}).sort_values("warm")
names = ["loss", "acc", "f1", "auc", "recall", "precision", "lr", "norm", "time", "memory"]
paths = [f"metrics/{name}" for name in names]


def read() -> pd.DataFrame:
    return project.fetch_series(paths).to_pandas()


def rows(found: pd.DataFrame) -> int:
    figures["rows"] = len(found)
    return len(found)


figures: dict[str, float] = {}
project = seamark.init_project(mode="read-only")
figures |= spent("first", read, check=rows)
settled()
read()
figures |= spent("apart", read, 3, apart_s=1.0, check=rows)
print(json.dumps(figures))
