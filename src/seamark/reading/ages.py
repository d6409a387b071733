"""How long ago something was, in words."""

from __future__ import annotations

from typing import Final

__all__ = ["age_words"]

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
