"""``seamark ls``: the runs, as a table."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

import click

from seamark.cli import _complete
from seamark.cli._app import root_option
from seamark.cli._facts import exact_text, value_text
from seamark.cli._json import dumps
from seamark.cli._runs import open_runs, project_option
from seamark.cli._screen import STATE_STYLES, Cell, Column, Screen, data_output, note
from seamark.cli._text import clean, human_age, human_duration, human_number, human_time, plural
from seamark.paths import is_inside
from seamark.reading.names import generated_name

if TYPE_CHECKING:
    from seamark.local.index import Index

__all__ = ["ls"]

DEFAULT_COLUMNS: Final = (
    "sys/name",
    "sys/state",
    "sys/creation_time",
    "sys/running_time",
    "sys/tags",
)
_PROJECT: Final = "/project"
"""Stands among the columns like a path, but is none: no path begins with a slash."""
TITLES: Final = {
    "sys/id": "RUN",
    _PROJECT: "PROJECT",
    "sys/name": "NAME",
    "sys/state": "STATE",
    "sys/creation_time": "CREATED",
    "sys/modification_time": "LAST RECORD",
    "sys/running_time": "RAN FOR",
    "sys/tags": "TAGS",
    "sys/description": "DESCRIPTION",
}
_RANKS: Final = {
    "sys/name": 1,
    "sys/state": 2,
    _PROJECT: 3,
    "sys/creation_time": 4,
    "sys/running_time": 5,
    "sys/tags": 6,
}
"""What goes first where the terminal is too narrow; the greatest number first."""
_SHRINKING: Final = frozenset({_PROJECT, "sys/name", "sys/tags", "sys/description"})
_NAME_CELLS: Final = 16
"""A name is rather shown to so many cells than the columns that matter less."""
_SETS: Final = frozenset({"sys/tags", "sys/group_tags"})
_DULL: Final = ("sys", "monitoring", "source_code")
"""Namespaces that differ between all runs; not shown unless asked for."""
_DEFAULT_LIMIT: Final = 100


@click.command(short_help="List runs: choose, sort, compare.")
@project_option
@click.option("-q", "--query", metavar="QUERY", help="Only runs that match; see above.")
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="TAG",
    shell_complete=_complete.tags,
    help="Only runs with this tag; if repeated, with all of them.",
)
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    shell_complete=_complete.states,
    help="Only runs in this state: running, completed, failed, crashed, ...",
)
@click.option("--trashed", is_flag=True, help="Runs in the trash, instead of the others.")
@click.option(
    "-c",
    "--columns",
    multiple=True,
    metavar="PATH[,PATH...]",
    shell_complete=_complete.paths,
    help="Columns to show, such as val/loss:min or 'hyperparams/*'.",
)
@click.option(
    "--differing",
    is_flag=True,
    help="Only those columns in which the listed runs differ.",
)
@click.option(
    "-s",
    "--sort",
    default="sys/creation_time",
    metavar="PATH",
    shell_complete=_complete.paths,
    help="Sort by this path.  [default: when created]",
)
@click.option(
    "--desc/--asc",
    "descending",
    default=True,
    help="Greatest or smallest first.  [default: greatest]",
)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(0),
    default=_DEFAULT_LIMIT,
    show_default=True,
    metavar="N",
    help="Show at most N runs; 0 for all.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Write the table as CSV, with all digits.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Write one strict JSON list; NaN and infinities as strings.",
)
@root_option
@click.pass_context
def ls(
    context: click.Context,
    project: str | None,
    query: str | None,
    tags: tuple[str, ...],
    states: tuple[str, ...],
    columns: tuple[str, ...],
    sort: str,
    limit: int,
    *,
    trashed: bool,
    differing: bool,
    descending: bool,
    as_csv: bool,
    as_json: bool,
) -> None:
    """List runs, newest first: choose, sort, compare.

    Columns and --sort take paths. The path of a series means its last value; val/loss:min, :max,
    :mean, :count, :first_step and :last_step are its other summaries. A * matches anything:
    'hyperparams/*'.

    A query compares paths with values: < <= > >= = != for numbers, texts and times, CONTAINS for
    texts and tags, =~ for regular expressions; AND, OR, NOT and brackets combine them. A path with
    unusual characters needs back-ticks around it.

    \b
    Examples:
      seamark ls
      seamark ls --project vision --state running
      seamark ls --query 'hyperparams/lr <= 0.01 AND sys/tags CONTAINS "best"'
      seamark ls --sort val/loss:min --asc --columns val/loss:min,val/acc:max
      seamark ls --columns 'hyperparams/*' --differing
      seamark ls --query 'sys/name =~ "resnet.*"' --json | jq '.[].run'
      seamark ls --limit 0 --columns '*' --csv > runs.csv
    """
    runs = open_runs(context, project, missing_ok=True)
    from seamark.store.query.selection import Selection

    chosen = Selection(
        project=project,
        query=query,
        state=states,
        tag=tags,
        trashed=trashed,
        limit=limit or None,
        sort_by=sort,
        ascending=not descending,
    )
    wanted = [name.strip() for given in columns for name in given.split(",") if name.strip()]
    table = runs.index.table(chosen, _to_ask(wanted, differing=differing))
    pairs = zip(table.refs, table.rows, strict=True)
    rows = [{_PROJECT: ref_project, **row} for (ref_project, _), row in pairs]
    shown = _to_show(table.columns, wanted)
    if as_json:
        click.echo(dumps([_record(row, shown) for row in rows]))
    elif as_csv:
        _write_csv(rows, shown)
    elif rows:
        _print(Screen(), rows, shown)
    elif runs.root.is_dir():  # else that has been said
        missing = "no run matches" if runs.refs() else f"no runs in {runs.root} yet"
        note("the trash is empty" if trashed else missing)
    for hint in _hints(runs.index, wanted, sort, query):
        note(hint)
    if table.total > len(rows):
        note(f"{plural(len(rows), 'run')} of {table.total:,}; --limit 0 shows all")


def _hints(index: Index, columns: Sequence[str], sort: str, query: str | None) -> Iterator[str]:
    """Yield a line for every path asked for that no run has, where longer ones end like it."""
    from seamark.store.query.language import fields_of, parse, parse_field

    fields = [parse_field(name) for name in (*columns, sort)]
    if query:
        fields += fields_of(parse(query))
    for path in dict.fromkeys(field.path for field in fields):
        if near := index.near_paths(path):
            others = f" (and {len(near) - 1} more with this ending)" if len(near) > 1 else ""
            yield f"no run has {path!r}; there is {near[0]!r}{others}"


def _to_ask(columns: Sequence[str], *, differing: bool) -> Sequence[str]:
    """Return the columns to ask the store for."""
    if not differing:
        return columns or DEFAULT_COLUMNS
    return [f"{name}:differing" for name in columns] or ["sys/name", "*:differing"]


def _to_show(columns: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return the columns to show, of those that the store answered with, besides the run's id."""
    if wanted:
        return [name for name in columns if name != "sys/id" or name in wanted]
    return [
        name
        for name in columns
        if name in DEFAULT_COLUMNS or not any(is_inside(name, space) for space in _DULL)
    ]


