"""Curves in the terminal, drawn with Braille dots."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

import numpy as np

from seamark.pictures.plots import Axes, Curve, check_drawable

if TYPE_CHECKING:
    from plotille import Canvas

    from seamark.values.arrays import Floats


COLOURS: Final = ("cyan", "yellow", "magenta", "green", "red", "blue", "white")
"""Colours of curves, in order of use."""
_MIN_SPAN: Final = 1e-300
"""Minimum range; a smaller one is drawn as one value, because doubles cannot divide it."""
_DAY_S: Final = 86_400
_MAX_DOUBLE: Final = sys.float_info.max
_DOT_DISTANCE: Final = 3
"""Distance between the dots of a dotted line, in dots."""
_EMPTY_CELL: Final = "\u2800"
"""Braille cell without dots, replaced by a space for copying."""


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float
    log: bool
    dots: int

    @classmethod
    def over(cls, parts: Sequence[Floats], *, log: bool, dots: int) -> _Scale:
        """Return a scale over all values of ``parts``, with margins for a single value."""
        low = min(float(part.min()) for part in parts if len(part))
        high = max(float(part.max()) for part in parts if len(part))
        if log:
            low, high = math.log10(low), math.log10(high)
        if not high / 2 - low / 2 > _MIN_SPAN:
            room = max(abs(low) * 0.1, 1.0)
            low, high = max(-_MAX_DOUBLE, low - room), min(_MAX_DOUBLE, high + room)
        return cls(low, high, log, dots)

    def place(self, values: Floats) -> Floats:
        """Return the positions of values in dots (0-based, floats)."""
        plain = np.log10(values) if self.log else values
        # Halves, because the range of two doubles may exceed the range of a double.
        return (plain / 2 - self.low / 2) / (self.high / 2 - self.low / 2) * (self.dots - 1)

    def ticks(self, count: int) -> list[float]:
        low, high = self.low, self.high
        if self.log and math.floor(high + 1e-9) > math.ceil(low - 1e-9):  # 2 powers of ten or more
            powers = _ticks(low, high, count, least=1.0)
            return [10.0**power for power in powers if -307 <= power <= 308]  # noqa: PLR2004
        if self.log:
            low, high = 10.0 ** max(low, -307.0), 10.0 ** min(high, 308.0)
        return _ticks(low, high, count)


def _ticks(low: float, high: float, count: int, *, least: float = 0.0) -> list[float]:
    rough = (high / 2 - low / 2) / max(count, 1) * 2
    if not math.isfinite(rough) or rough <= 0:
        return [low, high]
    unit = 10.0 ** math.floor(math.log10(rough))
    step = min(
        (unit * size for size in (1, 2, 2.5, 5, 10)), key=lambda size: abs(math.log(size / rough))
    )
    step = max(least, round(step)) if least else step
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    # Too many: the step is smaller than the distance of doubles. One: no two round values.
    if not 1 < last - first + 1 <= 4 * count + 4:
        return [low, high]
    return [number * step for number in range(first, last + 1) if math.isfinite(number * step)]


def _labels(ticks: Sequence[float]) -> list[str]:
    """Return distinct labels of ticks, with exponents without padding."""
    labels = [f"{tick:.10g}" for tick in ticks]
    if len(set(labels)) < len(labels):
        labels = list(map(repr, ticks))
    return [one.replace("e+0", "e").replace("e-0", "e-").replace("e+", "e") for one in labels]


_TIME_UNITS: Final = (
    (2 * _DAY_S, _DAY_S, "d"),
    (2 * 3600, 3600, "h"),
    (2 * 60, 60, "min"),
    (0, 1, "s"),
)


def _x_ticks(
    scale: _Scale, axes: Axes, count: int, safe: Callable[[str], str]
) -> tuple[list[float], list[str], str]:
    if axes.x_kind == "time":
        spots = np.linspace(scale.low, scale.high, max(2, min(count, 5))).tolist()
        pattern = "%m-%d %H:%M" if scale.high - scale.low > _DAY_S else "%H:%M:%S"
        moments = [datetime.fromtimestamp(spot).astimezone() for spot in spots]
        return (
            spots,
            [moment.strftime(pattern) for moment in moments],
            f"time of day, {moments[0]:%Y-%m-%d}",
        )
    if axes.x_kind == "relative" and not scale.log:
        size, unit = next(
            (size, unit) for least, size, unit in _TIME_UNITS if scale.high - scale.low >= least
        )
        inner = _ticks(scale.low / size, scale.high / size, count)
        return [tick * size for tick in inner], _labels(inner), f"elapsed, {unit}"
    whole = axes.x_kind == "step" and not scale.log and scale.high - scale.low > 1
    ticks = _ticks(scale.low, scale.high, count, least=1.0) if whole else scale.ticks(count)
    return ticks, _labels(ticks), "elapsed, s" if axes.x_kind == "relative" else safe(axes.name)


def draw(
    curves: Sequence[Curve],
    axes: Axes,
    *,
    width: int,
    height: int,
    colour: bool,
    bands: bool = False,
    safe: Callable[[str], str] = str,
) -> str:
    """Draw curves with Braille dots; at least one curve must have a value to show.

    ``width`` and ``height`` (of the drawing area only) are in cells. Without ``colour``, letters
    distinguish the curves. ``bands`` shows the edges of bands as dotted lines. ``safe`` makes names
    printable.

    Raises:
        ArgumentError: If no curve has a value that these axes can show.
    """
    shown = [axes.visible(curve) for curve in curves]
    lines = [curve.finite() for curve in shown]
    check_drawable(lines, axes)
    spanned = [line.y for line in lines]
    if bands:
        edges = [edge for line in lines for edge in (line.low, line.high) if edge is not None]
        spanned += [edge[np.isfinite(edge)] for edge in edges]
    y_scale = _Scale.over(spanned, log=axes.log_y, dots=4 * height)
    y_ticks = y_scale.ticks(max(2, round(height / 2.5)))
    y_labels = _labels(y_ticks)
    margin = max(map(len, y_labels), default=0)
    columns = max(10, width - margin - 2)
    all_x = [x for curve in shown for x in (curve.x, curve.odd_x) if len(x)]
    x_scale = _Scale.over(all_x, log=axes.log_x, dots=2 * columns)
    rows = _draw_rows(shown, x_scale, y_scale, columns, height, colour=colour, bands=bands)
    at_row = {
        height - 1 - round(spot) // 4: label
        for spot, label in _tick_positions(y_scale, y_ticks, y_labels)
    }
    out = [f"{' ' * margin}  {safe(line)}" for line in (axes.title, axes.note) if line]
    out += [
        f"{at_row.get(at, ''):>{margin}} {'┤' if at in at_row else '│'}{row}"
        for at, row in enumerate(rows)
    ]
    return "\n".join(
        [
            *out,
            *_x_axis(x_scale, axes, margin, columns, safe),
            *_legend(curves, colour=colour, safe=safe),
        ]
    )


def _tick_positions(
    scale: _Scale, ticks: Sequence[float], labels: Sequence[str]
) -> list[tuple[float, str]]:
    return list(zip(scale.place(np.asarray(ticks, dtype=np.float64)).tolist(), labels, strict=True))


def _draw_rows(
    curves: Sequence[Curve],
    x_scale: _Scale,
    y_scale: _Scale,
    columns: int,
    height: int,
    *,
    colour: bool,
    bands: bool,
) -> list[str]:
    from plotille import Canvas

    canvas = Canvas(columns, height, 0, 0, 2 * columns, 4 * height)
    for at, curve in enumerate(curves):
        paint = COLOURS[at % len(COLOURS)] if colour else None
        for edge in (curve.low, curve.high) if bands else ():
            if edge is not None:
                _draw_dotted(canvas, x_scale.place(curve.x), edge, y_scale, paint)
        _draw_line(canvas, x_scale.place(curve.x), curve.y, y_scale, paint)
        for mark, _, xs, top in curve.marks():
            for x in x_scale.place(xs).tolist():
                canvas.point(x, top * (4 * height - 1), color=paint, marker=mark)
        if not colour and len(curves) > 1:
            _draw_letters(canvas, curve, x_scale, y_scale, _letter_of(at), at / len(curves))
    return [row.rstrip() for row in canvas.plot("\n").replace(_EMPTY_CELL, " ").split("\n")]


def _draw_line(canvas: Canvas, xs: Floats, ys: Floats, scale: _Scale, paint: str | None) -> None:
    points = list(zip(xs.tolist(), _dots(ys, scale).tolist(), strict=True))
    drawn = [(x, y) for x, y in points if math.isfinite(y)]
    for x, y in drawn:
        canvas.point(x, y, color=paint, marker="●" if len(drawn) == 1 else None)
    for (x, y), (next_x, next_y) in itertools.pairwise(points):
        if math.isfinite(y) and math.isfinite(next_y):
            canvas.line(x, y, next_x, next_y, color=paint)


def _draw_dotted(canvas: Canvas, xs: Floats, ys: Floats, scale: _Scale, paint: str | None) -> None:
    if not len(xs):
        return
    where = np.append(np.arange(xs[0], xs[-1], _DOT_DISTANCE), xs[-1])
    heights = np.interp(where, xs, _dots(ys, scale))
    for x, y in zip(where.tolist(), heights.tolist(), strict=True):
        if math.isfinite(y):
            canvas.point(x, y, color=paint)


def _dots(ys: Floats, scale: _Scale) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(ys), scale.place(ys), np.nan)


def _letter_of(at: int) -> str:
    return chr(ord("a") + at % 26)


def _draw_letters(
    canvas: Canvas, curve: Curve, x_scale: _Scale, y_scale: _Scale, letter: str, shift: float
) -> None:
    line = curve.finite()
    count = min(5, len(line.x))
    for part in range(count):
        at = min(len(line.x) - 1, int((part + shift) / count * len(line.x)))
        x = float(x_scale.place(line.x[at : at + 1])[0])
        y = float(y_scale.place(line.y[at : at + 1])[0])
        canvas.point(x, y, marker=letter)


def _x_axis(
    scale: _Scale, axes: Axes, margin: int, columns: int, safe: Callable[[str], str]
) -> list[str]:
    ticks, labels, name = _x_ticks(scale, axes, max(2, columns // 12), safe)
    rule, below = ["─"] * columns, [" "] * (columns + margin + 2)
    free = 0
    for spot, label in _tick_positions(scale, ticks, labels):
        column = min(columns - 1, max(0, round(spot) // 2))
        start = min(max(margin + 2 + column - len(label) // 2, 0), len(below) - len(label))
        if start < free:
            continue
        rule[column] = "┬"
        below[start : start + len(label)] = label
        free = start + len(label) + 2
    under = f"{' ' * (margin + 2)}{name:^{columns}}".rstrip()
    return [f"{' ' * margin} └{''.join(rule)}", "".join(below).rstrip(), under]


def _legend(curves: Sequence[Curve], *, colour: bool, safe: Callable[[str], str]) -> list[str]:
    from plotille import color

    out = []
    for at, curve in enumerate(curves):
        sign = f" {_letter_of(at)}" if len(curves) > 1 else "──"
        if colour:
            sign = color("──", fg=COLOURS[at % len(COLOURS)])
        odd = curve.odd_count
        extra = f"  ({odd:,} not finite: x NaN, ^ +inf, v -inf)" if odd else ""
        out.append(f"  {sign} {safe(curve.label)}{extra}")
    return out
