"""Train a small convolutional net on scikit-learn's handwritten digits with Ignite, and record it.

    pip install "seamark[ignite,pandas]" scikit-learn
    python examples/ignite_digits.py

Losses, learning rates and accuracies lie at the same paths as those of ``lightning_digits.py``, so
that ``seamark ls --project digits`` shows both side by side. The profilers say where the time went.
The data, 1,797 images of 8 by 8 pixels, comes inside scikit-learn.
"""

from __future__ import annotations

import argparse

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import Checkpoint
from ignite.metrics import Accuracy, Loss
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

from seamark.ignite import (
    BasicTimeProfiler,
    GradsScalarHandler,
    HandlersTimeProfiler,
    SeamarkLogger,
    SeamarkSaver,
    WeightsHistHandler,
    global_step_from_engine,
)


def loaders(batch_size: int = 64) -> tuple[DataLoader, DataLoader]:
    """Return the images in two parts: 80 % to train, 20 % to validate."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    everything = TensorDataset(images, torch.tensor(digits.target))
    train, val = random_split(everything, [0.8, 0.2], torch.Generator().manual_seed(0))
    return DataLoader(train, batch_size, shuffle=True), DataLoader(val, batch_size)


def conv_net(channels: int = 16, dropout: float = 0.2) -> nn.Module:
    """Return two convolutions and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(channels, 2 * channels, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(dropout),
        nn.Flatten(),
        nn.Linear(2 * channels * 4 * 4, 10),
    )


def main() -> None:
    """Train, validate after each epoch, and say where the record is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--name", default="digits, Ignite")
    options = parser.parse_args()

    torch.manual_seed(0)
    train, val = loaders()
    model, loss = conv_net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    trainer = create_supervised_trainer(model, optimizer, loss)
    metrics = {"acc": Accuracy(), "loss": Loss(loss)}
    evaluator = create_supervised_evaluator(model, metrics=metrics)

    with SeamarkLogger(project="digits", name=options.name, tags=["example"]) as logger:
        logger["training/hyperparams"] = {"lr": options.lr, "channels": 16, "dropout": 0.2}

        # Each handler at its own rate: losses always, gradients sometimes, histograms rarely.
        logger.attach_output_handler(
            trainer,
            event_name=Events.ITERATION_COMPLETED,
            tag="training/train",
            output_transform=lambda output: {"loss": output},
        )
        logger.attach_opt_params_handler(
            trainer, event_name=Events.EPOCH_STARTED, optimizer=optimizer, tag="training"
        )
        logger.attach(
            trainer, GradsScalarHandler(model, tag="training"), Events.ITERATION_COMPLETED(every=10)
        )
        logger.attach(
            trainer, WeightsHistHandler(model, tag="training"), Events.EPOCH_COMPLETED(every=4)
        )
        logger.attach_output_handler(
            evaluator,
            event_name=Events.COMPLETED,
            tag="training/val",
            metric_names="all",
            global_step_transform=global_step_from_engine(trainer, Events.ITERATION_COMPLETED),
        )

        trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run(val))
        saver = SeamarkSaver(logger)
        best = Checkpoint(
            {"model": model},
            saver,
            filename_prefix="best",
            score_name="acc",
            n_saved=2,
            global_step_transform=global_step_from_engine(trainer, Events.EPOCH_COMPLETED),
        )
        evaluator.add_event_handler(Events.COMPLETED, best)

        # Both at once: one sums up each event, the other each handler.
        by_event, by_handler = BasicTimeProfiler(), HandlersTimeProfiler()
        by_event.attach(trainer, run=logger)
        by_handler.attach(trainer, run=logger)

        trainer.run(train, max_epochs=options.epochs)

    print(f"validation accuracy {evaluator.state.metrics['acc']:.3f}")
    print(f"best checkpoint {saver.path(best.last_checkpoint)}")
    print(by_event.largest_cost())


if __name__ == "__main__":
    main()
