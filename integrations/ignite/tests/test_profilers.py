"""Time profilers on real engines: the engine behaves as it does without them, and numbers are true.

Durations that matter pass on a clock that stands still otherwise: on a machine that others use as
well, whatever takes no time may take longer than what sleeps.
"""

from __future__ import annotations

import gc
import inspect
import io
import logging
import sys
import weakref

import pytest
import torch
from ignite import handlers as ignites
from ignite.engine import Engine, EventEnum, Events
from ignite.handlers import Checkpoint
from profiled import (
    PROFILERS,
    QUIET,
    Custom,
    counts_in,
    csv_rows,
    kind_of,
    nothing,
    own_attributes,
    phase,
)
from torch.utils.data import DataLoader, IterableDataset

from seamark import init_run
from seamark.errors import ArgumentError
from seamark.ignite import BasicTimeProfiler, HandlersTimeProfiler

# It is not there in 0.4.13.
NEWER = pytest.mark.skipif(
    "max_iters" not in inspect.signature(Engine.run).parameters, reason="came with Ignite 0.5"
)
WIDE = [
    "epoch", "iteration", "processing_stats", "dataflow_stats", "Event_STARTED", "Event_COMPLETED",
    "Event_EPOCH_STARTED", "Event_EPOCH_COMPLETED", "Event_ITERATION_STARTED",
    "Event_ITERATION_COMPLETED", "Event_GET_BATCH_STARTED", "Event_GET_BATCH_COMPLETED",
]  # fmt: skip


def quick():
    pass


def rare():
    pass


def never():
    pass


def counts(profiler):
    return {(one.name, one.event): one.count for one in profiler.stats()}


def attach(profilers, engine):
    for one in profilers:
        one.attach(engine)


# ---------------------------------------------------------------- the engine stays as it is


@pytest.mark.parametrize(
    "error", [RuntimeError("no"), KeyboardInterrupt(), SystemExit(3), ValueError("in a handler")]
)
def test_exceptions_leave_the_run(profiler, error):
    """Of a step and of a handler, Ctrl-C too; the next run reaches its end."""
    in_handler = isinstance(error, ValueError)

    def fail(engine, _batch=None):
        if engine.state.iteration == 2 and not completed:
            raise error

    engine, completed = Engine(nothing if in_handler else fail), []
    if in_handler:
        engine.add_event_handler(Events.ITERATION_COMPLETED, fail)
    engine.add_event_handler(Events.COMPLETED, lambda: completed.append(1))
    profiler.attach(engine)
    with pytest.raises(type(error)):
        engine.run(range(3), max_epochs=2)
    assert engine.state.iteration == 2
    assert not own_attributes(engine)
    assert Events.EXCEPTION_RAISED not in engine._event_handlers
    assert phase(profiler).count == 1 + in_handler
    completed.append(0)
    engine.state.max_epochs = None
    engine.run(range(3))
    assert completed == [0, 1]
    assert phase(profiler).count == 3


def test_an_exception_handler_is_told(profiler):
    def step(engine, batch):
        raise error

    error, told = RuntimeError("told"), []
    engine = Engine(step)
    profiler.attach(engine)
    engine.add_event_handler(Events.EXCEPTION_RAISED, lambda _, error: told.append(error))
    engine.run(range(3))
    assert told == [error]


def furnished():
    """An engine with handlers of every sort; what they see is in the list."""
    seen = []
    engine = Engine(lambda engine, batch: batch)
    engine.register_events(*Custom)

    def plain(*args, **kwargs):
        seen.append((engine.last_event_name, len(args), args[1:], kwargs))

    engine.add_event_handler(Events.ITERATION_COMPLETED(every=2), plain, 1, key=2)
    engine.add_event_handler(Events.EPOCH_STARTED | Events.COMPLETED, plain)
    engine.add_event_handler(Events.GET_BATCH_COMPLETED, lambda: seen.append("batch"))
    engine.add_event_handler(Custom.HAPPENED, plain, "custom")
    engine.add_event_handler(Events.ITERATION_STARTED(once=2), engine.fire_event, Custom.HAPPENED)
    engine.add_event_handler(Events.TERMINATE_SINGLE_EPOCH, plain)
    engine.add_event_handler(Events.ITERATION_STARTED(once=4), engine.terminate_epoch)
    return engine, seen


