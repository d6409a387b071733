"""Reading many runs: the first time, listed, as a table of some, as a table of everything."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from harness import Bench, Result, Sample, child, environment, middle, spread
from rows.series import MLFLOW, new_folder
from servers import postgresql
from timed_loop import cpu_s

RUNS = 10_000
ASKED = 5
"""Times a second apart in each process."""
SIZES = (1_000, 10_000, 100_000)
"""Runs of the projects of a team."""
TEAM_ASKED = 31
"""Times that each page of a team's table is asked for."""


def many_runs(bench: Bench) -> Iterator[Result]:
    """Open a root of 10,000 runs for the first time, and list it."""
    with new_folder() as folder:
        runs = bench.count(RUNS)
        child("writes.py", "runs", runs, folder=folder)
        first = child("reads.py", "root", folder=folder)
        listed = bench.interleaved({"ls": partial(_seamark_ls, folder)})["ls"]
    yield Result(
        "open-index",
        f"First open of {runs:,} runs with 100 attributes",
        "≤ 15 s",
        f"{first['open_s']:.1f} s",
        first["open_s"] <= 15,
        note=(
            f"CPU: {first['cpu_s']:.1f} s. Index: {first['index_mb']:.0f} MB; journals: "
            f"{first['journals_mb']:.0f} MB. A table of one run, with no index before: all runs "
            "are folded, with their points."
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


def _seamark_ls(folder: Path) -> Sample:
    begun, cpu_begun = time.perf_counter(), cpu_s()
    command = [sys.executable, "-m", "seamark", "ls"]
    subprocess.run(
        command, cwd=folder, env=environment(str(folder)), stdout=subprocess.DEVNULL, check=True
    )
    return {"wall_s": time.perf_counter() - begun, "cpu_s": cpu_s() - cpu_begun}


def runs_table(bench: Bench) -> Iterator[Result]:
    """Ask for the first 100 of 10,000 runs, filtered and sorted, a second apart."""
    with new_folder() as folder:
        runs = bench.count(RUNS)
        child("writes.py", "runs", runs, folder=folder)
        child("writes.py", "mlflow", runs, 88, 10, 3, folder=folder)
        child("reads.py", "root", folder=folder)
        ask = partial(child, "reads.py", "query", folder=folder)
        taken = bench.interleaved(
            {"seamark": partial(ask, "seamark", ASKED)},
            peers={"mlflow": partial(ask, "mlflow", ASKED)},
        )
        taken |= bench.interleaved({"written": partial(ask, "written", ASKED)})
    ours, theirs, new = taken["seamark"], taken["mlflow"], taken["written"]

    def milliseconds(own: list[Sample], name: str) -> list[str]:
        return [spread(own, f"{name}_ms", ".1f"), f"{middle(own, f'{name}_cpu_ms'):.1f}"]

    apart_ms, cpu_ms = middle(ours, "apart_ms"), middle(ours, "apart_cpu_ms")
    ratio, cpu_ratio = (
        middle(ours, f"apart_{unit}") / middle(ours, f"stat_{unit}") for unit in ("ms", "cpu_ms")
    )
    columns = ["asked", "ms [min..max]", "CPU ms"]
    asked = (
        f"`{ours[0]['query']}`, sorted by `{ours[0]['sort_by']}`, of {runs:,} runs. The whole "
        "`fetch_runs_table` call, which looks for new records first, a second after anything else. "
    )
    yield Result(
        "runs-table",
        "Runs table of those, filtered and sorted by a metric, first 100, a second apart",
        "≤ 60 ms; ≤ 2 x one `os.stat` of every journal folder",
        f"{apart_ms:.0f} ms, {ratio:.1f} x (CPU: {cpu_ms:.0f} ms, {cpu_ratio:.1f} x)",
        apart_ms <= 60 and ratio <= 2,
        columns,
        [
            ["**Seamark**, a second apart", *milliseconds(ours, "apart")],
            ["one `os.stat` of every journal folder, a second apart", *milliseconds(ours, "stat")],
            ["Seamark, in a loop", *milliseconds(ours, "loop")],
            ["Seamark, the first of a process", *milliseconds(ours, "opening")],
            [f"{MLFLOW}, `search_runs`, a second apart", *milliseconds(theirs, "apart")],
        ],
        f"{asked}{ours[0]['rows']} rows; nothing is new. `os.stat` is asked for strings, in the "
        "same process.",
        bench.rounds,
    )
    written_ms = middle(new, "apart_ms")
    yield Result(
        "runs-table-written",
        "The same, each time just after another process wrote to one of the runs",
        "≤ 60 ms; what was written is in the table",
        f"{written_ms:.0f} ms (CPU: {middle(new, 'apart_cpu_ms'):.0f} ms); it is",
        written_ms <= 60,
        columns,
        [["**Seamark**, a second apart", *milliseconds(new, "apart")]],
        f"{asked}Just before it, another process records a row that makes its run the first of the "
        "table; each table is checked for what that row says.",
        bench.rounds,
    )


def whole_table(bench: Bench) -> Iterator[Result]:
    """Bring 100 columns of 10,000 runs into one data frame."""
    with new_folder() as folder:
        runs = bench.count(RUNS)
        child("writes.py", "runs", runs, folder=folder)
        child("writes.py", "mlflow", runs, 88, 10, 3, folder=folder)
        child("reads.py", "root", folder=folder)
        read = partial(child, "reads.py", "frame_of_all", folder=folder)
        taken = bench.interleaved(
            {
                "**Seamark**": partial(read, "seamark", runs),
                "pandas, `read_csv` of the same table": partial(read, "pandas", runs),
            }
        )
        taken |= bench.interleaved(
            {f"{MLFLOW}, `search_runs`": partial(read, "mlflow", runs)},
        )
    ours = taken["**Seamark**"]
    first_s, grown_mb = middle(ours, "first_ms") / 1e3, middle(ours, "grown_mb")
    yield Result(
        "whole-table",
        f"The whole table of {runs:,} runs and {ours[0]['columns']} columns into pandas",
        "≤ 1.2 s; ≤ 250 MB",
        f"{first_s:.2f} s; {grown_mb:.0f} MB",
        first_s <= 1.2 and grown_mb <= 250,
        [
            "read by",
            "first of a process, ms [min..max]",
            "CPU ms",
            "a second apart, ms [min..max]",
            "CPU ms",
            "peak of the first call, MB more",
            "resident before, MB",
            "peak of the process, MB",
        ],
        [
            [
                who,
                spread(own, "first_ms", ".0f"),
                f"{middle(own, 'first_cpu_ms'):.0f}",
                spread(own, "apart_ms", ".0f"),
                f"{middle(own, 'apart_cpu_ms'):.0f}",
                *(f"{middle(own, f'{name}_mb'):.0f}" for name in ("grown", "before", "peak")),
            ]
            for who, own in taken.items()
        ],
        (
            "`fetch_runs_table().to_pandas()` in a process that has pandas loaded and has asked "
            "for one run before. Memory is `ru_maxrss` of the process after its first call, less "
            "what was resident just before."
        ),
        bench.rounds,
    )


def team_table(bench: Bench) -> Iterator[Result]:
    """Ask PostgreSQL for pages of projects of 1,000 to 100,000 runs."""
    rows, within = [], True
    with postgresql() as database, new_folder() as folder:
        for size in SIZES:
            runs = bench.count(size)
            places = [
                database(name)[0].replace("postgresql://", "postgresql+psycopg://")
                for name in ("ours", "theirs")
            ]
            taken = child("team_table.py", *places, runs, TEAM_ASKED, folder=folder)
            for asked, figures in taken.items():
                (ours, _), (theirs, _), (bare, _) = figures
                within &= ours <= 2 * bare and ours < theirs
                shown = [f"{median:.1f} ({late:.1f})" for median, late in figures]
                rows.append([f"{runs:,}", asked, *shown, f"{ours / bare:.1f} x"])
    slowest = max(float(row[-1].removesuffix(" x")) for row in rows)
    yield Result(
        "team-table",
        "Pages of 100 runs of a project on PostgreSQL, with 88 parameters and 10 metrics each",
        "≤ 2 x plain SQL; less than MLflow",
        f"at most {slowest:.1f} x plain SQL",
        within,
        ["runs", "page", "**Seamark**, ms", "MLflow, ms", "plain SQL, ms", "of plain SQL"],
        rows,
        f"Median (99th percentile) of {TEAM_ASKED} calls, in turn in one process: `query_runs` of "
        "Seamark's store without a total, `search_runs` of MLflow's client on its SQL store, and "
        "the shortest statements that find the same runs and read the same cells in Seamark's "
        "tables.",
    )
