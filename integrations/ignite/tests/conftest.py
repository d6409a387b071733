"""A real Engine, a tiny model and a reader."""

from __future__ import annotations

import pytest
import torch
from hosts import refuse_others, without_captures
from isolation import *  # noqa: F403 - its fixtures and hooks
from profiled import PROFILERS

_environment = without_captures  # in place of the fixture of `isolation`
PROVEN = {
    "ignite:oldest": {"pytorch-ignite": "0.4.13"},
    "ignite:latest": {"pytorch-ignite": "0.5.5"},
}


def pytest_configure():
    refuse_others({"ignite": "pytorch-ignite"}, PROVEN)


class HandClock:
    """Stands still until somebody says that time passes; in nanoseconds, like a perf_counter."""

    def __init__(self):
        self.now_ns = 10**9

    def __call__(self):
        return self.now_ns

    def sleep(self, seconds):
        self.now_ns += round(seconds * 10**9)


@pytest.fixture
def hand_clock(monkeypatch):
    """What the profilers look at instead of the clock of a machine that others use as well."""
    clock = HandClock()
    monkeypatch.setattr("seamark.ignite._clock.perf_counter_ns", clock)
    return clock


@pytest.fixture(params=PROFILERS)
def profiler(request):
    return request.param()


@pytest.fixture
def both():
    return [cls() for cls in PROFILERS]


@pytest.fixture
def logger():
    from seamark.ignite import SeamarkLogger

    one = SeamarkLogger(capture={"git": False, "packages": False})
    yield one
    one.close()


@pytest.fixture
def engine():
    """An engine whose output is the iteration, 1-based, as a float."""
    from ignite.engine import Engine

    return Engine(lambda engine, _batch: float(engine.state.iteration))


@pytest.fixture
def net():
    """Two layers, of which the first is frozen."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1))
    net[0].requires_grad_(requires_grad=False)
    return net


@pytest.fixture
def read():
    """Read (step, value) of a series of a logger's run, and what else is recorded there."""

    class Reader:
        def __call__(self, logger, path):
            run = logger.experiment.get_root_object()
            one = run.session.recorded.view()
            family = run.session.recorded.attribute(path).family
            if family == "string_series":
                return [(point.step, point.text) for point in one.texts(path)]
            if family == "histogram_series":
                return one.histograms(path)
            points = one.points(path)
            return list(zip(points.step.tolist(), points.value.tolist(), strict=True))

        def paths(self, logger, namespace=""):
            run = logger.experiment.get_root_object()
            run.wait()
            return {one.path: one for one in run.session.recorded.attributes(namespace)}

        def dropped(self, logger):
            found = self.paths(logger, "monitoring/seamark/dropped")
            writer = logger.experiment.get_root_object().session.recorder.writer
            return found, writer.dropped if writer else {}

    return Reader()
