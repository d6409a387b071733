"""Time profilers under a clock that stands still: what is recorded is exact, to the nanosecond."""

from __future__ import annotations

import functools
import pickle
import sys
import threading

import pytest
import torch
from ignite.engine import Engine, Events, create_supervised_trainer
from profiled import QUIET, Custom, csv_rows, nothing

from seamark import init_run
from seamark.ignite import BasicTimeProfiler
from seamark.ignite._clock import EngineClock
from seamark.profiling import Durations


def seconds(profiler, name="processing", event=""):
    (found,) = [one for one in profiler.stats() if (one.name, one.event) == (name, event)]
    return pytest.approx(found.total_s), found.count


def of_event(profiler, event):
    """Return what the handlers of an event took together, seconds, and how often."""
    found = [one for one in profiler.stats() if event in (one.name, one.event)]
    return sum(one.total_s for one in found), sum(one.count for one in found)


# ---------------------------------------------------------------- interruptions


@pytest.mark.parametrize(
    "event",
    [
        Events.STARTED, Events.EPOCH_STARTED, Events.GET_BATCH_STARTED(once=2),
        Events.GET_BATCH_COMPLETED(once=2), Events.ITERATION_STARTED(once=2),
        Events.ITERATION_COMPLETED(once=2), Events.EPOCH_COMPLETED,
    ],
    ids=lambda event: event.value,
)  # fmt: skip
@pytest.mark.parametrize("how", ["run", "bound", "class", "thread"])
def test_an_interrupted_run_has_the_times_of_one_that_was_not(profiler, event, how, hand_clock):
    """Neither the pause nor the handlers of INTERRUPT are part of a step or a fetch.

    A wait or a step that goes on after the pause is left out, since no event tells when it did.
    """

    def data():
        for batch in range(3):
            hand_clock.sleep(0.5)
            yield batch

    engine = Engine(lambda *_: hand_clock.sleep(0.25))
    bound = engine.run
    engine.add_event_handler(Events.INTERRUPT, lambda: hand_clock.sleep(3))
    engine.add_event_handler(event, engine.interrupt)
    profiler.attach(engine)
    given = {"data": data(), "max_epochs": 1, "epoch_length": 3}
    engine.run(**given)
    hand_clock.sleep(100)
    again = {"bound": bound, "class": functools.partial(Engine.run, engine)}.get(how, engine.run)
    if how == "thread":
        thread = threading.Thread(target=again, kwargs=given)
        thread.start()
        thread.join()
    else:
        again(**given)
    assert engine.state.iteration == 3
    steps = 3 - (event == Events.ITERATION_STARTED)
    batches = 3 - (event == Events.GET_BATCH_STARTED)
    assert seconds(profiler) == (0.25 * steps, steps)
    assert seconds(profiler, "dataflow") == (0.5 * batches, batches)
    assert of_event(profiler, "INTERRUPT") == (3, 1)
    whole = profiler._breakdown(profiler._times()).whole_s
    in_epoch = event not in (Events.STARTED, Events.EPOCH_COMPLETED)
    assert whole == pytest.approx(0.25 * steps + 0.5 * batches + 3 * in_epoch)


@pytest.mark.parametrize("event", [Events.STARTED, Events.EPOCH_COMPLETED], ids=str)
def test_an_event_that_users_fire_in_a_pause_between_epochs_begins_no_epoch(
    profiler, event, hand_clock
):
    engine = Engine(lambda *_: hand_clock.sleep(0.25))
    engine.register_events(*Custom)
    engine.add_event_handler(Custom.HAPPENED, lambda: hand_clock.sleep(2))
    interrupts = engine.add_event_handler(event, engine.interrupt)
    profiler.attach(engine)
    engine.run(range(3), max_epochs=2)
    interrupts.remove()
    engine.fire_event(Custom.HAPPENED)
    hand_clock.sleep(100)
    engine.run(range(3), max_epochs=2)
    assert of_event(profiler, Custom.HAPPENED.name) == (2, 1)
    breakdown = profiler._breakdown(profiler._times())
    assert (breakdown.whole_s, breakdown.epochs) == (pytest.approx(0.75), 2)


def test_an_interrupted_run_keeps_its_times_without_its_engine(profiler, hand_clock):
    engine = Engine(nothing)
    engine.add_event_handler(Events.ITERATION_COMPLETED, lambda: hand_clock.sleep(0.5))
    engine.add_event_handler(Events.ITERATION_COMPLETED(once=2), engine.interrupt)
    profiler.attach(engine)
    engine.run(range(3))
    before = profiler.stats()
    assert sum(one.total_s for one in before) == pytest.approx(1)
    assert pickle.loads(pickle.dumps(profiler)).stats() == before


