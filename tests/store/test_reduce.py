"""Curves are those of all points, whichever of them were read."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import dataclass, fields
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seamark.errors import ArgumentError
from seamark.reading.curves import Curve
from seamark.store.drawing import draw_series
from seamark.store.groups import is_progression, pack_floats, unpack_floats
from seamark.store.steps import cell_starts, pack_cells

NAN, INF = math.nan, math.inf
PIECES = 16
COLUMNS = [one.name for one in fields(Curve) if one.name not in ("width", "mean")]


@dataclass
class Packed:
    """A piece as a chunk holds it, which notes whether its values were read."""

    step: bytes
    value: bytes
    packed_cells: bytes | None
    count: int
    first: float
    last: float
    rising: bool
    read: bool = False

    @property
    def stride(self):
        step = unpack_floats(self.step)
        return (step[0], np.ptp(step[:2])) if is_progression(step) else None

    def steps(self):
        return unpack_floats(self.step)

    def values(self):
        self.read = True
        return unpack_floats(self.value)

    def cells(self):
        return self.packed_cells


def reduce_series(pieces, points):
    return draw_series(pieces, points).curve


def packed(step, value, *, cells=True):
    step, value = np.array(step, np.float64), np.array(value, np.float64)
    rising = bool((step[1:] >= step[:-1]).all())
    return Packed(
        pack_floats(step),
        pack_floats(value),
        pack_cells(value, cell_starts(step)) if cells and rising and len(step) else None,
        len(step),
        *((float(step[0]), float(step[-1])) if len(step) else (NAN, NAN)),
        rising=rising,
    )


def pieces_of(step, value, sizes, cells=(True,)):
    """Cut a series into pieces of these sizes, over and over again; the last one is the rest."""
    found, start = [], 0
    while start < len(step):
        number = len(found)
        end = start + sizes[number % len(sizes)] if number < PIECES else len(step)
        has_cells = cells[number % len(cells)]
        found.append(packed(step[start:end], value[start:end], cells=has_cells))
        start = end
    return found


def plain_parts(steps, points):
    """Return the width, and the number of each point's part, in exact arithmetic."""
    if len(steps) <= points:
        return 0.0, list(range(len(steps)))
    whole = [scaled(step) for step in steps]
    low, high = -1, 2098  # exponents of the width in 2**-1074: too small, all in one part
    while high - low > 1:
        middle = (low + high) // 2
        if len({at >> middle for at in whole}) <= points // 2:
            high = middle
        else:
            low = middle
    if high > 1074 + 1023:
        return INF, [0] * len(steps)
    return math.ldexp(1.0, high - 1074), [at >> high for at in whole]


def scaled(number):
    """Return a finite number in units of the smallest one that a float can hold."""
    numerator, denominator = number.as_integer_ratio()
    return numerator << (1075 - denominator.bit_length())


def mean_of(numbers):
    """Return the mean of finite numbers, exact but for one rounding."""
    return float(Fraction(sum(map(scaled, numbers)), len(numbers) << 1074))


def plain_part(part):
    finite = [(step, value) for step, value in part if math.isfinite(value)]
    least = min(finite, key=lambda point: point[1], default=(NAN, NAN))
    most = max(finite, key=lambda point: point[1], default=(NAN, NAN))
    mean = mean_of([value for _, value in finite]) if finite else NAN
    nans = sum(math.isnan(value) for _, value in part)
    counts = {"count": len(part), "nan_count": nans, "inf_count": len(part) - len(finite) - nans}
    ends = {"first_step": part[0][0], "last_step": part[-1][0]}
    extremes = {"min": least[1], "min_step": least[0], "max": most[1], "max_step": most[0]}
    size = mean_of([abs(value) for _, value in finite]) if finite else 0.0
    return counts | ends | extremes | {"mean": mean, "size": size}


def plain(step, value, points):
    series = sorted(zip(step, value, strict=True), key=lambda point: point[0])
    width, numbers = plain_parts([at for at, _ in series], points)
    parts = {}
    for number, point in zip(numbers, series, strict=True):
        parts.setdefault(number, []).append(point)
    return width, [plain_part(part) for part in parts.values()]


