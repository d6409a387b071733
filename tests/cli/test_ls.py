from __future__ import annotations

import csv
import io
import json
import math
import re
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest


@pytest.fixture
def five(start):
    """Five runs that differ in rate and loss; the fourth one's loss is NaN, the last has none."""
    ids = []
    for number in range(5):
        run = start(
            "team/a" if number < 3 else "team/b",
            name=f"run {number}",
            tags=["odd"] if number % 2 else ["even"],
            params={"lr": 10.0**-number, "same": 1, "text": "x" * number},
        )
        if number < 4:
            run.log_metrics({"val/loss": math.nan if number == 3 else number * 1.0}, step=0)
            run.log_metrics({"val/loss": math.nan if number == 3 else number + 0.5}, step=1)
        run.stop()
        ids.append(run.id)
    return ids


def listed(cli, *words):
    result = cli("ls", "--json", *words)
    assert result.exit_code == 0, result.stderr
    found: list[dict[str, Any]] = json.loads(result.stdout, parse_constant=pytest.fail)
    return found


def names(cli, *words):
    return [int(row["sys/name"].split()[1]) for row in listed(cli, "--columns", "sys/name", *words)]


def test_paths_that_are_called_like_columns_are_columns_of_their_own(cli, start):
    """A run may record what it likes, even a path ``project``."""
    one = start("real")
    one["project"] = "mine"
    one["run"] = 1
    other = start("real")
    one.stop(), other.stop()
    text = cli("ls", "--csv", "--asc", "--columns", "project,run").stdout
    header, *rows = csv.reader(io.StringIO(text))
    assert header == ["project", "run", "project", "run"]
    assert rows == [["real", one.id, "mine", "1"], ["real", other.id, "", ""]]


CHOSEN = (
    ([], [4, 3, 2, 1, 0]),
    (["--asc"], [0, 1, 2, 3, 4]),
    (["--limit", "2"], [4, 3]),
    (["--project", "team/a"], [2, 1, 0]),
    (["--project", "team"], [4, 3, 2, 1, 0]),
    (["--tag", "odd"], [3, 1]),
    (["--tag", "odd", "--tag", "even"], []),
    (["--state", "completed", "--limit", "1"], [4]),
    (["--state", "failed"], []),
    (["--query", "parameters/lr < 0.05"], [4, 3, 2]),
    (["--query", 'sys/name =~ "[12]$" OR parameters/lr = 1.0'], [2, 1, 0]),
    (["--sort", "parameters/lr", "--asc"], [4, 3, 2, 1, 0]),
    (["--sort", "val/loss:min", "--asc"], [0, 1, 2, 3, 4]),
    (["--sort", "val/loss:min", "--desc"], [2, 1, 0, 3, 4]),
    (["--sort", "val/loss", "--desc"], [2, 1, 0, 3, 4]),
    (["--sort", "val/loss:min"], [0, 1, 2, 3, 4]),
    (["--sort", "`val/loss`:MIN"], [0, 1, 2, 3, 4]),
    (["--sort", "val/loss:max"], [2, 1, 0, 3, 4]),
    (["--sort", "val/loss"], [2, 1, 0, 3, 4]),
    (["--query", "sys/creation_time >= -1h AND sys/tags IN (odd, other)"], [3, 1]),
    (["--query", "sys/creation_time < -1h"], []),
)


def test_choosing_and_sorting(cli, five):
    """By project, tag, state and query; NaN and then missing values come last, up and down."""
    for words, expected in CHOSEN:
        assert names(cli, *words) == expected, words


def test_columns(cli, five):
    """Paths, aggregates and patterns; NaN is text in JSON, a missing value is null."""
    rows = listed(cli, "--columns", "val/loss,val/loss:min,parameters/*", "--asc")
    assert list(rows[0])[:4] == ["project", "run", "val/loss", "val/loss:min"]
    assert (rows[1]["val/loss"], rows[1]["val/loss:min"]) == (1.5, 1.0)
    assert rows[3]["val/loss"] == "nan"
    assert rows[4]["val/loss"] is None
    assert {"parameters/lr", "parameters/same", "parameters/text"} <= set(rows[0])


def test_only_what_differs(cli, five):
    """Columns that are the same for all runs are left out on request."""
    rows = listed(cli, "--columns", "parameters/*", "--differing")
    assert "parameters/lr" in rows[0]
    assert "parameters/same" not in rows[0]


def test_a_cut_list_says_so(cli, five):
    """On standard error, so that pipes stay clean; 0 means all."""
    assert "2 runs of 5" in cli("ls", "--limit", 2).stderr
    assert cli("ls", "--limit", 0).stderr == ""


def test_csv_holds_all_digits(cli, five):
    """One line for each run, an empty cell where nothing is recorded."""
    text = cli("ls", "--csv", "--asc", "--columns", "sys/name,val/loss,parameters/lr").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["run"] for row in rows] == five
    assert [row["val/loss"] for row in rows] == ["0.5", "1.5", "2.5", "nan", ""]
    assert float(rows[3]["parameters/lr"]) == 10.0**-3


