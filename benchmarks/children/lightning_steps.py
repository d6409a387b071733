"""Train with one logger and print what it adds to a step: ``lightning_steps.py LOGGER STEPS``.

The model is as small as it can be, so that a step is little but Lightning's own work. Three metrics
are logged at every step. In every other block of steps the logger's hooks are replaced by ones that
do nothing: what a logger adds is the difference between steps of one process, a moment apart, which
says more on a shared machine than the difference between two processes.
"""

from __future__ import annotations

import json
import logging
import os
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from torch.utils.data import DataLoader, TensorDataset

clock = time.perf_counter_ns
BLOCK = 20
"""Steps after which the hooks change."""
WARM = 200
"""Steps that are not counted."""


class NothingLogger(Logger):
    """Does nothing: what the others are compared with."""

    name = "nothing"
    version = "0"

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        pass

    def log_hyperparams(self, params: Any, *_: Any, **__: Any) -> None:
        pass


class WriteLogger(NothingLogger):
    """One bare ``os.write`` a step, of as many bytes as a row of Seamark's has: the floor."""

    def __init__(self) -> None:
        super().__init__()
        self._fd = os.open("floor", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        os.write(self._fd, bytes(64))


def seamark_logger() -> Logger:
    from seamark.lightning import SeamarkLogger

    return SeamarkLogger()


LOGGERS: dict[str, Callable[[], Logger]] = {
    "nothing": NothingLogger,
    "write": WriteLogger,
    "seamark": seamark_logger,
    "csv": lambda: CSVLogger("."),
    "tensorboard": lambda: TensorBoardLogger("."),
}


class Small(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        loss = self.layer(batch[0]).square().mean()
        self.log_dict({"loss": loss, "double": 2 * loss, "triple": 3 * loss})
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.01)


class Clock(Callback):
    """Takes the time at the start of every step."""

    def __init__(self) -> None:
        self.at: list[int] = []

    def on_train_batch_start(self, *_: Any) -> None:
        self.at.append(clock())


class Switch:
    """A logger's hook that is timed in every other block of steps, and does nothing in between."""

    def __init__(self, call: Callable[..., Any], ticks: Clock) -> None:
        self.call, self.ticks = call, ticks
        self.spent: list[int] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not is_on(len(self.ticks.at)):
            return None
        before = clock()
        found = self.call(*args, **kwargs)
        self.spent.append(clock() - before)
        return found


def is_on(step: int) -> bool:
    return step // BLOCK % 2 == 1


torch.set_num_threads(1)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
name, steps = sys.argv[1], int(sys.argv[2])
logger = LOGGERS[name]()
ticks = Clock()
log_metrics = Switch(logger.log_metrics, ticks)
save = Switch(logger.save, ticks)
logger.log_metrics = log_metrics  # type: ignore[method-assign]
logger.save = save  # type: ignore[method-assign]
trainer = Trainer(
    max_steps=steps,
    max_epochs=-1,
    log_every_n_steps=1,
    logger=logger,
    callbacks=[ticks],
    accelerator="cpu",
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Small(), DataLoader(TensorDataset(torch.rand(steps, 8))))
took_us: dict[bool, list[float]] = {False: [], True: []}
for step, (before, after) in enumerate(pairwise(ticks.at), 1):
    if step > WARM and step % BLOCK:  # not the step at which the hooks change
        took_us[is_on(step)].append((after - before) / 1e3)
off_us = statistics.median(took_us[False])
print(
    json.dumps(
        {
            "off_us": off_us,
            "added_us": statistics.median(took_us[True]) - off_us,
            "added_mean_us": statistics.mean(took_us[True]) - statistics.mean(took_us[False]),
            "hooks_us": sum(map(statistics.median, (log_metrics.spent, save.spent))) / 1e3,
            "hooks_mean_us": sum(map(statistics.mean, (log_metrics.spent, save.spent))) / 1e3,
        }
    )
)
