"""Query language, and selection of the matching runs of a store."""

from __future__ import annotations