def same_bits(found, expected):
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    return np.array_equal(found, expected, equal_nan=True) and np.array_equal(
        np.signbit(found[~np.isnan(found)]), np.signbit(expected[~np.isnan(expected)])
    )


def check(curve, step, value, points):
    width, parts = plain(step, value, points)
    assert curve.width == width
    assert len(curve) == len(parts)
    for name in COLUMNS:
        assert same_bits(getattr(curve, name), [part[name] for part in parts]), name
    for mean, part in zip(curve.mean.tolist(), parts, strict=True):
        if math.isnan(part["mean"]):
            assert math.isnan(mean)
        else:
            assert abs(mean - part["mean"]) <= 1e-12 * part["size"] + 1e-320
            assert part["min"] <= mean <= part["max"]
    assert len(curve.step) == len(curve.value) <= points
    if not width:
        assert same_bits(curve.step, curve.first_step)
        assert same_bits(curve.value, curve.min)


SPECIAL = [NAN, INF, -INF, 0.0, -0.0, 1e308, -1e308, 1.7976931348623157e308, 5e-324, 1.0]
EDGES = [0.0, -0.0, -1.0, 1.0, 2.0**53, 2.0**53 - 1, 1e18, 0.1]
FARTHEST = sorted([*EDGES, 5e-324, -5e-324, 1.7e308, -1.7e308] * 10)


def any_size(size, rng):
    """Return factors within 20 powers of ten: a width is found by halving, one bit at a time."""
    return 10.0 ** (rng.integers(-300, 280) + rng.integers(0, 20, size))


RISING = {
    "count": lambda whole, _: whole,
    "stride": lambda whole, rng: whole * rng.integers(0, 60) + rng.integers(-5000, 5000),
    "epochs": lambda whole, rng: whole // rng.integers(1, 200) - rng.integers(0, 3),
    "gaps": lambda whole, rng: np.cumsum(rng.choice([0.0, 1.0, 3.0, 1e6], len(whole))) - 500,
    "fractions": lambda whole, rng: np.cumsum(rng.random(len(whole))) - 20,
    "tiny": lambda whole, rng: np.cumsum(rng.random(len(whole))) * 1e-310,
    "far": lambda whole, _: 2.0**53 - 200 + whole,
    "any": lambda whole, rng: np.sort(rng.standard_normal(len(whole)) * any_size(len(whole), rng)),
    "edges": lambda whole, rng: np.sort(rng.choice(EDGES, len(whole))),
}


