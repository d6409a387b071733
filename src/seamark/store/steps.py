"""Steps of a series that never fall, read only where they must be, and the parts of a curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from seamark.store.stretches import likely_width

if TYPE_CHECKING:
    from seamark.values.arrays import Floats, Ints

__all__ = ["LEAST_WIDTH", "Log2", "Piece", "Series", "Steps", "divide"]

LEAST_WIDTH: Final = math.ulp(0.0)
"""All floats are multiples of it: one part for each step."""
_FAR: Final = 2.0**62  # beyond every whole step, and still an int64


class Piece(Protocol):
    """A stretch of a series in the order of writing, unpacked only where it is looked at."""

    @property
    def count(self) -> int:
        """Number of points."""

    @property
    def first(self) -> float:
        """Step of the first point."""

    @property
    def last(self) -> float:
        """Step of the last point."""

    @property
    def rising(self) -> bool:
        """Whether the step never falls."""

    @property
    def stride(self) -> tuple[float, float] | None:
        """First step and difference if steps are known to be a progression of whole numbers.

        They are then below 2**53, so that every step is exact.
        """

    def steps(self) -> Floats:
        """Return all steps."""

    def values(self) -> Floats:
        """Return all values."""

    def cells(self) -> bytes | None:
        """Return the cells that were packed; None if the points are to be read instead."""


class Steps(Protocol):
    """Steps of a series that never fall."""

    def at(self, places: Ints) -> Floats:
        """Return the steps at these places."""

    def rank(self, edges: Floats) -> Ints:
        """Return for each edge how many steps are less; edges are sorted."""


class Series:
    """Pieces one after the other, whose steps never fall.

    Where the steps of a piece are a progression of whole numbers, none of them is read.

    Attributes:
        pieces: None of which is empty.
        starts: Place of the first point of each.
        ends: Place behind the last point of each.
        count: Number of points.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        strides = [piece.stride for piece in pieces]
        self._listed = np.array([stride is None for stride in strides], bool)
        self._first = np.array([stride[0] if stride else 0 for stride in strides], np.int64)
        self._difference = np.array([stride[1] if stride else 0 for stride in strides], np.int64)
        self._last = np.array([piece.last for piece in pieces])
        counts = np.array([piece.count for piece in pieces], np.int64)
        self.ends = np.cumsum(counts)
        self.starts = self.ends - counts
        self.count = int(counts.sum())
        self._read: dict[int, Floats] = {}

    def at(self, places: Ints) -> Floats:
        """Return the steps at these places."""
        piece = np.searchsorted(self.ends, places, side="right")
        inside = places - self.starts[piece]
        found = (self._first[piece] + inside * self._difference[piece]).astype(np.float64)
        for one in np.unique(piece[self._listed[piece]]).tolist():
            asked = piece == one
            found[asked] = self._steps(one)[inside[asked]]
        return found

    def values_at(self, places: Ints) -> Floats:
        """Return the values at these places, which are sorted."""
        piece = np.searchsorted(self.ends, places, side="right")
        asked, begins = np.unique(piece, return_index=True)
        shares = np.split(places, begins[1:])
        found = [
            self.pieces[one].values()[share - self.starts[one]]
            for one, share in zip(asked.tolist(), shares, strict=False)
        ]
        return np.concatenate([np.empty(0), *found])

    def rank(self, edges: Floats) -> Ints:
        """Return for each edge how many steps are less; there is at least one step."""
        piece = np.searchsorted(self._last, edges).clip(max=len(self._last) - 1)
        whole = np.ceil(edges).clip(-_FAR, _FAR).astype(np.int64)
        less = -((self._first[piece] - whole) // np.maximum(self._difference[piece], 1))
        ranks: Ints = self.starts[piece] + np.maximum(less, 0)
        for one in np.unique(piece[self._listed[piece]]).tolist():
            asked = piece == one
            ranks[asked] = self.starts[one] + np.searchsorted(self._steps(one), edges[asked])
        return np.where(edges > self._last[piece], self.ends[piece], ranks)

    def before(self, edge: float) -> int:
        """Return how many points have a smaller step."""
        return int(self.rank(np.array([edge]))[0]) if self.count else 0

    def _steps(self, piece: int) -> Floats:
        if piece not in self._read:
            self._read[piece] = self.pieces[piece].steps()
        return self._read[piece]


class Log2:
    """Logarithms of positive steps, of which only those are computed that are asked for.

    Args:
        steps: Of which the logarithms are taken.
        first: Place of the first of them.
        end: Place behind the last.
    """

    def __init__(self, steps: Steps, first: int, end: int) -> None:
        self._steps, self._first, self._end = steps, first, end

    def at(self, places: Ints) -> Floats:
        """Return the logarithms at these places."""
        found: Floats = np.log2(self._steps.at(places))
        return found

    def rank(self, edges: Floats) -> Ints:
        """Return for each edge the place of the first logarithm that is not less."""
        low, high = np.full(len(edges), self._first), np.full(len(edges), self._end)
        while len(open_ := np.flatnonzero(low < high)):
            middle = (low[open_] + high[open_]) // 2
            less = self.at(middle) < edges[open_]
            low[open_[less]], high[open_[~less]] = middle[less] + 1, middle[~less]
        return low


# ---------------------------------------------------------------------- parts of a curve


def divide(
    steps: Steps, first: int, end: int, limit: int, least: float = 0.0
) -> tuple[float, Ints]:
    """Return the width of parts, and the places where they begin; see `Curve`.

    Args:
        steps: Of the series.
        first: Place of the first point.
        end: Place behind the last point; there is at least one.
        limit: How many parts there may be.
        least: Smallest width that they may have, a power of two; 0.0 for any.
    """
    low, high = steps.at(np.array([first, end - 1])).tolist()
    width = max(least, likely_width(low, high, limit))
    while len(starts := _starts(steps, first, low, high, width)) > limit:
        width *= 2
    while least < width < math.inf:
        finer = _halved(steps, starts, width, end)
        if len(finer) > limit:
            break
        if len(finer) == len(starts) and _are_single(steps, starts, end):
            return least or LEAST_WIDTH, starts
        starts, width = finer, width / 2
    return width, starts


def _starts(steps: Steps, first: int, low: float, high: float, width: float) -> Ints:
    """Return where parts begin, given the first place, the first and the last step."""
    number, last = _numbers(np.array([low, high]), width).tolist()
    edges = np.arange(number + 1, last + 1).astype(np.float64) * width
    return _distinct(np.append(first, steps.rank(edges)))


def _halved(steps: Steps, starts: Ints, width: float, end: int) -> Ints:
    """Return where parts of half the width begin."""
    with np.errstate(over="ignore"):
        middle = (_numbers(steps.at(starts), width) + 0.5) * width
    ranks = steps.rank(middle).clip(starts[0])
    return _distinct(np.sort(np.concatenate([starts, ranks[ranks < end]])))


def _numbers(steps: Floats, width: float) -> Floats:
    """Return which part these steps belong to."""
    numbers = np.floor(steps / width)
    if math.isfinite(width):  # a small step is less than 0 even where the quotient vanishes
        numbers[steps < 0] = np.minimum(numbers[steps < 0], -1)
    return numbers


def _distinct(places: Ints) -> Ints:
    """Return sorted places without those that are there already."""
    kept: Ints = places[np.append(True, places[1:] != places[:-1])]
    return kept


def _are_single(steps: Steps, starts: Ints, end: int) -> bool:
    """Return whether the points of each part share one step."""
    ends = np.append(starts[1:], end) - 1
    return bool((steps.at(starts) == steps.at(ends)).all())
