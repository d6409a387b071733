"""`run.progress`: how far loops are, for whoever looks; and `seamark.utils.every`."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from command import app
from recording import QUIET

import seamark
from seamark.errors import ArgumentError
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
                    shown = CliRunner().invoke(app, ["show", "far"]).output
                    assert "progress    epoch 1/4, batch 4/10, about 1" in shown
        assert told(run) == [("epoch", 4, 4)]
        assert (epochs.remaining_s, epochs.elapsed_s) == (0.0, 20.0)
    assert "progress  " not in CliRunner().invoke(app, ["show", "far"]).output


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
    often = every()(made.append)
    for at in range(21):
        often(at)
    assert made[-3:] == [0, 10, 20]
    for given in ({"calls": 1, "seconds": 1}, {"calls": 0}, {"calls": 1.5}, {"seconds": -1}):
        with pytest.raises(ArgumentError, match="every: "):
            every(**given)
    with pytest.raises(ArgumentError, match="every: expected a function"):
        every(calls=2)(3)

    class Holder:
        @every(calls=2)
        def method(self):
            """Do nothing."""

    with pytest.raises(ArgumentError, match="got a method"):
        Holder().method()
