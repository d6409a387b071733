"""Exact sums of floats, so that no order of adding can change a mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

__all__ = ["SCALE", "exact_sum", "scaled_sum"]

SCALE: Final = 1074
"""Every finite float64 is a whole multiple of 2 ** -1074."""


def exact_sum(values: np.ndarray[Any, np.dtype[np.float64]]) -> int:
    """Return the exact sum of finite floats, in units of 2 ** -1074."""
    return scaled_sum(values.tolist())


def _scaled(value: float) -> int:
    mantissa, exponent = math.frexp(value)
    shift = exponent - 53 + SCALE
    whole = int(mantissa * (1 << 53))
    return (
        whole << shift if shift >= 0 else whole >> -shift
    )  # a subnormal number: the bits shifted out are zero


def scaled_sum(values: Sequence[float]) -> int:
    """Return the exact sum of finite floats, in units of 2 ** -1074.

    ``fsum`` gives the sum rounded once; what it left out is summed again until nothing is left.
    """
    if len(values) == 1:
        return _scaled(values[0])
    rest = list(values)
    total = 0
    try:
        while part := math.fsum(rest):
            total += _scaled(part)
            rest.append(-part)
    except OverflowError:
        return sum(map(_scaled, values))
    return total
