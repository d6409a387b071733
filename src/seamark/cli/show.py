"""``seamark show``: data of one run."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import click

from seamark.cli import _facts, _runs
from seamark.cli._app import json_option, misuse, root_option
from seamark.cli._health import health_problems, print_health
from seamark.cli._printed import LastLines, is_output
from seamark.cli._ranks import print_ranks
from seamark.cli._runs import RunRef, nonempty_path, open_runs, project_option, run_argument
from seamark.cli._screen import Cell, Column, Screen, dumps
from seamark.paths import is_inside, matches
from seamark.reading.attributes import Attribute
from seamark.reading.document import attributes_of, ref_of
from seamark.reading.facts import (
    CheckpointNote,
    best_extremes,
    by_importance,
    checkpoint_notes,
    is_checkpoint,
    is_parameter,
    space_of,
)
from seamark.reading.rank_text import rank_mappings
from seamark.reading.reader import Reader
from seamark.reading.report import report_of_run
from seamark.reading.states import GOOD_STATES
from seamark.reading.text import (
    clean,
    hint_for,
    last_text,
    plural,
    short_text,
    shorten,
    step_text,
    time_text,
    unit_of,
    value_text,
)

_MAX_ROWS: Final = 30
"""Maximum number of rows of a section on a terminal, unless all are requested."""
_SUMMARIZED: Final = ("sys",)
"""Namespaces that `show` summarizes in words."""
_COUNTED: Final = ("monitoring",)
"""Namespaces that `show` only counts, unless they are requested."""
_SOURCE: Final = "source_code"
_PACKAGES: Final = ("source_code/packages", "source_code/conda")
_LAST_LINES: Final = 5
"""Number of last output lines shown for a run that failed."""
_FOLDED: Final = ("profiling/actions", "profiling/events", "profiling/handlers")
"""Namespaces whose series `show` only counts, unless requested: a profiled training has hundreds.
"""


@click.command(short_help="Show what one run recorded (--all: everything).")
@run_argument
@click.argument(
    "paths",
    nargs=-1,
    metavar="[PATH]...",
    shell_complete=_runs.complete_paths,
    callback=nonempty_path,
)
@project_option
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    metavar="N",
    help="Number of points to show for a single series, the last ones.",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also list groups that are otherwise only counted, such as the times of profilers.",
)
@click.option(
    "--ranks", is_flag=True, help="Show the step times of each rank, the slowest rank first."
)
@json_option
@root_option
@click.pass_context
def show(
    context: click.Context,
    run: str,
    paths: tuple[str, ...],
    project: str | None,
    limit: int,
    *,
    everything: bool,
    ranks: bool,
    as_json: bool,
) -> None:
    """Show what one run recorded: state, problems, metrics, parameters, checkpoints, files.

    PATH limits the output to one attribute or one namespace. For a single series the last points
    are shown; a single value is shown in full. On a terminal, rarely needed groups (distributed,
    monitoring, profiling, the installed packages) are only counted; name the PATH or use --all to
    list them. Output to a pipe has full values and names, but monitoring, the times of profilers
    and packages are only counted there, too, and attributes in the line about the code are not
    repeated.

    BEST is the better extreme of a series, min or max; it is known only if a checkpoint was saved
    for the best value.

    --ranks is for runs that every rank recorded, with ranks="all". Ranks are compared by the part
    of a step in which they do not wait for others (profiling/own_time_s), otherwise by whole steps
    (profiling/step_time_s). SLOWDOWN is the time of a rank divided by the median of the others.
    STATE is that of the run, or killed (ended without a reason), hangs (alive, but no step or
    heartbeat), waits (for a rank that hangs), lost (cannot be checked from here), or missing.

    \b
    Examples:
      seamark show latest                    the newest run
      seamark show latest --all              everything that is recorded
      seamark show quick-otter val           everything below val/
      seamark show 9jr5 val/loss --limit 50  the last points of one series
      seamark show quick-otter source_code   git commit, arguments, packages
      seamark show latest --ranks            which rank is slow
      seamark show latest --json | jq '.attributes["val/loss"].value.min'
    """
    runs = open_runs(context, project)
    context.with_resource(runs.index.moment())
    ref = runs.find(run, project)
    view = runs.view(ref)
    if ranks:
        print_ranks(ref, view, as_json=as_json)
        return
    wanted = tuple(path.strip("/") for path in paths)
    attributes = [
        attribute
        for attribute in view.attributes()
        if not wanted or matches(attribute.path, *wanted)
    ]
    if not attributes:
        hint = hint_for(wanted[0], [one.path for one in view.attributes()]) if wanted else ""
        misuse(
            f"run {ref}: nothing is recorded at {', '.join(wanted)}{hint} "
            f"(seamark show {ref.run} lists all paths)"
        )
    if as_json:
        document: dict[str, Any] = {
            **ref_of(ref.project, ref.run),
            "attributes": attributes_of(attributes),
        }
        if not wanted:
            report = report_of_run(view, attributes, project=ref.project)
            document["report"] = report
            document["ranks"] = rank_mappings(view)
            document["health"] = [asdict(one) for one in health_problems(report["health"])]
        click.echo(dumps(document))
        return
    _print(
        Screen(),
        ref,
        view,
        attributes,
        narrowed=bool(wanted),
        everything=everything,
        limit=limit,
    )


def _errors(screen: Screen, errors: Sequence[Mapping[str, Any]]) -> None:
    if len(errors) < 2:  # noqa: PLR2004 - the facts show a single error
        return
    screen.heading(f"Errors ({len(errors):,})")
    columns = [Column("TIME"), Column("RANK", right=True), Column("ERROR", shrink=True)]
    rows = [
        [
            Cell(value_text(one["time"], exact=not screen.terminal), "dim"),
            Cell("" if one["rank"] is None else str(one["rank"])),
            Cell(clean(f"{one['type']}: {one['message']}")),
        ]
        for one in errors[-_MAX_ROWS:]
    ]
    screen.table(columns, rows, indent=2)


@dataclass(slots=True)
class _Shown:
    """State shared by the sections of an output; ``digest`` selects a short form for a terminal."""

    screen: Screen
    view: Reader
    digest: bool = False
    best: dict[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    notes: dict[str, CheckpointNote] = field(default_factory=dict)


def _print(
    screen: Screen,
    ref: RunRef,
    view: Reader,
    attributes: Sequence[Attribute],
    *,
    narrowed: bool,
    everything: bool,
    limit: int,
) -> None:
    if narrowed and len(attributes) == 1:
        _print_single(screen, view, attributes[0], limit)
        return
    whole = narrowed or everything
    best = best_extremes(attributes)
    shown = _Shown(
        screen,
        view,
        digest=screen.terminal and not whole,
        best=best,
        changes=_facts.changes_of(view, attributes),
        notes=checkpoint_notes(attributes, best),
    )
    if not narrowed:
        costs = dict.fromkeys(one.value for one in attributes if shown.digest and _is_cost(one))
        report = report_of_run(view, attributes, project=ref.project)
        further = [("time", cost) for cost in costs]
        _facts.print_facts(screen, ref, view, report, attributes, further)
        print_health(screen, health_problems(report["health"]))
        _errors(screen, report["errors"])
    counted = {} if whole else _counted(attributes, digest=shown.digest)
    rest = attributes if whole else _remaining(shown, attributes, counted)
    is_only = narrowed and sum(any(map(wanted, rest)) for _, wanted, _ in _SECTIONS) == 1
    for title, wanted, printer in _SECTIONS:
        if part := [attribute for attribute in rest if wanted(attribute)]:
            if not is_only:
                screen.heading(f"{title} ({len(part):,})")
            _section(shown, ref, part, printer)
    counts = [
        f"{_count(space, part)}: seamark show {ref.run} {space}" for space, part in counted.items()
    ]
    if not narrowed:
        counts = [*_output(screen, ref, view, attributes), *counts]
    for line in ["", *counts] if counts else ():
        screen.line(line, style="dim")


def _remaining(
    shown: _Shown, attributes: Sequence[Attribute], counted: dict[str, list[Attribute]]
) -> list[Attribute]:
    left_out = {one.path for part in counted.values() for one in part} | _facts.CODE
    if shown.digest:
        left_out.update(path for note in shown.notes.values() for path in note.told_by)
    return [one for one in attributes if one.path not in left_out and not _is_shown_as_text(one)]


def _is_shown_as_text(attribute: Attribute) -> bool:
    path = attribute.path
    return any(is_inside(path, space) for space in _SUMMARIZED) or is_output(path, attribute.family)


def _output(
    screen: Screen, ref: RunRef, view: Reader, attributes: Sequence[Attribute]
) -> list[str]:
    if not any(is_output(one.path, one.family) for one in attributes):
        return []
    lines = [] if view.state in GOOD_STATES else LastLines(_LAST_LINES).look(view)
    if not lines:
        return [f"output: seamark logs {ref.run}"]
    screen.heading(f"Last lines of its output (all: seamark logs {ref.run})")
    for one in lines:
        text = clean(one.text)
        screen.line(f"  {shorten(text, screen.width - 2) if screen.terminal else text}")
    return []


def _section(
    shown: _Shown,
    ref: RunRef,
    part: Sequence[Attribute],
    printer: Callable[[_Shown, Sequence[Attribute]], None],
) -> None:
    if shown.digest and part[0].family == "float_series":
        part = by_importance(part, shown.best)
    elif shown.digest:  # marked checkpoints come first
        part = sorted(
            part, key=lambda one: not (one.path in shown.notes and shown.notes[one.path].mark)
        )
    rows = part[:_MAX_ROWS] if shown.digest else part
    printer(shown, rows)
    if len(rows) < len(part):
        more = f"and {len(part) - len(rows):,} more: seamark show {ref.run} --all"
        shown.screen.line(f"  {more}", style="dim")


def _is_cost(attribute: Attribute) -> bool:
    return (
        attribute.path.endswith("/largest_cost")
        and is_inside(attribute.path, "profiling")
        and isinstance(attribute.value, str)
    )


def _counted(attributes: Sequence[Attribute], *, digest: bool) -> dict[str, list[Attribute]]:
    found: dict[str, list[Attribute]] = {}
    for one in attributes:
        if _is_shown_as_text(one):
            continue
        space = _space_of(one) if digest else _space_in_pipe(one)
        if space:
            found.setdefault(space, []).append(one)
    return found


def _space_of(attribute: Attribute) -> str | None:
    if attribute.path in _PACKAGES:
        return attribute.path
    if attribute.family in {"file", "file_set"} and is_inside(attribute.path, _SOURCE):
        return _SOURCE
    return space_of(attribute.path)


def _space_in_pipe(attribute: Attribute) -> str | None:
    if attribute.path in _PACKAGES and attribute.family == "atom":
        return attribute.path
    spaces = _FOLDED if attribute.family == "float_series" else ()
    return next((space for space in (*spaces, *_COUNTED) if is_inside(attribute.path, space)), None)


def _count(space: str, part: Sequence[Attribute]) -> str:
    if space in _PACKAGES:
        what = "conda package" if space.endswith("conda") else "package"
        value = part[0].value  # a very long value is stored as a file
        return plural(value.count("\n") + 1, what) if isinstance(value, str) else f"{what}s"
    if space == _SOURCE:
        return f"{plural(len(part), 'file')} under {space}"
    if all(one.family == "float_series" for one in part):
        return f"{plural(len(part), 'more series', 'more series')} under {space}"
    return f"{plural(len(part), 'more value')} under {space}"


# One attribute, in full


def _print_single(screen: Screen, view: Reader, attribute: Attribute, limit: int) -> None:
    path, family = attribute.path, attribute.family
    if family == "atom":
        screen.line(_facts.full_text(view, attribute))
    elif family == "float_series":
        _series(_Shown(screen, view), [attribute])
        points = view.points(path)
        screen.line()
        unit = unit_of(path)
        columns = [Column("STEP", right=True), Column("VALUE", right=True), Column("TIME")]
        rows = [
            [
                Cell(step_text(step)),
                Cell(_measured(value, unit) if unit else repr(value)),
                Cell(time_text(time_ns)),
            ]
            for step, value, time_ns in zip(
                points.step[-limit:].tolist(),
                points.value[-limit:].tolist(),
                points.time_ns[-limit:].tolist(),
                strict=True,
            )
        ]
        screen.table(columns, rows)
    elif family == "string_series":
        for point in view.texts(path)[-limit:]:
            screen.styled(
                [(f"{step_text(point.step)}  ", "dim"), (_facts.whole_text(view, point.text), "")]
            )
    else:
        for key, text in _facts.details(view, attribute):
            screen.fact(key, text)


# Sections


def _values(shown: _Shown, attributes: Sequence[Attribute]) -> None:
    screen, exact, change = shown.screen, not shown.screen.terminal, _facts.change_text
    costs = [one for one in attributes if screen.terminal and _is_cost(one)]
    changed = any(one.path in shown.changes for one in attributes)
    columns = [
        Column("PATH", shrink=True, path=True),
        Column("VALUE", shrink=True),
        *([Column("CHANGED", shrink=True)] if changed else ()),
    ]
    rows = [
        [
            Cell(clean(one.path)),
            Cell(_value(one, exact=exact)),
            *([Cell(change(shown.changes, one.path, exact=exact), "yellow")] if changed else ()),
        ]
        for one in attributes
        if one not in costs
    ]
    if rows:
        screen.table(columns, rows, indent=2)
    for one in costs:  # the important part is at the end, so lines are wrapped, not shortened
        screen.line(f"  {one.path}")
        for line in textwrap.wrap(clean(one.value), max(20, screen.width - 4)):
            screen.line(f"    {line}")


def _series(shown: _Shown, attributes: Sequence[Attribute]) -> None:
    _facts.print_series(shown.screen, shown.view.curve, attributes, shown.best, indent=2)


def _statistics(shown: _Shown, attributes: Sequence[Attribute]) -> None:
    exact = not shown.screen.terminal
    units = [unit_of(attribute.path) for attribute in attributes]
    names = ("mean", "std", "min", "max", "last")
    columns = [
        Column("PATH", shrink=True, path=True),
        *(Column(name.upper(), right=True, rank=at) for at, name in enumerate(names)),
        *([Column("UNIT")] if any(units) else ()),
        Column("COUNT", right=True, rank=1),
    ]
    rows = []
    for attribute, unit in zip(attributes, units, strict=True):
        found = attribute.value.to_dict()
        texts = [
            value_text(found[name], exact=exact) if name in found and found["count"] else "—"
            for name in names
        ]
        rows.append(
            [
                Cell(clean(attribute.path)),
                *(Cell(text, "bold" if not at else "") for at, text in enumerate(texts)),
                *([Cell(unit, "dim")] if any(units) else ()),
                Cell(f"{found['count']:,}"),
            ]
        )
    shown.screen.table(columns, rows, indent=2)


def _measured(value: float, unit: str) -> str:
    return f"{_facts.rounded(value)} {unit}"


def _value(attribute: Attribute, *, exact: bool) -> str:
    unit, value = unit_of(attribute.path), attribute.value
    if unit and isinstance(value, float):
        return _measured(value, unit)
    return short_text(attribute, exact=exact) + (f" {unit}" if unit else "")


def _print_tails(shown: _Shown, attributes: Sequence[Attribute]) -> None:
    columns = [
        Column("PATH", shrink=True, path=True),
        Column("POINTS", right=True),
        Column("STEPS", rank=1),
        Column("LAST", shrink=True),
    ]
    rows = [
        [
            Cell(clean(a.path)),
            Cell(f"{a.value.count:,}"),
            Cell(_facts.span_text(a.value), "dim"),
            Cell(last_text(a.value)),
        ]
        for a in attributes
    ]
    shown.screen.table(columns, rows, indent=2)


def _files(shown: _Shown, attributes: Sequence[Attribute]) -> None:
    noted = any(one.path in shown.notes and shown.notes[one.path].words for one in attributes)
    columns = [
        Column("PATH", shrink=True, path=True),
        Column("SIZE", right=True),
        Column("WHERE"),
        *([Column("SCORE")] if noted else ()),
        Column("FILE", shrink=True, path=True, rank=1),
    ]
    rows, marked = [], []
    for attribute in attributes:
        size, where, name = _facts.file_words(shown.view, attribute)
        style = {"gone": "bold red", "changed": "yellow", "pending": "yellow"}.get(where, "")
        note = shown.notes.get(attribute.path)
        if note is not None and note.mark and "ref" in attribute.value:
            marked.append((note.mark, name))
        rows.append(
            [
                Cell(clean(attribute.path)),
                Cell(size),
                Cell(where, style),
                *([_score(note)] if noted else ()),
                Cell(clean(shown.view.contents.shorter(name) if shown.digest else name), "dim"),
            ]
        )
    shown.screen.table(columns, rows, indent=2)
    for mark, name in marked if shown.digest else ():  # for copying, so never shortened
        shown.screen.styled([(f"  {mark}: ", "dim"), (name, "")])


def _score(note: CheckpointNote | None) -> Cell:
    if note is None:
        return Cell("")
    return Cell(clean(note.words), _facts.BEST if note.mark == "best" else "")


def _has_family(*families: str) -> Callable[[Attribute], bool]:
    return lambda attribute: attribute.family in families


def _is_plain_value(attribute: Attribute) -> bool:
    return attribute.family in {"atom", "string_set"} and not (
        is_inside(attribute.path, "source_code") or is_parameter(attribute)
    )


_SECTIONS: Final[
    tuple[
        tuple[str, Callable[[Attribute], bool], Callable[[_Shown, Sequence[Attribute]], None]],
        ...,
    ]
] = (
    ("Series", _has_family("float_series"), _series),
    ("Statistics", _has_family("statistic"), _statistics),
    ("Parameters", is_parameter, _values),
    ("Checkpoints", is_checkpoint, _files),
    ("Values", _is_plain_value, _values),
    (
        "Texts, images and histograms over time",
        _has_family("string_series", "file_series", "histogram_series"),
        _print_tails,
    ),
    (
        "Files",
        lambda a: a.family in {"file", "file_set", "artifact"} and not is_checkpoint(a),
        _files,
    ),
    ("Source code", lambda a: a.family == "atom" and is_inside(a.path, "source_code"), _values),
)
