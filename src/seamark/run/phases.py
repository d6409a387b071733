"""Paths of metrics that are given with a phase and an epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from seamark.paths import check_path, join_path
from seamark.process.interrupts import let_pass, quietly
from seamark.values import shown, to_float

__all__ = ["in_phase"]

_PHASES: Final = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "validate", "validation"), "val"),
    **dict.fromkeys(("test", "testing", "eval", "evaluate", "evaluation"), "test"),
}
"""Words for the three phases of a training; any other word is a namespace of its own."""
_EPOCH: Final = "epoch"

Lost = Callable[[str, int, str], None]
"""Counts what is left out: reason, how many, and what a person should read."""


def in_phase(metrics: Any, base: str, phase: Any, epoch: Any, lost: Lost) -> dict[str, Any]:
    """Return metrics by the paths at which they are recorded; never raises.

    Args:
        metrics: As given.
        base: Path below which all of them are.
        phase: As given; None for none.
        epoch: As given; None for none.
        lost: Is told of what is left out.
    """
    try:
        own = "" if phase is None else _PHASES.get(phase) or check_path(phase)
        namespace = join_path(base, own)
    except Exception as error:  # noqa: BLE001 - see `let_pass`
        let_pass(error)
        count = 1
        with quietly():
            count = max(1, len(metrics))
        lost("metrics", count, f"log_metrics: phase: {error}")
        return {}
    prefix = f"{namespace}/" if namespace else ""
    try:
        found = {f"{prefix}{key}": value for key, value in metrics.items()}
    except Exception as error:  # noqa: BLE001 - see `let_pass`
        let_pass(error)
        what = f"expected a mapping of paths to numbers: {error!r:.200}"
        lost("metrics", 1, f"log_metrics: {what}")
        return {}
    if epoch is None:
        return found
    if found.pop(prefix + _EPOCH, None) is not None:
        what = f"{_EPOCH!r} among the metrics is left out beside the argument epoch="
        lost(_EPOCH, 1, f"log_metrics: {what}")
    return {**found, **_epoch_at(prefix + _EPOCH, epoch, lost)}


def _epoch_at(path: str, epoch: Any, lost: Lost) -> dict[str, float]:
    try:
        return {path: to_float(epoch)}
    except Exception as error:  # noqa: BLE001 - see `let_pass`
        let_pass(error)
        lost(_EPOCH, 1, f"log_metrics: epoch: expected a number, got {shown(epoch)}")
        return {}
