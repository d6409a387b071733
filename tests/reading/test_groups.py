"""What the numbers of a group of runs come to, and the order of groups."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.reading.groups import SIZE, RunGroup, Spread, in_order, spread_of

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(FINITE, st.integers(2, 40), st.lists(FINITE, min_size=3, max_size=10), st.randoms())
def test_equal_numbers_have_no_deviation_and_order_does_not_matter(value, count, values, random):
    found = spread_of([value] * count)
    assert (found.n, found.mean, found.std) == (count, value, 0.0)
    assert spread_of(random.sample(values, len(values))) == spread_of(values)


@given(st.lists(st.floats(), max_size=20))
def test_statistics_are_those_of_numpy(values):
    finite = np.array([one for one in values if math.isfinite(one)])
    found = spread_of([*values, None, "text", True, 10**400])
    assert (found.n, found.odd) == (len(finite), len(values) - len(finite) + 3)
    if not len(finite):
        assert found.median is None
        return
    assert (found.min, found.max) == (finite.min(), finite.max())
    with np.errstate(over="ignore", invalid="ignore"):
        median, mean = np.median(finite), finite.mean()
        std = finite.std(ddof=1) if len(finite) > 1 else None
    if math.isfinite(median):
        assert found.median == median
    else:  # the sum of the two in the middle overflows
        assert found.min <= found.median <= found.max
    size = max(abs(found.min), abs(found.max))
    assert found.min <= found.mean <= found.max
    if math.isfinite(mean):
        assert found.mean == pytest.approx(mean, rel=1e-10, abs=1e-10 * size)
    if std is not None and math.isfinite(std) and (std == 0 or std > 1e-100):
        assert found.std == pytest.approx(std, rel=1e-10, abs=1e-10 * size)


def test_sums_that_would_overflow_do_not():
    found = spread_of([1.6e308, 1.2e308])
    assert (found.mean, found.std) == pytest.approx((1.4e308, 0.4e308 / math.sqrt(2)))


@pytest.mark.parametrize(
    ("values", "distinct", "same"),
    [
        ([1, 1.0, 2], 2, None),
        (["adam", "adam", None], 1, "adam"),
        ([True, 1], 2, None),
        ([math.nan, math.nan], 1, None),
        ([], 0, None),
    ],
)
def test_common_value_and_number_of_values_of_a_group(values, distinct, same):
    found = spread_of(values)
    assert (found.distinct, found.same) == (distinct, same)


def group(name, n, mean):
    spread = Spread(int(mean is not None), 0, mean, None, mean, mean)
    return RunGroup({"by": name}, [("p", str(at)) for at in range(n)], {"loss": spread})


GROUPS = [
    group("b", 2, 0.5),
    group(None, 1, None),
    group(10, 3, -1.0),
    group(float("nan"), 1, 2.0),
    group(9.5, 1, None),
    group("B", 2, 0.5),
]


@pytest.mark.parametrize(
    ("column", "ascending", "order"),
    [
        ("loss", True, [2, 0, 5, 3, 1, 4]),
        ("loss", False, [3, 0, 5, 2, 1, 4]),
        ("by", True, [4, 2, 5, 0, 1, 3]),
        (SIZE, False, [2, 0, 5, 1, 3, 4]),
        ("nowhere", True, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_groups_are_sorted_stably_with_missing_values_last(column, ascending, order):
    assert in_order(GROUPS, column, ascending=ascending) == [GROUPS[at] for at in order]


def test_groups_are_sorted_by_a_statistic():
    wide, narrow = spread_of([0.0, 1.0, 8.0]), spread_of([2.0, 2.0, 2.0])
    groups = [RunGroup({}, [], {"loss": one}) for one in (wide, narrow, spread_of(["a"]))]
    for statistic, first in (("mean", narrow), ("median", wide), ("min", wide), ("max", narrow)):
        found = in_order(groups, "loss", ascending=True, statistic=statistic)
        assert found[0].values["loss"] == first, statistic
        assert found[2] == groups[2]
