"""What readers ask: journals folded into tables, series in chunks, queries.

Everything here is derived from journals and can be thrown away at any time.
"""

from __future__ import annotations

__all__: list[str] = []
