"""Send points to MLflow's server: ``send_mlflow.py URL CALLS METRICS RUN ...``.

``send_mlflow.py URL RUNS`` makes the runs before that.

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
client = MlflowClient(sys.argv[1])
if len(sys.argv) == 3:
    experiment = client.create_experiment("bench")
    made = [client.create_run(experiment).info.run_id for _ in range(int(sys.argv[2]))]
    client.log_batch(made[0], [Metric("first", 0.0, 0, 0)])
    print(json.dumps({"runs": made}))
    sys.exit()
calls, metrics, runs = *map(int, sys.argv[2:4]), sys.argv[4:]
names = [f"train/metric_{number:03}" for number in range(metrics)]


def send(run: str) -> None:
    batch: list[Metric] = []
    for step in range(calls):
        now_ms = time.time_ns() // 1_000_000
        batch += [Metric(name, step * 0.001, now_ms, step) for name in names]
        if len(batch) + metrics > MOST or step == calls - 1:
            client.log_batch(run, batch)
            batch = []


begun = time.perf_counter()
with ThreadPoolExecutor(4) as pool:
    list(pool.map(send, runs))
print(json.dumps({"wall_s": time.perf_counter() - begun}))
