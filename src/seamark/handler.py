"""Neptune's ``handler``: where scripts import the class from."""

from __future__ import annotations

from seamark.run.handler import Handler

__all__ = ["Handler"]
