"""Reads what a training left: the run through the store, and what the loggers beside us wrote."""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from pathlib import Path

import seamark
from seamark.journal.format import Kind
from seamark.journal.reader import JournalReader, decode_json

PREFIX = "training/"


def runs(folder, project):
    """Return the ids of all runs of a project, by age."""
    return sorted(path.parent.name for path in (folder / ".seamark" / project).glob("*/journal"))


def headers(folder, project="*"):
    """Return the header of every journal."""
    found = []
    for path in sorted((folder / ".seamark").glob(f"{project}/*/journal/*")):
        with JournalReader(path) as reader:
            found.append(reader.header())
    return found


def states(folder, project, rank):
    """Return what the only journal of a rank says of its state, in order."""
    found = []
    for path in (folder / ".seamark").glob(f"{project}/*/journal/*"):
        with JournalReader(path) as reader:
            if reader.header()["rank"] == rank:
                frames = [frame for frame in reader.frames() if frame.kind == Kind.OP]
                found += [decode_json(frame.payload) for frame in frames]
    return [op for op in found if op["op"] == "state"]


class Recorded:
    """A run as the store gives it."""

    def __init__(self, folder, project, run=None):
        if run is None:
            (run,) = runs(folder, project)
        root = folder / ".seamark"
        self.run = seamark.init_run(project=project, with_id=run, mode="read-only", root=root)
        self.found = {one.path: one for one in self.run.session.recorded.attributes()}

    def value(self, path):
        return self.found[path].value

    def below(self, namespace):
        return {
            path.removeprefix(namespace): one
            for path, one in self.found.items()
            if path.startswith(namespace)
        }

    def rows(self, namespace=PREFIX):
        """Return (step, {name: value}) in the order of recording; one call has one time."""
        by_time = defaultdict(dict)
        for name, one in self.below(namespace).items():
            if one.family != "float_series" or name.startswith("ranks/"):
                continue
            points = self.run[one.path].fetch_points()
            for step, value, at in zip(points.step, points.value, points.time_ns, strict=True):
                row = by_time[int(at), float(step)]
                assert name not in row, f"{name} twice at {at}"
                row[name] = float(value)
        return [(step, values) for (_, step), values in sorted(by_time.items())]

    def checkpoints(self, namespace=PREFIX):
        """Return the path of each recorded checkpoint."""
        files = self.below(f"{namespace}model/checkpoints/").values()
        return [Path(one.value["ref"]) for one in files]


def calls(folder, kind, rank=0):
    """Return what the recording logger was told on a rank, of one kind."""
    lines = (folder / f"calls-{rank}.jsonl").read_text().splitlines()
    return [one for one in map(json.loads, lines) if one["call"] == kind]


def told_rows(folder, rank=0):
    return [(one["step"], one["metrics"]) for one in calls(folder, "log_metrics", rank)]


def csv_rows(folder):
    """Return what CSVLogger wrote; each process begins a version of its own."""
    versions = (folder / "csv").glob("version_*/metrics.csv")
    found = []
    for path in sorted(versions, key=lambda path: int(path.parent.name.removeprefix("version_"))):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                step = float(row.pop("step"))
                found.append((step, {name: float(text) for name, text in row.items() if text}))
    return found


def plain(found):
    """Return rows so that they can be compared: NaN equals NaN."""
    return [
        (float(step), {name: "nan" if math.isnan(at) else at for name, at in values.items()})
        for step, values in found
    ]
