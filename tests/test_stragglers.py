"""Stragglers are told by name: from recorded step times, in Python and by the command."""

from __future__ import annotations

import json
import math
import re

import pytest
from command import outcome_of
from recording import QUIET

from seamark import init_run
from seamark.errors import MissingFieldError
from seamark.run.run import make_run

pytestmark = pytest.mark.once


def record(root, series):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORLD_SIZE", str(len(series)))
        for rank, paths in series.items():
            patch.setenv("RANK", str(rank))
            with init_run("p", root=root, custom_run_id="one", ranks="all", **QUIET) as run:
                for path, values in paths.items():
                    for step, value in enumerate(values):
                        run.log_metrics({path: value}, step)
    return init_run("p", root=root, custom_run_id="one", mode="read-only")


def seamark(root, *words):
    return outcome_of(*words, "--root", str(root))


def test_slowest_rank_comes_first_by_its_steps_without_the_first(tmp_path):
    """By whole steps where ranks do not wait for each other."""
    paths = "profiling/step_time_s"
    run = record(
        tmp_path,
        {
            0: {paths: [9.0, 0.02, 0.02, 0.02, 0.02]},
            1: {f"training/ranks/1/{paths}": [9.0]},  # not the namespace of the others
            2: {paths: [1.0, 0.05, 0.03, 0.05, 0.07]},
            3: {paths: [1.0, 0.02, math.inf, 0.02, 0.04]},
        },
    )
    found = run.stragglers()
    assert [one.rank for one in found] == [3, 2, 0, 1]
    rank3, rank2, rank0, rank1 = found
    assert rank2.mean_s == pytest.approx(0.05)
    assert (rank2.steps, rank2.p50_s, rank2.max_s, rank2.state) == (5, 0.05, 1.0, "completed")
    assert (rank3.steps, rank3.p95_s) == (4, 1.0)  # too few to leave the first one out
    assert rank2.slowdown == pytest.approx(0.05 / ((0.02 + rank3.mean_s) / 2))
    assert None not in (rank0.pid, rank0.last_seen)
    assert (rank1.steps, math.isnan(rank1.slowdown)) == (0, True)
    assert math.isnan(rank0.own_s)


def test_synchronous_ranks_are_compared_by_their_own_time(tmp_path):
    """The command says who is slow, in a table and in a sentence."""
    series = {
        rank: {"profiling/step_time_s": [0.1] * 6, "profiling/own_time_s": [own] * 6}
        for rank, own in enumerate((0.02, 0.021, 0.061))
    }
    slowest, *others = record(tmp_path, series).stragglers()
    assert (slowest.rank, slowest.own_s, slowest.mean_s) == (2, pytest.approx(0.061), 0.1)
    assert slowest.slowdown == pytest.approx(0.061 / 0.0205)
    assert all(one.slowdown < 1.1 for one in others)
    shown = seamark(tmp_path, "show", "latest", "--ranks")
    assert shown.exit_code == 0
    header, first, second, *_, sentence = shown.stdout.splitlines()
    assert header.split()[:7] == ["RANK", "HOST", "PID", "STATE", "TIMES", "OWN", "MEAN"]
    assert first.split()[0] == "2"
    assert "2.98x  " + "█" * 24 in first
    assert second.endswith("█" * 8)
    assert sentence.startswith("Rank 2 on ")
    assert "is the slowest: 61 ms of own time per step, 2.98 times the median" in sentence
    told = json.loads(seamark(tmp_path, "show", "latest", "--ranks", "--json").stdout)
    assert [one["rank"] for one in told["ranks"]] == [2, 1, 0]
    assert told["ranks"][0]["own_s"] == pytest.approx(0.061)
    assert told["verdict"] == sentence


def test_runs_without_ranks_or_times_raise_exact_errors(tmp_path):
    """In Python and by the command: exit code 2, one line."""
    step = "profiling/step_time_s"
    for name, series, said in (
        ("alone", {0: {step: [0.1]}}, r"only one rank has records.*ranks='all'"),
        ("untimed", {0: {"loss": [1.0]}, 1: {"loss": [1.0]}}, f"no rank recorded {step}"),
    ):
        run = record(tmp_path / name, series)
        with pytest.raises(MissingFieldError, match=said):
            run.stragglers()
        shown = seamark(tmp_path / name, "show", "latest", "--ranks")
        assert (shown.exit_code, shown.stdout) == (2, "")
        assert re.search(said.partition(".*")[0], shown.stderr)
    fresh = make_run(project="p", root=tmp_path / "new", **QUIET)
    with pytest.raises(MissingFieldError, match="nothing is recorded"):
        fresh.stragglers()


def test_times_in_a_namespace_are_found(tmp_path):
    path = "folds/1/profiling/step_time_s"
    run = record(tmp_path, {0: {path: [0.1]}, 1: {path: [0.3]}})
    assert [(one.rank, one.mean_s) for one in run.stragglers()] == [(1, 0.3), (0, 0.1)]
