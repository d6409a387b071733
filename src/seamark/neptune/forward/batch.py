"""Operations of Neptune's protocol in the making: what one request has done."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Final

__all__ = ["Batch", "Entry", "entry_of"]

_MOST: Final = 5000
_TEXT_WEIGHT: Final = 200
"""Characters that weigh as much as a point."""
Entry = dict[str, Any]


class Batch:
    """Operations that are sent in one request, in order; points of a series are grouped.

    Attributes:
        operations: The operations, in the form of the protocol.
        lacking: Number of items that the protocol cannot hold as they are, by kind.
    """

    def __init__(self) -> None:
        self.operations: list[dict[str, Any]] = []
        self.lacking: Counter[str] = Counter()
        self._open: dict[str, list[Entry]] = {}
        self._weight = 0

    @property
    def full(self) -> bool:
        """Whether it is to be sent before anything is added."""
        return self._weight >= _MOST

    def add(self, path: str, operation: str, **given: Any) -> None:
        """Add an operation that is no point of a series."""
        self.operations.append({"path": path, operation: given})
        value = given.get("value")
        self._weight += 5 + (len(value) // _TEXT_WEIGHT if isinstance(value, str) else 0)

    def point(self, path: str, operation: str, entry: Entry) -> None:
        """Add a point of a series."""
        entries = self._open.get(path)
        if entries is None:
            entries = self._open[path] = []
            self.operations.append({"path": path, operation: {"entries": entries}})
        entries.append(entry)
        value = entry["value"]
        self._weight += 1 + (len(value) // _TEXT_WEIGHT if isinstance(value, str) else 0)

    def barrier(self) -> None:
        """Keep what follows behind what there is: a series is emptied, or a path freed."""
        self._open = {}


def entry_of(value: Any, step: float, t: int) -> Entry:
    """Return a point as the protocol has it; its time is in ns here and in ms there."""
    whole = step.is_integer() and math.fabs(step) < 1 << 53
    return {
        "value": value,
        "step": int(step) if whole else step,
        "timestampMilliseconds": t // 1_000_000,
    }
