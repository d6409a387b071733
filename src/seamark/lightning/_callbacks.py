"""Callbacks: learning rates, gradient norms, step times and memory.

Each is usable alone and with any logger, hooks into a step once, and does its work only at the
steps that are logged (``log_every_n_steps``).
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator, Mapping
from time import perf_counter
from typing import Any, Final

import torch

from seamark.errors import ArgumentError
from seamark.lightning import _host
from seamark.lightning._logger import SeamarkLogger

__all__ = ["DeviceMemory", "GradientNorms", "LearningRates", "StepTimes"]

log = logging.getLogger("seamark")

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class _Quiet(_host.Callback):
    """What the callbacks share: when to log, where to, and that nothing reaches the training."""

    _told = False

    def _is_logged(self, trainer: Any) -> bool:
        every = trainer.log_every_n_steps
        return bool(every) and trainer.global_step % every == 0 and bool(trainer.loggers)

    def _log(
        self, trainer: Any, metrics: Mapping[str, Any], *, beside_prefix: bool = False
    ) -> None:
        """Hand metrics to every logger.

        Args:
            trainer: The trainer.
            metrics: Numbers or tensors by name.
            beside_prefix: Whether a Seamark run gets them outside of the logger's prefix.
        """
        plain: dict[str, float] | None = None
        for logger in trainer.loggers if metrics else ():
            if isinstance(logger, SeamarkLogger):
                to = logger.experiment if beside_prefix else logger
                to.log_metrics(metrics, trainer.global_step)
            else:
                if plain is None:
                    plain = {name: float(value) for name, value in metrics.items()}
                logger.log_metrics(plain, step=trainer.global_step)

    def _lost(self, error: Exception) -> None:
        if not self._told:
            self._told = True
            log.warning("seamark: %s records nothing: %r", type(self).__name__, error)


class LearningRates(_Quiet):
    """Records the learning rate of every parameter group, at the steps that are logged.

    Names are those of Lightning's ``LearningRateMonitor``: ``lr-SGD``, with several groups
    ``lr-SGD/pg1``, with several optimizers of a kind ``lr-SGD-1``; and where asked for,
    ``lr-SGD-momentum`` and ``lr-SGD-weight_decay``.

    Args:
        momentum: Whether to record momentum (of Adam the first beta).
        weight_decay: Whether to record weight decay.

    .. versionadded:: 0.1.0
    """

    def __init__(self, *, momentum: bool = False, weight_decay: bool = False) -> None:
        super().__init__()
        self._momentum = momentum
        self._weight_decay = weight_decay

    def on_train_batch_start(self, trainer: Any, *_: Any, **__: Any) -> None:
        """Record what the step will use."""
        try:
            if self._is_logged(trainer):
                self._log(trainer, dict(self._values(trainer)))
        except Exception as error:  # noqa: BLE001 - training comes first
            self._lost(error)

    def _values(self, trainer: Any) -> Iterator[tuple[str, Any]]:
        seen: dict[str, int] = {}
        for optimizer in trainer.optimizers:
            kind = type(optimizer).__name__
            number = seen[kind] = seen.get(kind, -1) + 1
            name = f"lr-{kind}-{number}" if number else f"lr-{kind}"
            groups = optimizer.param_groups
            for at, group in enumerate(groups, start=1):
                own = f"{name}/pg{at}" if len(groups) > 1 else name
                yield own, group["lr"]
                if self._momentum:
                    betas = group.get("betas")
                    yield f"{own}-momentum", betas[0] if betas else group.get("momentum", 0.0)
                if self._weight_decay:
                    yield f"{own}-weight_decay", group.get("weight_decay", 0.0)


class GradientNorms(_Quiet):
    """Records the norm of the gradients before an optimizer step, at the steps that are logged.

    It is what clipping has not seen yet: ``grad_norm``, and where asked for the norm of each
    parameter under ``grad_norm/<parameter>``. With several optimizers, that of each is
    ``grad_norm/<optimizer's number>`` instead.

    Args:
        norm_type: Which norm, above 0; ``math.inf`` for the largest value.
        per_parameter: Whether to record the norm of each parameter too.

    Raises:
        ArgumentError: If the norm is no number above 0.

    .. versionadded:: 0.1.0
    """

    def __init__(self, norm_type: float = 2.0, *, per_parameter: bool = False) -> None:
        super().__init__()
        if not isinstance(norm_type, (int, float)) or not norm_type > 0:
            msg = f"GradientNorms: norm_type: expected a number above 0, got {norm_type!r}"
            raise ArgumentError(msg)
        self._type = float(norm_type)
        self._per_parameter = per_parameter

    def on_before_optimizer_step(
        self, trainer: Any, pl_module: Any, optimizer: Any, *_: Any
    ) -> None:
        """Record the norms, which go to the logger as tensors: in one transfer."""
        try:
            if self._is_logged(trainer):
                self._log(trainer, self._norms(trainer, pl_module, optimizer))
        except Exception as error:  # noqa: BLE001 - training comes first
            self._lost(error)

    def _norms(self, trainer: Any, module: Any, optimizer: Any) -> dict[str, torch.Tensor]:
        own = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
        norms = {
            name: self._norm(weight.grad)
            for name, weight in module.named_parameters()
            if weight.grad is not None and id(weight) in own
        }
        if not norms:
            return {}
        device = next(iter(norms.values())).device
        both = torch.stack([norm.to(device) for norm in norms.values()])
        name = "grad_norm"
        optimizers = trainer.optimizers
        if len(optimizers) > 1:
            inner = [getattr(one, "optimizer", one) for one in optimizers]
            name += f"/{inner.index(getattr(optimizer, 'optimizer', optimizer))}"
        found = {name: torch.linalg.vector_norm(both, self._type)}
        if self._per_parameter:
            found |= {f"grad_norm/{key.replace('.', '/')}": norm for key, norm in norms.items()}
        return found

    def _norm(self, gradient: torch.Tensor) -> torch.Tensor:
        gradient = gradient.detach().float()
        if gradient.is_sparse:
            gradient = gradient.coalesce().values()
        norm: torch.Tensor = torch.linalg.vector_norm(gradient, self._type)
        return norm


class StepTimes(_Quiet):
    """Records how long steps and epochs take, samples per second, and how long is left.

    ``profiling/step_time_s`` is the mean from step to step since the last record, waiting for data
    included and validation left out; ``profiling/samples_per_second`` belongs to it.
    ``profiling/eta_s`` goes by the time that training took so far, everything included; it is left
    out where no end is known. ``profiling/epoch_time_s`` comes at the end of each epoch. In a
    Seamark run these stand beside the logger's prefix.

    Args:
        batch_size: Samples in a batch of this process; by default the length of the first tensor in
            the batch.

    Raises:
        ArgumentError: If the size is no whole number above 0.

    .. versionadded:: 0.1.0
    """

    def __init__(self, batch_size: int | None = None) -> None:
        super().__init__()
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            msg = f"StepTimes: batch_size: expected a whole number above 0, got {batch_size!r}"
            raise ArgumentError(msg)
        self._batch_size = batch_size
        self._began = self._epoch_began = self._last = 0.0
        self._done = self._steps = 0
        self._spent = self._samples = 0.0

    def on_train_start(self, *_: Any, **__: Any) -> None:
        """Start anew."""
        self._began, self._done = perf_counter(), 0

    def on_train_epoch_start(self, *_: Any, **__: Any) -> None:
        """Begin an epoch."""
        self._epoch_began = self._last = perf_counter()

    def on_validation_end(self, *_: Any, **__: Any) -> None:
        """Leave validation out of the next step."""
        self._last = perf_counter()

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, *_: Any, **__: Any
    ) -> None:
        """Count a step, and record where steps are logged."""
        try:
            now = perf_counter()
            self._spent += now - self._last
            self._last = now
            self._steps += 1
            self._done += 1
            self._samples += self._batch_size or _length(batch)
            if self._is_logged(trainer):
                self._log(trainer, self._rates(trainer, now), beside_prefix=True)
                self._spent = self._samples = 0.0
                self._steps = 0
        except Exception as error:  # noqa: BLE001 - training comes first
            self._lost(error)

    def on_train_epoch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        """Record how long the epoch took."""
        try:
            metrics = {"profiling/epoch_time_s": perf_counter() - self._epoch_began}
            self._log(trainer, metrics, beside_prefix=True)
        except Exception as error:  # noqa: BLE001 - training comes first
            self._lost(error)

    def _rates(self, trainer: Any, now: float) -> dict[str, float]:
        found = {"profiling/step_time_s": self._spent / self._steps}
        if self._samples and self._spent > 0:
            found["profiling/samples_per_second"] = self._samples / self._spent
        left = _batches_left(trainer)
        if math.isfinite(left):
            found["profiling/eta_s"] = (now - self._began) / self._done * left
        return found


def _length(batch: Any) -> int:
    """Return the length of the first tensor in a batch, 0 if there is none."""
    if isinstance(batch, torch.Tensor):
        return len(batch) if batch.ndim else 1
    inside = batch.values() if isinstance(batch, Mapping) else batch
    if isinstance(batch, Mapping) or isinstance(batch, (list, tuple)):  # noqa: SIM101 - for mypy
        return next((size for one in inside if (size := _length(one))), 0)
    return 0


def _batches_left(trainer: Any) -> float:
    """Return how many batches training has before it, infinity if that is not known."""
    left = math.inf
    if (epochs := trainer.max_epochs) is not None and epochs >= 0:
        done = trainer.fit_loop.epoch_loop.batch_idx + 1
        left = (epochs - trainer.current_epoch) * trainer.num_training_batches - done
    if trainer.max_steps >= 0:
        steps = trainer.max_steps - trainer.global_step
        left = min(left, steps * max(1, trainer.accumulate_grad_batches))
    return max(0.0, left)


class DeviceMemory(_Quiet):
    """Records memory at the steps that are logged: of the process, and of its CUDA device.

    Under ``profiling/memory/``: ``host_rss_bytes``, and with CUDA ``allocated_bytes``,
    ``reserved_bytes`` and ``peak_allocated_bytes`` (since the last record). Nothing waits for the
    device. In a Seamark run these stand beside the logger's prefix.

    .. versionadded:: 0.1.0
    """

    def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        """Record memory where steps are logged."""
        try:
            if self._is_logged(trainer):
                found = _host_memory() | _cuda_memory(trainer.strategy.root_device)
                metrics = {f"profiling/memory/{name}": size for name, size in found.items()}
                self._log(trainer, metrics, beside_prefix=True)
        except Exception as error:  # noqa: BLE001 - training comes first
            self._lost(error)


def _host_memory() -> dict[str, int]:
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 - a fast one
            return {"host_rss_bytes": int(statm.read().split()[1]) * _PAGE_BYTES}
    except OSError:  # not on Linux
        return {}


def _cuda_memory(device: torch.device) -> dict[str, int]:
    if device.type != "cuda":
        return {}
    found = {
        "allocated_bytes": torch.cuda.memory_allocated(device),
        "reserved_bytes": torch.cuda.memory_reserved(device),
        "peak_allocated_bytes": torch.cuda.max_memory_allocated(device),
    }
    torch.cuda.reset_peak_memory_stats(device)
    return found
