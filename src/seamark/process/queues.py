"""Waiting for entries of queues."""

from __future__ import annotations

import queue
from typing import Any, Final

_LEAST_TIMEOUT_S: Final = 0.05


def wait_for_entry(entries: queue.SimpleQueue[Any], timeout_s: float) -> bool:
    """Wait until a queue has an entry, and remove it; return False after the timeout.

    `SimpleQueue.get` of Python 3.10 blocks forever if its timeout passes before it begins to wait.
    Therefore it gets no timeout of 0, and none below 50 ms.
    """
    try:
        if timeout_s <= 0:
            entries.get(block=False)
        else:
            entries.get(timeout=max(timeout_s, _LEAST_TIMEOUT_S))
    except queue.Empty:
        return False
    return True
