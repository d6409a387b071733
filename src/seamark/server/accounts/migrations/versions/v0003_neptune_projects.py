"""Keys of projects and numbers of runs, as Neptune's client shows them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "neptune_project",
        sa.Column("path", _Text, primary_key=True),
        sa.Column("key", _Text, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
    )
