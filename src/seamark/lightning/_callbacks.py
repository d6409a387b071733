"""Callbacks for learning rates, gradient norms, step times and memory.

Each can be used alone and with any logger, uses one hook per step, and records only at the steps
that Lightning logs (``log_every_n_steps``). The step is that of Lightning's own metrics: the number
of batches that ended in an optimizer step, regardless of the number of optimizers.
"""

from __future__ import annotations

import logging
import math
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, Final

import torch
from torch.utils.hooks import unserializable_hook

from seamark.errors import ArgumentError
from seamark.lightning import _host
from seamark.process.interrupts import let_pass
from seamark.reading.rank_text import OWN_TIME, STEP_TIME
from seamark.run.adapters import guarded
from seamark.values import to_floats

log = logging.getLogger("seamark")

_SHORT_FLOATS: Final = {torch.float16, torch.bfloat16}


def step_of(trainer: Any) -> int:
    """Return the step that Lightning passes to loggers; `global_step` counts each optimizer."""
    return int(trainer.fit_loop.epoch_loop._batches_that_stepped)  # noqa: SLF001


def only_accumulates(trainer: Any) -> bool:
    """Return whether the current batch only accumulated gradients."""
    return bool(
        trainer.lightning_module.automatic_optimization and trainer.fit_loop._should_accumulate()  # noqa: SLF001
    )


class QuietCallback(_host.Callback):  # type: ignore[misc] # of either package
    """Base of callbacks with guarded hooks; see `seamark.run.adapters.guarded`."""

    _has_warned = False

    def is_logged(self, trainer: Any) -> bool:
        """Return whether Lightning logs this step."""
        every = trainer.log_every_n_steps
        is_due = trainer.should_stop or (every and (step_of(trainer) + 1) % every == 0)
        return bool(every and trainer.loggers and is_due)

    def record(
        self,
        trainer: Any,
        metrics: Mapping[str, Any],
        *,
        step: int | None = None,
        beside_prefix: bool = False,
    ) -> None:
        """Pass metrics to every logger, at the step of the batch if none is given.

        With ``beside_prefix`` a Seamark run records them outside the logger's prefix.
        """
        step = step_of(trainer) if step is None else step
        for logger in trainer.loggers if metrics else ():
            is_run = beside_prefix and isinstance(logger, _host.RunLogger)
            try:
                (logger.experiment if is_run else logger).log_metrics(metrics, step=step)
            except Exception as error:  # noqa: BLE001 - the other loggers go on
                self._lost(type(logger).__name__, error)

    def _lost(self, where: str, error: Exception) -> None:
        let_pass(error)
        if not self._has_warned:
            self._has_warned = True
            log.warning("seamark: %s records nothing (%s): %r", type(self).__name__, where, error)


@_host.configurable
class LearningRates(QuietCallback):
    """Record the learning rate of every parameter group at the logged steps.

    Names are those of Lightning's ``LearningRateMonitor``: ``lr-SGD``, with several groups
    ``lr-SGD/pg1``, with several optimizers of a class ``lr-SGD-1``. A ``name`` in a scheduler's
    configuration or a parameter group replaces them. Momentum and weight decay, if requested,
    append ``-momentum`` and ``-weight_decay``. A step of several batches is recorded at the first.

    Args:
        momentum: Whether to record momentum (for Adam the first beta).
        weight_decay: Whether to record weight decay.
    """

    def __init__(self, *, momentum: bool = False, weight_decay: bool = False) -> None:
        super().__init__()
        self._momentum = momentum
        self._weight_decay = weight_decay

    @guarded
    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int, *_: Any, **__: Any
    ) -> None:
        if self.is_logged(trainer) and not batch_idx % max(1, trainer.accumulate_grad_batches):
            self.record(trainer, to_floats(dict(self._values(trainer)))[0])

    def _values(self, trainer: Any) -> Iterator[tuple[str, Any]]:
        for name, optimizer in _named_optimizers(trainer):
            groups = optimizer.param_groups
            for group, suffix in zip(groups, _group_suffixes(groups), strict=True):
                own = name + suffix
                yield own, group["lr"]
                if self._momentum:
                    betas = group.get("betas")
                    yield f"{own}-momentum", betas[0] if betas else group.get("momentum", 0.0)
                if self._weight_decay:
                    yield f"{own}-weight_decay", group.get("weight_decay", 0.0)


