"""Entry point of Lightning: the callbacks that every new Trainer is offered.

Lightning imports this for every Trainer where Seamark is installed, so it must cost nothing there.
"""

from __future__ import annotations

import sys

__all__ = ["make_callbacks"]


def make_callbacks() -> list[object]:
    """Return a `ResumeCallback` while a `SeamarkLogger` is alive, else nothing. Never raises."""
    module = sys.modules.get("seamark.lightning._resume")
    try:
        return [] if module is None else list(module.make_callbacks())
    except Exception:  # noqa: BLE001 - a Trainer must be possible without us
        return []
