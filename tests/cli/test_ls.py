from __future__ import annotations

import csv
import io
import json
import math
import re
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest


@pytest.fixture
def five(start):
    """Five runs that differ in rate and loss; the fourth one's loss is NaN, the last has none."""
    ids = []
    for number in range(5):
        params = {"lr": 10.0**-number, "same": 1, "text": "x" * number}
        given = {"name": f"run {number}", "tags": ["odd" if number % 2 else "even"]}
        with start("team/a" if number < 3 else "team/b", params=params, **given) as run:
            if number < 4:
                for step in (0, 1):
                    loss = math.nan if number == 3 else number + step / 2
                    run.log_metrics({"val/loss": loss}, step=step)
        ids.append(run.id)
    return ids


def listed(cli, *words):
    result = cli("ls", "--json", *words)
    assert result.exit_code == 0, result.stderr
    found: list[dict[str, Any]] = json.loads(result.stdout, parse_constant=pytest.fail)
    return found


def names(cli, *words):
    return [int(row["sys/name"].split()[1]) for row in listed(cli, "--columns", "sys/name", *words)]


def test_csv_keeps_paths_named_like_columns_and_marks_texts_like_formulas(cli, start):
    """A spreadsheet computes what begins so, in a cell or in a title; numbers stay as they are."""
    params = {"a": "-x", "b": "@y", "c": -1.5, "d": "plain", "e": " =1", "f": "＝1"}  # noqa: RUF001
    with start("real", name="=1+1", params=params) as one, start("real") as other:
        one["=cmd"] = "+z"
        one["project"] = "mine"
        one["run"] = 1
    columns = "project,run,sys/name,parameters/*,=cmd"
    text = cli("ls", "--csv", "--asc", "--columns", columns).stdout
    header, row, empty = csv.reader(io.StringIO(text))
    parameters = [f"parameters/{name}" for name in "abcdef"]
    assert header == ["project", "run", "project", "run", "sys/name", *parameters, "'=cmd"]
    assert row[:5] == ["real", one.id, "mine", "1", "'=1+1"]
    assert row[5:] == ["'-x", "'@y", "-1.5", "plain", "' =1", "'＝1", "'+z"]  # noqa: RUF001
    assert empty == ["real", other.id, *[""] * 10]


CHOSEN = (
    ([], [4, 3, 2, 1, 0]),
    (["--asc"], [0, 1, 2, 3, 4]),
    (["--project", "team/a"], [2, 1, 0]),
    (["--project", "team"], [4, 3, 2, 1, 0]),
    (["--tag", "odd"], [3, 1]),
    (["--state", "completed", "--limit", "1"], [4]),
    (["--query", "parameters/lr < 0.05"], [4, 3, 2]),
    (["--sort", "parameters/lr", "--asc"], [4, 3, 2, 1, 0]),
    (["--sort", "val/loss:min", "--asc"], [0, 1, 2, 3, 4]),
    (["--sort", "val/loss:min", "--desc"], [2, 1, 0, 3, 4]),
    (["--sort", "`val/loss`:MIN"], [0, 1, 2, 3, 4]),
    (["--sort", "val/loss"], [2, 1, 0, 3, 4]),
    (["--query", "sys/creation_time >= -1h AND sys/tags IN (odd, other)"], [3, 1]),
)


def test_runs_are_chosen_and_sorted_with_nan_and_missing_last(cli, five):
    for words, expected in CHOSEN:
        assert names(cli, *words) == expected, words
    assert "2 runs of 5" in cli("ls", "--limit", 2).stderr  # pipes stay clean
    assert cli("ls", "--limit", 0).stderr == ""


def test_columns_are_chosen_and_csv_and_json_keep_all_digits(cli, five):
    rows = listed(cli, "--columns", "val/loss,val/loss:min,parameters/*", "--asc")
    assert list(rows[0])[:4] == ["project", "run", "val/loss", "val/loss:min"]
    assert (rows[1]["val/loss"], rows[1]["val/loss:min"]) == (1.5, 1.0)
    assert (rows[3]["val/loss"], rows[4]["val/loss"]) == ("nan", None)
    assert {"parameters/lr", "parameters/same", "parameters/text"} <= set(rows[0])
    rows = listed(cli, "--columns", "parameters/*", "--differing")
    assert "parameters/lr" in rows[0]
    assert "parameters/same" not in rows[0]
    text = cli("ls", "--csv", "--asc", "--columns", "sys/name,val/loss,parameters/lr").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["run"] for row in rows] == five
    assert [row["val/loss"] for row in rows] == ["0.5", "1.5", "2.5", "nan", ""]
    assert float(rows[3]["parameters/lr"]) == 10.0**-3


@pytest.mark.once
def test_pipe_gets_complete_lines_and_terminal_gets_lines_that_fit(cli, screen, record, five):
    for columns in (20, 40, 80):
        lines = screen("ls", columns=columns).splitlines()
        table = [line for line in lines if any(run in line for run in five)]
        assert len(table) == 5
        assert max(map(len, table)) <= columns
        assert columns > 20 or "no room for" in " ".join(lines)
    long = "a very long name " * 20
    record(name=long.strip())
    shown = cli("ls").stdout
    assert long.strip() in shown
    assert len(shown.splitlines()) == 7
    assert "\x1b" not in shown


MISTAKES = (
    (["--query", "parameters/lr < 1 AND lr < 1"], "there is 'parameters/lr'", "lr < 1"),
    (["--columns", "val/los"], "column: no run has 'val/los'; there is 'val/loss'", "val/los"),
    (["--columns", "val/loss:median"], "did you mean 'mean'?", ":median"),
    (["--columns", "parameters/lr:min"], "is a number, not a series", "parameters/lr:min"),
    (["--columns", "hyper/*"], "column: no path matches 'hyper/*'", "hyper/*"),
    (["--sort", "lr"], "sort: no run has 'lr'; there is 'parameters/lr'", "lr"),
    (["--sort", "sys/tags"], "is a set of strings, which cannot be sorted", "sys/tags"),
)