@pytest.mark.parametrize("attached", [PROFILERS[:1], PROFILERS[1:], PROFILERS])
def test_engine_and_handlers_are_those_of_a_run_without(attached, caplog):
    """Same calls, arguments and debug messages; once detached, the same handlers in order."""
    (engine, seen), (twin, expected) = furnished(), furnished()
    before = {event: list(held) for event, held in engine._event_handlers.items()}
    profilers = [cls() for cls in attached]
    attach(profilers, engine)
    said = []
    for one in (engine, twin):
        one.logger.setLevel(logging.DEBUG)
        caplog.clear()
        one.run(range(3), max_epochs=3)
        said.append([r.getMessage() for r in caplog.records if "Firing" in r.getMessage()])
    engine.logger.setLevel(logging.NOTSET)
    assert seen == expected
    assert said[0] == said[1]
    assert len(said[0]) > 30
    for one in profilers:
        one.detach()
    assert engine._event_handlers == before
    assert engine.state.iteration == twin.state.iteration


def test_a_handler_can_be_found_and_removed_while_it_is_timed():
    engine, profiler, calls = Engine(nothing), HandlersTimeProfiler(), []
    profiler.attach(engine)

    def handler():
        calls.append(engine.state.iteration)

    handle = engine.add_event_handler(Events.ITERATION_COMPLETED, handler)
    _other = engine.add_event_handler(Events.ITERATION_COMPLETED(every=1), handler)

    @engine.on(Events.ITERATION_COMPLETED(once=1))
    def remove():
        assert engine.has_event_handler(handler, Events.ITERATION_COMPLETED)
        handle.remove()
        assert not engine.has_event_handler(handler)

    engine.run(range(4))
    assert calls == [1, 1]


def test_a_profiler_keeps_no_engine_alive(profiler):
    engine = Engine(nothing)
    engine.add_event_handler(Events.ITERATION_COMPLETED, lambda: None)
    profiler.attach(engine)
    engine.run(range(2))
    gone = weakref.ref(engine)
    gc.collect()
    gc.disable()
    try:
        del engine
        assert gone() is None
    finally:
        gc.enable()
    assert phase(profiler).count == 2


def test_attaching_and_detaching_twice_is_harmless(profiler):
    engine = Engine(nothing)
    attach([profiler, profiler], engine)
    engine.run(range(2))
    profiler.detach(engine)
    profiler.detach()
    assert not own_attributes(engine)
    engine.state.max_epochs = None
    engine.run(range(5))
    assert phase(profiler).count == 2


def test_a_method_that_somebody_else_replaced_is_called_and_stays(profiler):
    engine, fired = Engine(nothing), []
    plain = engine._fire_event
    engine._fire_event = theirs = lambda *given: (fired.append(given[0]), plain(*given))[1]
    profiler.attach(engine)
    engine.run(range(3))
    assert len(fired) == 16
    profiler.detach(engine)
    assert engine.__dict__["_fire_event"] is theirs
    assert phase(profiler).count == 3


def test_an_engine_that_fires_in_its_own_way_does_so(hand_clock):
    class Own(Engine):
        fired = 0

        def _fire_event(self, *args, **kwargs):
            self.fired += 1
            return super()._fire_event(*args, **kwargs)

    engine, profiler = Own(nothing), HandlersTimeProfiler()
    profiler.attach(engine)
    engine.add_event_handler(Events.ITERATION_COMPLETED, lambda: hand_clock.sleep(0.001))
    engine.run(range(3))
    assert engine.fired == 16
    _, event, total, *_ = profiler.get_results()[0]
    assert (event, total) == ("ITERATION_COMPLETED", pytest.approx(0.003))


