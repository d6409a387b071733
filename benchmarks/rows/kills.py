"""Points of calls that had returned, gone after SIGKILL: target 4."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from harness import HERE, Bench, Result, environment

METRICS = 10


def lost_at_sigkill(bench: Bench) -> Iterator[Result]:
    """Kill each contestant at random moments and count what is left."""
    kills = {"seamark": max(3, bench.count(30)), "csv": 3, "tensorboard": 3}
    chance = random.Random(7)
    readers: dict[str, Callable[[Path], int]] = {
        "seamark": points_of_journal,
        "csv": points_of_csv,
        "tensorboard": points_of_events,
    }
    table, lost_by_us = [], 0
    for name, count in kills.items():
        lost, logged = [], 0
        for _ in range(count):
            returned, kept = killed(name, 0.05 + chance.random(), readers[name])
            logged += returned
            lost.append(max(0, returned - kept))
        table.append([name, str(count), f"{logged:,}", f"{sum(lost):,}", f"{max(lost):,}"])
        if name == "seamark":
            lost_by_us = sum(lost)
    yield Result(
        "sigkill",
        "Points lost at SIGKILL, of calls that returned",
        "0, over 1,000 random kills",
        f"{lost_by_us} over {kills['seamark']} kills",
        lost_by_us == 0,
        ["contestant", "kills", "points whose call returned", "lost", "most lost in one kill"],
        table,
        "`nox -s kill` does 1,000 kills.",
        rounds=1,
    )


def killed(contestant: str, after_s: float, points: Callable[[Path], int]) -> tuple[int, int]:
    """Kill a contestant ``after_s`` seconds after its first call.

    Returns:
        How many points its calls had returned from, and how many can be read.
    """
    with tempfile.TemporaryDirectory(prefix="seamark-bench-") as name:
        folder = Path(name)
        command = [sys.executable, str(HERE / "children" / "log_until_killed.py"), contestant]
        process = subprocess.Popen(
            command, cwd=folder, env=environment(name), stderr=subprocess.DEVNULL
        )
        while returned_calls(folder) == 0:
            if process.poll() is not None:
                msg = f"{contestant} ended with {process.returncode} before its first call"
                raise RuntimeError(msg)
            time.sleep(0.01)
        time.sleep(after_s)
        process.kill()
        process.wait()
        return returned_calls(folder) * METRICS, points(folder)


def returned_calls(folder: Path) -> int:
    path = folder / "returned"
    data = path.read_bytes() if path.exists() else b""
    return int(struct.unpack("<q", data)[0]) if len(data) == 8 else 0


def points_of_journal(folder: Path) -> int:
    """Count points by reading the rows of the journal, nothing else."""
    from seamark.journal.folder import iter_runs
    from seamark.journal.format import Kind
    from seamark.journal.reader import JournalReader

    rows = 0
    for run in iter_runs(folder / ".seamark"):
        for journal in run.journals():
            with JournalReader(journal.path) as reader:
                rows += sum(frame.kind in (Kind.ROW, Kind.SPARSE) for frame in reader.frames())
    return rows * METRICS


def points_of_csv(folder: Path) -> int:
    lines = sum(len(path.read_text().splitlines()) - 1 for path in folder.rglob("metrics.csv"))
    return max(0, lines) * METRICS


def points_of_events(folder: Path) -> int:
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader

    points = 0
    for path in folder.glob("events.*"):
        points += sum(1 for _ in RawEventFileLoader(str(path)).Load()) - 1  # the file's version
    return points
