"""CSV with line feeds alone, which every reader takes apart again."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

__all__ = ["CsvWriter"]


class _Output(Protocol):
    def write(self, text: str, /) -> object: ...


class CsvWriter:
    """Writes rows as Python's own writer does, and quotes carriage returns.

    With line feeds as the ends of lines that one leaves them bare (in Pythons before 3.13), and
    readers take them for the end of a row.

    Args:
        file: Where to write.
    """

    def __init__(self, file: _Output) -> None:
        self._plain = csv.writer(file, lineterminator="\n")
        self._quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)

    def row(self, cells: Sequence[Any]) -> None:
        """Write one row."""
        odd = any(isinstance(cell, str) and "\r" in cell for cell in cells)
        (self._quoted if odd else self._plain).writerow(cells)

    def rows(self, rows: Iterable[Sequence[Any]]) -> None:
        """Write many rows."""
        for row in rows:
            self.row(row)