def test_odd_handlers_are_called(both):
    """One without any attribute, and a closure that is filled later; neither is compared."""

    class Odd:
        def __getattr__(self, name):
            raise RuntimeError(name)

        def __call__(self):
            calls.append("odd")

    def handler():
        calls.append(later)

    engine, calls = Engine(nothing), []
    engine._event_handlers[Events.ITERATION_STARTED].append((Odd(), (), {}))
    attach(both, engine)
    engine.add_event_handler(Events.ITERATION_COMPLETED, handler)
    engine.add_event_handler(Events.ITERATION_COMPLETED(every=2), handler)
    later = torch.ones(2)
    engine.run(range(4))
    assert len(calls) == 10
    assert [one.count for one in both[1].stats() if one.kind == "handler"] == [4, 4, 2]


# ---------------------------------------------------------------- every length of data


class Endless(IterableDataset):
    def __iter__(self):
        return iter(range(4))


@pytest.mark.parametrize(
    ("data", "given", "expected"),
    [
        (range(5), {"max_epochs": 1, "epoch_length": 12}, 12),
        pytest.param(range(5), {"max_iters": 7}, 7, marks=NEWER),
        (lambda: DataLoader(Endless()), {"max_epochs": 2}, 8),
        (lambda: (number for number in range(5)), {"max_epochs": 1}, 5),
        (None, {"max_epochs": 2, "epoch_length": 3}, 6),
    ],
)
def test_the_length_of_the_data_need_not_be_known(profiler, data, given, expected, tmp_path):
    engine = Engine(nothing)
    profiler.attach(engine)
    engine.run(data() if callable(data) else data, **given)
    assert phase(profiler).count == expected
    if data is not None:  # older engines fetch even then
        assert phase(profiler, "dataflow").count == expected
    profiler.write_results(tmp_path / "wide.csv")
    assert len(csv_rows(tmp_path / "wide.csv")) == expected


def test_indices_and_numbers_of_slow_iterations(both, hand_clock):
    """The first batch has index 0 and iteration 1; resumed iterations keep their numbers."""

    def data():
        hand_clock.sleep(0.05)
        yield from range(10)

    engine = Engine(lambda engine, _: engine.state.iteration == 15 and hand_clock.sleep(0.05))
    basic, handlers = both
    attach(both, engine)
    engine.run(data(), epoch_length=10)
    assert basic.get_results()["dataflow_stats"]["max/index"][1] == 0
    assert handlers.get_results()[-1][4][1] == 0
    assert phase(basic, "dataflow").max_iteration == 1
    engine.load_state_dict({"iteration": 10, "epoch_length": 10, "max_epochs": 2})
    engine.run(range(10))
    assert basic.get_results()["processing_stats"]["max/index"][1] == 14
    assert handlers.get_results()[-2][4][1] == 14
    found = phase(basic)
    assert (found.max_epoch, found.max_iteration, found.count) == (2, 15, 10)


def test_rows_name_their_epoch_also_after_one_that_was_ended(tmp_path):
    engine, profiler = Engine(nothing), BasicTimeProfiler()
    profiler.attach(engine)
    engine.add_event_handler(Events.ITERATION_COMPLETED(once=2), engine.terminate_epoch)
    engine.run(range(9), max_epochs=2, epoch_length=5)
    profiler.write_results(tmp_path / "wide.csv")
    rows = csv_rows(tmp_path / "wide.csv")
    assert list(rows[0]) == WIDE
    places = [(row["epoch"], row["iteration"]) for row in rows]
    assert places == [("1" if number < 3 else "2", str(number)) for number in range(1, 8)]
    profiler.write_results(tmp_path / "long.csv", layout="long")
    long = [row for row in csv_rows(tmp_path / "long.csv") if row["kind"] == "processing"]
    assert [(row["epoch"], row["iteration"]) for row in long] == places


# ---------------------------------------------------------------- runs and engines


