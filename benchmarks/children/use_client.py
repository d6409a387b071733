"""Use a server as a script does: ``use_client.py neptune|seamark write APPENDS RUNS``.

``use_client.py neptune|seamark read APPENDS RUNS ID`` reads what was written. The same lines for
both packages, which take from their environment where the server is. All runs but the last one
have one value only; the id of the last one is told.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from timed_loop import cpu_s
from timed_reads import spent

package, what, *given = sys.argv[1:]
begun = time.perf_counter()
if package == "neptune":
    import neptune
else:
    import seamark as neptune
QUIET: dict[str, Any] = {
    "capture_hardware_metrics": False,
    "capture_stdout": False,
    "capture_stderr": False,
    "git_ref": False,
    "source_files": [],
}


def write(appends: int, runs: int) -> dict[str, Any]:
    first = neptune.init_run(**QUIET)
    first_s, first_cpu_s = time.perf_counter() - begun, cpu_s()
    first["lr"] = 0.0
    first.stop()
    for number in range(1, runs - 1):
        with neptune.init_run(**QUIET) as run:
            run["lr"] = number / 10
    opening = time.perf_counter()
    run = neptune.init_run(**QUIET)
    opened = time.perf_counter()
    run["parameters"] = {"lr": 0.1, "batch": 32, "net": {"name": "resnet", "depth": 18}}
    run["lr"] = runs / 10
    name = run["sys/id"].fetch()
    logging, cpu = time.perf_counter(), cpu_s()
    for step in range(appends):
        run["train/loss"].append(step * 0.5, step=step)
    logged, cpu_end = time.perf_counter(), cpu_s()
    run.stop()
    return {
        "run": name,
        "first_ms": first_s * 1e3,
        "first_cpu_ms": first_cpu_s * 1e3,
        "open_ms": (opened - opening) * 1e3,
        "append_us": (logged - logging) / appends * 1e6,
        "append_cpu_us": (cpu_end - cpu) / appends * 1e6,
        "sent_s": time.perf_counter() - logged,
    }


def read(appends: int, runs: int, name: str) -> dict[str, Any]:
    run = neptune.init_run(with_id=name, mode="read-only")
    opened, opened_cpu_s = time.perf_counter(), cpu_s()
    project = neptune.init_project(mode="read-only")

    def table() -> Any:
        return project.fetch_runs_table(columns=["lr", "train/loss"], **quiet).to_pandas()

    quiet = {"progress_bar": False}
    series = run["train/loss"]
    found = {
        "reopen_ms": (opened - begun) * 1e3,
        "reopen_cpu_ms": opened_cpu_s * 1e3,
        **spent("one", run["parameters/net/depth"].fetch, 10, check=lambda x: x == 18),
        **spent("last", series.fetch_last, 10, check=lambda x: x == (appends - 1) * 0.5),
        **spent(
            "points", lambda: series.fetch_values(**quiet), 3, check=lambda x: len(x) == appends
        ),
        **spent("table", table, 3, check=lambda x: len(x) == runs),
    }
    run.stop()
    project.stop()  # the client prints when it ends: before the figures, then
    return found


counts = map(int, given[:2])
print(json.dumps(write(*counts) if what == "write" else read(*counts, given[2])))
