"""A Lightning training continues a run of a server as it does one of its own disk."""

from __future__ import annotations

import importlib.util
import signal

import pytest

pytest.importorskip("fastapi")
if importlib.util.find_spec("pytorch_lightning") is None:  # imported only where it trains
    pytest.skip("needs Lightning", allow_module_level=True)

from scripts import start_script

import seamark
from seamark.journal.reader import JournalReader

PROGRAM = """
import multiprocessing, os, shutil, signal, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import pytorch_lightning as pl
import torch
from recording import QUIET
from torch.utils.data import DataLoader, TensorDataset
from seamark.lightning import SeamarkLogger
from seamark.remote import shipper
torch.set_num_threads(1)


class Tiny(pl.LightningModule):
    def __init__(self, die):
        super().__init__()
        self.die = die
        self.layer = torch.nn.Linear(1, 1)
        torch.nn.init.constant_(self.layer.weight, 0.5)
        torch.nn.init.constant_(self.layer.bias, 0.1)

    def training_step(self, batch, index):
        loss = torch.nn.functional.mse_loss(self.layer(batch[0]), 3 * batch[0])
        self.log("loss", loss)
        if self.global_step == self.die:
            assert shipper.flush(sys.argv[2], 100)
            os.kill(os.getpid(), signal.SIGKILL)
        return loss

    def on_train_epoch_end(self):
        self.log("epochs", float(self.current_epoch))

    def train_dataloader(self):
        # All batches alike: in the middle of an epoch Lightning begins with the first one again.
        return DataLoader(TensorDataset(torch.full((8, 1), 0.5)), batch_size=2)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def train(folder, checkpoint, die, **given):
    os.chdir(folder)
    callback = pl.callbacks.ModelCheckpoint(dirpath="kept", save_last=True, every_n_train_steps=3)
    logger = SeamarkLogger(project="p", root="runs", **QUIET, **given)
    trainer = pl.Trainer(
        accelerator="cpu", devices=1, max_epochs=3, log_every_n_steps=1, callbacks=[callback],
        enable_progress_bar=False, enable_model_summary=False, logger=logger,
    )
    trainer.fit(Tiny(die), ckpt_path=checkpoint)
    logger.experiment.get_root_object().stop()


def start(name, checkpoint=None, die=None, **given):
    # A process for each training; Lightning is imported once.
    folder = Path(sys.argv[1], name)
    folder.mkdir(exist_ok=True)
    saved = str(folder / "kept" / checkpoint) if checkpoint else None
    process = multiprocessing.get_context("fork").Process(
        target=train, args=(folder, saved, die), kwargs=given
    )
    process.start()
    process.join()
    (run,) = [one.name for one in (folder / "runs/p").iterdir() if one.name[0] != "."]
    print(process.exitcode, run, flush=True)
    files = sorted((folder / "kept").iterdir(), key=lambda one: one.stat().st_mtime_ns)
    return run, files[-1].name


start("whole")
run, first = start("a", die=5, remote=sys.argv[2])
shutil.copytree(Path(sys.argv[1], "a", "kept"), Path(sys.argv[1], "b", "kept"))
shutil.rmtree(Path(sys.argv[1], "a"))
_, second = start("b", first, die=8, remote=sys.argv[2])
assert second != first
start("b", second, remote=sys.argv[2], with_id=run)
"""


def series(run):
    """Return (step, value) of the points of a training that do not depend on times."""
    found = {}
    for path in ("training/loss", "training/epochs", "training/epoch"):
        points = run[path].fetch_values()
        found[path] = list(zip(points["step"], points["value"], strict=True))
    return found


@pytest.mark.once
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_training_continues_on_an_empty_disk_as_on_its_own(server, tmp_path, monkeypatch):
    """Killed in the middle of an epoch, it ends as one that was not.

    Its checkpoint was saved in the middle of a step. The second machine copies what the first one
    recorded, and continues once more from its own disk.
    """
    pytest.importorskip("pandas")
    monkeypatch.setenv("SEAMARK_API_TOKEN", server.token)
    with start_script(PROGRAM, str(tmp_path), server.url) as process:
        out, told = process.communicate()
    assert process.returncode == 0, told
    whole, *others = [line.split() for line in out.splitlines()]
    run = others[0][1]
    killed = str(-signal.SIGKILL)
    assert (whole[0], others) == ("0", [[killed, run], [killed, run], ["0", run]])

    def read(root, **given):
        return seamark.init_run("p", root=tmp_path / root, mode="read-only", **given)

    found = read("c", with_id=run, remote=server.url)
    expected = read("whole/runs", with_id=whole[1])
    assert series(found) == series(expected)
    assert found["sys/state"].fetch() == "completed"
    everything = found["training/loss"].fetch_values(attempt="all")
    assert len(everything) > len(expected["training/loss"].fetch_values())
    headers = []
    for journal in (tmp_path / "b/runs/p" / run / "journal").iterdir():
        with JournalReader(journal) as reader:
            headers.append(reader.header())
    assert {header["attempt"] for header in headers} == {0, 1, 2}
