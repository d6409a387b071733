"""What reads return, wherever they read from: points, curves, attributes, tables. No I/O."""

from __future__ import annotations

__all__: list[str] = []
