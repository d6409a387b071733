"""What a logger tells of how a training is distributed."""

from __future__ import annotations

from typing import Any

from seamark.process.rank import current_rank
from seamark.run.adapters import batch_size

__all__ = ["batch_facts", "facts"]


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
    batch = batch_size(loader)
    if batch is None:
        return {}
    accumulated = int(trainer.accumulate_grad_batches)
    return {
        "batch_size": batch,
        "accumulate_grad_batches": accumulated,
        "effective_batch_size": batch * int(trainer.world_size) * accumulated,
    }
