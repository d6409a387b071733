"""Curves, and pictures of them as image or web page files.

A curve may be of any length; it is thinned to what a picture can show, keeping the extremes of
every stretch. NaN and infinite values are marked at the edge of the picture instead of being left
out silently. Drawing in the terminal is in `seamark.cli`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from seamark.errors import ArgumentError, MissingExtraError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seamark.values.arrays import Floats

__all__ = ["PICTURE_POINTS", "Axes", "Curve", "check_drawable", "save", "smooth", "thin"]

XKind = Literal["step", "time", "date"]

PICTURE_POINTS: Final = 4000
"""More points of a curve than this cannot be distinguished in a picture."""
_IMAGES: Final = (".png", ".svg", ".pdf")
_PAGES: Final = (".html", ".htm")


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a picture.

    Attributes:
        label: What the legend calls it.
        x: Steps, or seconds (elapsed, or since the Unix epoch), finite, shape ``(N,)``.
        y: Values, shape ``(N,)``; NaN and infinities are marked, not drawn.
    """

    label: str
    x: Floats
    y: Floats

    def finite(self) -> Curve:
        """Return the curve without the points whose value is not finite."""
        kept = np.isfinite(self.y)
        return replace(self, x=self.x[kept], y=self.y[kept])


@dataclass(frozen=True, slots=True)
class Axes:
    """What the axes of a picture mean.

    Attributes:
        x_kind: ``"step"``, ``"time"`` (seconds elapsed) or ``"date"`` (seconds since the Unix
            epoch).
        title: Text above the picture.
        log_x: Logarithmic x axis; points at or below zero cannot be shown.
        log_y: The same for the y axis.
    """

    x_kind: XKind = "step"
    title: str = ""
    log_x: bool = False
    log_y: bool = False

    def visible(self, curve: Curve) -> Curve:
        """Return the curve without the points that a logarithmic axis has no place for."""
        kept = np.ones(len(curve.x), dtype=bool)
        if self.log_x:
            kept &= curve.x > 0
        if self.log_y:
            kept &= ~np.isfinite(curve.y) | (curve.y > 0)
        return curve if kept.all() else replace(curve, x=curve.x[kept], y=curve.y[kept])


def smooth(values: Floats, weight: float) -> Floats:
    """Return an exponential moving average, corrected for its start, of the finite values.

    Args:
        values: Shape ``(N,)``; what is not finite stays as it is and does not spread.
        weight: 0 (no smoothing) up to, but not including, 1; the part of the old average that is
            kept at each point.

    Raises:
        ArgumentError: If ``weight`` is outside of that range.
    """
    if not 0 <= weight < 1:
        msg = f"smoothing: expected a number from 0 to below 1, got {weight!r}"
        raise ArgumentError(msg)
    if not weight:
        return values
    out, average, share = values.tolist(), 0.0, 0.0
    for at, value in enumerate(out):
        if math.isfinite(value):
            average = weight * average + (1 - weight) * value
            share = weight * share + (1 - weight)
            out[at] = average / share
    return np.asarray(out, dtype=np.float64)


def thin(curve: Curve, buckets: int) -> Curve:
    """Return at most about six points for each of ``buckets`` stretches of the curve.

    Of every stretch the first, last, least and greatest finite point stay, and one of what is not
    finite.
    """
    size = len(curve.x)
    if size <= 6 * buckets:
        return curve
    kept: set[int] = set()
    edges = np.linspace(0, size, buckets + 1).astype(int)
    finite = np.isfinite(curve.y)
    low, high = np.where(finite, curve.y, np.inf), np.where(finite, curve.y, -np.inf)
    for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        kept |= {start, stop - 1}
        kept |= {start + int(low[start:stop].argmin()), start + int(high[start:stop].argmax())}
        if not finite[start:stop].all():
            kept.add(start + int(finite[start:stop].argmin()))
    chosen = np.asarray(sorted(kept))
    return replace(curve, x=curve.x[chosen], y=curve.y[chosen])


def check_drawable(lines: Sequence[Curve], axes: Axes) -> None:
    """Make sure that there is something to draw.

    Args:
        lines: Curves without the points that ``axes`` cannot show, and finite.
        axes: What the axes mean.

    Raises:
        ArgumentError: If all of them are empty.
    """
    if any(len(line.x) for line in lines):
        return
    why = "greater than zero, as a logarithmic axis needs" if axes.log_x or axes.log_y else "finite"
    msg = f"plot: expected at least one value that is {why}, found none"
    raise ArgumentError(msg)


def save(curves: Sequence[Curve], raw: Sequence[Curve] | None, axes: Axes, path: Path) -> None:
    """Write a picture; the ending of its name says which kind.

    Args:
        curves: What to draw.
        raw: The same curves before smoothing, drawn faintly behind, or None.
        axes: What the axes mean.
        path: Ends with ``.png``, ``.svg`` or ``.pdf`` (drawn by Matplotlib), or ``.html`` (by
            plotly: one file with everything in it, which needs no network).

    Raises:
        ArgumentError: If the ending is another one, or there is nothing to show.
        MissingExtraError: If the extra ``plot`` is not installed.
        OSError: If the file cannot be written.
    """
    ending = path.suffix.lower()
    if ending not in _IMAGES + _PAGES:
        endings = ", ".join(_IMAGES + _PAGES)
        msg = f"plot: expected a file name that ends with one of {endings}, got {str(path)!r}"
        raise ArgumentError(msg)
    shown = [axes.visible(curve) for curve in curves]
    check_drawable([curve.finite() for curve in shown], axes)
    behind = [axes.visible(curve) for curve in raw or []]
    try:
        (_save_page if ending in _PAGES else _save_image)(shown, behind, axes, path)
    except ModuleNotFoundError as error:
        if isinstance(error, MissingExtraError):
            raise
        msg = f'plot: {ending} files need the package {error.name}: pip install "seamark[plot]"'
        raise MissingExtraError(msg, name=error.name) from error


