"""Durations as they are collected while training runs, with exact statistics in bounded memory."""

from __future__ import annotations

import re
import threading
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from seamark.values._sums import SCALE
from seamark.values.statistics import Moments

if TYPE_CHECKING:
    from seamark.values.arrays import Ints

__all__ = [
    "FLUSH_AT",
    "ITERATION_MASK",
    "MISSING",
    "POSITION_SHIFT",
    "SAMPLE_LIMIT",
    "Samples",
    "Source",
    "path_part",
    "position",
    "position_parts",
]

SAMPLE_LIMIT: Final = 65_536
"""So many rows are kept as they are; of more, an evenly thinned sample."""

FLUSH_AT: Final = 4096
"""So many rows wait, at most about, until statistics take them in."""

MISSING: Final = -1
"""Stands in a column of `Samples` where a row has no duration."""

POSITION_SHIFT: Final = 36
"""Bits of the iteration in a `position`; the epoch stands above them."""

ITERATION_MASK: Final = (1 << POSITION_SHIFT) - 1
"""What of a `position` is its iteration."""

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


class _Running:
    """Exact statistics of one column in nanoseconds, taken in block by block.

    Attributes:
        moments: What the durations come to.
        min_at: Position of the shortest; of several, the first.
        max_at: Position of the longest.
        last_at: Position of the last.
    """

    __slots__ = ("last_at", "max_at", "min_at", "moments")

    def __init__(self) -> None:
        self.moments = Moments()
        self.min_at = self.max_at = self.last_at = 0

    def add(self, values: Ints, at: Ints) -> None:
        size = len(values)
        if not size:
            return
        low, high = int(values.argmin()), int(values.argmax())
        before = self.moments
        if not before.count or values[low] < before.min:
            self.min_at = int(at[low])
        if not before.count or values[high] > before.max:
            self.max_at = int(at[high])
        self.last_at = int(at[-1])
        total = int(values.sum())
        squares = float(((values - total / size) ** 2).sum())
        ends = map(float, (values[low], values[high], values[0], values[-1]))
        self.moments = before.with_(Moments(size, total << SCALE, squares, 0.0, *ends))

    @property
    def count(self) -> int:
        """How many there are."""
        return self.moments.count

    @property
    def total(self) -> int:
        """Their sum."""
        return self.moments.total >> SCALE


