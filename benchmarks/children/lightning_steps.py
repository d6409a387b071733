"""Train with one logger and print what a step took: ``lightning_steps.py LOGGER STEPS``.

The model is as small as it can be, so that a step is little but Lightning's own work. Three metrics
are logged at every step. Times are of the second half: the first warms up.
"""

from __future__ import annotations

import json
import logging
import resource
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


class NothingLogger(Logger):
    """Does nothing: what the others are compared with."""

    name = "nothing"
    version = "0"

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        pass

    def log_hyperparams(self, params: Any, *_: Any, **__: Any) -> None:
        pass


def seamark_logger() -> Logger:
    from seamark.lightning import SeamarkLogger

    return SeamarkLogger()


LOGGERS: dict[str, Callable[[], Logger]] = {
    "nothing": NothingLogger,
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
    """Takes the time, and the CPU, at the start of every step."""

    def __init__(self) -> None:
        self.at: list[int] = []
        self.cpu: list[float] = []

    def on_train_batch_start(self, *_: Any) -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        self.cpu.append(usage.ru_utime + usage.ru_stime)
        self.at.append(clock())


def timed(call: Callable[..., Any], spent: list[int]) -> Callable[..., Any]:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        before = clock()
        try:
            return call(*args, **kwargs)
        finally:
            spent[-1] += clock() - before

    return wrapped


class Spent(Callback):
    """Adds up what a logger's own two hooks take in a step."""

    def __init__(self) -> None:
        self.of: list[int] = [0]

    def on_train_batch_start(self, *_: Any) -> None:
        self.of.append(0)


torch.set_num_threads(1)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
name, steps = sys.argv[1], int(sys.argv[2])
logger = LOGGERS[name]()
ticks, spent = Clock(), Spent()
logger.log_metrics = timed(logger.log_metrics, spent.of)  # type: ignore[method-assign]
logger.save = timed(logger.save, spent.of)  # type: ignore[method-assign]
trainer = Trainer(
    max_steps=steps,
    max_epochs=-1,
    log_every_n_steps=1,
    logger=logger,
    callbacks=[ticks, spent],
    accelerator="cpu",
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Small(), DataLoader(TensorDataset(torch.rand(steps, 8))))
half = steps // 2
at = ticks.at[half:]
took = [after - before for before, after in pairwise(at)]
print(
    json.dumps(
        {
            "step_us": statistics.median(took) / 1e3,
            "cpu_us": (ticks.cpu[-1] - ticks.cpu[half]) / len(took) * 1e6,
            "hooks_us": statistics.mean(spent.of[half:]) / 1e3,
            "hooks_median_us": statistics.median(spent.of[half:]) / 1e3,
        }
    )
)
