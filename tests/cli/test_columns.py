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
        (["train/loss", "val/loss"], ["val/loss", "train/loss"]),
        (["val_loss", "train_loss_step", "train_loss_epoch"], None),
        (
            ["f1", "loss", "test/acc", "val/f1", "val/acc"],
            ["val/acc", "val/f1", "test/acc", "loss"],
        ),
        (
            ["training/train/loss", "training/val/acc", "training/val/loss", "training/epoch"],
            ["training/val/loss", "training/val/acc", "training/train/loss"],
        ),
        (["training/loss", "metrics/accuracy", "epoch", "lr"], None),
        (["training/ranks/1/loss", "monitoring/0/cpu", "profiling/step_time_s"], []),
    ],
)
def test_metrics_of_validation_come_first(paths, chosen):
    """Losses and scores before others, whatever a logger's prefix; four of them."""
    metrics, parameters = distinguishing_columns(series(*paths))
    order = {
        "val_loss": ["val_loss", "train_loss_epoch", "train_loss_step"],
        "training/loss": ["metrics/accuracy", "training/loss", "lr"],
    }
    assert metrics == (order[paths[0]] if chosen is None else chosen)
    assert parameters == []


def test_parameters_that_differ_tell_runs_apart():
    """Rates first; no long texts, and nothing that is no parameter."""
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
    """As a script assigns them at its end; no parameters, texts or counters."""
    shared = [
        *values("test/f1", "size", "epoch", "parameters/lr", longest=0),
        *values("same", differs=False, longest=0),
        *values("note", longest=4),
        *series("val/loss"),
    ]
    assert distinguishing_columns(shared) == (["val/loss", "test/f1", "size"], ["parameters/lr"])


@pytest.mark.parametrize(
    ("path", "space"),
    [
        ("monitoring/ab12/cpu", "monitoring"),
        ("training/ranks/1/loss", "training/ranks"),
        ("my/own/ranks/x", None),
        ("ranks", None),
        ("metrics/profiling", None),
    ],
)
def test_how_a_run_ran_stands_aside(path, space):
    """At the top, or below the prefix of a logger."""
    assert aside(path) == space


def test_what_was_left_out_is_said():
    """How much, and how to see it."""
    columns = ["lr", "monitoring/a", "monitoring/b", "source_code/git/commit"]
    assert left_out(columns, ["lr"]) == (
        "left out: 3 columns below monitoring/, source_code/; to see them: --columns 'monitoring/*'"
    )
    assert left_out(columns, columns) == ""


def test_what_people_look_for_is_important():
    """Losses, then parameters, then the rest."""
    columns = ["a/note", "parameters/lr", "train/loss", "val/loss:min"]
    assert sorted(columns, key=importance) == columns[::-1]
