"""Reading from a store, independent of its database and its sources."""

from __future__ import annotations
