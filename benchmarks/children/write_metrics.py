"""Write runs of long series: ``write_metrics.py RUNS CALLS METRICS``; prints what they are called.

By ``log_metrics``, the same metrics in every call, without captures.
"""

from __future__ import annotations

import json
import sys

from log_calls import captures_of

import seamark

runs, calls, metrics = map(int, sys.argv[1:])
names = [f"train/metric_{number:03}" for number in range(metrics)]
made = []
for _ in range(runs):
    run = seamark.init_run(**captures_of(on=False))
    for step in range(calls):
        run.log_metrics(dict.fromkeys(names, step * 0.001), step)
    run.stop()
    made.append(f"default/{run.id}")
print(json.dumps({"runs": made}))
