"""Distributed trainings: their facts, and processes that started before the ranks connected.

Workers of ``mp.spawn`` do not know their rank before ``init_process_group``. A worker that calls
`seamark.init_run` earlier assumes that it is rank 0 and records a run of its own.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ArgumentError
from seamark.process.interrupts import quietly
from seamark.process.rank import alone, connected, current_rank

if TYPE_CHECKING:
    from seamark.options.settings import Settings
    from seamark.run.attempts import Resume
    from seamark.run.ranks import RankPolicy
    from seamark.run.recorder import Recorder
    from seamark.run.state import OwnState


_Source = str | Callable[[Any], Any]
"""Source of a fact: attributes and methods joined by dots, or a function of the object."""
_Kind = tuple[str, Mapping[str, _Source]]
"""Name of a strategy and the sources of its facts."""
_PLAIN: Final = (bool, int, float, str)
_METHODS: Final = (types.MethodType, types.FunctionType, types.BuiltinFunctionType)


def distribution_of(what: Any) -> dict[str, Any]:
    """Return the facts about a distributed training that a model or module knows, by name."""
    is_module = isinstance(what, types.ModuleType)
    kind = _kind_of_module(what) if is_module else _kind_of_object(what)
    if kind is None:
        raise ArgumentError(
            "log_distribution: expected a distributed model (DataParallel, "
            "DistributedDataParallel, FSDP, a DeepSpeed engine, ...), a module such as "
            "horovod.torch, or a strategy of TensorFlow, got "
            f"{what.__name__ if is_module else type(what).__name__}"
        )
    strategy, sources = kind
    rank = current_rank()
    facts = {"launcher": rank.launcher, "world_size": rank.world_size, "strategy": strategy}
    facts |= {name: _ask(what, source) for name, source in sources.items()}
    return {name: fact for name, fact in facts.items() if fact is not None}


def _ask(what: Any, source: _Source) -> Any:
    with quietly():  # not available yet, or not in this version
        if callable(source):
            return source(what)
        for name in source.split("."):
            what = getattr(what, name, None)
            if isinstance(what, _METHODS):
                what = what()
        if isinstance(what, _PLAIN):
            return what
    return None


def _kind_of_module(module: types.ModuleType) -> _Kind | None:
    package = module.__name__.partition(".")[0]
    if package == "horovod" and hasattr(module, "size"):
        return "Horovod", {"world_size": "size", "devices": "local_size", "nodes": "cross_size"}
    if package == "torch_xla":
        return "XLA", {
            **_XLA,
            "world_size": lambda one: _ask(one, "xrt_world_size") or _ask(one, "world_size"),
        }
    if module.__name__ == "torch.distributed" and _ask(module, "is_initialized"):
        return module.__name__, {"backend": "get_backend", "world_size": "get_world_size"}
    return None


def _kind_of_object(what: Any) -> _Kind | None:
    names = {f"{one.__module__.partition('.')[0]}.{one.__name__}" for one in type(what).mro()}
    found = next((kind for name, kind in _KINDS.items() if name in names), None)
    is_strategy = any(name.endswith("Strategy") for name in names)
    if found is None and is_strategy and _ask(what, "num_replicas_in_sync") is not None:
        return type(what).__name__, _TENSORFLOW
    return found


def _tensorflow_nodes(strategy: Any) -> int | None:
    spec = strategy.cluster_resolver.cluster_spec()
    return sum(spec.num_tasks(job) for job in spec.jobs if job in ("chief", "worker")) or None


def _fsdp_precision(model: Any) -> str | None:
    dtype = model.mixed_precision.param_dtype
    return None if dtype is None else str(dtype).removeprefix("torch.")


def _deepspeed_precision(engine: Any) -> str | None:
    if _ask(engine, "bfloat16_enabled"):
        return "bf16"
    return "fp16" if _ask(engine, "fp16_enabled") else None


_TENSORFLOW: Final[Mapping[str, _Source]] = {
    "world_size": "num_replicas_in_sync",
    "nodes": _tensorflow_nodes,
}
_XLA: Final[Mapping[str, _Source]] = {"accelerator": lambda _: "xla"}
_GROUP: Final[Mapping[str, _Source]] = {
    "backend": "process_group.name",
    "world_size": "process_group.size",
}
_FSDP: Final[_Kind] = (
    "FullyShardedDataParallel",
    {
        **_GROUP,
        "sharding": "sharding_strategy.name",
        "precision": _fsdp_precision,
        "cpu_offload": "cpu_offload.offload_params",
    },
)
_KINDS: Final[Mapping[str, _Kind]] = {
    "torch.DistributedDataParallel": (
        "DistributedDataParallel",
        {
            **_GROUP,
            "accelerator": "device.type",
            "find_unused_parameters": "find_unused_parameters",
            "static_graph": "static_graph",
            "gradient_as_bucket_view": "gradient_as_bucket_view",
        },
    ),
    "torch.FullyShardedDataParallel": _FSDP,
    "torch.FSDPModule": ("fully_shard", {}),
    "torch.DataParallel": (
        "DataParallel",
        {"devices": lambda model: len(model.device_ids) or None, "world_size": lambda _: 1},
    ),
    "fairscale.FullyShardedDataParallel": _FSDP,
    "fairscale.ShardedDataParallel": ("ShardedDataParallel", {}),
    "deepspeed.DeepSpeedEngine": (
        "DeepSpeed",
        {
            "world_size": lambda one: _ask(one, "world_size") or _ask(one, "dp_world_size"),
            "zero_stage": "zero_optimization_stage",
            "precision": _deepspeed_precision,
            "batch_size": "train_micro_batch_size_per_gpu",
            "accumulate_grad_batches": "gradient_accumulation_steps",
            "effective_batch_size": "train_batch_size",
        },
    ),
    "torch_xla.XlaFullyShardedDataParallel": ("XLA", _XLA),
}
"""Strategies, by package and name of a class or one of its base classes."""
log = logging.getLogger("seamark")
_HOW: Final = (
    "call init_run() after init_process_group() or hvd.init(), or set RANK and WORLD_SIZE before it"
)
_STOPS: Final = (
    "seamark: this process began run %s and turned out to be rank %d of a training that rank 0 "
    "records: it stops recording. For a single run, %s"
)
_MIXED: Final = (
    "seamark: this process began run %s as rank 0 and turned out to be rank %d; its records are "
    "mixed with those of rank 0. With ranks='all' %s"
)


class LateRank:
    """Check at heartbeats and at the end whether a process that records as rank 0 has rank 0."""

    def __init__(
        self,
        options: Settings,
        recorder: Recorder,
        policy: RankPolicy,
        state: OwnState,
        resume: Resume,
        *,
        own: Callable[[], object],
        stop: Callable[[], object],
    ) -> None:
        self._options, self._recorder, self._policy = options, recorder, policy
        self._state, self._resume = state, resume
        self._own, self._stop = own, stop
        self._pid = os.getpid()
        self._met = connected()
        self._settled = self._met

    def check(self, *, stops: bool = False) -> None:
        """Check the rank; if it is not 0, warn, and stop writing to a run that rank 0 records."""
        if self._settled or self._pid != os.getpid():
            return
        rank = current_rank().rank
        self._met = connected()
        self._settled = self._met or bool(rank)
        if not rank:
            if self._met and self._state.had_owner:
                self._own()
            return
        leaves = self._options.ranks != "all"
        log.warning(_STOPS if leaves else _MIXED, self._recorder.folder.run, rank, _HOW)
        if leaves:
            self._withdraw()
            if stops:
                self._stop()

    def _withdraw(self) -> None:
        shared = self._options.names_a_run or self._policy.common_id
        if shared or self._resume.origin.continues:
            self._state.disown()  # rank 0 records it as well and owns its state
        elif self._state.word == "running":
            self._state.note("interrupted")
        self._policy.withdraw()
        self._recorder.ask_again()

    def beat(self) -> None:
        """Check at a heartbeat, on a thread that the end of a run does not wait for."""
        self._met = self._met or connected()  # a process group may be destroyed again
        if not (self._settled or alone()):
            # Not a daemon: the process must not end before the run.
            threading.Thread(
                target=self.check, kwargs={"stops": True}, name="seamark-late", daemon=False
            ).start()

    def warn_of_slurm_tasks(self) -> None:
        """Warn once per process if SLURM tasks were not connected and only one of them recorded."""
        rank = current_rank()
        if self._options.ranks == "zero" and rank.source == "SLURM_PROCID" and not self._met:
            _warn_of_slurm_tasks(rank.world_size)


@functools.cache
def _warn_of_slurm_tasks(count: int | None) -> None:
    log.warning(
        "seamark: only task 0 of the %s of this SLURM step recorded. If they are independent, and "
        "not ranks of one training, use: srun ... env -u SLURM_PROCID python ...",
        count,
    )
