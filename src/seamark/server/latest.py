"""The entries of a mapping that were set last, so that what strangers send takes no more memory."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

__all__ = ["Latest"]

K = TypeVar("K")
V = TypeVar("V")


class Latest(OrderedDict[K, V]):
    """Entries in the order in which they were set; the first ones make room for new ones.

    Args:
        most: How many there are at most.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        """Set the newest entry."""
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)
