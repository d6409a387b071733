"""``seamark ls``: table of the runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from seamark.cli import _runs
from seamark.cli._app import misuse, root_option
from seamark.cli._health import loss_summary
from seamark.cli._lists import PLACES, cell_of, list_places, print_groups
from seamark.cli._runs import (
    Runs,
    nonempty_path,
    nonempty_query,
    open_runs,
    project_option,
    reject_empty,
    split_names,
)
from seamark.cli._screen import STATE_STYLES, Cell, Column, Screen, note, note_hidden_columns
from seamark.cli.export import write_rows
from seamark.paths import home_of, is_inside
from seamark.reading.attributes import PARENT, aside
from seamark.reading.differences import (
    PLAIN_OF,
    distinguishing_columns,
    importance,
    is_named,
    left_out,
)
from seamark.reading.names import generated_name
from seamark.reading.text import (
    clean,
    hint_for,
    plural,
)

if TYPE_CHECKING:
    from seamark.reading.catalog import Selection, SharedPath


_PROJECT: Final = "/project"
_RUN: Final = "/run"
"""Pseudo column of the run itself; no attribute path begins with a slash."""
_CLAIMED: Final = "sys/claimed_by"
_LOSSES: Final = "/losses"
"""Pseudo column of lost data."""
_REASON: Final = "sys/crash_reason"
_DEPTH: Final = "/depth"
"""Pseudo column of the depth of a run in the tree."""
_SHORT_REASON: Final = "/why"
"""Pseudo column of the crash reason, shown next to the state."""
TITLES: Final = {
    "sys/id": "RUN",
    _PROJECT: "PROJECT",
    "sys/name": "NAME",
    "sys/state": "STATE",
    _REASON: "CRASH REASON",
    _LOSSES: "LOST",
    "sys/creation_time": "CREATED",
    "sys/modification_time": "LAST CHANGE",
    "sys/running_time": "RAN FOR",
    "sys/tags": "TAGS",
    _CLAIMED: "CLAIMED BY",
    "sys/description": "DESCRIPTION",
    "sys/model_id": "MODEL",
    "sys/version": "VERSION",
    "sys/stage": "STAGE",
    "sys/aliases": "ALIASES",
    "objects": "OBJECTS",
}
_TITLES_OF_ID: Final = {"model": "MODEL", "model_version": "ID", "artifact": "SHA-256"}
_KIND_NAMES: Final = {"model": "model", "model_version": "version", "artifact": "artifact"}
"""Names of the rows, for kinds other than runs."""
_DROP_ORDER: Final = {
    "sys/name": 1,
    "sys/state": 2,
    _PROJECT: 3,
    "sys/creation_time": 6,
    "sys/running_time": 7,
    "sys/tags": 8,
    _LOSSES: 1000,
}
"""Order in which columns are dropped on a narrow terminal, highest number first."""
_FIRST_METRIC: Final = 4
_FIRST_PARAMETER: Final = 5
"""Rank of the first parameter, which is more useful than the creation time and the duration."""
_SHRINKING: Final = frozenset({_PROJECT, "sys/state", "sys/name", "sys/tags", "sys/description"})
_MIN_CELLS: Final = {"sys/name": 16, "sys/state": 14}
"""Minimum width of these columns, in cells, before less important columns are shown."""
_MAX_ID_LENGTH: Final = 40
_SHORT_ID_LENGTH: Final = 12
"""Number of characters shown of an artifact's digest; they identify it."""
_TITLE_CELLS: Final = 20
"""Width, in cells, up to which the last part of a path takes precedence over further columns."""
_DEFAULT_LIMIT: Final = 100
_NEWEST: Final = "sys/creation_time"
_FIRST_OPTIONAL_RANK: Final = 10
"""First rank of the columns that were not requested by name."""


class Sorting(NamedTuple):
    """Order of the rows, and whether the user requested it."""

    label: str
    ascending: bool
    requested: bool