@st.composite
def series(draw):
    """Draw steps and values: several cells long, most of them in rising order."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = draw(st.integers(0, 500))
    step = RISING[draw(st.sampled_from([*RISING]))](np.arange(float(size)), rng)
    falls = draw(st.integers(0, 5))
    if falls == 0:
        step = np.roll(step, draw(st.integers(0, 500)))
    elif falls == 1:
        step = rng.permutation(step)
    value = {
        "float32": lambda: rng.standard_normal(size).astype(np.float32).astype(np.float64),
        "float64": lambda: rng.standard_normal(size),
        "whole": lambda: rng.integers(-3, 3, size) * 1.0,
        "huge": lambda: rng.choice([1.5e308, -1.5e308, 1.0], size),
    }[draw(st.sampled_from(["float32", "float64", "whole", "huge"]))]()
    special = rng.random(size) < draw(st.sampled_from([0.0, 0.01, 0.9, 1.0]))
    return step.tolist(), np.where(special, rng.choice(SPECIAL, size), value).tolist()


SIZES = st.lists(st.integers(1, 300), min_size=1, max_size=3)
FLOATS = st.floats(width=64)
FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(FINITE, FLOATS), max_size=12), SIZES, st.integers(2, 9))
@example([(5.0, 1.0)] * 9, [3], 2)
@example([(-1.0, 1.0), (1.0, 2.0), (2.0, 3.0)], [3], 2)
@example([(-1.7e308, 1.0), (-8e307, 1.0), (0.0, 2.0), (1.0, 2.0), (1.7e308, 3.0)], [2], 4)
@example([(1.0, -0.0), (2.0, 0.0), (3.0, -0.0)], [2], 2)
@pytest.mark.once
def test_a_curve_of_few_odd_points_is_that_of_all_points(points_of, sizes, points):
    step, value = [at for at, _ in points_of], [value for _, value in points_of]
    check(reduce_series(pieces_of(step, value, sizes), points), step, value, points)


@given(series(), SIZES, st.lists(st.booleans(), min_size=1, max_size=3), st.integers(2, 80))
@example((FARTHEST, [float(at) for at in range(120)]), [50, 7], [True, False], 14)
@pytest.mark.once
def test_a_curve_is_that_of_all_points(drawn, sizes, cells, points):
    """Whatever is read instead of them: bit for bit, means to 1e-12; values without a place too."""
    step, value = (np.asarray(one, np.float64) for one in drawn)
    drawing = draw_series(pieces_of(step, value, sizes, cells), points, log_y=True)
    check(drawing.curve, step, value, points)
    order = np.argsort(step, kind="stable")
    step, value = step[order], value[order]
    assert drawing.not_positive == int((np.isfinite(value) & (value <= 0)).sum())
    part = np.repeat(np.arange(len(drawing.curve)), drawing.curve.count)
    for found, sign in ((drawing.plus_inf, INF), (drawing.minus_inf, -INF)):
        _, first = np.unique(part[value == sign], return_index=True)
        assert same_bits(found, step[value == sign][first])


def test_a_series_without_points_is_a_curve_without_parts():
    for pieces in ([], [packed([], [])]):
        curve = reduce_series(pieces, 2)
        assert (len(curve), curve.width) == (0, 0.0)
        assert all(len(getattr(curve, name)) == 0 for name in (*COLUMNS, "mean", "step", "value"))


@pytest.mark.parametrize("points", [1, 0, -5, 2.0, True, "10", None])
def test_a_number_of_points_that_cannot_be_is_refused(points):
    with pytest.raises(ArgumentError, match="points: expected a whole number of at least 2"):
        reduce_series([], points)


def test_minimum_and_maximum_are_drawn_in_the_order_of_their_steps():
    step = [0, 1, 8, 9, 16, 17, 24, 25, 26]
    value = [1.0, 5.0, 4.0, 0.0, 7.0, 7.0, NAN, INF, NAN]
    curve = reduce_series([packed(step, value)], 8)
    assert curve.width == 4.0
    assert curve.step.tolist() == [0.0, 1.0, 8.0, 9.0, 16.0, 24.0]
    assert same_bits(curve.value, [1.0, 5.0, 4.0, 0.0, 7.0, NAN])


def test_only_chunks_that_a_border_cuts_are_read():
    """Parts of whole cells read none, whatever the distance between steps and where chunks begin;
    infinities are found without reading. Those at the ends of a window are read.
    """
    for stride in (7.0, 0.3):
        step = np.arange(65_536.0) * stride - 12_345
        value = np.sin(step)
        value[::2] = INF
        pieces = pieces_of(step, value, [16_384, 9_000])
        check(reduce_series(pieces, 400), step, value, 400)
        assert not any(piece.read for piece in pieces)
    step = np.arange(65_536.0)
    pieces = pieces_of(step, np.sin(step), [4096])
    drawing = draw_series(pieces, 200, low=5_001.0, high=50_007.0)
    assert int(drawing.curve.count.sum()) == 45_007
    assert [number for number, piece in enumerate(pieces) if piece.read] == [1, 12]
    pieces = pieces_of(step, np.sin(step), [4096])
    few = draw_series(pieces, 200, low=20_490.0, high=20_589.0)  # they come one by one
    assert (few.curve.width, few.curve.value.tolist()) == (0, np.sin(step[20_490:20_590]).tolist())
    assert [number for number, piece in enumerate(pieces) if piece.read] == [5]


def test_the_types_of_reads_are_imported_without_numpy():
    code = "import sys, seamark.reading; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
