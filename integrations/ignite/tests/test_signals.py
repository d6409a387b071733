"""What a signal handler raises ends the training, wherever in our code it comes."""

from __future__ import annotations

import signal
from collections.abc import Mapping

import pytest
import torch
from ignite.engine import Engine, Events

from seamark import init_run
from seamark.ignite import (
    BasicTimeProfiler,
    HandlersTimeProfiler,
    OutputHandler,
    WeightsHistHandler,
)
from seamark.profiling import Durations, TimesInRun
from seamark.run.adapters import guarded, record_histograms

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs SIGUSR1")


class TimeIsUpError(Exception):
    pass


@pytest.fixture(autouse=True)
def _limit():
    """A time limit that raises."""

    def up(*_):
        raise TimeIsUpError

    before = signal.signal(signal.SIGUSR1, up)
    yield
    signal.signal(signal.SIGUSR1, before)


def ring(*_):
    signal.raise_signal(signal.SIGUSR1)


class Ringing(Mapping):
    """Metrics in the middle of whose reading the time is up."""

    def __getitem__(self, key):
        ring()

    def __iter__(self):
        return iter("a")

    def __len__(self):
        return 1


def test_while_metrics_are_recorded(logger, engine):
    logger.attach(engine, OutputHandler("t", metric_names="all"), Events.ITERATION_COMPLETED)
    engine.add_event_handler(
        Events.ITERATION_STARTED, lambda: engine.state.metrics.update(m=Ringing())
    )
    with pytest.raises(TimeIsUpError):
        engine.run(range(3))
    assert engine.state.iteration == 1


def test_while_histograms_are_counted_and_put_together(logger, engine, net, monkeypatch):
    with pytest.raises(TimeIsUpError):
        record_histograms(logger.experiment, Ringing(), 1)
    logger.attach(engine, WeightsHistHandler(net), Events.ITERATION_COMPLETED)
    monkeypatch.setattr(torch.Tensor, "is_complex", ring)
    with pytest.raises(TimeIsUpError):
        engine.run(range(3))


def test_in_a_method_that_loses_errors_quietly():
    class Callback:
        lost = 0

        def _lost(self, name, error):
            self.lost += 1

        @guarded
        def ring(self):
            ring()

        @guarded
        def fail(self):
            raise ValueError

    callback = Callback()
    callback.fail()
    with pytest.raises(TimeIsUpError):
        callback.ring()
    assert callback.lost == 1


@pytest.mark.parametrize("profiler", [BasicTimeProfiler, HandlersTimeProfiler])
def test_while_a_profiler_looks_at_a_handler(profiler):
    class Odd:
        def __getattr__(self, name):
            if running:
                ring()
            raise AttributeError(name)

        def __call__(self):
            called.append(1)

    called, running, engine = [], [], Engine(lambda *_: running.append(1))
    engine._event_handlers[Events.COMPLETED].append((Odd(), (), {}))
    one = profiler()
    engine.add_event_handler(Events.ITERATION_COMPLETED(once=2), one.attach)
    with pytest.raises(TimeIsUpError):
        engine.run(range(3))
    assert not called


def test_while_times_are_recorded():
    with init_run(capture={"git": False, "packages": False}) as run:
        times = TimesInRun(run)

        class Rings(Durations):
            def flush(self):
                ring()

        with pytest.raises(TimeIsUpError):
            times.row(0, [Rings("action", "one")], 1)
