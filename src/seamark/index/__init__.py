"""Local index: a store of the runs below one root, updated from their folders."""

from __future__ import annotations
