"""What the README's lines for Lightning are given: a model, with its data."""

from __future__ import annotations

import torch
from pytorch_lightning import LightningModule, Trainer  # noqa: F401
from torch.utils.data import DataLoader, TensorDataset


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, index):
        loss = self.layer(batch[0]).square().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def train_dataloader(self):
        return DataLoader(TensorDataset(torch.rand(400, 1)), batch_size=4)


model = Model()
