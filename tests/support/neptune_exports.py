"""Writes what neptune-exporter writes: its schema, its names and its parts."""

from __future__ import annotations

import hashlib
from datetime import datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq

NUMBERS = pa.list_(pa.float64())
HISTOGRAM = pa.struct([("type", pa.string()), ("edges", NUMBERS), ("values", NUMBERS)])
SCHEMA = pa.schema(
    [
        ("project_id", pa.string()),
        ("run_id", pa.string()),
        ("attribute_path", pa.string()),
        ("attribute_type", pa.string()),
        ("step", pa.decimal128(18, 6)),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("int_value", pa.int64()),
        ("float_value", pa.float64()),
        ("string_value", pa.string()),
        ("bool_value", pa.bool_()),
        ("datetime_value", pa.timestamp("ms", tz="UTC")),
        ("string_set_value", pa.list_(pa.string())),
        ("file_value", pa.struct([("path", pa.string())])),
        ("histogram_value", HISTOGRAM),
    ]
)
"""As the exporter's source gives it, for runs of the clients 1.x and 3.x alike."""

CREATED = datetime(2026, 1, 2, 3, 4, 5, 678000, timezone.utc)
MODIFIED = datetime(2026, 1, 3, 0, 0, 0, 0, timezone.utc)


def part_name(text):
    clean = "".join(c if c.isalnum() or c in "_-" else "_" for c in text)
    return f"{clean}-{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"


def value(path, kind, given):
    column = {"string_set": "string_set_value"}.get(kind, f"{kind}_value")
    if kind in ("file", "file_set", "artifact"):
        column, given = "file_value", {"path": given}
    return {"attribute_path": path, "attribute_type": kind, column: given}


def point(path, step, given, at=CREATED):
    """Return a row with one point of a series."""
    kind, column = "float_series", "float_value"
    if isinstance(given, str):
        kind, column = "string_series", "string_value"
    elif isinstance(given, dict):
        kind = "file_series" if "path" in given else "histogram_series"
        column = "file_value" if "path" in given else "histogram_value"
    row = {"attribute_path": path, "attribute_type": kind, column: given}
    return {**row, "step": Decimal(str(step)), "timestamp": at}


def system(run, **more):
    """Return the rows below ``sys/`` of a run of client 1.x."""
    kinds = {bool: "bool", int: "int", float: "float", str: "string", datetime: "datetime"}
    facts = {"id": run, "owner": "alice", "creation_time": CREATED, "modification_time": MODIFIED}
    facts |= {"running_time": 60.5, "failed": False, "trashed": False, "name": "baseline", **more}
    rows = [value(f"sys/{name}", kinds[type(one)], one) for name, one in facts.items()]
    return [*rows, value("sys/tags", "string_set", ["b", "a"])]


def batch(project, run, rows):
    same = {"project_id": project, "run_id": run}
    return pa.RecordBatch.from_pylist([{**same, **row} for row in rows], schema=SCHEMA)


def write_run(exports, project, run, *parts, data="data"):
    """Write a run: a file for each part, a row group for each batch in it."""
    folder = exports / data / part_name(project)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, batches in enumerate(parts):
        paths.append(folder / f"{part_name(run)}_part_{number}.parquet")
        with pq.ParquetWriter(paths[-1], SCHEMA, compression="snappy") as writer:
            for rows in batches:
                writer.write_batch(batch(project, run, rows))
    return paths


def files_of(exports, project):
    """Return the folder to which the paths of files lead, made if it is not there."""
    folder = exports / "files" / part_name(project)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
