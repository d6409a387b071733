"""The least that a person has to write: a LightningModule, a Trainer, and one argument."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, TensorDataset

try:
    import lightning.pytorch as pl
except ModuleNotFoundError:
    import pytorch_lightning as pl

from seamark.lightning import SeamarkLogger


class Line(pl.LightningModule):
    """Learns ``y = 2 x``."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Linear(1, 1)

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> torch.Tensor:
        x, y = batch
        loss = (self.weight(x) - y).square().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    x = torch.linspace(-1, 1, 64).unsqueeze(1)
    logger = SeamarkLogger(name="line")
    trainer = pl.Trainer(max_epochs=3, accelerator="cpu", logger=logger, log_every_n_steps=1)
    trainer.fit(Line(), DataLoader(TensorDataset(x, 2 * x), batch_size=16))
    print(logger.experiment["training/loss"].fetch_last())  # noqa: T201
