"""Migrations of the tables of ``account`` (Alembic)."""
