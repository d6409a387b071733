"""Claims: one of many workers takes a run of 10,000, from a folder and through a server."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from harness import Bench, Result, Sample, child, environment, middle, spread
from rows.series import new_folder
from rows.tables import RUNS
from servers import Served, seamark_server

TIMES = 10
"""Claims in each process."""
REQUESTS = 50


def claims(bench: Bench) -> Iterator[Result]:
    """Claim runs of 10,000, one after the other."""
    runs = bench.count(RUNS)
    with new_folder() as folder:
        child("write_runs.py", runs, folder=folder)
        child("open_index.py", folder=folder)
        with seamark_server(folder) as served:
            _send(served, folder, runs)
            taken = bench.interleaved(
                {
                    "folder": partial(child, "claim_runs.py", TIMES, folder=folder),
                    "request": partial(_requests, served, folder),
                }
            )
    here, request = taken["folder"], taken["request"]
    here_ms, there_ms = middle(here, "claim_cpu_ms"), middle(request, "server_ms")
    yield Result(
        "claims",
        f"A claim among {runs:,} runs",
        "≤ 100 ms on a folder; ≤ 20 ms on a server with SQLite",
        f"{here_ms:.0f} ms; {there_ms:.1f} ms (CPU)",
        here_ms <= 100 and there_ms <= 20,
        ["claimed from", "ms [min..max]", "CPU, ms"],
        [
            [
                "a folder, `project.claim`: the whole call",
                spread(here, "claim_ms", ".0f"),
                f"{here_ms:.0f}",
            ],
            [
                "one `os.stat` of every journal folder, which that contains",
                spread(here, "stat_ms", ".0f"),
                f"{middle(here, 'stat_cpu_ms'):.0f}",
            ],
            [
                "a server, its requests that claim a run and give it back",
                spread(request, "claim_ms", ".1f"),
                f"{there_ms:.1f}",
            ],
        ],
        "Each run is opened, begun, and stopped again before the next is claimed.",
        bench.rounds,
    )


def _send(served: Served, folder: Path, runs: int) -> None:
    """Send all runs and wait until so many can be read."""
    command = [sys.executable, "-m", "seamark", "sync", "--to", served.url]
    env = environment(str(folder)) | {"SEAMARK_API_TOKEN": served.token}
    subprocess.run(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, check=True)
    while sum(each["runs"] for each in served.ask("read/projects", {})["answer"]) < runs:
        time.sleep(0.2)


def _requests(served: Served, folder: Path) -> Sample:
    """Return what the request takes that claims the first free one of all runs."""
    refs = [["default", path.name] for path in folder.glob(".seamark/default/*") if path.is_dir()]
    facts = {"host": "bench", "pid": 1, "key": "0" * 16, "t": time.time_ns()}
    took: list[float] = []
    before_s = served.cpu_s()
    for _ in range(REQUESTS):
        begun = time.perf_counter()
        found = served.ask("runs/claims", {"refs": refs[:200], "claimant": facts})
        took.append((time.perf_counter() - begun) * 1e3)
        project, name = found["ref"]
        held = {"project": project, "name": name, "number": found["number"], "key": "0" * 16}
        assert served.ask("runs/claims/release", held)["held"]
    spent_ms = (served.cpu_s() - before_s) * 1e3 / REQUESTS
    return {"claim_ms": statistics.median(took), "server_ms": spent_ms}