def _sorting(path: str | None, *, descending: bool | None) -> Sorting:
    """Return the column and direction to sort by; minimums are sorted from the smallest."""
    from seamark.store.query.language import parse_field

    field = parse_field(_NEWEST if path is None else path, "sort_by")
    ascending = field.aggregate == "min" if descending is None else not descending
    label = f"{field.path}:{field.aggregate}" if field.aggregate else field.path
    return Sorting(label, ascending, requested=path is not None)


@click.command(short_help="List runs; filter, sort and choose columns.")
@project_option
@click.option(
    "-q",
    "--query",
    metavar="QUERY",
    callback=nonempty_query,
    help="Only runs that match this query; see above.",
)
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="TAG",
    shell_complete=_runs.complete_tags,
    callback=reject_empty("a tag"),
    help="Only runs with this tag; if repeated, with all of them.",
)
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    shell_complete=_runs.complete_states,
    callback=reject_empty("a state such as running or failed"),
    help="Only runs in this state (running, failed, ...), or group of states: error, finished.",
)
@click.option(
    "--kind",
    type=click.Choice(["run", "model", "model_version", "artifact", "project", "group"]),
    default="run",
    metavar="KIND",
    help="List these instead of runs: model, model_version, artifact, project or group.",
)
@click.option("--trashed", is_flag=True, help="List only trashed runs.")
@click.option(
    "-c",
    "--columns",
    multiple=True,
    metavar="PATH[,PATH...]",
    shell_complete=_runs.complete_paths,
    callback=nonempty_path,
    help="Columns to show, such as val/loss:min or 'hyperparams/*'.",
)
@click.option(
    "--differing",
    is_flag=True,
    help="Show only columns in which the listed runs differ.",
)
@click.option(
    "-s",
    "--sort",
    metavar="PATH",
    shell_complete=_runs.complete_paths,
    callback=nonempty_path,
    help="Sort by this path.  [default: time of creation]",
)
@click.option(
    "--desc/--asc",
    "descending",
    default=None,
    help="Greatest or smallest first.  [default: greatest; smallest for :min]",
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
@click.option(
    "--offset",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Skip the first N runs (or groups).",
)
@click.option(
    "--by",
    multiple=True,
    metavar="PATH[,PATH...]",
    shell_complete=_runs.complete_paths,
    callback=nonempty_path,
    help="Group runs by the values at these paths. --columns then show statistics of the finite "
    "numbers: mean, standard deviation (n - 1), minimum and maximum.",
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
    sort: str | None,
    limit: int,
    offset: int,
    by: tuple[str, ...],
    kind: str,
    *,
    trashed: bool,
    differing: bool,
    descending: bool | None,
    as_csv: bool,
    as_json: bool,
) -> None:
    """List runs, newest first; filter, sort and choose columns.

    By default, the columns are the metrics that most runs have, and the parameters and single
    numbers in which the runs differ, limited by the width of the terminal.

    On a terminal, runs are listed below their parent run (sys/parent) unless --sort is given. A
    column such as children/val/acc:max summarizes the child runs of a run.

    Columns and --sort take paths. The path of a series stands for its last value; val/loss:min,
    :max, :mean, :count, :first_step and :last_step are its other summaries. A * matches any
    characters: 'hyperparams/*'. System namespaces (monitoring/, source_code/, ...) are matched only
    if you name them: 'monitoring/*'.

    A query compares paths with values: < <= > >= = != for numbers, texts and times, CONTAINS for
    texts and tags, =~ for regular expressions, IN (..., ...) for a list of values. Combine
    conditions with AND, OR and NOT, and group them with parentheses. A time is 2026-11-22 or
    2026-11-22T10:30, in the time zone of this computer, as in the table (2026-11-22T10:30Z is UTC),
    or relative to now, such as -1d (m, h, d, w; M for months). Put a path with unusual characters
    in back-ticks.

    \b
    Examples:
      seamark ls
      seamark ls --project vision --state running
      seamark ls --query 'hyperparams/lr <= 0.01 AND sys/tags CONTAINS "best"'
      seamark ls --query 'sys/creation_time >= -1d AND sys/state = failed'
      seamark ls --sort val/loss:min --columns val/loss:min,val/acc:max
      seamark ls --columns 'hyperparams/*' --differing
      seamark ls --query 'sys/name =~ "resnet.*"' --json | jq '.[].run'
      seamark ls --limit 0 --columns '*' --csv > runs.csv
      seamark ls --by parameters/lr --columns val/loss:min
      seamark ls --kind model_version --query 'sys/stage = production'
      seamark ls --kind artifact
      seamark ls --kind project --query 'runs > 10'
    """
    from seamark.reading.catalog import Selection

    if as_csv and as_json:
        misuse("expected one of --csv and --json, got both")
    runs = open_runs(context, project, missing_ok=True)
    context.with_resource(runs.index.moment())
    if kind == "run":
        runs.expect_project(project)
    form = "csv" if as_csv else "json" if as_json else ""
    if kind in PLACES:
        of_runs = {"--tag": tags, "--state": states, "--trashed": trashed}
        of_runs |= {"--differing": differing, "--offset": offset, "--by": by}
        refused = ", ".join(flag for flag, given in of_runs.items() if given)
        if refused:
            misuse(f"--kind {kind}: only runs have {refused}")
        beyond = list_places(
            runs,
            kind,
            project,
            query,
            columns,
            sort,
            descending=descending,
            limit=limit,
            form=form,
        )
        _note_more(limit, limit + beyond, kind)
        return
    sorting = _sorting(sort, descending=descending)
    chosen = Selection(
        project=project,
        kind=kind,
        query=query,
        state=states,
        tag=tags,
        trashed=trashed,
        limit=limit or None,
        offset=offset,
        sort_by=sort or _NEWEST,
        ascending=sorting.ascending,
        local=True,
    )
    wanted = split_names(columns)
    if by:
        _ls_groups(runs, chosen, split_names(by), wanted, form, differing=differing)
        return
    selection = _ColumnSelection(wanted, sorting, kind, differing=differing, for_people=not form)
    table = runs.index.table(chosen, selection.columns)
    pairs = zip(table.refs, table.rows, strict=True)
    rows = [{_PROJECT: home_of(at), _RUN: run, **row} for (at, run), row in pairs]
    shown = selection.shown(table.columns)
    if form:
        write_rows(form, [_PROJECT, _RUN, *shown], rows)
    elif rows:
        _note_problems(runs, table.refs, rows)
        _print(Screen(), rows, shown, selection)
    elif runs.root is None or runs.root.is_dir():  # otherwise a note was already printed
        note(
            "the trash is empty"
            if trashed
            else _no_match_text(runs, kind) + _missing_tag_text(runs, tags)
        )
    if rows and wanted and (hint := left_out(table.columns, shown)):
        note(hint)
    _note_more(len(rows), table.total, _KIND_NAMES.get(kind, "run"))


def _ls_groups(
    runs: Runs, chosen: Selection, by: list[str], columns: list[str], form: str, *, differing: bool
) -> None:
    if differing or chosen.kind != "run":
        misuse("--by groups runs and cannot be combined with --differing or --kind")
    found = runs.index.groups(chosen, by, columns)
    print_groups(found, by, columns, form)
    _note_more(len(found), found.total, "group")


def _no_match_text(runs: Runs, kind: str) -> str:
    word = _KIND_NAMES.get(kind, "run")
    there = runs.index.runs(None, kind)
    return f"no {word} matches" if there else f"no {word}s in {runs.where} yet"


def _note_more(shown: int, total: int, word: str) -> None:
    if total > shown:
        note(f"{plural(shown, word)} of {total:,}; --limit 0 shows all")


class _ColumnSelection:
    """Selection of columns: those to request from the store, and those of the result to show.

    ``optional_ranks`` maps columns that were not requested by name to their ranks; if the table is
    too wide, the highest rank is removed first. Output for programs (not ``for_people``) always has
    the same columns.
    """

    def __init__(
        self,
        wanted: Sequence[str],
        sorting: Sorting,
        kind: str,
        *,
        differing: bool,
        for_people: bool,
    ) -> None:
        self.sorting = sorting
        self.kind = kind
        self._plain = PLAIN_OF[kind]
        self.optional_ranks: dict[str, int] = {}
        self._wanted, self._differing, self._for_people = wanted, differing, for_people
        self._sorted = [sorting.label] if for_people and sorting.requested else []

    @property
    def columns(self) -> Sequence[str] | Callable[[Sequence[SharedPath]], Sequence[str]]:
        if self._differing:
            differing = [f"{name}:differing" for name in self._wanted]
            return [*(differing or ["sys/name", "*:differing"]), *self._sorted]
        if self._wanted:
            return [*self._sorted, *self._wanted, *self._parent]
        return self._choose_columns if self._for_people else self._plain

    def _choose_columns(self, shared: Sequence[SharedPath]) -> Sequence[str]:
        metrics, parameters = distinguishing_columns(shared)
        for first, paths in (
            (_FIRST_OPTIONAL_RANK, metrics),
            (_FIRST_OPTIONAL_RANK + 1, parameters),
        ):
            self.optional_ranks |= {path: first + 2 * at for at, path in enumerate(paths)}
        if metrics and not self._sorted:
            self.optional_ranks[metrics[0]] = _FIRST_METRIC
        if parameters:
            self.optional_ranks[parameters[0]] = _FIRST_PARAMETER
        claimed = [one.path for one in shared if one.path == _CLAIMED]
        return [*self._plain, *claimed, *self._sorted, *metrics, *parameters, *self._parent]

    @property
    def is_tree(self) -> bool:
        return self._for_people and self.kind == "run" and not self.sorting.requested

    @property
    def _parent(self) -> Sequence[str]:
        return [PARENT] if self.is_tree else []

    def shown(self, columns: Sequence[str]) -> list[str]:
        named = [*self._wanted, *self._sorted]
        if not self._wanted and not self._differing:
            return [name for name in columns[1:] if name not in self._parent]
        shown = []
        for name in columns:
            space = aside(name)
            if name in self._parent and name not in named:
                continue
            if name in named or (name in self._plain and not self._wanted):
                shown.append(name)
            elif name == "sys/id" or (is_inside(name, "sys") and not self._wanted):
                continue
            elif space is None or is_named(name, space, self._wanted):
                shown.append(name)
        if self._for_people and "*" in self._wanted:
            self._put_in_order(shown, named)
        return shown

    def _put_in_order(self, shown: list[str], named: Sequence[str]) -> None:
        def place(name: str) -> tuple[Any, ...]:
            if name in self._plain:
                return (0,)
            return (2, name) if is_inside(name, "sys") else (1, importance(name))

        shown.sort(key=place)
        for name in shown:
            if name not in named and name not in self._plain:
                system = is_inside(name, "sys")
                self.optional_ranks[name] = (
                    _FIRST_OPTIONAL_RANK if system else 3 + importance(name)[0]
                )


def _missing_tag_text(runs: Runs, tags: Sequence[str]) -> str:
    from seamark.reading.catalog import Selection

    if not tags:
        return ""
    table = runs.index.table(Selection(trashed=None), ["sys/tags"])
    known = sorted({one for row in table.to_rows() for one in row.get("sys/tags") or ()})
    missing = next((one for one in tags if one not in known), None)
    if missing is None:
        return ""
    return f": no run has the tag {missing!r}{hint_for(missing, known)}"


def _print(
    screen: Screen,
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    selection: _ColumnSelection,
) -> None:
    several = len({row[_PROJECT] for row in rows}) > 1
    names = ["sys/id", *([_PROJECT] if several else [])]
    names += [name for name in columns if name not in names]
    if screen.terminal and selection.is_tree:
        rows = _as_tree(rows)
    names += [_LOSSES] if any(row.get(_LOSSES) for row in rows) else []
    now = datetime.now(timezone.utc)
    field = _field if selection.kind == "run" else _format_version_field
    lines = [[field(row, name, screen, now) for name in names] for row in rows]
    titles = [
        _column(name, screen, selection, right=_is_numeric([row.get(name) for row in rows]))
        for name in names
    ]
    without = screen.table(titles, lines)
    named = {one.title for one in titles if one.rank < _FIRST_OPTIONAL_RANK}
    missed = [title for title in without if title in named]
    note_hidden_columns(missed, len(without) - len(missed))


def _as_tree(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    known = {(row[_PROJECT], row[_RUN]) for row in rows}
    below: dict[tuple[str, str] | None, list[Mapping[str, Any]]] = {}
    for row in rows:
        above, slash, run = str(row.get(PARENT) or "").rpartition("/")
        parent = (above if slash else row[_PROJECT], run)
        below.setdefault(parent if parent in known else None, []).append(row)
    found: list[Mapping[str, Any]] = []
    left = [(row, 0) for row in reversed(below.pop(None, []))]
    while left or below:
        if not left:  # runs that name each other as parents are listed nevertheless
            left = [(row, 0) for row in below.pop(next(iter(below)))]
        row, depth = left.pop()
        found.append({**row, _DEPTH: depth})
        inside = below.pop((row[_PROJECT], row[_RUN]), [])
        left += [(each, depth + 1) for each in reversed(inside)]
    return found


def _note_problems(
    runs: Runs, refs: Sequence[tuple[str, str]], rows: Sequence[dict[str, Any]]
) -> None:
    losses = runs.index.losses(refs)
    crashed = [
        ref for ref, row in zip(refs, rows, strict=True) if row.get("sys/state") == "crashed"
    ]
    reasons = runs.index.crash_reasons(crashed)
    for ref, row in zip(refs, rows, strict=True):
        row[_LOSSES] = loss_summary(losses.get(ref, {}))
        row[_SHORT_REASON] = reasons.get(ref)


def _is_numeric(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in known
    )


def _column(name: str, screen: Screen, selection: _ColumnSelection, *, right: bool) -> Column:
    sorting, title = selection.sorting, TITLES.get(name, clean(name))
    if name == "sys/id":
        title = _TITLES_OF_ID.get(selection.kind, title)
    sorted_by = sorting.requested and name in (sorting.label, sorting.label.removesuffix(":last"))
    if sorted_by and screen.terminal:
        title += " ▲" if sorting.ascending else " ▼"
    rank = _DROP_ORDER.get(name, 0 if name == "sys/id" else 2)
    return Column(
        title,
        right=right,
        shrink=name in _SHRINKING or name not in TITLES,
        apart=name == "sys/name",
        least=_MIN_CELLS.get(name) or max(8, min(len(title.rpartition("/")[2]) + 2, _TITLE_CELLS)),
        rank=min(rank, 1) if sorted_by else selection.optional_ranks.get(name, rank),
    )


def _field(row: Mapping[str, Any], name: str, screen: Screen, now: datetime) -> Cell:
    value = row.get(name)
    if name == "sys/name" and not value:
        return Cell(generated_name(row[_RUN]), "dim")
    if name == "sys/id" and row.get(_DEPTH):
        return Cell(f"{'  ' * (row[_DEPTH] - 1)}└ {clean(str(value))}", "cyan")
    if name == "sys/state" and row.get(_SHORT_REASON) and _REASON not in row:
        return Cell(f"{value}: {row[_SHORT_REASON]}", STATE_STYLES["crashed"])
    if name == _LOSSES:
        return Cell(f"⚠ {value}" if value else "", "yellow")
    return cell_of(value, name, screen, now)


def _format_version_field(row: Mapping[str, Any], name: str, screen: Screen, now: datetime) -> Cell:
    if name == "sys/name" and not row.get(name):
        return Cell("")
    if name == "sys/id" and len(str(row.get(name))) > _MAX_ID_LENGTH:
        return Cell(str(row[name])[:_SHORT_ID_LENGTH], "cyan")
    return _field(row, name, screen, now)
