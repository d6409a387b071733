"""Packed columns come back bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from seamark.store.groups import pack_floats, pack_ints, unpack_floats, unpack_ints


def bits(values):
    return values.view(np.int64).tolist()


@given(hnp.arrays(np.float64, st.integers(0, 50)))
def test_floats_come_back_bit_for_bit(values):
    """NaN payloads, signs of zero and subnormal numbers included."""
    assert bits(unpack_floats(pack_floats(values))) == bits(values)


@given(hnp.arrays(np.int64, st.integers(0, 50)))
def test_ints_come_back_exactly(values):
    assert unpack_ints(pack_ints(values)).tolist() == values.tolist()


def test_steps_that_count_up_take_no_room():
    assert len(pack_floats(np.arange(1_000_000.0))) < 40


@pytest.mark.parametrize(("series", "limit"), [(10, 5.0), (3, 5.0)])
def test_float32_losses_take_at_most_five_bytes_a_point_with_steps_and_times(series, limit):
    """The target of the design, on noisy curves with jittery times."""
    rng = np.random.default_rng(0)
    size = 50_000
    shared = len(pack_floats(np.arange(float(size))))
    shared += len(pack_ints(np.cumsum(rng.normal(5e6, 2e5, size)).astype(np.int64)))
    values = 0
    for _ in range(series):
        curve = 2 / np.sqrt(1 + np.arange(size)) * (1 + 0.1 * rng.standard_normal(size))
        values += len(pack_floats(curve.astype(np.float32).astype(np.float64)))
    assert (shared + values) / (size * series) <= limit
