"""Facts about the training engine: its distribution and step times."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from inspect import getclosurevars
from time import perf_counter
from typing import Any, Final

from torch.utils.hooks import unserializable_hook

from seamark.ignite import _host
from seamark.ignite._handlers import GradsHistHandler, GradsScalarHandler, OptimizerParamsHandler
from seamark.ignite._host import dropping, series_target_of, target_of
from seamark.paths import join_path
from seamark.process.interrupts import quietly
from seamark.process.rank import current_rank
from seamark.reading.rank_text import OWN_TIME, STEP_TIME
from seamark.run.adapters import batch_size
from seamark.values import encode_atom

_INTERVAL_S: Final = 1.0
_TRAINS: Final = (OptimizerParamsHandler, GradsScalarHandler, GradsHistHandler)


class EngineWatch:
    """Record facts about the training engine when it starts, and its step times if requested.

    The training engine is the one to which a handler of optimizer parameters is attached, or else
    the first one to which anything is attached.
    """

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._engine: Callable[[], Any] = lambda: None
        self._is_sure = False
        self._is_only = True
        self._marks: list[Any] = []
        self._handles: list[Any] = []
        self._optimizer: Any = None
        self._times: _StepTimes | None = None

    def __reduce__(self) -> Any:
        # Do not pickle the engine.
        return EngineWatch, (self._logger,)

    def look_at(self, engine: Any, handler: Any, *, times: bool) -> None:
        """Watch an engine to which something is attached, if it is the training engine."""
        is_trainer = isinstance(handler, _TRAINS)
        if self._optimizer is None:
            self._optimizer = getattr(handler, "optimizer", None)
        watched = self._engine()
        self._is_only = self._is_only and watched in (None, engine)
        if watched is not None and (self._is_sure or not is_trainer):
            return
        if watched is not engine:
            for handle in self._handles:
                handle.remove()
            self._engine = weakref.ref(engine)
            started = _host.engine.Events.STARTED
            self._handles = [engine.add_event_handler(started, self._started)]
            if times:
                self._times = _StepTimes(self._logger, engine)
                self._handles += self._times.handles
        self._is_sure = is_trainer

    # ------------------------------------------------------------ checkpoints

    def expect_step(self) -> bool:
        # A checkpoint is saved in one handler, and data of the same step or epoch may be recorded
        # in a later one.
        engine = self._engine()
        if engine is None or not (self._is_sure or self._is_only):
            return False
        if not self._marks:
            event = _host.engine.Events
            self._marks = [
                engine.add_event_handler(each, self._mark)
                for each in (event.GET_BATCH_STARTED, event.COMPLETED)
            ]
        return True

    def _mark(self, _engine: Any) -> None:
        for handle in self._marks:
            handle.remove()
        self._marks = []
        target_of(self._logger, "SeamarkLogger")[0].mark_checkpoint()

    # ------------------------------------------------------------ facts

    def _started(self, engine: Any) -> None:
        # Here and at each start: all ranks pass here, whichever of them loaded a checkpoint.
        if target_of(self._logger, "SeamarkLogger")[0].ranks == "all":
            self._logger.agree_on_run()
        if self._times is not None:
            self._times.begin(self._optimizer)
        run, base = target_of(self._logger, "SeamarkLogger")
        with dropping(run, "facts", "facts of the training could not be recorded"):
            if run.session.speaks_for_all:
                facts = {
                    join_path(base, "distributed", name): encode_atom(fact)
                    for name, fact in _facts(engine).items()
                    if fact is not None
                }
                run.session.record_facts(facts)


class _StepTimes:
    # A step lasts from the request of its batch to the end of the engine's function, without later
    # handlers. Its own part ends when the first parameter of the optimizer, the last to get one,
    # has its gradient: after that, ranks wait for each other.

    def __init__(self, logger: Any, engine: Any) -> None:
        self._logger = logger
        self._hook: Any = None
        self._began = self._computed = self._spent = self._own = self._due = 0.0
        self._steps = 0
        event = _host.engine.Events
        self.handles = [
            engine.add_event_handler(event.GET_BATCH_STARTED, self._step_began),
            engine.add_event_handler(event.ITERATION_COMPLETED, self._step_ended),
            engine.add_event_handler(event.EPOCH_COMPLETED, self._epoch_ended),
            engine.add_event_handler(event.COMPLETED, self._unhook),
        ]

    def begin(self, optimizer: Any) -> None:
        self._unhook()

        def has_gradient(_: Any) -> None:
            self._computed = perf_counter()

        with quietly():  # steps are timed anyway
            groups = () if optimizer is None else optimizer.param_groups
            found = [one for group in groups for one in group["params"] if one.requires_grad]
            if found:
                # Avoids a warning about this hook when the model is pickled.
                hook = unserializable_hook(has_gradient)  # type: ignore[no-untyped-call]
                self._hook = found[0].register_hook(hook)

    def _unhook(self, *_: Any) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _step_began(self, _engine: Any) -> None:
        self._began = perf_counter()
        self._computed = 0.0

    def _step_ended(self, engine: Any) -> None:
        now = perf_counter()
        self._spent += now - self._began
        self._own += (self._computed - self._began) if self._computed else math.nan
        self._steps += 1
        if now >= self._due:
            self._record(engine, now)

    def _epoch_ended(self, engine: Any) -> None:
        if self._steps:
            self._record(engine, perf_counter())

    def _record(self, engine: Any, now: float) -> None:
        run, base = series_target_of(self._logger, "SeamarkLogger")
        with dropping(run, "step_time", "step times could not be recorded"):
            row = {join_path(base, STEP_TIME): self._spent / self._steps}
            if not math.isnan(self._own):
                row[join_path(base, OWN_TIME)] = self._own / self._steps
            run.log_metrics(row, engine.state.iteration)
        self._due, self._spent, self._own, self._steps = now + _INTERVAL_S, 0.0, 0.0, 0


def _facts(engine: Any) -> dict[str, Any]:
    idist, rank = _host.idist, current_rank()
    batch, accumulated = batch_size(engine.state.dataloader), _accumulated(engine)
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


def _accumulated(engine: Any) -> int | None:
    """Return the number of batches per optimizer step of Ignite's own trainer."""
    try:
        found = getclosurevars(engine._process_function).nonlocals  # noqa: SLF001
    except (AttributeError, TypeError, ValueError):
        return None
    steps = found.get("gradient_accumulation_steps")
    return steps if isinstance(steps, int) else None
