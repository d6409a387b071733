"""Groups of runs, as ``seamark ls --by`` shows them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from seamark.cli._facts import exact_text, value_text
from seamark.cli._json import dumps
from seamark.cli._screen import Cell, Column, Screen, data_output, note
from seamark.cli._text import clean, csv_safe, human_number

if TYPE_CHECKING:
    from seamark.reading.groups import RunGroups, Spread

__all__ = ["print_groups"]

_SUMS: Final = ("n", "odd", "mean", "std", "min", "max")


def print_groups(groups: RunGroups, by: Sequence[str], columns: Sequence[str], form: str) -> None:
    """Print groups of runs.

    Args:
        groups: The groups.
        by: Columns by which they are.
        columns: Columns that are summed up.
        form: ``"csv"``, ``"json"``, or empty for people.
    """
    if form == "json":
        click.echo(dumps(groups.to_rows()))
        return
    summed = [name for name in columns if any(name in group.values for group in groups)]
    if form == "csv":
        writer = csv.writer(data_output(), lineterminator="\n")
        sums = [f"{name}:{one}" for name in summed for one in _SUMS]
        names = [*by, "n", *sums, "ids"]
        writer.writerow(map(csv_safe, names))
        for row in groups.to_rows():
            row["ids"] = " ".join(row["ids"])
            writer.writerow([exact_text(row.get(name)) for name in names])
        return
    if not groups:
        note("no run matches")
        return
    screen = Screen()
    titles = [Column(clean(name)) for name in by]
    titles += [Column("RUNS", right=True), *(Column(clean(name), right=True) for name in summed)]
    exact = not screen.terminal
    lines = [
        [
            *(Cell(value_text(group.by[name], exact=exact)) for name in by),
            Cell(str(group.n)),
            *(Cell(_words(group.values[name], group.n, exact=exact)) for name in summed),
        ]
        for group in groups
    ]
    if without := screen.table(titles, lines):
        note(f"no room for {', '.join(without)}; widen the terminal, or choose with --columns")


def _words(spread: Spread, runs: int, *, exact: bool) -> str:
    """Return mean and standard deviation, and of how many if not of all runs of the group."""
    if spread.mean is None:
        return ""

    def number(value: float) -> str:
        return exact_text(value) if exact else human_number(value)

    words = number(spread.mean)
    if spread.std is not None:
        words += f" ± {number(spread.std)}"
    return words if spread.n == runs else f"{words} (of {spread.n})"
