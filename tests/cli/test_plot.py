from __future__ import annotations

import math
import sys

import pytest


def legend(text):
    lines = text.splitlines()
    last = max(at for at, line in enumerate(lines) if "└" in line)
    return [line.strip() for line in lines[last + 3 :]]


def test_plot_takes_runs_then_series_or_a_query(cli, record):
    record(name="one", steps=2), record(name="two", steps=30)
    result = cli("plot", "one", "val/loss")
    assert result.exit_code == 0, result.stderr
    assert "step" in result.stdout
    assert "\x1b" not in result.stdout
    for words, lines in (
        ("one val/loss", ["── val/loss"]),
        ("one two val/loss", ["a one", "b two"]),
        ("one val/loss train/loss", ["a val/loss", "b train/loss"]),
        (
            "one two */loss",
            ["a one train/loss", "b one val/loss", "c two train/loss", "d two val/loss"],
        ),
    ):
        assert legend(cli("plot", *words.split()).stdout) == lines, words
    query = ("--query", "val/loss:count > 10", "val/loss")
    assert legend(cli("plot", *query).stdout) == ["── val/loss"]
    assert cli("plot", "--query", "val/loss:count > 100", "val/loss").exit_code == 2


def test_points_that_cannot_be_drawn_are_counted(cli, start):
    """On a logarithmic axis."""
    with start() as run:
        for step, value in enumerate([1.0, 0.0, -1.0, 10.0, math.nan]):
            run.log_metrics({"x": value}, step=step)
    result = cli("plot", run.id, "x", "--log")
    assert result.exit_code == 0
    assert "2 points at or below zero" in result.stderr
    assert "1 not finite" in result.stdout


def test_x_axis_is_steps_times_or_a_series_and_names_its_unit(cli, record):
    run = record()
    for kind, name, unit in (
        ("step", "step", "steps"),
        ("relative", "elapsed", "seconds"),
        ("time", "time of day", "seconds"),
        ("train/loss", "train/loss", "units of train/loss"),
    ):
        result = cli("plot", run, "val/loss", "-x", kind, "--smooth", "2")
        assert result.exit_code == 0, result.stderr
        lines = result.stdout.splitlines()
        assert name in lines[max(at for at, line in enumerate(lines) if "└" in line) + 2]
        assert f"mean of 2 {unit}" in result.stdout


@pytest.mark.once
def test_plot_is_written_to_a_file_and_a_missing_extra_is_named(cli, record, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    run = record()
    for ending, begin in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        target = tmp_path / f"loss.{ending}"
        result = cli("plot", run, "val/loss", "train/loss", "--smooth", "3", "--out", target)
        assert result.exit_code == 0, result.stderr
        assert target.read_bytes().startswith(begin)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = cli("plot", run, "val/loss", "--out", tmp_path / "missing.png")
    assert result.exit_code == 2
    assert 'pip install "seamark[plot]"' in result.stderr


def test_groups_of_runs_are_drawn_as_mean_and_spread(cli, start):
    for lr, values in ((0.1, [2.0] * 30), (0.1, [4.0] * 20), (0.2, [9.0] * 30)):
        with start() as run:
            run["lr"] = lr
            for step, value in enumerate(values):
                run.log_metrics({"x": value, "y": -value}, step=step)
    both = cli("plot", "--by", "lr", "x", "--height", "9")
    assert both.exit_code == 0, both.stderr
    lines = ["lr = 0.1 (n = 1 to 2)", "lr = 0.2 (n = 1)"]
    assert sorted(line[2:] for line in legend(both.stdout)) == lines
    one = cli("plot", "--by", "lr", "x", "--query", "lr = 0.1", "--height", "9").stdout
    assert legend(one) == ["── lr = 0.1 (n = 1 to 2)"]
    for words in (["--by", "lr", "z"], ["--by", "no", "x"], ["--by", "lr", "x", "--query", "lr=3"]):
        assert cli("plot", *words).exit_code == 2