def test_mistakes_in_queries_and_columns_are_marked_by_a_caret(cli, five):
    for words, message, place in MISTAKES:
        done = cli("ls", *words)
        assert (done.exit_code, done.stdout) == (2, ""), words
        said, line, caret = done.stderr.splitlines()
        assert message in said, words
        assert line[caret.index("^") :] == place, words


@pytest.fixture
def sweep(start):
    """Three trials that differ in two parameters, and a run of another kind."""
    for number in range(3):
        given = {"lr": 10.0**-number, "seed": 1, "model": {"depth": number, "act": "relu"}}
        with start("sweep", name=f"trial {number}", params=given) as run:
            run["notes/text"] = "different " * 9 + str(number)
            run["source_code/entrypoint"] = f"train{number}.py"
            run["training/ranks/1/lr"] = number
            for step in range(2):
                names = (
                    "train/loss",
                    "train/loss_step",
                    "val/loss",
                    "val/acc",
                    "test/acc",
                    "epoch",
                )
                machine = {"lr": 0.1, "monitoring/cpu": 1, "profiling/step_time_s": 1}
                run.log_metrics(dict.fromkeys(names, step + number) | machine, step=step)
    with start("sweep", name="other") as lone:
        lone["params/only"] = 1


def titles(result):
    assert result.exit_code == 0, result.stderr
    return re.split(r"\s{2,}", result.stdout.splitlines()[0])


def test_default_columns_show_metrics_and_differing_parameters(cli, sweep):
    standard = ["RUN", "NAME", "STATE", "CREATED", "RAN FOR", "TAGS"]
    metrics = ["val/loss", "val/acc", "test/acc", "train/loss"]
    assert titles(cli("ls")) == [*standard, *metrics, "parameters/lr", "parameters/model/depth"]
    assert titles(cli("ls", "--query", 'sys/name = "other"')) == standard
    # Programs get the same columns whatever was recorded.
    known = ["sys/name", "sys/state", "sys/creation_time", "sys/running_time", "sys/tags"]
    assert list(listed(cli, "--sort", "val/loss:min")[0]) == ["project", "run", *known]
    table = cli("ls", "--csv", "--sort", "val/loss:min", "--columns", "lr").stdout
    assert table.splitlines()[0] == "project,run,lr"


def test_single_numbers_that_differ_are_columns_after_metrics(cli, start):
    for number in range(3):
        with start("p") as run:
            run["val/loss"].append(1.0)
            run["test/f1"] = number
            run["same"] = 1
    assert titles(cli("ls"))[-2:] == ["val/loss", "test/f1"]


def test_pattern_star_leaves_out_monitoring_profiling_and_source_code(cli, sweep):
    result = cli("ls", "--columns", "*")
    found = titles(result)
    assert {"parameters/seed", "notes/text", "epoch", "lr", "params/only"} <= set(found)
    spaces = ("monitoring", "source_code", "profiling", "training/ranks")
    assert not [name for name in found if name.startswith(spaces)]
    assert "below monitoring/, profiling/, source_code/, training/ranks/" in result.stderr
    for words, names in {
        "*,monitoring/*": ["monitoring/cpu"],
        "monitoring/cpu:max": ["monitoring/cpu:max"],
    }.items():
        found = titles(cli("ls", "--columns", words))
        assert [name for name in found if name.startswith(spaces)] == names
    row = listed(cli, "--columns", "*", "--query", "val/loss < 9")[0]
    assert "monitoring/cpu" not in row
    assert row["parameters/seed"] == 1


@pytest.mark.once
def test_queries_read_times_as_the_table_shows_them(cli, record, monkeypatch):
    run = record("p")
    monkeypatch.setenv("TZ", "UTC-9")
    time.tzset()
    try:
        shown = cli("ls", "--columns", "sys/creation_time").stdout.splitlines()[1].split()
        moment = f"'{' '.join(shown[1:])}'"
        assert run in cli("ls", "--query", f"sys/creation_time >= {moment}").stdout
        assert run not in cli("ls", "--query", f"sys/creation_time < {moment}").stdout
        here = datetime.fromisoformat(" ".join(shown[1:])).astimezone(timezone.utc)
        assert abs(datetime.now(timezone.utc) - here) < timedelta(minutes=10)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_child_runs_are_listed_below_their_parent(start, screen, cli):
    """On a terminal, where nobody asked for another order."""
    with start(name="sweep") as run:
        with start(name="one", parent=run) as one:
            pass
        start(name="two", parent=run).stop()
        start(name="inner", parent=one).stop()
    start(name="newest").stop()
    shown = screen("ls", columns=100)
    names = ("newest", "sweep", "two", "one", "inner")
    lines = [line for line in shown.splitlines() if any(name in line for name in names)]
    assert [next(name for name in names if name in line) for line in lines] == list(names)
    assert "└" not in screen("ls", "--sort", "sys/name", "--asc")
    assert "└" not in cli("ls").output
    listed = json.loads(cli("ls", "--json", "-c", "sys/parent").output)
    assert sum(row["sys/parent"] == run.id for row in listed) == 2


def test_runs_that_are_their_own_ancestors_are_all_listed(start, screen):
    with start(name="one") as one, start(name="two", parent=one) as two:
        one["sys/parent"] = two.id
    with start(name="self") as itself:
        itself["sys/parent"] = itself.id
    shown = screen("ls", columns=100)
    assert all(name in shown for name in ("one", "two", "self"))
