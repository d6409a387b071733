"""What a logger learns from the engine that trains: how it is distributed, how long steps take."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from inspect import getclosurevars
from time import perf_counter
from typing import Any, Final

from seamark.ignite import _host
from seamark.ignite._target import series_target_of, target_of
from seamark.paths import join_path
from seamark.ranks import current_rank
from seamark.values import encode_atom

__all__ = ["EngineWatch"]

_INTERVAL_S: Final = 1.0


class EngineWatch:
    """Records facts of the engine that trains when it starts, and its step times if asked for.

    It is the engine that a handler of optimizer parameters is attached to, else the first one that
    anything is attached to.

    Args:
        logger: Where to record.
    """

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._engine: weakref.ref[Any] | None = None
        self._is_sure = False
        self._handles: list[Any] = []
        self._began = self._spent = self._due = 0.0
        self._steps = 0

    def look_at(self, engine: Any, *, is_trainer: bool, times: bool) -> None:
        """Hear of an engine that something is attached to.

        Args:
            engine: The engine.
            is_trainer: Whether it is known to train.
            times: Whether to record step times.
        """
        if self._engine is not None and (self._is_sure or not is_trainer):
            return
        if self._engine is None or self._engine() is not engine:
            for handle in self._handles:
                handle.remove()
            self._engine = weakref.ref(engine)
            events = _host.engine.Events
            heard: list[tuple[Any, Callable[[Any], None]]] = [(events.STARTED, self._started)]
            if times:
                heard += [
                    (events.GET_BATCH_STARTED, self._step_began),
                    (events.ITERATION_COMPLETED, self._step_ended),
                    (events.EPOCH_COMPLETED, self._epoch_ended),
                ]
            self._handles = [engine.add_event_handler(event, method) for event, method in heard]
        self._is_sure = is_trainer

    # ------------------------------------------------------------ facts

    def _started(self, engine: Any) -> None:
        run, base = target_of(self._logger, "SeamarkLogger")
        try:
            if run.speaks_for_all:
                known = {name: fact for name, fact in _facts(engine).items() if fact is not None}
                paths = {name: join_path(base, "distributed", name) for name in known}
                run.tell({paths[name]: encode_atom(fact) for name, fact in known.items()})
        except Exception as error:  # noqa: BLE001 - nobody asked for them
            run.drop("facts", warn=f"facts of the training could not be recorded: {error!r}")

    # ------------------------------------------------------------ step times

    def _step_began(self, _engine: Any) -> None:
        self._began = perf_counter()

    def _step_ended(self, engine: Any) -> None:
        now = perf_counter()
        self._spent += now - self._began
        self._steps += 1
        if now >= self._due:
            self._record(engine, now)

    def _epoch_ended(self, engine: Any) -> None:
        if self._steps:
            self._record(engine, perf_counter())

    def _record(self, engine: Any, now: float) -> None:
        run, base = series_target_of(self._logger, "SeamarkLogger")
        try:
            path = join_path(base, "profiling/step_time_s")
            run.log_metrics({path: self._spent / self._steps}, engine.state.iteration)
        except Exception as error:  # noqa: BLE001 - stands in a training loop
            run.drop("step_time", warn=f"step times could not be recorded: {error!r}")
        self._due, self._spent, self._steps = now + _INTERVAL_S, 0.0, 0


def _facts(engine: Any) -> dict[str, Any]:
    """Return what is known of how an engine that starts is distributed; None where it is not."""
    idist, rank = _host.idist, current_rank()
    batch, accumulated = _batch_size(engine.state.dataloader), _accumulated(engine)
    world = rank.world_size or 1
    found: dict[str, Any] = {
        "launcher": rank.launcher,
        "world_size": world,
        "batch_size": batch,
        "accumulate_grad_batches": accumulated,
    }
    if _host.idist_knows():
        world = idist.get_world_size()
        found |= {
            "strategy": idist.backend(),
            "world_size": world,
            "nodes": idist.get_nnodes(),
            "devices": idist.get_nproc_per_node(),
            "accelerator": idist.device().type,
        }
    if batch is not None:
        found["effective_batch_size"] = batch * world * (accumulated or 1)
    return found


def _batch_size(loader: Any) -> int | None:
    """Return how many samples a batch of this process has, None if its loader does not say."""
    for one in (loader, getattr(loader, "batch_sampler", None)):
        size = getattr(one, "batch_size", None)
        if isinstance(size, int):
            return size
    return None


def _accumulated(engine: Any) -> int | None:
    """Return over how many batches gradients are summed up, as Ignite's own trainers know it."""
    try:
        said = getclosurevars(engine._process_function).nonlocals  # noqa: SLF001
    except (AttributeError, TypeError, ValueError):
        return None
    found = said.get("gradient_accumulation_steps")
    return found if isinstance(found, int) else None
