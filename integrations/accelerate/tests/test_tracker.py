"""The tracker in one process, under a real Accelerator."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from accelerate import Accelerator

import seamark
from seamark.accelerate import SeamarkTracker
from seamark.errors import ArgumentError, MissingExtraError, PathError, UnknownArgumentError


def begun(config=None, **given):
    """Return an Accelerator whose tracker has begun, and the run."""
    accelerator = Accelerator(log_with=SeamarkTracker(**given), cpu=True)
    accelerator.init_trackers("not asked", config=config)
    return accelerator, accelerator.get_tracker("seamark", unwrap=True)


def reading(run):
    return seamark.init_run(run.project, with_id=run.id, mode="read-only")


def points(run, path):
    found = run[path].fetch_points()
    return list(zip(found.step.tolist(), found.value.tolist(), strict=True))


def dropped(run):
    return reading(run)["monitoring/seamark/dropped"].fetch()


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ({"tgas": ["a"]}, UnknownArgumentError, "tgas"),
        ({"project": "a//b"}, PathError, "a//b"),
        ({"ranks": "all"}, ArgumentError, "expected 'zero' .*, got 'all'"),
        ({"run": 3}, ArgumentError, r"SeamarkTracker\(run=...\): expected the Run .* got int: 3"),
    ],
)
def test_a_wrong_argument_is_refused_where_it_is_given(given, kind, said):
    with pytest.raises(kind, match=said):
        SeamarkTracker(**given)
    assert not Path(".seamark").exists()


def test_init_kwargs_are_arguments_of_the_run():
    """A mistake in them is raised by ``init_trackers``, before the training."""
    accelerator = Accelerator(log_with="seamark", cpu=True)
    with pytest.raises(UnknownArgumentError, match="nmae"):
        accelerator.init_trackers("p", init_kwargs={"seamark": {"nmae": "first"}})
    accelerator.init_trackers("a/b", init_kwargs={"seamark": {"name": "first", "tags": ["x"]}})
    run = accelerator.get_tracker("seamark", unwrap=True)
    assert (run.project, run.name) == ("a/b", "first")
    accelerator.end_training()
    assert reading(run)["sys/tags"].fetch() == {"x"}


def test_without_accelerate_the_extra_is_named():
    code = "import sys; sys.modules['accelerate'] = None; import seamark.accelerate"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtraError" in done.stderr
    assert "pip install 'seamark[accelerate]'" in done.stderr
    assert issubclass(MissingExtraError, ModuleNotFoundError)


# ---------------------------------------------------------------- what is recorded


def test_values_steps_and_configuration():
    """Numbers, tensors and texts at their steps; a configuration as it is nested."""
    accelerator, run = begun({"lr": 0.1, "net": {"width": 3, "act": torch.nn.ReLU}}, project="p")
    for step in (0, 5):
        values = {"loss": torch.tensor(1.5), "val": {"acc": step / 10}, "note": f"at {step}"}
        accelerator.log(values, step=step)
    accelerator.log({"free": 1})
    accelerator.log({"free": 2})
    assert run.params.net.width == 3
    assert run.written_state == "running"
    accelerator.end_training()
    read = reading(run)
    assert points(read, "loss") == [(0, 1.5), (5, 1.5)]
    assert points(read, "val/acc") == [(0, 0.0), (5, 0.5)]
    assert points(read, "free") == [(0, 1), (1, 2)]
    assert [point.text for point in read.session.recorded.view().texts("note")] == ["at 0", "at 5"]
    assert read["parameters/lr"].fetch() == 0.1
    assert "ReLU" in read["parameters/net/act"].fetch()
    assert read["distributed/world_size"].fetch() == 1
    assert read["sys/state"].fetch() == "completed"


def test_images_one_and_several():
    accelerator, run = begun(project="p")
    one = np.zeros((4, 4, 3))
    tracker = accelerator.get_tracker("seamark")
    tracker.log_images({"one": one, "list": [one, one], "batch": np.zeros((2, 4, 4, 3))}, step=2)
    accelerator.end_training()
    found = {each.path: each.family for each in run.session.recorded.attributes("")}
    wanted = {"one", "list/0", "list/1", "batch/0", "batch/1"}
    assert wanted == {path for path, family in found.items() if family == "file_series"}


def test_a_run_that_is_given_stays_open():
    """And one that is a namespace has everything below it."""
    run = seamark.init_run("p")
    accelerator, _ = begun({"lr": 1}, run=run["folds/1"])
    accelerator.log({"loss": 2.0}, step=1)
    accelerator.end_training()
    assert run.written_state == "running"
    assert points(run, "folds/1/loss") == [(1, 2.0)]
    assert run["folds/1/parameters/lr"].fetch() == 1
    run.stop()


def test_a_checkpoint_continues_its_run():
    """What was recorded after the checkpoint is hidden in the new attempt."""

    def made():
        tracker = SeamarkTracker("p")
        accelerator = Accelerator(log_with=tracker, cpu=True)
        accelerator.register_for_checkpointing(tracker)
        return accelerator, tracker

    accelerator, tracker = made()
    accelerator.init_trackers("p", config={"lr": 1})
    accelerator.log({"loss": 1.0}, step=0)
    accelerator.save_state("saved")
    accelerator.log({"loss": 9.0}, step=1)
    accelerator.end_training()
    first = tracker.tracker.id

    accelerator, tracker = made()
    accelerator.load_state("saved")
    accelerator.init_trackers("p", config={"lr": 1})
    accelerator.log({"loss": 0.5}, step=1)
    accelerator.end_training()
    assert tracker.tracker.id == first
    assert points(reading(tracker.tracker), "loss") == [(0, 1.0), (1, 0.5)]


def test_a_training_that_ends_in_a_finally_has_failed():
    """``end_training`` is called while the exception is on its way."""
    accelerator, run = begun(project="p")
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the order is the subject
        try:
            accelerator.log({"loss": 1 / 0})
        finally:
            accelerator.end_training()
    assert reading(run)["sys/state"].fetch() == "failed"


# ---------------------------------------------------------------- training comes first


def test_what_cannot_be_recorded_is_counted(caplog):
    """One warning of each kind, however often; everything else is recorded."""
    accelerator, run = begun(project="p")
    for step in range(3):
        accelerator.log({"good": step, "odd": object()}, step=step)
        accelerator.log({"good": 0}, step=step, log_kwargs={"seamark": {"commit": True}})
        accelerator.get_tracker("seamark").log_images({"image": "no image"}, step=step)
    accelerator.end_training()
    accelerator.log({"late": 1})
    accelerator.end_training()
    assert points(reading(run), "good") == [(0, 0), (1, 1), (2, 2)]
    assert {"accelerate.log": 3, "accelerate.log_images": 3}.items() <= dropped(run).items()
    assert len(re.findall("unexpected keyword argument 'commit'", caplog.text)) == 1
    assert len(re.findall("log_images: ", caplog.text)) == 1


@pytest.mark.parametrize("when", ["from the start", "later"])
def test_a_full_disk_is_not_the_trainings_trouble(when, monkeypatch, caplog):
    """Whether it fills before the run begins or while it is recorded."""

    def full(*given):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if when == "from the start":
        monkeypatch.setattr("os.write", full)
    accelerator, run = begun({"lr": 1}, project="p")
    with monkeypatch.context() as patched:
        patched.setattr("os.write", full)
        accelerator.log({"loss": 1.0}, step=0)
        accelerator.get_tracker("seamark").log_images({"image": np.zeros((2, 2))}, step=0)
    accelerator.end_training()
    assert "No space left" in caplog.text
    if when == "later":  # it waited in memory
        assert points(reading(run), "loss") == [(0, 1.0)]


def test_a_root_that_cannot_be_written_is_not_the_trainings_trouble(caplog):
    """A file stands where the folder of all runs should be."""
    Path("file").write_text("")
    accelerator, _ = begun({"lr": 1}, project="p", root="file/below")
    accelerator.log({"loss": 1.0}, step=0)
    accelerator.end_training()
    assert "file" in caplog.text
