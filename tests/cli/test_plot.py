from __future__ import annotations

import math
import sys

import pytest


def legend(text):
    lines = text.splitlines()
    last = max(at for at, line in enumerate(lines) if "└" in line)
    return [line.strip() for line in lines[last + 3 :]]


def test_one_series_of_one_run(cli, record):
    """An axis, a line, a legend; plain text in a pipe."""
    result = cli("plot", record(), "val/loss")
    assert result.exit_code == 0, result.stderr
    assert "step" in result.stdout
    assert "\x1b" not in result.stdout
    assert legend(result.stdout) == ["── val/loss"]


def test_runs_come_first_then_series(cli, record):
    """Several of both; the legend names what tells them apart."""
    record(name="one"), record(name="two")
    assert legend(cli("plot", "one", "two", "val/loss").stdout) == ["a one", "b two"]
    assert legend(cli("plot", "one", "val/loss", "train/loss").stdout) == [
        "a val/loss",
        "b train/loss",
    ]
    assert legend(cli("plot", "one", "two", "*/loss").stdout) == [
        "a one train/loss",
        "b one val/loss",
        "c two train/loss",
        "d two val/loss",
    ]


def test_runs_by_query(cli, record):
    """All words are series then."""
    record(name="short", steps=2), record(name="long", steps=30)
    assert legend(cli("plot", "--query", "val/loss:count > 10", "val/loss").stdout) == [
        "── val/loss"
    ]
    assert cli("plot", "--query", "val/loss:count > 100", "val/loss").exit_code == 2


def test_mistakes_say_what_there_is(cli, record):
    """No series given, or one that is not there: the error lists some that are."""
    run = record()
    for words in ([run], [run, "val/los"]):
        result = cli("plot", *words)
        assert result.exit_code == 2
        assert "train/loss, val/loss" in result.stderr


def test_points_without_a_place_are_counted(cli, start):
    """On a logarithmic axis nothing vanishes in silence; NaN is marked."""
    run = start()
    for step, value in enumerate([1.0, 0.0, -1.0, 10.0, math.nan]):
        run.log_metrics({"x": value}, step=step)
    run.stop()
    result = cli("plot", run.id, "x", "--log")
    assert result.exit_code == 0
    assert "2 points at or below zero" in result.stderr
    assert "1 not finite" in result.stdout


def test_a_dense_line_has_no_holes(cli, start):
    """A series of many more points than the terminal has dots fills what it covers."""
    with start() as run:
        run["x"].extend([float(step % 2) for step in range(3000)])
    rows = cli("plot", run.id, "x", "--height", "6").stdout.splitlines()[:6]
    assert all(set(row[-40:]) == {"⣿"} for row in rows[1:-1]), rows


def test_every_x_axis(cli, record):
    """Steps, elapsed time, clock time, another series; the picture says what a line is."""
    run = record()
    for kind in ("step", "relative", "time", "train/loss"):
        result = cli("plot", run, "val/loss", "-x", kind, "--smooth", "2")
        assert result.exit_code == 0, result.stderr
        named = {"step": "step", "relative": "elapsed", "time": "time of day"}
        assert named.get(kind, kind) in legend_above(result.stdout)
        units = {"step": "steps", "relative": "seconds", "time": "seconds"}
        assert f"mean of 2 {units.get(kind, 'units of train/loss')}" in result.stdout


def legend_above(text):
    """Return the name of the x axis."""
    lines = text.splitlines()
    return lines[max(at for at, line in enumerate(lines) if "└" in line) + 2]


@pytest.mark.once
def test_files(cli, record, tmp_path):
    """The ending of the name chooses the kind."""
    run = record()
    for ending, start_bytes in (("png", b"\x89png"), ("svg", b"<?xml"), ("html", b"<html")):
        pytest.importorskip("matplotlib" if ending != "html" else "plotly")
        target = tmp_path / f"loss.{ending}"
        result = cli("plot", run, "val/loss", "train/loss", "--smooth", "3", "--out", target)
        assert result.exit_code == 0, result.stderr
        assert start_bytes in target.read_bytes()[:200].lower()


def test_a_missing_extra_is_a_mistake_with_a_remedy(cli, record, tmp_path, monkeypatch):
    """Exit code 2 and what to install."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = cli("plot", record(), "val/loss", "--out", tmp_path / "loss.png")
    assert result.exit_code == 2
    assert 'pip install "seamark[plot]"' in result.stderr


@pytest.mark.once
def test_the_terminal_gets_colours(record, terminal):
    """And lines that fit."""
    import re

    code, shown = terminal("plot", record(), "val/loss", "train/loss", columns=60)
    assert code == 0
    assert "\x1b[36m" in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert max(map(len, plain.splitlines())) <= 60


def test_groups_of_runs(cli, start):
    """Mean and spread of those that show the same; all words are series, a query chooses the runs.

    The line of a group goes through its mean, dots lie a standard deviation above and below it.
    """
    for lr, values in ((0.1, [2.0] * 30), (0.1, [4.0] * 20), (0.2, [9.0] * 30)):
        run = start()
        run["lr"] = lr
        for step, value in enumerate(values):
            run.log_metrics({"x": value, "y": -value}, step=step)
        run.stop()
    both = cli("plot", "--by", "lr", "x", "--height", "9")
    assert both.exit_code == 0, both.stderr
    assert sorted(line[2:] for line in legend(both.stdout)) == [
        "lr = 0.1 (n = 1 to 2)",
        "lr = 0.2 (n = 1)",
    ]
    one = cli("plot", "--by", "lr", "x", "--query", "lr = 0.1", "--height", "9").stdout
    assert one.splitlines()[0].strip() == "x"
    assert legend(one) == ["── lr = 0.1 (n = 1 to 2)"]
    rows = {line[:4].strip(): line[5:] for line in one.splitlines()[1:] if line[:4].strip()}
    assert rows["3"][: len(rows["3"]) // 2].strip()  # the mean of 2 and 4
    inked = [line.partition("│")[2] or line.partition("┤")[2] for line in one.splitlines()[1:10]]
    assert inked[0].strip()
    assert inked[-1].strip()  # and what is a standard deviation away: 1.6 to 4.4
    assert len(legend(cli("plot", "--by", "lr,sys/id", "x", "y").stdout)) == 6
    for words in (["--by", "lr", "z"], ["--by", "no", "x"], ["--by", "lr", "x", "--query", "lr=3"]):
        assert cli("plot", *words).exit_code == 2


def test_groups_as_a_file(cli, start, tmp_path):
    """With bands, where there are several runs."""
    pytest.importorskip("plotly")
    for value in (1.0, 3.0):
        run = start()
        for step in range(5):
            run.log_metrics({"x": value}, step=step)
        run.stop()
    out = tmp_path / "groups.html"
    assert cli("plot", "--by", "sys/owner", "x", "-o", out).exit_code == 0
    assert "n = 2" in out.read_text()
