"""Durations and ages in words."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["age_words", "duration_words"]

_TENTH_MS: Final = 100
_SOON_S: Final = 10
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400


def age_words(seconds: float) -> str:
    """Return how long ago something was: ``"just now"``, ``"5 min ago"``, ``"in 2 h"``.

    Args:
        seconds: Since then; negative for what is still to come.
    """
    size = abs(seconds)
    if size < _SOON_S:
        return "just now"
    if size < _MINUTE_S:
        words = f"{int(size)} s"
    elif size < _HOUR_S:
        words = f"{int(size // _MINUTE_S)} min"
    elif size < 2 * _DAY_S:
        words = f"{int(size // _HOUR_S)} h"
    elif size < 365 * _DAY_S:
        words = f"{int(size // _DAY_S)} d"
    else:
        words = f"{size / (365.25 * _DAY_S):.1f} y"
    return f"{words} ago" if seconds > 0 else f"in {words}"


def duration_words(seconds: float) -> str:
    """Return a duration with its two greatest units: ``"15 ms"``, ``"0.4 s"``, ``"2 min 3 s"``."""
    if not math.isfinite(seconds) or seconds < 0:
        return "?"
    if 0 < round(seconds * 1000) < _TENTH_MS:
        return f"{round(seconds * 1000)} ms"
    if round(seconds, 1) < _SOON_S:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE_S:
        return f"{whole} s"
    for size, unit, lower_size, lower in (
        (_DAY_S, "d", _HOUR_S, "h"),
        (_HOUR_S, "h", _MINUTE_S, "min"),
        (_MINUTE_S, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // lower_size
            return f"{whole // size} {unit} {rest} {lower}" if rest else f"{whole // size} {unit}"
    raise AssertionError(whole)  # pragma: no cover - seconds were handled above
