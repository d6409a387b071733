"""Ask for a table of the runs below the working directory: ``query_runs.py WHOSE TIMES``.

The first 100 rows, filtered and sorted by a metric, again and again, a second apart. ``seamark``
asks ``os.stat`` for every journal folder in between, also a second after anything else; ``written``
has another process write to one run before each call, and finds that in the table.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from timed_reads import Spent, settled, spent, writing

QUERY = "metrics/acc:last > 0.5 AND parameters/lr:float = 0.01"
SORT_BY = "metrics/loss:min"
COLUMNS = ["sys/id", "sys/name", "parameters/lr", "metrics/loss:min", "metrics/acc"]
LIMIT = 100
whose, times = sys.argv[1], int(sys.argv[2])


def seamark_table() -> Callable[[], list[dict[str, Any]]]:
    import seamark

    project = seamark.init_project(mode="read-only")
    return lambda: project.fetch_runs_table(
        query=QUERY, sort_by=SORT_BY, ascending=True, columns=COLUMNS, limit=LIMIT
    ).to_rows()


def nothing_new() -> dict[str, Any]:
    table = seamark_table()
    folders = [str(path) for path in Path.cwd().glob(".seamark/default/*/journal")]

    def ask_for_each() -> list[os.stat_result]:
        stat = os.stat
        return [stat(folder) for folder in folders]

    figures: dict[str, Any] = spent("opening", table)
    settled()
    table(), ask_for_each()
    loop = spent("loop", table, 10)
    tables, stats = Spent(), Spent()
    for _ in range(times):
        time.sleep(1)
        assert len(tables.call(table)) <= LIMIT
        time.sleep(1)
        stats.call(ask_for_each)
    return figures | loop | tables.figures("apart") | stats.figures("stat") | {"rows": len(table())}


def written() -> dict[str, Any]:
    table, taken = seamark_table(), Spent()
    table()
    settled()
    with writing("seamark", 100) as writer:
        for _ in range(times + 1):
            time.sleep(1)
            least = -time.time()  # less than in any process before
            writer.log({"metrics/acc": 0.75, "metrics/loss": least})
            rows = taken.call(table)
            assert rows[0]["sys/id"] == writer.run
            assert rows[0]["metrics/loss:min"] == least
    del taken.wall_ms[0], taken.cpu_ms[0]  # the run itself was new then
    return taken.figures("apart")


def mlflow_runs() -> dict[str, Any]:
    from mlflow_store import EXPERIMENT, client

    store = client()

    def search() -> list[Any]:
        found: list[Any] = store.search_runs(
            [EXPERIMENT],
            "metrics.acc > 0.5 AND params.lr = '0.01'",
            max_results=LIMIT,
            order_by=["metrics.loss ASC"],
        )
        return found

    figures: dict[str, Any] = spent("opening", search)
    figures |= spent("loop", search, 3)
    return figures | spent("apart", search, times, apart_s=1.0) | {"rows": len(search())}


figures = {"seamark": nothing_new, "written": written, "mlflow": mlflow_runs}[whose]()
print(json.dumps(figures | {"query": QUERY, "sort_by": SORT_BY}))
