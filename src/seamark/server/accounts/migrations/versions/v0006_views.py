"""Table of the views of projects."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "view",
        sa.Column("project", _Text, primary_key=True),
        sa.Column("name", _Text, primary_key=True),
        sa.Column("address", _Text, nullable=False),
        sa.Column("default", sa.Boolean, nullable=False),
        sa.Column("by", _Text, nullable=False),
        sa.Column("t_ns", sa.BigInteger, nullable=False),
    )
