"""The query language, and which runs of a store match."""

from __future__ import annotations

__all__: list[str] = []
