"""`run.chrono`: where the times of blocks are kept, whatever the blocks do."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from recording import QUIET

import seamark
from seamark.errors import ArgumentError, PathError


@pytest.fixture
def run():
    with seamark.init_run(**QUIET) as one:
        yield one


@pytest.fixture
def clock(monkeypatch):
    now = [10**12]
    monkeypatch.setattr("seamark.run.chrono.perf_counter_ns", lambda: now[0])

    def wait(seconds):
        now[0] += round(seconds * 1e9)

    return wait


def sums(run, *names):
    found = [run[f"chronos/{name}"].fetch() for name in names]
    return [(each.count, each.sum) for each in found]


def test_blocks_are_kept_below_the_block_that_they_are_in(run, clock):
    """With the time of what happens inside; a decorated function is a block where it is called."""

    @run.chrono("load")
    def load(seconds, *, result=None):
        """Load."""
        clock(seconds)
        return result

    @run.chrono("walk")
    def walk(depth):
        clock(1.0)
        if depth:
            with run.chrono("step"):
                walk(depth - 1)

    assert load.__doc__ == "Load."
    assert load(1.0, result=7) == 7
    for _ in range(3):
        with run.chrono("batch"):
            clock(0.5)
            load(0.25)
            with run.chrono("forward/pass"), run.chrono("layer"):
                clock(1.0)
    assert sums(run, "load", "batch", "batch/load") == [(1, 1.0), (3, 5.25), (3, 0.75)]
    assert sums(run, "batch/forward/pass", "batch/forward/pass/layer") == [(3, 3.0), (3, 3.0)]
    walk(100)  # a block inside itself counts at its one path
    assert sums(run, "walk", "walk/step")[0][0] == 101
    assert sorted(run["chronos"]) == ["batch", "load", "walk"]


def test_an_exception_inside_a_block_goes_on_and_its_time_counts(run, clock):
    error = KeyError("lost")

    @run.chrono("inner")
    def fail():
        clock(2.0)
        raise error

    with pytest.raises(KeyError) as caught, run.chrono("outer"):
        fail()
    assert caught.value is error
    with run.chrono("inner"):
        clock(1.0)
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


def test_blocks_of_generators_may_end_in_another_order(run, clock):
    def rows():
        with run.chrono("rows"):
            yield 1

    one = rows()
    next(one)
    with run.chrono("other"):
        clock(1.0)
        one.close()
        clock(2.0)
    assert sums(run, "rows", "rows/other") == [(1, 1.0), (1, 3.0)]


def test_on_start_is_not_timed_and_on_end_is(run, clock):
    with run.chrono("a", on_start=lambda: clock(4.0), on_end=lambda: clock(8.0)):
        clock(1.0)
    with run.chrono("b", keep=seamark.Ring(2)):
        clock(3.0)
    assert sums(run, "a") == [(1, 9.0)]
    assert run["chronos/b"].fetch().values == [3.0]


def test_a_mistake_is_refused_where_it_is_made(run):
    async def later():
        pass

    def numbers():
        yield 1

    for name in ("", "a//b", "/a", 3):
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
        (numbers, "does not run when it is called"),
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


def test_without_a_device_wall_time_is_taken_and_one_warning_says_so(run, clock, caplog):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a device")
    for cuda in ("events", "synchronize"):
        with run.chrono(cuda, cuda=cuda):
            clock(1.0)
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
