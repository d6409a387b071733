"""Cutting of a stream's text into points: at ends of lines where possible, never in a character."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

__all__ = ["FRAME_BYTES", "cut", "size_of", "unfinished_from"]

FRAME_BYTES: Final = 1 << 16
"""The longest point, in bytes of UTF-8."""
_WORD: Final = 1 << 12
_ESCAPE: Final = 1 << 9
_CLUSTER: Final = 16
_UNFINISHED: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)\Z", re.DOTALL
)
_JOINS: Final = "\u200d\ufe0e\ufe0f"


def size_of(text: str) -> int:
    """Return how many bytes a text has in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def unfinished_from(text: str) -> int:
    """Return where the escape sequence begins that a text ends in the middle of; else its length.

    One that has not ended after 512 characters is taken for none.
    """
    found = _UNFINISHED.search(text, max(0, len(text) - _ESCAPE))
    return len(text) if found is None else found.start()


def cut(text: str, most: int) -> int:
    """Return how many characters of a text to take so that they have no more than ``most`` bytes.

    All of them, or those up to the end of the last line that fits, else of the last word of a long
    line; never a part of a character, or of an escape sequence of a terminal. May be 0.
    """
    if len(text) <= most and size_of(text) <= most:
        return len(text)
    fits = _fitting(text, most)
    if (end := text.rfind("\n", 0, fits) + 1) > 0:
        return end
    if (end := max(text.rfind(space, max(0, fits - _WORD), fits) for space in " \t\r") + 1) > 0:
        fits = end
    if 0 < (start := unfinished_from(text[:fits])) < fits:
        return start
    for at in range(fits, max(0, fits - _CLUSTER), -1):
        if not (unicodedata.combining(text[at]) or text[at] in _JOINS or text[at - 1] == "\u200d"):
            return at
    return fits


def _fitting(text: str, most: int) -> int:
    """Return how many whole characters at the beginning have no more than ``most`` bytes."""
    start = text[:most]
    if start.isascii():
        return len(start)
    encoded = start.encode("utf-8", "surrogatepass")
    end = min(most, len(encoded))
    while 0 < end < len(encoded) and encoded[end] & 0xC0 == 0x80:  # noqa: PLR2004 - goes on
        end -= 1
    return len(encoded[:end].decode("utf-8", "surrogatepass"))
