"""Letting go of objects: from when on one may be removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa

from seamark.server.kept import tables

__all__ = ["REMOVE_NS", "release"]

REMOVE_NS: Final = 24 * 3600 * 10**9
"""How long an object stays that nothing names any more: somebody may be reading it."""
_AT_ONCE: Final = 500

_object, _segment = tables.objects, tables.segments


def release(
    connection: sa.Connection, numbers: Sequence[int], remove_ns: int, *, stale: bool = False
) -> None:
    """Let go of those objects that no segment names any more; those that grow stay as they are.

    Args:
        connection: Of a transaction that writes.
        numbers: Of objects.
        remove_ns: From when on they may be removed, ns since the Unix epoch.
        stale: Whether those that are still named hold bytes that have to go: they are written anew.
    """
    for start in range(0, len(numbers), _AT_ONCE):
        some = list(numbers[start : start + _AT_ONCE])
        named = sa.select(_segment.c.object).where(_segment.c.object.in_(some)).distinct()
        left = {row[0] for row in connection.execute(named)}
        gone = [number for number in some if number not in left]
        if gone:
            connection.execute(
                sa.update(_object)
                .where(_object.c.number.in_(gone), _object.c.state != tables.GROWING)
                .values(state=tables.RELEASED, remove_ns=remove_ns, stale=0)
            )
        if left and stale:
            connection.execute(
                sa.update(_object).where(_object.c.number.in_(sorted(left))).values(stale=1)
            )
