"""Database for readers: journals folded into tables, series in chunks, and queries.

All its data is derived from journals and can be deleted at any time.
"""

from __future__ import annotations
