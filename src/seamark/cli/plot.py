"""``seamark plot``: curves of one run or many, in the terminal or as a file."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from seamark.cli import _complete
from seamark.cli._app import misuse, root_option
from seamark.cli._runs import (
    RunRef,
    Runs,
    attempt_option,
    matches,
    matching_paths,
    open_runs,
    project_option,
    query_option,
)
from seamark.cli._screen import Screen, note
from seamark.cli._text import clean, plural
from seamark.errors import ArgumentError, RunNotFoundError

if TYPE_CHECKING:
    from seamark.local.view import RunView
    from seamark.pictures.plots import Axes, Curve
    from seamark.reading.points import Attempt

__all__ = ["plot"]

_MOST_CURVES: Final = 20
_LEAST_HEIGHT: Final = 5


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What to draw: runs, and in each of them the series."""

    refs: list[RunRef]
    patterns: list[str]


@click.command(short_help="Plot curves in the terminal, or to PNG, SVG, PDF or HTML.")
@click.argument(
    "words", nargs=-1, required=True, metavar="RUN... PATH...", shell_complete=_complete.run_or_path
)
@project_option
@query_option
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
    "x_kind",
    type=click.Choice(["step", "time", "date"]),
    default="step",
    show_default=True,
    help="X axis: steps, time since the run's first point, or clock time.",
)
@click.option(
    "--smooth",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    metavar="WEIGHT",
    help="Moving average, 0 (none) to below 1, such as 0.9.",
)
@click.option("--log/--linear", "log_y", default=False, help="Logarithmic y axis.")
@click.option("--log-x", is_flag=True, help="Logarithmic x axis.")
@attempt_option
@click.option(
    "--height",
    type=click.IntRange(_LEAST_HEIGHT),
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
    out: Path | None,
    x_kind: Any,
    smooth: float,
    attempt: Attempt,
    height: int | None,
    *,
    log_y: bool,
    log_x: bool,
) -> None:
    """Plot series of numbers of one or several runs in one picture.

    Give the runs first, then the series: paths, namespaces, or patterns with * (quote them). With
    --query the query chooses the runs and all arguments are series. NaN and infinite values are
    marked at the edge of the picture.

    \b
    Examples:
      seamark plot latest val/loss
      seamark plot quick-otter calm-heron train/loss val/loss --smooth 0.9
      seamark plot latest 'train/*' --log -x time
      seamark plot --query 'hyperparams/lr < 0.01' val/loss -o losses.html

    Files need the extra: pip install "seamark[plot]"
    """
    runs = open_runs(context, project)
    wanted = _sort_words(runs, words, project, query)
    thinned = x_kind == "step" and not smooth and not log_x
    raw = _curves(runs, wanted, x_kind, attempt, log_y=log_y if thinned else None)
    from seamark.pictures import plots

    axes = plots.Axes(x_kind=x_kind, title=_title(runs, wanted, raw), log_x=log_x, log_y=log_y)
    curves = [replace(curve, y=plots.smooth(curve.y, smooth)) for curve in raw] if smooth else raw
    _note_left_out(raw, axes)
    if out is not None:
        plots.save(curves, raw if smooth else None, axes, out)
        note(f"wrote {out}")
        return
    screen = Screen()
    from seamark.cli._draw import draw

    lines = height or max(
        _LEAST_HEIGHT, min(20, shutil.get_terminal_size().lines - 8 - len(curves))
    )
    click.echo(
        draw(curves, axes, width=screen.width, height=lines, colour=screen.colours, safe=clean)
    )


def _sort_words(
    runs: Runs, words: Sequence[str], project: str | None, query: str | None
) -> _Wanted:
    """Tell runs from series: words name runs as long as they can, everything after is a series."""
    if query is not None:
        refs = runs.select(query, project)
        if not refs:
            misuse(f"no run matches the query {query!r}")
        return _Wanted(refs, list(words))
    refs, rest = [runs.find(words[0], project)], list(words[1:])
    while rest and (ref := _another_run(runs, refs, rest[0], project)):
        refs.append(ref)
        rest.pop(0)
    if not rest:
        misuse(
            f"which series? this run has: {_some_series(runs, refs[0])} "
            f"(seamark show {refs[0].run} lists all)"
        )
    return _Wanted(list(dict.fromkeys(refs)), rest)


