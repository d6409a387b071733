"""What tests of the time profilers share: events, steps, and what they read of a profiler."""

from __future__ import annotations

import csv

from ignite.engine import Engine, EventEnum

from seamark.ignite import BasicTimeProfiler, HandlersTimeProfiler

PROFILERS = [BasicTimeProfiler, HandlersTimeProfiler]
QUIET = {"capture": {"git": False, "packages": False}}


class Custom(EventEnum):
    HAPPENED = "happened"


def nothing(engine, batch):
    pass


def own_attributes(engine):
    return set(vars(engine)) - set(vars(Engine(nothing)))


def phase(profiler, name="processing"):
    return next(one for one in profiler.stats() if one.name == name)


def kind_of(profiler):
    """Return the namespace of its times in a run, below ``profiling``."""
    return "events" if isinstance(profiler, BasicTimeProfiler) else "handlers"


def csv_rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def counts_in(run, path, folder):
    """Return how often each thing was timed, by the summary that stands in a run."""
    run[path].download(folder / "summary.csv")
    return {row["name"]: int(row["count"]) for row in csv_rows(folder / "summary.csv")}
