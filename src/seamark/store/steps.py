"""Steps of a series, and statistics of its consecutive ranges.

A cell is the range of steps between two multiples of a power of two, and so is a part of a curve. A
part that is at least as wide as a cell consists of whole cells, whose points need not be read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from seamark.values.arrays import Floats, Ints


NOWHERE: Final = 2**62
"""Position of a missing item."""
SUM_SCALE: Final = 2.0**-64
"""Scale factor with which 2**64 values of any size can be summed without overflow."""
_SUM_LIMIT: Final = 2.0**900
"""Limit of values that are summed without a scale factor."""
_MAX_CELLS: Final = 96
"""Maximum number of cells of a chunk."""
_MAX_EXPONENT: Final = 1023  # the largest one of a finite power of two
_NO_PLACE: Final = 2**32 - 1
_FLOATS: Final = ("min", "max", "mean")
_COUNTS: Final = ("finite", "nan_count", "inf_count", "low_count")
_PLACES: Final = ("min_at", "max_at", "plus_at", "minus_at")
_CELL_DTYPE: Final = np.dtype(
    [(name, "<f8") for name in _FLOATS] + [(name, "<u4") for name in (*_COUNTS, *_PLACES)]
)


class Stretches(NamedTuple):
    """Statistics of consecutive stretches of a series; all columns have the shape (K,).

    The mean is stored instead of the sum, which may overflow; it lies between ``min`` and ``max``.
    These three are computed from the finite values and are NaN without any. Places are 0-based: of
    the first point with the minimum or maximum (any place if there is none), of the first +inf and
    -inf (`NOWHERE` if there is none). ``low_count`` counts finite values <= 0.
    """

    start: Ints
    finite: Ints
    nan_count: Ints
    inf_count: Ints
    low_count: Ints
    plus_at: Ints
    minus_at: Ints
    min: Floats
    min_at: Ints
    max: Floats
    max_at: Ints
    mean: Floats

    @property
    def points(self) -> Ints:
        """Number of points of each stretch."""
        return self.finite + self.nan_count + self.inf_count

    def part(self, some: Any) -> Stretches:
        """Return the selected stretches."""
        return Stretches(*(column[some] for column in self))


def single_points(values: Floats, places: Ints) -> Stretches:
    """Return stretches of one point each, at the given places."""
    finite = np.isfinite(values)
    nan_count, inf_count = np.zeros((2, len(values)), np.int64)
    plus_at = minus_at = np.full(len(values), NOWHERE)
    if not finite.all():
        nan_count[:], inf_count[:] = np.isnan(values), np.isinf(values)
        plus_at, minus_at = (
            np.where(values == sign, places, NOWHERE) for sign in (np.inf, -np.inf)
        )
        values = np.where(finite, values, np.nan)
    low_count = (values <= 0).astype(np.int64)
    counts = (finite.astype(np.int64), nan_count, inf_count, low_count)
    return Stretches(places, *counts, plus_at, minus_at, values, places, values, places, values)


def merge_stretches(cells: Stretches, firsts: Ints) -> Stretches:
    """Merge stretches: each result ranges from one index of ``firsts`` up to the next."""
    least = _find_extremes(np.minimum, _fill_nan(cells.min, np.inf), firsts)
    most = _find_extremes(np.maximum, _fill_nan(cells.max, -np.inf), firsts)
    counts = {name: np.add.reduceat(getattr(cells, name), firsts) for name in _COUNTS}
    mean = _merge_means(cells, firsts, counts["finite"])
    return Stretches(
        start=cells.start[firsts],
        **counts,
        plus_at=np.minimum.reduceat(cells.plus_at, firsts),
        minus_at=np.minimum.reduceat(cells.minus_at, firsts),
        min=cells.min[least],
        min_at=cells.min_at[least],
        max=cells.max[most],
        max_at=cells.max_at[most],
        mean=np.clip(mean, cells.min[least], cells.max[most]),
    )


def _fill_nan(values: Floats, fill: float) -> Floats:
    missing = np.isnan(values)
    return np.where(missing, fill, values) if missing.any() else values


def _find_extremes(extreme: np.ufunc, values: Floats, firsts: Ints) -> Ints:
    sizes = np.diff(firsts, append=len(values))
    hits = np.flatnonzero(values == np.repeat(extreme.reduceat(values, firsts), sizes))
    return hits[np.searchsorted(hits, firsts)]


def _merge_means(cells: Stretches, firsts: Ints, finite: Ints) -> Floats:
    means = _fill_nan(cells.mean, 0.0)
    scale = sum_scale(means)
    with np.errstate(invalid="ignore", divide="ignore"):
        return unscale(np.add.reduceat(means * scale * cells.finite, firsts) / finite, scale)


def sum_scale(values: Floats) -> float:
    """Return a power of two such that sums of the scaled values cannot overflow."""
    return SUM_SCALE if np.abs(values).max(initial=0.0) > _SUM_LIMIT else 1.0


def unscale(means: Floats, scale: float) -> Floats:
    """Return means of scaled values, clipped to the largest float."""
    most = np.finfo(np.float64).max * scale
    enlarged: Floats = np.clip(means, -most, most) / scale
    return enlarged


# ---------------------------------------------------------------------- cells of a chunk


def likely_width(first: float, last: float, limit: int) -> float:
    """Return a power of two as width that gives about ``limit`` parts if there are no gaps.

    At this width, the index of each part is below 2**53.
    """
    half_span = last / 2 - first / 2  # the whole span may overflow
    _, exponent = math.frexp(half_span / max(limit - 1, 1))
    likely = math.ldexp(1.0, min(exponent + 1, _MAX_EXPONENT))
    return max(likely, math.ulp(max(abs(first), abs(last))))


def cell_starts(steps: Floats) -> Ints:
    """Return the first places of the cells of a chunk with one or more steps, which never fall."""
    numbers = np.floor(steps / likely_width(float(steps[0]), float(steps[-1]), _MAX_CELLS))
    starts: Ints = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
    return starts


def pack_cells(values: Floats, starts: Ints) -> bytes:
    """Pack the statistics of the cells that begin at ``starts``, for values of shape (N,)."""
    found = merge_stretches(single_points(values, np.arange(len(values))), starts)
    cells = np.empty(len(starts), _CELL_DTYPE)
    for name in (*_FLOATS, *_COUNTS):
        cells[name] = getattr(found, name)
    for name in _PLACES:
        cells[name] = np.minimum(getattr(found, name) - starts, _NO_PLACE)
    return cells.tobytes()


def unpack_cells(packed: Sequence[bytes], start: int) -> Stretches:
    """Return the cells of consecutive chunks as stretches; the first one begins at ``start``."""
    cells = np.frombuffer(b"".join(packed), _CELL_DTYPE)
    columns: dict[str, Any] = {name: cells[name].astype(np.int64) for name in (*_COUNTS, *_PLACES)}
    ends = start + np.cumsum(columns["finite"] + columns["nan_count"] + columns["inf_count"])
    starts = np.append(start, ends[:-1])
    for name in _PLACES:
        columns[name] = np.where(columns[name] == _NO_PLACE, NOWHERE, columns[name] + starts)
    return Stretches(starts, **columns, **{name: cells[name].copy() for name in _FLOATS})


MIN_WIDTH: Final = math.ulp(0.0)
"""Smallest width, a divisor of all floats: one part per step."""
_MAX_EDGE: Final = 2.0**62  # larger than every exact integer step, and still an int64


class Piece:
    """Stretch of a series in the order of writing; here with points in memory.

    ``first`` and ``last`` are the steps of the first and the last point; ``rising`` is whether the
    step never falls. If the steps are an arithmetic progression of integers, ``stride`` may hold
    the first step and the difference; all steps are then below 2**53 and therefore exact.
    """

    stride: tuple[float, float] | None = None

    def __init__(self, step: Floats, value: Floats) -> None:
        self._step, self._value = step, value
        self.count = len(step)
        self.first, self.last = float(step[0]), float(step[-1])
        self.rising = bool((step[1:] >= step[:-1]).all())

    def steps(self) -> Floats:
        """Return all steps."""
        return self._step

    def values(self) -> Floats:
        """Return all values."""
        return self._value

    def cells(self) -> bytes | None:
        """Return the packed cells; None if the points have to be read instead."""
        return None


def is_falling(pieces: Sequence[Piece]) -> bool:
    """Return whether the step falls within or between consecutive pieces."""
    return not all(piece.rising for piece in pieces) or any(
        before.last > after.first for before, after in pairwise(pieces)
    )


class Series:
    """Consecutive non-empty pieces of a series; steps never fall.

    Arithmetic progressions of integers are computed, not read. ``starts`` and ``ends`` (exclusive)
    limit the places of the points of each piece.
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
        """Return the steps at the given places."""
        piece = np.searchsorted(self.ends, places, side="right")
        inside = places - self.starts[piece]
        found = (self._first[piece] + inside * self._difference[piece]).astype(np.float64)
        for one in np.unique(piece[self._listed[piece]]).tolist():
            picked = piece == one
            found[picked] = self._steps(one)[inside[picked]]
        return found

    def values_at(self, places: Ints) -> Floats:
        """Return the values at sorted places."""
        piece = np.searchsorted(self.ends, places, side="right")
        picked, begins = np.unique(piece, return_index=True)
        shares = np.split(places, begins[1:])
        found = [
            self.pieces[one].values()[share - self.starts[one]]
            for one, share in zip(picked.tolist(), shares, strict=False)
        ]
        return np.concatenate([np.empty(0), *found])

    def rank(self, edges: Floats) -> Ints:
        """Return the number of steps smaller than each edge; edges are sorted."""
        piece = np.searchsorted(self._last, edges).clip(max=len(self._last) - 1)
        whole = np.ceil(edges).clip(-_MAX_EDGE, _MAX_EDGE).astype(np.int64)
        less = -((self._first[piece] - whole) // np.maximum(self._difference[piece], 1))
        ranks: Ints = self.starts[piece] + np.maximum(less, 0)
        for one in np.unique(piece[self._listed[piece]]).tolist():
            picked = piece == one
            ranks[picked] = self.starts[one] + np.searchsorted(self._steps(one), edges[picked])
        return np.where(edges > self._last[piece], self.ends[piece], ranks)

    def before(self, edge: float) -> int:
        """Return the number of points whose step is smaller than an edge."""
        return int(self.rank(np.array([edge]))[0]) if self.count else 0

    def _steps(self, piece: int) -> Floats:
        if piece not in self._read:
            self._read[piece] = self.pieces[piece].steps()
        return self._read[piece]


class Log2:
    """Logarithms of the positive steps between two places, computed on demand."""

    def __init__(self, steps: Series, first: int, end: int) -> None:
        self._steps, self._first, self._end = steps, first, end

    def at(self, places: Ints) -> Floats:
        """Return the logarithms at these places."""
        found: Floats = np.log2(self._steps.at(places))
        return found

    def rank(self, edges: Floats) -> Ints:
        """Return, for each edge, the place of the first logarithm that is at least the edge."""
        low, high = np.full(len(edges), self._first), np.full(len(edges), self._end)
        while len(open_ := np.flatnonzero(low < high)):
            middle = (low[open_] + high[open_]) // 2
            less = self.at(middle) < edges[open_]
            low[open_[less]], high[open_[~less]] = middle[less] + 1, middle[~less]
        return low


# ---------------------------------------------------------------------- parts of a curve


def divide(steps: Series | Log2, first: int, end: int, limit: int) -> tuple[float, Ints]:
    """Return the width and the first places of at most ``limit`` parts; see `Curve`."""
    low, high = steps.at(np.array([first, end - 1])).tolist()
    width = likely_width(low, high, limit)
    while len(starts := _part_starts(steps, first, low, high, width)) > limit:
        width *= 2
    while 0.0 < width < math.inf:
        finer = _halve_parts(steps, starts, width, end)
        if len(finer) > limit:
            break
        ends = np.append(starts[1:], end) - 1
        if len(finer) == len(starts) and (steps.at(starts) == steps.at(ends)).all():
            return MIN_WIDTH, starts
        starts, width = finer, width / 2
    return width, starts


def _part_starts(steps: Series | Log2, first: int, low: float, high: float, width: float) -> Ints:
    number, last = _part_numbers(np.array([low, high]), width).tolist()
    edges = np.arange(number + 1, last + 1).astype(np.float64) * width
    return _drop_repeated(np.append(first, steps.rank(edges)))


def _halve_parts(steps: Series | Log2, starts: Ints, width: float, end: int) -> Ints:
    with np.errstate(over="ignore"):
        middle = (_part_numbers(steps.at(starts), width) + 0.5) * width
    ranks = steps.rank(middle).clip(starts[0])
    return _drop_repeated(np.sort(np.concatenate([starts, ranks[ranks < end]])))


def _part_numbers(steps: Floats, width: float) -> Floats:
    numbers = np.floor(steps / width)
    if math.isfinite(width):  # a small negative step stays negative if the quotient underflows
        numbers[steps < 0] = np.minimum(numbers[steps < 0], -1)
    return numbers


def _drop_repeated(places: Ints) -> Ints:
    kept: Ints = places[np.append(True, places[1:] != places[:-1])]
    return kept
