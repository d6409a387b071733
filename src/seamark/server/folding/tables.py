"""Additional tables in the store of a server: positions, leases and changes.

They are in the database of the folded runs, so that the position of a run is committed together
with what was folded.
"""

from __future__ import annotations

import sqlalchemy as sa

__all__ = ["change", "changed", "folded", "lease", "metadata"]

metadata = sa.MetaData()
_Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

folded = sa.Table(
    "folded",
    metadata,
    sa.Column("project", _Text, primary_key=True),
    sa.Column("run", _Text, primary_key=True),
    # Bytes of all journals that were kept when they were folded; see seamark.server.positions.
    sa.Column("position", sa.BigInteger, nullable=False),
)

lease = sa.Table(
    "lease",
    metadata,
    sa.Column("project", _Text, primary_key=True),
    sa.Column("run", _Text, primary_key=True),
    sa.Column("owner", _Text, nullable=False),  # of a process, drawn at its start
    sa.Column("until", sa.BigInteger, nullable=False),  # ns since the Unix epoch, by the database
)

changed = sa.Table(
    "changed",
    metadata,
    sa.Column("project", _Text, primary_key=True),
    sa.Column("run", _Text, primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False, index=True),  # of its last change
    sa.Column("gone", sa.SmallInteger, nullable=False),  # whether the run is no more
)
"""Which runs changed when; see `seamark.server.changes`."""

change = sa.Table(
    "change",
    metadata,
    sa.Column("key", _Text, primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
)
"""One row: the number of the last change."""
