"""Claims: one of many workers takes a run of 10,000, from a folder and through a server."""

from __future__ import annotations

import json
import statistics
import time
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from harness import Bench, Result, Sample, child, middle, spread
from rows.series import new_folder
from rows.server import seamark, wait_for_all
from rows.tables import RUNS
from servers import Served, seamark_server

TIMES = 10
"""Claims in each process."""
REQUESTS = 50


def claims(bench: Bench) -> Iterator[Result]:
    """Claim runs of 10,000, one after the other."""
    runs = bench.count(RUNS)
    with new_folder() as folder:
        child("writes.py", "runs", runs, folder=folder)
        child("reads.py", "root", folder=folder)
        with seamark_server(folder) as served:
            seamark("sync", folder=folder, served=served)
            wait_for_all(served, runs)
            taken = bench.interleaved(
                {
                    "folder": partial(child, "claim_runs.py", "", "", TIMES, folder=folder),
                    "server": partial(_through, served, folder),
                    "request": partial(_requests, served, folder),
                }
            )
    here, there, request = taken["folder"], taken["server"], taken["request"]
    here_ms, there_ms = middle(here, "claim_cpu_ms"), middle(request, "server_ms")
    yield Result(
        "claims",
        f"A claim among {runs:,} runs",
        "≤ 100 ms on a folder; ≤ 20 ms on a server with SQLite",
        f"{here_ms:.0f} ms; {there_ms:.1f} ms (CPU)",
        here_ms <= 100 and there_ms <= 20,
        ["claimed from", "ms [min..max]", "CPU of the worker, ms", "CPU of the server, ms"],
        [
            [
                "a folder, `project.claim`: the whole call",
                spread(here, "claim_ms", ".0f"),
                f"{here_ms:.0f}",
                "",
            ],
            [
                "one `os.stat` of every journal folder, which that contains",
                spread(here, "stat_ms", ".0f"),
                f"{middle(here, 'stat_cpu_ms'):.0f}",
                "",
            ],
            [
                "a server, `project.claim`: the whole call, six requests",
                spread(there, "claim_ms", ".0f"),
                f"{middle(there, 'claim_cpu_ms'):.0f}",
                f"{middle(there, 'server_ms'):.0f}",
            ],
            [
                "a server, its requests that claim a run and give it back",
                spread(request, "claim_ms", ".1f"),
                "",
                f"{there_ms:.1f}",
            ],
        ],
        "Each run is opened, begun, and stopped again before the next is claimed. What the server "
        "takes for that and for folding it is in its CPU of the whole call.",
        bench.rounds,
    )


def _through(served: Served, folder: Path) -> Sample:
    before_s = served.cpu_s()
    found = child("claim_runs.py", served.url, served.token, TIMES, folder=folder)
    return found | {"server_ms": (served.cpu_s() - before_s) * 1e3 / (TIMES + 1)}


def _requests(served: Served, folder: Path) -> Sample:
    """Return what the request takes that claims the first free one of all runs."""
    refs = [["default", path.name] for path in folder.glob(".seamark/default/*") if path.is_dir()]
    facts = {"host": "bench", "pid": 1, "key": "0" * 16, "t": time.time_ns()}
    url = f"{served.url}/api/v1/runs/claims"

    def post(path: str, body: object) -> dict[str, object]:
        headers = {"X-Seamark-Token": served.token, "Content-Type": "application/json"}
        data = json.dumps(body).encode()
        request = urllib.request.Request(url + path, data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: dict[str, object] = json.loads(answer.read())
            return found

    took: list[float] = []
    before_s = served.cpu_s()
    for _ in range(REQUESTS):
        begun = time.perf_counter()
        found = post("", {"refs": refs[:200], "claimant": facts})
        took.append((time.perf_counter() - begun) * 1e3)
        ref = found["ref"]
        assert isinstance(ref, list)
        held = {"project": ref[0], "name": ref[1], "number": found["number"], "key": "0" * 16}
        assert post("/release", held)["held"]
    spent_ms = (served.cpu_s() - before_s) * 1e3 / REQUESTS
    return {"claim_ms": statistics.median(took), "server_ms": spent_ms}
