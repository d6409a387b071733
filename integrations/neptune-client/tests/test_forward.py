"""Runs that are sent to ``neptune://`` are read with the package neptune."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

TRAINS = """
import math
import numpy as np
import seamark
run = seamark.init_run("demo", name="hello", tags=["a", "b"], remote="neptune://team/onward")
run["lr"] = 0.5
run["big"] = 1 << 40
run["a"] = 1
run["a/b"] = 2
run["labels"] = seamark.types.StringSet(["x", "y"])
run["notes"].upload(seamark.types.File.from_content("all good"))
run["set"].upload_files("*.py")
run["loss"].append(math.nan, step=5000)
run["fraction"].append(1.5, step=0.5)
for step in range(2000):
    run.log_metrics({"loss": 1 / (step + 1)}, step=step)
for step in range(3):
    run["pictures"].append(seamark.types.File.as_image(np.eye(4)), step=step)
run["text"].append("done")
run.stop()
"""
LIGHTNING = """
import lightning as L
import torch
from lightning.pytorch.demos.boring_classes import BoringModel
from seamark.lightning import SeamarkLogger

class Model(BoringModel):
    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)["loss"]
        self.log("train/loss", loss, sync_dist=True)
        self.log("rank", float(self.global_rank), sync_dist=True, reduce_fx="sum")
        return loss

if __name__ == "__main__":
    logger = SeamarkLogger(
        api_key=API_KEY, project="team/digits", remote="neptune://team/onward", name="ddp"
    )
    trainer = L.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, limit_train_batches=10,
        limit_val_batches=2, log_every_n_steps=1, logger=logger, enable_progress_bar=False,
        enable_model_summary=False,
    )
    logger.log_hyperparams({"lr": 0.1, "layers": [2, 3]})
    trainer.fit(Model())
    if trainer.is_global_zero:
        print("RUN", logger.experiment.id, flush=True)
"""
IGNITE = """
import torch
from ignite.engine import Engine, Events
from seamark.ignite import SeamarkLogger

trainer = Engine(lambda engine, batch: {"loss": 1 / batch})
with SeamarkLogger(
    api_key=API_KEY, project="team/digits", remote="neptune://team/onward", name="ignite"
) as logger:
    logger.attach_output_handler(
        trainer, Events.ITERATION_COMPLETED, tag="train", output_transform=lambda out: out
    )
    trainer.run(range(1, 11), max_epochs=2)
"""
READS = """
import json, os, sys, neptune
project = neptune.init_project(mode="read-only")
table = project.fetch_runs_table(columns=["sys/id", "sys/name"]).to_pandas()
name = table[table["sys/name"] == sys.argv[1]]["sys/id"].item()
run = neptune.init_run(with_id=name, mode="read-only")
found = {}
for path in sys.argv[2:]:
    kind = type(run.get_attribute(path)).__name__
    if kind in ("FloatSeries", "StringSeries"):
        values = run[path].fetch_values(include_timestamp=False)
        found[path] = values[["step", "value"]].values.tolist()
    elif kind == "FileSeries":
        run[path].download("pictures")
        found[path] = len(os.listdir("pictures"))
    elif kind == "File":
        run[path].download("a_file")
        found[path] = open("a_file").read()
    elif kind == "FileSet":
        found[path] = [one.name for one in run[path].list_fileset_files()]
    else:
        found[path] = run[path].fetch()
print("READ " + json.dumps(found, default=sorted))
"""


class Onward:
    """A project of a server, in which runs are sent and read with its token."""

    def __init__(self, server, folder):
        self.folder = folder
        self.token = server.environment("team/onward")

    def python(self, *words, **env):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", *words],
            cwd=self.folder,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def train(self, script, **env):
        (self.folder / "train.py").write_text(script)
        return self.python("train.py", **env)

    def read(self, name, *paths):
        told = self.python("-c", READS, name, *paths, **self.token).stdout
        return json.loads(told.partition("READ ")[2].splitlines()[0])

    def seamark(self, *words):
        return self.python("-m", "seamark", *words, **self.token)


@pytest.fixture
def onward(server, tmp_path):
    return Onward(server, tmp_path)


def test_points_values_and_files_are_read(onward):
    """Values that the protocol does not support are printed and counted."""
    done = onward.train(TRAINS, **onward.token)
    assert "sent to neptune://team/onward" in done.stderr
    assert "integers beyond 32 bits: sent as floats" in done.stderr
    wanted = {
        "lr": 0.5,
        "big": float(1 << 40),
        "a": 1,
        "a_/b": 2,
        "labels": "x, y",
        "notes": "all good",
        "set": ["train.py"],
        "pictures": 3,
        "text": [[0, "done"]],
        "loss": [[step, 1 / (step + 1)] for step in range(2000)],
        "fraction": [[0.5, 1.5]],
        "sys/tags": ["a", "b"],
    }
    assert onward.read("hello", *wanted) == wanted
    shown = onward.seamark("show", "hello").stdout
    assert "some data cannot be represented at neptune://team/onward" in shown
    assert "1  points that are NaN or infinite: left" in shown
    assert "1  conflicting paths: with a _ after" in shown
    again = onward.seamark("sync", "--to", "neptune://team/onward")
    assert "1 run was at neptune://team/onward already" in again.stderr, again.stderr


def test_the_command_sends_a_run_that_was_recorded_without_a_remote(onward):
    script = TRAINS.replace(', remote="neptune://team/onward"', "").replace("hello", "late")
    onward.train(script, **onward.token)
    onward.seamark("sync", "late", "--to", "neptune://team/onward")
    found = onward.read("late", "loss", "notes", "pictures")
    assert len(found["loss"]) == 2000
    assert (found["notes"], found["pictures"]) == ("all good", 3)


@pytest.mark.slow
def test_lightning_under_ddp_is_read_with_the_package(onward):
    """Two processes train; rank 0's logger takes the token as ``api_key`` and sends everything."""
    key = onward.token["NEPTUNE_API_TOKEN"]
    onward.train(f"API_KEY = {key!r}{LIGHTNING}")
    paths = ["training/train/loss", "training/rank", "training/hyperparams/lr"]
    loss, rank, lr = onward.read("ddp", *paths).values()
    assert [step for step, _ in loss] == list(range(20))
    assert [value for _, value in rank] == [1.0] * 20
    assert lr == 0.1


@pytest.mark.slow
def test_ignite_is_read_with_the_package(onward):
    """Ignite's logger takes the same arguments."""
    key = onward.token["NEPTUNE_API_TOKEN"]
    onward.train(f"API_KEY = {key!r}{IGNITE}")
    found = onward.read("ignite", "train/loss")
    assert [step for step, _ in found["train/loss"]] == list(range(1, 21))
