"""Lists of what runs are in: projects, and groups."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import click

from seamark.cli._app import misuse
from seamark.cli._facts import exact_text, value_text
from seamark.cli._json import dumps
from seamark.cli._screen import Cell, Column, Screen, data_output, note
from seamark.cli._text import clean, csv_safe, human_time, plural
from seamark.paths import is_inside

if TYPE_CHECKING:
    from seamark.cli._runs import Runs

__all__ = ["Places", "places_of"]

_PLAIN: Final = {
    "project": ("runs", "sys/description", "tags/*"),
    "group": ("runs", "description", "metadata/*"),
}
"""What is shown of each."""
_TITLES: Final = {"runs": "RUNS", "sys/description": "DESCRIPTION", "description": "DESCRIPTION"}

Row = Mapping[str, Any]


def places_of(
    runs: Runs, kind: str, project: str | None, query: str | None, of_runs: Sequence[object]
) -> Places | None:
    """Return the projects or groups that match; None if something else is listed.

    Args:
        runs: What is there, up to date.
        kind: What is listed.
        project: Only this one and those below it, or their groups; None for all.
        query: In the language of queries; None for all.
        of_runs: Options that mean nothing where no runs are listed.

    Raises:
        Misuse: If one of these is given.
        QueryError: If the query breaks the grammar.
    """
    if kind not in _PLAIN:
        return None
    if any(of_runs):
        misuse(
            f"--kind {kind}: --tag, --state, --trashed, --differing, --offset and --by are of runs"
        )
    from seamark.registry.group import group_rows
    from seamark.registry.projects import project_rows, table_of

    rows = project_rows(runs.index) if kind == "project" else group_rows(runs.index)
    there = {at: row for at, row in rows.items() if is_inside(at[0], project or "")}
    table = table_of(there, query, note)
    found: list[tuple[str, Row]] = [
        (at[0], dict(row)) for at, row in zip(table.refs, table, strict=True)
    ]
    missing = f"no {kind} matches" if there else f"no {kind}s in {runs.where} yet"
    return Places(kind, found, missing)


@dataclass(slots=True)
class Places:
    """Projects or groups, and how they are shown.

    Attributes:
        kind: ``"project"`` or ``"group"``.
        rows: Project path and values by path of each.
        missing: What to say if there are none.
        total: How many there are.
        columns: What is shown of them; None for what people look for, or, of programs, everything.
    """

    kind: str
    rows: list[tuple[str, Row]]
    missing: str
    total: int = 0
    columns: list[str] | None = None

    def arrange(
        self, wanted: Sequence[str], sort: str | None, *, descending: bool | None, limit: int
    ) -> None:
        """Choose columns, sort, and leave out what is too much.

        Args:
            wanted: Paths and patterns, perhaps several with commas between them.
            sort: Path by which to sort; None leaves them in the order of their names.
            descending: Greatest first; None does so where a path is given.
            limit: How many are shown; 0 for all.
        """
        self.total = len(self.rows)
        named = [name.strip() for one in wanted for name in one.split(",") if name.strip()]
        if named:
            self.columns = self._matching(named)
        if sort is not None:
            known = [one for one in self.rows if one[1].get(sort) is not None]
            try:
                known.sort(key=lambda one: one[1][sort], reverse=descending is not False)
            except TypeError:
                misuse(f"--sort {sort}: values of several types have no order")
            self.rows = [*known, *(one for one in self.rows if one[1].get(sort) is None)]
        elif descending:
            self.rows.reverse()
        if limit:
            self.rows = self.rows[:limit]

    def write(self, *, as_csv: bool, as_json: bool) -> None:
        """Write a table, CSV or JSON."""
        if as_json:
            every = self._matching(["*"]) if self.columns is None else self.columns
            click.echo(dumps([self._named(at, row) | _some(row, every) for at, row in self.rows]))
        elif as_csv:
            every = self._matching(["*"]) if self.columns is None else self.columns
            writer = csv.writer(data_output(), lineterminator="\n")
            writer.writerow([*self._named("", {}), *map(csv_safe, every)])
            for at, row in self.rows:
                named = self._named(at, row).values()
                writer.writerow([exact_text(one) for one in (*named, *map(row.get, every))])
        elif self.rows:
            self._print(Screen())
        else:
            note(self.missing)
        if self.total > len(self.rows):
            note(f"{plural(len(self.rows), self.kind)} of {self.total:,}; --limit 0 shows all")

    def _print(self, screen: Screen) -> None:
        shown = self._matching(_PLAIN[self.kind]) if self.columns is None else self.columns
        several = self.kind == "group" and len({at for at, _ in self.rows}) > 1
        titles = [
            Column(self.kind.upper()),
            *([Column("PROJECT", shrink=True)] if several else []),
            *(
                Column(_TITLES.get(name, clean(name)), shrink=name != "runs", right=name == "runs")
                for name in shown
            ),
        ]
        lines = [
            [
                Cell(clean(str(row["sys/id"])), "cyan"),
                *([Cell(clean(at))] if several else []),
                *(_cell(row.get(name), screen) for name in shown),
            ]
            for at, row in self.rows
        ]
        screen.table(titles, lines)

    def _matching(self, patterns: Sequence[str]) -> list[str]:
        known = dict.fromkeys(path for _, row in self.rows for path in row if path != "sys/id")
        found = [
            path
            for pattern in patterns
            for path in (sorted(known) if "*" in pattern else [pattern])
            if fnmatchcase(path, pattern) and (path in known or pattern not in _OPTIONAL)
        ]
        return list(dict.fromkeys(found))

    def _named(self, project: str, row: Row) -> dict[str, Any]:
        named = {"project": project}
        return named if self.kind == "project" else named | {"group": row.get("sys/id")}


_OPTIONAL: Final = frozenset({"sys/description", "description"})
"""Columns that are only shown where there is something in them."""


def _some(row: Row, columns: Sequence[str]) -> dict[str, Any]:
    return {name: row.get(name) for name in columns}


def _cell(value: Any, screen: Screen) -> Cell:
    if value is None:
        return Cell("")
    if isinstance(value, datetime):
        return Cell(human_time(value), "dim")
    if isinstance(value, list):
        return Cell(clean(", ".join(map(str, value))), "dim")
    return Cell(value_text(value, exact=not screen.terminal))
