"""Where attempts begin in a series: exactly, on both engines, and little is read for it."""

from __future__ import annotations

import numpy as np
import pytest

from seamark.errors import ArgumentError, PathError

S = 10**9


@pytest.fixture(params=["groups", "tails"])
def packed(request, set_groups):
    """Series in many small groups, or only in the journals themselves."""
    set_groups(64, 0 if request.param == "groups" else 1 << 30)


def expected(reader, path):
    """Return where attempts begin, of all points that are shown."""
    points, found = reader.points(path), {}
    for at in np.lexsort((points.step, points.time_ns)).tolist():
        number = int(points.attempt[at])
        if number >= 0 and number not in found:
            found[number] = (number, float(points.step[at]), int(points.time_ns[at]))
    return [found[number] for number in sorted(found)]


def begun(reader, path):
    """Return where attempts begin, as a reader says."""
    found = reader.begins([path], "step").get(path, [])
    return [(one.attempt, one.step, one.time_ns) for one in found]


@pytest.fixture
def history(builder):
    """Four attempts of two ranks; the second is replaced whole, one rank records a path later."""
    first = builder("a", attempt=0)
    for step in range(300):
        first.row({"loss": 1.0 * step, "acc": step / 2}, step)
    there = first.offset
    for step in range(300, 340):
        first.row({"loss": 1.0, "acc": 2.0}, step)
    second = builder("b", attempt=1, positions={first.writer: there}, t=first.t + S)
    here = second.offset
    for step in range(300, 500):
        second.row({"loss": 3.0}, step)
    third = builder("c", attempt=2, positions={first.writer: there, second.writer: here})
    third.t = second.t + S
    beside = builder("d", attempt=2, owner=False, rank=1, t=third.t - S // 2)
    beside.row({"monitoring/cpu": 1.0}, 0)
    third.row({"loss": 5.0}, 310.5)
    beside.wait(S)
    for step in range(311, 450):
        third.row({"loss": float(step)}, step)
        beside.row({"loss": -1.0, "acc": 0.25}, step + 0.5)
    ends = {one.writer: one.offset for one in (first, third, beside)} | {second.writer: here}
    last = builder("e", attempt=3, positions=ends, t=beside.t + 10 * S)
    last.column("loss", [450.0, 451.0, 460.0], [1.0, 2.0, 3.0])
    return [first, second, third, beside, last]


@pytest.mark.usefixtures("packed")
def test_each_attempt_begins_with_its_first_point(store, engines, history):
    """Whatever was folded when; one of which nothing is shown does not begin."""
    for share in (0.2, 0.6, 1.0):
        engines.fold(store, "r", history, [int(one.offset * share) for one in history])
    reader = engines.look(store, "r", history)
    found = begun(reader, "loss")
    assert found == expected(reader, "loss")
    assert [one[:2] for one in found] == [(0, 0.0), (2, 310.5), (3, 450.0)]
    assert begun(reader, "acc") == expected(reader, "acc")
    assert [one[0] for one in begun(reader, "acc")] == [0, 2]
    assert set(reader.begins(["loss", "never/was", "acc"])) == {"loss", "acc"}


@pytest.mark.usefixtures("packed")
def test_an_earlier_attempt_of_which_a_process_goes_on_may_begin_later(store, engines, builder):
    first = builder("a", attempt=0)
    first.row({"acc": 1.0}, 0)
    second = builder("b", attempt=1, t=first.t + S)
    late = builder("c", attempt=0, owner=False, rank=1, t=second.t + 2 * S)
    for step in range(200):
        second.row({"loss": 1.0}, step)
        late.row({"loss": 2.0}, step + 0.5)
    reader = engines.fold(store, "r", [first, second, late])
    assert begun(reader, "loss") == expected(reader, "loss")
    assert [one[:2] for one in begun(reader, "loss")] == [(0, 0.5), (1, 0.0)]


@pytest.mark.usefixtures("packed")
def test_a_series_that_is_recorded_anew_begins_there(store, engines, builder):
    journal = builder("a", attempt=1)
    for step in range(300):
        journal.row({"loss": 1.0}, step)
    journal.op("delete", paths=["loss"])
    for step in range(500, 900):
        journal.row({"loss": 2.0}, step)
    reader = engines.fold(store, "r", [journal])
    assert begun(reader, "loss") == expected(reader, "loss")
    assert begun(reader, "loss")[0][:2] == (1, 500.0)


@pytest.mark.usefixtures("packed")
def test_a_beginning_has_the_time_that_its_point_was_given(store, engines, builder):
    journal = builder("a", attempt=0)
    journal.row({"loss": 1.0}, 7, time=5 * S)
    for step in range(200):
        journal.row({"loss": 1.0}, step)
    journal.row({"loss": 1.0}, 300, time=2 * S)
    assert begun(engines.fold(store, "r", [journal]), "loss") == [(0, 7.0, 5 * S)]


@pytest.mark.usefixtures("packed")
def test_attempts_have_a_place_on_every_axis_of_a_picture(store, engines, history):
    """As a drawing places the points; along another series, where that has a finite value."""
    last = history[-1]
    last.column("epoch", [449.0, 450.5], [9.0, float("nan")])
    reader = engines.fold(store, "r", history)

    def places(x):
        return [one.x for one in reader.begins(["loss"], x)["loss"]]

    times = [time for *_, time in begun(reader, "loss")]
    created = min(one.said[0].t for one in history)
    assert places("step") == [0.0, 310.5, 450.0]
    assert places("time") == [time / 1e9 for time in times]
    assert places("relative") == [(time - created) / 1e9 for time in times]
    assert places("epoch") == [None, None, 9.0]
    assert places("never/was") == [None] * 3
    with pytest.raises(ArgumentError, match="order"):
        reader.begins(["loss"], "order")
    with pytest.raises(PathError):
        reader.begins(["loss"], "not//a/path")
