"""The times of every rank's steps, for loggers with ``ranks="all"``."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from torch.utils.hooks import unserializable_hook

from seamark.lightning._base import RunLogger
from seamark.lightning._callbacks import StepTimes
from seamark.lightning._hooks import QuietCallback, only_accumulates, step_of
from seamark.reading.stragglers import OWN_TIME, STEP_TIME
from seamark.run.adapters import guarded

__all__ = ["time_steps"]


def time_steps(trainer: Any) -> None:
    """Have a trainer tell the times of its steps to the loggers that record every rank."""
    if not any(isinstance(one, _RankTimes) for one in trainer.callbacks):
        trainer.callbacks.append(_RankTimes())


class _RankTimes(QuietCallback):
    """Records how long the steps of this rank take, and how much of that is its own.

    Ranks that exchange gradients wait for each other in the backward pass, so that a step takes as
    long on all of them as on the slowest. A rank's own part leaves out the time from when it has
    its last gradient, which is that of the first parameter, to the end of the backward pass; where
    that cannot be told, the whole backward pass.
    """

    def __init__(self) -> None:
        super().__init__()
        self._hook: Any = None
        self._last = self._ready = 0.0
        self._spent = self._waited = 0.0
        self._steps = 0

    def on_train_start(self, trainer: Any, *_: Any, **__: Any) -> None:
        """Begin to count, and hear of the last gradient."""
        self._last = perf_counter()
        self._spent = self._waited = 0.0
        self._steps = 0
        self._unhook()
        self._await_last_gradient(trainer)

    @guarded
    def _await_last_gradient(self, trainer: Any) -> None:
        def has_gradient(_: Any) -> None:
            self._ready = perf_counter()

        groups = (group for one in trainer.optimizers for group in one.param_groups)
        weights = (weight for group in groups for weight in group["params"])
        first = next((weight for weight in weights if weight.requires_grad), None)
        if first is not None:
            # So that pickling a model does not warn that this hook stays behind.
            hook = unserializable_hook(has_gradient)  # type: ignore[no-untyped-call]
            self._hook = first.register_hook(hook)

    def on_train_epoch_start(self, *_: Any, **__: Any) -> None:
        """Leave out what lies between epochs."""
        self._last = perf_counter()

    def on_validation_end(self, *_: Any, **__: Any) -> None:
        """Leave validation out of the next step."""
        self._last = perf_counter()

    def on_before_backward(self, *_: Any, **__: Any) -> None:
        """Take the earliest time from which on other ranks may be waited for."""
        self._ready = perf_counter()

    def on_after_backward(self, *_: Any, **__: Any) -> None:
        """Count what was waiting."""
        self._waited += perf_counter() - self._ready

    @guarded
    def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        """Count a step, and record where steps are logged."""
        now = perf_counter()
        self._spent += now - self._last
        self._last = now
        self._steps += 1
        if self.is_logged(trainer) and not only_accumulates(trainer):
            self._record(trainer)

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Leave the model as it was."""
        self._unhook()

    def on_exception(self, *_: Any, **__: Any) -> None:
        """Leave the model as it was."""
        self._unhook()

    def _record(self, trainer: Any) -> None:
        times = {OWN_TIME: (self._spent - self._waited) / self._steps}
        if not any(isinstance(one, StepTimes) for one in trainer.callbacks):
            times[STEP_TIME] = self._spent / self._steps
        self._spent = self._waited = 0.0
        self._steps = 0
        for logger in trainer.loggers:
            if isinstance(logger, RunLogger) and logger.own_run.ranks == "all":
                logger.experiment.log_metrics(times, step_of(trainer))

    def _unhook(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