def test_a_run_after_a_failure_of_the_profiler_starts_outside_of_an_epoch(
    profiler, hand_clock, monkeypatch
):
    engine = Engine(lambda *_: hand_clock.sleep(0.25))
    engine.add_event_handler(Events.STARTED, lambda: hand_clock.sleep(7))
    engine.add_event_handler(Events.GET_BATCH_STARTED, lambda: hand_clock.sleep(1))
    profiler.attach(engine)

    def fail(_now_ns):
        raise RuntimeError

    with monkeypatch.context() as broken:
        broken.setattr(EngineClock.of(engine), "_report", fail)
        engine.run(range(3))
    hand_clock.sleep(50)
    engine.state.max_epochs = None
    engine.run(range(2))
    assert seconds(profiler) == (0.5, 2)
    assert of_event(profiler, "STARTED") == (7, 1)
    breakdown = profiler._breakdown(profiler._times())
    assert (breakdown.whole_s, breakdown.epochs) == (pytest.approx(2.5), 1)


def test_an_interruption_leaves_rows_whole(tmp_path):
    """A batch and its step stand in one row, however long ago the batch came."""
    engine, profiler = Engine(nothing), BasicTimeProfiler()
    profiler.attach(engine)
    engine.add_event_handler(Events.GET_BATCH_COMPLETED(once=2), engine.interrupt)
    engine.run(range(4))
    engine.run(range(4))
    profiler.write_results(tmp_path / "wide.csv")
    rows = csv_rows(tmp_path / "wide.csv")
    assert [row["iteration"] for row in rows] == ["1", "2", "3", "4"]
    assert all(float(row[name]) for row in rows for name in ("processing_stats", "dataflow_stats"))


def test_handlers_of_the_end_of_the_data_are_no_waiting_for_it(profiler, hand_clock):
    """They run between two fetches, and are reported themselves."""

    def data():
        hand_clock.sleep(1)
        yield from range(2)

    class Again:
        def __iter__(self):
            return data()

    engine = Engine(nothing)
    profiler.attach(engine)
    engine.add_event_handler(Events.DATALOADER_STOP_ITERATION, lambda: hand_clock.sleep(7))
    engine.run(Again(), epoch_length=4)
    assert seconds(profiler, "dataflow") == (2, 4)
    assert of_event(profiler, "DATALOADER_STOP_ITERATION") == (7, 1)


# ---------------------------------------------------------------- our own work


@pytest.mark.parametrize("ends", [False, True])
def test_no_event_pays_for_the_profilers_work(profiler, ends, hand_clock, monkeypatch):
    """Taking in what waits, the summary of a run: however slow that is."""
    flush = Durations.flush

    def slow_flush(samples):
        hand_clock.sleep(1)
        flush(samples)

    monkeypatch.setattr(Durations, "flush", slow_flush)
    engine = Engine(nothing)
    engine.register_events(*Custom)
    for event in (Events.STARTED, Events.COMPLETED, Events.TERMINATE, Events.EPOCH_COMPLETED):
        engine.add_event_handler(event, lambda: None)
    engine.add_event_handler(Custom.HAPPENED, lambda: None)
    engine.add_event_handler(Events.STARTED, engine.fire_event, Custom.HAPPENED)
    if ends:
        engine.add_event_handler(Events.ITERATION_COMPLETED(once=3), engine.terminate)
    with init_run(**QUIET) as run:
        profiler.attach(engine, run=run)
        engine.run(range(2), max_epochs=3)
        assert max(one.max_s for one in profiler.stats()) == 0


# ---------------------------------------------------------------- threads


def test_events_of_other_threads_are_counted_and_warned_about_once(profiler, caplog):
    engine = Engine(nothing)
    engine.register_events(*Custom)
    engine.add_event_handler(Custom.HAPPENED, lambda: None)
    engine.add_event_handler(Events.ITERATION_COMPLETED, lambda: None)
    profiler.attach(engine)
    threads, each = 4, 300
    entered = threading.Barrier(threads + 1)

    def fire():
        entered.wait()
        for _ in range(each):
            engine.fire_event(Custom.HAPPENED)

    helpers = [threading.Thread(target=fire) for _ in range(threads)]

    @engine.on(Events.ITERATION_STARTED(once=1))
    def start():
        for one in helpers:
            one.start()
        entered.wait()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        engine.run(range(2000))
    finally:
        sys.setswitchinterval(interval)
        for one in helpers:
            one.join()
    assert profiler._times().events_elsewhere == threads * each
    assert len([one for one in caplog.messages if "a thread other than" in one]) == 1
    assert f"{threads * each} events of other threads" in profiler.table()
    assert seconds(profiler)[1] == seconds(profiler, "dataflow")[1] == 2000


