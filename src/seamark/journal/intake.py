"""Check of the metrics for ``log_metrics``, key by key; what cannot be recorded is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from seamark.paths import check_writable
from seamark.values import to_floats, to_step

if TYPE_CHECKING:
    from seamark.journal.losses import Losses
    from seamark.values._numbers import Converted

__all__ = ["sound_row"]


def sound_row(
    metrics: Any,
    step: Any,
    found: Converted | None,
    claim: Callable[[str, str], None],
    losses: Losses,
) -> tuple[dict[str, float], float | None] | None:
    """Return the numbers and the step that can be recorded; count and warn about the rest.

    Args:
        metrics: Should be numbers by path.
        step: Should be a finite number, or None.
        found: What `to_floats` made of the numbers, if that is known: tensors are not moved again.
        claim: Takes a path for a family; raises if it holds another one.
        losses: Takes what is left out.

    Returns:
        None if nothing can be recorded.
    """
    if not isinstance(metrics, Mapping):
        what = f"expected a mapping of paths to numbers, got {metrics!r:.120}"
        losses.drop("metrics", 1, f"log_metrics: {what}")
        return None
    if step is not None:
        try:
            step = to_step(step)
        except (TypeError, ValueError) as error:
            losses.drop("step", max(1, len(metrics)), f"log_metrics: {error}")
            return None

    def drop_value(what: str, key: object, error: Exception) -> None:
        message = f"log_metrics: {key!r:.120} is left out: {error}"
        losses.drop(what, 1, message, (what, key))

    values, refused = to_floats(metrics) if found is None else found
    for key, reason in refused.items():
        drop_value("value", key, reason)
    kept = {}
    for key, value in values.items():
        try:
            claim(check_writable(key), "float_series")
        except (TypeError, ValueError) as error:
            drop_value("path", key, error)
        else:
            kept[key] = value
    return (kept, step) if kept else None
