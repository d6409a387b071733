"""Exact sums of floats: every finite float64 is a whole multiple of 2 ** -1074."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

__all__ = ["SCALE", "scaled", "scaled_sum"]

SCALE: Final = 1074
"""The unit is 2 ** -SCALE."""


def scaled_sum(values: Sequence[float]) -> int:
    """Return the exact sum of finite floats, in units of 2 ** -1074.

    ``fsum`` gives the sum rounded once; what it left out is summed again until nothing is left.
    """
    if len(values) == 1:
        return scaled(values[0])
    rest = list(values)
    total = 0
    try:
        while part := math.fsum(rest):
            total += scaled(part)
            rest.append(-part)
    except OverflowError:
        return sum(map(scaled, values))
    return total


def scaled(value: float) -> int:
    """Return a finite float in units of 2 ** -1074, exactly."""
    mantissa, exponent = math.frexp(value)
    shift = exponent - 53 + SCALE
    whole = int(mantissa * (1 << 53))
    return (
        whole << shift if shift >= 0 else whole >> -shift
    )  # a subnormal number: the bits shifted out are zero
