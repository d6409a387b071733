"""``seamark show``: all that one run recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from seamark.cli import _complete, _facts
from seamark.cli._app import misuse, root_option
from seamark.cli._json import dumps
from seamark.cli._ranks import rank_mappings
from seamark.cli._runs import RunRef, Runs, open_runs, project_option, run_argument
from seamark.cli._screen import Cell, Column, Screen
from seamark.cli._text import clean, human_number, plural, step_text
from seamark.paths import is_inside

if TYPE_CHECKING:
    from seamark.local.view import RunView
    from seamark.reading.attributes import Attribute

__all__ = ["show"]

_SPARK: Final = 24
_SHORT_SPARK: Final = 14
_WIDE: Final = 100
"""Cells of a curve within a line, and the terminal width from which on it gets all of them."""
_SPARKED_SERIES: Final = 100
"""Reading points takes time; further series are shown without a curve."""
_HIDDEN: Final = ("sys", "monitoring")
"""Namespaces that `show` tells in words, or only counts, unless asked for."""
_FOLDED: Final = ("profiling/actions", "profiling/events", "profiling/handlers")
"""Namespaces whose series `show` only counts unless asked for: a profiled training has hundreds."""


@click.command(short_help="Show everything that one run recorded.")
@run_argument
@click.argument("paths", nargs=-1, metavar="[PATH]...", shell_complete=_complete.paths)
@project_option
@click.option(
    "--limit",
    default=10,
    show_default=True,
    metavar="N",
    help="How many of its last points to show of a single series.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Write one strict JSON document; NaN and infinities as strings.",
)
@root_option
@click.pass_context
def show(
    context: click.Context,
    run: str,
    paths: tuple[str, ...],
    project: str | None,
    limit: int,
    *,
    as_json: bool,
) -> None:
    """Show everything that one run recorded: state, problems, parameters, series, files.

    PATH limits the output to one attribute or one namespace. Of a single series the last points are
    shown; a single value is shown in full.

    \b
    Examples:
      seamark show latest                    the newest run
      seamark show quick-otter val           everything below val/
      seamark show 9jr5 val/loss --limit 50  the last points of one series
      seamark show quick-otter source_code   git commit, arguments, packages
      seamark show latest --json | jq '.attributes["val/loss"].value.min'
    """
    runs = open_runs(context, project)
    ref = runs.find(run, project)
    view = runs.view(ref)
    wanted = tuple(path.strip("/") for path in paths)
    attributes = [
        attribute
        for attribute in view.attributes()
        if not wanted or any(is_inside(attribute.path, p) for p in wanted)
    ]
    if not attributes:
        missing = ", ".join(wanted)
        misuse(
            f"run {ref}: nothing is recorded at {missing} (seamark show {ref.run} lists what is)"
        )
    if as_json:
        told = {"project": ref.project, "run": ref.run, "attributes": as_mapping(attributes)}
        click.echo(dumps(told if wanted else {**told, "ranks": rank_mappings(view)}))
        return
    _print(Screen(), runs, ref, view, attributes, narrowed=bool(wanted), limit=limit)


def as_mapping(attributes: Iterable[Attribute]) -> dict[str, Any]:
    """Return attributes as ``{path: {family, type, value}}``, summaries as mappings."""
    return {
        attribute.path: {
            "family": attribute.family,
            "type": attribute.type,
            "value": _facts.value_mapping(attribute.value),
        }
        for attribute in attributes
    }


def _print(
    screen: Screen,
    runs: Runs,
    ref: RunRef,
    view: RunView,
    attributes: Sequence[Attribute],
    *,
    narrowed: bool,
    limit: int,
) -> None:
    if narrowed and len(attributes) == 1:
        _single(screen, view, attributes[0], limit)
        return
    if not narrowed:
        _facts.print_facts(screen, ref, view)
    hidden = () if narrowed else _HIDDEN
    shown = [a for a in attributes if not any(is_inside(a.path, space) for space in hidden)]
    folded = {} if narrowed else _folded(shown)
    counted = {path for paths in folded.values() for path in paths}
    shown = [attribute for attribute in shown if attribute.path not in counted]
    for title, wanted, printer in _SECTIONS:
        if part := [attribute for attribute in shown if wanted(attribute)]:
            if not (narrowed and len({_section_of(a) for a in shown}) == 1):
                screen.heading(f"{title} ({len(part):,})")
            printer(screen, view, part)
    monitored = [a for a in attributes if is_inside(a.path, "monitoring")]
    more = {
        space: plural(len(paths), "more series", "more series") for space, paths in folded.items()
    }
    if not narrowed and monitored:
        more["monitoring"] = plural(len(monitored), "more value")
    if more:
        screen.line()
    for space, count in more.items():
        screen.line(f"{count} under {space}: seamark show {ref.run} {space}", style="dim")
    del runs


def _folded(attributes: Sequence[Attribute]) -> dict[str, list[str]]:
    """Return the paths of series that are only counted, by their namespace."""
    series = [attribute.path for attribute in attributes if attribute.family == "float_series"]
    found = {space: [path for path in series if is_inside(path, space)] for space in _FOLDED}
    return {space: paths for space, paths in found.items() if paths}


def _section_of(attribute: Attribute) -> str:
    return next(title for title, wanted, _ in _SECTIONS if wanted(attribute))


# One attribute, in full


def _single(screen: Screen, view: RunView, attribute: Attribute, limit: int) -> None:
    path, family = attribute.path, attribute.family
    if family == "atom":
        screen.line(_facts.full_text(view, attribute))
    elif family == "float_series":
        _series(screen, view, [attribute])
        points = view.points(path)
        screen.line()
        columns = [Column("STEP", right=True), Column("VALUE", right=True), Column("TIME")]
        rows = [
            [Cell(step_text(step)), Cell(repr(value)), Cell(_facts.time_text(time_ns))]
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
            screen.styled([(f"{key:<12}", "dim"), (text, "")])


# Sections


def _values(screen: Screen, view: RunView, attributes: Sequence[Attribute]) -> None:
    del view
    columns = [Column("PATH", shrink=True, path=True), Column("VALUE", shrink=True)]
    rows = [
        [Cell(clean(a.path)), Cell(_facts.short_text(a, exact=not screen.terminal))]
        for a in attributes
    ]
    screen.table(columns, rows, indent=2)


def _series(screen: Screen, view: RunView, attributes: Sequence[Attribute]) -> None:
    number: Callable[[float], str] = human_number if screen.terminal else repr
    columns = [
        Column("PATH", shrink=True, path=True),
        Column("LAST", right=True),
        Column("MIN", right=True, rank=2),
        Column("MAX", right=True, rank=2),
        Column("POINTS", right=True, rank=1),
        Column("STEPS", rank=3),
    ]
    drawn = screen.terminal and len(attributes) <= _SPARKED_SERIES
    spark = _SPARK if screen.width >= _WIDE else _SHORT_SPARK
    if drawn:
        columns.append(Column("CURVE", rank=4))
    rows = []
    for attribute in attributes:
        summary = attribute.value
        odd = summary.nan_count + summary.inf_count
        points = f"{summary.count:,}" + (f" ({odd:,} not finite)" if odd else "")
        row = [
            Cell(clean(attribute.path)),
            Cell(number(summary.last), "bold"),
            Cell(number(summary.min)),
            Cell(number(summary.max)),
            Cell(points, "yellow" if odd else ""),
            Cell(_facts.span_text(summary), "dim"),
        ]
        if drawn:
            row.append(Cell(_facts.sparkline(view.points(attribute.path).value, spark), "cyan"))
        rows.append(row)
    screen.table(columns, rows, indent=2)


def _tails(screen: Screen, view: RunView, attributes: Sequence[Attribute]) -> None:
    del view
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
            Cell(_facts.last_text(a)),
        ]
        for a in attributes
    ]
    screen.table(columns, rows, indent=2)


def _files(screen: Screen, view: RunView, attributes: Sequence[Attribute]) -> None:
    columns = [
        Column("PATH", shrink=True, path=True),
        Column("SIZE", right=True),
        Column("WHERE"),
        Column("FILE", shrink=True, path=True, rank=1),
    ]
    rows = []
    for attribute in attributes:
        size, where, name = _facts.file_words(view, attribute)
        style = {"gone": "bold red", "changed": "yellow", "pending": "yellow"}.get(where, "")
        rows.append(
            [Cell(clean(attribute.path)), Cell(size), Cell(where, style), Cell(clean(name), "dim")]
        )
    screen.table(columns, rows, indent=2)


def _is_checkpoint(attribute: Attribute) -> bool:
    return attribute.family == "file" and (
        "/checkpoints/" in f"/{attribute.path}/"
        or attribute.value.get("ext") in {"ckpt", "pt", "pth"}
    )


def _is(*families: str) -> Callable[[Attribute], bool]:
    return lambda attribute: attribute.family in families


_SECTIONS: Final[
    tuple[
        tuple[str, Callable[[Attribute], bool], Callable[[Screen, Any, Sequence[Attribute]], None]],
        ...,
    ]
] = (
    (
        "Values",
        lambda a: a.family in {"atom", "string_set"} and not is_inside(a.path, "source_code"),
        _values,
    ),
    ("Series", _is("float_series"), _series),
    (
        "Texts, images and histograms over time",
        _is("string_series", "file_series", "histogram_series"),
        _tails,
    ),
    ("Checkpoints", _is_checkpoint, _files),
    (
        "Files",
        lambda a: a.family in {"file", "file_set", "artifact"} and not _is_checkpoint(a),
        _files,
    ),
    ("Source code", lambda a: a.family == "atom" and is_inside(a.path, "source_code"), _values),
)