def test_pipes_get_plain_whole_lines(cli, record):
    """One line for each run, however long."""
    long = "a very long name " * 20
    record(name=long.strip())
    shown = cli("ls").stdout
    assert long.strip() in shown
    assert len(shown.splitlines()) == 2
    assert "\x1b" not in shown


@pytest.mark.once
@pytest.mark.parametrize("columns", [20, 40, 80])
def test_terminals_get_lines_that_fit(terminal, five, columns):
    """Columns are shortened or left out, and what was left out is said."""
    code, shown = terminal("ls", columns=columns)
    assert code == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    table = [line for line in plain if any(run in line for run in five)]
    assert len(table) == 5
    assert max(map(len, table)) <= columns
    if columns == 20:
        assert "no room for" in " ".join(plain)


MEANINGLESS = (
    (["--query", "parameters/lr <"], "query: expected a value, got the end", ""),
    (["--query", "parameters/lr < 1 AND lr < 1"], "there is 'parameters/lr'", "lr < 1"),
    (["--query", "sys/state = done"], "did you mean 'completed'?", "done"),
    (["--query", "parameters/lr = x"], "expected a number for 'parameters/lr'", "x"),
    (["--columns", "val/los"], "column: no run has 'val/los'; there is 'val/loss'", "val/los"),
    (["--columns", "sys/id,loss:min"], "no run has 'loss'; there is 'val/loss'", "loss:min"),
    (["--columns", "val/loss:median"], "did you mean 'mean'?", ":median"),
    (["--columns", "parameters/lr:min"], "is a number, not a series", "parameters/lr:min"),
    (["--columns", "hyper/*"], "column: no path matches 'hyper/*'", "hyper/*"),
    (["--sort", "lr"], "sort: no run has 'lr'; there is 'parameters/lr'", "lr"),
    (["--sort", "sys/tags"], "is a set of strings, by which nothing can be", "sys/tags"),
)


def test_what_means_nothing_is_refused_with_its_place(shell, five):
    """Exit code 2, the nearest that exists, and a caret below what was typed."""
    for words, message, place in MEANINGLESS:
        done = shell("ls", *words)
        assert (done.returncode, done.stdout) == (2, ""), words
        said, line, caret = done.stderr.splitlines()
        assert message in said, words
        assert line[caret.index("^") :] == place, words


@pytest.fixture
def sweep(start):
    """Three trials that differ in two parameters."""
    ids = []
    for number in range(3):
        given = {"lr": 10.0**-number, "seed": 1, "model": {"depth": number, "act": "relu"}}
        run = start("sweep", name=f"trial {number}", params=given)
        run["notes/text"] = "different " * 9 + str(number)
        run["source_code/entrypoint"] = f"train{number}.py"
        run["training/ranks/1/lr"] = number
        for step in range(2):
            metrics = ("train/loss", "train/loss_step", "val/loss", "val/acc", "test/acc", "epoch")
            run.log_metrics(dict.fromkeys(metrics, step + number), step=step)
            run.log_metrics({"lr": 0.1, "monitoring/cpu": 1, "profiling/step_time_s": 1}, step=step)
        run.stop()
        ids.append(run.id)
    lone = start("sweep", name="other")
    lone["params/only"] = 1
    lone.stop()
    return [*ids, lone.id]


def titles(result):
    assert result.exit_code == 0, result.stderr
    return re.split(r"\s{2,}", result.stdout.splitlines()[0])


def test_what_tells_runs_apart_is_shown_unasked(cli, sweep):
    """Losses and accuracies, of validation first, and the parameters that differ."""
    plain = ["RUN", "NAME", "STATE", "CREATED", "RAN FOR", "TAGS"]
    metrics = ["val/loss", "val/acc", "test/acc", "train/loss"]
    assert titles(cli("ls")) == [*plain, *metrics, "parameters/lr", "parameters/model/depth"]
    assert titles(cli("ls", "--query", 'sys/name = "other"')) == plain


def test_programs_get_the_same_columns_whatever_was_recorded(cli, sweep):
    """And only those that they ask for, also when they sort."""
    known = ["sys/name", "sys/state", "sys/creation_time", "sys/running_time", "sys/tags"]
    assert list(listed(cli, "--sort", "val/loss:min")[0]) == ["project", "run", *known]
    table = cli("ls", "--csv", "--sort", "val/loss:min", "--columns", "lr").stdout
    assert table.splitlines()[0] == "project,run,lr"


def test_the_column_that_sorts_is_shown(cli, sweep):
    """Once, wherever columns come from."""
    assert "val/loss:min" in titles(cli("ls", "--sort", "val/loss:min"))
    chosen = titles(cli("ls", "--sort", "`val/loss`:avg", "--columns", "sys/name"))
    assert chosen == ["RUN", "val/loss:mean", "NAME"]
    assert titles(cli("ls", "-s", "lr", "-c", "val/acc,lr")) == ["RUN", "lr", "val/acc"]
    assert "sys/owner" in titles(cli("ls", "--sort", "sys/owner", "--differing"))
    assert "monitoring/cpu:max" in titles(cli("ls", "--sort", "monitoring/cpu:max", "-c", "lr"))


