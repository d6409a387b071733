"""Figures of runs for notebooks: drawn once, or again and again while a run trains."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from seamark.errors import ArgumentError, MissingFieldError
from seamark.paths import model_key
from seamark.reading.curves import NAMED_AXES
from seamark.run.drawing import (
    MOST_CURVES,
    PlotOptions,
    Source,
    axes_of,
    check_patterns,
    curves_of,
    matches,
    no_series,
)

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.reading.catalog import Catalog
    from seamark.run.recorded import Recorded

__all__ = ["follow", "plot_run", "plot_runs"]

_GOES_ON: Final = ("created", "running")
_LEAST_S: Final = 0.2

Draw = Callable[[], tuple[Any, bool]]
"""Returns a figure, and whether a run in it goes on."""

Warn = Callable[..., None]
"""Takes what `logging.Logger.warning` takes."""


class _Found(NamedTuple):
    """The curves that are drawn.

    Attributes:
        sources: The runs.
        where: Which runs these are, for messages.
        goes_on: Whether one of them goes on, or one that has nothing to draw yet.
    """

    sources: list[Source]
    where: str
    goes_on: bool


log = logging.getLogger("seamark")


def plot_run(
    recorded: Recorded, patterns: Sequence[str], asked: PlotOptions, refresh: float | None
) -> Any:
    """Do what `Run.plot` does.

    Raises:
        MissingExtraError: If the extra ``plot`` is not installed.
        MissingFieldError: If there is no such series.
        ArgumentError: If ``refresh`` is no number, or asked for outside of a notebook.
    """
    folder, words = recorded.folder, recorded.words

    def found(_: Warn) -> _Found:
        from seamark.reading.finding import Finder

        reader = recorded.reader()
        if reader is None:
            return _Found([], words, goes_on=True)
        ref = (folder.project, folder.run)
        is_run = folder.kind == "run"
        (named,) = Finder(recorded.index).labels([ref]) if is_run else [_label(folder)]
        sources = [Source(named, "/".join(ref), reader)]
        return _Found(sources, words, reader.state in _GOES_ON)

    if recorded.silent:
        return _figure([], patterns, asked, words)
    return _plotted(found, patterns, asked, refresh)


def plot_runs(
    runs: Callable[[], tuple[Catalog, list[tuple[str, str]]]],
    patterns: Sequence[str],
    asked: PlotOptions,
    where: str,
    refresh: float | None,
    order: str = "first",
) -> Any:
    """Do what `Project.plot` does.

    Args:
        runs: Returns the index, up to now, and (project, run id) of the runs, of which the first
            few that have such a series are drawn.
        patterns: What is drawn.
        asked: How.
        where: What is looked through, for messages.
        refresh: Seconds between two looks; None for one.
        order: What the first ones are: ``"newest"`` or ``"first"``.

    Raises:
        MissingExtraError: If the extra ``plot`` is not installed.
        MissingFieldError: If no run has such a series.
        ArgumentError: If ``refresh`` is no number, or asked for outside of a notebook.
    """

    def found(warn: Warn) -> _Found:
        from seamark.reading.finding import Finder

        now, refs = runs()
        drawn, place = refs, where
        if len(refs) > MOST_CURVES:
            drawn, place = _few(now, refs, patterns, asked, where, order, warn)
        views = {ref: now.view(*ref) for ref in (*drawn, *refs[:MOST_CURVES])}
        goes_on = not views or any(one.state in _GOES_ON for one in views.values())
        named = zip(drawn, Finder(now).labels(drawn), strict=True)
        sources = [Source(label, "/".join(ref), views[ref]) for ref, label in named]
        return _Found(sources, place, goes_on)

    return _plotted(found, patterns, asked, refresh)


def _few(
    index: Catalog,
    refs: list[tuple[str, str]],
    patterns: Sequence[str],
    asked: PlotOptions,
    where: str,
    order: str,
    warn: Warn,
) -> tuple[list[tuple[str, str]], str]:
    """Return the first of many runs that have what is drawn, and which these are in words."""
    by_series = asked.x not in NAMED_AXES
    series = index.series_of(
        refs,
        lambda path: path == asked.x or any(matches(path, one) for one in patterns),
    )

    def has(ref: tuple[str, str]) -> bool:
        there = series.get(ref, set())
        return (not by_series or asked.x in there) and any(
            matches(path, one) for path in there for one in patterns
        )

    having = [ref for ref in refs if has(ref)]
    if not having:  # who says what is missing looks at one that has each part of it, and others
        some = {asked.x in paths: ref for ref, paths in series.items()}
        return list(dict.fromkeys([*some.values(), *refs]))[:MOST_CURVES], where
    if len(having) <= MOST_CURVES:
        return having, where
    said = "the %s %d of %d runs that have it"
    warn(f"seamark: drawing {said}", order, MOST_CURVES, len(having))
    return having[:MOST_CURVES], f"{said % (order, MOST_CURVES, len(having))} among {where}"


def _figure(
    sources: Sequence[Source],
    patterns: Sequence[str],
    asked: PlotOptions,
    where: str,
    note: str = "",
    warn: Warn = log.warning,
) -> Any:
    from dataclasses import replace

    from seamark.pictures.plots import figure_of

    curves = curves_of(sources, patterns, asked, where, warn) if sources and not note else []
    axes = axes_of(asked, patterns, sources)
    left = sum(curve.left_out for curve in curves)
    words = [axes.note, f"{left:,} points have no place on these axes" if left else "", note]
    return figure_of(curves, replace(axes, note="; ".join(filter(None, words))))


def _label(folder: RunFolder) -> str:
    """Return what to call what is no run beside a curve."""
    if folder.kind == "project":
        return folder.project
    key = model_key(folder.project, folder.run)
    return key if folder.kind == "model" else f"{key}/{folder.run}"


def _plotted(
    look: Callable[[Warn], _Found],
    patterns: Sequence[str],
    asked: PlotOptions,
    refresh: float | None,
) -> Any:
    if not patterns:
        msg = "plot: which series? expected one path or several, such as plot('val/loss')"
        raise ArgumentError(msg)
    check_patterns(patterns)
    told: set[str] = set()

    def warn(message: str, *given: object) -> None:
        """Say something at the first picture of which it is true, and not again at each refresh."""
        if message not in told:
            told.add(message)
            log.warning(message, *given)

    def draw() -> tuple[Any, bool]:
        found, where, goes_on = look(warn)
        try:
            if not found:
                raise no_series(patterns[0], [], where)
            return _figure(found, patterns, asked, where, warn=warn), goes_on
        except MissingFieldError as error:
            if refresh is None or not goes_on:
                raise
            return _figure(found, patterns, asked, where, note=f"not yet: {error}"), True

    if refresh is None:
        return draw()[0]
    follow(draw, _checked(refresh), _display())
    return None


def _checked(refresh: object) -> float:
    number = isinstance(refresh, (int, float)) and not isinstance(refresh, bool)
    if number and math.isfinite(refresh) and refresh >= _LEAST_S:  # type: ignore[operator, arg-type]
        return float(refresh)  # type: ignore[arg-type]
    msg = f"refresh: expected seconds, at least {_LEAST_S}, or None, got {refresh!r:.80}"
    raise ArgumentError(msg)


def follow(
    draw: Draw,
    seconds: float,
    show: Callable[[Any], None],
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Draw again and again, until no run in the picture goes on or a person interrupts it.

    Args:
        draw: Makes the picture.
        seconds: Between two looks.
        show: Puts a picture in the place of the one before.
        wait: Waits so many seconds.
    """
    try:
        while True:
            figure, goes_on = draw()
            show(figure)
            if not goes_on:
                return
            wait(seconds)
    except KeyboardInterrupt:  # who interrupts the cell has seen enough
        return


def _display() -> Callable[[Any], None]:
    """Return what shows a figure in the output of the cell, in the place of the one before.

    Raises:
        ArgumentError: If this is no notebook.
    """
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if not hasattr(shell, "kernel"):
        msg = "refresh: expected None outside of a notebook; there is no picture to change"
        raise ArgumentError(msg)
    from IPython.display import display  # type: ignore[import-not-found, unused-ignore]

    handle: Any = None

    def show(figure: Any) -> None:
        nonlocal handle
        bundle = figure._repr_mimebundle_()
        if handle is None:
            handle = display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call, unused-ignore]
        else:
            handle.update(bundle, raw=True)

    return show