class Samples:
    """Rows of durations in nanoseconds, each with its position; statistics are exact.

    A row is taken with ``waiting.extend((at, duration, ...))``: a `position`, then one duration for
    each column, `MISSING` where there is none. That is all that happens while training runs, until
    somebody calls `flush`. All rows up to `SAMPLE_LIMIT` are kept; after that one of every two,
    four, and so on: not always the first, so that what comes back in a rhythm (steps that end an
    accumulation of gradients, say) is kept as often as it is there.

    Args:
        width: How many columns.

    Attributes:
        waiting: Rows that wait for `flush`, one after the other.
        nested_ns: How much of the first column's total belongs to something timed elsewhere.
    """

    __slots__ = (
        "_blocks",
        "_every",
        "_kept",
        "_lock",
        "_running",
        "_seen",
        "_width",
        "nested_ns",
        "waiting",
    )

    def __init__(self, width: int = 1) -> None:
        self.waiting: list[int] = []  # extending an array takes four times as long
        self.nested_ns = 0
        self._width = 1 + width
        self._running = tuple(_Running() for _ in range(width))
        self._blocks: list[Ints] = []
        self._kept = self._seen = 0
        self._every = 1
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        """Travel without the lock."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Be the same samples elsewhere."""
        for name, value in state.items():
            setattr(self, name, value)
        self._lock = threading.RLock()

    def flush(self) -> None:
        """Take waiting rows into the statistics; may be called from any thread."""
        if not self.waiting:
            return
        import numpy as np

        with self._lock:
            # A row is appended by one call in C, so that no thread sees half of it.
            taken = self.waiting[:]
            del self.waiting[: len(taken)]
            block = np.frombuffer(array("q", taken), dtype=np.int64).reshape(-1, self._width).T
            for column, running in zip(block[1:], self._running, strict=True):
                there = column >= 0
                if there.all():
                    running.add(column, block[0])
                else:
                    running.add(column[there], block[0][there])
            kept = block
            if self._every > 1:  # of all rows ever, one of each `_every`
                stretch, inside = np.divmod(np.arange(block.shape[1]) + self._seen, self._every)
                kept = block[:, inside == _irregular(stretch, self._every)]
            self._seen += block.shape[1]
            self._blocks.append(kept.copy())
            self._kept += kept.shape[1]
            self._halve(SAMPLE_LIMIT)

    def thin(self, limit: int) -> None:
        """Keep at most so many rows from now on; the statistics stay exact."""
        with self._lock:
            self.rows()
            self._halve(limit)

    def _halve(self, limit: int) -> None:
        import numpy as np

        while self._kept > limit:
            whole = np.concatenate(self._blocks, axis=1)
            first = np.arange(0, whole.shape[1], 2)
            chosen = np.minimum(first + _irregular(first >> 1, 2), whole.shape[1] - 1)
            self._blocks = [whole[:, chosen]]
            self._every *= 2
            self._kept = self._blocks[0].shape[1]

    def rows(self) -> Ints:
        """Return the kept rows, oldest first, shape ``(1 + columns, N)``; positions come first."""
        import numpy as np

        with self._lock:
            self.flush()
            if len(self._blocks) != 1:
                empty = np.empty((self._width, 0), dtype=np.int64)
                self._blocks = [np.concatenate([empty, *self._blocks], axis=1)]
            return self._blocks[0]

    def running(self, column: int = 0) -> _Running:
        """Return the exact statistics of one column, up to date."""
        self.flush()
        return self._running[column]


def _irregular(numbers: Ints, size: int) -> Ints:
    """Return a number below ``size``, a power of two, for each; the golden ratio spreads them."""
    import numpy as np

    spread = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (spread >> np.uint64(64 - (size.bit_length() - 1))).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Source:
    """One column of `Samples`, with what people call it.

    Attributes:
        kind: ``"processing"``, ``"dataflow"``, ``"event"``, ``"handler"`` or ``"action"``.
        name: Name of the handler, event or action.
        samples: Where its durations are.
        column: Which column of them.
        event: Name of the event that a handler belongs to, else empty.
        clock: ``"wall"``, or ``"cuda"`` for times between CUDA events.
        nested_ns: How much of the total belongs to something timed elsewhere, if not what the
            samples say.
    """

    kind: str
    name: str
    samples: Samples
    column: int = 0
    event: str = ""
    clock: str = "wall"
    nested_ns: int | None = None

    @property
    def own_ns(self) -> int:
        """Total without what is timed elsewhere, in nanoseconds."""
        nested = self.samples.nested_ns if self.nested_ns is None else self.nested_ns
        return max(0, self.samples.running(self.column).total - nested)

    @property
    def series(self) -> str:
        """Path of its series below a namespace."""
        parts = [self.event, self.name] if self.event else [self.name]
        unit = "_s" if self.clock == "wall" else f"_{self.clock}_s"
        return "/".join(path_part(part) for part in parts) + unit

    def durations(self) -> tuple[Ints, Ints]:
        """Return the kept positions and durations in nanoseconds."""
        rows = self.samples.rows()
        values = rows[1 + self.column]
        there = values >= 0
        return rows[0][there], values[there]


def path_part(name: str) -> str:
    """Return a name as one part of a path: ``/``, ``%`` and control characters percent-encoded."""
    return _NOT_IN_A_PATH.sub(_percent, name) or "%00"


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found.group().encode("utf-8", "surrogatepass"))
