"""A clock that stands still until a test moves it."""

from __future__ import annotations


class Clock:
    """Tells ``now``, in nanoseconds since the Unix epoch."""

    now = 1_700_000_000 * 10**9

    def __call__(self):
        return self.now
