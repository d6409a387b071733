"""The package neptune and Seamark with the same server: one script that says either's name."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from harness import Bench, Result, Sample, child, environment, middle, spread
from rows.series import new_folder
from servers import Served, seamark_server

NEPTUNE_PYTHON = os.environ.get("NEPTUNE_PYTHON", "")
"""A Python that has the package neptune, pandas and NumPy; it needs no Seamark."""
APPENDS, RUNS = 10_000, 20
PROJECT = "bench/digits"
STEPS = {
    "first_ms": ("the import and the first `init_run()`, ms", ".0f"),
    "first_cpu_ms": ("the same, CPU of the process, ms", ".0f"),
    "open_ms": ("a later `init_run()`, ms", ".0f"),
    "append_us": (f"`append`, {APPENDS:,} in a loop, µs a call", ".1f"),
    "append_cpu_us": ("the same, CPU of the process, µs a call", ".1f"),
    "sent_s": ("`stop()`: until the server has all of them, s", ".2f"),
    "reopen_ms": ("the import and a run that is opened to read, ms", ".0f"),
    "reopen_cpu_ms": ("the same, CPU of the process, ms", ".0f"),
    "one_ms": ("`fetch()` of a value, ms", ".1f"),
    "last_ms": ("`fetch_last()` of a series, ms", ".1f"),
    "points_ms": (f"`fetch_values()`, {APPENDS:,} points, ms", ".0f"),
    "table_ms": (f"`fetch_runs_table(columns=...)`, {RUNS} runs, ms", ".0f"),
}


def same_script(bench: Bench) -> Iterator[Result]:
    """Write and read by one script, under both imports."""
    if not NEPTUNE_PYTHON:
        print("neptune-client: left out, NEPTUNE_PYTHON names no Python that has neptune")
        return
    appends = bench.count(APPENDS)

    def use(package: str) -> Sample:
        with new_folder() as folder, seamark_server(folder) as served:
            env = _settings(served, folder, package)
            python = NEPTUNE_PYTHON if package == "neptune" else sys.executable
            run = partial(child, "use_client.py", package, folder=folder, env=env, python=python)
            written = run("write", appends, RUNS)
            return written | run("read", appends, RUNS, written["run"])

    theirs, ours = bench.interleaved(
        {name: partial(use, name) for name in ("neptune", "seamark")}
    ).values()
    ratio = {name: middle(theirs, name) / middle(ours, name) for name in STEPS}
    yield Result(
        "neptune-client",
        "A script under `import neptune` and under `import seamark as neptune`, one server",
        "no step slower than with the package neptune",
        f"{min(ratio.values()):.1f} to {max(ratio.values()):.0f} times as fast",
        min(ratio.values()) >= 1,
        ["step", "neptune [min..max]", "**Seamark** [min..max]"],
        [
            [shown, spread(theirs, name, form), spread(ours, name, form)]
            for name, (shown, form) in STEPS.items()
        ],
        f"neptune {_version()}, asynchronous as by default, without captures. The server has "
        "SQLite and one worker, on the same machine. Reading is done by another process.",
        bench.rounds,
    )


def _settings(served: Served, folder: Path, package: str) -> dict[str, str]:
    """Return the variables that tell a package where the server is."""
    ours = {
        "SEAMARK_API_TOKEN": served.token,
        "SEAMARK_REMOTE": served.url,
        "SEAMARK_PROJECT": PROJECT,
    }
    if package == "seamark":
        return ours
    words = ["token", "create", "--neptune", "--project", PROJECT, "--server", served.url]
    told = subprocess.run(
        [sys.executable, "-m", "seamark", *words],
        env=environment(str(folder)) | ours,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return dict(line.split("=", 1) for line in told.splitlines())


def _version() -> str:
    code = "import importlib.metadata as of; print(of.version('neptune'))"
    return subprocess.run(
        [NEPTUNE_PYTHON, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
