"""Sums of float64 that no order and no rounding can change."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.store.fold import registers
from seamark.store.fold.registers import SCALE, exact_sum, scaled_sum

FINITE = st.floats(allow_nan=False, allow_infinity=False)
EDGES = [0.0, 5e-324, 1.0, sys.float_info.min, sys.float_info.max, registers._SUM_LIMIT]
EDGES += [math.nextafter(edge, 0.0) for edge in EDGES]
ODD = st.sampled_from([*EDGES, *(-edge for edge in EDGES), math.nextafter(1.0, 2.0)])


def by_fractions(values):
    """Return the sum in units of 2 ** -1074, by the slowest way there is."""
    total = sum(map(Fraction, values), Fraction(0)) * 2**SCALE
    assert total.denominator == 1
    return total.numerator


@pytest.fixture(params=[False, True], ids=["as it is", "all by bins"])
def bins(request, monkeypatch):
    """Bins for the fewest values, many blocks and many parts; else what is small goes another way.

    It has to be 1 at least: parts that are brought down must come to an end.
    """
    if request.param:
        monkeypatch.setattr(registers, "_MIN_BINNED", 1)
        monkeypatch.setattr(registers, "_BLOCK_VALUES", 3)
        monkeypatch.setattr(registers, "_MAX_EXACT_TERMS", 7)


@pytest.mark.usefixtures("bins")
class TestExactSum:
    """The sum of an array is the sum of its list, bit for bit."""

    @given(st.lists(FINITE | ODD, max_size=40))
    def test_of_any_numbers(self, values):
        array = np.array(values, np.float64)
        assert exact_sum(array) == scaled_sum(values) == by_fractions(values)

    @given(st.lists(FINITE | ODD, min_size=1, max_size=20), st.randoms(use_true_random=False))
    def test_small_numbers_survive_large_ones_that_cancel(self, values, random):
        both = [*values, *(-value for value in values), 5e-324]
        random.shuffle(both)
        assert exact_sum(np.array(both)) == 1


def test_the_longest_mantissas_overflow_no_bin():
    value = math.nextafter(2.0, 0.0)
    count = 3 * registers._BLOCK_VALUES + 5
    assert exact_sum(np.full(count, value)) == count * scaled_sum([value])
