"""Removal of points from a batch that the server has already.

It has them if its answer to the batch was lost, or if it accepted only a part of the batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from seamark.neptune.forward.client import Seen

__all__ = ["without_known"]

_OTHERS: Final = 200
"""Points of other processes that may have come behind ours."""
Tail = Callable[[str, str, int], list[tuple[float, int, Any]]]


def without_known(
    operations: list[dict[str, Any]], seen: Mapping[str, Seen], tail: Tail
) -> list[dict[str, Any]]:
    """Return operations without the points that are there already.

    Args:
        operations: That are to be sent.
        seen: What is there, by path.
        tail: Returns step, time and value of the last points there; given path, kind and how many.
    """
    found: list[dict[str, Any]] = []
    emptied: set[str] = set()
    for each in operations:
        path = each["path"]
        verb = next((one for one in ("logFloats", "logStrings") if one in each), None)
        if any(one.startswith(("clear", "delete")) for one in each):
            emptied.add(path)  # and all that follows comes again
        there = None if path in emptied else seen.get(path)
        if verb is None or there is None or there.last_step is None:
            found.append(each)
            continue
        entries = each[verb]["entries"]
        if there.last_step >= min(one["step"] for one in entries):
            points = Counter(tail(path, there.kind, len(entries) + _OTHERS))
            entries = [one for one in entries if not _take(points, one)]
        if entries:
            found.append({"path": path, verb: {"entries": entries}})
    return found


def _take(there: Counter[Any], entry: Mapping[str, Any]) -> bool:
    """Take one point from those that are there; return whether it was among them."""
    point = (entry["step"], entry["timestampMilliseconds"], entry["value"])
    if not there[point]:
        return False
    there[point] -= 1
    return True
