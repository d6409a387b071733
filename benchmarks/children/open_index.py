"""Open the root below the working directory for the first time, and print how long that takes."""

from __future__ import annotations

import json
import time
from pathlib import Path

from seamark.local.index import Index

begun, cpu_begun = time.perf_counter(), time.process_time()
told: list[tuple[int, int]] = []
index = Index.open(Path(".seamark"))
index.refresh(progress=lambda done, runs: told.append((done, runs)))
open_s, cpu_s = time.perf_counter() - begun, time.process_time() - cpu_begun
assert index.file is not None
assert told
sizes = [path.stat().st_size for path in Path(".seamark").rglob("journal/*")]
print(
    json.dumps(
        {
            "open_s": open_s,
            "cpu_s": cpu_s,
            "index_mb": index.file.stat().st_size / 1e6,
            "journals_mb": sum(sizes) / 1e6,
        }
    )
)
