"""Figures of runs: what is drawn, how it is called, and how it follows a run."""

from __future__ import annotations

import json
import math
import shutil

import numpy as np
import pytest
from recording import QUIET

from seamark import init_project, init_run
from seamark.errors import ArgumentError, MissingFieldError, PathError
from seamark.pictures.drawing import follow
from seamark.pictures.plots import COLOURS, slots
from seamark.reading.names import generated_name

pytest.importorskip("plotly")


@pytest.fixture
def record(tmp_path):
    """Record a run, and leave it open."""
    opened = []

    def record_one(values, *, name=None, project="team/x", path="val/loss", steps=None):
        run = init_run(project, name=name, root=tmp_path, **QUIET)
        run[path].extend(values, steps=steps)
        opened.append(run)
        return run

    yield record_one
    for run in opened:
        run.stop()


@pytest.fixture
def project(tmp_path):
    with init_project("team/x", root=tmp_path) as opened:
        yield opened


def lines_of(figure):
    """Return what is drawn as lines: not bands, not marks."""
    return [one for one in figure.data if one.mode.startswith("lines") and one.hoverinfo != "skip"]


def test_a_series_is_drawn_as_it_is(record):
    """A short one point by point; the figure is one that a notebook shows."""
    run = record([3.0, 2.0, 1.0], name="quick-otter")
    figure = run.plot("val/loss")
    (line,) = lines_of(figure)
    assert (line.x.tolist(), line.y.tolist()) == ([0, 1, 2], [3, 2, 1])
    assert line.name == "val/loss"
    assert figure.layout.title.text == "quick-otter"
    assert figure.layout.xaxis.title.text == "step"
    assert json.loads(figure.to_json()) == json.loads(run["val/loss"].plot().to_json())
    assert run["val"].plot().data[0].name == "val/loss"


def test_a_long_series_is_drawn_from_its_parts(record, monkeypatch):
    """Each spike is on it, and its points are never read as a whole."""
    value = np.zeros(50_000)
    value[[123, 45_678]] = 7.0
    run = record(value.tolist())
    monkeypatch.setattr(type(run.session.recorded.view()), "many_points", None)
    (line,) = lines_of(run.plot("val/loss", points=200))
    assert len(line.x) <= 200
    assert set(line.x[line.y == 7]) == {123, 45_678}


@pytest.mark.parametrize("x", ["step", "time", "count"])
def test_a_line_has_its_first_and_last_point(record, x):
    """Which are no extremes of their parts; what is not finite is none of them."""
    value = np.random.default_rng(5).normal(size=20_000)
    value[[0, -1]] = [math.nan, math.inf]
    value[[1, -2]] = [0.001, 0.002]
    run = record(value.tolist())
    run["count"].extend([float(at) for at in range(20_000)])
    (line,) = lines_of(run.plot("val/loss", x=x, points=100))
    finite = line.y[np.isfinite(line.y)]
    assert (finite[0], finite[-1]) == (0.001, 0.002)
    assert len(line.x) <= 102
    assert (np.diff(line.x) >= np.zeros(1, np.diff(line.x).dtype)).all()
    if x != "time":
        assert line.x[np.isfinite(line.y)][[0, -1]].tolist() == [1, 19_998]


def test_a_smoothed_line_is_the_mean_of_all_points(record):
    """With a band from the smallest to the largest, and the width of the window in words."""
    value = np.random.default_rng(3).normal(size=20_000)
    run = record(value.tolist())
    figure = run.plot("val/loss", smooth=500, points=300)
    low, high, line = figure.data
    assert "mean of 500 steps" in figure.layout.title.text
    finer = lines_of(run.plot("val/loss", smooth=500, points=2000))[0]
    assert len(finer.x) > 4 * len(line.x)
    for drawn in (line, finer):
        for x, y in zip(drawn.x.tolist(), drawn.y.tolist(), strict=True):
            start, end = max(0, math.ceil(x - 250)), math.ceil(x + 250)
            assert y == pytest.approx(value[start:end].mean(), abs=1e-12)
    assert (low.y.min(), high.y.max()) == (value.min(), value.max())


