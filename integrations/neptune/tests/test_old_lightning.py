"""Lightning's own loggers for neptune, unmodified: of 1.9.5, and of 2.6.1, the last with one."""

from __future__ import annotations

import importlib
import warnings

import neptune
import pytest
import torch
from recorded import below, values


@pytest.mark.parametrize("package", ["pytorch_lightning", "lightning.pytorch"])
@pytest.mark.parametrize("given", ["project", "run", "handler"])
def test_logged_values_are_recorded(package, given, read):
    """Metrics, hyperparameters, the model's summary and the checkpoints."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of 1.9.5 about today's torch
        pl = importlib.import_module(package)
        loggers = importlib.import_module(f"{package}.loggers")

    class Net(pl.LightningModule):
        def __init__(self, width=2):
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(width, 1)

        def training_step(self, batch, _index):
            loss = self.layer(batch).square().mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    assert loggers.NeptuneLogger.__module__ == f"{package}.loggers.neptune"
    if given == "project":
        logger = loggers.NeptuneLogger(project="team/moved", tags=["old"])
    else:
        made = neptune.init_run(project="team/moved", tags=["old"])
        # With a handler, Lightning's own code for checkpoints fails, with the client as well.
        logger = (
            loggers.NeptuneLogger(run=made)
            if given == "run"
            else loggers.NeptuneLogger(run=made["fold"], log_model_checkpoints=False)
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few workers, few batches
        trainer = pl.Trainer(
            max_epochs=2,
            logger=logger,
            log_every_n_steps=1,
            accelerator="cpu",
            enable_progress_bar=False,
        )
        net = Net()
        trainer.fit(net, torch.utils.data.DataLoader(torch.rand(8, 2), batch_size=4))
        logger.log_model_summary(net)
    run = logger.run.get_root_object() if given == "handler" else logger.run
    assert isinstance(run, neptune.Run)
    again = read(run)
    base = "fold/training" if given == "handler" else "training"
    assert len(values(again[f"{base}/loss"])) == 4
    assert again[f"{base}/hyperparams/width"].fetch() == 2
    assert again.exists(f"{base}/model/summary")
    if given != "handler":
        assert len(below(again, f"{base}/model/checkpoints")) == 1  # the older one was deleted
    assert again["sys/tags"].fetch() == {"old"}