def test_everything_is_what_was_recorded_of_the_training(cli, sweep):
    """How it ran is left out, and that is said; a pattern that names it brings it."""
    result = cli("ls", "--columns", "*")
    found = titles(result)
    assert found[:7] == ["RUN", "NAME", "STATE", "CREATED", "RAN FOR", "val/loss", "val/acc"]
    assert {"parameters/seed", "notes/text", "epoch", "lr", "params/only"} <= set(found)
    assert found.index("params/only") < found.index("sys/owner")
    spaces = ("monitoring", "source_code", "profiling", "training/ranks")
    assert not [name for name in found if name.startswith(spaces)]
    said = "below monitoring/, profiling/, source_code/, training/ranks/"
    assert said in result.stderr
    for words, names in {
        "*,monitoring/*": ["monitoring/cpu"],
        "*/cpu,monitoring/c*": ["monitoring/cpu"],
        "training/ranks/1/*": ["training/ranks/1/lr"],
        "monitoring/cpu:max": ["monitoring/cpu:max"],
        "*/lr": [],
    }.items():
        found = titles(cli("ls", "--columns", words))
        assert [name for name in found if name.startswith(spaces)] == names
    row = listed(cli, "--columns", "*", "--query", "val/loss < 9")[0]
    assert "monitoring/cpu" not in row
    assert row["parameters/seed"] == 1


def test_texts_that_look_like_formulas_stay_texts_in_csv(cli, start):
    """A spreadsheet computes what begins so, in a cell or in a title; numbers stay as they are."""
    params = {"a": "-x", "b": "@y", "c": -1.5, "d": "plain", "e": " =1", "f": "＝1"}  # noqa: RUF001
    run = start(name="=1+1", params=params)
    run["=cmd"] = "+z"
    run.stop()
    text = cli("ls", "--csv", "--columns", "sys/name,parameters/*,=cmd").stdout
    header, row = csv.reader(io.StringIO(text))
    assert header[2:] == ["sys/name", *(f"parameters/{name}" for name in "abcdef"), "'=cmd"]
    assert row[2:] == ["'=1+1", "'-x", "'@y", "-1.5", "plain", "' =1", "'＝1", "'+z"]  # noqa: RUF001


@pytest.mark.once
@pytest.mark.parametrize(("words", "mark"), [([], "▲"), (["--desc"], "▼")])
def test_a_terminal_shows_how_it_is_sorted(terminal, sweep, words, mark):
    """By a mark at the title; what nobody asked for is only counted where there is no room."""
    code, shown = terminal("ls", "--sort", "val/loss:min", *words)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert code == 0
    assert re.search(rf"loss:min {mark}\s", plain)
    assert re.search(r"no room for ([A-Z ]+, )*[A-Z ]+ and \d more; widen", plain)


@pytest.mark.parametrize("zone", ["UTC-9", "UTC+9"])
@pytest.mark.once
@pytest.mark.thorough
def test_a_time_of_the_table_can_be_asked_for(shell, record, zone):
    """What the table shows is in this computer's time zone, and a query reads it so."""
    run = record("p")

    def listed(*words):
        return shell("ls", "--columns", "sys/creation_time", *words, TZ=zone).stdout

    shown = " ".join(listed().splitlines()[1].split()[1:])
    assert run in listed("--query", f"sys/creation_time >= '{shown}'")
    assert run not in listed("--query", f"sys/creation_time < '{shown}'")
    there = datetime.fromisoformat(shown).replace(
        tzinfo=timezone(timedelta(hours=9 if zone == "UTC-9" else -9))
    )
    in_utc = there.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    assert run in listed("--query", f"sys/creation_time >= {in_utc}")
    assert run not in listed("--query", f"sys/creation_time < {in_utc}")


@pytest.mark.once
def test_a_narrow_terminal_shows_a_metric_and_a_parameter(terminal, start):
    """Rather than when runs were created; long names can be told apart, the rest is told."""
    for number in range(3):
        run = start(
            "p",
            name=f"resnet50-imagenet-sweep-lr{number}",
            tags=["a tag", "another tag"],
            params={"lr": 0.1 * number, "width": number, "depth": number},
        )
        run.log_metrics({"val/loss": number + 0.5, "val/acc": 0.5, "train/loss": 0.4}, step=0)
        run.stop()
    _, shown = terminal("ls", columns=80)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    title, *lines = plain.splitlines()
    assert "loss" in title
    assert "/lr" in title
    assert "TAGS" not in title
    assert {
        f"sweep-lr{number}" in line for number, line in zip((2, 1, 0), lines[:3], strict=True)
    } == {True}
    said = re.sub(r"\s+", " ", plain)
    assert re.search(r"no room for ([A-Z ]+, )+[A-Z ]+ and 4 more; widen", said), said
    _, shown = terminal("ls", "--columns", "parameters/width,*", columns=60)
    assert "/width" in shown.splitlines()[0]
