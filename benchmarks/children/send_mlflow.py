"""Send points to MLflow's server: ``send_mlflow.py URL RUNS CALLS METRICS``.

Each run by a thread of its own, through ``MlflowClient.log_batch`` with a thousand metrics, the
most that it takes at once.
"""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
from mlflow import MlflowClient
from mlflow.entities import Metric

MOST = 1000
url, runs, calls, metrics = sys.argv[1], *map(int, sys.argv[2:])
client = MlflowClient(url)
experiment = client.create_experiment("bench")
names = [f"train/metric_{number:03}" for number in range(metrics)]


def send(run: str) -> None:
    batch: list[Metric] = []
    for step in range(calls):
        now_ms = time.time_ns() // 1_000_000
        batch += [Metric(name, step * 0.001, now_ms, step) for name in names]
        if len(batch) + metrics > MOST or step == calls - 1:
            client.log_batch(run, batch)
            batch = []


made = [client.create_run(experiment).info.run_id for _ in range(runs)]
begun = time.perf_counter()
with ThreadPoolExecutor(min(4, runs)) as pool:
    list(pool.map(send, made))
print(json.dumps({"wall_s": time.perf_counter() - begun}))
