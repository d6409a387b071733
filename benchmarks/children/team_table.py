"""Ask PostgreSQL for pages of a project: ``team_table.py SEAMARK_URL MLFLOW_URL RUNS TIMES``.

Both stores hold the same number of runs with 88 parameters and 10 metrics, put into their tables
by SQL: run by run, as a server does, and then vacuumed and analysed, as autovacuum does. Each page
of 100 runs is asked for in turn by Seamark, by MLflow and by SQL without either, which reads the
same cells of Seamark's tables.
"""

from __future__ import annotations

import json
import logging
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
import sqlalchemy as sa
from mlflow import MlflowClient
from mlflow.utils.search_utils import SearchUtils

from seamark.server.databases import open_databases
from seamark.store.query.selection import Selection
from seamark.store.read.tables import query_runs

PROJECT, EXPERIMENT, LIMIT = "team/big", "1", 100
OURS, THEIRS, RUNS, TIMES = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
FAR = min(4900, RUNS // 5)
"""Runs before the page that is far from the first one."""
COLUMNS = ["params/f1", "params/f3", "params/t1", "metrics/m1", "metrics/m2", "sys/state"]
WORD = "word-77-of-some-length"
SEAMARK = """
INSERT INTO path SELECT i, CASE WHEN i <= 40 THEN 'params/f' || i
  WHEN i <= 70 THEN 'params/n' || (i - 40) WHEN i <= 88 THEN 'params/t' || (i - 70)
  ELSE 'metrics/m' || (i - 88) END FROM generate_series(1, 98) i;
INSERT INTO run (id, project, name, kind, state, owner, created, modified, started, ended, running,
  beat, trashed, registers, version)
  SELECT i, 'team/big', 'r' || lpad(to_hex(i), 15, '0'), 'run', 'completed', 'bench',
  at + i * 1000000000::bigint, at, at, at, 1000, at, 0, '{}', 1
  FROM generate_series(1, RUNS) i, (VALUES (1700000000000000000)) AS known (at);
INSERT INTO attribute (run, path, family, visible, type, class, number, whole, text, t, writer,
  place) SELECT r, p, CASE WHEN p <= 88 THEN 0 ELSE 1 END, 1,
  CASE WHEN p <= 40 THEN 'float' WHEN p <= 70 THEN 'int' WHEN p <= 88 THEN 'string'
    ELSE 'float_series' END,
  CASE WHEN p <= 70 OR p > 88 THEN 0 END,
  CASE WHEN p <= 40 OR p > 88 THEN random() WHEN p <= 70 THEN (r * p) % 1000 END,
  CASE WHEN p BETWEEN 41 AND 70 THEN (r * p) % 1000 END,
  CASE WHEN p BETWEEN 71 AND 88 THEN 'word-' || ((r * p) % 500) || '-of-some-length' END, r, 0, p
  FROM generate_series(1, RUNS) r, generate_series(1, 98 + 0 * r) p;
INSERT INTO series SELECT r, p, 1, 0, 1, 0.5, 1000, 0, 999
  FROM generate_series(1, RUNS) r, generate_series(89, 98 + 0 * r) p;
"""
MLFLOW = """
INSERT INTO runs (run_uuid, name, source_type, user_id, status, start_time, end_time,
  lifecycle_stage, artifact_uri, experiment_id) SELECT lpad(to_hex(i), 32, '0'), 'run ' || i,
  'LOCAL', 'bench', 'FINISHED', 1700000000000 + i * 1000::bigint, 1700000000000 + i * 1000::bigint,
  'active', '.', 1 FROM generate_series(1, RUNS) i;
INSERT INTO tags (key, value, run_uuid) SELECT 'mlflow.runName', 'run ' || i,
  lpad(to_hex(i), 32, '0') FROM generate_series(1, RUNS) i;
INSERT INTO params (key, value, run_uuid) SELECT
  CASE WHEN p <= 40 THEN 'f' || p WHEN p <= 70 THEN 'n' || (p - 40) ELSE 't' || (p - 70) END,
  CASE WHEN p <= 40 THEN random()::text WHEN p <= 70 THEN ((r * p) % 1000)::text
    ELSE 'word-' || ((r * p) % 500) || '-of-some-length' END, lpad(to_hex(r), 32, '0')
  FROM generate_series(1, RUNS) r, generate_series(1, 88 + 0 * r) p;
INSERT INTO latest_metrics (key, value, timestamp, step, is_nan, run_uuid) SELECT 'm' || m,
  random(), 1700000000000, 999, false, lpad(to_hex(r), 32, '0')
  FROM generate_series(1, RUNS) r, generate_series(1, 10 + 0 * r) m;
"""
BARE = {
    "number": "JOIN attribute a ON a.run = run.id AND a.path = 89 AND a.visible = 1 JOIN attribute "
    "b ON b.run = run.id AND b.path = 90 AND b.visible = 1 WHERE b.number > 0.5 AND "
    "project = 'team/big' AND trashed = 0 ORDER BY a.number LIMIT 100",
    "text": "JOIN attribute b ON b.run = run.id AND b.path = 73 AND b.visible = 1 WHERE b.text = "
    f"'{WORD}' AND project = 'team/big' AND trashed = 0 ORDER BY created DESC LIMIT 100",
    "newest": "WHERE project = 'team/big' AND trashed = 0 ORDER BY created DESC LIMIT 100",
}
BY_NUMBER: dict[str, Any] = {"query": "metrics/m2 > 0.5", "sort_by": "metrics/m1"}
ASKED: dict[str, tuple[dict[str, Any], tuple[str, list[str], int], str]] = {
    "filtered and sorted by metrics": (
        {**BY_NUMBER, "ascending": True},
        ("metrics.m2 > 0.5", ["metrics.m1 ASC"], 0),
        BARE["number"],
    ),
    "a page far down in that": (
        {**BY_NUMBER, "ascending": True, "offset": FAR},
        ("metrics.m2 > 0.5", ["metrics.m1 ASC"], FAR),
        f"{BARE['number']} OFFSET {FAR}",
    ),
    "with an equal text": (
        {"query": f'params/t3 = "{WORD}"'},
        (f"params.t3 = '{WORD}'", ["attributes.start_time DESC"], 0),
        BARE["text"],
    ),
    "the newest": ({}, ("", ["attributes.start_time DESC"], 0), BARE["newest"]),
}


def fill(engine: sa.Engine, statements: str) -> None:
    with engine.begin() as connection:
        for one in filter(str.strip, statements.replace("RUNS", str(RUNS)).split(";\n")):
            connection.exec_driver_sql(one.replace("%", "%%"))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE")


def main() -> None:
    """Fill both stores, ask, and print median and 99th percentile of each, in milliseconds."""
    filling = open_databases(OURS, statement_s=0)
    fill(filling.store().database.engine, SEAMARK)
    filling.close()
    store, now = open_databases(OURS).store(), time.time_ns()
    database = store.database
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    client = MlflowClient(THEIRS)
    assert client.create_experiment("bench") == EXPERIMENT
    fill(sa.create_engine(THEIRS), MLFLOW)

    def seamark(given: dict[str, Any]) -> int:
        selection = Selection(project=PROJECT, limit=LIMIT, **given)
        with database.reading() as connection:
            return len(query_runs(store, connection, selection, COLUMNS, now, counted=False))

    def mlflow(query: str, order_by: list[str], offset: int) -> int:
        token = SearchUtils.create_page_token(offset) if offset else None
        return len(client.search_runs([EXPERIMENT], query, 1, LIMIT, order_by, token))

    def bare(statement: str) -> int:
        with database.reading() as connection:
            rows = connection.exec_driver_sql(f"SELECT run.id FROM run {statement}").all()
            ids = ",".join(str(row[0]) for row in rows) or "0"
            connection.exec_driver_sql(
                "SELECT run, path, type, class, number, whole, text FROM attribute WHERE run IN "
                f"({ids}) AND path IN (1, 3, 71, 89, 90) AND visible = 1"
            ).all()
            return len(rows)

    told = {}
    for name, (given, searched, statement) in ASKED.items():
        ways = partial(seamark, given), partial(mlflow, *searched), partial(bare, statement)
        told[name] = interleaved(*ways)
    print(json.dumps(told))


def interleaved(*asked: Callable[[], int]) -> list[list[float]]:
    taken: list[list[float]] = [[] for _ in asked]
    for _ in range(TIMES):
        found = []
        for own, ask in zip(taken, asked, strict=True):
            begun = time.perf_counter()
            found.append(ask())
            own.append((time.perf_counter() - begun) * 1e3)
        assert found[0] == found[2] > 0
        assert found[1] > 0
    return [[statistics.median(one), sorted(one)[int(0.99 * len(one))]] for one in taken]


main()
