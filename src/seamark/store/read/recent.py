"""Paths of runs that were recorded to recently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from seamark.store import schema
from seamark.store.runs import numbers_of

if TYPE_CHECKING:
    from seamark.store.runs import Store

__all__ = ["recent_paths"]

_MARGIN_NS: Final = 60 * 10**9
"""Clocks differ, and what is sent takes its time."""
_PART: Final = 900
_row: Final = schema.attribute.c


def recent_paths(
    store: Store, connection: sa.Connection, refs: Sequence[tuple[str, str]], since_ns: int
) -> dict[tuple[str, str], list[str]]:
    """Return the paths of runs that hold something recorded since a moment, sorted.

    Args:
        store: Which has the runs.
        connection: Of a transaction of the store.
        refs: (project, run id) of the runs; of one without such a path there is nothing.
        since_ns: Nanoseconds since the Unix epoch; up to a minute before counts, too.
    """
    numbers = numbers_of(store, connection, refs) if refs else {}
    listed = list(numbers)
    found: dict[tuple[str, str], set[int]] = {}
    for start in range(0, len(listed), _PART):
        statement = sa.select(_row.run, _row.path).where(
            _row.run.in_(listed[start : start + _PART]), _row.t >= since_ns - _MARGIN_NS
        )
        for run, path in store.database.query(connection, statement):
            found.setdefault(numbers[run], set()).add(path)
    names = store.numbers.paths(connection, set().union(*found.values()))
    return {ref: sorted(names[path] for path in paths) for ref, paths in found.items()}
