"""Statistics of consecutive stretches of a series, and the cells that are kept of a chunk.

A cell is a stretch between multiples of a power of two of steps, as a part of a curve is: parts
that are no narrower consist of whole cells, and none of their points is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from seamark.values.arrays import Floats, Ints

__all__ = [
    "NOWHERE",
    "SMALL",
    "Stretches",
    "cell_starts",
    "enlarge",
    "likely_width",
    "merge_stretches",
    "pack_cells",
    "single_points",
    "unpack_cells",
]

NOWHERE: Final = 2**62
"""Place of what there is none of."""
SMALL: Final = 2.0**-64
"""So many values of any size can be added up when they are scaled by it."""
_CELLS: Final = 96
"""Number of cells that a chunk has at most."""
_MOST_EXPONENT: Final = 1023  # of a finite power of two
_NONE: Final = 2**32 - 1
_FLOATS: Final = ("min", "max", "mean")
_COUNTS: Final = ("finite", "nan_count", "inf_count", "low_count")
_PLACES: Final = ("min_at", "max_at", "plus_at", "minus_at")
_CELL: Final = np.dtype(
    [(name, "<f8") for name in _FLOATS] + [(name, "<u4") for name in (*_COUNTS, *_PLACES)]
)


class Stretches(NamedTuple):
    """Statistics of consecutive stretches of a series; all columns (K,).

    A mean is kept and not a sum, because the sum of finite values need not be finite.

    Attributes:
        start: Place of the first point, counted from 0.
        finite: Number of finite values.
        nan_count: Number of NaNs.
        inf_count: Number of infinite values.
        low_count: Number of finite values that are zero or less.
        plus_at: Place of the first +inf; `NOWHERE` if there is none.
        minus_at: Place of the first -inf, likewise.
        min: Of the finite values; NaN if there are none.
        min_at: Place of the first point that has it; any place if there is none.
        max: Of the finite values, likewise.
        max_at: Place of the first point that has it, likewise.
        mean: Of the finite values, between ``min`` and ``max``; NaN if there are none.
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
        """Return some of them."""
        return Stretches(*(column[some] for column in self))


def single_points(values: Floats, places: Ints) -> Stretches:
    """Return points at these places as stretches of their own."""
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
    """Return stretches as fewer: one from each of these up to the next of them."""
    least = _extremes(np.minimum, _filled(cells.min, np.inf), firsts)
    most = _extremes(np.maximum, _filled(cells.max, -np.inf), firsts)
    counts = {name: np.add.reduceat(getattr(cells, name), firsts) for name in _COUNTS}
    mean = _means(cells, firsts, counts["finite"])
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


def _filled(values: Floats, fill: float) -> Floats:
    """Return the values with something else for NaN."""
    missing = np.isnan(values)
    return np.where(missing, fill, values) if missing.any() else values


def _extremes(extreme: np.ufunc, values: Floats, firsts: Ints) -> Ints:
    """Return where in the values the extreme of each stretch is first."""
    sizes = np.diff(firsts, append=len(values))
    hits = np.flatnonzero(values == np.repeat(extreme.reduceat(values, firsts), sizes))
    return hits[np.searchsorted(hits, firsts)]


def _means(cells: Stretches, firsts: Ints, finite: Ints) -> Floats:
    """Return the means of merged stretches, given how many finite values each has."""
    means = _filled(cells.mean, 0.0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = np.add.reduceat(means * cells.finite, firsts) / finite
        lost = (finite > 0) & ~np.isfinite(found)  # the sum is too large, the mean cannot be
        if lost.any():
            small = np.add.reduceat(means * SMALL * cells.finite, firsts) / finite
            found[lost] = enlarge(small[lost])
    return found


def enlarge(means: Floats) -> Floats:
    """Return means of what was scaled by `SMALL`; rounding makes none greater than a float."""
    most = np.finfo(np.float64).max * SMALL
    enlarged: Floats = np.clip(means, -most, most) / SMALL
    return enlarged


# ---------------------------------------------------------------------- cells of a chunk


def likely_width(first: float, last: float, limit: int) -> float:
    """Return a power of two that gives about as many parts as there may be, if there are no gaps.

    At such a width, no part has a number of 2**53 or more.
    """
    half_span = last / 2 - first / 2  # the span itself may be infinite
    _, exponent = math.frexp(half_span / max(limit - 1, 1))
    likely = math.ldexp(1.0, min(exponent + 1, _MOST_EXPONENT))
    return max(likely, math.ulp(max(abs(first), abs(last))))


def cell_starts(steps: Floats) -> Ints:
    """Return where the cells of a chunk begin, whose steps never fall; at least one step."""
    numbers = np.floor(steps / likely_width(float(steps[0]), float(steps[-1]), _CELLS))
    starts: Ints = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
    return starts


def pack_cells(values: Floats, starts: Ints) -> bytes:
    """Pack the statistics of values (N,) in the cells that begin at these places."""
    found = merge_stretches(single_points(values, np.arange(len(values))), starts)
    cells = np.empty(len(starts), _CELL)
    for name in (*_FLOATS, *_COUNTS):
        cells[name] = getattr(found, name)
    for name in _PLACES:
        cells[name] = np.minimum(getattr(found, name) - starts, _NONE)
    return cells.tobytes()


def unpack_cells(packed: Sequence[bytes], start: int) -> Stretches:
    """Return the cells of consecutive chunks as stretches; the first begins at this place."""
    cells = np.frombuffer(b"".join(packed), _CELL)
    columns: dict[str, Any] = {name: cells[name].astype(np.int64) for name in (*_COUNTS, *_PLACES)}
    ends = start + np.cumsum(columns["finite"] + columns["nan_count"] + columns["inf_count"])
    starts = np.append(start, ends[:-1])
    for name in _PLACES:
        columns[name] = np.where(columns[name] == _NONE, NOWHERE, columns[name] + starts)
    return Stretches(starts, **columns, **{name: cells[name].copy() for name in _FLOATS})
