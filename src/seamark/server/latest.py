"""A mapping that keeps the entries set last, so that strangers cannot fill the memory."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

__all__ = ["Latest"]

K = TypeVar("K")
V = TypeVar("V")


class Latest(OrderedDict[K, V]):
    """Entries in the order in which they were set; of more than `most`, the first ones go."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)
