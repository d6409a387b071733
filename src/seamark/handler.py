"""Module from which Neptune's scripts import the class ``Handler``."""

from __future__ import annotations

from seamark.run.handler import Handler

__all__ = ["Handler"]
