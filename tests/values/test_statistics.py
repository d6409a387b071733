"""`Statistics`, `Last` and `Ring`: exact whatever comes, and the same after any journey."""

from __future__ import annotations

import math
import pickle
import random
import threading
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seamark import Last, Ring, Statistics
from seamark.errors import ArgumentError, ValueKindError
from seamark.values.statistics import load_aggregate

NUMBERS = st.one_of(
    st.floats(-1e6, 1e6), st.floats(1e9, 1e9 + 1), st.sampled_from([0.0, 1e-300, -1e15, 1e15])
)
SMALLEST = Fraction(2) ** -1074
"""The float that is next to zero."""


def seen(numbers, skip=0):
    found = Statistics(skip=skip)
    for number in numbers:
        found.update(number)
    return found


def close(given, exact, parts=1e-13):
    return abs(Fraction(given) - exact) <= Fraction(parts) * abs(exact)


@settings(max_examples=60)
@given(st.lists(NUMBERS, min_size=1, max_size=60), st.integers(0, 3), st.randoms())
@example([0.0, 1e-300], 0, random.Random(0))
@example([1e-160, 3e-160, 2e-162], 0, random.Random(0))
def test_statistics_are_those_of_exact_arithmetic(numbers, skip, rng):
    cut = rng.randrange(len(numbers) + 1)
    whole, merged = seen(numbers, skip), seen(numbers[:cut], skip)
    merged.merge(seen(numbers[cut:], max(0, skip - cut)))
    exact = [Fraction(number) for number in numbers[skip:]]
    for found in (whole, merged):
        assert (found.count, found.skipped) == (len(exact), min(skip, len(numbers)))
        if not exact:
            assert math.isnan(found.mean)
            continue
        mean = sum(exact) / len(exact)
        assert (found.sum, found.mean) == (float(sum(exact)), float(mean))
        ends = (found.min, found.max, found.first, found.last)
        kept = numbers[skip:]
        assert ends == (min(kept), max(kept), kept[0], kept[-1])
        if len(exact) > 1:
            variance = sum((each - mean) ** 2 for each in exact) / (len(exact) - 1)
            # Where all distances are smaller than the roundings of floats, so is the variance. And
            # no float is closer to zero than 2 ** -1074: each square, and what a merge adds for the
            # distance of two means, times up to a quarter of the count, is off by half of it.
            floor = (Fraction(2) ** -52 * max(map(abs, exact))) ** 2 + len(exact) * SMALLEST
            assert close(found.var, variance) or abs(Fraction(found.var) - variance) < floor
            assert found.std == math.sqrt(found.var)


def test_numbers_that_are_not_finite_are_counted_apart():
    found = seen([1.0, math.nan, 3.0, math.inf, -math.inf])
    assert (found.count, found.mean, found.not_finite, found.last) == (2, 2.0, 3, 3.0)
    huge = seen([1e308, 1e308, -1e308])
    assert (huge.sum, huge.var) == (1e308, math.inf)
    assert Statistics.from_dict(huge.state_dict()).var == math.inf
    assert seen([1e308, 1e308]).sum == math.inf
    empty = Statistics()
    assert (empty.count, empty.std, empty.sum) == (0, 0.0, 0.0)


@given(st.lists(st.floats(), max_size=30), st.integers(0, 3))
def test_state_arrays_and_pickles_keep_statistics_whole(numbers, skip):
    found = seen(numbers, skip)
    exact = Statistics.from_dict(found.state_dict())
    of_array = Statistics.from_array(found.to_array())  # its sum has 159 bits
    for again in (exact, of_array, pickle.loads(pickle.dumps(found))):
        assert {**again.state_dict(), "sum": 0} == {**found.state_dict(), "sum": 0}
        assert again.sum == found.sum or abs(again.sum - found.sum) <= 1e-15 * abs(found.sum)
    for one in (found, exact):
        one.update(4.0)
    assert exact.state_dict() == found.state_dict()


@pytest.mark.parametrize(
    ("kind", "state", "complaint"),
    [
        ("mode", {}, "kind: expected one of statistics, last, ring"),
        ("statistics", [], "from_dict: expected what state_dict"),
        ("statistics", {"count": -1}, "count: expected a whole number"),
        ("statistics", {"count": 1, "squares": [-1, 0]}, "squares: expected a number of at"),
        ("statistics", {"count": 1, "squares": [0, 0], "min": "x"}, "min: expected a finite"),
        ("ring", {"size": 10**9, "count": 0, "values": []}, "size: expected a whole number"),
        ("ring", {"size": 1, "count": 2, "values": [1, 2]}, "values: expected at most 1"),
    ],
)
def test_states_of_strangers_are_checked(kind, state, complaint):
    with pytest.raises(ArgumentError, match=complaint):
        load_aggregate(kind, state)


def test_values_that_are_no_numbers_are_refused_at_once():
    for each in (Statistics(), Last(), Ring(2)):
        with pytest.raises(ValueKindError, match="str"):
            each.update("1.5")
        assert each.count == 0
    for skip in (-1, 1.5, True, "3"):
        with pytest.raises(ArgumentError, match="skip: expected a whole number"):
            Statistics(skip=skip)
    with pytest.raises(ArgumentError, match="merge: expected Statistics"):
        Statistics().merge(Last())
    with pytest.raises(ArgumentError, match="expected 13 numbers, got 2"):
        Statistics.from_array([1, 2])


def test_ring_keeps_the_last_and_counts_all():
    one, other = Ring(3), Ring(3)
    for at in range(5):
        one.update(at)
    other.update(9)
    one.merge(other)
    assert (one.values, one.last, one.count) == ([3.0, 4.0, 9.0], 9.0, 6)
    assert Ring.from_dict(one.state_dict()).to_dict() == one.to_dict()
    last = Last()
    last.update(math.nan)
    assert math.isnan(Last.from_dict(last.state_dict()).last)


def test_threads_lose_nothing():
    found = Statistics()

    def work():
        for at in range(20_000):
            found.update(1.0)
            if at % 500 == 0:
                _ = found.mean

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found._waiting) < 10_000  # none is kept
    assert (found.count, found.sum) == (80_000, 80_000.0)
