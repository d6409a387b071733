"""``seamark compare`` shows in what runs differ, and nothing else unless asked."""

from __future__ import annotations

import json
import math

import pytest

from seamark.reading.attributes import Attribute, SeriesSummary
from seamark.reading.differences import Row, rows_of, summaries


@pytest.fixture
def two(start):
    """Two runs that differ in some of everything."""
    ids = []
    for at, name in enumerate(("first", "second")):
        params = {"lr": 0.1 / (at + 1), "bs": 32}
        with start("p", name=name, tags=["both", name], params=params) as run:
            run["hyperparams"] = {"act": "relu", **({"drop": 0.5} if at else {})}
            run["source_code/packages"] = f"numpy==2.{at}.0\nalike==1.0" + "\nextra==3" * at
            run["source_code/git"] = {"commit": "0123abc" if at else "4567def", "branch": "main"}
            run["source_code/arguments"] = ["--lr", str(at)]
            run["distributed/world_size"] = 1 + at
            run["monitoring/own"] = at
            for step in range(10):
                run.log_metrics({"val/loss": (step - 6) ** 2 / 10 + at, "count": step}, step)
                run.log_metrics({"ranks/1/loss": at + step, "profiling/actions/a": at + 1}, step)
        ids.append(run.id)
    return ids


def lines(result):
    """Return the cells of each line by what it is of; two spaces part them."""
    found = {}
    for line in result.stdout.splitlines():
        cells = [cell.strip() for cell in line.strip().split("  ") if cell.strip()]
        if cells:
            found[cells[0]] = cells[1:]
    return found


def test_only_differences_are_shown(cli, two):
    done = cli("compare", "first", "second")
    assert done.exit_code == 0
    shown = lines(done)
    titles = "Parameters (2), Metrics (2), Tags (1), Script (1), Git (1), Packages (2)"
    found = [title for title in shown if title.endswith(")")]
    assert ", ".join(found) == f"{titles}, Environment (1)"
    expected = {
        "RUN": ["first", "second"],
        "id": two,
        "parameters/lr": ["0.1", "0.05"],
        "hyperparams/drop": ["—", "0.5"],
        "sys/tags": ["both, first", "both, second"],
        "numpy": ["2.0.0", "2.1.0"],
        "extra": ["—", "3"],
        "source_code/git/commit": ["4567def", "0123abc"],
        "source_code/arguments": ['["--lr", "0"]', '["--lr", "1"]'],
        "distributed/world_size": ["1", "2"],
    }
    assert {name: shown[name] for name in expected} == expected
    for same in ("parameters/bs", "hyperparams/act", "count", "alike", "source_code/git/branch"):
        assert same not in shown


def test_metrics_have_last_and_best_value_and_paths_choose(cli, two):
    done = cli("compare", *two)
    shown = lines(done)
    assert shown["val/loss"] == ["0.9", "1.9 (+1)"]
    assert shown["val/loss:min"] == ["0.0", "1.0 (+1)"]
    assert "val/loss:max" not in shown
    assert "monitoring" not in done.stdout
    assert "ranks/1" not in done.stdout
    assert "2 differences of single ranks and of profilers left out" in done.stderr
    everything = lines(cli("compare", *two, "--all"))
    assert everything["val/loss:max"] == ["3.6", "4.6 (+1)"]
    assert everything["val/loss:count"] == ["10", "10"]
    assert everything["count"] == ["9.0", "9.0"]
    assert everything["parameters/bs"] == ["32", "32"]
    assert everything["source_code/git/branch"] == ["main", "main"]
    assert lines(cli("compare", *two, "--path", "monitoring"))["monitoring/own"] == ["0", "1"]
    shown = lines(cli("compare", *two, "--path", "*ranks/*", "--path", "profiling"))
    assert shown["ranks/1/loss"] == ["9.0", "10.0 (+1)"]
    assert shown["profiling/actions/a"] == ["1.0", "2.0 (+1)"]
    shown = lines(cli("compare", *two, "--path", "hyper*", "--path", "val"))
    paths = {"hyperparams/drop", "val/loss", "val/loss:min"}
    assert {name for name in shown if "/" in name} == paths


def test_equal_runs_are_said_to_be_equal(cli, record):
    first, second = (record("p", params={"lr": 1}, tags=["a"]) for _ in range(2))
    done = cli("compare", first, second)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1] == (
        "nothing differs between these 2 runs "
        "(compared: parameters 1, metrics 2, tags 1, about 1, environment 2)"
    )
    assert json.loads(cli("compare", first, second, "--json").stdout)["sections"] == {}


