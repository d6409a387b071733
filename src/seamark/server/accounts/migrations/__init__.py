"""How the tables of ``account`` came to be, step by step (Alembic)."""
