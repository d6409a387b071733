"""Strict JSON for programs: a number that JSON cannot hold is a string."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from seamark.reading.plain import plain

__all__ = ["dumps"]

_OBEYED: Final = re.compile("[\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
"""What a terminal may act on and JSON does not escape by itself."""


def dumps(value: Any, *, indent: int | None = 2) -> str:
    """Return ``value`` as one strict JSON document in UTF-8."""
    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False, indent=indent)
    # Only texts hold such characters, where their escapes mean the same.
    return _OBEYED.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