def _another_run(
    runs: Runs, refs: Sequence[RunRef], word: str, project: str | None
) -> RunRef | None:
    """Return the run that a word names; None if it is a series of those that were named already.

    A series comes before the beginning of an id: some id begins with any short word.

    Raises:
        ArgumentError: If it may be any of several runs.
    """
    for beginnings in (False, True):
        try:
            return runs.find(word, project, beginnings=beginnings)
        except RunNotFoundError:
            if not beginnings and _is_series(runs, refs, word):
                return None
        except ArgumentError:
            if not _is_series(runs, refs, word):
                raise
            return None
    return None


def _is_series(runs: Runs, refs: Sequence[RunRef], word: str) -> bool:
    return any(matching_paths(runs.view(ref), [word], ("float_series",)) for ref in refs)


def _some_series(runs: Runs, ref: RunRef) -> str:
    paths = [a.path for a in runs.view(ref).attributes() if a.family == "float_series"]
    return ", ".join(paths[:5]) or "(this run has none)"


def _curves(
    runs: Runs, wanted: _Wanted, x_kind: str, attempt: Attempt, *, log_y: bool | None
) -> list[Curve]:
    """Read what is drawn; all points unless ``log_y`` says which axis parts are drawn on."""
    views = [(ref, runs.view(ref)) for ref in wanted.refs]
    found = [
        (ref, view, path)
        for ref, view in views
        for path in matching_paths(view, wanted.patterns, ("float_series",))
    ]
    for pattern in wanted.patterns:
        if not any(matches(path, pattern) for _, _, path in found):
            hint = f"; there are: {_some_series(runs, wanted.refs[0])}"
            misuse(f"no series of numbers matches {pattern!r}{hint}")
    if len(found) > _MOST_CURVES:
        note(
            f"drawing {_MOST_CURVES} of {len(found)} curves; name fewer series or runs",
            style="warning",
        )
        found = found[:_MOST_CURVES]
    names = {ref: runs.label(ref) for ref in wanted.refs}
    several_runs, several_paths = len(wanted.refs) > 1, len({path for _, _, path in found}) > 1
    out = []
    for ref, view, path in found:
        parts = [names[ref]] if several_runs else []
        parts += [path] if several_paths or not several_runs else []
        label = " ".join(parts)
        curve = None if log_y is None else _in_parts(view, path, attempt, label, log_y=log_y)
        out.append(curve or _curve(view.points(path, attempt), label, x_kind))
    return out


def _in_parts(
    view: RunView, path: str, attempt: Attempt, label: str, *, log_y: bool
) -> Curve | None:
    """Return a curve of the extremes of every stretch; None where a picture needs more than that.

    Which infinity a value was, and how many have no place on a logarithmic axis, only the points
    tell.
    """
    import numpy as np

    from seamark.pictures.plots import PICTURE_POINTS, Curve

    found = view.curve(path, PICTURE_POINTS, attempt)
    if found.inf_count.any() or (log_y and bool((found.min <= 0).any())):
        return None
    gaps = found.first_step[found.nan_count > 0]
    x = np.concatenate([found.step, gaps])
    y = np.concatenate([found.value, np.full(len(gaps), np.nan)])
    order = np.argsort(x, kind="stable")
    return Curve(label, x[order], y[order])


def _curve(points: Any, label: str, x_kind: str) -> Curve:
    import numpy as np

    from seamark.pictures.plots import Curve

    x = points.step
    if x_kind != "step":
        order = np.argsort(points.time_ns, kind="stable")
        times, value = points.time_ns[order], points.value[order]
        start = times[0] if x_kind == "time" and len(times) else 0
        return Curve(label, (times - start) / 1e9, value)
    return Curve(label, x, points.value)


def _title(runs: Runs, wanted: _Wanted, curves: Sequence[Curve]) -> str:
    if len(wanted.refs) > 1 and len(wanted.patterns) == 1:
        return wanted.patterns[0]
    return runs.label(wanted.refs[0]) if len(wanted.refs) == 1 and len(curves) > 1 else ""


def _note_left_out(curves: Sequence[Curve], axes: Axes) -> None:
    left = sum(len(curve.x) - len(axes.visible(curve).x) for curve in curves)
    if left:
        note(
            f"{plural(left, 'point')} at or below zero cannot be drawn on a logarithmic axis",
            style="warning",
        )
