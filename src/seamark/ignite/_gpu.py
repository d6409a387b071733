"""Times between CUDA events, without waiting for the device while training runs."""

from __future__ import annotations

from collections import deque
from typing import Any

import torch

from seamark.profiling import Samples

__all__ = ["GpuTimes"]

_WAITING = 1024


class GpuTimes:
    """The time that a device spends on each step, by a pair of CUDA events on the current stream.

    A pair is read when the device has passed it, which it is asked once a step and never waited
    for; only who reads results waits for the last ones.
    """

    def __init__(self) -> None:
        self._samples = Samples()
        self._waiting: deque[tuple[Any, Any, int]] = deque()
        self._start: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Travel as numbers, without what belongs to the device."""
        return {"_samples": self.collected(), "_waiting": deque(), "_start": None}

    def _event(self) -> Any:
        make: Any = torch.cuda.Event  # not annotated
        event = make(enable_timing=True)
        event.record()
        return event

    def begin(self) -> None:
        """Mark the beginning of a step on the device."""
        self._start = self._event()

    def end(self, at: int) -> None:
        """Mark the end of the step.

        Args:
            at: Its position.
        """
        if self._start is None:
            return
        self._waiting.append((self._start, self._event(), at))
        self._start = None
        while self._waiting and (self._waiting[0][1].query() or len(self._waiting) > _WAITING):
            self._take()

    def _take(self) -> None:
        start, end, at = self._waiting.popleft()
        end.synchronize()
        self._samples.waiting.extend((at, round(start.elapsed_time(end) * 1e6)))

    def collected(self) -> Samples:
        """Return the times of all steps that ended, waiting for the device if need be."""
        while self._waiting:
            self._take()
        return self._samples
