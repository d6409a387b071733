"""Initial tables; migrations 0001 to 0005 belonged to development versions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = None

_Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_Serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "fact",
        sa.Column("key", _Text, primary_key=True),
        sa.Column("value", _Text, nullable=False),
    )
    op.create_table(
        "user",
        sa.Column("name", _Text, primary_key=True),
        sa.Column("service", sa.Boolean, nullable=False),
        sa.Column("admin", sa.Boolean, nullable=False),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
        sa.Column("disabled_ns", sa.BigInteger),
    )
    op.create_table(
        "token",
        sa.Column("id", _Text, primary_key=True),
        sa.Column("hash", _Text, nullable=False, unique=True),
        sa.Column("user", _Text, sa.ForeignKey("user.name"), nullable=False, index=True),
        sa.Column("label", _Text, nullable=False),
        sa.Column("role", sa.SmallInteger),
        sa.Column("project", _Text),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
        sa.Column("created_by", _Text, nullable=False),
        sa.Column("expires_ns", sa.BigInteger),
        sa.Column("revoked_ns", sa.BigInteger),
        sa.Column("used_ns", sa.BigInteger),
        sa.Column("made_with", _Text),
    )
    op.create_table(
        "member",
        sa.Column("user", _Text, sa.ForeignKey("user.name"), primary_key=True),
        sa.Column("project", _Text, primary_key=True),
        sa.Column("role", sa.SmallInteger, nullable=False),
    )
    op.create_table(
        "project",
        sa.Column("path", _Text, primary_key=True),
        sa.Column("visibility", _Text, nullable=False),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
        sa.Column("created_by", _Text, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("id", _Serial, primary_key=True, autoincrement=True),
        sa.Column("t_ns", sa.BigInteger, nullable=False, index=True),
        sa.Column("who", _Text, nullable=False),
        sa.Column("token", _Text, nullable=False),
        sa.Column("address", _Text, nullable=False),
        sa.Column("action", _Text, nullable=False),
        sa.Column("subject", _Text, nullable=False),
        sa.Column("detail", _Text, nullable=False),
    )
    op.create_table(
        "tombstone",
        sa.Column("project", _Text, primary_key=True),
        sa.Column("run", _Text, primary_key=True),
        sa.Column("t_ns", sa.BigInteger, nullable=False),
        sa.Column("who", _Text, nullable=False),
    )
    op.create_table(
        "neptune_project",
        sa.Column("path", _Text, primary_key=True),
        sa.Column("key", _Text, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "reservation",
        sa.Column("project", _Text, primary_key=True),
        sa.Column("kind", _Text, primary_key=True),
        sa.Column("name", _Text, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True),
        sa.Column("holder", _Text, nullable=False),
        sa.Column("t_ns", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "view",
        sa.Column("project", _Text, primary_key=True),
        sa.Column("name", _Text, primary_key=True),
        sa.Column("address", _Text, nullable=False),
        sa.Column("default", sa.Boolean, nullable=False),
        sa.Column("by", _Text, nullable=False),
        sa.Column("t_ns", sa.BigInteger, nullable=False),
    )
