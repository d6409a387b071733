"""One run for all ranks: whose id it has, and when that can be known."""

from __future__ import annotations

from seamark.errors import ArgumentError
from seamark.ranks import current_rank

__all__ = ["refuse_alone"]


def refuse_alone() -> None:
    """Refuse to mint an id that other ranks cannot know.

    Raises:
        ArgumentError: If there are other ranks.
    """
    rank = current_rank()
    if rank.rank or (rank.world_size or 1) > 1:
        size = f" of {rank.world_size}" if rank.world_size else ""
        msg = (
            f"ranks='all': this is rank {rank.rank}{size}, and nothing connects the ranks yet; "
            "call init_run() after torch.distributed.init_process_group() or hvd.init(), or give "
            "custom_run_id, the same on every rank (or in SEAMARK_CUSTOM_RUN_ID)"
        )
        raise ArgumentError(msg)
