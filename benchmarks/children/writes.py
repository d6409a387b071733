"""Write what is read later: ``writes.py WHAT ...``, where WHAT is a function of `WRITES`.

The frames of many or of very long runs are made here and not by a writer, which would force every
journal to disk: what is measured later is reading.
"""

from __future__ import annotations

import csv
import itertools
import json
import random
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Made = dict[str, Any]
QUIET: Any = {"capture": {"packages": False, "git": False}}
SPIKE = 1e6
NAMES = ["loss", "acc", "f1", "auc", "recall", "precision", "lr", "norm", "time", "memory"]


class Journal:
    """A finished run of one journal, of frames that are put into it."""

    def __init__(self, uid: bytes, times: Iterator[int]) -> None:
        from seamark.journal.folder import RunFolder, journal_name, mint_run_id, writer_id
        from seamark.journal.format import file_header, salt_of

        folder, writer = RunFolder(Path(".seamark"), "default", mint_run_id()), writer_id(uid)
        folder.journal_dir.mkdir(parents=True)
        self.run, self._salt, self._times = folder.run, salt_of(uid), times
        self._file = (folder.journal_dir / journal_name(writer, uid)).open("wb")
        self._file.write(file_header(uid))
        header = {"format": 1, "seamark": "0", "run": folder.run, "project": folder.project}
        header |= {"writer": writer, "attempt": 0, "owner": True, "host": "bench", "boot": None}
        self.put("HEADER", header | {"pid": 1, "start": None})
        self.put("OP", {"op": "state", "state": "running"})

    def put(self, kind: str, payload: Any, aux: int = 0) -> None:
        from seamark.journal.format import Kind, dump_json, frame_bytes

        data = payload if isinstance(payload, bytes) else dump_json(payload)
        self._file.write(frame_bytes(self._salt, Kind[kind], next(self._times), data, aux=aux))

    def close(self) -> None:
        self.put("OP", {"op": "state", "state": "completed"})
        self.put("CLOSE", {"reason": "stop", "dropped": {}})
        self._file.close()


def runs(count: int, points: int = 3) -> Made:
    """Write finished runs of 100 attributes.

    88 parameters, a name, tags, and 10 series.
    """
    chance, begun_ns = random.Random(11), time.time_ns() - 10**15
    paths = [f"metrics/{name}" for name in NAMES]

    def parameters() -> dict[str, list[object]]:
        found: dict[str, list[object]] = {
            "parameters/lr": ["float", chance.choice([0.1, 0.01, 0.001])]
        }
        for number in range(29):
            found[f"parameters/model/width_{number}"] = ["int", chance.randrange(1024)]
            found[f"parameters/data/name_{number}"] = ["string", f"set-{chance.randrange(100)}"]
            found[f"parameters/optimizer/factor_{number}"] = ["float", chance.random()]
        return found

    pack = struct.Struct(f"<d{len(paths)}d").pack
    for number in range(count):
        first_ns = begun_ns + number * 10**10
        journal = Journal(chance.randbytes(16), itertools.count(first_ns, 1_000_000))
        atoms = {"sys/name": ["string", f"run {number}"]} | parameters()
        journal.put("OP", {"op": "assign", "atoms": atoms})
        journal.put("OP", {"op": "add", "path": "sys/tags", "values": [f"group-{number % 20}"]})
        for place, path in enumerate(paths):
            journal.put("PATH", struct.pack("<I", place) + path.encode())
        journal.put("SCHEMA", struct.pack(f"<I{len(paths)}I", 1, *range(len(paths))))
        for step in range(points):
            journal.put("ROW", pack(step, *[chance.random() for _ in paths]), aux=1)
        journal.close()
    return {}