def test_an_evaluator_inside_a_handler_has_its_own_profiler(profiler):
    trainer, evaluator, other = Engine(nothing), Engine(nothing), type(profiler)()
    profiler.attach(trainer)
    with pytest.raises(ArgumentError, match="measures one engine; create another"):
        profiler.attach(evaluator)
    other.attach(evaluator)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run(range(3)))
    trainer.run(range(4), max_epochs=2)
    assert (phase(profiler).count, phase(other).count) == (8, 3)  # of its latest run
    profiler.detach(trainer)
    profiler.attach(evaluator)


def test_results_before_the_first_run(both, tmp_path, capsys):
    basic, handlers = both
    assert basic.stats() == handlers.stats() == []
    results = basic.get_results()
    assert results["processing_stats"] == {"total": "not yet triggered"}
    assert results["event_handlers_stats"]["total_time"].item() == 0
    assert "not yet triggered" in basic.print_results(results)
    handlers.print_results(handlers.get_results())
    assert "Processing None not triggered" in " ".join(capsys.readouterr().out.split())
    for one in both:
        one.write_results(tmp_path / "empty.csv")
        assert csv_rows(tmp_path / "empty.csv") == []
        assert one.largest_cost() == "Nothing has been timed yet."


@pytest.mark.parametrize("event", [Events.STARTED, Events.EPOCH_STARTED, Events.GET_BATCH_STARTED,
                                   Events.ITERATION_COMPLETED, Events.COMPLETED])  # fmt: skip
def test_results_at_any_moment(profiler, event, tmp_path):
    engine = Engine(nothing)
    profiler.attach(engine)

    @engine.on(event)
    def look():
        profiler.print_results(profiler.get_results())
        profiler.stats()
        profiler.table()
        profiler.write_results(tmp_path / "wide.csv")
        cells = [cell for row in csv_rows(tmp_path / "wide.csv") for cell in row.values()]
        assert all(float(cell) >= 0 for cell in cells)  # 0 where there is no time yet
        profiler.write_results(tmp_path / "long.csv", layout="long")

    engine.run(range(3), max_epochs=2)
    assert phase(profiler).count == 6


# ---------------------------------------------------------------- handlers and events


def test_handlers_added_during_the_run_are_measured(both, hand_clock):
    engine = Engine(nothing)
    attach(both, engine)

    def late():
        hand_clock.sleep(0.01)

    engine.add_event_handler(
        Events.ITERATION_COMPLETED(once=1),
        lambda: engine.add_event_handler(Events.ITERATION_COMPLETED, late),
    )
    engine.run(range(3))
    basic, handlers = both
    total = basic.get_results()["event_handlers_stats"]["ITERATION_COMPLETED"]["total"]
    assert total == pytest.approx(0.03)
    (row,) = [row for row in handlers.get_results() if row[0].endswith(".late")]
    assert row[2] == pytest.approx(0.03)
    assert counts(handlers)[row[0], "ITERATION_COMPLETED"] == 3  # 1 too: it came during the event


def test_handlers_that_come_and_go_have_one_row():
    engine, profiler, handles = Engine(nothing), HandlersTimeProfiler(), []
    profiler.attach(engine)

    @engine.on(Events.ITERATION_STARTED)
    def exchange():
        for handle in handles:
            handle.remove()
        handles[:] = [engine.add_event_handler(Events.ITERATION_COMPLETED(every=1), lambda: None)]

    engine.run(range(100))
    found = [one for one in profiler.stats() if one.event == "ITERATION_COMPLETED"]
    assert [one.count for one in found] == [100]


