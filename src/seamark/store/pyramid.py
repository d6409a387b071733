"""Curves of long series: drawn from what is known of every 64 points, not from the points.

A pyramid is made with the chunk that it belongs to and stored beside it. A part of a curve is put
together from the cells that lie inside it; only cells that a border between two parts cuts are
looked at point by point. Nothing is estimated: the curve is the one that all points would give.

There are two levels. For a million points the fine one is 15,625 cells, less than what is drawn
costs anyway. Where the parts of a picture hold many thousands of points each, the coarse one is
used, which knows every 1,024 points: for a hundred million points it is a few megabytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from seamark.reading.curves import Curve, Drawing, check_points
from seamark.store.chunks import pack_records, unpack_records
from seamark.store.windows import means_of_ranges

__all__ = [
    "Listed",
    "Piece",
    "Pyramid",
    "draw_series",
    "pack_coarse",
    "pack_pyramid",
    "reduce_series",
    "unpack_coarse",
    "unpack_pyramid",
]

if TYPE_CHECKING:
    from seamark.values.arrays import Floats, Ints

_CELL: Final = 64
_COARSE: Final = 1024
_LONG_PART: Final = 8 * _COARSE
"""Parts of so many points are put together from coarse cells: no border opens more than one."""
_FAR: Final = 2.0**62  # beyond every whole step, and still an int64
_SMALL: Final = 2.0**-64  # so many values of any size can be added up when they are scaled by it
_LEAST_WIDTH: Final = math.ulp(0.0)  # all floats are multiples of it: one part for each step
_MOST_EXPONENT: Final = 1023  # of a finite power of two
_HEAD: Final = struct.Struct("<IB3x")
"""Points, bytes a value."""


class Pyramid(NamedTuple):
    """Summary of the consecutive points of a stretch, cell by cell; the last cell may be short.

    Attributes:
        points: Number of points.
        size: Number of points of a cell.
        cells: Records (K,). ``min``, ``max`` and ``mean`` are of the finite values, NaN if there
            are none; ``min_at`` and ``max_at`` say where in the cell the extremes are first,
            counted from 0; ``nan_count`` and ``inf_count`` say how many values are not finite,
            ``minus_count`` how many of these are -inf, and ``low_count`` how many finite ones are
            zero or less. A mean is kept and not a sum, because the sum of finite values need not
            be finite.
    """

    points: int
    size: int
    cells: np.ndarray[Any, Any]


_PLACES: Final = ("min_at", "max_at")
_COUNTS: Final = ("nan_count", "inf_count", "minus_count", "low_count")


def _cell_type(width: int, count: str) -> np.dtype[Any]:
    """Return the type of cells whose extremes are floats of this many bytes."""
    extreme = f"<f{width}"
    return np.dtype(
        [("min", extreme), ("max", extreme), ("mean", "<f8")]
        + [(name, count) for name in (*_PLACES, *_COUNTS)]
    )


_CELL_TYPES: Final = {width: _cell_type(width, "u1") for width in (4, 8)}
_COARSE_TYPE: Final = _cell_type(8, "<u2")


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

    def will_read(self) -> None:
        """Hear that `values_at` comes next, in turn: one question may bring what many need."""

    def values_at(self, places: Ints) -> Floats:
        """Return the values at these places, which are sorted and counted from 0."""

    def pyramid(self, *, coarse: bool = False) -> Pyramid | None:
        """Return what is known of the cells; None if the points are to be read instead."""


class Listed:
    """Points that were read, as a `Piece`."""

    stride = None

    def __init__(self, step: Floats, value: Floats) -> None:
        self._step, self._value = step, value
        self.count = len(step)
        self.first, self.last = float(step[0]), float(step[-1])
        self.rising = bool((step[1:] >= step[:-1]).all())

    def steps(self) -> Floats:
        """Return the steps."""
        return self._step

    def values(self) -> Floats:
        """Return the values."""
        return self._value

    def will_read(self) -> None:
        """Do nothing: the points are here."""

    def values_at(self, places: Ints) -> Floats:
        """Return some of the values."""
        return self._value[places]

    def pyramid(self, *, coarse: bool = False) -> Pyramid | None:
        """Return None: the points are here."""
        return None


# ---------------------------------------------------------------------- packed


def pack_pyramid(values: Floats) -> bytes:
    """Pack what is known of each 64 consecutive values of (N,)."""
    points, _, cells = _pyramid(values)
    return _HEAD.pack(points, cells["min"].itemsize) + pack_records(cells)


def unpack_pyramid(data: bytes) -> Pyramid:
    """Return what `pack_pyramid` found."""
    points, width = _HEAD.unpack_from(data)
    cells = unpack_records(data[_HEAD.size :], -(-points // _CELL), _CELL_TYPES[width])
    return Pyramid(points, _CELL, cells)


def pack_coarse(values: Floats) -> bytes:
    """Return what is known of each 1,024 consecutive values of (N,); so few need no packing."""
    return _cells_of(values, _COARSE, _COARSE_TYPE).tobytes()


def unpack_coarse(data: bytes, points: int) -> Pyramid:
    """Return what `pack_coarse` found of so many points."""
    return Pyramid(points, _COARSE, np.frombuffer(data, _COARSE_TYPE))


def _pyramid(values: Floats) -> Pyramid:
    return Pyramid(len(values), _CELL, _cells_of(values, _CELL))


def _cells_of(values: Floats, size: int, kind: np.dtype[Any] | None = None) -> np.ndarray[Any, Any]:
    starts = np.arange(0, len(values), size)
    found = _merged(_single(values), starts)
    if kind is None:
        kind = _CELL_TYPES[4 if _fits(found.min, found.max) else 8]
    cells = np.empty(len(starts), kind)
    for name in ("min", "max", "mean", *_COUNTS):
        cells[name] = getattr(found, name)
    cells["min_at"], cells["max_at"] = found.min_at - starts, found.max_at - starts
    return cells


def _fits(*columns: Floats) -> bool:
    """Return whether float32 holds these numbers exactly."""
    with np.errstate(over="ignore"):
        return all(
            np.array_equal(column.astype(np.float32), column, equal_nan=True) for column in columns
        )


# ---------------------------------------------------------------------- stretches


class _Stretches(NamedTuple):
    """Statistics of consecutive stretches of a series; all columns (K,).

    Attributes:
        start: Place of the first point, counted from 0.
        finite: Number of finite values.
        nan_count: Number of NaNs.
        inf_count: Number of infinite values.
        minus_count: Number of those that are -inf.
        low_count: Number of finite values that are zero or less.
        min: Of the finite values; NaN if there are none.
        min_at: Place of the first point that has it; any place if there is none.
        max: Likewise.
        max_at: Likewise.
        mean: Of the finite values, between ``min`` and ``max``; NaN if there are none.
    """

    start: Ints
    finite: Ints
    nan_count: Ints
    inf_count: Ints
    minus_count: Ints
    low_count: Ints
    min: Floats
    min_at: Ints
    max: Floats
    max_at: Ints
    mean: Floats

    @property
    def points(self) -> Ints:
        """Number of points of each stretch."""
        return self.finite + self.nan_count + self.inf_count

    def part(self, some: slice) -> _Stretches:
        """Return some of them."""
        columns: list[Any] = [column[some] for column in self]
        return _Stretches(*columns)


def _single(values: Floats, places: Ints | None = None) -> _Stretches:
    """Return every point as a stretch of its own; they begin at place 0 if nothing is said."""
    start = np.arange(len(values)) if places is None else places
    finite = np.isfinite(values)
    nan_count, inf_count, minus_count = np.zeros((3, len(values)), np.int64)
    if not finite.all():
        nan_count[:], inf_count[:] = np.isnan(values), np.isinf(values)
        minus_count[:] = values == -np.inf
        values = np.where(finite, values, np.nan)
    low_count = (values <= 0).astype(np.int64)
    counts = (finite.astype(np.int64), nan_count, inf_count, minus_count, low_count)
    return _Stretches(start, *counts, values, start, values, start, values)


def _merged(cells: _Stretches, firsts: Ints) -> _Stretches:
    """Return stretches as fewer: one from each of these up to the next of them."""
    least = _places(np.minimum, _filled(cells.min, np.inf), firsts)
    most = _places(np.maximum, _filled(cells.max, -np.inf), firsts)
    finite = np.add.reduceat(cells.finite, firsts)
    mean = _means(cells, firsts, finite)
    return _Stretches(
        start=cells.start[firsts],
        finite=finite,
        nan_count=np.add.reduceat(cells.nan_count, firsts),
        inf_count=np.add.reduceat(cells.inf_count, firsts),
        minus_count=np.add.reduceat(cells.minus_count, firsts),
        low_count=np.add.reduceat(cells.low_count, firsts),
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


def _places(extreme: np.ufunc, values: Floats, firsts: Ints) -> Ints:
    """Return where in the values the extreme of each stretch is first."""
    sizes = np.diff(firsts, append=len(values))
    hits = np.flatnonzero(values == np.repeat(extreme.reduceat(values, firsts), sizes))
    return hits[np.searchsorted(hits, firsts)]


def _means(cells: _Stretches, firsts: Ints, finite: Ints) -> Floats:
    """Return the means of merged stretches, given how many finite values each has."""
    means = _filled(cells.mean, 0.0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = np.add.reduceat(means * cells.finite, firsts) / finite
        lost = (finite > 0) & ~np.isfinite(found)  # the sum is too large, the mean cannot be
        if lost.any():
            small = np.add.reduceat(means * _SMALL * cells.finite, firsts) / finite
            found[lost] = _enlarged(small[lost])
    return found


def _enlarged(means: Floats) -> Floats:
    """Return means of what was scaled by `_SMALL`; rounding makes none greater than a float."""
    most = np.finfo(np.float64).max * _SMALL
    enlarged: Floats = np.clip(means, -most, most) / _SMALL
    return enlarged


# ---------------------------------------------------------------------- series


def reduce_series(pieces: Sequence[Piece], points: int) -> Curve:
    """Return a series as a curve with at most ``points`` representative points.

    Args:
        pieces: Consecutive stretches of the series, in the order of writing. Where steps fall, all
            points are read and sorted by step; points of one step keep their order.
        points: At least 2; a series with no more points is returned point by point.

    Raises:
        ArgumentError: If ``points`` is not a whole number, or less than 2.
    """
    return draw_series(pieces, points).curve


def draw_series(
    pieces: Sequence[Piece],
    points: int,
    *,
    low: float | None = None,
    high: float | None = None,
    window: float | None = None,
    half_life: float | None = None,
    log_x: bool = False,
    log_y: bool = False,
    width: float = 0.0,
    ends: bool = False,
) -> Drawing:
    """Return a series as it is drawn: its curve, and what else a picture says of it.

    A smoothed line is made of all points, whichever of them are drawn.

    Args:
        pieces: As for `reduce_series`; their steps are the places on the x axis.
        points: As for `reduce_series`.
        low: Only points whose x is not less; None for all.
        high: Only points whose x is not greater.
        window: Width of the window of the smoothed line, in units of x; None for none.
        half_life: The smoothed line is a moving average instead, in which a point that lies so far
            behind counts half, in units of x; every point is read.
        log_x: Parts are equally wide in log2 x; points at or below zero are left out and counted.
        log_y: Count the values that have no place on a logarithmic axis.
        width: Parts are at least this wide, a power of two, also of few points; 0.0 for none.
        ends: Find the first and the last finite point, for which two stretches are read.

    Raises:
        ArgumentError: If ``points`` is not a whole number, or less than 2.
    """
    check_points(points)
    series = _ordered(pieces)
    left_out = series.before(_LEAST_WIDTH) if log_x else 0
    first = left_out if low is None else max(left_out, series.before(low))
    end = series.count if high is None else series.before(math.nextafter(high, math.inf))
    end = max(first, end)
    found, starts = _laid_out(series, first, end, points, log=log_x, least=width)
    if not len(starts):
        seen = _single(np.empty(0))
    elif not found:
        places = np.arange(first, end)
        seen = _single(_values_at(series.pieces, places), places)
    else:
        seen = _between(series, np.append(starts, end), points)
    curve = _curve(found, series.steps, _merged(seen, np.searchsorted(seen.start, starts)))
    # In the middle of a part by count, so that the window of each holds a point.
    x = series.steps.at(starts + curve.count // 2)
    mean = None
    if half_life is not None:
        mean = _moving_averages(series, x, half_life)
    elif window is not None:
        mean = _window_means(series, x, window, points)
    return Drawing(
        curve=curve,
        x=x,
        mean=mean,
        plus_inf=_infinities(series, seen, seen.inf_count - seen.minus_count, starts, np.inf),
        minus_inf=_infinities(series, seen, seen.minus_count, starts, -np.inf),
        ends=_ends(series, seen) if ends and found else (np.empty(0), np.empty(0)),
        left_out=left_out,
        not_positive=int(seen.low_count.sum()) if log_y else 0,
        falls=series.falls,
    )


@dataclass(frozen=True, slots=True)
class _Series:
    """A series in the order of its steps.

    Attributes:
        pieces: Consecutive stretches.
        steps: Of all points.
        count: Number of points.
        falls: Whether it was in another order when it was written.
    """

    pieces: Sequence[Piece]
    steps: _Steps
    count: int
    falls: bool

    def before(self, edge: float) -> int:
        """Return how many points have a smaller step."""
        return int(self.steps.rank(np.array([edge]))[0]) if self.count else 0


def _ordered(pieces: Sequence[Piece]) -> _Series:
    pieces = [piece for piece in pieces if piece.count]
    count = sum(piece.count for piece in pieces)
    falls = not _rises(pieces)
    if falls:
        pieces = [Listed(*_sorted_points(pieces))]
    return _Series(pieces, _InPieces(pieces) if pieces else _Listed(np.empty(0)), count, falls)


def _laid_out(
    series: _Series, first: int, end: int, points: int, *, log: bool, least: float
) -> tuple[float, Ints]:
    """Return the width of the parts of a picture, and the places where they begin.

    Args:
        series: What is drawn.
        first: Place of the first point that is drawn.
        end: Place behind the last one.
        points: At most so many representative points.
        log: Whether parts are equally wide in log2 of the step; so is the width then.
        least: Parts are at least this wide.
    """
    count = end - first
    if not count or (count <= points and not least):
        return 0.0, np.arange(first, end)
    steps = _Log2(series.steps, first, count) if log else _Some(series.steps, first, count)
    width, starts = _parts(steps, count, points // 2, least)
    return width, starts + first


def _between(series: _Series, borders: Ints, points: int) -> _Stretches:
    """Return stretches from the first to the last border, none of which reaches across one.

    Only pieces are looked at in which they lie.

    Args:
        series: Which has them.
        borders: Places in the series, sorted and distinct, at least two; the last may be its end.
        points: How many representative points are drawn.
    """
    first, end = int(borders[0]), int(borders[-1])
    if series.falls:
        places = np.arange(first, end)
        return _single(series.pieces[0].values()[first:end], places)
    ends = np.cumsum([piece.count for piece in series.pieces])
    some = slice(
        int(np.searchsorted(ends, first, side="right")), int(np.searchsorted(ends, end)) + 1
    )
    pieces = series.pieces[some]
    base = int(ends[some][0]) - pieces[0].count
    cells = _stretches(pieces, borders[borders < ends[some][-1]] - base, points)
    start = cells.start + base
    kept = slice(*np.searchsorted(start, [first, end]).tolist())
    return cells._replace(start=start, min_at=cells.min_at + base, max_at=cells.max_at + base).part(
        kept
    )


def _window_means(series: _Series, x: Floats, window: float, points: int) -> Floats:
    """Return the mean of the finite values within half a window of each x, which are sorted.

    That is ``x - window / 2 <= step < x + window / 2``, of all points: whole stretches count with
    their means, and only what a border cuts is looked at point by point.
    """
    with np.errstate(over="ignore"):
        low, high = (series.steps.rank(x + side) for side in (-window / 2, window / 2))
    borders = np.unique(np.concatenate([low, high]))
    if len(borders) < 2:  # noqa: PLR2004 - nothing lies between them
        return np.full(len(x), np.nan)
    cells = _between(series, borders, points)
    ends = (np.searchsorted(cells.start, low), np.searchsorted(cells.start, high))
    return means_of_ranges(cells.mean, cells.finite, *ends)


def _moving_averages(series: _Series, x: Floats, half_life: float) -> Floats:
    """Return a moving average at each x, which are sorted; NaN where no finite value is before.

    Each finite value up to there counts ``2 ** -(distance / half_life)``. Weights are taken from
    the last of them, so that one of them is 1 and none is more, however far behind all of them lie.
    """
    found = _decayed(series, x, half_life, 1.0)
    lost = ~np.isfinite(found)  # the sum is too large, the mean cannot be
    if lost.any():
        found[lost] = _enlarged(_decayed(series, x, half_life, _SMALL)[lost])
    return found


def _decayed(series: _Series, x: Floats, half_life: float, scale: float) -> Floats:
    with np.errstate(over="ignore"):
        ends = series.steps.rank(np.nextafter(x, np.inf))
    found = np.full(len(x), np.nan)
    total, weight, behind, done, start = 0.0, 0.0, 0.0, 0, 0
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for piece in series.pieces:
            here = int(np.searchsorted(ends, start + piece.count, side="right"))
            values = piece.values()
            finite = np.isfinite(values)
            steps, values = piece.steps()[finite], values[finite] * scale
            known = np.append(0, np.cumsum(finite))
            stops = known[ends[done:here] - start]
            firsts = np.unique(np.append(0, stops))
            firsts = firsts[firsts < len(steps)]
            if len(firsts):
                lasts = np.append(firsts[1:], len(steps)) - 1
                ages = np.repeat(steps[lasts], np.diff(np.append(firsts, len(steps)))) - steps
                weights = np.exp2(-(ages / half_life))
                totals = np.add.reduceat(weights * values, firsts).tolist()
                sums = np.add.reduceat(weights, firsts).tolist()
                befores, after = [total / weight if weight else math.nan], lasts + 1
                for at, one, own in zip(steps[lasts].tolist(), totals, sums, strict=True):
                    left = float(np.exp2(-np.divide(at - behind, half_life))) if weight else 0.0
                    total, weight, behind = total * left + one, weight * left + own, at
                    befores.append(total / weight)
                of = np.searchsorted(after, stops, side="left") + (stops > 0)
                found[done:here] = np.array(befores)[of]
            else:
                found[done:here] = total / weight if weight else math.nan
            start, done = start + piece.count, here
            if done == len(x):
                break
    return found


def _infinities(
    series: _Series, cells: _Stretches, count: Ints, starts: Ints, sign: float
) -> Floats:
    """Return where the first such infinity of each part is; one stretch is read for each."""
    odd = _first_of_parts(np.flatnonzero(count > 0), cells.start, starts)
    if not len(odd):
        return np.empty(0)
    places = _ranges(cells.start[odd], cells.points[odd])
    hits = np.flatnonzero(_values_at(series.pieces, places) == sign)
    return series.steps.at(places[_first_of_parts(hits, places, starts)])


def _first_of_parts(hits: Ints, places: Ints, starts: Ints) -> Ints:
    """Return the first of some numbers of places in each part; parts begin at ``starts``."""
    part = np.searchsorted(starts, places[hits], side="right")
    first: Ints = hits[np.append(True, part[1:] != part[:-1])[: len(hits)]]
    return first


def _ends(series: _Series, cells: _Stretches) -> tuple[Floats, Floats]:
    """Return steps and values of the first and the last finite point; two stretches are read."""
    there = np.flatnonzero(cells.finite)
    if not len(there):
        return np.empty(0), np.empty(0)
    found = []
    for at, end in ((there[0], 0), (there[-1], -1)):
        places = np.arange(cells.start[at], cells.start[at] + cells.points[at])
        finite = np.isfinite(_values_at(series.pieces, places))
        found.append(places[finite][end])
    where = np.array(found)
    return series.steps.at(where), np.array(
        [_values_at(series.pieces, where[each : each + 1])[0] for each in (0, 1)]
    )


def _rises(pieces: Sequence[Piece]) -> bool:
    return all(piece.rising for piece in pieces) and all(
        before.last <= after.first for before, after in pairwise(pieces)
    )


def _sorted_points(pieces: Sequence[Piece]) -> tuple[Floats, Floats]:
    """Return steps and values of all points, sorted by step."""
    step = np.concatenate([piece.steps() for piece in pieces])
    order = np.argsort(step, kind="stable")
    return step[order], _values_of(pieces)[order]


def _values_of(pieces: Sequence[Piece]) -> Floats:
    return np.concatenate([np.empty(0), *(piece.values() for piece in pieces)])


def _curve(width: float, steps: _Steps, parts: _Stretches) -> Curve:
    empty = np.isnan(parts.min)
    return Curve(
        width=width,
        first_step=steps.at(parts.start),
        last_step=steps.at(parts.start + parts.points - 1),
        min=parts.min,
        max=parts.max,
        min_step=np.where(empty, np.nan, steps.at(parts.min_at)),
        max_step=np.where(empty, np.nan, steps.at(parts.max_at)),
        mean=parts.mean,
        count=parts.points,
        nan_count=parts.nan_count,
        inf_count=parts.inf_count,
    )


def _stretches(pieces: Sequence[Piece], borders: Ints, points: int) -> _Stretches:
    """Return stretches of a series, none of which reaches across a border.

    Args:
        pieces: Of the series, one after the other.
        borders: Places in the series, sorted and distinct.
        points: How many representative points are drawn.
    """
    count = sum(piece.count for piece in pieces)
    cells = _all_cells(pieces, coarse=count >= _LONG_PART * (points // 2))
    cut = np.searchsorted(cells.start, borders, side="right") - 1
    inside = cells.start[cut] != borders
    if not inside.any():
        return cells
    opened = np.zeros(len(cells.start), bool)
    opened[cut[inside]] = True
    places = _ranges(cells.start[opened], cells.points[opened])
    starts = np.sort(np.concatenate([cells.start[opened], borders[inside]]))
    fragments = _merged(
        _single(_values_at(pieces, places), places), np.searchsorted(places, starts)
    )
    order = np.argsort(np.concatenate([cells.start[~opened], starts]), kind="stable")
    return _Stretches(
        *(
            np.concatenate([whole[~opened], fragment])[order]
            for whole, fragment in zip(cells, fragments, strict=True)
        )
    )


def _all_cells(pieces: Sequence[Piece], *, coarse: bool) -> _Stretches:
    known = [piece.pyramid(coarse=coarse) or _pyramid(piece.values()) for piece in pieces]
    begins = np.cumsum([0, *(one.points for one in known)])
    numbers = np.array([len(one.cells) for one in known])
    # Each cell begins at the begin of its piece and those of its size before it.
    inside = _ranges(np.zeros(len(known), np.int64), numbers)
    start = np.repeat(begins[:-1], numbers) + inside * np.repeat(
        [one.size for one in known], numbers
    )
    cells = _joined([one.cells for one in known])
    counts = {name: cells[name].astype(np.int64) for name in _COUNTS}
    points = np.diff(start, append=begins[-1])
    return _Stretches(
        start=start,
        finite=points - counts["nan_count"] - counts["inf_count"],
        **counts,
        min=cells["min"].astype(np.float64),
        min_at=start + cells["min_at"],
        max=cells["max"].astype(np.float64),
        max_at=start + cells["max_at"],
        mean=cells["mean"].astype(np.float64),
    )


def _joined(cells: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """Return records of several arrays as one; quicker than to have NumPy compare their types."""
    kinds = {one.dtype.itemsize: one.dtype for one in cells}
    if len(kinds) > 1:
        kind = _COARSE_TYPE
        cells = [one if one.dtype == kind else one.astype(kind) for one in cells]
    else:
        (kind,) = kinds.values()
    return np.concatenate([one.view(np.uint8) for one in cells]).view(kind)


def _ranges(starts: Ints, counts: Ints) -> Ints:
    """Return, for each start, its count of consecutive numbers, as one array."""
    ends = np.cumsum(counts)
    return np.repeat(starts - ends + counts, counts) + np.arange(ends[-1])


def _values_at(pieces: Sequence[Piece], places: Ints) -> Floats:
    """Return the values at these sorted places in the series."""
    ends = np.cumsum([piece.count for piece in pieces])
    shares = np.diff(np.searchsorted(places, ends), prepend=0)
    asked = np.flatnonzero(shares)
    for at in asked.tolist():
        pieces[at].will_read()
    found, low = [], 0
    for at, share in zip(asked.tolist(), shares[asked].tolist(), strict=True):
        start = int(ends[at]) - pieces[at].count
        found.append(pieces[at].values_at(places[low : low + share] - start))
        low += share
    return np.concatenate(found)


# ---------------------------------------------------------------------- steps and borders


class _Steps(Protocol):
    """Steps of a series that never fall."""

    def at(self, places: Ints) -> Floats:
        """Return the steps at these places."""

    def rank(self, edges: Floats) -> Ints:
        """Return for each edge how many steps are less; edges are sorted."""


class _Listed:
    """Steps that were read."""

    def __init__(self, steps: Floats) -> None:
        self._steps = steps

    def at(self, places: Ints) -> Floats:
        found: Floats = self._steps[places]
        return found

    def rank(self, edges: Floats) -> Ints:
        return np.searchsorted(self._steps, edges)


class _Some:
    """Consecutive steps of a series."""

    def __init__(self, steps: _Steps, first: int, count: int) -> None:
        self._steps, self._first, self._count = steps, first, count

    def at(self, places: Ints) -> Floats:
        return self._steps.at(places + self._first)

    def rank(self, edges: Floats) -> Ints:
        found: Ints = (self._steps.rank(edges) - self._first).clip(0, self._count)
        return found


class _Log2:
    """The logarithms of positive steps, of which only those are made that are asked for."""

    def __init__(self, steps: _Steps, first: int, count: int) -> None:
        self._steps, self._first, self._count = steps, first, count

    def at(self, places: Ints) -> Floats:
        found: Floats = np.log2(self._steps.at(places + self._first))
        return found

    def rank(self, edges: Floats) -> Ints:
        low, high = np.zeros(len(edges), np.int64), np.full(len(edges), self._count)
        while len(open_ := np.flatnonzero(low < high)):
            middle = (low[open_] + high[open_]) // 2
            less = self.at(middle) < edges[open_]
            low[open_[less]], high[open_[~less]] = middle[less] + 1, middle[~less]
        return low


class _InPieces:
    """Steps of pieces: where they are a progression of whole numbers, nothing is read of it."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        strides = [piece.stride for piece in pieces]
        self._listed = np.array([stride is None for stride in strides])
        self._first = np.array([stride[0] if stride else 0 for stride in strides], np.int64)
        self._difference = np.array([stride[1] if stride else 0 for stride in strides], np.int64)
        self._last = np.array([piece.last for piece in pieces])
        self._ends = np.cumsum([piece.count for piece in pieces])
        self._starts = self._ends - [piece.count for piece in pieces]
        self._read: dict[int, Floats] = {}

    def at(self, places: Ints) -> Floats:
        piece = np.searchsorted(self._ends, places, side="right")
        inside = places - self._starts[piece]
        whole: Ints = self._first[piece] + inside * self._difference[piece]
        found = whole.astype(np.float64)
        for one, asked in self._of_listed(piece):
            found[asked] = self._steps(one)[inside[asked]]
        return found

    def rank(self, edges: Floats) -> Ints:
        piece = np.searchsorted(self._last, edges).clip(max=len(self._last) - 1)
        whole = np.ceil(edges).clip(-_FAR, _FAR).astype(np.int64)
        less = -((self._first[piece] - whole) // np.maximum(self._difference[piece], 1))
        ranks: Ints = self._starts[piece] + np.maximum(less, 0)
        for one, asked in self._of_listed(piece):
            if (edges[asked] > self._pieces[one].first).any():
                inside = np.searchsorted(self._steps(one), edges[asked])
                ranks[asked] = self._starts[one] + inside
            else:  # between two pieces: it is known without reading one
                ranks[asked] = self._starts[one]
        return np.where(edges > self._last[piece], self._ends[piece], ranks)

    def _of_listed(self, piece: Ints) -> Iterator[tuple[int, Ints]]:
        """Yield pieces whose steps are listed, and what asks for each; given its piece."""
        if not self._listed.any():
            return
        asked = np.flatnonzero(self._listed[piece])
        asked = asked[np.argsort(piece[asked], kind="stable")]
        numbers, begins = np.unique(piece[asked], return_index=True)
        yield from zip(numbers.tolist(), np.split(asked, begins[1:]), strict=False)

    def _steps(self, piece: int) -> Floats:
        if piece not in self._read:
            self._read[piece] = self._pieces[piece].steps()
        return self._read[piece]


def _parts(steps: _Steps, count: int, limit: int, least: float = 0.0) -> tuple[float, Ints]:
    """Return the width of parts, and the places where they begin; see `Curve`.

    Args:
        steps: Of the series.
        count: Number of points, at least 1.
        limit: How many parts there may be.
        least: Smallest width that they may have, a power of two.
    """
    first, last = steps.at(np.array([0, count - 1])).tolist()
    if least:
        width = max(least, _likely_width(first, last, limit))
        starts = _starts(steps, first, last, width)
        while width > least and len(finer := _halved(steps, starts, width, count)) <= limit:
            starts, width = finer, width / 2
        while len(starts) > limit:
            width *= 2
            starts = _starts(steps, first, last, width)
        return width, starts
    width = _likely_width(first, last, limit)
    starts = _starts(steps, first, last, width)
    while len(starts) > limit:
        width *= 2
        starts = _starts(steps, first, last, width)
    while math.isfinite(width):
        finer = _halved(steps, starts, width, count)
        if len(finer) > limit:
            break
        if len(finer) == len(starts) and _are_single(steps, starts, count):
            return _LEAST_WIDTH, starts
        starts, width = finer, width / 2
    return width, starts


def _likely_width(first: float, last: float, limit: int) -> float:
    """Return a power of two that gives about as many parts as there may be, if there are no gaps.

    At such a width, no part has a number of 2**53 or more.
    """
    half_span = last / 2 - first / 2  # the span itself may be infinite
    _, exponent = math.frexp(half_span / max(limit - 1, 1))
    likely = math.ldexp(1.0, min(exponent + 1, _MOST_EXPONENT))
    return max(likely, math.ulp(max(abs(first), abs(last))))


def _starts(steps: _Steps, first: float, last: float, width: float) -> Ints:
    low, high = _numbers(np.array([first, last]), width).tolist()
    edges = np.arange(low + 1, high + 1).astype(np.float64) * width
    return _distinct(np.append(0, steps.rank(edges)))


def _halved(steps: _Steps, starts: Ints, width: float, count: int) -> Ints:
    """Return where parts of half the width begin."""
    with np.errstate(over="ignore"):
        middle = (_numbers(steps.at(starts), width) + 0.5) * width
    ranks = steps.rank(middle)
    return _distinct(np.sort(np.concatenate([starts, ranks[ranks < count]])))


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


def _are_single(steps: _Steps, starts: Ints, count: int) -> bool:
    """Return whether the points of each part share one step."""
    ends = np.append(starts[1:], count) - 1
    return bool((steps.at(starts) == steps.at(ends)).all())
