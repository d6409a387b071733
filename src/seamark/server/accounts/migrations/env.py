"""Alembic environment; runs the migrations in the transaction started by `migrate`."""

from __future__ import annotations

from alembic import context

from seamark.server.accounts.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