def test_calls_that_a_filter_lets_pass_are_counted_and_it_is_asked_once():
    engine, profiler, asked = Engine(nothing), HandlersTimeProfiler(), []
    profiler.attach(engine)
    seventh = Events.ITERATION_COMPLETED(event_filter=lambda _, i: asked.append(i) or i == 7)
    engine.add_event_handler(Events.ITERATION_COMPLETED(every=2), quick)
    engine.add_event_handler(seventh, rare)
    engine.add_event_handler(Events.EPOCH_COMPLETED(once=9), never)
    engine.run(range(100))
    found = counts(profiler)
    assert found["quick", "ITERATION_COMPLETED"] == 50
    assert found["rare", "ITERATION_COMPLETED"] == 1
    assert found["never", "EPOCH_COMPLETED"] == 0
    assert ["never", "EPOCH_COMPLETED", "not triggered"] in [r[:3] for r in profiler.get_results()]
    assert phase(profiler, "rare").max_iteration == 7
    assert asked[-100:] == [*range(1, 101)]  # Ignite itself tries the filter when it is made


def test_names_of_handlers():
    """Two of one name are kept apart; an object that can be called has that of its class."""

    class Saver:
        def __call__(self, engine):
            pass

    engine, profiler = Engine(nothing), HandlersTimeProfiler()
    engine.add_event_handler(Events.ITERATION_COMPLETED(every=2), Saver())
    profiler.attach(engine)
    for _ in range(2):
        engine.add_event_handler(Events.ITERATION_COMPLETED, lambda: None)
    engine.run(range(3))
    saver, first, second = (one.name for one in profiler.stats() if one.kind == "handler")
    assert saver == profiler.get_results()[0][0] == "Saver"
    assert second == f"{first} #2"


def test_a_handler_that_fires_an_event_keeps_its_time(both, hand_clock):
    """Its own time is that without the handlers of the event; nothing counts twice in totals."""
    engine = Engine(nothing)
    engine.register_events(*Custom)
    basic, handlers = both
    attach(both, engine)

    @engine.on(Events.EPOCH_COMPLETED)
    def outer():
        hand_clock.sleep(0.05)
        engine.fire_event(Custom.HAPPENED)

    @engine.on(Custom.HAPPENED)
    def inner():
        hand_clock.sleep(0.1)

    engine.run(range(2))
    stats = {one.name.rpartition(".")[2]: one for one in handlers.stats()}
    assert stats["outer"].total_s == pytest.approx(0.15)
    assert stats["outer"].self_s == pytest.approx(0.05)
    assert stats["inner"].self_s == stats["inner"].total_s == pytest.approx(0.1)
    results = basic.get_results()["event_handlers_stats"]
    assert results["total_time"].item() == pytest.approx(0.15)
    assert handlers.get_results()[-3][2] == pytest.approx(0.15)
    assert results["HAPPENED"]["total"] == pytest.approx(0.1)


def test_custom_events_of_a_step_are_measured(hand_clock):
    def step(engine, batch):
        engine.fire_event(Custom.HAPPENED)
        engine.fire_event("by_name")

    engine, profiler = Engine(step), HandlersTimeProfiler()
    engine.register_events(*Custom, "by_name")
    engine.add_event_handler(Custom.HAPPENED, lambda: hand_clock.sleep(0.01))
    engine.add_event_handler("by_name", quick)
    profiler.attach(engine)
    engine.run(range(3))
    events = {one.event: one for one in profiler.stats()}
    assert (events["HAPPENED"].count, events["by_name"].count) == (3, 3)
    assert events["HAPPENED"].max_iteration > 0
    found = phase(profiler)
    assert (found.count, found.self_s) == (3, 0)
    assert found.total_s == pytest.approx(0.03)


def test_core_events_fired_by_hand_make_no_rows(both, tmp_path):
    engine, basic = Engine(nothing), both[0]
    attach(both, engine)
    engine.add_event_handler(Events.EPOCH_COMPLETED, engine.fire_event, Events.ITERATION_STARTED)
    engine.run(range(3))
    basic.write_results(tmp_path / "wide.csv")
    assert len(csv_rows(tmp_path / "wide.csv")) == 3
    assert counts(basic)["ITERATION_STARTED", ""] == 4


