"""Train a small convolutional net on scikit-learn's handwritten digits, and record the training.

    pip install "seamark[lightning,image]" scikit-learn
    python examples/lightning_digits.py

The data, 1,797 images of 8 by 8 pixels, comes inside scikit-learn.
On two cores this takes a few seconds.
"""

from __future__ import annotations

import argparse
import logging
import warnings

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, random_split

from seamark.lightning import SeamarkLogger
from seamark.types import File


class Digits(pl.LightningDataModule):
    """The images in three parts: 70 % to train, 15 % to validate, 15 % to test."""

    def __init__(self, batch_size: int = 64) -> None:
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage: str) -> None:
        digits = load_digits()
        images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
        everything = TensorDataset(images, torch.tensor(digits.target))
        self.train, self.val, self.test = random_split(
            everything, [0.7, 0.15, 0.15], generator=torch.Generator().manual_seed(0)
        )

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train, self.hparams.batch_size, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val, self.hparams.batch_size)

    def test_dataloader(self) -> DataLoader:
        return DataLoader(self.test, self.hparams.batch_size)


class ConvNet(pl.LightningModule):
    """Two convolutions and a linear layer."""

    def __init__(self, channels: int = 16, dropout: float = 0.2, lr: float = 1e-2) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, 2 * channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(dropout),
            nn.Flatten(),
            nn.Linear(2 * channels * 4 * 4, 10),
        )
        self.confusion = np.zeros((10, 10), dtype=int)

    def forward(self, images: Tensor) -> Tensor:
        return self.net(images)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        images, labels = batch
        loss = functional.cross_entropy(self(images), labels)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        images, labels = batch
        scores = self(images)
        self.log("val/loss", functional.cross_entropy(scores, labels))
        self.log("val/acc", (scores.argmax(1) == labels).float().mean())

    def test_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        images, labels = batch
        guesses = self(images).argmax(1)
        self.log("test/acc", (guesses == labels).float().mean())
        np.add.at(self.confusion, (labels.numpy(), guesses.numpy()), 1)

    def on_test_end(self) -> None:
        # Rows are the digits as they are, columns as they were read, twenty pixels each.
        rates = self.confusion / self.confusion.sum(axis=1, keepdims=True)
        picture = np.kron(1 - rates, np.ones((20, 20)))
        self.logger.experiment["test/confusion_matrix"].upload(File.as_image(picture))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


def main() -> None:
    """Train, test, and say where the record is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--name", default="digits")
    options = parser.parse_args()

    # Lightning has a lot to say before it starts; none of it matters here.
    for name in ["pytorch_lightning", "lightning_fabric"]:
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="pytorch_lightning")

    torch.set_num_threads(1)  # more threads slow such a small net down
    pl.seed_everything(0)
    logger = SeamarkLogger(project="digits", name=options.name, tags=["example"])
    best = ModelCheckpoint(monitor="val/loss", filename="best", save_last=True)
    trainer = pl.Trainer(
        max_epochs=options.epochs,
        accelerator="cpu",
        logger=logger,
        callbacks=[best],
        log_every_n_steps=1,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model, data = ConvNet(lr=options.lr), Digits()
    trainer.fit(model, datamodule=data)
    trainer.test(model, datamodule=data, ckpt_path="best", verbose=False)
    logger.log_model_summary(model)

    print(f"test accuracy {trainer.callback_metrics['test/acc']:.3f}")
    print(f"best checkpoint {best.best_model_path}")


if __name__ == "__main__":
    main()
