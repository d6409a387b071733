"""Curves of long series, computed from the cells of chunks, and moving means.

Points are read only for cells that cross the border between two parts, and the result is exact.
Means are not computed as differences of running sums, which would be faster but lose all digits
after one value of 1e30.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from seamark.reading.curves import Curve, Drawing, check_points
from seamark.store.steps import (
    MIN_WIDTH,
    NOWHERE,
    SUM_SCALE,
    Log2,
    Piece,
    Series,
    Stretches,
    divide,
    is_falling,
    merge_stretches,
    pack_cells,
    single_points,
    sum_scale,
    unpack_cells,
    unscale,
)
from seamark.values.arrays import Floats, Ints


def means_of_ranges(means: Floats, counts: Ints, low: Ints, high: Ints) -> Floats:
    """Return means over ranges (N,) of stretches (K,); NaN for ranges without values."""
    known = np.where(counts > 0, means, 0.0)
    scale = sum_scale(known)
    number = _range_sums(counts.astype(np.float64), low, high)
    with np.errstate(invalid="ignore", divide="ignore"):
        return unscale(_range_sums(known * scale * counts, low, high) / number, scale)


def _range_sums(values: Floats, low: Ints, high: Ints) -> Floats:
    # Adds sums of blocks of 1, 2, 4, ... stretches. A range needs at most two blocks of a size, one
    # at each end.
    total = np.zeros(len(low))
    low, high, blocks = low.copy(), np.maximum(low, high), values
    while (low < high).any():
        first = (low < high) & (low % 2 == 1)
        total[first] += blocks[low[first]]
        low += first
        last = (low < high) & (high % 2 == 1)
        high -= last
        total[last] += blocks[high[last]]
        low, high = low // 2, high // 2
        blocks = np.append(blocks, 0.0) if len(blocks) % 2 else blocks
        blocks = blocks[0::2] + blocks[1::2]
    return total


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
    ends: bool = False,
) -> Drawing:
    """Compute the drawing of a series; see `seamark.reading.curves.Look` for most arguments.

    A smoothed line is computed from all points, also outside the drawn range. ``pieces`` are
    consecutive stretches in the order of writing; their steps are places on the x axis. If steps
    fall, all points are read and sorted by step, stably. ``ends`` adds the first and the last
    finite point, for which two stretches are read. Raises `ArgumentError` if ``points`` is invalid.
    """
    check_points(points)
    pieces = [piece for piece in pieces if piece.count]
    falls = is_falling(pieces)
    if falls:
        pieces = [Piece(*_sorted_points(pieces))]
    series = Series(pieces)
    left_out = series.before(MIN_WIDTH) if log_x else 0
    first = left_out if low is None else max(left_out, series.before(low))
    end = series.count if high is None else series.before(math.nextafter(high, math.inf))
    end = max(first, end)
    if end - first <= points:
        width, starts = 0.0, np.arange(first, end)
        seen = single_points(series.values_at(starts), starts)
    else:
        axis = Log2(series, first, end) if log_x else series
        width, starts = divide(axis, first, end, points // 2)
        seen = _stretches_between(series, np.append(starts, end))
    parts = merge_stretches(seen, np.searchsorted(seen.start, starts))
    # The middle point of each part, so that every window contains a point.
    x = series.at(starts + parts.points // 2)
    mean = None
    if half_life is not None:
        mean = _moving_averages(series, x, half_life)
    elif window is not None:
        mean = _window_means(series, x, window)
    return Drawing(
        curve=_make_curve(width, series, parts),
        x=x,
        mean=mean,
        plus_inf=series.at(parts.plus_at[parts.plus_at < NOWHERE]),
        minus_inf=series.at(parts.minus_at[parts.minus_at < NOWHERE]),
        ends=_find_ends(series, seen) if ends and width else (np.empty(0), np.empty(0)),
        left_out=left_out,
        not_positive=int(seen.low_count.sum()) if log_y else 0,
        falls=falls,
    )


def _sorted_points(pieces: Sequence[Piece]) -> tuple[Floats, Floats]:
    step = np.concatenate([piece.steps() for piece in pieces])
    order = np.argsort(step, kind="stable")
    return step[order], np.concatenate([piece.values() for piece in pieces])[order]


def _make_curve(width: float, series: Series, parts: Stretches) -> Curve:
    empty = np.isnan(parts.min)
    return Curve(
        width=width,
        first_step=series.at(parts.start),
        last_step=series.at(parts.start + parts.points - 1),
        min=parts.min,
        max=parts.max,
        min_step=np.where(empty, np.nan, series.at(parts.min_at)),
        max_step=np.where(empty, np.nan, series.at(parts.max_at)),
        mean=parts.mean,
        count=parts.points,
        nan_count=parts.nan_count,
        inf_count=parts.inf_count,
    )


def _stretches_between(series: Series, borders: Ints) -> Stretches:
    # Only pieces between the borders are read. Borders are sorted and distinct, at least two; the
    # last may be the end.
    first, end = int(borders[0]), int(borders[-1])
    low, high = np.searchsorted(series.ends, [first + 1, end]).tolist()
    packed = []
    for piece, start in zip(series.pieces[low : high + 1], series.starts[low:], strict=False):
        known = piece.cells()
        if known is None:
            inside = borders[(borders > start) & (borders < start + piece.count)]
            known = pack_cells(piece.values(), np.append(0, inside - start))
        packed.append(known)
    cells = unpack_cells(packed, int(series.starts[low]))
    cells = _split_cells(series, cells, borders[borders < series.ends[high]])
    return cells.part(slice(*np.searchsorted(cells.start, [first, end])))


def _split_cells(series: Series, cells: Stretches, borders: Ints) -> Stretches:
    cut = np.searchsorted(cells.start, borders, side="right") - 1
    inside = cells.start[cut] != borders
    if not inside.any():
        return cells
    opened = np.zeros(len(cells.start), bool)
    opened[cut[inside]] = True
    counts = cells.points[opened]
    ends = np.cumsum(counts)
    places = np.repeat(cells.start[opened] - ends + counts, counts) + np.arange(ends[-1])
    points = single_points(series.values_at(places), places)
    starts = np.sort(np.concatenate([cells.start[opened], borders[inside]]))
    fragments = merge_stretches(points, np.searchsorted(places, starts))
    whole = cells.part(~opened)
    order = np.argsort(np.concatenate([whole.start, starts]), kind="stable")
    return Stretches(
        *(np.concatenate(columns)[order] for columns in zip(whole, fragments, strict=True))
    )


def _find_ends(series: Series, seen: Stretches) -> tuple[Floats, Floats]:
    there = np.flatnonzero(seen.finite)
    if not len(there):
        return np.empty(0), np.empty(0)
    where, found = [], []
    for at, end in ((there[0], 0), (there[-1], -1)):
        places = seen.start[at] + np.arange(seen.points[at])
        values = series.values_at(places)
        place = np.flatnonzero(np.isfinite(values))[end]
        where.append(places[place])
        found.append(values[place])
    return series.at(np.array(where)), np.array(found)


# ---------------------------------------------------------------------- smoothed lines


def _window_means(series: Series, x: Floats, window: float) -> Floats:
    # Means over all points with ``x - window / 2 <= step < x + window / 2``.
    with np.errstate(over="ignore"):
        low, high = (series.rank(x + side) for side in (-window / 2, window / 2))
    borders = np.unique(np.concatenate([low, high]))
    if len(borders) < 2:  # noqa: PLR2004 - no points between them
        return np.full(len(x), np.nan)
    cells = _stretches_between(series, borders)
    ends = (np.searchsorted(cells.start, low), np.searchsorted(cells.start, high))
    return means_of_ranges(cells.mean, cells.finite, *ends)


def _moving_averages(series: Series, x: Floats, half_life: float) -> Floats:
    # Each finite value has the weight 2 ** -(distance / half_life). Weights are relative to the
    # last value, so that the largest one is 1.
    found = _decayed_means(series, x, half_life, 1.0)
    lost = ~np.isfinite(found)  # the sum overflowed, the mean cannot
    if lost.any():
        found[lost] = unscale(_decayed_means(series, x, half_life, SUM_SCALE)[lost], SUM_SCALE)
    return found


def _decayed_means(series: Series, x: Floats, half_life: float, scale: float) -> Floats:
    with np.errstate(over="ignore"):
        ends = series.rank(np.nextafter(x, np.inf))
    found: dict[int, float] = {}
    total, weight, behind = 0.0, 0.0, 0.0
    for piece, start in zip(series.pieces, series.starts.tolist(), strict=True):
        if start >= ends.max(initial=0):
            break
        inside = ends[(ends > start) & (ends < start + piece.count)] - start
        steps, values = piece.steps(), piece.values() * scale
        for low, high in pairwise([0, *np.unique(inside).tolist(), piece.count]):
            finite = np.isfinite(values[low:high])
            own = steps[low:high][finite]
            if len(own):
                with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                    weights = np.exp2((own - own[-1]) / half_life)
                    left = np.exp2((behind - own[-1]) / half_life) if weight else 0.0
                    total = total * left + np.sum(weights * values[low:high][finite])
                weight, behind = weight * left + weights.sum(), own[-1]
            found[start + high] = total / weight if weight else math.nan
    return np.array([found[end] for end in ends.tolist()])
