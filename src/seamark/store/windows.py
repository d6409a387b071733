"""Means over windows that overlap, each from what lies inside it and from nothing else.

A difference of two running sums would be quicker, and wrong: after one value of 1e30 every later
mean would be what that value left of the digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from seamark.store.stretches import SMALL, enlarge

if TYPE_CHECKING:
    from seamark.values.arrays import Floats, Ints

__all__ = ["means_of_ranges"]


def means_of_ranges(means: Floats, counts: Ints, low: Ints, high: Ints) -> Floats:
    """Return the means over ranges of stretches; NaN where no value is in the range.

    Args:
        means: Of the values in each stretch, (K,); not looked at where there are none.
        counts: How many values each stretch has, (K,).
        low: First stretch of each range, (N,).
        high: First stretch behind each range, (N,).
    """
    known = np.where(counts > 0, means, 0.0)
    number = _sums(counts.astype(np.float64), low, high)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = _sums(known * counts, low, high) / number
        lost = (number > 0) & ~np.isfinite(found)  # the sum is too large, the mean cannot be
        if lost.any():
            scaled = _sums(known * SMALL * counts, low[lost], high[lost]) / number[lost]
            found[lost] = enlarge(scaled)
    return np.where(number > 0, found, np.nan)


def _sums(values: Floats, low: Ints, high: Ints) -> Floats:
    """Return the sum of each range of values, from sums of blocks of 1, 2, 4, ... that are in it.

    Two blocks of a size are enough for each range, one at either end.
    """
    total = np.zeros(len(low))
    low, high, blocks = low.copy(), np.maximum(low, high), values
    while (low < high).any():
        first = (low < high) & (low % 2 == 1)
        total[first] += blocks[low[first]]
        low += first
        last = (low < high) & (high % 2 == 1)
        high -= last
        total[last] += blocks[high[last]]
        low, high = low // 2, high // 2
        blocks = np.append(blocks, 0.0) if len(blocks) % 2 else blocks
        blocks = blocks[0::2] + blocks[1::2]
    return total
