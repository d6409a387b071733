"""The saver: what an Ignite ``Checkpoint`` hands it becomes a file of the run."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from seamark.errors import ArgumentError
from seamark.ignite import _host
from seamark.ignite._target import dropping, target_of
from seamark.paths import check_writable, join_path
from seamark.process.interrupts import let_pass
from seamark.run.run import Run
from seamark.values import parameters

__all__ = ["NeptuneSaver", "SeamarkSaver"]


class SeamarkSaver(_host.checkpoint.BaseSaveHandler):  # type: ignore[misc] # of any release
    """Saves checkpoints into the run, as the ``save_handler`` of an Ignite ``Checkpoint``.

    The bytes lie in the run's folder, where `path` finds them, and the run has a file under the
    checkpoint's name, with what is known of it (``basename``, ``score_name``, ``priority``) below.

    A disk that is full, or fails, is warned about and counted, and the training goes on without the
    checkpoint. What cannot be pickled raises.

    Args:
        logger: A ``SeamarkLogger``, or anything with a run as its ``experiment``.
        save_on_rank: The rank that saves, as in ``Checkpoint``. Construct and call the saver on
            every rank. If it is not 0, all ranks agree on the run here, so that it stays one.

    Raises:
        TypeError: If the logger is none of ours.
        ArgumentError: If ``save_on_rank`` can be no rank.

    Example:
        ::

            best = Checkpoint(
                {"model": model},
                SeamarkSaver(logger),
                n_saved=2,
                score_name="accuracy",
                global_step_transform=global_step_from_engine(trainer),
            )
            evaluator.add_event_handler(Events.COMPLETED, best)
            ...
            Checkpoint.load_objects({"model": model}, saver.path(best.last_checkpoint))
    """

    def __init__(self, logger: Any, save_on_rank: int = 0) -> None:
        self._logger = logger
        self.save_on_rank = save_on_rank
        target_of(logger, "SeamarkSaver")
        if not isinstance(save_on_rank, int) or save_on_rank < 0:
            msg = f"SeamarkSaver: save_on_rank: expected an int from 0 on, got {save_on_rank!r}"
            raise ArgumentError(msg)
        if save_on_rank != 0 and (agree := getattr(logger, "agree_on_run", None)) is not None:
            agree()

    def path(self, filename: str) -> Path:
        """Return where a checkpoint of this name is, or would be.

        Args:
            filename: As ``Checkpoint`` makes it; ``Checkpoint.last_checkpoint`` is one.

        Raises:
            ArgumentError: If the name leads out of the folder.
            PathError: If it can be no attribute path.
        """
        run, base = target_of(self._logger, "SeamarkSaver")
        name = check_writable(join_path(base, str(filename)))
        if any(part in {".", ".."} for part in name.split("/")):
            msg = f"filename: expected a name inside the run's folder, got {filename!r}"
            raise ArgumentError(msg)
        return run.folder.files_dir / "checkpoints" / name

    def __call__(
        self,
        checkpoint: Mapping[str, Any],
        filename: str,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Save a checkpoint, over an older one of the same name.

        Args:
            checkpoint: What to save.
            filename: Its name, which is its path on the run too.
            metadata: What ``Checkpoint`` knows of it.
        """
        if (found := self._recorder()) is None or not found[0].session.begin():
            return
        run, base = found
        target = self.path(filename)
        try:
            _write(checkpoint, target)
        except (OSError, RuntimeError) as error:
            let_pass(error)
            if not _is_disk(error):
                raise
            run.session.drop(
                "checkpoints", warn=f"checkpoint {filename!r} could not be saved: {error}"
            )
            return
        with dropping(run, "checkpoints", f"checkpoint {filename!r} could not be recorded"):
            _record(run, join_path(base, str(filename)), target, metadata)

    def remove(self, filename: str) -> None:
        """Remove a checkpoint, from the disk and from the run. Never raises if it is gone."""
        if (found := self._recorder()) is None:
            return
        run, base = found
        target, at = self.path(filename), join_path(base, str(filename))
        with dropping(run, "checkpoints", f"checkpoint {filename!r} could not be removed"):
            target.unlink(missing_ok=True)
            run.session.record_op({"op": "delete", "paths": [at]})
            run.session.content.prune(at)

    def _recorder(self) -> tuple[Run, str] | None:
        """Return the run and the namespace if this rank saves, else None."""
        if _host.idist.get_rank() != self.save_on_rank:
            return None
        run, base = target_of(self._logger, "SeamarkSaver")
        if self.save_on_rank != 0 and not run.session.speaks_for_all:
            run = _guest_of(run, os.getpid())
        if run.get_state() == "stopped":
            run.session.drop("checkpoints", warn="a checkpoint came after the run was stopped")
        return (run, base) if run.session.recording else None


NeptuneSaver = SeamarkSaver
"""The same class, under the name that Ignite's has."""


@functools.cache
def _guest_of(run: Run, _process: int) -> Run:
    """Return the run of rank 0, to add to it from this rank."""
    guest = Run(run.session.at(run.id, owner=False))
    atexit.register(guest.stop, seconds=60.0)
    return guest


def _write(checkpoint: Mapping[str, Any], target: Path) -> None:
    """Write a checkpoint; whoever looks sees the old bytes or the new ones.

    Raises:
        OSError: If the disk fails.
        RuntimeError: The same, in PyTorch's words.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f".{secrets.token_hex(8)}")
    try:
        with new.open("xb") as file:
            torch.save(checkpoint, file)
        new.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        raise


def _is_disk(error: BaseException | None) -> bool:
    """Tell whether an error comes from the disk; PyTorch's archive hides the first one."""
    while error is not None:
        if isinstance(error, OSError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _record(run: Run, at: str, target: Path, metadata: Mapping[str, Any] | None) -> None:
    """Record a checkpoint that is on disk, and what is known of it.

    Raises:
        FamilyError: If the path holds something else.
        OSError: If the file cannot be looked at.
    """
    if run.checkpoints == "keep":
        run.session.content.keep(at, target)
    else:
        run.session.content.refer(at, target)
    if metadata:
        run.session.record_atoms(parameters(metadata, at))
