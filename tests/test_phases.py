"""`log_metrics` with phases, epochs and steps that are datetimes."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime, timezone

import pytest
from recording import QUIET

import seamark
from seamark.errors import ArgumentError


@pytest.fixture
def run():
    with seamark.init_run(**QUIET) as run:
        yield run


def points(run, path):
    found = run[path].fetch_points()
    return list(zip(found.step.tolist(), found.value.tolist(), strict=True))


def dropped(run):
    run.stop()
    again = seamark.init_run(with_id=run.id, mode="read-only")
    return again["monitoring/seamark/dropped"].fetch()


def test_each_word_for_a_phase_means_one_place(run):
    for place, words in (
        ("train", ("train", "training")),
        ("val", ("val", "validate", "validation")),
        ("test", ("test", "testing", "eval", "evaluate", "evaluation")),
        ("warmup/2", ("warmup/2",)),
    ):
        for step, word in enumerate(words):
            run.log_metrics({"loss": 0.5}, step, phase=word)
            run["fold/1"].log_metrics({"loss": 0.5}, step, phase=word)
        expected = [(step, 0.5) for step in range(len(words))]
        assert points(run, f"{place}/loss") == points(run, f"fold/1/{place}/loss") == expected


def test_the_epoch_stands_beside_the_metrics_at_their_step(run):
    """Once: a metric of that name is left out, and the others are not."""
    run.log_metrics({"loss": 1.0}, 10, phase="train", epoch=0)
    run.log_metrics({"loss": 0.5, "epoch": 7.0}, 20, phase="train", epoch=1)
    run.log_metrics({"loss": 0.5}, 30, epoch=2)
    run.log_metrics({}, 40, epoch=3)
    run["a"].log_metrics({"loss": 0.5}, epoch=1)
    run.log_metrics({"loss": 0.5}, phase="val", epoch="first")
    assert points(run, "train/epoch") == [(10, 0), (20, 1)]
    assert points(run, "train/loss") == [(10, 1.0), (20, 0.5)]
    assert points(run, "epoch") == [(30, 2), (40, 3)]
    assert (points(run, "a/epoch"), points(run, "a/loss")) == ([(0, 1)], [(0, 0.5)])
    assert not run.exists("val/epoch")
    assert points(run, "val/loss") == [(0, 0.5)]
    assert dropped(run) == {"epoch": 1, "value": 1}


@pytest.mark.parametrize("phase", ["", 3])
def test_a_phase_that_is_no_path_loses_the_call_and_nothing_else(run, phase, caplog):
    run.log_metrics({"loss": 1.0, "acc": 1.0}, phase=phase)
    run.log_metrics([1.0], phase="train")
    run.log_metrics({"loss": 2.0}, phase="train")
    assert "log_metrics: phase: path: expected" in caplog.text
    assert points(run, "train/loss") == [(0, 2.0)]
    assert dropped(run) == {"metrics": 3}


class _WordlessError(Exception):
    def __str__(self):
        return self.args[0]


class _Broken(dict):
    def items(self):
        raise _WordlessError(3)


def test_metrics_whose_error_has_no_text_are_lost_and_nothing_else(run, caplog):
    run.log_metrics(_Broken(loss=1.0, acc=1.0), phase="train")
    run["train"].log_metrics(_Broken(loss=1.0))
    run["train"].log_metrics(OrderedDict(loss=1.0, acc=1.0), phase="")
    run.log_metrics({"loss": 2.0}, phase="train")
    assert "expected a mapping of paths to numbers: _WordlessError(3)" in caplog.text
    assert points(run, "train/loss") == [(0, 2.0)]
    assert dropped(run) == {"metrics": 5}


def test_steps_may_be_datetimes(run):
    noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    local = noon.astimezone().replace(tzinfo=None)
    run.log_metrics({"a": 1.0}, noon)
    run.log_metrics({"a": 2.0}, local)
    run["a"].append(3.0, step=noon)
    run["b"].extend([1.0], steps=[local])
    assert run["a"].fetch_points().step.tolist() == [noon.timestamp()] * 3
    assert run["b"].fetch_points().step.tolist() == [noon.timestamp()]
    with pytest.raises(ArgumentError, match="step: expected a finite number"):
        run["a"].append(3.0, step=datetime(3000, 1, 1, tzinfo=timezone.utc))
