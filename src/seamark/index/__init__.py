"""The local index: a store of what lies below one root, kept up to date from its folders."""

from __future__ import annotations

__all__: list[str] = []
