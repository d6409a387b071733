"""Reservations: rows that are inserted once. Claims are the first of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_MADE = """
INSERT INTO reservation (project, kind, name, number, holder, t_ns)
SELECT project, kind, name, 2 * number - 1, claimant, t_ns FROM claim
"""
_RELEASED = """
INSERT INTO reservation (project, kind, name, number, holder, t_ns)
SELECT project, kind, name, 2 * number, claimant, released_ns FROM claim
WHERE released_ns IS NOT NULL
"""


def upgrade() -> None:
    """Make the table, and move the newest claim of each run and group to it."""
    op.create_table(
        "reservation",
        sa.Column("project", _Text, primary_key=True),
        sa.Column("kind", _Text, primary_key=True),
        sa.Column("name", _Text, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True),
        sa.Column("holder", _Text, nullable=False),
        sa.Column("t_ns", sa.BigInteger, nullable=False),
    )
    op.execute(_MADE)
    op.execute(_RELEASED)
    op.drop_table("claim")