_AXIS_NAMES: Final = {"step": "step", "time": "elapsed time, s", "date": "time (UTC)"}


def _dates(x: Floats) -> Any:
    return (x * 1e6).astype("datetime64[us]")


def _save_image(curves: Sequence[Curve], raw: Sequence[Curve], axes: Axes, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.5), dpi=150, layout="constrained")
    plot = figure.add_subplot()
    place = _dates if axes.x_kind == "date" else np.asarray
    for at, curve in enumerate(raw):
        kept = thin(curve, PICTURE_POINTS)
        plot.plot(place(kept.x), _gaps(kept.y), color=f"C{at}", alpha=0.25, linewidth=1)
    lines = []
    for at, curve in enumerate(curves):
        kept = thin(curve, PICTURE_POINTS)
        alone = "o" if np.isfinite(kept.y).sum() == 1 else None
        lines += plot.plot(
            place(kept.x), _gaps(kept.y), color=f"C{at}", marker=alone, linewidth=1.5
        )
        for mark, places, height in _marks(kept.y):
            across = plot.get_xaxis_transform()
            where = place(kept.x[places])
            plot.plot(
                where,
                np.full(len(where), height),
                mark,
                color=f"C{at}",
                transform=across,
                clip_on=False,
            )
    if axes.log_x:
        plot.set_xscale("log")  # setting "linear" would undo the axis of dates
    if axes.log_y:
        plot.set_yscale("log")
    texts = [plot.set_xlabel(_AXIS_NAMES[axes.x_kind]), plot.set_title(axes.title)]
    plot.grid(alpha=0.3)
    # A label that starts with "_" would be left out of the legend.
    names = [f" {curve.label}" if curve.label.startswith("_") else curve.label for curve in curves]
    legend = plot.legend(lines, names, fontsize="small")
    for text in (*texts, *legend.get_texts()):
        text.set_parse_math(False)  # a "$" in a name is a dollar
    figure.savefig(path)


def _gaps(y: Floats) -> Floats:
    return np.where(np.isfinite(y), y, np.nan)


def _marks(y: Floats) -> list[tuple[str, NDArray[np.bool_], float]]:
    """Return how odd values are marked: sign, where, and height from 0 (bottom) to 1."""
    found = [("x", np.isnan(y), 0.0), ("v", np.isneginf(y), 0.0), ("^", np.isposinf(y), 1.0)]
    return [entry for entry in found if entry[1].any()]


_PAGE_COLOURS: Final = (
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd",
    "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf",
)  # fmt: skip


def _save_page(curves: Sequence[Curve], raw: Sequence[Curve], axes: Axes, path: Path) -> None:
    from html import escape

    from plotly import graph_objects

    def line(curve: Curve, at: int, *, faint: bool) -> Any:
        kept = thin(curve, PICTURE_POINTS)
        name = escape(curve.label)  # plotly would read tags in names
        return graph_objects.Scatter(
            x=_dates(kept.x) if axes.x_kind == "date" else kept.x,
            y=_gaps(kept.y),
            name=name,
            legendgroup=str(at),
            showlegend=not faint,
            opacity=0.3 if faint else 1,
            mode="lines+markers" if np.isfinite(kept.y).sum() == 1 else "lines",
            line={"color": _PAGE_COLOURS[at % len(_PAGE_COLOURS)]},
            hoverinfo="skip" if faint else None,
        )

    figure = graph_objects.Figure()
    for at, curve in enumerate(raw):
        figure.add_trace(line(curve, at, faint=True))
    for at, curve in enumerate(curves):
        figure.add_trace(line(curve, at, faint=False))
        _mark_page(figure, graph_objects, curve, axes, at)
    figure.update_layout(
        title={"text": escape(axes.title)},
        template="plotly_white",
        xaxis={"title": {"text": _AXIS_NAMES[axes.x_kind]}, "type": _page_axis(axes)},
        yaxis={"type": "log" if axes.log_y else "linear"},
        # Where values that are not finite are marked: a second y axis from 0 to 1, not shown.
        yaxis2={"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True},
        hovermode="x unified",
        showlegend=True,
    )
    figure.write_html(path, include_plotlyjs=True, full_html=True)


def _page_axis(axes: Axes) -> str:
    return "date" if axes.x_kind == "date" else "log" if axes.log_x else "linear"


def _mark_page(figure: Any, graph_objects: Any, curve: Curve, axes: Axes, at: int) -> None:
    symbols = {"x": ("x", "NaN"), "v": ("triangle-down", "-inf"), "^": ("triangle-up", "+inf")}
    kept = thin(curve, PICTURE_POINTS)
    for mark, places, height in _marks(kept.y):
        symbol, name = symbols[mark]
        where = kept.x[places]
        figure.add_trace(
            graph_objects.Scatter(
                x=_dates(where) if axes.x_kind == "date" else where,
                y=np.full(len(where), height),
                yaxis="y2",
                mode="markers",
                name=name,
                legendgroup=str(at),
                showlegend=False,
                marker={
                    "symbol": symbol,
                    "size": 8,
                    "color": _PAGE_COLOURS[at % len(_PAGE_COLOURS)],
                },
                cliponaxis=False,
            )
        )
