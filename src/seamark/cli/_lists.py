"""Lists of projects, and of the groups of ``seamark ls --by``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from typing import Any, Final

from seamark.cli._app import misuse
from seamark.cli._facts import exact_text
from seamark.cli._runs import Runs, split_names
from seamark.cli._screen import STATE_STYLES, Cell, Column, Screen, note, note_hidden_columns
from seamark.cli.export import write_rows
from seamark.paths import is_inside
from seamark.reading.groups import RunGroups, Spread
from seamark.reading.text import (
    age_words,
    clean,
    duration_words,
    human_number,
    human_time,
    value_text,
)

_SET_PATHS: Final = frozenset({"sys/tags", "sys/group_tags", "sys/aliases"})
_STATISTICS: Final = ("n", "odd", "mean", "median", "std", "min", "max")


def print_groups(groups: RunGroups, by: Sequence[str], columns: Sequence[str], form: str) -> None:
    """Print groups of runs as ``"csv"``, as ``"json"`` or, with an empty ``form``, as a table."""
    summed = [name for name in columns if any(name in group.values for group in groups)]
    if form:
        rows = groups.to_rows()
        for row in rows if form == "csv" else ():
            row["ids"] = " ".join(row["ids"])
        sums = [f"{name}:{one}" for name in summed for one in _STATISTICS]
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
            *(Cell(_spread_text(group.values[name], group.n, exact=exact)) for name in summed),
        ]
        for group in groups
    ]
    note_hidden_columns(screen.table(titles, lines))


def _spread_text(spread: Spread, runs: int, *, exact: bool) -> str:
    number = exact_text if exact else human_number
    known = [number(one) for one in (spread.mean, spread.std) if one is not None]
    words = " ± ".join(known)
    return words if spread.n == runs or not words else f"{words} (of {spread.n})"


PLACES: Final[Mapping[str, Sequence[str]]] = {
    "project": ("runs", "sys/description", "tags/*"),
    "group": ("runs", "description", "metadata/*"),
}
"""Default columns of each kind; empty columns are not shown."""
_TITLES: Final = {"runs": "RUNS", "sys/description": "DESCRIPTION", "description": "DESCRIPTION"}
Row = Mapping[str, Any]


def list_places(
    runs: Runs,
    kind: str,
    project: str | None,
    query: str | None,
    columns: Sequence[str],
    sort: str | None,
    *,
    descending: bool | None,
    limit: int,
    form: str,
) -> int:
    """Write the matching projects or groups; return the number omitted due to ``limit`` (0: none).

    By default they are sorted by name; with ``sort``, by that path, greatest first unless
    ``descending`` is False.
    """
    from seamark.registry.group import group_rows, project_rows, table_of

    known = project_rows(runs.index) if kind == "project" else group_rows(runs.index)
    there = {ref: row for ref, row in known.items() if is_inside(ref[0], project or "")}
    table = table_of(there, query, note)
    every = [
        {**row, "project": at, kind: row["sys/id"]}
        for (at, _), row in zip(table.refs, table, strict=True)
    ]
    rows = _in_order(every, sort, descending=descending)[: limit or None]
    wanted = split_names(columns)
    if form:
        named = dict.fromkeys(("project", kind))
        write_rows(form, [*named, *_matching(rows, kind, wanted or ["*"])], rows)
    elif rows:
        _print(rows, kind, _matching(rows, kind, wanted or PLACES[kind]))
    else:
        note(f"no {kind} matches" if there else f"no {kind}s in {runs.where} yet")
    return len(every) - len(rows)


def _in_order(rows: Sequence[Row], sort: str | None, *, descending: bool | None) -> Sequence[Row]:
    if sort is None:
        return rows[::-1] if descending else rows
    known = [row for row in rows if row.get(sort) is not None]
    try:
        known.sort(key=lambda row: row[sort], reverse=descending is not False)
    except TypeError:
        misuse(f"--sort {sort}: cannot compare values of different types")
    return [*known, *(row for row in rows if row.get(sort) is None)]


def _matching(rows: Sequence[Row], kind: str, patterns: Sequence[str]) -> list[str]:
    known = sorted({path for row in rows for path in row} - {"sys/id", "project", kind})
    optional = PLACES[kind]
    return list(
        dict.fromkeys(
            path
            for pattern in patterns
            for path in (known if "*" in pattern else [pattern])
            if fnmatchcase(path, pattern) and (path in known or pattern not in optional)
        )
    )


def _print(rows: Sequence[Row], kind: str, shown: Sequence[str]) -> None:
    screen = Screen()
    several = kind == "group" and len({row["project"] for row in rows}) > 1
    titles = [
        Column(kind.upper()),
        *([Column("PROJECT", shrink=True)] if several else []),
        *(
            Column(_TITLES.get(name, clean(name)), shrink=name != "runs", right=name == "runs")
            for name in shown
        ),
    ]
    now = datetime.now(timezone.utc)
    lines = [
        [
            Cell(clean(str(row[kind])), "cyan"),
            *([Cell(clean(row["project"]))] if several else []),
            *(cell_of(row.get(name), name, screen, now) for name in shown),
        ]
        for row in rows
    ]
    note_hidden_columns(screen.table(titles, lines))


def cell_of(value: Any, name: str, screen: Screen, now: datetime) -> Cell:
    """Return the cell of a value at a path."""
    if value is None:
        return Cell("")
    if name == "sys/state":
        return Cell(clean(str(value)), STATE_STYLES.get(str(value), ""))
    if name in _SET_PATHS and isinstance(value, list):
        return Cell(clean(", ".join(map(str, value))), "dim")
    if isinstance(value, datetime):
        return Cell(
            age_words((now - value).total_seconds()) if screen.terminal else human_time(value),
            "dim",
        )
    if name == "sys/running_time" and isinstance(value, int | float):
        return Cell(duration_words(value))
    if isinstance(value, float) and screen.terminal:
        return Cell(human_number(value))
    style = {"sys/id": "cyan", "sys/name": "bold"}.get(name, "")
    return Cell(value_text(value, exact=not screen.terminal), style)
