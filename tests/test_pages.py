"""Fields and groups of tables of runs: on a folder and through a server."""

from __future__ import annotations

import json
import math
import statistics

import pytest
from command import outcome_of
from recording import QUIET

from seamark import init_project, init_run
from seamark.errors import ArgumentError


def record(root, name, **values):
    with init_run(project="team", custom_run_id=name, name=name, root=root, **QUIET) as run:
        for path, value in values.items():
            if isinstance(value, set):
                run[path].add(sorted(value))
            elif isinstance(value, list):
                run[path].extend(value)
            else:
                run[path] = value
        return run["sys/id"].fetch()


@pytest.fixture
def project(tmp_path):
    return init_project(project="team", root=tmp_path)


def test_fields_say_what_runs_show_and_where_they_differ(tmp_path, project):
    same = {"text": "x", "flag": True, "tags": {"a", "b"}, "loss": [3.0, 1.0], "long": "y" * 5000}

    def differing():
        return {one.path for one in project.fetch_fields() if one.differing} & {*same, *own}

    own = {"lr", "nan", "own"}
    record(tmp_path, "a", **same, lr=1, nan=math.nan, own=1)
    record(tmp_path, "b", **same, lr=2, nan=math.nan)
    found = {one.path: one for one in project.fetch_fields()}
    assert found.keys() >= {*same, *own}
    assert differing() == {"lr", "own"}
    families = [found[path].family for path in ("lr", "loss", "tags")]
    assert families == ["atom", "float_series", "string_set"]
    assert (found["lr"].count, found["own"].count) == (2, 1)
    record(tmp_path, "c", **{**same, "tags": {"a"}, "long": "y" * 4999 + "z"}, lr=1.5, nan=math.inf)
    assert differing() == {"tags", "long", "nan", "lr", "own"}
    some = project.fetch_fields(contains="LO", query="lr = 1")
    assert [one.path for one in some] == ["long", "loss"]


def test_groups_have_mean_and_spread_of_what_is_finite(tmp_path, project):
    for at, lr in enumerate([1, 1.0, None, math.nan, math.nan, True, 1]):
        loss = [0.5, 0.25, 0.1, math.inf, 3.0, None, math.nan][at]
        given = {"lr": lr, "loss": loss}
        record(tmp_path, f"run{at}", **{key: one for key, one in given.items() if one is not None})
    found = project.group_runs("lr", "loss", ascending=True)
    by = [repr(one.by["lr"]) for one in found]
    assert by == ["1", "None", "nan", "True"]
    assert [one.n for one in found] == [3, 1, 2, 1]
    ones, none, nans, true = (one.values["loss"] for one in found)
    assert (ones.n, ones.odd, ones.mean, ones.min, ones.max) == (2, 1, 0.375, 0.25, 0.5)
    assert ones.std == statistics.stdev([0.5, 0.25])
    assert (none.n, none.std, nans.n, nans.odd, true.n, true.mean) == (1, None, 1, 1, 0, None)
    part = project.group_runs(["lr"], ascending=True, offset=1, limit=2)
    assert ([repr(one.by["lr"]) for one in part], part.total) == (["None", "nan"], 4)
    row = found.to_rows()[0]
    assert (row["n"], row["loss:mean"], len(row["ids"])) == (3, 0.375, 3)
    for wrong in ("lr*", [], [1]):
        with pytest.raises(ArgumentError, match="by"):
            project.group_runs(wrong)
    frame = pytest.importorskip("pandas") and found.to_pandas()
    assert frame["loss:mean"][0] == 0.375


def test_the_command_groups_and_turns_pages(tmp_path):
    for at in range(4):
        record(tmp_path, f"run{at}", lr=[0.1, 0.2][at % 2], loss=float(at))

    def ls(*words, code=0):
        told = outcome_of("ls", *words, "--root", str(tmp_path))
        assert told.exit_code == code, told.output
        return told.output

    groups = ["--by", "lr", "--columns", "loss"]
    lines = [line.split() for line in ls(*groups).splitlines()]
    assert lines[0] == ["lr", "RUNS", "loss"]
    assert lines[1][:4] == ["0.2", "2", "2.0", "±"]
    found = [
        (one["lr"], one["loss:mean"], len(one["ids"])) for one in json.loads(ls(*groups, "--json"))
    ]
    assert found == [(0.2, 2.0, 2), (0.1, 1.0, 2)]
    assert ls(*groups, "--csv").splitlines()[0] == (
        "lr,n,loss:n,loss:odd,loss:mean,loss:median,loss:std,loss:min,loss:max,ids"
    )
    told = ls("--sort", "loss", "--asc", "-c", "loss", "--json", "--offset", "1", "-n", "2")
    assert [row["loss"] for row in json.loads(told[: told.rindex("]") + 1])] == [1.0, 2.0]
    ls("--by", "lr", "--differing", code=2)
