"""Types that reads return, whatever the source: points, curves, attributes, tables. No I/O."""

from __future__ import annotations

__all__: list[str] = []
