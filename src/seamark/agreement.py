"""One run for all ranks: whose id it has, and when that can be known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.errors import ArgumentError
from seamark.journal.folder import RunFolder
from seamark.ranks import broadcast_from_zero, current_rank

if TYPE_CHECKING:
    from seamark.settings import RunSettings

__all__ = ["agreed_folder", "refuse_alone"]


def agreed_folder(settings: RunSettings, folder: RunFolder) -> RunFolder:
    """Return where the run of rank 0 lies; every rank has to call this.

    Where the id is given, all ranks know it without a word. With nobody to talk to, it is this
    process's own.

    Args:
        settings: Of the run.
        folder: Where it lies if this is the only process, or rank 0.

    Raises:
        ArgumentError: If there are other ranks, and no way to talk to them yet.
    """
    if settings.with_id or settings.custom_run_id:
        return folder
    # Whatever the mode: a rank that is disabled must not leave the others waiting.
    said = broadcast_from_zero(f"{folder.project}/{folder.run}")
    if said is None:
        refuse_alone()
        return folder
    project, _, run = said.rpartition("/")
    return RunFolder(folder.root, project, run)


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