def test_passes_over_the_same_steps_are_said(record):
    """Where one place in the picture holds points of several of them."""
    run = record([1.0, 2.0, 3.0] * 100, steps=[0, 1, 2] * 100)
    assert lines_of(run.plot("val/loss"))[0].name == "val/loss"
    assert lines_of(run.plot("val/loss", smooth=2))[0].name == "val/loss (steps go back)"
    assert lines_of(run.plot("val/loss", points=10))[0].name == "val/loss (steps go back)"


def test_what_is_not_finite_is_marked(record):
    """NaN and both infinities, also of a long series; left-out points are counted."""
    value = np.ones(20_000)
    value[[5, 6000, 9000]] = [math.nan, math.inf, -math.inf]
    run = record(value.tolist())
    marks = {one.name: one.x.tolist() for one in run.plot("val/loss").data if one.mode == "markers"}
    assert marks["+inf"] == [6000]
    assert marks["-inf"] == [9000]
    assert len(marks["NaN"]) == 1
    run["signed"].extend([1.0, 0.0, -1.0])
    assert "2 points have no place" in run.plot("signed", log_y=True).layout.title.text


def test_axes(record):
    """Steps, clock time, time since the run began, another series; logarithmic ones."""
    run = record([float(at) for at in range(1, 200)])
    run["epoch"].extend([0.0, 1.0, 2.0], steps=[0, 50, 100])
    assert run.plot("val/loss", x="time").layout.xaxis.type == "date"
    relative = run.plot("val/loss", x="relative")
    assert 0 <= lines_of(relative)[0].x[0] < 60
    assert relative.layout.xaxis.title.text == "elapsed time, s"
    epochs = run.plot("val/loss", x="epoch", smooth=0.5)
    assert set(lines_of(epochs)[0].x.tolist()) == {0, 1, 2}
    assert "mean of 0.5 units of epoch" in epochs.layout.title.text
    log = run.plot("val/loss", log_x=True, log_y=True).layout
    assert (log.xaxis.type, log.yaxis.type) == ("log", "log")


def test_runs_are_told_apart(record, project):
    """By their names and by colours that stay theirs; of one name, also by their ids."""
    one, two = record([1.0], name="one"), record([2.0], name="two")
    twins = [record([3.0], name="twin") for _ in range(2)]
    lines = {line.name: line for line in lines_of(project.plot("val/loss"))}
    assert set(lines) == {"one", "two", *(f"twin ({run.id})" for run in twins)}
    found = project.plot("val/loss", runs=[one.id, two.id])
    assert [line.name for line in lines_of(found)] == ["one", "two"]
    assert found.layout.title.text == "val/loss"
    keys = [f"team/x/{run.id}" for run in (one, two)]
    colours = slots(keys)
    assert [line.line.color for line in lines_of(found)] == [COLOURS[colours[key]] for key in keys]
    table = project.fetch_runs_table(sort_by="sys/name", ascending=True)
    found = lines_of(project.plot("val/loss", runs=table[:2]))
    assert [line.name.split()[0] for line in found] == ["one", "twin"]
    for same in (table[0], [one, "one", one.id]):
        assert len(lines_of(project.plot("val/loss", runs=same))) == 1
        assert {row["run"] for row in project.fetch_series("val/loss", same)} == {one.id}
    by_query = project.plot("val/loss", runs='sys/name = "two"')
    assert len(lines_of(by_query)) == 1


def test_runs_of_one_id_are_two_runs(tmp_path):
    """A copy in another project has the id of its original."""
    with init_run("team/x", root=tmp_path, **QUIET) as run:
        run["val/loss"].append(1.0)
    shutil.copytree(run.folder.path, tmp_path / "team" / "y" / run.id)
    with init_project("team", root=tmp_path) as project:
        lines = lines_of(project.plot("val/loss"))
    assert {line.name for line in lines} == {
        f"team/{place}/{generated_name(run.id)}" for place in ("x", "y")
    }
    assert len({line.line.color for line in lines}) == 2