def test_json_is_strict_and_names_runs_with_their_project(cli, start):
    ids = []
    for last in (math.nan, 1.0):
        run = start("p")
        run.log_metrics({"loss": last}, 0)
        if last == 1:
            run["x"] = None
        run.stop()
        ids.append(run.id)
    told = json.loads(cli("compare", *ids, "--json").stdout, parse_constant=pytest.fail)
    assert [one["run"] for one in told["runs"]] == ids
    loss = told["sections"]["metrics"]["loss"]
    assert loss["differs"]
    assert {run: value["last"] for run, value in loss["values"].items()} == {
        f"p/{ids[0]}": "nan",
        f"p/{ids[1]}": 1.0,
    }
    assert told["sections"]["values"]["x"]["values"] == {f"p/{ids[1]}": None}


def test_values_are_compared_not_their_spelling():
    for first, second, differs in (
        (1, 1.0, False),
        (1, True, True),
        (math.nan, math.nan, False),
        ("1", 1, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
        ({"a"}, {"a", "b"}, True),
        (2**70, 2.0**70, False),
    ):
        (row,) = rows_of([[Attribute("x", "atom", "?", one)] for one in (first, second)])
        assert row.differs(2) is differs, (first, second)


def summary(last, low, high, count=3):
    return SeriesSummary(last, low, high, 0.0, count, 0, 0, 0.0, 1.0)


def test_metric_shows_its_best_value_or_its_only_difference():
    for values, told in (
        ([summary(0.3, 0.1, 9), summary(0.4, 0.2, 9)], "last min"),
        ([summary(0.9, 0.1, 0.95), summary(0.8, 0.1, 0.85)], "last max"),
        ([summary(0.1, 0.1, 9), summary(0.2, 0.2, 8)], "last"),
        ([summary(0.3, 0.1, 9), summary(0.3, 0.2, 9)], "min"),
        ([summary(0.3, 0.1, 9), summary(0.3, 0.1, 8)], "max"),
        ([summary(0.3, 0.1, 9), summary(0.3, 0.1, 9, count=4)], "count"),
        ([summary(math.nan, 0.1, 9), summary(math.nan, 0.2, 9)], "last min"),
    ):
        row = Row("metrics", "x", dict(enumerate(values)))
        assert summaries(row, 2, everything=False) == told.split(), values


def test_compared_names_and_values_are_escaped(cli, start):
    ids = []
    for at in range(2):
        with start("p", name=f"a\x1b[31m{at}") as run:
            run["text"] = f"\x1b[2J{at}"
        ids.append(run.id)
    done = cli("compare", *ids)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert r"\x1b[2J0" in done.stdout


def test_code_versions_and_packages_are_compared(cli, start):
    for at, name in enumerate(("one", "two")):
        run = start("p", name=name)
        run["source_code/packages"] = (
            f"-e /src/own  # own==1.{at}\nsame==1\nvcs @ git+https://host/a@{at}\n"
            "-e /src/same  # edited==1\nplain==2 @ odd"
        )
        run["source_code/conda"] = f"conda-forge::python=3.1{at}=0\npkgs/main::tk=1=0"
        run.stop()
    shown = lines(cli("compare", "one", "two"))
    assert shown["own"] == ["1.0 (/src/own)", "1.1 (/src/own)"]
    assert shown["vcs"] == ["git+https://host/a@0", "git+https://host/a@1"]
    assert shown["conda python"] == ["3.10=0 (conda-forge)", "3.11=0 (conda-forge)"]
    for same in ("same", "edited", "plain", "conda tk"):
        assert same not in shown


@pytest.mark.once
def test_pipe_gets_thirty_runs_and_terminal_as_many_as_fit(cli, screen, record):
    for number in range(30):
        record("p", steps=2, name=f"run {number}", params={"number": number})
    words = ("compare", "--query", 'sys/name =~ "^run"', "--path", "parameters")
    cells = lines(cli(*words))
    assert cells["RUN"] == [f"run {number}" for number in reversed(range(30))]
    assert cells["parameters/number"] == [str(number) for number in reversed(range(30))]
    shown = screen(*words, columns=60)
    assert "no room for 27 of 30 runs" in shown
    assert max(len(line) for line in shown.splitlines() if "run 2" in line) <= 60
    assert "parameters/number" in shown
