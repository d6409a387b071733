"""Drawings of windows, along other axes, smoothed, and since an earlier look."""

from __future__ import annotations

import math
import sys
from dataclasses import fields
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recording import QUIET

from seamark import init_run
from seamark.errors import ArgumentError
from seamark.reading.curves import Curve, Look, RunCurve
from seamark.reading.groups import group_curves
from seamark.store.drawing import draw_series
from seamark.store.steps import Piece

COLUMNS = [one.name for one in fields(Curve)][1:]
VALUES = st.floats() | st.sampled_from(
    [1e30, -1e30, 5e-324, 1.7e308, math.nan, math.inf, -math.inf]
)
POINTS = st.lists(st.tuples(st.integers(-40, 40), VALUES), max_size=250)


@pytest.fixture(scope="session")
def cut(plain):
    """Return a function that cuts a series into pieces of this many points."""
    return lambda step, value, size=70: plain.pieces_of(step, value, [size])


def split(points):
    return [float(one[0]) for one in points], [float(one[1]) for one in points]


def same(one, other):
    return np.array_equal(one, other, equal_nan=True)


def is_same(one, other):
    columns = all(same(getattr(one.curve, name), getattr(other.curve, name)) for name in COLUMNS)
    mean = one.mean is other.mean or same(one.mean, other.mean)
    return columns and mean and one.curve.width == other.curve.width and same(one.x, other.x)


@given(POINTS, st.integers(-50, 50), st.integers(0, 60), st.integers(2, 30), st.booleans())
def test_a_window_shows_its_points_as_if_they_were_alone(cut, points, low, span, limit, log_x):
    step, value = split(points)
    inside = [low <= at <= low + span for at in step]
    some = [np.asarray(one, float)[inside] for one in (step, value)]
    look = {"low": float(low), "high": float(low + span), "log_x": log_x}
    found = draw_series(cut(step, value), limit, **look)
    wanted = draw_series([Piece(*some)] if len(some[0]) else [], limit, log_x=log_x)
    for name in COLUMNS:
        columns = [getattr(one.curve, name) for one in (found, wanted)]
        assert same(*(map(np.isnan, columns) if name == "mean" else columns)), name
    assert found.curve.width == wanted.curve.width
    for name in ("x", "plus_inf", "minus_inf"):
        assert same(getattr(found, name), getattr(wanted, name))


@given(POINTS, st.integers(-50, 50), st.integers(0, 60), st.floats(0.5, 90))
def test_a_smoothed_line_is_the_same_in_every_window(cut, points, low, span, width):
    step, value = split(points)
    finite = np.asarray(value, float)
    finite = finite[np.isfinite(finite)]
    rounding = 1e-9 * float(np.abs(finite).max(initial=0.0))  # what cancels leaves an error
    for kind in ("window", "half_life"):
        look = {kind: width, "low": float(low), "high": float(low + span)}
        found = draw_series(cut(step, value), 1000, **look)
        whole = draw_series(cut(step, value), 1000, **{kind: width})
        at = dict(zip(whole.x.tolist(), whole.mean.tolist(), strict=True))
        for x, mean in zip(found.x.tolist(), found.mean.tolist(), strict=True):
            assert math.isnan(mean) == math.isnan(at[x])
            assert math.isnan(mean) or mean == pytest.approx(at[x], rel=1e-9, abs=rounding)


def test_a_logarithmic_axis_has_points_in_each_decade(cut):
    """Parts are equally wide in log2 x; what has no logarithm is counted beside the axis."""
    step = np.concatenate([np.arange(-50.0, 1.0), np.arange(1.0, 1e6)])
    drawing = draw_series(cut(step, np.ones(len(step)), 16384), 1000, log_x=True)
    assert drawing.left_out == 51
    for decade in range(1, 6):
        first = drawing.curve.first_step
        assert ((first >= 10**decade) & (first < 10 ** (decade + 1))).sum() >= 20
    low = draw_series(cut(step, np.ones(len(step)), 16384), 1000, log_x=True, low=-20.0, high=8.0)
    assert low.left_out == 51
    assert low.curve.first_step.tolist() == list(range(1, 9))


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


def assert_means(drawing, plain_of, rounding, least=0.0):
    """Compare every mean with the plain one, to within some rounding of what it is made of."""
    assert len(drawing.mean) == len(drawing.curve)
    for x, mean in zip(drawing.x.tolist(), drawing.mean.tolist(), strict=True):
        wanted, size = plain_of(x)
        if math.isnan(wanted):
            assert math.isnan(mean)
        else:
            assert abs(mean - wanted) <= rounding * size + least


def assert_window(step, value, drawing, window):
    step, value = np.asarray(step, float), np.asarray(value, float)
    assert_means(drawing, lambda x: plain_mean(step, value, x, window), 1e-13)