def _named_optimizers(trainer: Any) -> Iterator[tuple[str, Any]]:
    # Optimizers with schedulers come first, once for each scheduler. A name given to a scheduler is
    # not counted, but numbered if two without a name precede it.
    scheduled = [(one.name, one.scheduler.optimizer) for one in trainer.lr_scheduler_configs]
    plain = [getattr(one, "optimizer", one) for one in trainer.optimizers]  # as DeepSpeed wraps it
    known = {id(optimizer) for _, optimizer in scheduled}
    counts: Counter[str] = Counter()
    for given, optimizer in (*scheduled, *((None, one) for one in plain if id(one) not in known)):
        name = given or f"lr-{type(optimizer).__name__}"
        kind = type(optimizer).__name__
        counts[kind] += given is None
        yield f"{name}-{counts[kind] - 1}" if counts[kind] > 1 else name, optimizer


def _group_suffixes(groups: Sequence[Mapping[str, Any]]) -> list[str]:
    if len(groups) == 1:
        return [f"/{groups[0]['name']}" if groups[0].get("name") else ""]
    numbers = [f"pg{number}" for number in range(1, len(groups) + 1)]
    names = [group.get("name", number) for group, number in zip(groups, numbers, strict=True)]
    # Series must not share a path.
    return [f"/{name}" for name in (names if len(set(names)) == len(names) else numbers)]


@_host.configurable
class GradientNorms(QuietCallback):
    """Record the norm of the gradients before the optimizer step, at the logged steps.

    Gradients are not clipped yet. The norm is recorded as ``grad_norm``, and if requested for each
    parameter under ``grad_norm/<parameter>``. With several optimizers, each has
    ``grad_norm/<optimizer's number>`` instead. If a strategy gives every process a part of each
    parameter that is not a ``DTensor`` (``FSDPStrategy``), it is the norm of this process's part.

    Args:
        norm_type: Order of the norm, above 0; ``math.inf`` for the largest absolute value.
        per_parameter: Whether to also record the norm of each parameter.

    Raises:
        ArgumentError: If ``norm_type`` is not a number above 0.
    """

    def __init__(self, norm_type: float = 2.0, *, per_parameter: bool = False) -> None:
        super().__init__()
        if not isinstance(norm_type, (int, float)) or not norm_type > 0:
            raise ArgumentError(
                f"GradientNorms: norm_type: expected a number above 0, got {norm_type!r}"
            )
        self._type = float(norm_type)
        self._per_parameter = per_parameter

    @guarded
    def on_before_optimizer_step(
        self, trainer: Any, pl_module: Any, optimizer: Any, *_: Any
    ) -> None:
        """Record the norms, which are copied from the device in one transfer."""
        if self.is_logged(trainer):
            self.record(trainer, to_floats(self._norms(trainer, pl_module, optimizer))[0])

    def _norms(self, trainer: Any, module: Any, optimizer: Any) -> dict[str, torch.Tensor]:
        own = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
        norms = {
            name: self._norm(weight.grad)
            for name, weight in module.named_parameters()
            if weight.grad is not None and id(weight) in own
        }
        if not norms:
            return {}
        widest = max(norms.values(), key=lambda norm: torch.finfo(norm.dtype).bits)
        both = torch.stack([norm.to(widest) for norm in norms.values()])
        inner = [getattr(one, "optimizer", one) for one in trainer.optimizers]
        number = inner.index(getattr(optimizer, "optimizer", optimizer))
        name = f"grad_norm/{number}" if len(inner) > 1 else "grad_norm"
        found = {name: torch.linalg.vector_norm(both, self._type)}
        if self._per_parameter:
            found |= {f"grad_norm/{key.replace('.', '/')}": norm for key, norm in norms.items()}
        return found

    def _norm(self, gradient: torch.Tensor) -> torch.Tensor:
        gradient = gradient.detach()
        if gradient.is_sparse:
            gradient = gradient.coalesce().values()
        wide = torch.float32 if gradient.dtype in _SHORT_FLOATS else None
        norm: torch.Tensor = torch.linalg.vector_norm(gradient, self._type, dtype=wide)
        # For a tensor distributed over processes: all of them call this, not only the recording
        # one.
        return norm.full_tensor() if hasattr(norm, "full_tensor") else norm


