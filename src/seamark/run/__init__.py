"""Runs, and the parts of which they consist."""

from __future__ import annotations

from typing import Any

_AS_IN_NEPTUNE = ("Run", "init_run")
"""Names that scripts written for old clients import from ``neptune.new.run``."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _AS_IN_NEPTUNE:
        return getattr(import_module(f"{__name__}.run"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
