"""What the numbers of a group of runs come to, and the order of groups."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.reading.groups import SIZE, RunGroup, Spread, in_order, spread_of

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(FINITE, st.integers(2, 40))
def test_equal_numbers_have_no_deviation(value, count):
    """However their mean is rounded: a column of one learning rate is no spread of 4e-22."""
    found = spread_of([value] * count)
    assert (found.n, found.mean, found.std) == (count, value, 0.0)


@given(st.lists(st.floats(-1e100, 1e100), min_size=2, max_size=20))
def test_the_deviation_is_that_of_exact_arithmetic(values):
    """To ten digits, of numbers near each other and far apart."""
    exact = [Fraction(one) for one in values]
    mean = sum(exact) / len(exact)
    variance = sum((one - mean) ** 2 for one in exact) / (len(exact) - 1)
    size = max(map(abs, exact)) or Fraction(1)
    expected = math.sqrt(variance / size**2) * float(size)
    assert spread_of(values).std == pytest.approx(expected, rel=1e-10, abs=1e-300)


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
        ("by", False, [0, 5, 2, 4, 1, 3]),
        (SIZE, True, [1, 3, 4, 0, 5, 2]),
        (SIZE, False, [2, 0, 5, 1, 3, 4]),
        ("nowhere", True, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_groups_are_ordered_by_what_they_show(column, ascending, order):
    """Those that show nothing are last in either direction; equal ones stay as they stand."""
    assert in_order(GROUPS, column, ascending=ascending) == [GROUPS[at] for at in order]
