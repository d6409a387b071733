"""Read the one long series below the working directory, from the journal and from chunks."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from seamark.store.index import Index

PATH = "train/loss"
root = Path(".seamark")


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


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
journal_s = statistics.median(seconds(lambda: journal.points(PATH)) for _ in range(3))

os.environ["SEAMARK_INDEX"] = str(Path(f"index-{os.getpid()}.db").absolute())
index = opened()
chunked = index.view(project, run)
making_s = seconds(lambda: chunked.points(PATH))
assert len(chunked.points(PATH).value) == count
chunks_s = statistics.median(seconds(lambda: chunked.points(PATH)) for _ in range(9))
print(
    json.dumps(
        {
            "points": count,
            "journal_s": journal_s,
            "making_s": making_s,
            "chunks_ms": chunks_s * 1e3,
        }
    )
)
