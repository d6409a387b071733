"""``seamark plot``: curves of one run or many, in the terminal or as a file."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from seamark.cli import _runs
from seamark.cli._app import misuse, root_option
from seamark.cli._runs import (
    RunRef,
    Runs,
    attempt_option,
    matching_paths,
    nonempty_path,
    open_runs,
    project_option,
    query_option,
    reject_empty,
    split_names,
)
from seamark.cli._screen import Screen, note
from seamark.errors import ArgumentError, RunNotFoundError
from seamark.reading.attributes import aside
from seamark.reading.text import clean, is_measured, plural

if TYPE_CHECKING:
    from seamark.pictures.drawing import PlotOptions
    from seamark.pictures.plots import Axes, Curve
    from seamark.reading.points import Attempt


_MIN_HEIGHT: Final = 5


@click.command(short_help="Plot curves in the terminal, or to PNG, SVG, PDF or HTML.")
@click.argument(
    "words",
    nargs=-1,
    required=True,
    metavar="RUN... PATH...",
    shell_complete=_runs.complete_run_or_path,
    callback=reject_empty("runs and series such as latest val/loss"),
)
@project_option
@query_option
@click.option(
    "--by",
    multiple=True,
    metavar="PATH[,PATH...]",
    shell_complete=_runs.complete_paths,
    callback=nonempty_path,
    help="Group runs by the values at these paths, and draw the mean of each group, a band of "
    "one standard deviation (n - 1) on either side, and the number of runs.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write .png, .svg, .pdf or .html (works offline) instead of drawing in the terminal.",
)
@click.option(
    "-x",
    "--x",
    metavar="step|order|time|relative|PATH",
    help="X axis: steps, order of recording, clock time, seconds since the run began, or another "
    "series.  "
    "[default: step; time for series below monitoring]",
)
@click.option(
    "--smooth",
    type=float,
    metavar="WINDOW",
    help="Draw the mean over a window of this width, in units of the x axis, such as 500 (steps).",
)
@click.option(
    "--half-life",
    type=float,
    metavar="X",
    help="Draw an exponential moving average; the weight of a point halves with this distance on "
    "the x axis.",
)
@click.option("--from", "low", type=float, metavar="X", help="Lower limit of the x axis.")
@click.option("--to", "high", type=float, metavar="X", help="Upper limit of the x axis.")
@click.option("--log/--linear", "log_y", default=False, help="Logarithmic y axis.")
@click.option("--log-x", is_flag=True, help="Logarithmic x axis.")
@attempt_option
@click.option(
    "--height",
    type=click.IntRange(_MIN_HEIGHT),
    metavar="LINES",
    help="Height of the drawing in the terminal.",
)
@root_option
@click.pass_context
def plot(
    context: click.Context,
    words: tuple[str, ...],
    project: str | None,
    query: str | None,
    by: tuple[str, ...],
    out: Path | None,
    x: str | None,
    smooth: float | None,
    half_life: float | None,
    low: float | None,
    high: float | None,
    attempt: Attempt,
    height: int | None,
    *,
    log_y: bool,
    log_x: bool,
) -> None:
    """Plot series of numbers from one or more runs in one picture.

    Give the runs first, then the series: paths, namespaces, or patterns with * (quote them). With
    --query or --by, all arguments are series: the query selects the runs, and --by without --query
    uses all runs of the project. NaN and infinite values are marked at the edge of the picture;
    groups ignore them.

    \b
    Examples:
      seamark plot latest val/loss
      seamark plot quick-otter calm-heron train/loss val/loss --smooth 500
      seamark plot latest 'train/*' --log -x relative
      seamark plot latest train/loss --from 1000 --to 2000
      seamark plot latest train/loss --attempt replaced
      seamark plot latest 'monitoring/*/cpu'
      seamark plot --query 'hyperparams/lr < 0.01' val/loss -o losses.html
      seamark plot --by parameters/lr val/loss

    Files need the extra: pip install "seamark[plot]"
    """
    from seamark.pictures import plots
    from seamark.pictures.drawing import PlotOptions, Source, picture_of
    from seamark.reading.curves import Look

    screen = Screen()
    # On a terminal, at least one part for each dot.
    points = plots.PICTURE_POINTS if out is not None else 8 * screen.width
    look = Look(points, x or "step", low, high, smooth, half_life, log_x, log_y)
    options = PlotOptions(look, attempt)
    if out is not None and not out.parent.is_dir():
        misuse(f"cannot write {out}: the folder {out.parent} does not exist")
    runs = open_runs(context, project)
    context.with_resource(runs.index.moment())
    if by:
        options = _with_time_axis(options, x, words)
        curves, axes = _group_curves(runs, split_names(by), words, project, query, options)
    else:
        refs, patterns = _split_words(runs, words, project, query)
        labels = runs.finder.labels(refs)
        sources = [
            Source(label, str(ref), runs.view(ref)) for label, ref in zip(labels, refs, strict=True)
        ]
        options = _with_time_axis(options, x, patterns)
        curves, axes = picture_of(sources, patterns, options, plural(len(sources), "run"))
        _note_left_out(curves, options)
        if out is None and len(sources) == len(curves) == 1:
            axes = replace(axes, title=axes.unit)  # the user named the series
    if out is not None:
        plots.save(curves, axes, out)
        note(f"wrote {out}")
        return
    from seamark.pictures.braille import draw

    lines = height or max(_MIN_HEIGHT, min(20, shutil.get_terminal_size().lines - 8 - len(curves)))
    picture = draw(
        curves,
        axes,
        width=screen.width,
        height=lines,
        colour=screen.colours,
        bands=bool(by),
        safe=clean,
    )
    click.echo(picture)


def _with_time_axis(options: PlotOptions, x: str | None, patterns: Sequence[str]) -> PlotOptions:
    look = options.look
    if x is None and not look.log_x and all(is_measured(one.strip("/")) for one in patterns):
        return replace(options, look=replace(look, x="time"))
    return options


def _group_curves(
    runs: Runs,
    by: Sequence[str],
    patterns: Sequence[str],
    project: str | None,
    query: str | None,
    options: PlotOptions,
) -> tuple[list[Curve], Axes]:
    from seamark.pictures.drawing import MOST_CURVES, curves_of_groups, picture_of_groups
    from seamark.reading.catalog import Selection
    from seamark.reading.text import value_text

    runs.expect_project(project)
    chosen = Selection(project=project, query=query, local=True)
    groups = list(runs.index.groups(chosen, by))
    if not groups:
        misuse("no run matches" + (f" the query {query!r}" if query else ""))
    where = f"{plural(len(groups), 'group')} of runs"
    found = curves_of_groups(runs.index, groups, patterns, options, where)
    if len(found) > MOST_CURVES:
        note(f"drawing {MOST_CURVES} of {len(found)} curves; select runs with --query")
        found = found[:MOST_CURVES]
    return picture_of_groups(found, options, partial(value_text, exact=True))


def _split_words(
    runs: Runs, words: Sequence[str], project: str | None, query: str | None
) -> tuple[list[RunRef], list[str]]:
    """Return runs and series: the leading words that name runs, and the remaining words."""
    if query is not None:
        runs.expect_project(project)
        refs = runs.select(query, project)
        if not refs:
            misuse(f"no run matches the query {query!r}")
        return refs, list(words)
    refs, rest = [runs.find(words[0], project)], list(words[1:])
    while rest and (ref := _another_run(runs, refs, rest[0], project)):
        refs.append(ref)
        rest.pop(0)
    if not rest:
        misuse(
            f"which series? this run has: {_some_series(runs, refs[0])} "
            f"(seamark show {refs[0].run} lists all)"
        )
    return list(dict.fromkeys(refs)), rest


def _another_run(
    runs: Runs, refs: Sequence[RunRef], word: str, project: str | None
) -> RunRef | None:
    # A series takes precedence over the prefix of an id: a short word is often such a prefix.
    is_series = any(matching_paths(runs.view(ref), [word], ("float_series",)) for ref in refs)
    try:
        return runs.find(word, project, beginnings=not is_series)
    except RunNotFoundError:
        return None
    except ArgumentError:
        if not is_series:
            raise
        return None


def _some_series(runs: Runs, ref: RunRef) -> str:
    paths = [a.path for a in runs.view(ref).attributes() if a.family == "float_series"]
    paths.sort(key=lambda path: (aside(path) is not None, path))
    return ", ".join(paths[:5]) or "(this run has none)"


def _note_left_out(curves: Sequence[Curve], options: PlotOptions) -> None:
    left = sum(curve.left_out for curve in curves)
    if not left:
        return
    why = (
        "at or below zero cannot be drawn on a logarithmic axis"
        if options.look.log_x or options.look.log_y
        else f"have no {options.look.x} and cannot be drawn"
    )
    note(f"{plural(left, 'point')} {why}", style="warning")
