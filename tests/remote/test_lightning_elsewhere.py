"""A Lightning training goes on with a run of which its disk has nothing, as from its own disk."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("pytorch_lightning")

from recording import QUIET
from server_process import running_server

import seamark
from seamark.journal.reader import JournalReader

PROGRAM = """
import json, os, signal, sys, warnings
warnings.simplefilter("ignore")
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset
from seamark.lightning import SeamarkLogger
from seamark.remote import shipper
torch.set_num_threads(1)
given = json.loads(sys.argv[1])


class Tiny(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        torch.nn.init.constant_(self.layer.weight, 0.5)
        torch.nn.init.constant_(self.layer.bias, 0.1)

    def training_step(self, batch, index):
        loss = torch.nn.functional.mse_loss(self.layer(batch[0]), 3 * batch[0])
        self.log("loss", loss)
        if self.global_step == given.get("die"):
            assert shipper.flush(given["remote"], 100)
            os.kill(os.getpid(), signal.SIGKILL)
        return loss

    def on_train_epoch_end(self):
        self.log("epochs", float(self.current_epoch))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


data = DataLoader(TensorDataset(torch.arange(8.0).reshape(8, 1) / 8), batch_size=2)
callback = pl.callbacks.ModelCheckpoint(dirpath="kept", save_last=True, every_n_train_steps=3)
logger = SeamarkLogger("p", root="runs", **given["logger"])
trainer = pl.Trainer(
    accelerator="cpu", devices=1, max_epochs=given.get("epochs", 3), log_every_n_steps=1,
    enable_progress_bar=False, enable_model_summary=False, callbacks=[callback], logger=logger,
)
trainer.fit(Tiny(), data, ckpt_path=given.get("checkpoint"))
logger.experiment.get_root_object().stop()
print(logger.version)
"""


def train(folder: Path, token: str = "", **given: Any) -> tuple[int, str]:
    """Train in a process and folder of their own; return its status and the run's id."""
    folder.mkdir(exist_ok=True)
    given.setdefault("logger", {})
    given["logger"] = {**QUIET, **given["logger"]}
    if "remote" in given:
        given["logger"]["remote"] = given["remote"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(given)],
        cwd=folder,
        env={**os.environ, "SEAMARK_API_TOKEN": token},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    (run,) = (each.name for each in (folder / "runs" / "p").iterdir() if each.name[0] != ".")
    return done.returncode, run


def series(run: Any) -> dict[str, list[tuple[float, float]]]:
    """Return (step, value) of what a training records by itself, without what it measures."""
    found = {}
    for path in ("training/loss", "training/epochs", "training/epoch"):
        points = run[path].fetch_values()
        found[path] = list(zip(points["step"], points["value"], strict=True))
    return found


@pytest.mark.slow
def test_a_training_goes_on_on_an_empty_disk_as_on_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in the middle of an epoch, it ends as one that was not.

    Its checkpoint was saved in the middle of a step. The second machine is replaced as well: what
    it goes on with then lies partly on its disk.
    """
    pytest.importorskip("pandas")
    train(tmp_path / "whole")
    (whole_id,) = (
        each.name for each in (tmp_path / "whole/runs/p").iterdir() if each.name[0] != "."
    )
    whole = seamark.init_run("p", root=tmp_path / "whole/runs", with_id=whole_id, mode="read-only")
    with running_server(tmp_path / "server") as server:
        there = {"remote": server.url, "token": server.token}
        status, run = train(tmp_path / "a", die=5, **there)
        assert status == -signal.SIGKILL
        shutil.copytree(tmp_path / "a/kept", tmp_path / "b/kept")
        last = {"checkpoint": "kept/last.ckpt"}
        status, same = train(tmp_path / "b", die=8, **last, **there)
        assert (status, same) == (-signal.SIGKILL, run)
        status, same = train(tmp_path / "b", **last, **there, logger={"with_id": run})
        assert (status, same) == (0, run)
        monkeypatch.setenv("SEAMARK_API_TOKEN", server.token)
        found = seamark.init_run(
            "p", root=tmp_path / "c", with_id=run, mode="read-only", remote=server.url
        )
        assert series(found) == series(whole)
        assert found["sys/state"].fetch() == "completed"
        everything = found["training/loss"].fetch_values(attempt="all")
        assert sorted(set(everything["attempt"])) == [0, 1, 2]
    headers = []
    for journal in (tmp_path / "b/runs/p" / run / "journal").iterdir():
        with JournalReader(journal) as reader:
            headers.append(reader.header())
    assert all(header["elsewhere"] for header in headers)
