"""What says that a database gave back other bytes than it was given."""

from __future__ import annotations

__all__ = ["DamageError"]


class DamageError(Exception):
    """Packed bytes are not those that were stored: the database that holds them is damaged."""
