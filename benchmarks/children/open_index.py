"""Open the root below the working directory for the first time, and print how long that takes."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import seamark

begun, cpu_begun = time.perf_counter(), time.process_time()
told: list[tuple[int, int]] = []
project = seamark.init_project(mode="read-only")
project.fetch_runs_table(limit=1, progress_bar=lambda done, runs: told.append((done, runs)))
open_s, cpu_s = time.perf_counter() - begun, time.process_time() - cpu_begun
assert told
project.stop()
cache = Path(os.environ["XDG_CACHE_HOME"], "seamark")
index = [path.stat().st_size for path in cache.glob("*.db*")]
journals = [path.stat().st_size for path in Path(".seamark").rglob("journal/*")]
assert index
print(
    json.dumps(
        {
            "open_s": open_s,
            "cpu_s": cpu_s,
            "index_mb": sum(index) / 1e6,
            "journals_mb": sum(journals) / 1e6,
        }
    )
)
