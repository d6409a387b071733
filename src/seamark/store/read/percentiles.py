"""Percentiles of a float series."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from seamark.errors import ArgumentError
from seamark.store.read.series import Mark, read_floats_part

if TYPE_CHECKING:
    import sqlalchemy as sa

    from seamark.store.read.forks import Share
    from seamark.store.runs import Store

__all__ = ["read_percentiles"]

_AT_ONCE: Final = 1 << 20
"""Points; of a long series, steps and times of all would not fit into memory."""
_MOST: Final = 100


def read_percentiles(
    store: Store,
    connection: sa.Connection,
    shares: Sequence[Share],
    path: str,
    percents: Sequence[float],
) -> list[float]:
    """Return percentiles of the finite values of a float series; NaN if it has none.

    Between two values they are interpolated linearly, as by ``numpy.percentile``.

    Args:
        store: Holds the groups.
        connection: Of the transaction in which the run was loaded.
        shares: Of which runs it is made, itself first.
        path: Of the series.
        percents: From 0 (the minimum) to 100 (the maximum).

    Raises:
        ArgumentError: If a percentage cannot be one.
    """
    import numpy as np

    if wrong := [one for one in percents if not 0 <= one <= _MOST]:
        msg = f"percents: expected numbers from 0 to 100, got {wrong[0]!r}"
        raise ArgumentError(msg)
    values = [np.empty(0)]
    mark: Mark | None = None
    while True:
        points, _, mark = read_floats_part(store, connection, shares, path, _AT_ONCE, after=mark)
        values.append(points.value[np.isfinite(points.value)])
        if mark is None:
            break
    finite = np.concatenate(values)
    if not len(finite):
        return [math.nan] * len(percents)
    made: list[float] = np.percentile(finite, list(percents)).tolist()
    return made
