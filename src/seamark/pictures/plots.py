"""Curves and their pictures: figures, image files, web pages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from seamark.errors import ArgumentError, MissingExtraError

if TYPE_CHECKING:
    from seamark.values.arrays import Floats


XKind = Literal["step", "time", "relative", "series"]

PICTURE_POINTS: Final = 4000
"""Maximum number of points per curve: more cannot be distinguished."""
COLOURS: Final = (
    "#2f74d0", "#d9660a", "#22935b", "#d33c4c", "#9a58d6", "#99682f", "#d6449f", "#128f9c",
)  # fmt: skip
"""Colours of curves, readable on light and dark pages."""
_TEXT_COLOUR: Final = "#7a7a7a"
"""Colour of axes and labels, readable on light and dark pages."""
_MAX_BANDS: Final = 8
"""Maximum number of bands: more would hide each other."""
_IMAGE_SUFFIXES: Final = (".png", ".svg", ".pdf")
_PAGE_SUFFIXES: Final = (".html", ".htm")
_DASHES: Final = (("-", "solid"), ("--", "dash"), (":", "dot"))
"""Dashes that distinguish lines of one colour, by their names in Matplotlib and plotly."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Curve in a picture.

    Attributes:
        x: Steps, seconds (elapsed, or since the Unix epoch) or values of a series; finite, (N,).
        y: Values, (N,). The line has gaps at values that are not finite.
        low: Lower edge of the band behind the line, (N,); None for no band.
        high: Upper edge of the band.
        odd_x: Positions of the marks of values that are not finite.
        odd_y: Values at these positions: NaN, +inf or -inf.
        odd_count: Number of such values, marked or not.
        left_out: Number of points that the axes cannot show.
        colour: Index in `COLOURS`; greater indices also dash the line; None is the next colour.
    """

    label: str
    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None
    odd_x: Floats = field(default_factory=lambda: np.empty(0))
    odd_y: Floats = field(default_factory=lambda: np.empty(0))
    odd_count: int = 0
    left_out: int = 0
    colour: int | None = None

    def finite(self) -> Curve:
        """Return the curve without points that are not finite."""
        return self.part(np.isfinite(self.y))

    def marks(self) -> list[tuple[str, str, Floats, float]]:
        """Return the marks of non-finite values: sign, name, x, height from 0 (bottom) to 1."""
        found = [
            ("x", "NaN", np.isnan(self.odd_y), 0.0),
            ("v", "-inf", np.isneginf(self.odd_y), 0.0),
            ("^", "+inf", np.isposinf(self.odd_y), 1.0),
        ]
        return [(sign, name, self.odd_x[at], top) for sign, name, at, top in found if at.any()]

    def with_gaps(self) -> Floats:
        """Return the values, with NaN in place of values that are not finite."""
        return np.where(np.isfinite(self.y), self.y, np.nan)

    def part(self, kept: Any) -> Curve:
        """Return the selected points of the line."""
        low, high = (None if edge is None else edge[kept] for edge in (self.low, self.high))
        return replace(self, x=self.x[kept], y=self.y[kept], low=low, high=high)


@dataclass(frozen=True, slots=True)
class Axes:
    """Axes of a picture: their kinds, scales and titles.

    ``x_kind`` is ``"step"``, ``"time"`` (seconds since the Unix epoch), ``"relative"`` (elapsed
    seconds) or ``"series"``. ``unit`` is the common unit of the curves, which is also in the title.
    ``note`` is a second line above the picture. A logarithmic axis cannot show points at or below
    zero.
    """

    x_kind: XKind = "step"
    title: str = ""
    unit: str = ""
    log_x: bool = False
    log_y: bool = False
    x_name: str = ""
    note: str = ""

    def visible(self, curve: Curve) -> Curve:
        """Return the curve without points that a logarithmic axis cannot show."""
        if self.log_x:
            there = curve.odd_x > 0
            curve = replace(curve, odd_x=curve.odd_x[there], odd_y=curve.odd_y[there])
        kept = np.ones(len(curve.x), dtype=bool)
        if self.log_x:
            kept &= curve.x > 0
        if self.log_y:
            kept &= ~np.isfinite(curve.y) | (curve.y > 0)
            if curve.low is not None:
                curve = replace(curve, low=np.where(curve.low > 0, curve.low, curve.y))
        return curve if kept.all() else curve.part(kept)

    @property
    def name(self) -> str:
        """Label of the x axis."""
        return self.x_name or _AXIS_NAMES.get(self.x_kind, "")


_AXIS_NAMES: Final = {"step": "step", "relative": "elapsed time, s", "time": "time (UTC)"}


def slots(keys: Iterable[str]) -> dict[str, int]:
    """Return the colour index of each run or path; without collisions it is always the same."""
    found: dict[str, int] = {}
    for key in sorted(set(keys)):
        at = int.from_bytes(hashlib.sha256(key.encode("utf-8", "replace")).digest()[:4], "big")
        places = ((at + turn) % len(COLOURS) for turn in range(len(COLOURS)))
        dash = len(found) // len(COLOURS) * len(COLOURS)
        found[key] = next(dash + place for place in places if dash + place not in found.values())
    return found


def check_drawable(lines: Sequence[Curve], axes: Axes) -> None:
    """Raise ArgumentError if there is no point to draw."""
    if any(len(line.x) for line in lines):
        return
    why = "greater than zero (logarithmic axis)" if axes.log_x or axes.log_y else "finite"
    raise ArgumentError(f"plot: expected at least one value that is {why}, found none")


def save(curves: Sequence[Curve], axes: Axes, path: Path) -> None:
    """Write a picture as ``.png``, ``.svg`` or ``.pdf`` (Matplotlib) or as ``.html`` (plotly).

    The page is a single file that needs no network.

    Raises:
        ArgumentError: If the suffix is not supported, or there is nothing to show.
        MissingExtraError: If the extra ``plot`` is not installed.
    """
    ending = path.suffix.lower()
    if ending not in _IMAGE_SUFFIXES + _PAGE_SUFFIXES:
        endings = ", ".join(_IMAGE_SUFFIXES + _PAGE_SUFFIXES)
        raise ArgumentError(
            f"plot: expected a file name that ends with one of {endings}, got {str(path)!r}"
        )
    shown = [axes.visible(curve) for curve in curves]
    check_drawable([curve.finite() for curve in shown], axes)
    if ending in _PAGE_SUFFIXES:
        figure_of(curves, axes).write_html(path, include_plotlyjs=True, full_html=True)
        return
    try:
        _save_image(shown, axes, path)
    except ModuleNotFoundError as error:
        raise _missing_extra(error) from error


def _missing_extra(error: ModuleNotFoundError) -> MissingExtraError:
    msg = f'plot: the package {error.name} is not installed: pip install "seamark[plot]"'
    return MissingExtraError(msg, name=error.name)


def _x_values(x: Floats, axes: Axes) -> Any:
    return (x * 1e6).astype("datetime64[us]") if axes.x_kind == "time" else x


def _colour_and_dash(curve: Curve, at: int) -> tuple[str, tuple[str, str]]:
    slot = at if curve.colour is None else curve.colour
    return COLOURS[slot % len(COLOURS)], _DASHES[slot // len(COLOURS) % len(_DASHES)]


def _save_image(curves: Sequence[Curve], axes: Axes, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.5), dpi=150, layout="constrained")
    plot = figure.add_subplot()
    lines = []
    for at, curve in enumerate(curves):
        colour, (dash, _) = _colour_and_dash(curve, at)
        where = _x_values(curve.x, axes)
        if curve.low is not None and curve.high is not None and len(curves) <= _MAX_BANDS:
            plot.fill_between(where, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
        alone = "o" if np.isfinite(curve.y).sum() == 1 else None
        lines += plot.plot(
            where, curve.with_gaps(), color=colour, linestyle=dash, marker=alone, linewidth=1.5
        )
        across = plot.get_xaxis_transform()
        for mark, _, x, height in curve.marks():
            places, heights = _x_values(x, axes), np.full(len(x), height)
            plot.plot(places, heights, mark, color=colour, transform=across, clip_on=False)
    if axes.log_x:
        plot.set_xscale("log")  # setting "linear" would replace the axis of dates
    if axes.log_y:
        plot.set_yscale("log")
    title = "\n".join(filter(None, (axes.title, axes.note)))
    texts = [plot.set_xlabel(axes.name), plot.set_title(title)]
    plot.grid(alpha=0.3)
    # Matplotlib leaves labels that start with "_" out of the legend.
    names = [f" {curve.label}" if curve.label.startswith("_") else curve.label for curve in curves]
    legend = plot.legend(lines, names, fontsize="small")
    for text in (*texts, *legend.get_texts()):
        text.set_parse_math(False)  # "$" is an ordinary character
    figure.savefig(path)


# ---------------------------------------------------------------------- figures


def figure_of(curves: Sequence[Curve], axes: Axes) -> Any:
    """Return a plotly figure for light and dark pages; raise MissingExtraError without plotly."""
    try:
        from plotly import graph_objects
    except ModuleNotFoundError as error:
        raise _missing_extra(error) from error
    shown = [axes.visible(curve) for curve in curves]
    traces = []
    if len(shown) <= _MAX_BANDS:
        traces += [edge for at, curve in enumerate(shown) for edge in _band_traces(curve, axes, at)]
    for at, curve in enumerate(shown):
        traces += [_line_trace(curve, axes, at), *_mark_traces(curve, axes, at)]
    scatters = [graph_objects.Scatter(**trace) for trace in traces]
    return graph_objects.Figure(scatters, _layout(axes))


def _escape(text: str) -> str:
    """Return a text escaped for plotly, which interprets tags and, between dollars, formulas."""
    from html import escape

    return escape(text.encode("utf-8", "backslashreplace").decode()).replace("$", "&#36;")


def _line_trace(curve: Curve, axes: Axes, at: int) -> dict[str, Any]:
    colour, (_, dash) = _colour_and_dash(curve, at)
    return {
        "x": _x_values(curve.x, axes),
        "y": curve.with_gaps(),
        "name": _escape(curve.label),
        "legendgroup": str(at),
        "mode": "lines+markers" if np.isfinite(curve.y).sum() == 1 else "lines",
        "line": {"color": colour, "dash": dash, "width": 2},
    }


def _band_traces(curve: Curve, axes: Axes, at: int) -> list[dict[str, Any]]:
    """Return the two edges of a band; the area between them is filled."""
    if curve.low is None or curve.high is None:
        return []
    kept = np.isfinite(curve.low) & np.isfinite(curve.high)
    colour, _ = _colour_and_dash(curve, at)
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    edge = {
        "x": _x_values(curve.x[kept], axes),
        "legendgroup": str(at),
        "showlegend": False,
        "hoverinfo": "skip",
        "mode": "lines",
        "line": {"width": 0},
    }
    fill = {"fill": "tonexty", "fillcolor": f"rgba({red},{green},{blue},0.2)"}
    return [{**edge, "y": curve.low[kept]}, {**edge, "y": curve.high[kept], **fill}]


_SYMBOLS: Final = {"x": "x", "v": "triangle-down", "^": "triangle-up"}


def _mark_traces(curve: Curve, axes: Axes, at: int) -> list[dict[str, Any]]:
    colour, _ = _colour_and_dash(curve, at)
    return [
        {
            "x": _x_values(x, axes),
            "y": np.full(len(x), height),
            "yaxis": "y2",
            "mode": "markers",
            "name": name,
            "legendgroup": str(at),
            "showlegend": False,
            "marker": {"symbol": _SYMBOLS[sign], "size": 8, "color": colour},
            "cliponaxis": False,
        }
        for sign, name, x, height in curve.marks()
    ]


def _layout(axes: Axes) -> dict[str, Any]:
    note = f"<br><sup>{_escape(axes.note)}</sup>" if axes.note else ""
    lines = {"gridcolor": "rgba(122,122,122,0.25)", "zerolinecolor": "rgba(122,122,122,0.4)"}
    kind = "date" if axes.x_kind == "time" else "log" if axes.log_x else "linear"
    return {
        "title": {"text": _escape(axes.title) + note},
        "template": "none",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": _TEXT_COLOUR},
        "xaxis": {"title": {"text": _escape(axes.name)}, "type": kind, **lines},
        "yaxis": {"type": "log" if axes.log_y else "linear", "automargin": True, **lines},
        # Invisible second y axis from 0 to 1, for the marks of values that are not finite.
        "yaxis2": {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True},
        "hovermode": "x unified",
        "hoverlabel": {"namelength": -1, "font": {"color": "#222222"}, "bgcolor": "#ffffff"},
        "showlegend": True,
    }
