"""Read a long series that is folded: ``read_series.py RUN POINTS``.

By the first call of a process, by later ones, and from an index that is held in memory.
"""

from __future__ import annotations

import json
import os
import sys

import numpy  # noqa: ICN001, F401
import sqlalchemy.dialects.sqlite  # noqa: F401
from timed_reads import settled, spent

import seamark

run, points = sys.argv[1], int(sys.argv[2])


def whole(found: object) -> bool:
    return found == points


def fresh() -> int:
    return len(seamark.init_run(with_id=run, mode="read-only")["train/loss"].fetch_points())


def again() -> int:
    return len(series.fetch_points())


assert whole(fresh())  # folds, if nobody did before
settled()
figures = spent("opening", fresh, check=whole)
series = seamark.init_run(with_id=run, mode="read-only")["train/loss"]
again()
figures |= spent("warm", again, 9, check=whole)
figures |= spent("apart", again, 3, apart_s=1.0, check=whole)
os.environ["SEAMARK_INDEX"] = "/dev/null/nowhere.db"
figures |= spent("memory", fresh, check=whole)
print(json.dumps(figures))