def test_a_thread_in_an_event_changes_nothing_for_the_engine(profiler, hand_clock):
    """An event that another thread is in when a step ends, and a core event that it fires."""
    steps = []

    def step(engine, batch):
        hand_clock.sleep(1)
        if batch == 0:
            helper.start()
            inside.wait()
        if batch == 1:
            go_on.set()
            helper.join()
        steps.append(batch)

    engine = Engine(step)
    engine.register_events(*Custom)
    inside, go_on = threading.Event(), threading.Event()
    engine.add_event_handler(Custom.HAPPENED, lambda: (inside.set(), go_on.wait()))
    engine.add_event_handler(Events.ITERATION_STARTED, lambda: None)

    def fire():
        engine.fire_event(Custom.HAPPENED)
        engine.fire_event(Events.ITERATION_STARTED)

    helper = threading.Thread(target=fire)
    profiler.attach(engine)
    engine.run(range(4))
    assert steps == [0, 1, 2, 3]
    assert seconds(profiler) == (4, 4)
    assert of_event(profiler, "ITERATION_STARTED")[1] == 4


# ---------------------------------------------------------------- every way to run


@pytest.mark.parametrize("how", ["run", "bound", "class"])
def test_every_run_is_measured_however_it_is_called(profiler, how):
    """By a method that was bound before, through the class, or in a handler of the end."""
    engine = Engine(nothing)
    bound = engine.run
    run = {"bound": bound, "class": functools.partial(Engine.run, engine)}.get(how)

    def once(size):
        engine.state.max_epochs = None
        (run or engine.run)(range(size))

    engine.add_event_handler(Events.COMPLETED, lambda: engine.state.iteration < 5 and once(5))
    engine.add_event_handler(Events.COMPLETED, lambda: None)
    profiler.attach(engine)
    for size in (2, 7, 6):
        once(size)
        assert seconds(profiler)[1] == max(5, size)


def test_a_run_that_cannot_begin_does_not_end_the_one_around_it(profiler, hand_clock):
    """Ignite refuses to run an engine in the middle of its own run."""
    engine = Engine(nothing)
    refused = []

    @engine.on(Events.ITERATION_COMPLETED(once=2))
    def nested():
        try:
            engine.run(range(3))
        except ValueError as error:
            refused.append(error)

    profiler.attach(engine)
    engine.run(range(4))
    assert refused
    assert seconds(profiler) == (0, 4)


# ---------------------------------------------------------------- ends of every kind


def test_a_step_that_raises_leaves_what_came_before_it(profiler, hand_clock):
    """Its wait, the handlers until then, and those of the step before it."""

    def data():
        for batch in range(3):
            hand_clock.sleep(0.5)
            yield batch

    def step(_engine, batch):
        hand_clock.sleep(0.25)
        if batch == 1:
            raise RuntimeError

    engine = Engine(step)
    parts = ("GET_BATCH_STARTED", "GET_BATCH_COMPLETED", "ITERATION_STARTED", "ITERATION_COMPLETED")
    for at, event in enumerate(("EPOCH_STARTED", *parts)):
        engine.add_event_handler(Events[event], hand_clock.sleep, 2.0**at)
    profiler.attach(engine)
    with pytest.raises(RuntimeError):
        engine.run(data(), epoch_length=3)
    for _ in range(2):  # to look changes nothing
        assert seconds(profiler) == (0.25, 1)
        assert seconds(profiler, "dataflow") == (1, 2)
        found = [of_event(profiler, event) for event in parts]
        assert found == [(4, 2), (8, 2), (16, 2), (16, 1)]


def test_a_handler_that_raises_at_once_is_the_whole_epoch(profiler, hand_clock):
    engine = Engine(nothing)

    @engine.on(Events.EPOCH_STARTED)
    def broken():
        hand_clock.sleep(3)
        raise RuntimeError

    profiler.attach(engine)
    with pytest.raises(RuntimeError):
        engine.run(range(2))
    assert of_event(profiler, "EPOCH_STARTED") == (3, 1)
    assert "3 s of the 3 s of an epoch, 100 %" in profiler.largest_cost()


