"""``seamark compare`` shows in what runs differ, and nothing else unless asked."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from seamark.reading.attributes import Attribute, SeriesSummary
from seamark.reading.differences import Row, rows_of, summaries


@pytest.fixture
def two(start):
    """Two runs that differ in some of everything."""
    ids = []
    for at, name in enumerate(("first", "second")):
        run = start("p", name=name, tags=["both", name], params={"lr": 0.1 / (at + 1), "bs": 32})
        run["hyperparams"] = {"act": "relu", **({"drop": 0.5} if at else {})}
        run["source_code/packages"] = f"numpy==2.{at}.0\nalike==1.0" + "\nextra==3" * at
        run["source_code/git/commit"] = "0123abc" if at else "4567def"
        run["source_code/git/branch"] = "main"
        run["source_code/arguments"] = ["--lr", str(at)]
        run["distributed/world_size"] = 1 + at
        run["monitoring/own"] = at
        for step in range(10):
            run.log_metrics({"val/loss": (step - 6) ** 2 / 10 + at, "count": step}, step)
            run.log_metrics({"ranks/1/loss": at + step, "profiling/actions/a": at + 1}, step)
        run.stop()
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


def test_only_what_differs_is_shown(cli, two):
    """A column for each run, headed by its name; what one run lacks is a dash."""
    done = cli("compare", "first", "second")
    assert done.exit_code == 0
    shown = lines(done)
    assert shown["RUN"] == ["first", "second"]
    assert shown["id"] == two
    assert shown["parameters/lr"] == ["0.1", "0.05"]
    assert shown["hyperparams/drop"] == ["—", "0.5"]
    assert shown["sys/tags"] == ["both, first", "both, second"]
    assert shown["numpy"] == ["2.0.0", "2.1.0"]
    assert shown["extra"] == ["—", "3"]
    assert shown["source_code/git/commit"] == ["4567def", "0123abc"]
    assert shown["source_code/arguments"] == ['["--lr", "0"]', '["--lr", "1"]']
    assert shown["distributed/world_size"] == ["1", "2"]
    for same in ("parameters/bs", "hyperparams/act", "count", "alike", "source_code/git/branch"):
        assert same not in shown
    assert [title for title in shown if title.endswith(")")] == [
        "Parameters (2)",
        "Metrics (2)",
        "Tags (1)",
        "Script (1)",
        "Git (1)",
        "Packages (2)",
        "Environment (1)",
    ]


def test_a_metric_tells_its_last_value_and_its_best(cli, two):
    """With the difference to the first run; of minimum and maximum the one it came closer to."""
    shown = lines(cli("compare", *two))
    assert shown["val/loss"] == ["0.9", "1.9 (+1)"]
    assert shown["val/loss:min"] == ["0.0", "1.0 (+1)"]
    assert "val/loss:max" not in shown
    everything = lines(cli("compare", *two, "--all"))
    assert everything["val/loss:max"] == ["3.6", "4.6 (+1)"]
    assert everything["val/loss:count"] == ["10", "10"]
    assert everything["count"] == ["9.0", "9.0"]
    assert everything["parameters/bs"] == ["32", "32"]
    assert everything["source_code/git/branch"] == ["main", "main"]


def test_what_processes_and_ranks_recorded_only_if_asked(cli, two):
    """A note says that there is more."""
    done = cli("compare", *two)
    assert "monitoring" not in done.stdout
    assert "ranks/1" not in done.stdout
    assert "2 differences of single ranks and of profilers left out" in done.stderr
    assert lines(cli("compare", *two, "--path", "monitoring"))["monitoring/own"] == ["0", "1"]
    shown = lines(cli("compare", *two, "--path", "*ranks/*", "--path", "profiling"))
    assert shown["ranks/1/loss"] == ["9.0", "10.0 (+1)"]
    assert shown["profiling/actions/a"] == ["1.0", "2.0 (+1)"]


def test_paths_choose_what_is_compared(cli, two):
    """Namespaces and patterns; one that no run has is a mistake."""
    shown = lines(cli("compare", *two, "--path", "hyper*", "--path", "val"))
    assert {name for name in shown if "/" in name} == {
        "hyperparams/drop",
        "val/loss",
        "val/loss:min",
    }
    done = cli("compare", *two, "--path", "vall/loss")
    assert done.exit_code == 2
    assert "none of these runs has anything at 'vall/loss'; did you mean 'val/loss'?" in done.stderr


def test_a_sentence_says_when_nothing_differs(cli, record):
    """And how much was compared."""
    first, second = (record("p", params={"lr": 1}, tags=["a"]) for _ in range(2))
    done = cli("compare", first, second)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1] == (
        "nothing differs between these 2 runs "
        "(compared: parameters 1, metrics 2, tags 1, about 1, environment 2)"
    )
    assert json.loads(cli("compare", first, second, "--json").stdout)["sections"] == {}


def test_json_is_strict_and_names_each_run_in_full(cli, start):
    """NaN as a string; a run without a value is not among the values."""
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


@pytest.mark.once
def test_thirty_runs(cli, terminal, record):
    """A pipe gets all of them, a terminal what fits, and is told how many are missing."""
    for number in range(30):
        record("p", steps=2, name=f"run {number}", params={"number": number})
    whole = cli("compare", "--query", 'sys/name =~ "^run"', "--path", "parameters")
    cells = lines(whole)
    assert cells["RUN"] == [f"run {number}" for number in reversed(range(30))]
    assert cells["parameters/number"] == [str(number) for number in reversed(range(30))]
    code, shown = terminal(
        "compare", "--query", 'sys/name =~ "^run"', "--path", "parameters", columns=60
    )
    assert code == 0
    assert "no room for 27 of 30 runs" in shown
    assert max(len(line) for line in shown.splitlines() if "run 2" in line) < 120
    assert "parameters/number" in shown


TOO_FEW = (
    ([], "which runs?"),
    (["one"], "expected two runs or more, got only p/"),
    (["one", "one"], "expected two runs or more, got only p/"),
    (["one", "nobody"], "no run 'nobody'"),
    (["--query", 'sys/name = "one"'], "the query matches only p/"),
    (["one", "two", "--query", "a > 1"], "which runs?"),
)


def test_two_runs_are_needed(cli, record):
    """And each of them has to exist."""
    record("p", name="one"), record("p", name="two")
    for words, message in TOO_FEW:
        done = cli("compare", *words)
        assert (done.exit_code, done.stdout) == (2, "")
        assert message in done.stderr


@pytest.mark.parametrize(
    ("first", "second", "differs"),
    [
        (1, 1.0, False),
        (1, True, True),
        (0.1, 0.2, True),
        (math.nan, math.nan, False),
        ("1", 1, True),
        (None, 0, True),
        ([1, 2], [1, 2], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
        ({"a"}, {"a", "b"}, True),
        (2**70, 2.0**70, False),
    ],
)
def test_what_counts_as_the_same(first, second, differs):
    """The value, not how it was written; a truth value is no number."""
    (row,) = rows_of([[Attribute("x", "atom", "?", one)] for one in (first, second)])
    assert row.differs(2) is differs


def test_records_of_strangers_are_compared_too():
    """Whatever a file or a package list holds."""
    odd: list[Any] = [None, 7, {}, {"sha256": 7}, {"a": {"sha256": []}}, {"a": None}, "x" * 10]
    families = ("file", "file_set", "artifact")
    for family in families:
        for one in odd:
            rows = rows_of([[Attribute("f", family, family, each)] for each in (one, one)])
            assert not rows[0].differs(2)
    for one in (None, 7, "==1", "a==1==2\n\n b", ["a"]):
        rows_of([[Attribute("source_code/packages", "atom", "?", one)]])


def summary(last, low, high, count=3):
    return SeriesSummary(last, low, high, 0.0, count, 0, 0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([summary(0.3, 0.1, 9), summary(0.4, 0.2, 9)], ["last", "min"]),
        ([summary(0.9, 0.1, 0.95), summary(0.8, 0.1, 0.85)], ["last", "max"]),
        ([summary(0.1, 0.1, 9), summary(0.2, 0.2, 8)], ["last"]),
        ([summary(0.3, 0.1, 9), summary(0.3, 0.2, 9)], ["min"]),
        ([summary(0.3, 0.1, 9), summary(0.3, 0.1, 8)], ["max"]),
        ([summary(0.3, 0.1, 9), summary(0.3, 0.1, 9, count=4)], ["count"]),
        ([summary(0.3, 0.1, 9)], ["last", "min"]),
        ([summary(math.nan, math.nan, math.nan), summary(1, 1, 1)], ["last"]),
        ([summary(math.nan, 0.1, 9), summary(0.2, 0.1, 8)], ["last"]),
        ([summary(math.nan, 0.1, 9), summary(math.nan, 0.2, 9)], ["last", "min"]),
        ([summary(math.inf, 0.1, 9), summary(math.inf, 0.2, 8)], ["last", "min"]),
    ],
)
def test_what_is_told_of_a_metric(values, told):
    """Its best value where that is not the last, and what else is the only difference."""
    row = Row("metrics", "x", dict(enumerate(values)))
    assert summaries(row, 2, everything=False) == told


def test_names_and_values_of_strangers_are_safe_to_print(cli, start):
    """No escape reaches a terminal; one path may hold different things."""
    ids = []
    for at in range(2):
        run = start("p", name=f"a\x1b[31m{at}")
        run["text"] = f"\x1b[2J{at}"
        if at:
            run["x"].append(1.0)
        else:
            run["x"] = 1.0
        run["notes"].append(f"\x1b{at}")
        run["file"].upload(__file__) if at else None
        run.stop()
        ids.append(run.id)
    done = cli("compare", *ids)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert r"\x1b[2J0" in done.stdout
    shown = lines(done)
    assert "test_compare" in shown["file"][1]


def test_an_accuracy_that_ended_in_nan_is_told_by_its_maximum():
    """Its name decides where no last value can."""
    values = [summary(math.nan, 0.1, 0.9), summary(math.nan, 0.1, 0.8)]
    row = Row("metrics", "val/accuracy", dict(enumerate(values)))
    assert summaries(row, 2, everything=False) == ["last", "max"]


def test_runs_of_one_name_are_headed_by_their_projects(cli, record):
    """An id says nothing; of one project it stands behind the name."""
    one, two = record("a", name="base"), record("b", name="base")
    assert lines(cli("compare", one, two))["RUN"] == ["a/base", "b/base"]
    three = record("a", name="base")
    assert lines(cli("compare", one, three))["RUN"] == [f"base ({one})", f"base ({three})"]


def test_a_state_is_told_once(cli, start):
    """``sys/failed`` only repeats it."""
    for name in ("good", "bad"):
        run = start("p", name=name)
        run["a"] = 1
        if name == "bad":
            run["sys/failed"] = True
        run.stop()
    assert "sys/failed" not in cli("compare", "good", "bad").stdout


def test_versions_of_the_code_and_ways_to_install_are_compared(cli, start):
    """A row for the version; one for each package, however its line is written."""
    for at, name in enumerate(("one", "two")):
        run = start("p", name=name)
        run["source_code/version"] = "9c1e" * 4 if at else "2d6c" * 4
        run["source_code/packages"] = (
            f"-e /src/own  # own==1.{at}\nsame==1\nvcs @ git+https://host/a@{at}\n"
            "-e /src/same  # edited==1\nplain==2 @ odd"
        )
        run["source_code/conda"] = f"conda-forge::python=3.1{at}=0\npkgs/main::tk=1=0"
        run.stop()
    shown = lines(cli("compare", "one", "two"))
    assert shown["source_code/version"] == ["2d6c" * 4, "9c1e" * 4]
    assert shown["own"] == ["1.0 (/src/own)", "1.1 (/src/own)"]
    assert shown["vcs"] == ["git+https://host/a@0", "git+https://host/a@1"]
    assert shown["conda python"] == ["3.10=0 (conda-forge)", "3.11=0 (conda-forge)"]
    for same in ("same", "edited", "plain", "conda tk"):
        assert same not in shown
