"""Figures of runs for notebooks: drawn once, or again and again while a run trains."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from seamark.errors import ArgumentError, MissingFieldError
from seamark.paths import kind_of, matches, model_key
from seamark.pictures.drawing import (
    MOST_CURVES,
    PlotOptions,
    Source,
    no_series,
    picture_of,
    title_of,
)
from seamark.reading.curves import NAMED_AXES
from seamark.reading.finding import Finder

if TYPE_CHECKING:
    from seamark.reading.browsing import Recording
    from seamark.reading.catalog import Catalog, Ref

__all__ = ["follow", "plot_run", "plot_runs"]

_GOES_ON: Final = ("created", "running")
_LEAST_S: Final = 0.2

Draw = Callable[[], tuple[Any, bool]]
"""Returns a figure, and whether a run in it goes on."""

Warn = Callable[..., None]
"""Takes the arguments of `logging.Logger.warning`."""


class _Found(NamedTuple):
    """Runs of a picture.

    Attributes:
        sources: The runs that are drawn.
        where: Description of the runs, for messages.
        goes_on: Whether one of them goes on, or one that has nothing to draw yet.
    """

    sources: list[Source]
    where: str
    goes_on: bool


log = logging.getLogger("seamark")


def plot_run(
    recorded: Recording, patterns: Sequence[str], options: PlotOptions, refresh: float | None
) -> Any:
    """Return what `Run.plot` returns.

    Raises:
        MissingExtraError: If the extra ``plot`` is not installed.
        MissingFieldError: If there is no such series.
        ArgumentError: If ``refresh`` is no number, or asked for outside of a notebook.
    """

    def find(_: Warn) -> _Found:
        reader = recorded.reader()
        if reader is None:
            return _Found([], recorded.words, goes_on=True)
        ref = reader.project, reader.name
        source = Source(_label(recorded.index, ref), "/".join(ref), reader)
        return _Found([source], recorded.words, reader.state in _GOES_ON)

    if recorded.silent:
        from seamark.pictures.plots import figure_of

        return figure_of([], options.axes(""))
    return _plot(find, patterns, options, refresh)


def _label(index: Catalog, ref: Ref) -> str:
    kind, key = kind_of(*ref), model_key(*ref)
    if kind == "run":
        return Finder(index).labels([ref])[0]
    if kind == "project":
        return ref[0]
    return key if kind == "model" else f"{key}/{ref[1]}"


def plot_runs(
    runs: Callable[[], tuple[Catalog, list[Ref]]],
    patterns: Sequence[str],
    options: PlotOptions,
    where: str,
    refresh: float | None,
    order: str = "first",
) -> Any:
    """Return what `Project.plot` returns.

    Args:
        runs: Returns the catalog, up to now, and (project, run id) of the runs, of which the first
            few that have such a series are drawn.
        patterns: Paths, namespaces, or patterns with ``*`` and ``?``.
        options: Options of the plot.
        where: Description of the runs, for messages.
        refresh: Seconds between two looks; None for one.
        order: Description of the first runs: ``"newest"`` or ``"first"``.

    Raises:
        MissingExtraError: If the extra ``plot`` is not installed.
        MissingFieldError: If no run has such a series.
        ArgumentError: If ``refresh`` is no number, or asked for outside of a notebook.
    """

    def find(warn: Warn) -> _Found:
        index, refs = runs()
        drawn, place = refs, where
        if len(refs) > MOST_CURVES:
            having = _having(index, refs, patterns, options.look.x)
            drawn = having[:MOST_CURVES]
            if len(having) > MOST_CURVES:
                said = "the %s %d of %d runs that have it"
                warn(f"seamark: drawing {said}", order, MOST_CURVES, len(having))
                place = f"{said % (order, MOST_CURVES, len(having))} among {where}"
        views = {ref: index.view(*ref) for ref in (*drawn, *refs[:MOST_CURVES])}
        goes_on = not views or any(one.state in _GOES_ON for one in views.values())
        named = zip(drawn, Finder(index).labels(drawn), strict=True)
        sources = [Source(label, "/".join(ref), views[ref]) for ref, label in named]
        return _Found(sources, place, goes_on)

    return _plot(find, patterns, options, refresh)


def _having(index: Catalog, refs: list[Ref], patterns: Sequence[str], x: str) -> list[Ref]:
    """Return the runs that have what is drawn; if none has, a few that make the error name it."""
    series = index.series_of(refs, lambda path: path == x or matches(path, *patterns))

    def has(ref: Ref) -> bool:
        there = series.get(ref, set())
        is_placed = x in NAMED_AXES or x in there
        return is_placed and any(matches(path, *patterns) for path in there)

    having = [ref for ref in refs if has(ref)]
    if having:
        return having
    some = {x in paths: ref for ref, paths in series.items()}
    return list(dict.fromkeys([*some.values(), *refs]))[:MOST_CURVES]


def _plot(
    find: Callable[[Warn], _Found],
    patterns: Sequence[str],
    options: PlotOptions,
    refresh: float | None,
) -> Any:
    from seamark.pictures.plots import figure_of

    _check_patterns(patterns)
    told: set[str] = set()

    def warn(message: str, *given: object) -> None:
        """Warn at the first picture of which it is true, and not again at each refresh."""
        if message not in told:
            told.add(message)
            log.warning(message, *given)

    def draw() -> tuple[Any, bool]:
        sources, where, goes_on = find(warn)
        try:
            if not sources:
                raise no_series(patterns[0], [], where)
            curves, axes = picture_of(sources, patterns, options, where, warn)
        except MissingFieldError as error:
            if refresh is None or not goes_on:
                raise
            curves, axes = [], options.axes(title_of(sources, patterns))
            note = f"not yet: {error}"
        else:
            left = sum(curve.left_out for curve in curves)
            note = f"{left:,} points have no place on these axes" if left else ""
        axes = replace(axes, note="; ".join(filter(None, (axes.note, note))))
        return figure_of(curves, axes), goes_on

    if refresh is None:
        return draw()[0]
    follow(draw, _check_refresh(refresh), _display())
    return None


def _check_patterns(patterns: Sequence[object]) -> None:
    if not patterns:
        msg = "plot: which series? expected one path or several, such as plot('val/loss')"
        raise ArgumentError(msg)
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern:
            msg = f"plot: expected paths such as 'val/loss', got {pattern!r:.80}"
            raise ArgumentError(msg)


def _check_refresh(refresh: object) -> float:
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
        show: Shows a picture in the place of the one before.
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
    """Return a function that shows a figure in the output of the cell, replacing the one before.

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