class _StepClock(QuietCallback):
    """Clock of steps, from the end of one batch to the end of the next, without validation."""

    def on_train_start(self, trainer: Any, *_: Any, **__: Any) -> None:
        self._last = perf_counter()
        self._spent, self._steps = 0.0, 0

    def on_train_epoch_start(self, *_: Any, **__: Any) -> None:
        self._last = perf_counter()

    on_validation_end = on_train_epoch_start

    @guarded
    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, *_: Any, **__: Any
    ) -> None:
        now = perf_counter()
        self._spent += now - self._last
        self._last = now
        self._steps += 1
        self._count_batch(batch)
        if self.is_logged(trainer) and not only_accumulates(trainer):
            self._record_steps(trainer)
            self._spent, self._steps = 0.0, 0

    def _count_batch(self, batch: Any) -> None:
        """Count a batch; implemented by subclasses."""

    def _record_steps(self, trainer: Any) -> None:
        """Record the steps since the last record; implemented by subclasses."""


@_host.configurable
class StepTimes(_StepClock):
    """Record durations of batches and epochs, samples per second, and the remaining time.

    ``profiling/step_time_s`` is the mean time from batch to batch since the last record, including
    the wait for data, but without validation and the checkpoints saved at its end.
    ``profiling/samples_per_second`` corresponds to it. ``profiling/eta_s`` is extrapolated from the
    total training time so far to the limit of ``max_epochs``, ``max_steps`` or ``max_time`` that is
    reached first; without a limit it is omitted. ``profiling/epoch_time_s`` is recorded at the end
    of each epoch; for an epoch resumed in the middle, it is the time of the rest. In a Seamark run
    these paths do not have the logger's prefix.

    Args:
        batch_size: Number of samples per batch of this process; by default the length of the first
            tensor in the batch.

    Raises:
        ArgumentError: If the size is not an integer above 0.
    """

    def __init__(self, batch_size: int | None = None) -> None:
        super().__init__()
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            raise ArgumentError(
                f"StepTimes: batch_size: expected a whole number above 0, got {batch_size!r}"
            )
        self._batch_size = batch_size

    def setup(self, trainer: Any, *_: Any, **__: Any) -> None:
        # Called last, so that checkpoints saved by others at the end of validation do not count.
        trainer.callbacks = [*(one for one in trainer.callbacks if one is not self), self]

    def on_train_start(self, trainer: Any, *_: Any, **__: Any) -> None:
        # Restart, also in the middle of an epoch, for whose start there is no hook.
        super().on_train_start(trainer)
        self._began = self._epoch_began = self._last
        self._done = self._samples = 0
        self._first_step = trainer.global_step

    def on_train_epoch_start(self, *_: Any, **__: Any) -> None:
        super().on_train_epoch_start()
        self._epoch_began = self._last

    def _count_batch(self, batch: Any) -> None:
        self._done += 1
        self._samples += self._batch_size or _length(batch)

    def _record_steps(self, trainer: Any) -> None:
        found = {"profiling/step_time_s": self._spent / self._steps}
        if self._samples and self._spent > 0:
            found["profiling/samples_per_second"] = self._samples / self._spent
        self._samples = 0
        mean_s = (self._last - self._began) / self._done
        left = min([mean_s * self._batches_left(trainer), *_seconds_left(trainer)])
        if math.isfinite(left):
            found["profiling/eta_s"] = max(0.0, left)
        self.record(trainer, found, beside_prefix=True)

    @guarded
    def on_train_epoch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        self.record(
            trainer,
            {"profiling/epoch_time_s": perf_counter() - self._epoch_began},
            step=max(0, step_of(trainer) - 1),  # like Lightning's metrics of an epoch
            beside_prefix=True,
        )

    def _batches_left(self, trainer: Any) -> float:
        left = math.inf
        if (epochs := trainer.max_epochs) is not None and epochs >= 0:
            done = trainer.fit_loop.epoch_loop.batch_idx + 1
            left = (epochs - trainer.current_epoch) * trainer.num_training_batches - done
        if trainer.max_steps >= 0:
            steps = trainer.global_step - self._first_step
            # Accumulation makes fewer steps than batches, several optimizers make more.
            batches = self._done / steps if steps else trainer.accumulate_grad_batches
            left = min(left, (trainer.max_steps - trainer.global_step) * batches)
        return left


