"""MLflow beside us: its store on SQLite, ``mlflow.db`` in the working directory.

Runs are put into its tables as its own ``log_batch`` leaves them, by SQL, because a million calls
take longer than everything else here. They are read through its public client.
"""

from __future__ import annotations

import logging
import os
import random
import sqlite3
import uuid
from contextlib import closing
from typing import TYPE_CHECKING

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = ["URI", "client", "fill"]

URI = "sqlite:///mlflow.db"
EXPERIMENT = "1"
METRICS = ["loss", "acc", "f1", "auc", "recall", "precision", "norm", "time", "memory"]


def client() -> MlflowClient:
    """Return its client, with the store open."""
    from mlflow import MlflowClient

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    made = MlflowClient(URI)
    made.search_experiments()
    return made


def fill(runs: int, params: int, series: int, points: int) -> str:
    """Make finished runs, and return the id of the last one."""
    made = client()
    assert made.create_experiment("bench") == EXPERIMENT
    chance, run = random.Random(11), ""
    names = METRICS[:series] + [f"metric_{number}" for number in range(len(METRICS), series)]
    with closing(sqlite3.connect("mlflow.db")) as connection, connection:
        for number in range(runs):
            run, at = uuid.uuid4().hex, 1_700_000_000_000 + number * 10_000
            connection.execute(
                "INSERT INTO runs (run_uuid, name, source_type, user_id, status, start_time, "
                "end_time, lifecycle_stage, artifact_uri, experiment_id) "
                "VALUES (?, ?, 'LOCAL', 'bench', 'FINISHED', ?, ?, 'active', '.', ?)",
                (run, f"run {number}", at, at + 1, int(EXPERIMENT)),
            )
            connection.execute(
                "INSERT INTO tags VALUES ('mlflow.runName', ?, ?)", (f"run {number}", run)
            )
            given = {f"param_{place}": str(chance.random()) for place in range(params - 1)}
            if params:
                given["lr"] = str(chance.choice([0.1, 0.01, 0.001]))
            connection.executemany(
                "INSERT INTO params VALUES (?, ?, ?)",
                [(key, value, run) for key, value in given.items()],
            )
            for name in names:
                values = [chance.random() for _ in range(points)]
                connection.executemany(
                    "INSERT INTO metrics VALUES (?, ?, ?, ?, ?, 0)",
                    ((name, value, at + step, run, step) for step, value in enumerate(values)),
                )
                connection.execute(
                    "INSERT INTO latest_metrics VALUES (?, ?, ?, ?, 0, ?)",
                    (name, values[-1], at + points, points - 1, run),
                )
    return run
