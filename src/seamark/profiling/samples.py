"""Durations as they are collected while training runs, with exact statistics in bounded memory."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from seamark.values._sums import SCALE
from seamark.values.statistics import Moments

if TYPE_CHECKING:
    from seamark.values.arrays import Ints

__all__ = [
    "FLUSH_AT",
    "ITERATION_MASK",
    "POSITION_SHIFT",
    "SAMPLE_LIMIT",
    "Samples",
    "Source",
    "path_part",
    "position",
    "position_parts",
]

SAMPLE_LIMIT: Final = 65_536
"""So many durations are kept as they are; of more, an evenly thinned sample."""

FLUSH_AT: Final = 4096
"""So many durations wait, at most about, until statistics take them in."""

POSITION_SHIFT: Final = 36
"""Bits of the iteration in a `position`; the epoch stands above them."""

ITERATION_MASK: Final = (1 << POSITION_SHIFT) - 1
"""Bits of a `position` that are its iteration."""

_LOCK: Final = threading.RLock()
"""Held while durations are taken in; of the module, so that samples can be copied and pickled."""

_NOT_IN_A_PATH: Final = re.compile(r"[/%\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def position(epoch: int, iteration: int) -> int:
    """Return epoch and iteration as one integer, which sorts as they do.

    Args:
        epoch: 0 or more.
        iteration: 0 or more, below 2**36.
    """
    return (epoch << POSITION_SHIFT) + iteration


def position_parts(at: int) -> tuple[int, int]:
    """Return the epoch and the iteration of a `position`."""
    return at >> POSITION_SHIFT, at & ITERATION_MASK


class Samples:
    """Durations in nanoseconds, each with its position; statistics are exact.

    A duration is taken with ``waiting.extend((at, duration))``. That is all that happens while
    training runs, until somebody calls `flush`. All durations up to `SAMPLE_LIMIT` are kept; after
    that one of every two, four, and so on: not always the first, so that what comes back in a
    rhythm (steps that end an accumulation of gradients, say) is kept as often as it is there.

    Attributes:
        waiting: Positions and durations that wait for `flush`, one after the other.
        nested_ns: How much of the total belongs to something timed elsewhere.
        in_epochs_ns: How much of the rest belongs to epochs.
        moments: Statistics of all durations, without those that wait.
        min_at: Position of the shortest; of several, the first.
        max_at: Position of the longest.
        last_at: Position of the last.
    """

    def __init__(self) -> None:
        self.waiting: list[int] = []  # extending an array takes four times as long
        self.nested_ns = self.in_epochs_ns = 0
        self.moments = Moments()
        self.min_at = self.max_at = self.last_at = 0
        self._blocks: list[Ints] = []
        self._kept = self._seen = 0
        self._every = 1

    @property
    def count(self) -> int:
        """The number of durations, without those that wait."""
        return self.moments.count

    @property
    def total(self) -> int:
        """Their sum."""
        return self.moments.total >> SCALE

    def flush(self) -> None:
        """Take waiting durations into the statistics; may be called from any thread."""
        if not self.waiting:
            return
        import numpy as np

        with _LOCK:
            # A pair is appended by one call in C, so that no thread sees half of it.
            taken = self.waiting[:]
            del self.waiting[: len(taken)]
            self.add(*np.array(taken, dtype=np.int64).reshape(-1, 2).T)

    def add(self, at: Ints, durations: Ints) -> None:
        """Take durations into the statistics.

        Args:
            at: Their positions, shape ``(N,)``.
            durations: In nanoseconds, shape ``(N,)``.
        """
        import numpy as np

        if not (size := len(durations)):
            return
        with _LOCK:
            low, high = int(durations.argmin()), int(durations.argmax())
            if not self.count or durations[low] < self.moments.min:
                self.min_at = int(at[low])
            if not self.count or durations[high] > self.moments.max:
                self.max_at = int(at[high])
            self.last_at = int(at[-1])
            total = int(durations.sum())
            apart = durations - total / size
            ends = map(float, (durations[low], durations[high], durations[0], durations[-1]))
            self.moments = self.moments.with_(
                Moments(size, total << SCALE, float(apart @ apart), 0.0, *ends)
            )
            block = np.stack([at, durations])
            if self._every > 1:  # of all ever, one of each `_every`
                number = np.arange(self._seen, self._seen + size)
                stretch, inside = number // self._every, number & (self._every - 1)
                block = block[:, inside == _irregular(stretch, self._every)]
            self._seen += size
            self._blocks.append(block)
            self._kept += block.shape[1]
            self._halve(SAMPLE_LIMIT)

    def thin(self, limit: int) -> None:
        """Keep at most so many durations from now on; the statistics stay exact."""
        with _LOCK:
            self.flush()
            self._halve(limit)

    def _halve(self, limit: int) -> None:
        import numpy as np

        while self._kept > limit:
            whole = np.concatenate(self._blocks, axis=1)
            first = np.arange(0, whole.shape[1], 2)
            chosen = first + _irregular(first >> 1, 2)
            chosen = chosen[chosen < whole.shape[1]]  # the other of the last two is to come
            self._blocks = [whole[:, chosen]]
            self._every *= 2
            self._kept = len(chosen)

    def rows(self) -> Ints:
        """Return positions and kept durations, oldest first, shape ``(2, N)``."""
        import numpy as np

        with _LOCK:
            self.flush()
            if len(self._blocks) != 1:
                empty = np.empty((2, 0), dtype=np.int64)
                self._blocks = [np.concatenate([empty, *self._blocks], axis=1)]
            return self._blocks[0]

    def running(self) -> Samples:
        """Return these samples, with all durations in the statistics."""
        self.flush()
        return self


def _irregular(numbers: Ints, size: int) -> Ints:
    """Return a number below ``size``, a power of two, for each; the golden ratio spreads them."""
    import numpy as np

    spread = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (spread >> np.uint64(64 - (size.bit_length() - 1))).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Source:
    """Samples, with the name and kind of the thing that they are of.

    Attributes:
        kind: ``"processing"``, ``"dataflow"``, ``"event"``, ``"handler"`` or ``"action"``.
        name: Name of the handler, event or action.
        samples: Where its durations are.
        event: Name of the event that a handler belongs to, else empty.
        clock: ``"wall"``, or ``"cuda"`` for times between CUDA events.
    """

    kind: str
    name: str
    samples: Samples
    event: str = ""
    clock: str = "wall"

    @property
    def own_ns(self) -> int:
        """Total without what is timed elsewhere, in nanoseconds."""
        return max(0, self.samples.running().total - self.samples.nested_ns)

    @property
    def series(self) -> str:
        """Path of its series below a namespace."""
        parts = [self.event, self.name] if self.event else [self.name]
        unit = "_s" if self.clock == "wall" else f"_{self.clock}_s"
        return "/".join(path_part(part) for part in parts) + unit


def path_part(name: str) -> str:
    """Return a name as one part of a path: ``/``, ``%`` and control characters percent-encoded."""
    return _NOT_IN_A_PATH.sub(_percent, name) or "%00"


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found.group().encode("utf-8", "surrogatepass"))
