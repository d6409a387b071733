"""The kinds of what is kept of a fast series, by the names that records give them."""

from __future__ import annotations

from typing import Any, Final

from seamark.errors import ArgumentError
from seamark.values.aggregates import Keep, Last, Ring
from seamark.values.statistics import Statistics

__all__ = ["load_aggregate"]

_KINDS: Final[dict[str, Any]] = {one.kind: one for one in (Statistics, Last, Ring)}


def load_aggregate(kind: object, state: object) -> Keep:
    """Return what a record tells: a kind, and what its ``state_dict`` returned.

    Raises:
        ArgumentError: If there is no such kind, or it has no such state.
    """
    made = _KINDS.get(kind) if isinstance(kind, str) else None
    if made is None:
        msg = f"kind: expected one of {', '.join(_KINDS)}, got {kind!r:.60}"
        raise ArgumentError(msg)
    found: Keep = made.from_dict(state)
    return found