def long(points: int) -> Made:
    """Write one finished run of a very long series, half a million points a frame.

    One value among them is a spike.
    """
    import numpy as np

    part, chance, spike_at = 500_000, np.random.default_rng(11), points * 7 // 9
    journal = Journal(bytes(range(16)), itertools.count(time.time_ns() - 10**12, 1_000_000))
    journal.put("PATH", struct.pack("<I", 0) + b"train/loss")
    for start in range(0, points, part):
        step = np.arange(start, min(start + part, points), dtype="<f8")
        value = 1 / (1 + step / points) + chance.normal(0, 0.01, len(step))
        if start <= spike_at < start + len(step):
            value[spike_at - start] = SPIKE
        head = struct.pack("<II", 0, len(step))
        journal.put("COLUMN", head + step.tobytes() + value.astype("<f8").tobytes())
    journal.close()
    return {"run": journal.run, "spike_step": spike_at, "spike": SPIKE}


def series(rows: int, kind: str = "one", also: str = "") -> Made:
    """Log a long series, one row a call.

    ``one`` (metric a row, at steps 0, 1, 2, ...), ``apart`` (the same at steps 0, 50, 100, ...) or
    ``sets`` (1, 3 and 10 metrics in turn). One value among them is a spike. Also ``csv``: its
    points are written to ``points.csv``, too.
    """
    import seamark

    between = 50 if kind == "apart" else 1
    names = ["train/loss", *(f"train/extra_{number}" for number in range(9))]
    sets = [names[:size] for size in ((1, 3, 10) if kind == "sets" else (1,))]
    run, spike_at = seamark.init_run(**QUIET), rows * 7 // 9
    for row in range(rows):
        value = SPIKE if row == spike_at else 1 / (1 + row)
        run.log_metrics(dict.fromkeys(sets[row % len(sets)], value), row * between)
    run.stop()
    if also == "csv":
        points = run["train/loss"].fetch_points()
        columns = [points.step.tolist(), points.value.tolist(), points.time_ns.tolist()]
        with Path("points.csv").open("w") as file:
            writer = csv.writer(file)
            writer.writerow(["step", "value", "time_ns"])
            writer.writerows(zip(*columns, strict=True))
    return {"run": run.id, "spike_step": spike_at * between, "spike": SPIKE}


def wide(kind: str, count: int) -> Made:
    """Write one finished run of many ``series`` or ``attributes``."""
    import seamark

    run = seamark.init_run(**QUIET)
    if kind == "series":
        for step in range(20):
            run.log_metrics({f"series_{number}": number + step for number in range(count)}, step)
    else:
        run.assign({"params": {f"number_{number}": number for number in range(count)}})
    run.stop()
    return {"run": run.id}


def metrics(count: int, calls: int, of_call: int) -> Made:
    """Write runs of long series by ``log_metrics``, the same metrics in every call."""
    from log_calls import captures_of

    import seamark

    names, made = [f"train/metric_{number:03}" for number in range(of_call)], []
    for _ in range(count):
        run = seamark.init_run(**captures_of(on=False))
        for step in range(calls):
            run.log_metrics(dict.fromkeys(names, step * 0.001), step)
        run.stop()
        made.append(f"default/{run.id}")
    return {"runs": made}


def mlflow(*counts: int) -> Made:
    """Fill a store of MLflow with RUNS of PARAMS and SERIES of POINTS; see `mlflow_store`."""
    from mlflow_store import fill

    return {"run": fill(*counts)}


def tensorboard(count: int, points: int) -> Made:
    """Write runs of one series as TensorBoard keeps them."""
    from torch.utils.tensorboard import SummaryWriter

    chance = random.Random(11)
    for number in range(count):
        with SummaryWriter(f"tensorboard/run-{number:05}") as writer:
            for step in range(points):
                writer.add_scalar("metrics/loss", chance.random() / (1 + step), step)
    return {}


WRITES: dict[str, Callable[..., Made]] = {
    one.__name__: one for one in (runs, long, series, wide, metrics, mlflow, tensorboard)
}

if __name__ == "__main__":
    what, *given = sys.argv[1:]
    print(json.dumps(WRITES[what](*(int(one) if one.isdigit() else one for one in given))))
