"""Smoothed lines, other x axes and logarithmic ones, against what all points give."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recording import QUIET

from seamark import init_run
from seamark.reading.curves import Look
from seamark.store.drawing import draw_series, means_of_ranges
from seamark.store.groups import is_progression, pack_floats, unpack_floats
from seamark.store.steps import cell_starts, pack_cells


class Packed:
    """A piece as a chunk holds it."""

    def __init__(self, step, value):
        self.count, self.first, self.last = len(step), float(step[0]), float(step[-1])
        self.rising = bool((np.diff(step) >= 0).all())
        self._step, self._value = pack_floats(step), pack_floats(value)
        self.stride = (step[0], np.ptp(step[:2])) if is_progression(step) else None
        self._cells = pack_cells(value, cell_starts(step)) if self.rising else None

    def steps(self):
        return unpack_floats(self._step)

    def values(self):
        return unpack_floats(self._value)

    def cells(self):
        return self._cells


def cut(step, value, size=1000):
    """Cut a series into pieces of this many points."""
    step, value = np.asarray(step, float), np.asarray(value, float)
    starts = range(0, len(step), size)
    return [Packed(step[at : at + size], value[at : at + size]) for at in starts]


def plain_mean(step, value, x, window):
    """Return the mean around x in exact arithmetic, and how large the numbers in it are."""
    inside = (step >= x - window / 2) & (step < x + window / 2) & np.isfinite(value)
    numbers = value[inside]
    if not len(numbers):
        return math.nan, 0.0
    small = numbers * 2.0**-64  # the sum of the largest numbers is not finite
    means = (math.fsum(some) / len(numbers) * 2.0**64 for some in (small, np.abs(small)))
    if numbers.any() and np.abs(numbers)[numbers != 0].min() > 1e-200:
        return tuple(means)
    exact = [Fraction(one) for one in numbers.tolist()]
    return float(sum(exact) / len(exact)), float(sum(map(abs, exact)) / len(exact))


def assert_means(step, value, drawing, window):
    """Compare every mean with the plain one, to within some rounding of what it is made of."""
    step, value = np.asarray(step, float), np.asarray(value, float)
    for x, mean in zip(drawing.x.tolist(), drawing.mean.tolist(), strict=True):
        wanted, size = plain_mean(step, value, x, window)
        if math.isnan(wanted):
            assert math.isnan(mean)
        else:
            assert abs(mean - wanted) <= 1e-13 * size


def noisy(count, seed=7):
    return np.random.default_rng(seed).normal(size=count)


@pytest.mark.parametrize("window", [1.0, 500.0, 1e9])
@pytest.mark.parametrize("points", [20, 1000])
@pytest.mark.once
def test_a_window_is_the_mean_of_all_its_points(window, points):
    """Whatever the number of parts that are drawn; NaN and infinities are passed over."""
    value = noisy(20_000)
    value[[3, 700, 701, 702, 9000]] = [math.nan, math.inf, -math.inf, math.nan, math.inf]
    step = np.arange(20_000.0)
    drawing = draw_series(cut(step, value), points, window=window)
    assert len(drawing.x) > points // 8
    assert_means(step, value, drawing, window)


@given(
    st.lists(st.tuples(st.integers(-50, 50), st.floats()), max_size=300),
    st.floats(0.25, 200),
    st.integers(2, 40),
)
def test_any_series_is_smoothed_as_all_its_points_say(points, window, limit):
    """Repeated steps, gaps, values of any size, any window."""
    step, value = ([float(one[at]) for one in points] for at in (0, 1))
    pieces = cut(step, value, 70)
    drawing = draw_series(pieces, limit, window=window)
    assert_means(step, value, drawing, window)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=90), st.data())
def test_ranges_are_summed_from_what_is_in_them(counts, data):
    """Any ranges, also empty ones and all of it."""
    number = np.asarray(counts)
    means = np.where(number > 0, noisy(len(number)), np.nan)
    ends = st.integers(0, len(counts))
    pairs = [sorted(pair) for pair in data.draw(st.lists(st.tuples(ends, ends), max_size=9))]
    low, high = (np.array([pair[at] for pair in pairs], np.int64) for at in (0, 1))
    found = means_of_ranges(means, number, low, high)
    for (start, end), mean in zip(pairs, found.tolist(), strict=True):
        total = number[start:end].sum()
        wanted = np.nansum(means[start:end] * number[start:end]) / total if total else math.nan
        assert mean == pytest.approx(wanted, nan_ok=True)


# ---------------------------------------------------------------------- as it was recorded


COUNT = 30_000


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    """A run whose series are in groups and in the journal's end."""
    run = init_run(root=tmp_path_factory.mktemp("root"), **QUIET)
    loss, epoch = noisy(COUNT), np.repeat(np.arange(COUNT / 1000), 1000)
    times = 1_700_000_000 + np.arange(COUNT) * 0.5
    run["loss"].extend(loss.tolist(), steps=range(COUNT), timestamps=times.tolist())
    run["epoch"].extend(epoch[::100].tolist(), steps=range(100, COUNT + 100, 100))
    yield run, loss, times
    run.stop()


def test_time_is_an_axis(long_run):
    """Seconds since the Unix epoch; the mean is over seconds then."""
    run, loss, times = long_run
    drawing = run.session.recorded.view().drawing("loss", Look(100, x="time", window=60.0))
    assert drawing.curve.first_step[0] == times[0]
    assert drawing.curve.count.sum() == COUNT
    assert drawing.curve.max.max() == loss.max()
    assert_means(times, loss, drawing, 60.0)


def test_relative_time_starts_when_the_run_was_created(long_run):
    """Whichever series it is, so that curves of one run fit together."""
    run, _, times = long_run
    view = run.session.recorded.view()
    created = view.attribute("sys/creation_time").value.timestamp()
    drawing = view.drawing("loss", Look(100, x="relative"))
    assert drawing.curve.last_step[-1] == pytest.approx(times[-1] - created, abs=1e-3)


def test_another_series_is_an_axis(long_run):
    """Its value at the same step, else the last before; points before its first are counted."""
    run, loss, _ = long_run
    drawing = run.session.recorded.view().drawing("loss", Look(1000, x="epoch", window=1.0))
    assert drawing.left_out == 100
    x = np.repeat(np.repeat(np.arange(COUNT / 1000), 10), 100)[: COUNT - 100]
    assert drawing.curve.count.sum() == COUNT - 100
    assert_means(x, loss[100:], drawing, 1.0)
