"""A Lightning training continues a run of a server as it does one of its own disk."""

from __future__ import annotations

import importlib.util
import json
import shutil
import signal
import subprocess
import sys

import pytest

pytest.importorskip("fastapi")
if importlib.util.find_spec("pytorch_lightning") is None:  # imported only where it trains
    pytest.skip("needs Lightning", allow_module_level=True)

from recording import QUIET

import seamark
from seamark.journal.reader import JournalReader

PROGRAM = """
import json, multiprocessing, os, signal, sys, warnings
warnings.simplefilter("ignore")
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset
from seamark.lightning import SeamarkLogger
from seamark.remote import shipper
torch.set_num_threads(1)


class Tiny(pl.LightningModule):
    def __init__(self, given):
        super().__init__()
        self.given = given
        self.layer = torch.nn.Linear(1, 1)
        torch.nn.init.constant_(self.layer.weight, 0.5)
        torch.nn.init.constant_(self.layer.bias, 0.1)

    def training_step(self, batch, index):
        loss = torch.nn.functional.mse_loss(self.layer(batch[0]), 3 * batch[0])
        self.log("loss", loss)
        if self.global_step == self.given.get("die"):
            assert shipper.flush(self.given["remote"], 100)
            os.kill(os.getpid(), signal.SIGKILL)
        return loss

    def on_train_epoch_end(self):
        self.log("epochs", float(self.current_epoch))

    def train_dataloader(self):
        # All batches alike: in the middle of an epoch Lightning begins with the first one again.
        return DataLoader(TensorDataset(torch.full((8, 1), 0.5)), batch_size=2)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def train(given):
    os.chdir(given["folder"])
    callback = pl.callbacks.ModelCheckpoint(dirpath="kept", save_last=True, every_n_train_steps=3)
    logger = SeamarkLogger(project="p", root="runs", **given["logger"])
    trainer = pl.Trainer(
        accelerator="cpu", devices=1, max_epochs=3, log_every_n_steps=1, callbacks=[callback],
        enable_progress_bar=False, enable_model_summary=False, logger=logger,
    )
    trainer.fit(Tiny(given), ckpt_path=given.get("checkpoint"))
    logger.experiment.get_root_object().stop()


for line in sys.stdin:  # a process for each training; Lightning is imported once
    process = multiprocessing.get_context("fork").Process(target=train, args=[json.loads(line)])
    process.start()
    process.join()
    print(process.exitcode, flush=True)
"""


@pytest.fixture
def train():
    """Train in a folder; return the status of the process and the run's id."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def train(folder, *, logger=None, **given):
            folder.mkdir(exist_ok=True)
            to = {key: given[key] for key in ("remote", "api_token") if key in given}
            told = {**given, "folder": str(folder), "logger": {**QUIET, **to, **(logger or {})}}
            print(json.dumps(told), file=process.stdin, flush=True)
            status = int(process.stdout.readline())
            (run,) = (one.name for one in (folder / "runs/p").iterdir() if one.name[0] != ".")
            return status, run

        yield train
        process.stdin.close()


def newest(folder):
    """Return the checkpoint that was saved last."""
    return str(max((folder / "kept").iterdir(), key=lambda one: one.stat().st_mtime_ns))


def series(run):
    """Return (step, value) of the points of a training that do not depend on times."""
    found = {}
    for path in ("training/loss", "training/epochs", "training/epoch"):
        points = run[path].fetch_values()
        found[path] = list(zip(points["step"], points["value"], strict=True))
    return found


@pytest.mark.once
@pytest.mark.slow
def test_a_training_continues_on_an_empty_disk_as_on_its_own(train, server, tmp_path, monkeypatch):
    """Killed in the middle of an epoch, it ends as one that was not.

    Its checkpoint was saved in the middle of a step. The second machine copies what the first one
    recorded, and continues once more from its own disk.
    """
    pytest.importorskip("pandas")
    status, whole_id = train(tmp_path / "whole")
    assert status == 0
    whole = seamark.init_run("p", root=tmp_path / "whole/runs", with_id=whole_id, mode="read-only")
    there = {"remote": server.url, "api_token": server.token}
    status, run = train(tmp_path / "a", die=5, **there)
    assert status == -signal.SIGKILL
    shutil.copytree(tmp_path / "a/kept", tmp_path / "b/kept")
    of_a, _ = newest(tmp_path / "b"), shutil.rmtree(tmp_path / "a")
    killed = train(tmp_path / "b", die=8, checkpoint=of_a, **there)
    assert killed == (-signal.SIGKILL, run)
    of_b = newest(tmp_path / "b")
    assert of_b != of_a
    done = train(tmp_path / "b", checkpoint=of_b, **there, logger={"with_id": run})
    assert done == (0, run)
    monkeypatch.setenv("SEAMARK_API_TOKEN", server.token)
    found = seamark.init_run(
        "p", root=tmp_path / "c", with_id=run, mode="read-only", remote=server.url
    )
    assert series(found) == series(whole)
    assert found["sys/state"].fetch() == "completed"
    everything = found["training/loss"].fetch_values(attempt="all")
    assert len(everything) > len(whole["training/loss"].fetch_values())
    headers = []
    for journal in (tmp_path / "b/runs/p" / run / "journal").iterdir():
        with JournalReader(journal) as reader:
            headers.append(reader.header())
    assert {header["attempt"] for header in headers} == {0, 1, 2}
