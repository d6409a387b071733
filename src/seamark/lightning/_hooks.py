"""What the callbacks share: when to log, where to, and that nothing reaches the training."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from seamark.lightning import _host
from seamark.lightning._base import RunLogger
from seamark.process.interrupts import let_pass
from seamark.values import to_floats

__all__ = ["QuietCallback", "only_accumulates", "step_of"]

log = logging.getLogger("seamark")


def step_of(trainer: Any) -> int:
    """Return the step that Lightning gives to loggers; `global_step` counts each optimizer's."""
    epoch_loop = trainer.fit_loop.epoch_loop
    return int(getattr(epoch_loop, "_batches_that_stepped", trainer.global_step))


def only_accumulates(trainer: Any) -> bool:
    """Tell at the end of a batch whether it only added to the gradients."""
    ask = getattr(trainer.fit_loop, "_should_accumulate", None)
    return bool(ask and trainer.lightning_module.automatic_optimization and ask())


class QuietCallback(_host.Callback):
    """A callback whose hooks are guarded (see `seamark.run.adapters.guarded`)."""

    _told = False

    def is_logged(self, trainer: Any) -> bool:
        """Tell whether Lightning logs this step."""
        every = trainer.log_every_n_steps
        if not every or not trainer.loggers:
            return False
        return bool(trainer.should_stop or (step_of(trainer) + 1) % every == 0)

    def tell(
        self,
        trainer: Any,
        metrics: Mapping[str, Any],
        *,
        step: int | None = None,
        beside_prefix: bool = False,
    ) -> None:
        """Hand metrics to every logger.

        Args:
            trainer: The trainer.
            metrics: Numbers or tensors by name.
            step: At which step; that of the batch if left out.
            beside_prefix: Whether a Seamark run gets them outside of the logger's prefix.
        """
        plain: dict[str, float] | None = None
        step = step_of(trainer) if step is None else step
        for logger in trainer.loggers if metrics else ():
            try:
                if isinstance(logger, RunLogger):
                    to = logger.experiment if beside_prefix else logger
                    to.log_metrics(metrics, step)
                else:
                    if plain is None:
                        plain, _ = to_floats(metrics)
                    logger.log_metrics(plain, step=step)
            except Exception as error:  # noqa: BLE001 - the other loggers go on
                self._lost(type(logger).__name__, error)

    def _lost(self, where: str, error: Exception) -> None:
        let_pass(error)
        if not self._told:
            self._told = True
            name = type(self).__name__
            log.warning("seamark: %s records nothing (%s): %r", name, where, error)


_host.register(QuietCallback, "callbacks.callback")