def test_several_series_of_several_runs(record, project):
    """One colour a run, one kind of line a series."""
    for name in ("one", "two"):
        record([1.0, 2.0], name=name)["train/loss"].extend([1.0, 2.0])
    lines = lines_of(project.plot("*/loss"))
    assert len({line.line.color for line in lines}) == 2
    assert {(line.name.split()[1], line.line.dash) for line in lines} == {
        ("train/loss", "solid"),
        ("val/loss", "dash"),
    }


def test_a_run_without_the_series_is_left_out(record, project):
    """As long as another one has it."""
    record([1.0], name="one")
    record([1.0], name="two", path="train/loss")
    assert len(lines_of(project.plot("val/loss"))) == 1


def test_mistakes_are_told_at_once(record, project):
    """Before anything is drawn: which series, which number, which axis, and the nearest name."""
    run = record([1.0])
    with pytest.raises(MissingFieldError, match=r"'val/los' in run .* did you mean 'val/loss'"):
        run.plot("val/los")
    with pytest.raises(MissingFieldError, match=r"'valloss' in the runs of project 'team/x'"):
        project.plot("valloss")
    for no_series in ("epohc", "val"):
        with pytest.raises(MissingFieldError, match=f"{no_series!r} in run"):
            run.plot("val/loss", x=no_series)
    record([1.0], path="epoch")
    with pytest.raises(MissingFieldError, match="both 'val/loss' and x='epoch'"):
        project.plot("val/loss", x="epoch")
    for read in (project.plot, project.fetch_series):
        with pytest.raises(ArgumentError, match="runs: no runs were given"):
            read("val/loss", runs=[])
        with pytest.raises(ArgumentError, match=r"rows of a table or runs, got dict: {'a': 1}"):
            read("val/loss", runs={"a": 1})
    with pytest.raises(ArgumentError, match="which series"):
        run.plot()
    with pytest.raises(ArgumentError, match=r"expected paths .* got int: 3"):
        run.plot(3)
    with pytest.raises(PathError):
        run.plot("val/loss", x="a//b")
    with pytest.raises(ArgumentError, match="logarithm"):
        run.plot("val/loss", x="time", log_x=True)
    with pytest.raises(ArgumentError, match="points"):
        run.plot("val/loss", points=1)
    with pytest.raises(ArgumentError, match="outside of a notebook"):
        run.plot("val/loss", refresh=2)


def test_a_window_is_a_number_of_steps(record):
    """Not the weight of an average."""
    run = record([1.0])
    for smooth in [0, 0.9, -1, math.nan, math.inf, True, "500"]:
        with pytest.raises(ArgumentError, match="smooth: expected a number of steps, at least 1"):
            run.plot("val/loss", smooth=smooth)


def test_refreshing_has_a_rate(record):
    run = record([1.0])
    for refresh in [0, -1, math.nan, math.inf, True, "2"]:
        with pytest.raises(ArgumentError, match="refresh: expected seconds"):
            run.plot("val/loss", refresh=refresh)


def test_too_many_curves_are_said(record, caplog):
    """What is left out is no secret."""
    run = record([1.0])
    run.log_metrics({f"m/{at}": 1.0 for at in range(30)})
    assert len(lines_of(run.plot("m"))) == 20
    assert "20 of 30 curves" in caplog.text


@pytest.fixture
def many(tmp_path):
    """Record 50 runs, of which the middle 25 have the series, and the first ten another one."""
    ids = []
    for at in range(50):
        with init_run("team/x", root=tmp_path, **QUIET) as run:
            run["other"].append(1.0)
            if at < 10:
                run["old/loss"].append(1.0)
            if 10 <= at < 35:
                run["val/loss"].append(1.0)
        ids.append(run.id)
    return ids


