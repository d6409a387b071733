"""Groups of runs, as ``seamark ls --by`` shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from seamark.cli._csv import write_rows
from seamark.cli._facts import exact_text
from seamark.cli._screen import Cell, Column, Screen, note, note_hidden_columns
from seamark.reading.value_words import value_text
from seamark.reading.words import clean, human_number

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
    summed = [name for name in columns if any(name in group.values for group in groups)]
    if form:
        rows = groups.to_rows()
        for row in rows if form == "csv" else ():
            row["ids"] = " ".join(row["ids"])
        sums = [f"{name}:{one}" for name in summed for one in _SUMS]
        write_rows(form, [*by, "n", *sums, "ids"], rows)
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
    note_hidden_columns(screen.table(titles, lines))


def _words(spread: Spread, runs: int, *, exact: bool) -> str:
    """Return mean and standard deviation, and of how many if not of all runs of the group."""
    number = exact_text if exact else human_number
    known = [number(one) for one in (spread.mean, spread.std) if one is not None]
    words = " ± ".join(known)
    return words if spread.n == runs or not words else f"{words} (of {spread.n})"
