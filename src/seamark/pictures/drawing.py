"""Plots of series with plotly or Matplotlib."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from seamark.errors import ArgumentError, MissingFieldError
from seamark.paths import kind_of, matches, model_key
from seamark.reading.curves import NAMED_AXES, Look, is_number
from seamark.reading.finding import Finder
from seamark.reading.points import check_attempt
from seamark.reading.states import ACTIVE_STATES
from seamark.reading.text import nearest_path, shared_unit, unit_of
from seamark.values._numbers import argument_error

if TYPE_CHECKING:
    from seamark.pictures.plots import Axes, Curve, XKind
    from seamark.reading.browsing import Recording
    from seamark.reading.catalog import Catalog, Ref
    from seamark.reading.curves import Drawing
    from seamark.reading.groups import GroupCurve, RunGroup
    from seamark.reading.points import Attempt
    from seamark.reading.reader import Reader
    from seamark.values.arrays import Floats


MOST_CURVES: Final = 20
"""Maximum number of curves: more cannot be distinguished."""
_UNITS: Final = {"step": "steps", "order": "points", "time": "seconds", "relative": "seconds"}
_MAX_NAMED_SERIES: Final = 5
log = logging.getLogger("seamark")


@dataclass(frozen=True, slots=True)
class PlotOptions:
    """Validated options of a plot; ``look.window`` is the argument ``smooth``."""

    look: Look
    attempt: Attempt = "latest"

    def __post_init__(self) -> None:
        check_attempt(self.attempt)
        if self.look.log_x and self.look.x == "time":
            raise ArgumentError(
                "log_x: clock times have no logarithm; x='relative' counts from the run's start"
            )
        if self.look.window is not None:
            self._check_smooth(self.look.window)
        self.look.check()

    def _check_smooth(self, smooth: object) -> None:
        units = _UNITS.get(self.look.x)
        if is_number(smooth) and smooth > 0 and (smooth >= 1 or not units):
            return
        wanted = f"a number of {units}, at least 1" if units else "a width in units of x"
        wanted += " (the width of a window, not the weight of an average)"
        raise ArgumentError(f"smooth: expected {wanted}, got {smooth!r:.80}")

    @property
    def smoothing(self) -> str:
        """Description of the smoothing for the picture; empty without smoothing."""
        look, units = self.look, _UNITS.get(self.look.x, f"units of {self.look.x}")
        if look.half_life is not None:
            return f"average, half-life of {look.half_life:,.10g} {units}"
        return "" if look.window is None else f"mean of {look.window:,.10g} {units}"

    def axes(self, title: str, unit: str = "") -> Axes:
        """Return the axes of a picture; ``unit`` is the common unit of all curves, or empty."""
        from seamark.pictures.plots import Axes

        look, named = self.look, self.look.x in NAMED_AXES
        return Axes(
            x_kind=cast("XKind", look.x) if named else "series",
            title=", ".join(filter(None, (title, unit))),
            unit=unit,
            log_x=look.log_x,
            log_y=look.log_y,
            x_name="" if named else look.x,
            note=self.smoothing,
        )


@dataclass(frozen=True, slots=True)
class Source:
    """Run to draw; its key (project and id) determines its colour."""

    label: str
    key: str
    reader: Reader


def no_series(missing: str, known: Collection[str], where: str) -> MissingFieldError:
    """Return the error for a series that does not exist; it names similar paths."""
    near = nearest_path(missing, known)
    hint = f"did you mean {near!r}? " if near else ""
    some = ", ".join(list(known)[:_MAX_NAMED_SERIES]) or "none"
    more = ", ..." if len(known) > _MAX_NAMED_SERIES else ""
    msg = f"no series of numbers matches {missing!r} in {where}; {hint}available: {some}{more}"
    return MissingFieldError(msg)


# ---------------------------------------------------------------------- runs


def picture_of(
    sources: Sequence[Source],
    patterns: Sequence[str],
    options: PlotOptions,
    where: str,
    warn: Callable[..., None] = log.warning,
) -> tuple[list[Curve], Axes]:
    """Return the curves of runs at paths, namespaces or patterns, and the axes.

    Raises MissingFieldError if a pattern matches no series of any run, or ``x`` does not exist.
    """
    from seamark.pictures.plots import COLOURS, slots

    found = _find_series(sources, patterns, options.look.x, where)
    if len(found) > MOST_CURVES:
        warn("seamark: drawing %d of %d curves; name fewer series or runs", MOST_CURVES, len(found))
        found = found[:MOST_CURVES]
    several = len(sources) > 1
    runs = dict.fromkeys(source.key for source, _ in found)
    paths = list(dict.fromkeys(path for _, path in found))
    colours = slots(runs if several else paths)
    shared = shared_unit(paths)  # in the title
    curves = []
    for source, path in found:
        words = [source.label] if several else []
        words += [path] if len(paths) > 1 or not several else []
        if not shared and (unit := unit_of(path)):
            words.append(f"({unit})")
        colour = colours[source.key if several else path]
        if several:
            colour += paths.index(path) * len(COLOURS)
        drawing = source.reader.drawing(path, options.look, options.attempt)
        if drawing.falls and (drawing.curve.width or drawing.mean is not None):
            words.append("(steps go back)" if options.look.x == "step" else "(x goes back)")
        curves.append(_create_curve(drawing, " ".join(words), colour))
    return curves, options.axes(title_of(sources, patterns), shared)


def title_of(sources: Sequence[Source], patterns: Sequence[str]) -> str:
    """Return the title of a picture: the common part of the labels of its curves."""
    if len(sources) == 1:
        return sources[0].label
    return patterns[0] if sources and len(patterns) == 1 else ""


def _find_series(
    sources: Sequence[Source], patterns: Sequence[str], x: str, where: str
) -> list[tuple[Source, str]]:
    named = x in NAMED_AXES
    known = [source.reader.series_paths() for source in sources]
    every = dict.fromkeys(path for paths in known for path in paths)
    for pattern in patterns:
        if not any(matches(path, pattern) for path in every):
            raise no_series(pattern, every, where)
    if not named and x not in every:
        raise MissingFieldError(
            f"{no_series(x, every, where)} (built-in x axes: {', '.join(NAMED_AXES)})"
        )
    found = [
        (source, path)
        for source, paths in zip(sources, known, strict=True)
        if named or x in paths
        for path in dict.fromkeys(p for one in patterns for p in paths if matches(p, one))
    ]
    if not found:
        raise MissingFieldError(f"no run of {where} has both {' or '.join(patterns)!r} and x={x!r}")
    return found


def _create_curve(drawing: Drawing, label: str, colour: int) -> Curve:
    import numpy as np

    from seamark.pictures.plots import Curve

    parts = drawing.curve
    gaps = parts.first_step[parts.nan_count > 0]
    odd = [(gaps, np.nan), (drawing.plus_inf, np.inf), (drawing.minus_inf, -np.inf)]
    smoothed, x, y = drawing.mean is not None, drawing.x, drawing.mean
    if y is None:
        x, y = _with_end_points(drawing)
    return Curve(
        label=label,
        x=x,
        y=y,
        low=parts.min if smoothed else None,
        high=parts.max if smoothed else None,
        odd_x=np.concatenate([where for where, _ in odd]),
        odd_y=np.concatenate([np.full(len(where), value) for where, value in odd]),
        odd_count=int(parts.nan_count.sum() + parts.inf_count.sum()),
        left_out=drawing.left_out + drawing.not_positive,
        colour=colour,
    )


def _with_end_points(drawing: Drawing) -> tuple[Floats, Floats]:
    import numpy as np

    x, y = drawing.curve.step, drawing.curve.value
    for at, value, side in zip(*drawing.ends, ("left", "right"), strict=False):
        if not ((x == at) & (y == value)).any():
            place = int(np.searchsorted(x, at, side=side))  # type: ignore[call-overload]
            x, y = np.insert(x, place, at), np.insert(y, place, value)
    return x, y


# ---------------------------------------------------------------------- groups of runs


def curves_of_groups(
    index: Catalog,
    groups: Sequence[RunGroup],
    patterns: Sequence[str],
    options: PlotOptions,
    where: str,
) -> list[GroupCurve]:
    """Return the mean curves of groups of runs; raise MissingFieldError if there is none."""
    from seamark.reading.groups import group_curves

    refs = list(dict.fromkeys(ref for group in groups for ref in group.refs))

    def paths_of(chosen: Callable[[str], bool]) -> list[str]:
        return sorted(set().union(*index.series_of(refs, chosen).values()))

    paths = paths_of(lambda path: matches(path, *patterns))
    for pattern in patterns:
        if not any(matches(path, pattern) for path in paths):
            raise no_series(pattern, paths_of(lambda _: True), where)

    draw = partial(index.curves, attempt=options.attempt)
    found = group_curves(draw, [(one.by, one.refs) for one in groups], paths, options.look)
    if not found:
        raise MissingFieldError(
            f"no run of {where} has points of {' or '.join(patterns)!r} over x={options.look.x!r}"
        )
    return found


def picture_of_groups(
    found: Sequence[GroupCurve], options: PlotOptions, words: Callable[[object], str]
) -> tuple[list[Curve], Axes]:
    """Return the means of groups, with bands of one standard deviation, and the axes."""
    from seamark.pictures.plots import COLOURS, Curve, slots

    paths = list(dict.fromkeys(one.path for one in found))
    shared = shared_unit(paths)
    names = [
        ", ".join(f"{column} = {words(value)}" for column, value in one.by.items()) for one in found
    ]
    colours = slots(names)
    curves = []
    for one, name in zip(found, names, strict=True):
        label = [one.path] if len(paths) > 1 or not name else []
        label += [name] if name else []
        if not shared and (unit := unit_of(one.path)):
            label.append(f"({unit})")
        least, most = int(one.n.min()), int(one.n.max())
        label.append(f"(n = {least})" if least == most else f"(n = {least} to {most})")
        curves.append(
            Curve(
                label=" ".join(label),
                x=one.x,
                y=one.mean,
                low=one.mean - one.std,
                high=one.mean + one.std,
                colour=colours[name] + paths.index(one.path) * len(COLOURS),
            )
        )
    return curves, options.axes(paths[0] if len(paths) == 1 else "", shared)


_MIN_REFRESH_S: Final = 0.2
Draw = Callable[[], tuple[Any, bool]]
"""Function that returns a figure and whether one of its runs is live."""
Warn = Callable[..., None]
"""Function with the arguments of `logging.Logger.warning`."""


class _Selection(NamedTuple):
    """Runs of a picture; ``is_live`` means that a run is not finished or not created yet."""

    sources: list[Source]
    where: str
    is_live: bool


def plot_run(
    recorded: Recording, patterns: Sequence[str], options: PlotOptions, refresh: float | None
) -> Any:
    """Implement `Run.plot`."""

    def find(_: Warn) -> _Selection:
        reader = recorded.reader()
        if reader is None:
            return _Selection([], recorded.words, is_live=True)
        ref = reader.project, reader.name
        source = Source(_label_of(recorded.index, ref), "/".join(ref), reader)
        return _Selection([source], recorded.words, reader.state in ACTIVE_STATES)

    if recorded.silent:
        from seamark.pictures.plots import figure_of

        return figure_of([], options.axes(""))
    return _plot(find, patterns, options, refresh)


def _label_of(index: Catalog, ref: Ref) -> str:
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
    """Implement `Project.plot` for the first runs with such a series.

    ``runs`` returns the updated catalog and the (project, run id) of all runs. ``order`` is the
    word for the first ones: ``"newest"`` or ``"first"``.
    """

    def find(warn: Warn) -> _Selection:
        index, refs = runs()
        drawn, place = refs, where
        if len(refs) > MOST_CURVES:
            drawable = _runs_with_series(index, refs, patterns, options.look.x)
            drawn = drawable[:MOST_CURVES]
            if len(drawable) > MOST_CURVES:
                description = "the %s %d of %d runs with such a series"
                warn(f"seamark: drawing {description}", order, MOST_CURVES, len(drawable))
                place = f"{description % (order, MOST_CURVES, len(drawable))} among {where}"
        views = {ref: index.view(*ref) for ref in (*drawn, *refs[:MOST_CURVES])}
        is_live = not views or any(one.state in ACTIVE_STATES for one in views.values())
        named = zip(drawn, Finder(index).labels(drawn), strict=True)
        sources = [Source(label, "/".join(ref), views[ref]) for ref, label in named]
        return _Selection(sources, place, is_live)

    return _plot(find, patterns, options, refresh)


def _runs_with_series(
    index: Catalog, refs: list[Ref], patterns: Sequence[str], x: str
) -> list[Ref]:
    """Return the runs with the drawn series; if there are none, a few runs for the error."""
    series = index.series_of(refs, lambda path: path == x or matches(path, *patterns))

    def has(ref: Ref) -> bool:
        there = series.get(ref, set())
        is_placed = x in NAMED_AXES or x in there
        return is_placed and any(matches(path, *patterns) for path in there)

    drawable = [ref for ref in refs if has(ref)]
    if drawable:
        return drawable
    some = {x in paths: ref for ref, paths in series.items()}
    return list(dict.fromkeys([*some.values(), *refs]))[:MOST_CURVES]


def _plot(
    find: Callable[[Warn], _Selection],
    patterns: Sequence[str],
    options: PlotOptions,
    refresh: float | None,
) -> Any:
    from seamark.pictures.plots import figure_of

    _check_patterns(patterns)
    logged: set[str] = set()

    def warn(message: str, *args: object) -> None:
        # only once, not at each refresh
        if message not in logged:
            logged.add(message)
            log.warning(message, *args)

    def draw() -> tuple[Any, bool]:
        sources, where, is_live = find(warn)
        try:
            if not sources:
                raise no_series(patterns[0], [], where)
            curves, axes = picture_of(sources, patterns, options, where, warn)
        except MissingFieldError as error:
            if refresh is None or not is_live:
                raise
            curves, axes = [], options.axes(title_of(sources, patterns))
            note = f"not yet: {error}"
        else:
            left = sum(curve.left_out for curve in curves)
            note = f"{left:,} points cannot be shown on these axes" if left else ""
        axes = replace(axes, note="; ".join(filter(None, (axes.note, note))))
        return figure_of(curves, axes), is_live

    if refresh is None:
        return draw()[0]
    follow(draw, _check_refresh(refresh), _create_display())
    return None


def _check_patterns(patterns: Sequence[object]) -> None:
    if not patterns:
        raise ArgumentError("plot: expected one or more paths, such as plot('val/loss')")
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern:
            raise argument_error(pattern, "plot", "paths such as 'val/loss'")


def _check_refresh(refresh: object) -> float:
    if is_number(refresh) and refresh >= _MIN_REFRESH_S:
        return float(refresh)
    raise argument_error(refresh, "refresh", f"seconds, at least {_MIN_REFRESH_S}, or None")


def follow(
    draw: Draw,
    seconds: float,
    show: Callable[[Any], None],
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Draw at an interval in seconds until all runs have ended or the cell is interrupted."""
    try:
        while True:
            figure, is_live = draw()
            show(figure)
            if not is_live:
                return
            wait(seconds)
    except KeyboardInterrupt:  # the user interrupted the cell
        return


def _create_display() -> Callable[[Any], None]:
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if not hasattr(shell, "kernel"):
        raise ArgumentError(
            "refresh: expected None outside of a notebook, where no plot can be updated"
        )
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
