"""Write one finished run of many attributes: ``write_wide.py series|attributes COUNT``."""

from __future__ import annotations

import json
import sys

import seamark

kind, count = sys.argv[1], int(sys.argv[2])
run = seamark.init_run(capture={"packages": False, "git": False})
if kind == "series":
    for step in range(20):
        run.log_metrics({f"series_{number}": number + step for number in range(count)}, step)
else:
    run.assign({"params": {f"number_{number}": number for number in range(count)}})
run.stop()
print(json.dumps({"run": run.id}))
