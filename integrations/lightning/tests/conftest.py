"""A real Trainer, a tiny model and a reader, for every package name that is installed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

# Programs of tests import this file, too, and have no settings of pytest.
sys.path.append(str(Path(__file__).parents[3] / "tests" / "support"))
from hosts import refuse_others, without_captures
from isolation import *  # noqa: F403 - its fixtures and hooks

_environment = without_captures  # in place of the fixture of `isolation`
PACKAGES = {"lightning.pytorch": "lightning", "pytorch_lightning": "pytorch-lightning"}
PROVEN = {
    "lightning:oldest": {"pytorch-lightning": "1.9.5"},
    "lightning:latest": {"pytorch-lightning": "2.6.6", "lightning": "2.6.6"},
}
INSTALLED = [name for name in PACKAGES if importlib.util.find_spec(name.partition(".")[0])]
# Seamark's classes derive from those of the packages that are imported already. Programs of tests
# have imported theirs.
if not any(name in sys.modules for name in PACKAGES):
    for _name in INSTALLED:
        importlib.import_module(_name)

from seamark.index.index import Index  # noqa: E402
from seamark.lightning import SeamarkLogger  # noqa: E402 - see above


def pytest_configure():
    modules = {name.partition(".")[0]: package for name, package in PACKAGES.items()}
    refuse_others(modules, PROVEN)


@pytest.fixture(autouse=True)
def _lightning(_isolated, monkeypatch):
    """Restore Lightning's rank, and use one thread, which is faster where the cores are busy."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    rank_zero = importlib.import_module("lightning_utilities.core.rank_zero").rank_zero_only
    monkeypatch.setattr(rank_zero, "rank", 0)


OTHERS = [pytest.param(name, marks=pytest.mark.thorough) for name in INSTALLED[1:]]


@pytest.fixture(params=[INSTALLED[0], *OTHERS])
def host(request):
    """One of the installed packages; they are one code under two names."""
    return importlib.import_module(request.param)


@pytest.fixture
def one_host():
    """The same package always, for cases of several processes: both packages run the same code."""
    return importlib.import_module(INSTALLED[-1])


def module_class(host):
    """Return a LightningModule class of this package that logs in every stage."""

    class Tiny(host.LightningModule):
        def __init__(self, width=2, score=None):
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(4, width)
            self.score = score
            self.at_step = None  # called with the module at every training step
            self.seen = 0

        def forward(self, batch):
            return self.layer(batch)

        def training_step(self, batch, batch_idx):
            if self.at_step is not None:
                self.at_step(self)
            self.seen += 1
            loss = self(batch[0]).pow(2).mean()
            self.log("train/loss", loss)
            return loss

        def validation_step(self, batch, batch_idx):
            loss = self(batch[0]).pow(2).mean()
            self.log("val/loss", loss if self.score is None else torch.tensor(float(self.score)))
            self.log("val/other", -loss)

        def test_step(self, batch, batch_idx):
            self.log("test/loss", self(batch[0]).pow(2).mean())

        def predict_step(self, batch, batch_idx, dataloader_idx=0):
            return self(batch[0])

        def loader(self):
            torch.manual_seed(0)
            return DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=4)

        train_dataloader = val_dataloader = test_dataloader = predict_dataloader = loader

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Tiny


@pytest.fixture
def tiny(host):
    """A fresh tiny LightningModule of this package."""
    return module_class(host)()


@pytest.fixture
def trainer(host):
    """Make a quiet Trainer; two steps an epoch, one epoch unless asked otherwise."""

    def make(**given):
        quiet = {
            "accelerator": "cpu",
            "devices": 1,
            "max_epochs": 1,
            "log_every_n_steps": 1,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "num_sanity_val_steps": 0,
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return host.Trainer(**quiet | given)

    return make


@pytest.fixture
def read():
    """Read what a logger has recorded, through the store: a dict of path and attribute."""
    opened = []

    def make(logger, namespace=""):
        folder = logger.experiment.get_root_object().folder
        logger.experiment.get_root_object().wait()
        index = Index.open(folder.root)
        opened.append(index)
        index.refresh(folder.project, folder.run)
        return {
            found.path: found
            for found in index.view(folder.project, folder.run).attributes(namespace)
        }

    yield make
    for index in opened:
        index.close()


@pytest.fixture
def logger():
    return SeamarkLogger()


@pytest.fixture
def cli_arguments():
    """What has LightningCLI train one quiet epoch on the CPU; the logger comes last."""
    return [
        "--trainer.max_epochs=1",
        "--trainer.accelerator=cpu",
        "--trainer.devices=1",
        "--trainer.enable_progress_bar=false",
        "--trainer.enable_model_summary=false",
        "--trainer.logger=seamark.lightning.SeamarkLogger",
    ]


@pytest.fixture
def helpers(host):
    return SimpleNamespace(module_class=lambda: module_class(host), package=host.__name__)
