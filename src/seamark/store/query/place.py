"""Errors that show where in a query, a column or a path to sort by they are."""

from __future__ import annotations

import unicodedata
from typing import Final

from seamark.errors import QueryError

__all__ = ["misplaced"]

_WIDTH: Final = 76
"""Characters of a line that are shown; of a longer one those around the place."""


def misplaced(
    what: str, text: str, position: int, message: str, hint: str = "", *, named: bool = False
) -> QueryError:
    """Return an error whose first line is the message; the line and a caret stand below it.

    Args:
        what: Where the text was given: ``"query"``, ``"column"`` or ``"sort_by"``.
        text: What was given.
        position: Of the character to point at, 0-based; its length points behind the end.
        message: What was expected and what was found.
        hint: What may be meant, such as ``"; did you mean 'mean'?"``.
        named: Whether the message says the column as well.
    """
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : len(text) if end < 0 else end]
    column = position - start
    where = f" at column {column + 1}"
    if "\n" in text:
        where = f" at line {text.count(chr(10), 0, position) + 1}, column {column + 1}"
    first = max(0, min(column - _WIDTH // 2, len(line) - _WIDTH))
    shown = "".join(char if char.isprintable() else " " for char in line[first : first + _WIDTH])
    before = "…" if first else ""
    after = "…" if first + _WIDTH < len(line) else ""
    indent = " " * (len(before) + sum(map(_cells, shown[: column - first])))
    place = f"  {before}{shown}{after}\n  {indent}^"
    return QueryError(f"{what}: {message}{where if named else ''}{hint}\n{place}")


def _cells(char: str) -> int:
    """Return how many cells of a terminal a character takes."""
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