@pytest.mark.parametrize(
    "outside", [Events.STARTED, Events.COMPLETED], ids=lambda event: event.value
)
def test_events_that_are_fired_outside_of_epochs_are_no_part_of_an_epoch(
    profiler, outside, hand_clock
):
    """As by a Checkpoint that saves at the end."""
    engine = Engine(nothing)
    engine.register_events(*Custom)
    engine.add_event_handler(Custom.HAPPENED, lambda: hand_clock.sleep(0.03))
    engine.add_event_handler(outside, lambda: engine.fire_event(Custom.HAPPENED))
    engine.add_event_handler(Events.EPOCH_STARTED(once=1), lambda: hand_clock.sleep(0.01))
    engine.add_event_handler(Events.EPOCH_STARTED(once=1), engine.fire_event, Custom.HAPPENED)
    profiler.attach(engine)
    engine.run(range(3), max_epochs=2)
    (happened,) = [one for one in profiler.stats() if Custom.HAPPENED.name in (one.name, one.event)]
    assert happened.count == 2
    breakdown = profiler._breakdown(profiler._times())
    in_parts = sum(seconds for _, seconds in breakdown.parts)  # of an epoch, of which there are two
    assert in_parts == pytest.approx(0.02)
    assert breakdown.whole_s == pytest.approx(0.02)
    assert "HAPPENED" in profiler.largest_cost()  # the one in an epoch


# ---------------------------------------------------------------- Ignite's shapes


def test_one_duration_has_all_numbers(both):
    """As several have; the deviation is 0, and indices are those of iterations or epochs."""
    engine = Engine(nothing)
    engine.add_event_handler(Events.EPOCH_COMPLETED, quick)
    attach(both, engine)
    engine.run(range(1))
    basic, handlers = both
    results = basic.get_results()
    for found in (
        results["processing_stats"],
        results["event_handlers_stats"]["EPOCH_COMPLETED"],
    ):
        assert found["total"] == found["mean"] == found["min/index"][0] == found["max/index"][0]
        assert (found["min/index"][1], found["std"]) == (0, 0.0)
    name, event, *numbers = handlers.get_results()[0]
    assert (name, event, numbers[1][1], numbers[4]) == ("quick", "EPOCH_COMPLETED", 0, "None")
    for one in (phase(basic), phase(handlers, "quick")):
        assert (one.count, one.std_s, one.p50_s, one.p99_s) == (1, 0.0, one.min_s, one.max_s)
        assert (one.max_epoch, one.max_iteration) == (1, 1)


def profiled(profiler, iterations):
    """Run an engine whose events happen never, once and often, with handlers and without."""
    engine = Engine(
        lambda engine, batch: engine.state.iteration > 1 or engine.fire_event(Custom.HAPPENED)
    )
    engine.register_events(*Custom)
    engine.add_event_handler(Events.TERMINATE, never)
    for event in (Events.STARTED, Events.ITERATION_COMPLETED, Custom.HAPPENED):
        engine.add_event_handler(event, quick)
    profiler.attach(engine)
    engine.run(range(iterations))
    return profiler


@pytest.mark.parametrize("iterations", [1, 3])
def test_basic_results_have_all_that_ignites_have(iterations, tmp_path):
    """A script that reads those reads ours; what there is more is listed in the documents."""
    theirs, ours = (
        profiled(kind(), iterations) for kind in (ignites.BasicTimeProfiler, BasicTimeProfiler)
    )
    expected, found = theirs.get_results(), ours.get_results()
    for name in ("processing_stats", "dataflow_stats"):
        assert set(found[name]) >= set(expected[name])
    stats = found["event_handlers_stats"]
    for name, given in expected["event_handlers_stats"].items():
        if name == "total_time":
            assert stats[name].item() >= 0
        else:
            assert set(stats[name]) >= set(given)
            assert type(stats[name]["total"]) is type(given["total"])
    assert set(stats) - set(expected["event_handlers_stats"]) == {"HAPPENED"}
    names = found["event_handlers_names"]
    assert names == {**expected["event_handlers_names"], "HAPPENED_names": ["quick"]}
    assert "['quick']" in ignites.BasicTimeProfiler.print_results(found)
    assert "['quick']" in BasicTimeProfiler.print_results(expected)
    check_files(theirs, ours, tmp_path)
    for name in ("processing_times", "dataflow_times"):
        assert getattr(ours, name).shape == getattr(theirs, name).shape
        assert getattr(ours, name).dtype == getattr(theirs, name).dtype
    assert (ours.max_epochs, ours.total_num_iters) == (theirs.max_epochs, theirs.total_num_iters)
    assert set(ours.events_to_ignore) == set(theirs.events_to_ignore)


