"""Which token made which: who revokes one that is limited ends those that it made."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the column; of tokens that are there already it is not known."""
    op.add_column("token", sa.Column("made_with", _Text))
