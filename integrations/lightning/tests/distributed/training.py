"""What the tests in this folder start: tiny trainings, each beside two loggers that are not ours.

python training.py <strategy> <scenario> ...

Each scenario trains into a project of its own name, and leaves in a folder of that name what
Lightning's CSVLogger wrote, and every call that a recording logger got, by rank.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

from seamark.lightning import SeamarkLogger

warnings.simplefilter("ignore")
torch.set_num_threads(1)
HOST = importlib.import_module(os.environ.get("TEST_HOST", "pytorch_lightning"))
rank_zero_only = importlib.import_module("lightning_utilities.core.rank_zero").rank_zero_only
QUIET = {"capture": {"git": False, "packages": False}}
DEVICES = int(os.environ.get("TEST_DEVICES", "2"))
NODES = int(os.environ.get("TEST_NODES", "1"))


class Recorder(HOST.loggers.Logger):
    """Writes down every call, one file for each rank (by Lightning's own word)."""

    name, version = "recorder", 0

    def __init__(self, folder):
        super().__init__()
        self.folder = Path(folder)

    def _write(self, **call):
        self.folder.mkdir(parents=True, exist_ok=True)
        rank = getattr(rank_zero_only, "rank", None) or 0
        with (self.folder / f"calls-{rank}.jsonl").open("a") as file:
            file.write(json.dumps(call) + "\n")

    def log_metrics(self, metrics, step=None):
        values = {name: float(value) for name, value in metrics.items()}
        self._write(call="log_metrics", metrics=values, step=step)

    def log_hyperparams(self, params, *_, **__):
        self._write(call="log_hyperparams", params=dict(params))

    def after_save_checkpoint(self, callback):
        self._write(call="after_save_checkpoint", best=str(callback.best_model_path))

    def finalize(self, status):
        self._write(call="finalize", status=status)


class Module(HOST.LightningModule):
    """Logs in every stage, and talks to the run without asking for its rank."""

    def __init__(self, width=2, optimizer=None):
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(4, width)
        self.keeps = None  # a logger, which travels with the module

    def loss(self, batch):
        return self.layer(batch[0]).pow(2).mean()

    def training_step(self, batch, batch_idx):
        if "TEST_STRIKE" in os.environ:
            strike(self)
        loss = self.loss(batch)
        # A value of its own on each rank, so that it shows whose is recorded.
        self.log("train/loss", loss + self.global_rank)
        for logger in self.loggers:
            if isinstance(logger, SeamarkLogger):
                logger.experiment["own/rank"].append(self.global_rank, step=self.global_step)
                logger.experiment["own/text"] = f"rank {self.global_rank}"
                logger.experiment["own"]["sets"].add(f"rank {self.global_rank}")
        if self.keeps is not None:
            self.keeps.experiment["kept/rank"].append(self.global_rank, step=self.global_step)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val/loss", self.loss(batch), sync_dist=True)
        self.log("val/odd", float("nan"), sync_dist=True)

    def test_step(self, batch, batch_idx):
        self.log("test/loss", self.loss(batch), sync_dist=True)

    def loader(self):
        torch.manual_seed(0)
        return DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)

    train_dataloader = val_dataloader = test_dataloader = loader

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def strike(module):
    """Have one rank come to a bad end in the fourth step: ``TEST_STRIKE="killed 1"``."""
    what, rank = os.environ["TEST_STRIKE"].split()
    if module.global_rank != int(rank):
        return
    time.sleep(1.5)  # and be the slowest until then
    if module.global_step < 3:
        return
    if what == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "raises":
        msg = "in training"
        raise ValueError(msg)
    Path("hangs").touch()
    while True:
        time.sleep(1)


def strategy():
    """Return what Trainer takes as a strategy; for dp the object, the word is taken for ddp."""
    word = sys.argv[1]
    if word == "dp":
        from pytorch_lightning.strategies import DataParallelStrategy

        return DataParallelStrategy(parallel_devices=[torch.device("cpu")] * 2)
    return word


def trainer(scenario, *loggers, **given):
    """Return a Trainer of these loggers, with the two others beside them."""
    oracles = [HOST.loggers.CSVLogger(scenario, name="csv"), Recorder(scenario)]
    callbacks = [HOST.callbacks.ModelCheckpoint(monitor="val/loss", save_top_k=2, save_last=True)]
    quiet = {
        "accelerator": "cpu",
        "devices": DEVICES,
        "num_nodes": NODES,
        "strategy": strategy(),
        "max_epochs": 1,
        "log_every_n_steps": 1,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "num_sanity_val_steps": 0,
        "logger": [*loggers, *oracles],
        "callbacks": [*callbacks, *given.pop("callbacks", ())],
    }
    made = HOST.Trainer(**quiet | given)
    expected = os.environ.get("TEST_STRATEGY")
    assert expected in (None, type(made.strategy).__name__), made.strategy
    return made


def logger(scenario, **given):
    return SeamarkLogger(project=scenario, **QUIET | given)


def module(**given):
    torch.manual_seed(1)
    return Module(**given)


def fit_test():
    """One logger, one Trainer, two stages; the module holds the logger."""
    one = logger("fit_test", name="a fit", tags=["x"])
    one.experiment["before"] = "any Trainer"  # when nobody knows what will be launched, or how
    made, model = trainer("fit_test", one, max_epochs=3, accumulate_grad_batches=2), module()
    model.keeps = one
    made.fit(model)
    made.test(model, verbose=False)


def two_fits():
    """One logger, two Trainers."""
    one = logger("two_fits")
    for width in (2, 3):
        trainer("two_fits", one).fit(module(width=width))


def folds():
    """Two folds, two runs."""
    for fold in range(2):
        name = f"folds-{fold}"
        trainer(name, logger(name)).fit(module())


def two_loggers():
    """Two runs of one project, one of them in a namespace that the user chose.

    And a third run, into which every rank records.
    """
    pair = [logger("two_loggers", tags="x", **given) for given in ({}, {"prefix": "other"})]
    pair[0].experiment["before"] = "any Trainer"
    every = logger("all_ranks", ranks="all")
    made, model = trainer("two_loggers", *pair, every), module()
    model.keeps = pair[0]
    made.fit(model)
    made.test(model, verbose=False)
    if made.global_rank == 0:  # where children trained, this is their parent
        Path("versions").write_text(" ".join(one.version for one in pair))


def struck():
    """One run of rank 0 and one of every rank, of which one comes to a bad end."""
    pair = [logger("zero"), logger("all", ranks="all")]
    trainer("struck", *pair, max_epochs=5).fit(module())


if __name__ == "__main__":
    for wanted in sys.argv[2:]:
        globals()[wanted]()
    if torch.distributed.is_initialized():
        # Else gloo now and then aborts a process that exits when its peer is gone already.
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
