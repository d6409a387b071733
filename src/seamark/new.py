"""Counterpart of the client's package ``neptune.new``: ``import seamark.new as neptune``."""

from __future__ import annotations

import sys
from typing import Any

import seamark
from seamark.neptune.finder import Finder

__path__: list[str] = []
sys.meta_path.insert(0, Finder(__name__))


def __getattr__(name: str) -> Any:
    return getattr(seamark, name)
