"""Error for a database that returns bytes other than those that were stored."""

from __future__ import annotations

__all__ = ["DamageError"]


class DamageError(Exception):
    """Packed bytes are not those that were stored: the database that holds them is damaged."""
