"""Read one value again and again: ``one_value.py WHOSE RUN PATH``.

``seamark`` also asks ``os.stat`` for the journals of the run, by itself: the least that tells
whether there is news.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from timed_reads import settled, spent

LOOP, APART = 200, 4
whose, run, path = sys.argv[1:]


def is_value(found: Any) -> bool:
    return found is not None


def seamark_reads() -> Callable[[], Any]:
    import seamark

    opened = seamark.init_run(with_id=run, mode="read-only")
    if path.startswith("params/"):
        return lambda: opened[path].fetch()  # noqa: PLW0108 - with the look-up of the path
    return lambda: opened[path].fetch_last()  # noqa: PLW0108


def mlflow_reads() -> Callable[[], Any]:
    from mlflow_store import client

    store = client()
    if path.startswith("params/"):
        return lambda: store.get_run(run).data.params[path.removeprefix("params/")]
    return lambda: store.get_run(run).data.metrics[path]


def stat_asks() -> Callable[[], Any]:
    files = [str(file) for file in Path(".seamark").rglob(f"{run}/journal/*")]
    assert files
    return lambda: [os.stat(file) for file in files]  # noqa: PTH116


read = {"seamark": seamark_reads, "mlflow": mlflow_reads}[whose]()
read()  # folds, if nobody did before
settled()
read()
is_quick = spent("once", read, check=is_value)["once_ms"] < 20
figures = spent("loop", read, LOOP if is_quick else 10, check=is_value)
figures |= spent("apart", read, APART, apart_s=1.0, check=is_value)
if whose == "seamark":
    ask = stat_asks()
    figures |= spent("stat_loop", ask, LOOP) | spent("stat_apart", ask, 2, apart_s=1.0)
print(json.dumps(figures))
