"""Reads: from a store, whatever database and whatever sources it has."""

from __future__ import annotations

__all__: list[str] = []
