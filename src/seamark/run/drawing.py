"""Curves of runs as pictures show them, for `Run.plot`, `Project.plot` and ``seamark plot``.

What is read grows with the picture and not with the series.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, cast

from seamark.errors import ArgumentError, MissingFieldError
from seamark.paths import is_inside
from seamark.reading.curves import NAMED_AXES, Look
from seamark.reading.nearest import nearest_path
from seamark.reading.points import check_attempt
from seamark.reading.units import shared_unit, unit_of

if TYPE_CHECKING:
    from seamark.pictures.plots import Axes, Curve, XKind
    from seamark.reading.catalog import Catalog, Ref
    from seamark.reading.curves import Drawing, RunCurve
    from seamark.reading.drawn import GroupCurve
    from seamark.reading.groups import RunGroup
    from seamark.reading.points import Attempt
    from seamark.reading.reader import Reader
    from seamark.values.arrays import Floats

__all__ = [
    "MOST_CURVES",
    "PlotOptions",
    "Source",
    "axes_of",
    "check_patterns",
    "curves_of",
    "curves_of_groups",
    "group_axes",
    "lines_of_groups",
    "matches",
    "no_series",
]

MOST_CURVES: Final = 20
"""More lines than this cannot be told apart."""
_UNITS: Final = {"step": "steps", "order": "points", "time": "seconds", "relative": "seconds"}
_LISTED: Final = 5

log = logging.getLogger("seamark")


@dataclass(frozen=True, slots=True)
class PlotOptions:
    """Options of a plot, as they were given.

    Attributes:
        x: ``"step"``, ``"order"`` (of recording), ``"time"``, ``"relative"`` or the path of a
            series.
        smooth: Width of the window of the mean, in units of x; None for none.
        log_x: Logarithmic x axis.
        log_y: Logarithmic y axis.
        attempt: Which attempts are shown.
        points: At most this many representative points of each curve, beside its first and last.
        half_life: Of a moving average instead of the mean of a window, in units of x; None for
            none.
        low: Only points whose x is not less; None for all.
        high: Only points whose x is not greater.

    Raises:
        ArgumentError: If one of them cannot be used.
        PathError: If x is no path.
    """

    x: str = "step"
    smooth: float | None = None
    log_x: bool = False
    log_y: bool = False
    attempt: Attempt = "latest"
    points: int = 1000
    half_life: float | None = None
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        """Check everything, before anything is read."""
        check_attempt(self.attempt)
        if self.log_x and self.x == "time":
            msg = "log_x: clock times have no logarithm; x='relative' counts from the run's start"
            raise ArgumentError(msg)
        if self.smooth is not None:
            self._check_smooth(self.smooth)
        self.look.check()

    @property
    def look(self) -> Look:
        """Query for the points of each curve."""
        return Look(
            points=self.points,
            x=self.x,
            low=self.low,
            high=self.high,
            window=self.smooth,
            half_life=self.half_life,
            log_x=self.log_x,
            log_y=self.log_y,
        )

    def _check_smooth(self, smooth: object) -> None:
        units = _UNITS.get(self.x)
        number = isinstance(smooth, (int, float)) and not isinstance(smooth, bool)
        width = float(cast("float", smooth)) if number else math.nan
        if math.isfinite(width) and (width >= 1 if units else width > 0):
            return
        wanted = f"a number of {units}, at least 1" if units else f"a width in units of {self.x!r}"
        hint = ""
        if 0 < width < 1:
            hint = "; it is the width of a window, such as 500, and not the weight of an average"
        msg = f"smooth: expected {wanted}, got {smooth!r:.80}{hint}"
        raise ArgumentError(msg)

    @property
    def words(self) -> str:
        """Description of the smoothing for the picture; empty without smoothing."""
        units = _UNITS.get(self.x, f"units of {self.x}")
        if self.half_life is not None:
            return f"average, half-life of {self.half_life:,.10g} {units}"
        if self.smooth is None:
            return ""
        return f"mean of {self.smooth:,.10g} {units}"


@dataclass(frozen=True, slots=True)
class Source:
    """A run that is drawn.

    Attributes:
        label: What people call it.
        key: What its colour is found by: project and id, which name exactly this run.
        reader: What reads it.
    """

    label: str
    key: str
    reader: Reader


def matches(path: str, pattern: str) -> bool:
    """Return whether a path is, lies below, or matches a pattern with ``*`` and ``?``."""
    return is_inside(path, pattern.strip("/")) or fnmatchcase(path, pattern)


def no_series(missing: str, known: Collection[str], where: str) -> MissingFieldError:
    """Return the error that says that there is no such series, and what may be meant.

    Args:
        missing: Path or pattern.
        known: Paths of series of numbers.
        where: What was looked through, in words.
    """
    near = nearest_path(missing, known)
    hint = f"did you mean {near!r}? " if near else ""
    some = ", ".join(list(known)[:_LISTED]) or "none"
    more = ", ..." if len(known) > _LISTED else ""
    msg = f"no series of numbers matches {missing!r} in {where}; {hint}there are: {some}{more}"
    return MissingFieldError(msg)


def curves_of(
    sources: Sequence[Source],
    patterns: Sequence[str],
    asked: PlotOptions,
    where: str,
    warn: Callable[..., None] = log.warning,
) -> list[Curve]:
    """Read what is drawn.

    Args:
        sources: The runs, each with a label of its own.
        patterns: Paths, namespaces, or patterns with ``*`` and ``?``.
        asked: How.
        where: What is looked through, for messages.
        warn: Called with what is to be said beside the picture, as `logging.Logger.warning` is.

    Raises:
        MissingFieldError: If a pattern matches no series of any run, or x is none of theirs.
        ArgumentError: If a pattern is no text.
    """
    check_patterns(patterns)
    named = asked.x in NAMED_AXES
    known = [source.reader.series_paths() for source in sources]
    every = dict.fromkeys(path for paths in known for path in paths)
    for pattern in patterns:
        if not any(matches(path, pattern) for path in every):
            raise no_series(pattern, every, where)
    if not named and asked.x not in every:
        error = no_series(asked.x, every, where)
        msg = f"{error} (besides the x axes {', '.join(NAMED_AXES)})"
        raise MissingFieldError(msg)
    found = [
        (source, path)
        for source, paths in zip(sources, known, strict=True)
        if named or asked.x in paths
        for path in dict.fromkeys(p for one in patterns for p in paths if matches(p, one))
    ]
    if not found:
        msg = f"no run of {where} has both {' or '.join(patterns)!r} and x={asked.x!r}"
        raise MissingFieldError(msg)
    if len(found) > MOST_CURVES:
        warn("seamark: drawing %d of %d curves; name fewer series or runs", MOST_CURVES, len(found))
        found = found[:MOST_CURVES]
    return _read_curves(found, asked, several=len(sources) > 1)


def check_patterns(patterns: Sequence[object]) -> None:
    """Refuse what cannot name series.

    Raises:
        ArgumentError: If a pattern is no text.
    """
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern:
            msg = f"plot: expected paths such as 'val/loss', got {pattern!r:.80}"
            raise ArgumentError(msg)


def _read_curves(
    found: Sequence[tuple[Source, str]], asked: PlotOptions, *, several: bool
) -> list[Curve]:
    """Read what is drawn; where several runs were asked for, labels say whose each curve is."""
    from seamark.pictures.plots import COLOURS, slots

    runs = dict.fromkeys(source.key for source, _ in found)
    paths = list(dict.fromkeys(path for _, path in found))
    colours = slots(runs if several else paths)
    shared = shared_unit(paths)  # stands above the picture
    out = []
    for source, path in found:
        words = [source.label] if several else []
        words += [path] if len(paths) > 1 or not several else []
        if not shared and (unit := unit_of(path)):
            words.append(f"({unit})")
        colour = colours[source.key if several else path]
        if several:
            colour += paths.index(path) * len(COLOURS)
        drawing = source.reader.drawing(path, asked.look, asked.attempt)
        if drawing.falls and (drawing.curve.width or drawing.mean is not None):
            words.append("(steps go back)" if asked.x == "step" else "(x goes back)")
        out.append(_curve(drawing, " ".join(words), colour))
    return out


def _curve(drawing: Drawing, label: str, colour: int) -> Curve:
    import numpy as np

    from seamark.pictures.plots import Curve

    parts = drawing.curve
    gaps = parts.first_step[parts.nan_count > 0]
    odd = [(gaps, np.nan), (drawing.plus_inf, np.inf), (drawing.minus_inf, -np.inf)]
    smoothed, x, y = drawing.mean is not None, drawing.x, drawing.mean
    if y is None:
        x, y = _to_the_ends(drawing)
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


def _to_the_ends(drawing: Drawing) -> tuple[Floats, Floats]:
    """Return the representative points of a curve, and where the series begins and ends."""
    import numpy as np

    x, y = drawing.curve.step, drawing.curve.value
    for at, value, side in zip(*drawing.ends, ("left", "right"), strict=False):
        if not ((x == at) & (y == value)).any():
            place = int(np.searchsorted(x, at, side=side))  # type: ignore[call-overload]
            x, y = np.insert(x, place, at), np.insert(y, place, value)
    return x, y


def axes_of(asked: PlotOptions, patterns: Sequence[str], sources: Sequence[Source]) -> Axes:
    """Return what the axes of a picture mean, and what stands above it.

    Args:
        asked: How it is drawn.
        patterns: What is drawn.
        sources: Of which runs.
    """
    if len(sources) > 1:
        title = patterns[0] if len(patterns) == 1 else ""
    else:
        title = sources[0].label if sources else ""
    found = (path for source in sources for path in source.reader.series_paths())
    unit = shared_unit(path for path in found if any(matches(path, one) for one in patterns))
    return _axes(asked, ", ".join(filter(None, (title, unit))), unit)


def _axes(asked: PlotOptions, title: str, unit: str) -> Axes:
    from seamark.pictures.plots import Axes

    named = asked.x in NAMED_AXES
    return Axes(
        x_kind=cast("XKind", asked.x) if named else "series",
        title=title,
        unit=unit,
        log_x=asked.log_x,
        log_y=asked.log_y,
        x_name="" if named else asked.x,
        note=asked.words,
    )


# ---------------------------------------------------------------------- groups of runs


def curves_of_groups(
    index: Catalog,
    groups: Sequence[RunGroup],
    patterns: Sequence[str],
    asked: PlotOptions,
    where: str,
) -> list[GroupCurve]:
    """Read what series come to over groups of runs.

    Args:
        index: What is read.
        groups: The groups.
        patterns: Paths, namespaces, or patterns with ``*`` and ``?``.
        asked: How.
        where: What is looked through, for messages.

    Raises:
        MissingFieldError: If a pattern matches no series of any run, or none of them has points.
    """
    from seamark.reading.drawn import group_curves

    check_patterns(patterns)
    refs = list(dict.fromkeys(ref for group in groups for ref in group.refs))
    meant = index.series_of(refs, lambda path: any(matches(path, one) for one in patterns))
    paths = sorted({path for some in meant.values() for path in some})
    for pattern in patterns:
        if not any(matches(path, pattern) for path in paths):
            every = index.series_of(refs, lambda _: True)
            known = sorted({path for some in every.values() for path in some})
            raise no_series(pattern, known, where)

    def draw(refs: Sequence[Ref], some: Sequence[str], look: Look) -> Sequence[RunCurve]:
        return index.curves(refs, some, look, asked.attempt)

    found = group_curves(draw, [(one.by, one.refs) for one in groups], paths, asked.look)
    if not found:
        msg = f"no run of {where} has points of {' or '.join(patterns)!r} over x={asked.x!r}"
        raise MissingFieldError(msg)
    return found


def lines_of_groups(found: Sequence[GroupCurve], words: Callable[[object], str]) -> list[Curve]:
    """Return the lines of groups: mean, and as a band one standard deviation on either side.

    Args:
        found: What the series come to.
        words: Returns how a value is written.
    """
    from seamark.pictures.plots import COLOURS, Curve, slots

    paths = list(dict.fromkeys(one.path for one in found))
    shared = shared_unit(paths)
    # What the runs of each group have in common.
    names = [
        ", ".join(f"{column} = {words(value)}" for column, value in one.by.items()) for one in found
    ]
    colours = slots(names)
    lines = []
    for one, name in zip(found, names, strict=True):
        label = [one.path] if len(paths) > 1 or not name else []
        label += [name] if name else []
        if not shared and (unit := unit_of(one.path)):
            label.append(f"({unit})")
        least, most = int(one.n.min()), int(one.n.max())
        label.append(f"(n = {least})" if least == most else f"(n = {least} to {most})")
        lines.append(
            Curve(
                label=" ".join(label),
                x=one.x,
                y=one.mean,
                low=one.mean - one.std,
                high=one.mean + one.std,
                colour=colours[name] + paths.index(one.path) * len(COLOURS),
            )
        )
    return lines


def group_axes(asked: PlotOptions, found: Sequence[GroupCurve]) -> Axes:
    """Return what the axes of a picture of groups mean, and what stands above it."""
    paths = list(dict.fromkeys(one.path for one in found))
    unit = shared_unit(paths)
    title = paths[0] if len(paths) == 1 else ""
    return _axes(asked, ", ".join(filter(None, (title, unit))), unit)
