"""A module whose values depend on its weights alone, and what is read of its runs."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

from seamark.index.index import Index

LOSS = "training/loss"
HEAD = """
import importlib, json, os, signal, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {tests!r})
host = importlib.import_module({host!r})
import torch
torch.set_num_threads(1)
from steady import tiny_class
from seamark.lightning import SeamarkLogger
quiet = dict(
    accelerator="cpu", log_every_n_steps=1, enable_progress_bar=False, enable_model_summary=False,
    num_sanity_val_steps=0,
)
sampler = "replace_sampler_ddp" if host.__version__.startswith("1.") else "use_distributed_sampler"
"""


def program(host, body):
    """Return the text of a program of this package, which begins with `HEAD`."""
    return HEAD.format(tests=str(Path(__file__).parent), host=host.__name__) + body


def tiny_class(host):
    """Return a module whose values depend on its weights alone: 4 steps an epoch, all alike."""

    class Steady(host.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 2)
            torch.nn.init.ones_(self.layer.weight)
            torch.nn.init.ones_(self.layer.bias)
            self.at_step = lambda step: None

        def training_step(self, batch, batch_idx):
            self.at_step(self.trainer.global_step)
            loss = self.layer(batch[0]).pow(2).mean()
            self.log("loss", loss)
            return loss

        def validation_step(self, batch, batch_idx):
            self.log("val", self.layer(batch[0]).pow(2).mean())

        def test_step(self, batch, batch_idx):
            self.log("test", self.layer(batch[0]).pow(2).mean())

        def predict_step(self, batch, batch_idx, dataloader_idx=0):
            return self.layer(batch[0])

        def loader(self):
            return DataLoader(TensorDataset(torch.ones(16, 4)), batch_size=4)

        train_dataloader = val_dataloader = test_dataloader = predict_dataloader = loader

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    return Steady


def runs(root=".seamark"):
    """Return {run id: view} of everything below a root."""
    index = Index.open(Path(root).absolute())
    index.refresh()
    return {run: index.view(project, run) for project, run in index.runs()}


def steps(view, path=LOSS, attempt="latest"):
    return view.points(path, attempt).step.astype(int).tolist()


def values(view):
    """Return {path: points} of all series, rounded."""
    found = {}
    for one in view.attributes():
        if one.family == "float_series":
            points = view.points(one.path)
            found[one.path] = [
                (int(step), round(float(value), 6))
                for step, value in zip(points.step, points.value, strict=True)
            ]
    return found


def counts_steps_twice(host):
    """Tell whether Lightning numbers the step after a checkpoint within an epoch like that before.

    Or validates once more, or numbers one too many: 1.9 does, whatever the logger.
    """
    return host.__version__.startswith("1.")


def attempts(view):
    """Return the attempts of the journals, in order.

    One for those that continue each other: each stage of a training has a journal of its own.
    """
    headers = {journal.writer: journal.header for journal in view.journals()}
    return sorted(
        one["attempt"]
        for one in headers.values()
        if headers.get(one["continues"], {}).get("attempt") != one["attempt"]
    )


def value(view, path):
    found = view.attribute(path)
    return None if found is None else found.value
