"""Tables of stored journals (database ``kept``), and the release of objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa

__all__ = [
    "CLAIMED",
    "GROWING",
    "LIVE",
    "REMOVE_NS",
    "journals",
    "metadata",
    "objects",
    "release",
    "runs",
    "segments",
]


metadata = sa.MetaData()
_Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # only that counts by itself there
LIVE = 0
"""State of an object that segments name."""
RELEASED = 1
"""State of one that nothing names any more; its row goes with it."""
CLAIMED = 2
"""State of one that nobody had named in time. Its row stays, so that nobody does so later."""
GROWING = 3
"""State of one to which bytes are added: it stays whatever names it."""
runs = sa.Table(
    "kept_run",
    metadata,
    sa.Column("number", _Number, primary_key=True, autoincrement=True),
    # Project path, a slash, and the run id, which has none.
    sa.Column("key", _Text, nullable=False, unique=True),
    sa.Column("project", _Text, nullable=False),
    sa.Column("run", _Text, nullable=False),
    # Bytes of all journals, gaps included; only grows.
    sa.Column("position", sa.BigInteger, nullable=False),
    # Since when more is kept than somebody has noted as folded, ns since the epoch.
    sa.Column("waiting_ns", sa.BigInteger),
    # Bytes that lie in objects which several runs share, and when the last of them came.
    sa.Column("loose", sa.BigInteger, nullable=False),
    sa.Column("heard_ns", sa.BigInteger, nullable=False),
    # When it was purged, ns since the epoch: nothing of it is taken any more.
    sa.Column("purged_ns", sa.BigInteger),
)
sa.Index(
    "kept_run_waiting",
    runs.c.waiting_ns,
    sqlite_where=runs.c.waiting_ns.isnot(None),
    postgresql_where=runs.c.waiting_ns.isnot(None),
)
sa.Index(
    "kept_run_loose",
    runs.c.loose,
    sqlite_where=runs.c.loose > 0,
    postgresql_where=runs.c.loose > 0,
)
sa.Index("kept_run_of_project", runs.c.project, runs.c.run)
journals = sa.Table(
    "kept_journal",
    metadata,
    sa.Column("number", _Number, primary_key=True, autoincrement=True),
    sa.Column("run", sa.BigInteger, nullable=False),
    sa.Column("name", _Text, nullable=False),
    # Bytes that are kept, gaps included. It advances by compare-and-set.
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("heard_ns", sa.BigInteger, nullable=False),
    # How far its writer's clock was ahead of ours at worst, ns; 0 if by less than an hour.
    sa.Column("ahead_ns", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("run", "name"),
)
objects = sa.Table(
    "kept_object",
    metadata,
    sa.Column("number", _Number, primary_key=True, autoincrement=True),
    sa.Column("name", _Text, nullable=False, unique=True),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("state", sa.SmallInteger, nullable=False),
    # From when on it may be removed, ns since the epoch.
    sa.Column("remove_ns", sa.BigInteger),
    # Whether it holds bytes of a run that was purged, beside others.
    sa.Column("stale", sa.SmallInteger, nullable=False),
)
sa.Index(
    "kept_object_remove",
    objects.c.remove_ns,
    sqlite_where=objects.c.remove_ns.isnot(None),
    postgresql_where=objects.c.remove_ns.isnot(None),
)
sa.Index(
    "kept_object_stale",
    objects.c.stale,
    sqlite_where=objects.c.stale > 0,
    postgresql_where=objects.c.stale > 0,
)
segments = sa.Table(
    "kept_segment",
    metadata,
    sa.Column("journal", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("offset", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("length", sa.BigInteger, nullable=False),
    # Which object holds it; the one that says so, for a declared gap.
    sa.Column("object", sa.BigInteger, nullable=False, index=True),
    # Where in the object, bytes; none for a declared gap.
    sa.Column("place", sa.BigInteger),
    # When the last of it came, ns since the epoch by the clock of the server.
    sa.Column("heard_ns", sa.BigInteger, nullable=False),
    # Whether it still shares its object with other runs.
    sa.Column("loose", sa.SmallInteger, nullable=False),
)
REMOVE_NS: Final = 24 * 3600 * 10**9
"""How long an object stays that nothing names any more: somebody may be reading it."""
_AT_ONCE: Final = 500
_object, _segment = objects, segments


def release(
    connection: sa.Connection, numbers: Sequence[int], remove_ns: int, *, stale: bool = False
) -> None:
    """Let go of those objects that no segment names any more; those that grow stay as they are.

    They may be removed from `remove_ns` on, ns since the Unix epoch. With `stale`, those that are
    still named hold bytes that have to go, and are written anew.
    """
    for start in range(0, len(numbers), _AT_ONCE):
        some = list(numbers[start : start + _AT_ONCE])
        named = sa.select(_segment.c.object).where(_segment.c.object.in_(some)).distinct()
        left = {row[0] for row in connection.execute(named)}
        gone = [number for number in some if number not in left]
        if gone:
            connection.execute(
                sa.update(_object)
                .where(_object.c.number.in_(gone), _object.c.state != GROWING)
                .values(state=RELEASED, remove_ns=remove_ns, stale=0)
            )
        if left and stale:
            connection.execute(
                sa.update(_object).where(_object.c.number.in_(sorted(left))).values(stale=1)
            )
