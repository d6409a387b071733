"""Counterpart of Neptune's module ``version``, with the version of Seamark."""

from __future__ import annotations

from seamark import __version__

__all__ = ["__version__"]
