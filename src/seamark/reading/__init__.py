"""Types returned by reads from any source: points, curves, attributes, tables. No I/O."""

from __future__ import annotations
