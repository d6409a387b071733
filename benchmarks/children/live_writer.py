"""Hold a run open and record what is told: ``live_writer.py WHOSE ATTRIBUTES``.

It is told a mapping of metrics a line. Prints the id of the run, and a line after each call that
returned.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping

Log = Callable[[Mapping[str, float], int], object]


def with_seamark(attributes: int) -> tuple[str, Log]:
    import seamark

    run = seamark.init_run(capture={"packages": False, "git": False})
    given = {f"number_{number}": number for number in range(attributes - 1)}
    run.assign({"parameters": {"lr": 0.01, **given}})
    return run.id, run.log_metrics


def with_mlflow(attributes: int) -> tuple[str, Log]:
    from mlflow_store import client, fill

    run = fill(1, attributes, 0, 0)
    store = client()

    def log(metrics: Mapping[str, float], step: int) -> None:
        for name, value in metrics.items():
            store.log_metric(run, name, value, step=step)

    return run, log


run, log = {"seamark": with_seamark, "mlflow": with_mlflow}[sys.argv[1]](int(sys.argv[2]))
print(run, flush=True)
for step, line in enumerate(sys.stdin):
    log(json.loads(line), step)
    print("recorded", flush=True)
