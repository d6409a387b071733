"""Parents of tokens: revoking a limited token also revokes the tokens created with it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the column; of tokens that are there already it is not known."""
    op.add_column("token", sa.Column("made_with", _Text))
