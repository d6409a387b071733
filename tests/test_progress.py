"""`run.chrono`, `run.progress` and `seamark.utils.every`: times of blocks, and loops."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from command import outcome_of
from recording import QUIET

import seamark
from seamark.errors import ArgumentError, PathError
from seamark.reading.facts import loops_of, progress_words
from seamark.utils import every


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("seamark.run.chrono.perf_counter", lambda: now[0])

    def wait(seconds):
        now[0] += seconds

    return wait


def told(run):
    return [(one["name"], one["done"], one["total"]) for one in run["sys/progress"].fetch()]


def test_others_see_all_loops_while_the_run_lives(clock):
    with seamark.init_run(**QUIET, name="far") as run:
        epochs = run.progress(range(4), "epoch")
        for epoch in epochs:
            for batch in run.progress(range(10), "batch"):
                clock(0.5)
                if (epoch, batch) == (1, 4):
                    assert told(run) == [("epoch", 1, 4), ("batch", 4, 10)]
                    assert (epochs.elapsed_s, epochs.done) == (7.5, 1)
                    assert epochs.remaining_s == pytest.approx(7.5 * (4 - 1.4) / 1.4)
                    shown = outcome_of("show", "far").output
                    assert "progress    epoch 1/4, batch 4/10, about 1" in shown
        assert told(run) == [("epoch", 4, 4)]
        assert (epochs.remaining_s, epochs.elapsed_s) == (0.0, 20.0)
    assert "progress  " not in outcome_of("show", "far").output


def test_after_a_resume_the_pace_is_that_of_this_process(clock):
    with seamark.init_run(**QUIET) as run:
        loop = run.progress(range(90, 100), "epoch", start=90)
        assert (loop.total, len(loop), loop.remaining_s) == (100, 10, None)
        for epoch in loop:
            if epoch == 95:
                assert (loop.done, loop.remaining_s) == (95, 50.0)
            clock(10.0)
        assert list(run.progress(iter("abc"), "letters", total=3)) == ["a", "b", "c"]
        unknown = run.progress(iter("abc"), "letters")
        assert (unknown.total, unknown.remaining_s) == (None, None)
        with pytest.raises(TypeError, match="'letters': the number of iterations"):
            len(unknown)


def test_loops_that_are_left_early_end(clock, capsys):
    with seamark.init_run(**QUIET) as run:
        for _ in run.progress(range(5), "a"):
            for _ in run.progress(range(5), "b"):
                break
            with pytest.raises(ZeroDivisionError):
                [1 / each for each in run.progress(range(5), "c")]
            run.progress(range(2), "d").show()
            break
        for _ in (loop := run.progress(range(2), "e")):
            clock(1.0)
            loop.show("now")
    assert capsys.readouterr().out.splitlines() == [
        "d 0/2",
        "e 0/2  now",
        "e 1/2, about 2.0 s left  now",
    ]


def test_mistakes_are_refused_and_odd_records_are_left_out():
    with seamark.init_run(mode="disabled") as run:
        for given, complaint in (
            (([1], ""), "name: expected the name of the loop"),
            ((3, "a"), "expected an iterable"),
            (("abc", "a"), "expected an iterable"),
        ):
            with pytest.raises(ArgumentError, match=complaint):
                run.progress(*given)
        for given in ({"total": -1}, {"start": 1.5}, {"total": True}):
            with pytest.raises(ArgumentError, match="expected a whole number of at least 0"):
                run.progress([1], "a", **given)
        assert list(run.progress([1, 2], "a")) == [1, 2]
    odd = [3, {"name": 3}, {"name": "a", "done": "x"}, {"name": "b", "done": 1, "remaining_s": "x"}]
    assert progress_words(loops_of(odd)) == "b 1"
    assert loops_of({"name": "a"}) == loops_of(None) == []


def test_every_makes_the_first_call_some_others_and_the_last(monkeypatch):
    now, made = [100.0], []
    monkeypatch.setattr("seamark.utils.time.monotonic", lambda: now[0])

    @every(calls=3)
    def counted(number, *, more=0):
        made.append(number + more)
        return number

    assert [counted(at, more=1) for at in range(5)] == [0, None, None, 3, None]
    assert (counted.flush(), counted.flush(), made) == (4, None, [1, 4, 5])
    assert counted.__name__ == "counted"
    timed = every(seconds=2)(made.append)
    for at in range(10, 16):
        timed(at)
        now[0] += 1.0
    assert made[3:] == [10, 12, 14]
    timed.flush()
    assert made[-1] == 15
    for given in ({"calls": 1, "seconds": 1}, {"calls": 0}, {"calls": 1.5}, {"seconds": -1}):
        with pytest.raises(ArgumentError, match="every: "):
            every(**given)
    with pytest.raises(ArgumentError, match="every: expected a function"):
        every(calls=2)(3)


@pytest.fixture
def block_clock(monkeypatch):
    now = [10**12]
    monkeypatch.setattr("seamark.run.chrono.perf_counter_ns", lambda: now[0])

    def wait(seconds):
        now[0] += round(seconds * 1e9)

    return wait


def sums(run, *names):
    found = [run[f"chronos/{name}"].fetch() for name in names]
    return [(each.count, each.sum) for each in found]


def test_blocks_are_kept_below_the_block_that_they_are_in(run, block_clock):
    """With the time of what happens inside; a decorated function is a block where it is called."""

    @run.chrono("load")
    def load(seconds, *, result=None):
        """Load."""
        block_clock(seconds)
        return result

    @run.chrono("walk")
    def walk(depth):
        block_clock(1.0)
        if depth:
            with run.chrono("step"):
                walk(depth - 1)

    assert load.__doc__ == "Load."
    assert load(1.0, result=7) == 7
    for _ in range(3):
        with run.chrono("batch"):
            block_clock(0.5)
            load(0.25)
            with run.chrono("forward/pass"), run.chrono("layer"):
                block_clock(1.0)
    assert sums(run, "load", "batch", "batch/load") == [(1, 1.0), (3, 5.25), (3, 0.75)]
    assert sums(run, "batch/forward/pass", "batch/forward/pass/layer") == [(3, 3.0), (3, 3.0)]
    walk(100)  # a block inside itself counts at its one path
    assert sums(run, "walk", "walk/step")[0][0] == 101
    assert sorted(run["chronos"]) == ["batch", "load", "walk"]


def test_an_exception_inside_a_block_goes_on_and_its_time_counts(run, block_clock):
    error = KeyError("lost")

    @run.chrono("inner")
    def fail():
        block_clock(2.0)
        raise error

    with pytest.raises(KeyError) as caught, run.chrono("outer"):
        fail()
    assert caught.value is error
    with run.chrono("inner"):
        block_clock(1.0)
    assert sums(run, "outer", "outer/inner", "inner") == [(1, 2.0), (1, 2.0), (1, 1.0)]


def test_blocks_of_threads_are_not_nested(run):
    chrono, barrier = run.chrono("work"), threading.Barrier(4)

    def work(_):
        for _ in range(50):
            with chrono:
                barrier.wait()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert run["chronos/work"].fetch().count == 200
    assert sorted(run["chronos"]) == ["work"]


def test_on_start_is_not_timed_and_on_end_is(run, block_clock):
    with run.chrono("a", on_start=lambda: block_clock(4.0), on_end=lambda: block_clock(8.0)):
        block_clock(1.0)
    with run.chrono("b", keep=seamark.Ring(2)):
        block_clock(3.0)
    assert sums(run, "a") == [(1, 9.0)]
    assert run["chronos/b"].fetch().values == [3.0]


def test_a_mistake_is_refused_where_it_is_made(run):
    async def later():
        pass

    for name in ("", "a//b", 3):
        with pytest.raises(PathError, match="path: expected"):
            run.chrono(name)
    for given, complaint in (
        ({"cuda": "on"}, "cuda: expected one of 'off'"),
        ({"on_start": 3}, "on_start: expected a function"),
        ({"keep": "mean"}, "keep: expected Statistics"),
    ):
        with pytest.raises(ArgumentError, match=complaint):
            run.chrono("a", **given)
    for function, complaint in (
        (later, "does not run when it is called"),
        (3, "expected a function to decorate"),
    ):
        with pytest.raises(ArgumentError, match=complaint):
            run.chrono("a")(function)


def test_a_block_that_cannot_be_recorded_raises_nothing(caplog):
    with seamark.init_run(mode="disabled") as disabled, disabled.chrono("a"):
        pass
    run = seamark.init_run(**QUIET)
    run["chronos/taken"] = 5
    with run.chrono("taken"):
        pass
    assert "'chronos/taken' holds a single value" in caplog.text
    run.stop()
    with run.chrono("late"):
        pass
    again = seamark.init_run(with_id=run.id, mode="read-only")
    with again.chrono("late"):
        pass
    assert not again.exists("chronos/late")


def test_without_a_device_wall_time_is_taken_and_one_warning_says_so(run, block_clock, caplog):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a device")
    for cuda in ("events", "synchronize"):
        with run.chrono(cuda, cuda=cuda):
            block_clock(1.0)
    assert sums(run, "events", "synchronize") == [(1, 1.0), (1, 1.0)]
    assert caplog.text.count("there is no CUDA device") == 1


@pytest.mark.gpu
def test_events_time_the_work_of_the_device_and_not_its_launch(run):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no device")
    matrix = torch.randn(4096, 4096, device="cuda")
    for cuda in ("events", "synchronize", "off"):
        for _ in range(20):
            with run.chrono(cuda, cuda=cuda):
                _ = matrix @ matrix
        torch.cuda.synchronize()
    run.session.ending.rest("completed")
    found = {name: run[f"chronos/{name}"].fetch() for name in ("events", "synchronize", "off")}
    assert {each.count for each in found.values()} == {20}
    assert found["events"].min > 0
    assert found["events"].min <= found["synchronize"].max
