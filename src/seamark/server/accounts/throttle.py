"""Rate limit on failed attempts, in bounded memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from seamark.server.latest import Latest

__all__ = ["Throttle"]

_S: Final = 1_000_000_000


class Throttle:
    """Counts failures by key: after some at once, one more each few seconds.

    Args:
        burst: How many are taken at once.
        every_s: After how many seconds one is forgiven.
        keys: How many keys are remembered; the one longest without a failure is forgotten first.
        now_ns: A clock that never goes back, nanoseconds.
    """

    def __init__(self, burst: int, every_s: float, keys: int, now_ns: Callable[[], int]) -> None:
        self._burst, self._every_ns = burst, int(every_s * _S)
        self._now_ns = now_ns
        self._debts = Latest[str, int](keys)  # when all is forgiven, by key
        self._lock = threading.Lock()

    def wait_s(self, key: str) -> float:
        """Return how long a key has to wait before it may be wrong again, seconds; 0 for not."""
        with self._lock:
            debt = self._debts.get(key, 0) - self._now_ns()
        return max(0.0, (debt - (self._burst - 1) * self._every_ns) / _S)

    def failed(self, key: str) -> None:
        """Count a failure."""
        with self._lock:
            now = self._now_ns()
            most = now + self._burst * self._every_ns  # who goes on guessing waits no longer
            self._debts[key] = min(most, max(now, self._debts.get(key, 0)) + self._every_ns)

    def __len__(self) -> int:
        return len(self._debts)