def noisy(count, seed=7):
    return np.random.default_rng(seed).normal(size=count)


@given(
    st.lists(st.tuples(st.integers(-50, 50), st.floats()), max_size=300),
    st.floats(0.25, 200),
    st.integers(2, 40),
)
def test_every_mean_of_a_smoothed_line_is_that_of_its_points(cut, points, window, limit):
    step, value = split(points)
    drawing = draw_series(cut(step, value), limit, window=window)
    assert_window(step, value, drawing, window)


def plain_average(step, value, x, half_life):
    """Return the average of what is up to x in exact arithmetic, and the size of what is in it."""
    known = [
        (at, one) for at, one in zip(step, value, strict=True) if at <= x and math.isfinite(one)
    ]
    if not known:
        return math.nan, 0.0
    last = max(at for at, _ in known)
    weights = [Fraction(2.0 ** -((last - at) / half_life)) for at, _ in known]
    total = sum(weight * Fraction(one) for weight, (_, one) in zip(weights, known, strict=True))
    size = sum(weight * abs(Fraction(one)) for weight, (_, one) in zip(weights, known, strict=True))
    return float(total / sum(weights)), float(size / sum(weights))


@given(POINTS, st.floats(0.01, 1000), st.integers(2, 30))
def test_an_average_by_age_is_that_of_all_points(cut, points, half_life, limit):
    """Gaps, repeated and falling steps, values of any size; NaN where nothing is before."""
    step, value = split(points)
    drawing = draw_series(cut(step, value), limit, half_life=half_life)
    assert_means(drawing, lambda x: plain_average(step, value, x, half_life), 1e-11, 1e-320)


@pytest.mark.parametrize("most", [sys.float_info.max, -sys.float_info.max])
@pytest.mark.parametrize("count", [2, 600])
def test_a_mean_of_the_greatest_floats_is_one_of_them(cut, count, most):
    points = cut(np.arange(float(count)), np.full(count, most))
    for how in ({}, {"half_life": 3.0}, {"window": 8.0}):
        drawing = draw_series(points, 50, **how)
        assert np.isfinite(drawing.curve.mean).all()
        assert how == {} or np.isfinite(drawing.mean).all()


@given(POINTS, st.lists(st.tuples(st.integers(-40, 400), VALUES), max_size=60), st.integers(2, 40))
@pytest.mark.parametrize("smoothed", [{"window": 8.0}, {"half_life": 3.0}])
def test_changes_since_an_earlier_drawing_complete_it(cut, smoothed, points, more, limit):
    """Whatever is appended, also before the end: both together are the whole."""
    before = draw_series(cut(*split(points)), limit, **smoothed)
    after = draw_series(cut(*split([*points, *more])), limit, **smoothed)
    news = after.since(before.cursor)
    assert len(news.curve) + news.kept == len(after.curve)
    assert is_same(news.after(before), after)
    assert news.after(before).cursor == after.cursor


def test_an_append_sends_the_open_parts_only(cut):
    value = np.random.default_rng(3).normal(size=100_000)
    before = draw_series(cut(np.arange(90_000.0), value[:90_000], 16384), 1000, window=500.0)
    after = draw_series(cut(np.arange(90_100.0), value[:90_100], 16384), 1000, window=500.0)
    assert len(after.curve) > 300
    assert len(after.since(before.cursor).curve) <= 4
    assert len(after.since(after.cursor).curve) == 0


@pytest.mark.parametrize(
    "cursor", ["", "x", "5", "5.zz", "9" * 16 + ".0123456789abcdef", "3." * 99]
)
def test_an_unusable_cursor_brings_everything(cut, cursor):
    drawing = draw_series(cut([0.0, 1.0], [1.0, 2.0]), 10)
    assert is_same(drawing.since(cursor), drawing)
    assert drawing.since(cursor).kept == 0


def test_news_of_another_drawing_are_refused(cut):
    drawing = draw_series(cut([0.0, 1.0], [1.0, 2.0]), 10)
    news = draw_series(cut([0.0, 1.0, 2.0], [1.0, 2.0, 3.0]), 10).since(drawing.cursor)
    assert news.kept == 2
    with pytest.raises(ArgumentError, match="complete drawing"):
        news.after(draw_series(cut([0.0], [1.0]), 10))


def test_a_look_that_cannot_be_is_refused():
    wrong = [{"points": 1}, {"window": 0.0}, {"window": math.nan}, {"half_life": -1.0}]
    wrong += [{"window": 1.0, "half_life": 1.0}, {"low": math.inf}, {"high": 10**400}]
    for look in [*wrong, {"low": 2.0, "high": 1.0}]:
        with pytest.raises(ArgumentError):
            Look(**look).check()


