"""Check whether the environment asks for errors and warnings only."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["is_quiet"]

_NO: Final = frozenset({"", "0", "false", "no", "off"})


def is_quiet() -> bool:
    """Return whether ``SEAMARK_QUIET`` says so: anything but 0, false, no, off and nothing."""
    return os.environ.get("SEAMARK_QUIET", "").strip().lower() not in _NO
