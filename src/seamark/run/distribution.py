"""Facts about a distributed training, read from the object that distributes it without imports."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any, Final

from seamark.errors import ArgumentError
from seamark.process.interrupts import quietly
from seamark.process.rank import current_rank

__all__ = ["distribution_of"]

Facts = dict[str, Any]
_PLAIN: Final = (bool, int, float, str)


def distribution_of(what: Any) -> Facts:
    """Return what a model or a module tells of how a training is distributed, by name.

    Args:
        what: See `seamark.Run.log_distribution`.

    Raises:
        ArgumentError: If it is nothing that distributes.
    """
    if isinstance(what, types.ModuleType):
        found = _of_module(what)
    else:
        names = {
            f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(what).mro()
        }
        found = next((tell(what) for name, tell in _KINDS.items() if name in names), None)
        if found is None and any(name.endswith("Strategy") for name in names):
            found = _of_strategy(what)
    if found is None:
        kind = what.__name__ if isinstance(what, types.ModuleType) else type(what).__name__
        msg = (
            "log_distribution: expected a distributed model (DataParallel, "
            "DistributedDataParallel, FSDP, a DeepSpeed engine, ...), a module such as "
            f"horovod.torch, or a strategy of TensorFlow, got {kind}"
        )
        raise ArgumentError(msg)
    rank = current_rank()
    known = {"launcher": rank.launcher, "world_size": rank.world_size, **found}
    return {name: fact for name, fact in known.items() if fact is not None}


def _ask(what: Any, *names: str) -> Any:
    """Return a plain fact: an attribute, or what a method without arguments says; None for none."""
    with quietly():  # what it is not ready for yet, or says in another version
        for name in names:
            found = getattr(what, name, None)
            if isinstance(found, (types.MethodType, types.FunctionType, types.BuiltinFunctionType)):
                found = found()
            if isinstance(found, _PLAIN):
                return found
    return None


def _named(value: Any) -> str | None:
    """Return the name of a member of an enum, a dtype or the like; None for None."""
    return None if value is None else str(getattr(value, "name", value)).removeprefix("torch.")


def _of_data_parallel(model: Any) -> Facts:
    ids = list(getattr(model, "device_ids", None) or ())
    return {"strategy": "DataParallel", "devices": len(ids) or None, "world_size": 1}


def _of_ddp(model: Any) -> Facts:
    group = getattr(model, "process_group", None)
    device = getattr(model, "device", None)
    return {
        "strategy": "DistributedDataParallel",
        **_of_group(group),
        "accelerator": getattr(device, "type", None),
        "find_unused_parameters": _ask(model, "find_unused_parameters"),
        "static_graph": _ask(model, "static_graph"),
        "gradient_as_bucket_view": _ask(model, "gradient_as_bucket_view"),
    }


def _of_group(group: Any) -> Facts:
    return {"backend": _ask(group, "name"), "world_size": _ask(group, "size")}


def _of_fsdp(model: Any) -> Facts:
    precision = getattr(model, "mixed_precision", None)
    offload = getattr(model, "cpu_offload", None)
    return {
        "strategy": "FullyShardedDataParallel",
        **_of_group(getattr(model, "process_group", None)),
        "sharding": _named(getattr(model, "sharding_strategy", None)),
        "precision": _named(getattr(precision, "param_dtype", None)),
        "cpu_offload": _ask(offload, "offload_params"),
    }


def _of_deepspeed(engine: Any) -> Facts:
    half = [
        name
        for name, asked in (("bf16", "bfloat16_enabled"), ("fp16", "fp16_enabled"))
        if _ask(engine, asked)
    ]
    return {
        "strategy": "DeepSpeed",
        "world_size": _ask(engine, "world_size", "dp_world_size"),
        "zero_stage": _ask(engine, "zero_optimization_stage"),
        "precision": half[0] if half else None,
        "batch_size": _ask(engine, "train_micro_batch_size_per_gpu"),
        "accumulate_grad_batches": _ask(engine, "gradient_accumulation_steps"),
        "effective_batch_size": _ask(engine, "train_batch_size"),
    }


def _of_strategy(strategy: Any) -> Facts | None:
    replicas = _ask(strategy, "num_replicas_in_sync")
    if replicas is None:
        return None
    nodes = None
    with quietly():
        spec = strategy.cluster_resolver.cluster_spec()
        nodes = sum(spec.num_tasks(job) for job in spec.jobs if job in ("chief", "worker")) or None
    return {"strategy": type(strategy).__name__, "world_size": replicas, "nodes": nodes}


_KINDS: Final[Mapping[str, Callable[[Any], Facts]]] = {
    "torch.DistributedDataParallel": _of_ddp,
    "torch.FullyShardedDataParallel": _of_fsdp,
    "torch.FSDPModule": lambda _: {"strategy": "fully_shard"},
    "torch.DataParallel": _of_data_parallel,
    "fairscale.FullyShardedDataParallel": _of_fsdp,
    "fairscale.ShardedDataParallel": lambda _: {"strategy": "ShardedDataParallel"},
    "deepspeed.DeepSpeedEngine": _of_deepspeed,
    "torch_xla.XlaFullyShardedDataParallel": lambda _: {"strategy": "XLA", "accelerator": "xla"},
}
"""What tells the facts, by the package and the name of a class or of one that it derives from."""


def _of_module(module: types.ModuleType) -> Facts | None:
    name = module.__name__
    if name.partition(".")[0] == "horovod" and hasattr(module, "size"):
        return {
            "strategy": "Horovod",
            "world_size": _ask(module, "size"),
            "devices": _ask(module, "local_size"),
            "nodes": _ask(module, "cross_size"),
        }
    if name.partition(".")[0] == "torch_xla":
        sizes = ("xrt_world_size", "world_size")
        return {"strategy": "XLA", "accelerator": "xla", "world_size": _ask(module, *sizes)}
    if name == "torch.distributed" and _ask(module, "is_initialized"):
        return {
            "strategy": "torch.distributed",
            "backend": _ask(module, "get_backend"),
            "world_size": _ask(module, "get_world_size"),
        }
    return None