@pytest.mark.parametrize("iterations", [1, 3])
def test_handlers_results_are_those_of_ignites(iterations, tmp_path):
    """Rows, their order and what each cell is, for handlers that were never called too."""
    theirs, ours = (
        profiled(kind(), iterations)
        for kind in (ignites.HandlersTimeProfiler, HandlersTimeProfiler)
    )
    expected, found = theirs.get_results(), ours.get_results()
    shapes = [
        [[*row[:2], *(type(cell) for cell in row[2:])] for row in rows]
        for rows in (expected, found)
    ]
    assert shapes[0] == shapes[1]
    assert ["never", "TERMINATE", "not triggered"] in [row[:3] for row in found]
    assert ours.event_handlers_names == theirs.event_handlers_names
    assert {event: list(each) for event, each in ours.event_handlers_times.items()} == {
        event: list(each) for event, each in theirs.event_handlers_times.items()
    }
    assert len(ours.processing_times) == len(ours.dataflow_times) == iterations
    assert len(ours.event_handlers_times[Events.STARTED]["quick"]) == 1
    assert ours.EVENT_FILTER_THESHOLD_TIME == theirs.EVENT_FILTER_THESHOLD_TIME
    rows = check_files(theirs, ours, tmp_path)
    assert [row["#"] for row in rows] == [str(number) for number in range(1, iterations + 1)]
    started = [float(row["quick (STARTED)"]) for row in rows]
    assert started[0]
    assert not any(started[1:])
    HandlersTimeProfiler.print_results(expected)
    ignites.HandlersTimeProfiler.print_results(found)


def check_files(theirs, ours, folder):
    """Check that files have the same columns and as many rows of numbers; return our rows."""
    theirs.write_results(folder / "theirs.csv")
    ours.write_results(folder / "ours.csv")
    expected, found = csv_rows(folder / "theirs.csv"), csv_rows(folder / "ours.csv")
    assert list(found[0]) == list(expected[0])
    assert len(found) == len(expected)
    assert all(float(cell) >= 0 for row in found for cell in row.values())
    return found


Many = EventEnum("Many", {f"MANY_{n}": f"many_{n}" for n in range(12)})


def test_a_printed_report_fits_a_terminal(both, capsys, monkeypatch, hand_clock):
    """The 15 with most time in 100 columns or those of the terminal, and where the others are."""
    engine = Engine(nothing)
    engine.register_events(*Many)
    for n, event in enumerate(Many):

        def handler():
            pass

        handler.__qualname__ = f"Net.a_name_of_{n}" + "_and_more" * 3 * n
        engine.add_event_handler(Events.ITERATION_COMPLETED, handler)
        engine.add_event_handler(event, handler)
    engine.add_event_handler(Events.EPOCH_COMPLETED, lambda: hand_clock.sleep(0.01))
    engine.add_event_handler(Events.STARTED, lambda: [engine.fire_event(one) for one in Many])
    attach(both, engine)
    engine.run(range(3), max_epochs=2)

    for columns, terminal in ((100, False), (80, True)):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys.stdout, "isatty", lambda terminal=terminal: terminal)
        results = [one.get_results() for one in both]
        basic, _ = [one.print_results(found) for one, found in zip(both, results, strict=True)]
        out = capsys.readouterr().out
        both[1].print_results(results[1])  # printing changes nothing
        assert capsys.readouterr().out.strip() == out.removeprefix(basic).strip()
        assert results[1] == both[1].get_results()
        assert max(map(len, out.splitlines())) <= columns
        assert "- Events.EPOCH_COMPLETED: [" in basic
        handlers = out.removeprefix(basic).splitlines()
        rules = [at for at, line in enumerate(handlers) if line and not line.strip("-")]
        rows = handlers[rules[1] + 1 : rules[2]]
        assert len(rows) == 15
        assert "EPOCH_COMPLETED" in rows[0]
        assert "and 11 more: in table()" in out
    assert all(str(one.table()).count("\n") > 15 for one in both)


