"""Reading: one long series, many runs, one large frame: targets 7 to 9."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from harness import Bench, Result, Sample, child, environment, middle, spread
from timed_loop import cpu_s


def one_long_series(bench: Bench) -> Iterator[Result]:
    """Read a million points of one series."""
    with tempfile.TemporaryDirectory(prefix="seamark-bench-") as name:
        folder = Path(name)
        points = bench.count(1_000_000)
        child("write_series.py", points, folder=folder)
        taken = bench.interleaved({"read": partial(child, "read_series.py", folder=folder)})["read"]

    def cpu(name: str) -> str:
        return f"{middle(taken, name):.2f}"

    chunks_ms, journal_s = middle(taken, "chunks_ms"), middle(taken, "journal_s")
    yield Result(
        "read-series",
        f"One series of {points:,} points into NumPy",
        "≤ 30 ms from chunks; ≤ 0.8 s straight from the journal, warm process",
        f"{chunks_ms:.1f} ms; {journal_s:.2f} s",
        chunks_ms <= 30 and journal_s <= 0.8,
        ["from", "time [min..max]", "CPU"],
        [
            ["chunks, ms", spread(taken, "chunks_ms", ".1f"), cpu("chunks_cpu_ms")],
            ["the journal (40 MB), s", spread(taken, "journal_s"), cpu("journal_cpu_s")],
            ["the journal, making chunks, s", spread(taken, "making_s"), cpu("making_cpu_s")],
        ],
        "One metric a call: 40 bytes a point. Files are in the page cache.",
        bench.rounds,
    )


def many_runs(bench: Bench) -> Iterator[Result]:
    """Open a root of 10,000 runs, list it, and query its table."""
    with tempfile.TemporaryDirectory(prefix="seamark-bench-") as name:
        folder, runs = Path(name), bench.count(10_000)
        child("write_runs.py", runs, folder=folder)
        first = child("open_index.py", folder=folder)
        listed = bench.interleaved({"ls": partial(_seamark_ls, folder)})["ls"]
        table = child("query_runs.py", folder=folder)
    yield Result(
        "open-index",
        f"First open of {runs:,} runs with 100 attributes",
        "≤ 15 s",
        f"{first['open_s']:.1f} s",
        first["open_s"] <= 15,
        note=(
            f"CPU: {first['cpu_s']:.1f} s. Index: {first['index_mb']:.0f} MB; journals: "
            f"{first['journals_mb']:.0f} MB."
        ),
    )
    yield Result(
        "ls",
        "The whole `seamark ls` process after that, nothing new to fold",
        "≤ 0.5 s",
        f"{middle(listed, 'wall_s'):.2f} s",
        middle(listed, "wall_s") <= 0.5,
        note=f"[min..max] {spread(listed, 'wall_s')}; CPU: {middle(listed, 'cpu_s'):.2f} s.",
        rounds=bench.rounds,
    )
    yield Result(
        "runs-table",
        "Runs table of those, filtered and sorted by a metric, first 100",
        "≤ 50 ms",
        f"{table['median_ms']:.0f} ms",
        table["median_ms"] <= 50,
        note=(
            f"`{table['query']}`, sorted by `{table['sort_by']}`; {table['rows']} rows. The whole "
            "`fetch_runs_table` call, which looks for new records first, in a process that made "
            f"one before (that took {table['first_ms']:.0f} ms). CPU: {table['cpu_ms']:.0f} ms."
        ),
        rounds=int(table["times"]),
    )


def _seamark_ls(folder: Path) -> Sample:
    begun, cpu_begun = time.perf_counter(), cpu_s()
    command = [sys.executable, "-m", "seamark", "ls"]
    subprocess.run(
        command, cwd=folder, env=environment(str(folder)), stdout=subprocess.DEVNULL, check=True
    )
    return {"wall_s": time.perf_counter() - begun, "cpu_s": cpu_s() - cpu_begun}


def one_frame(bench: Bench) -> Iterator[Result]:
    """Bring 50 runs of 10 series of 10,000 points into one data frame."""
    with tempfile.TemporaryDirectory(prefix="seamark-bench-") as name:
        folder = Path(name)
        child("write_runs.py", 50, bench.count(10_000), folder=folder)
        taken = child("read_frame.py", folder=folder)
    yield Result(
        "frame",
        f"50 runs of 10 series of {bench.count(10_000):,} points into one frame",
        "≤ 2 s",
        f"{taken['first_s']:.2f} s the first time, {taken['again_s']:.2f} s after that",
        taken["first_s"] <= 2,
        note=(
            f"{taken['rows']:,} rows through `fetch_series(...).to_pandas()` in a process that has "
            f"pandas loaded; the first time makes the chunks (CPU: {taken['first_cpu_s']:.2f} s)."
        ),
    )