def _record(row: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    facts = {"project": row[_PROJECT], "run": row["sys/id"]}
    return facts | {name: row.get(name) for name in columns}


def _write_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    writer = csv.writer(data_output(), lineterminator="\n")
    writer.writerow(["project", "run", *columns])
    for row in rows:
        cells = [exact_text(row.get(name)) for name in columns]
        writer.writerow([row[_PROJECT], row["sys/id"], *cells])


def _print(screen: Screen, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    several = len({row[_PROJECT] for row in rows}) > 1
    names = ["sys/id", *([_PROJECT] if several else [])]
    names += [name for name in columns if name not in names]
    now = datetime.now(timezone.utc)
    lines = [[_field(row, name, screen, now) for name in names] for row in rows]
    titles = [_column(name, right=_is_numeric([row.get(name) for row in rows])) for name in names]
    left_out = screen.table(titles, lines)
    if left_out:
        note(f"no room for {', '.join(left_out)}; widen the terminal, or choose with --columns")


def _is_numeric(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in known
    )


def _column(name: str, *, right: bool = False) -> Column:
    return Column(
        TITLES.get(name, clean(name)),
        right=right,
        shrink=name in _SHRINKING or name not in TITLES,
        least=_NAME_CELLS if name == "sys/name" else 8,
        rank=_RANKS.get(name, 0 if name == "sys/id" else 2),
    )


def _field(row: Mapping[str, Any], name: str, screen: Screen, now: datetime) -> Cell:
    """Return what a run shows in a column; a run without a name the generated one, dim."""
    value = row.get(name)
    if name == "sys/name" and not value:
        return Cell(generated_name(row["sys/id"]), "dim")
    return _cell(value, name, screen, now)


def _cell(value: Any, name: str, screen: Screen, now: datetime) -> Cell:
    if value is None:
        return Cell("")
    if name == "sys/state":
        return Cell(clean(str(value)), STATE_STYLES.get(str(value), ""))
    if name in _SETS and isinstance(value, list):
        return Cell(clean(", ".join(map(str, value))), "dim")
    if isinstance(value, datetime):
        return Cell(human_age(value, now) if screen.terminal else human_time(value), "dim")
    if name == "sys/running_time" and isinstance(value, int | float):
        return Cell(human_duration(value))
    if isinstance(value, float) and screen.terminal:
        return Cell(human_number(value))
    style = {"sys/id": "cyan", "sys/name": "bold"}.get(name, "")
    return Cell(value_text(value, exact=not screen.terminal), style)
