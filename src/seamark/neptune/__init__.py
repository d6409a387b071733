"""Seamark for scripts with ``import neptune``; see `install`."""

from __future__ import annotations

from seamark.neptune.finder import install

__all__ = ["install"]
