"""Lightning since 2.6.4 has a logger of this name that only refuses: ours takes its place."""

from __future__ import annotations

import sys

import neptune
import pytorch_lightning as pl
import torch
from pytorch_lightning import loggers
from pytorch_lightning.loggers import NeptuneLogger
from pytorch_lightning.loggers.neptune import NeptuneLogger as Same
from recorded import values

import seamark.lightning
import seamark.neptune


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, _index):
        loss = self.layer(batch).square().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_the_stub_is_replaced(read):
    """A script that was written for Lightning 2.5 trains, and what it logs is in the run."""
    assert NeptuneLogger is Same is seamark.lightning.NeptuneLogger
    logger = NeptuneLogger(project="team/moved", log_model_checkpoints=False)
    trainer = pl.Trainer(
        max_steps=3,
        logger=logger,
        log_every_n_steps=1,
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    trainer.fit(Net(), torch.utils.data.DataLoader(torch.rand(8, 2), batch_size=4))
    run = logger.experiment
    assert isinstance(run, neptune.Run)
    assert len(values(read(run)["training/loss"])) == 3


def test_it_does_not_matter_which_is_imported_first(monkeypatch):
    """Lightning may be there before install() is called; other names stay as they are."""
    monkeypatch.delitem(vars(loggers), "__getattr__")
    assert not hasattr(loggers, "NeptuneLogger")
    with monkeypatch.context() as patched:
        patched.setattr(sys, "meta_path", [*filter(is_not_ours, sys.meta_path)])
        patched.delitem(sys.modules, "neptune")
        seamark.neptune.install()
    assert loggers.NeptuneLogger is seamark.lightning.NeptuneLogger
    assert not hasattr(loggers, "NoLogger")


def is_not_ours(finder):
    return not type(finder).__module__.startswith("seamark")
