"""``seamark compare``: differences between runs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Final, NamedTuple

import click

from seamark.cli import _runs
from seamark.cli._app import json_option, misuse, root_option
from seamark.cli._facts import text_or_record
from seamark.cli._lists import cell_of
from seamark.cli._runs import (
    RunRef,
    Runs,
    nonempty_path,
    open_runs,
    project_option,
    query_option,
    runs_argument,
)
from seamark.cli._screen import Cell, Column, Screen, dumps, note, progress_bar
from seamark.paths import matches
from seamark.reading.attributes import Attribute
from seamark.reading.differences import (
    PACKAGES,
    TITLES,
    Row,
    of_process,
    of_rank_or_profiler,
    rows_of,
    summaries,
)
from seamark.reading.document import value_mapping
from seamark.reading.text import (
    clean,
    display_width,
    file_text,
    hint_for,
    human_number,
    plural,
    value_text,
)

_ABSENT: Final = Cell("—", "dim")
_HEADER: Final = {
    "state": "sys/state",
    "created": "sys/creation_time",
    "ran for": "sys/running_time",
}
"""Facts about each run above the differences, by title."""
_MIN_CELLS: Final = 10
"""Minimum width of the column of a run, in cells; numbers are never shortened."""


class _Compared(NamedTuple):
    ref: RunRef
    label: str
    facts: Mapping[str, Any]
    attributes: Sequence[Attribute]


@click.command(short_help="Compare runs: parameters, metrics, packages, git.")
@runs_argument
@click.option(
    "--path",
    "patterns",
    multiple=True,
    metavar="PATH",
    shell_complete=_runs.complete_paths,
    callback=nonempty_path,
    help="Only paths that equal, are below or match this path: 'hyperparams/*'. May be repeated.",
)
@click.option(
    "--all", "everything", is_flag=True, help="Also show values that are equal in all runs."
)
@json_option
@project_option
@query_option
@root_option
@click.pass_context
def compare(
    context: click.Context,
    names: tuple[str, ...],
    patterns: tuple[str, ...],
    project: str | None,
    query: str | None,
    *,
    everything: bool,
    as_json: bool,
) -> None:
    """Show the differences between runs: one column for each run, one row for each difference.

    Parameters, metrics, tags, files, script, git, packages and environment are compared. A missing
    value is a difference, shown as a dash. For a metric, the table shows the last value with the
    difference from the first run in parentheses, and the best value (minimum or maximum, whichever
    is closer to the last value). Data of single processes, ranks and profilers is left out unless
    --path names it.

    \b
    Examples:
      seamark compare quick-otter calm-heron
      seamark compare slow good wild --path 'parameters/*'
      seamark compare --query 'sys/tags CONTAINS "paper"' --path val
      seamark compare latest baseline --all | less -S
      seamark compare latest baseline --json | jq .sections.packages
    """
    runs = open_runs(context, project)
    context.with_resource(runs.index.moment())
    refs = runs.chosen(names, project, query)
    if len(refs) < 2:  # noqa: PLR2004 - nothing to compare it with
        got = f"the query matches only {refs[0]}" if query else f"got only {refs[0]}"
        misuse(f"compare: expected two runs or more, {got}")
    compared = _read(runs, refs, patterns)
    rows = rows_of([one.attributes for one in compared])
    left_out = 0
    if not patterns:
        rows = [row for row in rows if not of_process(row)]
        left_out = sum(of_rank_or_profiler(row) and row.differs(len(refs)) for row in rows)
        rows = [row for row in rows if not of_rank_or_profiler(row)]
    shown = [row for row in rows if everything or row.differs(len(refs))]
    if as_json:
        click.echo(dumps(_document(compared, shown)))
        return
    _print(Screen(), compared, shown, everything=everything)
    if not any(row.differs(len(refs)) for row in rows):
        click.echo(f"\n{_equality_text(rows, len(refs))}")
    if left_out:
        note(
            f"{plural(left_out, 'difference')} of single ranks and of profilers left out; "
            "--path '*ranks/*' --path profiling shows them"
        )


# Reading


def _read(runs: Runs, refs: Sequence[RunRef], patterns: Sequence[str]) -> list[_Compared]:
    found: list[_Compared] = []
    known: set[str] = set()
    labels = runs.finder.labels(refs)
    with progress_bar("Reading runs") as progress:
        for done, (ref, label) in enumerate(zip(refs, labels, strict=True)):
            progress(done, len(refs))
            view = runs.view(ref)
            attributes = view.attributes()
            known.update(one.path for one in attributes)
            facts = {one.path: one.value for one in attributes if one.path.startswith("sys/")}
            if patterns:
                attributes = [one for one in attributes if matches(one.path, *patterns)]
            attributes = [
                dataclasses.replace(one, value=text_or_record(view, one.value, one.path))
                if one.path == PACKAGES and one.type == "text"
                else one
                for one in attributes
            ]
            found.append(_Compared(ref, label, facts, attributes))
    for pattern in patterns:
        if not any(matches(path, pattern) for path in known):
            hint = hint_for(pattern, sorted(known), f" (see: seamark show {refs[0].run})")
            misuse(f"none of these runs has a value at {pattern!r}{hint}")
    return found


# As JSON


def _document(compared: Sequence[_Compared], rows: Sequence[Row]) -> dict[str, Any]:
    sections: dict[str, dict[str, Any]] = {}
    for row in rows:
        sections.setdefault(row.section, {})[row.name] = {
            "differs": row.differs(len(compared)),
            "values": {
                str(compared[at].ref): value_mapping(value) for at, value in row.values.items()
            },
        }
    runs = [
        {
            "project": one.ref.project,
            "run": one.ref.run,
            "name": one.facts.get("sys/name"),
            "state": one.facts.get("sys/state"),
            "created": one.facts.get("sys/creation_time"),
            "running_time": one.facts.get("sys/running_time"),
        }
        for one in compared
    ]
    return {"runs": runs, "sections": sections}


# In words


class _Line(NamedTuple):
    title: Cell
    cells: Sequence[Cell]
    whole: bool = False


def _print(
    screen: Screen, compared: Sequence[_Compared], rows: Sequence[Row], *, everything: bool
) -> None:
    lines = [*_header_lines(screen, compared)]
    for section, title in TITLES.items():
        if part := [row for row in rows if row.section == section]:
            empty = [Cell("")] * len(compared)
            part_lines = [
                line
                for row in part
                for line in _lines(screen, row, len(compared), everything=everything)
            ]
            lines.append(_Line(Cell(""), empty))
            lines.append(_Line(Cell(f"{title} ({len(part_lines):,})", "bold"), empty))
            lines += part_lines
    columns = [Column("RUN", shrink=True, path=True)]
    for at, one in enumerate(compared):
        widths = (display_width(line.cells[at].text) for line in lines if line.whole)
        least = max(_MIN_CELLS, *widths, 0)
        columns.append(Column(one.label, shrink=True, least=least, rank=at))
    if left_out := screen.table(columns, [[line.title, *line.cells] for line in lines]):
        count = plural(len(compared), "run")
        note(
            f"no room for {len(left_out):,} of {count}: output to a pipe shows all of them (| less "
            "-S), and seamark ls --differing shows a row for each run"
        )


def _header_lines(screen: Screen, compared: Sequence[_Compared]) -> Iterator[_Line]:
    now = datetime.now(timezone.utc)
    yield _Line(Cell("  id"), [Cell(one.ref.run, "cyan") for one in compared])
    if len({one.ref.project for one in compared}) > 1:
        yield _Line(Cell("  project"), [Cell(one.ref.project) for one in compared])
    for title, path in _HEADER.items():
        cells = [cell_of(one.facts.get(path), path, screen, now) for one in compared]
        yield _Line(Cell(f"  {title}"), cells)


def _lines(screen: Screen, row: Row, runs: int, *, everything: bool) -> Iterator[_Line]:
    name = f"  {clean(row.name)}"
    if row.section != "metrics":
        text = file_text if row.section == "files" else value_text
        cells = [
            Cell(text(row.values[at], exact=not screen.terminal)) if at in row.values else _ABSENT
            for at in range(runs)
        ]
        yield _Line(Cell(name), cells)
        return
    for summary in summaries(row, runs, everything=everything):
        numbers = {at: getattr(value, summary) for at, value in row.values.items()}
        title = Cell(name if summary == "last" else f"{name}:{summary}")
        yield _Line(title, [_number(screen, numbers, at) for at in range(runs)], whole=True)


def _number(screen: Screen, numbers: Mapping[int, float], at: int) -> Cell:
    if at not in numbers:
        return _ABSENT
    number, first = numbers[at], numbers.get(0)
    text = human_number(number) if screen.terminal else repr(number)
    change = math.nan if first is None or at == 0 else number - first
    if not math.isfinite(change) or not change:
        return Cell(text)
    return Cell(f"{text} ({change:+.3g})")


def _equality_text(rows: Sequence[Row], runs: int) -> str:
    counts = [(sum(row.section == section for row in rows), section) for section in TITLES]
    listed = ", ".join(f"{section} {count:,}" for count, section in counts if count)
    return f"nothing differs between these {runs} runs (compared: {listed or 'nothing'})"
