"""Waiting for what another process or thread does."""

from __future__ import annotations

import time


def until(is_so, seconds=120):
    """Wait for what has to come, however slow the machine is; return it."""
    end = time.monotonic() + seconds
    while not (found := is_so()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)
    return found
