"""Claim runs one after the other: ``claim_runs.py URL TOKEN TIMES``; an empty URL: the folder.

What is measured is the whole call: asking for what matches, claiming it, asking again, and opening
the run. Beside it stands one ``os.stat`` of every journal folder, which no reader of a folder can
leave out. The first claim of a process, which opens the index, is left out.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from log_calls import captures_of
from timed_reads import Spent, settled

import seamark

QUERY = "metrics/acc:last > 0.5 AND parameters/lr:float = 0.01 AND NOT done = 1"
QUIET: Any = captures_of(on=False)
url, token, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.environ["SEAMARK_API_TOKEN"] = token
where: dict[str, Any] = {"remote": url, "root": Path("worker")} if url else {}
folders = [str(path) for path in Path.cwd().glob(".seamark/default/*/journal")]
claims, stats = Spent(), Spent()


def stat_each() -> list[os.stat_result]:
    """Ask for every journal folder, by strings."""
    stat = os.stat
    return [stat(folder) for folder in folders]


with seamark.init_project(**where) as project:
    settled()
    for _ in range(times + 1):
        run = claims.call(lambda: project.claim(QUERY, set={"done": 1}, **QUIET))
        run.stop()
        stats.call(stat_each)
        time.sleep(0.5)
for spent in (claims, stats):
    del spent.wall_ms[0], spent.cpu_ms[0]
print(json.dumps(claims.figures("claim") | stats.figures("stat")))
