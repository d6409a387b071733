"""Figures of runs: what is drawn, how it is called, and how it follows a run."""

from __future__ import annotations

import json
import math

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


def test_a_short_series_is_drawn_point_by_point(record):
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
    value = np.zeros(50_000)
    value[[123, 45_678]] = 7.0
    value[[5, 6000, 9000]] = [math.nan, math.inf, -math.inf]
    run = record(value.tolist())
    monkeypatch.setattr(type(run.session.recorded.view()), "many_points", None)
    figure = run.plot("val/loss", points=200)
    (line,) = lines_of(figure)
    assert len(line.x) <= 200
    assert set(line.x[line.y == 7]) == {123, 45_678}
    marks = {one.name: one.x.tolist() for one in figure.data if one.mode == "markers"}
    assert (marks["+inf"], marks["-inf"], len(marks["NaN"])) == ([6000], [9000], 1)
    run["signed"].extend([1.0, 0.0, -1.0])
    title = run.plot("signed", log_y=True).layout.title.text
    assert "2 points cannot be shown" in title


@pytest.mark.parametrize("x", ["step", "time", "count"])
def test_a_line_has_its_first_and_last_point(record, x):
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
    value = np.random.default_rng(3).normal(size=20_000)
    figure = record(value.tolist()).plot("val/loss", smooth=500, points=300)
    low, high, line = figure.data
    assert "mean of 500 steps" in figure.layout.title.text
    for x, y in zip(line.x.tolist(), line.y.tolist(), strict=True):
        start, end = max(0, math.ceil(x - 250)), math.ceil(x + 250)
        assert y == pytest.approx(value[start:end].mean(), abs=1e-12)
    assert (low.y.min(), high.y.max()) == (value.min(), value.max())


def test_axes_are_steps_times_series_and_logarithmic(record):
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


def test_runs_are_told_apart_by_names_ids_and_colours(record, project):
    one, two = record([1.0], name="one"), record([2.0], name="two")
    twins = [record([3.0], name="twin") for _ in range(2)]
    record([1.0], name="other", path="train/loss")
    names = {line.name for line in lines_of(project.plot("val/loss"))}
    assert names == {"one", "two", *(f"twin ({run.id})" for run in twins)}
    found = project.plot("val/loss", runs=[one.id, two.id])
    assert found.layout.title.text == "val/loss"
    keys = [f"team/x/{run.id}" for run in (one, two)]
    colours = slots(keys)
    assert [(line.name, line.line.color) for line in lines_of(found)] == [
        (name, COLOURS[colours[key]]) for name, key in zip(("one", "two"), keys, strict=True)
    ]
    table = project.fetch_runs_table(sort_by="sys/name", ascending=True, query="val/loss > 0")
    found = lines_of(project.plot("val/loss", runs=table[:2]))
    assert [line.name.split()[0] for line in found] == ["one", "twin"]
    for same in (table[0], [one, "one", one.id]):
        assert len(lines_of(project.plot("val/loss", runs=same))) == 1
        assert {row["run"] for row in project.fetch_series("val/loss", same)} == {one.id}
    assert len(lines_of(project.plot("val/loss", runs='sys/name = "two"'))) == 1


def test_mistakes_are_told_at_once(record, project):
    run = record([1.0])
    record([1.0], path="epoch")
    with pytest.raises(PathError):
        run.plot("val/loss", x="a//b")
    for plot, paths, given, told in (
        (run.plot, ["val/los"], {}, r"'val/los' in run .* did you mean 'val/loss'"),
        (project.plot, ["valloss"], {}, r"'valloss' in the runs of project 'team/x'"),
        (run.plot, ["val/loss"], {"x": "epohc"}, "'epohc' in run"),
        (project.plot, ["val/loss"], {"x": "epoch"}, "both 'val/loss' and x='epoch'"),
    ):
        with pytest.raises(MissingFieldError, match=told):
            plot(*paths, **given)
    for read in (project.plot, project.fetch_series):
        with pytest.raises(ArgumentError, match="runs: got no runs"):
            read("val/loss", runs=[])
    wrong = (0, -1, math.nan, math.inf, True)
    window, seconds = "smooth: expected a number of steps, at least 1", "refresh: expected seconds"
    for paths, given, told in (
        ([], {}, "one or more paths"),
        ([3], {}, r"expected paths .* got int: 3"),
        (["val/loss"], {"x": "time", "log_x": True}, "logarithm"),
        (["val/loss"], {"points": 1}, "points"),
        (["val/loss"], {"refresh": 2}, "outside of a notebook"),
        *((["val/loss"], {"smooth": one}, window) for one in (0.9, "500", *wrong)),
        *((["val/loss"], {"refresh": one}, seconds) for one in ("2", *wrong)),
    ):
        with pytest.raises(ArgumentError, match=told):
            run.plot(*paths, **given)


@pytest.fixture
def many(tmp_path):
    """Record 50 runs, of which the middle 25 have the series."""
    ids = []
    for at in range(50):
        with init_run("team/x", root=tmp_path, **QUIET) as run:
            run["other"].append(1.0)
            if 10 <= at < 35:
                run["val/loss"].append(1.0)
        ids.append(run.id)
    return ids


def test_of_many_runs_the_newest_with_the_series_are_drawn(many, project, caplog):
    table = project.fetch_runs_table(sort_by="sys/creation_time")
    of_them = [row for row in table if row["sys/id"] in many[10:35]]
    for runs in (None, "other:last >= 0", table):
        caplog.clear()
        lines = lines_of(project.plot("val/loss", runs=runs))
        names = {line.name.partition(" (")[0] for line in lines}  # two may have drawn one name
        assert names == {generated_name(row["sys/id"]) for row in of_them[:20]}
        assert len(lines) == 20
        order = "first" if runs is table else "newest"
        assert f"drawing the {order} 20 of 25 runs with such a series" in caplog.text


@pytest.fixture
def drawn(monkeypatch):
    """The figures that a notebook shows, each three times, with whether more will come."""
    shown = []
    follow_it = "seamark.pictures.drawing.follow"
    monkeypatch.setattr(follow_it, lambda draw, *_: shown.extend(draw() for _ in range(3)))
    monkeypatch.setattr("seamark.pictures.drawing._create_display", lambda: None)
    return shown


def test_a_run_is_drawn_again_until_it_ends(record, drawn):
    run = record([1.0])
    run.plot("val/loss", refresh=2)
    run.stop()
    run.plot("val/loss", refresh=2)
    assert [goes_on for _, goes_on in drawn] == [True] * 3 + [False] * 3


def test_a_disabled_run_draws_nothing(tmp_path):
    """Code that runs on all ranks does not fail on some of them."""
    run = init_run(root=tmp_path, mode="disabled", **QUIET)
    assert len(run.plot("val/loss").data) == 0


# ---------------------------------------------------------------------- again and again


def test_an_interrupt_ends_drawing_without_an_error():
    shown = []

    def interrupted(_):
        raise KeyboardInterrupt

    follow(lambda: ("picture", True), 1.0, shown.append, interrupted)
    assert shown == ["picture"]
    follow(lambda: interrupted(0), 1.0, shown.append, interrupted)
    assert shown == ["picture"]
