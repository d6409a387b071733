"""Exact sums of float64, so that no order of adding can change a mean.

Every finite float64 is a whole multiple of 2 ** -1074, so a sum is kept as an int in that unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from seamark.values._sums import SCALE, scaled, scaled_sum

if TYPE_CHECKING:
    from seamark.values.arrays import Floats

__all__ = ["SCALE", "exact_sum", "scaled_sum"]

_SMALL: Final = 512
"""Values that `scaled_sum` adds as quickly."""
_BLOCK: Final = 1 << 15
"""Values taken in one go, so that what is made of them stays in a core's cache."""
_LOW_BITS: Final = 26
_UPPER: Final = (1 << 64) - (1 << _LOW_BITS)
"""Mask of the upper half of a float64: the sign, the exponent and 27 of 53 bits of the mantissa."""
_SAFE: Final = 1 << _LOW_BITS
"""Halves of one exponent that float64 adds without rounding: 27 bits and 26 more make its 53."""
_BINS: Final = 1 << 12
"""Signs and exponents of float64."""
_HUGE: Final = 2.0**972
"""Numbers below it add up to no infinity."""
_DOWN: Final = 1024
"""Powers of two by which the others are brought down."""


def exact_sum(values: Floats) -> int:
    """Return the exact sum of finite float64 (N,), in units of 2 ** -1074."""
    if len(values) < _SMALL:
        return scaled_sum(values.tolist())
    if max(values.max(), -values.min()) < _HUGE:
        parts = (values[start : start + _SAFE] for start in range(0, len(values), _SAFE))
        return sum(map(_binned_sum, parts))
    import numpy as np

    huge = np.abs(values) >= _HUGE
    return exact_sum(values[~huge]) + (exact_sum(np.ldexp(values[huge], -_DOWN)) << _DOWN)


def _binned_sum(values: Floats) -> int:
    """Do as `exact_sum`, for at most `_SAFE` numbers below `_HUGE`.

    Numbers of one sign and exponent go to one bin, upper and lower halves apart. Each half is a
    short multiple of one power of two, so nothing is rounded when they are added as floats.
    """
    import numpy as np

    bins = np.zeros((2, _BINS))
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK]
        bits = block.view(np.uint64)
        exponents = (bits >> 52).view(np.int64)
        upper = (bits & _UPPER).view(np.float64)
        bins[0] += np.bincount(exponents, upper, _BINS)
        bins[1] += np.bincount(exponents, block - upper, _BINS)
    return sum(map(scaled, bins[bins != 0].tolist()))
