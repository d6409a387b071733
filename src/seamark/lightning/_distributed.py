"""What a logger tells of how a training is distributed, and the times of each rank's steps."""

from __future__ import annotations

import logging
from time import perf_counter
from typing import Any

from seamark.lightning import _host
from seamark.ranks import current_rank

__all__ = ["RankTimes", "batch_facts", "facts", "time_steps"]

log = logging.getLogger("seamark")


def facts(trainer: Any) -> dict[str, Any]:
    """Return what a trainer that begins a stage knows of its ranks and devices, by name.

    Args:
        trainer: Of either package, 1.9.5 or later.
    """
    strategy = trainer.strategy
    launcher = current_rank().launcher
    if launcher is None and getattr(strategy, "launcher", None) is not None:
        launcher = "lightning"  # ddp_spawn of 1.9 leaves no trace of it in the process
    found = {
        "strategy": type(strategy).__name__,
        "launcher": launcher,
        "world_size": trainer.world_size,
        "nodes": trainer.num_nodes,
        "devices": trainer.num_devices,
        "accelerator": getattr(strategy.root_device, "type", None),
        "precision": str(trainer.precision),
    }
    return {name: fact for name, fact in found.items() if fact is not None}


def batch_facts(trainer: Any) -> dict[str, int]:
    """Return how many samples a step takes, by name.

    Nothing before the trainer has its data, or where the data do not say it.

    Args:
        trainer: One that fits.
    """
    loader = trainer.train_dataloader
    loader = getattr(loader, "loaders", loader)  # 1.9 has a CombinedLoader around it
    batch = _batch_size(loader)
    if batch is None:
        return {}
    accumulated = int(trainer.accumulate_grad_batches)
    return {
        "batch_size": batch,
        "accumulate_grad_batches": accumulated,
        "effective_batch_size": batch * int(trainer.world_size) * accumulated,
    }


def _batch_size(loader: Any) -> int | None:
    for one in (loader, getattr(loader, "batch_sampler", None)):
        size = getattr(one, "batch_size", None)
        if isinstance(size, int):
            return size
    return None


def time_steps(trainer: Any) -> None:
    """Have a trainer tell the times of its steps to the loggers that record every rank."""
    if not any(isinstance(one, RankTimes) for one in trainer.callbacks):
        trainer.callbacks.append(RankTimes())


class RankTimes(_host.Callback):
    """Records how long the steps of this rank take, for loggers with ``ranks="all"`` alone.

    ``profiling/step_time_s`` is that of ``StepTimes``. Ranks that exchange gradients wait for each
    other in the backward pass, so that all take as long as the slowest;
    ``profiling/own_time_s`` leaves the backward pass out: what remains is a rank's own.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last = self._backward_began = 0.0
        self._spent = self._waited = 0.0
        self._steps = 0
        self._told = False

    def on_train_epoch_start(self, *_: Any, **__: Any) -> None:
        """Begin to count."""
        self._last = perf_counter()

    def on_validation_end(self, *_: Any, **__: Any) -> None:
        """Leave validation out of the next step."""
        self._last = perf_counter()

    def on_before_backward(self, *_: Any, **__: Any) -> None:
        """Take the time from which on other ranks may be waited for."""
        self._backward_began = perf_counter()

    def on_after_backward(self, *_: Any, **__: Any) -> None:
        """Leave the backward pass out of the rank's own time."""
        self._waited += perf_counter() - self._backward_began

    def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        """Count a step, and record where steps are logged."""
        try:
            now = perf_counter()
            self._spent += now - self._last
            self._last = now
            self._steps += 1
            every = trainer.log_every_n_steps
            if every and trainer.global_step % every == 0:
                self._record(trainer)
        except Exception as error:  # noqa: BLE001 - training comes first
            if not self._told:
                self._told = True
                log.warning("seamark: the times of steps are not recorded: %r", error)

    def _record(self, trainer: Any) -> None:
        from seamark.lightning._callbacks import StepTimes
        from seamark.lightning._logger import SeamarkLogger

        times = {"profiling/own_time_s": (self._spent - self._waited) / self._steps}
        if not any(isinstance(one, StepTimes) for one in trainer.callbacks):
            times["profiling/step_time_s"] = self._spent / self._steps
        self._spent = self._waited = 0.0
        self._steps = 0
        for logger in trainer.loggers:
            if isinstance(logger, SeamarkLogger) and logger.own_run.ranks == "all":
                logger.experiment.log_metrics(times, trainer.global_step)
