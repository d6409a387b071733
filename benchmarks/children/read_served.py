"""Read from a folder or a server: ``read_served.py WHAT URL TOKEN RUN``; an empty URL: the folder.

``table`` is the first 100 runs by a metric, ``curve`` a series for drawing, a thousand points.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from timed_reads import settled, spent

import seamark

COLUMNS = ["sys/id", "sys/name", "parameters/lr", "metrics/loss:min", "metrics/acc"]
LOOP, APART = 10, 3
what, url, token, run = sys.argv[1:]
os.environ["SEAMARK_API_TOKEN"] = token
remote = url or None


def table() -> Callable[[], Any]:
    project = seamark.init_project(mode="read-only", remote=remote)
    return lambda: project.fetch_runs_table(
        sort_by="metrics/loss:min", ascending=True, columns=COLUMNS, limit=100
    ).to_rows()


def curve() -> Callable[[], Any]:
    series = seamark.init_run(with_id=run, mode="read-only", remote=remote)["train/loss"]
    return lambda: series.fetch_points(points=1000).value


def one() -> Callable[[], Any]:
    opened = seamark.init_run(with_id=run, mode="read-only", remote=remote)
    return lambda: [opened["metrics/loss"].fetch_last()]


read = {"table": table, "curve": curve, "one": one}[what]()
figures: dict[str, Any] = spent("first", read, check=len)
settled()
figures |= spent("loop", read, LOOP, check=len)
figures |= spent("apart", read, APART, apart_s=1.0, check=len)
print(json.dumps(figures | {"rows": len(read())}))