@pytest.fixture
def grouped(cut):
    """Return a function that makes the curve of a group of runs, given their steps and values."""

    def group(runs, points=1000, *, log_x=False):
        def draw(refs, paths, look):
            return [
                RunCurve(*ref, path, draw_series(cut(*runs[int(ref[1])]), points, log_x=log_x))
                for ref in refs
                for path in paths
            ]

        refs = [("p", str(number)) for number in range(len(runs))]
        (curve,) = group_curves(draw, [({}, refs)], ["loss"], Look(points, log_x=log_x))
        return curve

    return group


@pytest.mark.parametrize("runs", [1, 2, 5])
def test_statistics_of_groups_are_those_of_numpy(grouped, runs):
    """Over the runs that have a finite value at an x; the median exactly, as no sum is rounded."""
    rng = np.random.default_rng(runs)
    values = rng.lognormal(sigma=4, size=(runs, 50))
    values[rng.random(values.shape) < 0.3] = np.nan
    values[0, 0], values[-1, 1] = 7.0, np.inf
    curve = grouped([(np.arange(50.0), row) for row in values])
    finite = np.where(np.isfinite(values), values, np.nan)[:, curve.x.astype(int)]
    n = np.isfinite(finite).sum(axis=0)
    assert curve.n.tolist() == n.tolist()
    assert curve.median.tolist() == np.nanmedian(finite, axis=0).tolist()
    assert curve.min.tolist() == np.nanmin(finite, axis=0).tolist()
    assert curve.max.tolist() == np.nanmax(finite, axis=0).tolist()
    assert curve.mean == pytest.approx(np.nanmean(finite, axis=0), rel=1e-12)
    some = n > 1
    if some.any():
        std = np.nanstd(finite[:, some], axis=0, ddof=1)
        assert curve.std[some] == pytest.approx(std, rel=1e-9, abs=1e-12)
    assert np.isnan(curve.std[~some]).all()


@pytest.mark.parametrize("value", [0.1, 1e-4 / 3, -1e300, 5e-324])
def test_equal_runs_have_no_deviation(grouped, value):
    curve = grouped([split([(step, value) for step in range(5)])] * 7)
    assert curve.std.tolist() == [0.0] * 5
    assert curve.mean.tolist() == [value] * 5


@pytest.mark.parametrize("log_x", [False, True])
def test_runs_of_different_lengths_share_one_grid(grouped, log_x):
    """A short run comes in the parts of the long one, and counts where it has points."""
    runs = [(np.arange(1.0, count + 1), noisy(count, count)) for count in (300, 50_000, 7000)]
    curve = grouped(runs, 200, log_x=log_x)
    assert 20 < len(curve) <= 100
    number = {}
    for step, value in runs:
        own = {}
        for at, one in zip(step.tolist(), value.tolist(), strict=True):
            part = math.floor((np.log2(at) if log_x else at) / curve.width)
            own.setdefault(part, []).append(one)
        for part, some in own.items():
            number.setdefault(part, []).append(math.fsum(some) / len(some))
    assert curve.n.tolist() == [len(number[part]) for part in sorted(number)]
    means = [math.fsum(number[part]) / len(number[part]) for part in sorted(number)]
    assert curve.mean == pytest.approx(np.array(means), rel=1e-12, abs=1e-14)
    assert curve.n[0] == 3
    assert curve.n[-1] == 1


def test_times_and_other_series_are_axes(tmp_path):
    count = 30_000
    loss, epoch = noisy(count), np.repeat(np.arange(count / 1000), 1000)
    times = 1_700_000_000 + np.arange(count) * 0.5
    with init_run(root=tmp_path, **QUIET) as run:
        run["loss"].extend(loss.tolist(), steps=range(count), timestamps=times.tolist())
        run["epoch"].extend(epoch[::100].tolist(), steps=range(100, count + 100, 100))
        view = run.session.recorded.view()
        # Seconds since the Unix epoch; the mean is over seconds then.
        drawing = view.drawing("loss", Look(100, x="time", window=60.0))
        assert drawing.curve.first_step[0] == times[0]
        assert drawing.curve.count.sum() == count
        assert drawing.curve.max.max() == loss.max()
        assert_window(times, loss, drawing, 60.0)
        # Relative time begins when the run was created, whichever series it is.
        created = view.attribute("sys/creation_time").value.timestamp()
        drawing = view.drawing("loss", Look(100, x="relative"))
        assert drawing.curve.last_step[-1] == pytest.approx(times[-1] - created, abs=1e-3)
        # The value of another series at the same step, else the last before.
        drawing = view.drawing("loss", Look(1000, x="epoch", window=1.0))
        assert drawing.left_out == 100
        assert drawing.curve.count.sum() == count - 100
        assert_window(np.repeat(epoch[::100], 100)[: count - 100], loss[100:], drawing, 1.0)