def test_a_report_is_printed_where_a_name_cannot_be_encoded(profiler, monkeypatch):
    """It must not end a script after its training."""

    def handler():
        pass

    handler.__qualname__ = "größe"
    engine = Engine(nothing)
    engine.add_event_handler(Events.STARTED, handler)
    profiler.attach(engine)
    engine.run(range(2))
    written = io.BytesIO()
    stdout = io.TextIOWrapper(written, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stdout)
    profiler.print_results(profiler.get_results())
    stdout.flush()
    assert rb"gr\xf6\xdfe" in written.getvalue()


# ---------------------------------------------------------------- in a run


@pytest.fixture
def run(tmp_path):
    with init_run(root=tmp_path / "root", **QUIET) as run:
        yield run


def test_times_stand_in_the_run(run, profiler, tmp_path, hand_clock):
    """A row at the end at the latest; table, line and picture beside it."""
    engine = Engine(lambda engine, batch: hand_clock.sleep(0.001))
    profiler.attach(engine, run=run)
    engine.run(range(5), max_epochs=2)
    space = f"profiling/{kind_of(profiler)}"
    points = run[f"{space}/processing_s"].fetch_points()
    steps = points.step.tolist()
    assert steps == sorted(set(steps))
    assert (steps[0], steps[-1]) == (1.0, 10.0)  # more between, where all of it took a second
    assert points.value.tolist() == pytest.approx([0.001] * len(steps))
    assert run[f"{space}/largest_cost"].fetch().startswith("The largest cost is processing")
    assert counts_in(run, f"{space}/summary", tmp_path)["processing"] == 10
    assert not run.exists(f"{space}/GET_BATCH_STARTED_s")  # has no handlers
    profiler.to_run(run)  # adds no points to series that are there
    assert run[f"{space}/processing_s"].fetch_points().step.tolist() == steps


def test_times_can_be_recorded_afterwards(run, profiler, tmp_path):
    """Their summary; a profiler that measured nothing records nothing."""
    profiler.to_run(run)
    assert not run.exists("profiling")
    engine = Engine(nothing)
    engine.add_event_handler(Events.EPOCH_COMPLETED(every=2), quick)
    profiler.attach(engine)
    engine.run(range(5), max_epochs=2)
    profiler.to_run(run, namespace="times")
    space = f"times/{kind_of(profiler)}"
    assert run[f"{space}/largest_cost"].fetch().startswith("The largest cost is")
    assert counts_in(run, f"{space}/summary", tmp_path)["dataflow"] == 10


def test_training_goes_on_after_its_run_was_stopped(run, profiler, caplog):
    engine = Engine(nothing)
    engine.add_event_handler(Events.EPOCH_COMPLETED(once=1), run.stop)
    profiler.attach(engine, run=run)
    engine.run(range(3), max_epochs=3)
    assert phase(profiler).count == 9
    engine.run(range(3), max_epochs=4)
    assert not caplog.messages


def test_checkpoint_handlers_work_under_a_profiler(profiler, tmp_path, net):
    """A handler with an event of several names, and one that looks itself up."""
    engine = Engine(nothing)
    profiler.attach(engine)
    saver = Checkpoint({"net": net}, tmp_path, n_saved=2)
    engine.add_event_handler(Events.EPOCH_COMPLETED(every=1), saver)
    engine.run(range(2), max_epochs=3)
    assert len(list(tmp_path.glob("*.pt"))) == 2
