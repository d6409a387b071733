"""Table of the claims on runs and groups."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "claim",
        sa.Column("project", _Text, primary_key=True),
        sa.Column("kind", _Text, primary_key=True),
        sa.Column("name", _Text, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("key", _Text, nullable=False),
        sa.Column("claimant", _Text, nullable=False),
        sa.Column("t_ns", sa.BigInteger, nullable=False),
        sa.Column("released_ns", sa.BigInteger),
    )
