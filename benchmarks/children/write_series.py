"""Log one series of many points, one a call: ``write_series.py POINTS``."""

from __future__ import annotations

import sys

import seamark

run = seamark.init_run(custom_run_id="series", capture_packages=False)
for step in range(int(sys.argv[1])):
    run.log_metrics({"train/loss": 1 / (1 + step)}, step)
run.stop()
print("{}")