def _length(batch: Any) -> int:
    if isinstance(batch, torch.Tensor):
        return len(batch) if batch.ndim else 1
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        return next((size for one in batch if (size := _length(one))), 0)
    return 0


def _seconds_left(trainer: Any) -> Iterator[float]:
    for callback in trainer.callbacks:
        if any(cls.__name__ == "Timer" for cls in type(callback).__mro__):
            left = callback.time_remaining()
            if left is not None:
                yield left


class DeviceMemory(QuietCallback):
    """Record the memory of the process and of its CUDA device at the logged steps.

    Under ``profiling/memory/``: ``host_rss_bytes`` (on Linux), and with CUDA ``allocated_bytes``,
    ``reserved_bytes`` and ``peak_allocated_bytes`` (since the start of the process or the last
    reset by your code). The device is not synchronized, and no counter is reset. In a Seamark run
    these paths do not have the logger's prefix.
    """

    @guarded
    def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        if self.is_logged(trainer) and not only_accumulates(trainer):
            found = _host_memory() | _cuda_memory(trainer.strategy.root_device)
            metrics = {f"profiling/memory/{name}": size for name, size in found.items()}
            self.record(trainer, metrics, beside_prefix=True)


def _host_memory() -> dict[str, int]:
    if sys.platform != "linux":
        return {}
    with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 - a fast one
        return {"host_rss_bytes": int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")}


def _cuda_memory(device: torch.device) -> dict[str, int]:
    if device.type != "cuda":
        return {}
    return {
        "allocated_bytes": torch.cuda.memory_allocated(device),
        "reserved_bytes": torch.cuda.memory_reserved(device),
        "peak_allocated_bytes": torch.cuda.max_memory_allocated(device),
    }


def time_ranks(trainer: Any) -> None:
    """Record the step times of every rank of a trainer, for loggers with ``ranks="all"``."""
    if not any(isinstance(one, _RankTimes) for one in trainer.callbacks):
        trainer.callbacks.append(_RankTimes())


class _RankTimes(_StepClock):
    # Ranks that exchange gradients wait for each other in the backward pass, so that a step takes
    # equally long on all ranks. A rank's own time excludes the part from its last gradient, which
    # is that of the first parameter, to the end of the backward pass; if that is unknown, it
    # excludes the whole backward pass.

    _hook: Any = None

    @guarded
    def on_train_start(self, trainer: Any, pl_module: Any, *_: Any, **__: Any) -> None:
        super().on_train_start(trainer)
        self._waited = 0.0
        first = next((one for one in pl_module.parameters() if one.requires_grad), None)
        if first is not None:
            # Avoids a warning about this hook when the model is pickled.
            hook = unserializable_hook(self.on_before_backward)  # type: ignore[no-untyped-call]
            self._hook = first.register_hook(hook)

    def on_before_backward(self, *_: Any, **__: Any) -> None:
        # Note the earliest time at which this rank may wait for others.
        self._ready = perf_counter()

    def on_after_backward(self, *_: Any, **__: Any) -> None:
        self._waited += perf_counter() - self._ready

    def on_train_end(self, *_: Any, **__: Any) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    on_exception = on_train_end

    def _record_steps(self, trainer: Any) -> None:
        times = {OWN_TIME: (self._spent - self._waited) / self._steps}
        if not any(isinstance(one, StepTimes) for one in trainer.callbacks):
            times[STEP_TIME] = self._spent / self._steps
        self._waited = 0.0
        for logger in trainer.loggers:
            if isinstance(logger, _host.RunLogger) and logger.own_run.ranks == "all":
                logger.experiment.log_metrics(times, step_of(trainer))
