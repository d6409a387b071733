"""Read the one long series below the working directory, from the journal and from chunks."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from seamark.local.index import Index

PATH = "train/loss"
root = Path(".seamark")


def seconds(work: Callable[[], object], times: int = 1) -> tuple[float, float]:
    """Return the medians of wall and CPU time."""
    wall, cpu = [], []
    for _ in range(times):
        begun, cpu_begun = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - cpu_begun)
    return statistics.median(wall), statistics.median(cpu)


def opened() -> Index:
    index = Index.open(root)
    index.refresh()
    return index


# An index that is held in memory has no chunks.
os.environ["SEAMARK_INDEX"] = "/dev/null/nowhere.db"
index = opened()
assert index.file is None
((project, run),) = index.runs()
journal = index.view(project, run)
count = len(journal.points(PATH).value)
journal_s = seconds(lambda: journal.points(PATH), 3)

os.environ["SEAMARK_INDEX"] = str(Path(f"index-{os.getpid()}.db").absolute())
index = opened()
chunked = index.view(project, run)
making_s = seconds(lambda: chunked.points(PATH))
assert len(chunked.points(PATH).value) == count
chunks_s = seconds(lambda: chunked.points(PATH), 9)
print(
    json.dumps(
        {
            "points": count,
            "journal_s": journal_s[0],
            "journal_cpu_s": journal_s[1],
            "making_s": making_s[0],
            "making_cpu_s": making_s[1],
            "chunks_ms": chunks_s[0] * 1e3,
            "chunks_cpu_ms": chunks_s[1] * 1e3,
        }
    )
)