def test_the_fetch_that_finds_no_more_data_is_one_of_its_own(profiler, hand_clock):
    """As in each epoch over data of unknown length; it is no part of the next epoch's first one."""

    class Unknown:
        def __iter__(self):
            return iter(range(2))

    engine = Engine(nothing)
    engine.add_event_handler(Events.GET_BATCH_STARTED, lambda: hand_clock.sleep(1))
    profiler.attach(engine)
    engine.run(Unknown(), max_epochs=3)
    (found,) = [one for one in profiler.stats() if "GET_BATCH_STARTED" in (one.name, one.event)]
    # From the second epoch on Ignite knows the length.
    assert (found.count, found.total_s, found.max_s) == (7, 7, 1)


@pytest.mark.parametrize("how", ["interrupted", "attached"])
def test_the_first_handlers_after_a_pause_are_timed(profiler, how, hand_clock):
    engine = Engine(nothing)
    if how == "attached":
        engine.add_event_handler(Events.ITERATION_COMPLETED(once=1), profiler.attach)
    else:
        engine.add_event_handler(Events.GET_BATCH_STARTED(once=1), engine.interrupt)
        profiler.attach(engine)
    for event in (Events.GET_BATCH_STARTED, Events.GET_BATCH_COMPLETED):
        engine.add_event_handler(event, lambda: hand_clock.sleep(1))
    engine.run(range(2))
    if how == "interrupted":
        engine.run(range(2))
        assert of_event(profiler, "GET_BATCH_COMPLETED")[0] == 2
    assert of_event(profiler, "GET_BATCH_STARTED")[0] == (2 if how == "interrupted" else 1)


def test_a_custom_event_belongs_to_the_iteration_that_it_is_fired_in(profiler, hand_clock):
    engine = Engine(nothing)
    engine.register_events(*Custom)
    engine.add_event_handler(Custom.HAPPENED, lambda: hand_clock.sleep(1))
    engine.add_event_handler(Events.ITERATION_STARTED(once=3), engine.fire_event, Custom.HAPPENED)
    profiler.attach(engine)
    engine.run(range(4))
    (found,) = [one for one in profiler.stats() if "HAPPENED" in (one.name, one.event)]
    assert (found.count, found.max_iteration) == (1, 3)


def test_results_do_not_change_afterwards(hand_clock):
    engine, profiler = Engine(nothing), BasicTimeProfiler()
    engine.add_event_handler(Events.ITERATION_COMPLETED, lambda: hand_clock.sleep(1))
    profiler.attach(engine)
    engine.run(range(3), max_epochs=2)
    times = profiler.event_handlers_times[Events.ITERATION_COMPLETED]
    assert times.tolist() == [1] * 6
    results = profiler.get_results()
    before = repr(results)
    engine.add_event_handler(Events.STARTED, lambda: None)
    engine.run(range(3), max_epochs=3)
    assert repr(results) == before


def test_a_report_has_all_events_with_handlers_and_the_gpu(hand_clock):
    engine, profiler = Engine(nothing), BasicTimeProfiler()
    engine.register_events(*Custom)
    engine.add_event_handler(Events.GET_BATCH_STARTED, hand_clock.sleep, 2)
    engine.add_event_handler(Events.ITERATION_STARTED, engine.fire_event, Custom.HAPPENED)
    engine.add_event_handler(Custom.HAPPENED, hand_clock.sleep, 1)
    profiler.attach(engine)
    engine.run(range(3))
    results = profiler.get_results()
    results["cuda_processing_stats"] = results["processing_stats"]
    lines = profiler.print_results(results).splitlines()
    for head, said in [
        ("- Events.GET_BATCH_STARTED: ['HandClock.sleep']", "6.00000 | 2.00000/0"),
        ("- Events.HAPPENED: ['HandClock.sleep']", "3.00000 | 1.00000/0"),
        ("Processing function on the GPU (CUDA events):", "0.00000 | 0.00000/0"),
    ]:
        assert lines.count(head) == 1
        assert lines[lines.index(head) + 1].startswith(said)


# ---------------------------------------------------------------- what is recorded beside


def test_an_optimizer_step_of_several_batches_is_one_batch_more(logger):
    """The effective batch size counts samples of an optimizer step."""
    net = torch.nn.Linear(2, 1)
    trainer = create_supervised_trainer(
        net,
        torch.optim.SGD(net.parameters(), lr=0.1),
        torch.nn.functional.mse_loss,
        gradient_accumulation_steps=4,
    )
    logger.attach(trainer, lambda *_: None, Events.COMPLETED)
    rows = torch.utils.data.TensorDataset(torch.ones(6, 2), torch.ones(6, 1))
    trainer.run(torch.utils.data.DataLoader(rows, batch_size=3))
    found = logger["distributed"].fetch()
    assert (found["accumulate_grad_batches"], found["effective_batch_size"]) == (4, 12)
