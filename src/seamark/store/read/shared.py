"""Paths that several runs have, and whether they differ, from which a table picks columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from seamark.reading.catalog import SharedPath
from seamark.store import schema

if TYPE_CHECKING:
    from seamark.store.runs import Store

__all__ = ["SAMPLE", "SharedPath", "shared_paths"]

SAMPLE: Final = 50
"""Of how many runs, the first ones, the paths are looked at."""
_TYPES: Final = ("int", "float", "bool", "string", "float_series")


def shared_paths(
    store: Store, connection: sa.Connection, numbers: Sequence[int], sample: int = SAMPLE
) -> list[SharedPath]:
    """Return which paths the first of these runs have, counted by the database.

    Args:
        store: Which has them.
        connection: Of a transaction of the store.
        numbers: Of runs.
        sample: How many of them are looked at.
    """
    row = schema.attribute.c
    shown = (row["class"], row.number, row.text, row.type)
    spread = [each(column) for column in shown for each in (sa.func.min, sa.func.max)]
    length = sa.func.max(sa.func.coalesce(sa.func.length(row.text), 0))
    statement = (
        sa.select(row.path, sa.func.count(), length, *spread)
        .where(row.run.in_(numbers[:sample]), row.visible == 1, row.type.in_(_TYPES))
        .group_by(row.path)
    )
    rows = store.database.query(connection, statement) if numbers else []
    paths = store.numbers.paths(connection, [number for number, *_ in rows])
    return [
        SharedPath(
            paths[number],
            "float_series" in least_and_most[-2:],
            runs,
            any(least_and_most[at] != least_and_most[at + 1] for at in range(0, 8, 2)),
            longest,
        )
        for number, runs, longest, *least_and_most in rows
    ]
