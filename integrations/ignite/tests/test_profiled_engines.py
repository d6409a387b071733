"""Engines under a time profiler: copies, detaching, the middle of runs, signals, forks, threads.

An engine behaves as it does without the profiler, and whatever part of a run was measured, its
numbers are those of that part.
"""

from __future__ import annotations

import copy
import gc
import inspect
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import weakref

import ignite.handlers
import numpy as np
import pytest
import torch
from ignite.engine import Engine, Events
from profiled import QUIET, counts_in, kind_of, nothing, own_attributes, phase

from seamark import init_run
from seamark.ignite import BasicTimeProfiler, HandlersTimeProfiler, SeamarkLogger

# ---------------------------------------------------------------- copies


@pytest.mark.parametrize("travel", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_of_an_engine_are_plain_and_those_of_a_profiler_its_numbers(profiler, travel):
    """The copied engine runs itself, and the copied profiler is away from any engine."""
    engine = Engine(nothing)
    profiler.attach(engine)
    other = travel(engine)
    assert not own_attributes(other)
    other.state = copy.deepcopy(other.state)
    other.run(range(3))
    assert (other.state.iteration, engine.state.iteration) == (3, 0)
    assert profiler.stats() == []
    engine.add_event_handler(Events.ITERATION_COMPLETED(every=2), print, "")
    engine.run(range(4))
    found = travel(profiler)
    assert found.stats() == profiler.stats()
    engine.state.max_epochs = None
    engine.run(range(2))
    assert (phase(profiler).count, phase(found).count) == (2, 4)
    fresh = travel(type(profiler)())
    fresh.attach(engine)
    engine.state.max_epochs = None
    engine.run(range(5))
    assert phase(fresh).count == 5


# ---------------------------------------------------------------- nothing is kept alive


def fail(engine):
    raise RuntimeError


ENDS = {
    "exception": fail,
    "at once": nothing,
    "terminate": lambda engine: engine.terminate(),
    "skip": lambda engine: engine.terminate(skip_completed=True),
    "interrupt": lambda engine: engine.interrupt(),
    "end": lambda engine: None,
}


@pytest.mark.parametrize("how", ENDS)
def test_attached_in_the_middle_and_undone_at_every_end(profiler, how):
    """The ``run`` that was called is not ours then; still nothing stays, and numbers are closed."""
    if how == "skip" and "skip_completed" not in inspect.signature(Engine.terminate).parameters:
        pytest.skip("came with Ignite 0.5")

    def step(engine, batch):
        if engine.state.iteration == 4:
            ENDS[how](engine)

    def attach(engine):
        profiler.attach(engine)
        if how == "at once":  # no event comes any more that could tell of the end
            raise RuntimeError

    engine = Engine(step)
    engine.add_event_handler(Events.ITERATION_COMPLETED(once=2), attach)
    if how in ("exception", "at once"):
        with pytest.raises(RuntimeError):
            engine.run(range(6))
    else:
        engine.run(range(6))
    assert not own_attributes(engine)
    if how != "at once":
        assert phase(profiler).count == {"exception": 1, "end": 4}.get(how, 2)
    if how == "interrupt":
        engine.run(range(6))
        assert phase(profiler).count == 4
        engine._internal_run_generator = None
    engine._event_handlers.clear()
    gone = weakref.ref(engine)
    del engine, step, attach
    gc.collect()
    assert gone() is None


# ---------------------------------------------------------------- coming and going


def test_a_second_profiler_may_come_while_the_engine_is_paused(profiler):
    engine, other = Engine(nothing), BasicTimeProfiler()
    profiler.attach(engine)
    engine.add_event_handler(Events.ITERATION_COMPLETED(once=2), engine.interrupt)
    engine.run(range(5))
    other.attach(engine)
    other.attach(engine)
    engine.run(range(5))
    assert phase(profiler).count == 5
    assert phase(other).count == 5


@pytest.mark.parametrize(
    "event",
    [getattr(Events, f"{what}_{when}") for what in ("GET_BATCH", "ITERATION")
     for when in ("STARTED", "COMPLETED")],
)  # fmt: skip
def test_time_between_detaching_and_attaching_counts_nowhere(profiler, event, hand_clock):
    """Books are closed when the profiler leaves, and others opened when it comes again."""

    def step(engine, batch):
        if 2 < engine.state.iteration < 6:
            hand_clock.sleep(0.03)

    engine = Engine(step)
    profiler.attach(engine)
    engine.add_event_handler(event(once=2), profiler.detach)
    before = []
    engine.add_event_handler(event(once=7), lambda: before.extend(profiler.stats()))
    engine.add_event_handler(event(once=7), profiler.attach)
    engine.run(range(10))
    after = profiler.stats()
    assert max(one.max_s for one in [*before, *after]) == 0
    assert next(one for one in before if one.name == "processing").count in (1, 2)
    assert phase(profiler).count in (3, 4)
    assert all(one.min_iteration >= 6 for one in after if one.count)
    assert not own_attributes(engine)


def test_detaching_keeps_and_records_what_was_measured(profiler, tmp_path):
    engine, staying = Engine(nothing), BasicTimeProfiler()
    with init_run(root=tmp_path, **QUIET) as run:
        profiler.attach(engine, run=run)
        staying.attach(engine)
        engine.add_event_handler(Events.ITERATION_COMPLETED(once=3), profiler.detach)
        engine.run(range(8))
        counts = counts_in(run, f"profiling/{kind_of(profiler)}/summary", tmp_path)
    assert 2 <= counts["processing"] == phase(profiler).count <= 3
    assert counts == {one.name: one.count for one in profiler.stats()}
    assert phase(staying).count == 8


# ---------------------------------------------------------------- signals, forks, threads


@pytest.mark.launches
def test_sigterm_ends_the_process_as_ever():
    """With times recorded in a run, which knows the signal."""
    program = """
        import time
        from ignite.engine import Engine, Events
        from seamark import init_run
        from seamark.ignite import BasicTimeProfiler, HandlersTimeProfiler
        def step(engine, batch):
            if engine.state.iteration == 3:
                print("running", flush=True)
                time.sleep(600)  # the signal comes here, and not between two profilers
        engine = Engine(step)
        engine.add_event_handler(Events.ITERATION_COMPLETED, lambda: None)
        run = init_run(capture=dict(git=False, packages=False))
        for profiler in (BasicTimeProfiler(), HandlersTimeProfiler()):
            profiler.attach(engine, run=run)
        engine.run(range(10**6))
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "running\n"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=240)
    assert process.returncode == -signal.SIGTERM, err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_loaders_that_fork_are_not_disturbed(profiler):
    """Workers are forked in the middle of an event, with the clock running."""
    data = torch.utils.data.DataLoader(
        torch.arange(12), num_workers=2, batch_size=2, multiprocessing_context="fork"
    )
    engine, seen = Engine(lambda engine, batch: seen.extend(batch.tolist())), []
    profiler.attach(engine)
    engine.run(data, max_epochs=2)
    assert sorted(seen) == sorted([*range(12), *range(12)])
    assert phase(profiler).count == phase(profiler, "dataflow").count == 12


def test_results_may_be_read_from_another_thread(profiler, tmp_path):
    """While handlers come and go; nothing raises, neither there nor in the training."""
    engine, stop, errors = Engine(nothing), threading.Event(), []
    profiler.attach(engine)
    handles = []

    @engine.on(Events.ITERATION_STARTED)
    def exchange():
        for handle in handles:
            handle.remove()
        handles[:] = [
            engine.add_event_handler(Events.ITERATION_COMPLETED, lambda: None) for _ in range(3)
        ]

    def look():
        while not stop.is_set():
            try:
                profiler.get_results()
                profiler.table()
                profiler.write_results(tmp_path / "long.csv", layout="long")
            except Exception as error:  # noqa: BLE001 - collected
                errors.append(error)

    thread = threading.Thread(target=look)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        engine.run(range(1000))
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
    assert not errors
    assert phase(profiler).count == 1000


# ---------------------------------------------------------------- long runs


def test_a_long_run_is_exact_and_bounded(hand_clock):
    """Against the same durations kept aside; the sample is even, with true numbers."""
    taken = []

    def step(engine, batch):
        slow = {77_777: 0.02, 123_456: 0.05}
        taken.append(slow.get(engine.state.iteration, 1e-6 * (1 + batch % 7)))
        hand_clock.sleep(taken[-1])

    engine, profiler = Engine(step), HandlersTimeProfiler()
    calls = []
    engine.add_event_handler(Events.ITERATION_COMPLETED, lambda: None)
    engine.add_event_handler(Events.ITERATION_COMPLETED(every=1000), lambda: calls.append(1))
    profiler.attach(engine)
    size, epochs = 50_000, 3
    engine.run(range(size), max_epochs=epochs)
    found = phase(profiler)
    wanted = np.array(taken)
    assert found.count == len(wanted) == size * epochs
    assert (found.max_epoch, found.max_iteration) == (3, 123_456)
    assert found.total_s == pytest.approx(wanted.sum())
    assert found.mean_s == pytest.approx(found.total_s / found.count)
    assert found.max_s == pytest.approx(wanted.max())
    every = next(one for one in profiler.stats() if one.count == len(calls) == 150)
    assert every.max_iteration % 1000 == 0
    source = profiler._times().phases()[0]
    _, positions, _ = source.rows()
    assert 32_768 <= len(positions) <= 65_536
    iterations = positions & ((1 << 36) - 1)
    stretches = np.bincount((iterations - 1) // 1000)  # 250 of every thousand, wherever one looks
    assert len(stretches) == size * epochs // 1000
    assert stretches.min() >= 245
    assert stretches.max() <= 255
    assert (positions >> 36).tolist() == (1 + (iterations - 1) // size).tolist()
    sources = [*profiler.times.phases(), *profiler.times.events.values()]
    held = sum(block.nbytes for one in sources for block in one._blocks)
    assert held < 8 * 2**20
    assert len(profiler.times.steps) < 2**20


# ---------------------------------------------------------------- times in a run


def test_the_last_run_is_summed_up_also_if_it_came_soon(profiler, tmp_path):
    """Summaries are rare while training goes on; the run that ends has the latest."""
    engine = Engine(nothing)
    with init_run(root=tmp_path, **QUIET) as run:
        profiler.attach(engine, run=run)
        for size in (3, 5, 7):
            engine.state.max_epochs = None
            engine.run(range(size))
    again = init_run(root=tmp_path, with_id=run.id, mode="read-only")
    counts = counts_in(again, f"profiling/{kind_of(profiler)}/summary", tmp_path)
    assert counts["processing"] == 7


def test_a_run_that_goes_on_after_a_rest_has_the_latest_summary(profiler, tmp_path):
    engine = Engine(nothing)
    with init_run(root=tmp_path, **QUIET) as run:
        profiler.attach(engine, run=run)
        engine.run(range(3))
        run.session.rest("completed")
        run.session.go_on()
        for size in (5, 7):
            engine.state.max_epochs = None
            engine.run(range(size))
    again = init_run(root=tmp_path, with_id=run.id, mode="read-only")
    counts = counts_in(again, f"profiling/{kind_of(profiler)}/summary", tmp_path)
    assert counts["processing"] == 7


@pytest.mark.parametrize("summary_every_ns", [0, 3600 * 10**9])
def test_a_run_that_rests_while_its_engine_is_interrupted_has_the_whole_summary(
    profiler, tmp_path, monkeypatch, summary_every_ns
):
    monkeypatch.setattr("seamark.ignite._profilers._SUMMARY_EVERY_NS", summary_every_ns)
    engine = Engine(nothing)
    engine.add_event_handler(Events.ITERATION_COMPLETED(once=3), engine.interrupt)
    with init_run(root=tmp_path, **QUIET) as run:
        profiler.attach(engine, run=run)
        engine.run(range(8))
        run.session.rest("completed")
        run.session.go_on()
        engine.run(range(8))
    again = init_run(root=tmp_path, with_id=run.id, mode="read-only")
    counts = counts_in(again, f"profiling/{kind_of(profiler)}/summary", tmp_path)
    assert counts["processing"] == 8


def test_times_go_where_the_logger_goes(profiler):
    """A logger that loads a checkpoint goes over to its run, and the times with it."""
    first = SeamarkLogger(**QUIET)
    first["a"] = 1
    state = first.state_dict()
    first.close()
    engine, second = Engine(nothing), SeamarkLogger(**QUIET)
    profiler.attach(engine, run=second)
    second.load_state_dict(state)
    engine.run(range(3))
    assert second.exists("profiling")
    assert second.id == first.id
    second.close()
    assert os.listdir(".seamark/default") == [first.id]  # noqa: PTH208


def test_the_run_that_a_logger_moves_to_has_the_summary_of_an_engine_that_fails(profiler, tmp_path):
    first = SeamarkLogger(root=tmp_path, **QUIET)
    first["a"] = 1
    state = first.state_dict()
    first.close()
    engine, second = Engine(nothing), SeamarkLogger(root=tmp_path, **QUIET)
    profiler.attach(engine, run=second)
    engine.add_event_handler(
        Events.ITERATION_STARTED(once=1), lambda: second.load_state_dict(state)
    )
    engine.add_event_handler(Events.ITERATION_COMPLETED(once=7), fail)
    with pytest.raises(RuntimeError):
        engine.run(range(9))
    assert second.id == first.id
    second.close()
    again = init_run(root=tmp_path, with_id=first.id, mode="read-only")
    counts = counts_in(again, f"profiling/{kind_of(profiler)}/summary", tmp_path)
    assert counts["processing"] == 7


def test_means_are_those_of_the_run_that_goes_on(profiler, tmp_path):
    """What was told of runs that are gone is forgotten, and not taken for that of later ones."""
    engine = Engine(nothing)
    engine.add_event_handler(Events.ITERATION_COMPLETED, lambda: None)
    with init_run(root=tmp_path, **QUIET) as run:
        profiler.attach(engine, run=run)
        for _ in range(80):
            engine.state.max_epochs = None
            profiler._record.due_ns = 0
            engine.run(range(3))
        assert len(profiler._record._recorded) < 40


def test_no_gpu_is_said_once(caplog):
    """However many runs there are; the wall clock goes on."""
    if torch.cuda.is_available():
        pytest.skip("there is one")
    engine, profiler = Engine(nothing), BasicTimeProfiler(cuda="events")
    profiler.attach(engine)
    for _ in range(3):
        engine.state.max_epochs = None
        engine.run(range(2))
    (said,) = [one for one in caplog.messages if "CUDA" in one]
    assert said.startswith('seamark: BasicTimeProfiler(cuda="events"): there is no CUDA device')
    assert phase(profiler).count == 2
    assert "cuda_processing_stats" not in profiler.get_results()


def test_steps_are_timed_between_events_of_a_device(monkeypatch):
    """From after the last handler of ITERATION_STARTED, also one that comes late, to the step."""
    now_ms = [0.0]

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.at_ms = now_ms[0]

        def query(self):
            return True

        def synchronize(self):
            pass

        def elapsed_time(self, other):
            return other.at_ms - self.at_ms

    def work(*_):
        now_ms[0] += 2

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    engine, profiler = Engine(work), HandlersTimeProfiler(cuda="events")
    engine.add_event_handler(Events.ITERATION_STARTED, work)
    profiler.attach(engine)
    engine.add_event_handler(Events.ITERATION_STARTED, work)
    engine.run(range(5), max_epochs=2)
    (found,) = [one for one in profiler.stats() if one.clock == "cuda"]
    assert (found.count, found.total_s, found.max_s) == (10, 0.02, 0.002)


# ---------------------------------------------------------------- other ways to run


def test_the_older_way_of_running(profiler, monkeypatch):
    """Without generators, which Ignite still has behind a switch."""
    if not hasattr(Engine, "interrupt_resume_enabled"):
        pytest.skip("is the only one before 0.5")
    monkeypatch.setattr(Engine, "interrupt_resume_enabled", False)
    engine = Engine(nothing)
    profiler.attach(engine)
    engine.run(range(5), max_epochs=2)
    assert phase(profiler).count == 10


@pytest.mark.parametrize("data", [[], iter([]), None])
@pytest.mark.parametrize("given", [{}, {"max_epochs": 2}])
def test_no_data_ends_as_without_a_profiler(profiler, data, given):
    """With the same error, or with none, and the next run is measured."""

    def outcome(engine):
        try:
            return engine.run(data, **given).iteration
        except Exception as error:  # noqa: BLE001 - compared
            return repr(error)

    plain, engine = Engine(nothing), Engine(nothing)
    profiler.attach(engine)
    assert outcome(engine) == outcome(plain)
    assert not own_attributes(engine)
    engine.state.max_epochs = engine.state.epoch_length = None
    engine.run(range(2))
    assert phase(profiler).count == 2


def test_profilers_of_ignite_beside_ours(profiler):
    engine, theirs = Engine(nothing), ignite.handlers.BasicTimeProfiler()
    theirs.attach(engine)
    profiler.attach(engine)
    engine.run(range(5), max_epochs=2)
    assert phase(profiler).count == len(theirs.processing_times) == 10
