"""Rows for programs: CSV with line feeds alone, which every reader takes apart again, and JSON."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any

import click

from seamark.cli._facts import exact_text
from seamark.cli._json import dumps
from seamark.cli._screen import data_output
from seamark.reading.words import csv_safe

__all__ = ["CsvWriter", "write_rows"]


class CsvWriter:
    """Writes rows as Python's own writer does, and quotes carriage returns.

    With line feeds as the ends of lines that one leaves them bare (in Pythons before 3.13), and
    readers take them for the end of a row.

    Args:
        file: Where to write.
    """

    def __init__(self, file: IO[str]) -> None:
        self._plain = csv.writer(file, lineterminator="\n")
        self._quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)

    def rows(self, rows: Iterable[Sequence[Any]]) -> None:
        """Write rows."""
        for row in rows:
            odd = any(isinstance(cell, str) and "\r" in cell for cell in row)
            (self._quoted if odd else self._plain).writerow(row)


def write_rows(form: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a table to standard output.

    Args:
        form: ``"csv"`` or ``"json"``.
        columns: What is written of each row; a slash at the beginning of a name is left out.
        rows: Values by column; what is missing is null in JSON and an empty cell in CSV.
    """
    if form == "json":
        click.echo(dumps([{name.lstrip("/"): row.get(name) for name in columns} for row in rows]))
        return
    writer = CsvWriter(data_output())
    writer.rows([[csv_safe(name.lstrip("/")) for name in columns]])
    writer.rows([exact_text(row.get(name)) for name in columns] for row in rows)
