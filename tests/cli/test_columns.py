from __future__ import annotations

import pytest

from seamark.reading.differences import aside, distinguishing_columns, importance, left_out
from seamark.store.read.inherited import SharedPath


def series(*paths, runs=4):
    return [SharedPath(path, True, runs, True, 0) for path in paths]  # noqa: FBT003 - its fields


def values(*paths, runs=4, differs=True, longest=3):
    return [SharedPath(path, False, runs, differs, longest) for path in paths]  # noqa: FBT003


@pytest.mark.parametrize(
    ("paths", "chosen"),
    [
        ("train/loss val/loss", "val/loss train/loss"),
        (
            "val_loss train_loss_step train_loss_epoch",
            "val_loss train_loss_epoch train_loss_step",
        ),
        ("f1 loss test/acc val/f1 val/acc", "val/acc val/f1 test/acc loss"),
        (
            "training/train/loss training/val/acc training/val/loss training/epoch",
            "training/val/loss training/val/acc training/train/loss",
        ),
        ("training/loss metrics/accuracy epoch lr", "metrics/accuracy training/loss lr"),
        ("training/ranks/1/loss monitoring/0/cpu profiling/step_time_s", ""),
    ],
)
def test_four_metrics_are_chosen_and_those_of_validation_come_first(paths, chosen):
    assert distinguishing_columns(series(*paths.split())) == (chosen.split(), [])


def test_parameters_that_differ_tell_runs_apart():
    shared = [
        *values("parameters/b", "parameters/a/lr", "training/hyperparams/x", "sys/name"),
        *values("note", "params", longest=9),
        *values("parameters/same", differs=False),
        *values("parameters/long", longest=80),
        *values("parameters/rare", runs=1),
        *values("distributed/params/x"),
    ]
    assert distinguishing_columns(shared) == (
        [],
        ["parameters/a/lr", "parameters/b", "training/hyperparams/x"],
    )
    assert distinguishing_columns([]) == ([], [])


def test_single_numbers_in_which_runs_differ_are_results():
    shared = [
        *values("test/f1", "size", "epoch", "parameters/lr", longest=0),
        *values("same", differs=False, longest=0),
        *values("note", longest=4),
        *series("val/loss"),
    ]
    assert distinguishing_columns(shared) == (["val/loss", "test/f1", "size"], ["parameters/lr"])


def test_monitoring_profiling_and_ranks_are_left_out_and_that_is_said():
    for path, space in {
        "monitoring/ab12/cpu": "monitoring",
        "training/ranks/1/loss": "training/ranks",
        "my/own/ranks/x": None,
        "ranks": None,
        "metrics/profiling": None,
    }.items():
        assert aside(path) == space, path
    columns = ["lr", "monitoring/a", "monitoring/b", "source_code/git/commit"]
    assert left_out(columns, ["lr"]) == (
        "left out: 3 columns below monitoring/, source_code/; to see them: --columns 'monitoring/*'"
    )
    assert left_out(columns, columns) == ""


def test_losses_come_before_parameters_and_the_rest():
    columns = ["a/note", "parameters/lr", "train/loss", "val/loss:min"]
    assert sorted(columns, key=importance) == columns[::-1]