def test_of_many_runs_those_with_the_series_are_drawn(many, project, caplog):
    """The newest ones, wherever they stand among the others."""
    table = project.fetch_runs_table(sort_by="sys/creation_time")
    of_them = [row for row in table if row["sys/id"] in many[10:35]]
    for runs in (None, "other:last >= 0", table):
        caplog.clear()
        lines = lines_of(project.plot("val/loss", runs=runs))
        names = {line.name.partition(" (")[0] for line in lines}  # two may have drawn one name
        assert names == {generated_name(row["sys/id"]) for row in of_them[:20]}
        assert len(lines) == 20
        order = "first" if runs is table else "newest"
        assert f"drawing the {order} 20 of 25 runs that have it" in caplog.text
    caplog.clear()
    assert len(lines_of(project.plot("old"))) == 10
    assert not caplog.records
    with pytest.raises(MissingFieldError, match="'nope' in the runs of project 'team/x'"):
        project.plot("nope")
    with pytest.raises(MissingFieldError, match="newest 20 of 35 runs that have it among the runs"):
        project.plot("val/loss", "old/loss")
    with pytest.raises(MissingFieldError, match="both 'val/loss' and x='old/loss'"):
        project.plot("val/loss", x="old/loss")


def test_what_is_left_out_is_said_once(many, project, record, caplog, monkeypatch):
    """At the first picture, and not again and again while the runs go on."""
    del many
    record([1.0], path="only/this")
    run = record([1.0])
    run.log_metrics({f"m/{at}": 1.0 for at in range(30)})
    shown = []

    def three_times(draw, *_):
        shown.extend(draw() for _ in range(3))

    monkeypatch.setattr("seamark.pictures.drawing.follow", three_times)
    monkeypatch.setattr("seamark.pictures.drawing._display", lambda: None)
    project.plot("val/loss", refresh=2)
    assert caplog.text.count("20 of 26 runs") == 1
    project.plot("m", refresh=2)
    assert caplog.text.count("20 of 30 curves") == 1
    assert len(shown) == 6


def test_a_new_run_is_waited_for(many, project, record):
    """It has nothing to draw yet, and many others do."""
    del many
    record([1.0], path="only/this")
    drawn = []

    def once(draw, *_):
        drawn.append(draw())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seamark.pictures.drawing.follow", once)
        patch.setattr("seamark.pictures.drawing._display", lambda: None)
        project.plot("val/loss", refresh=2)
    assert drawn[0][1] is True


def test_a_run_is_drawn_again_until_it_ends(record, monkeypatch):
    """And once it has ended no more."""
    run, drawn = record([1.0]), []
    monkeypatch.setattr("seamark.pictures.drawing.follow", lambda draw, *_: drawn.append(draw()))
    monkeypatch.setattr("seamark.pictures.drawing._display", lambda: None)
    run.plot("val/loss", refresh=2)
    run.stop()
    run.plot("val/loss", refresh=2)
    assert [goes_on for _, goes_on in drawn] == [True, False]


def test_a_silent_run_draws_nothing(tmp_path):
    """Code that runs on all ranks does not fail on some of them."""
    run = init_run(root=tmp_path, mode="disabled", **QUIET)
    assert len(run.plot("val/loss").data) == 0


# ---------------------------------------------------------------------- again and again


def test_a_picture_is_drawn_until_the_run_ends():
    """Once more after it has, and never again."""
    states = iter([True, True, False])
    shown, waited = [], []
    follow(lambda: (len(shown), next(states)), 2.5, shown.append, waited.append)
    assert shown == [0, 1, 2]
    assert waited == [2.5, 2.5]


def test_an_interrupt_ends_the_looking_and_nothing_else():
    """While it waits as while it draws."""
    shown = []

    def interrupted(_):
        raise KeyboardInterrupt

    follow(lambda: ("picture", True), 1.0, shown.append, interrupted)
    assert shown == ["picture"]
    follow(lambda: interrupted(0), 1.0, shown.append, interrupted)
    assert shown == ["picture"]
