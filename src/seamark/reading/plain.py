"""Values as strict JSON holds them: a number that JSON cannot hold is a string."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

__all__ = ["plain"]

_LONG_BITS: Final = 2048
"""No whole number of fewer bits is one that Python refuses to write."""


def plain(value: Any) -> Any:
    """Return ``value`` as something that strict JSON holds.

    NaN and infinities become ``"nan"``, ``"inf"`` and ``"-inf"`` (a null would read as "nothing
    recorded"), whole numbers stay exact (those of thousands of digits as ``"0x..."``, for Python
    neither writes nor reads them otherwise), times become ISO 8601, sets sorted lists, other
    objects their text.
    """
    if value is None or isinstance(value, bool | str):
        return _text(value) if isinstance(value, str) else value
    if isinstance(value, int):
        return value if value.bit_length() < _LONG_BITS else _readable(value)
    if isinstance(value, float):
        return (
            value
            if math.isfinite(value)
            else "nan"
            if math.isnan(value)
            else "inf"
            if value > 0
            else "-inf"
        )
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {_text(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=str)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "item"):  # a NumPy scalar
        return plain(value.item())
    return _text(str(value))


def _readable(number: int) -> int | str:
    try:
        str(number)
    except ValueError:
        return hex(number)
    return number


def _text(text: str) -> str:
    """Return ``text`` with visible escapes for lone surrogates, which UTF-8 cannot hold."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
