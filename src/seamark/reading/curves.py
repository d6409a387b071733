"""Float series prepared for drawing, divided into parts with their extremes."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Final, TypeGuard

from msgspec import Meta

from seamark.errors import ArgumentError
from seamark.paths import check_path
from seamark.reading.html import html_or_text, rows_of, text
from seamark.reading.text import plural
from seamark.values._numbers import argument_error
from seamark.values.arrays import Floats, Ints, check_lengths

NAMED_AXES: Final = ("step", "order", "time", "relative")
"""X axes other than a series."""
MOST_PARTS: Final = 1 << 18
"""Maximum number of representative points of a curve requested from a server."""
_CURSOR: Final = re.compile(r"[0-9]{1,15}(\.[0-9a-f]{16}){1,64}")
_DIGEST_BYTES: Final = 8
_WIDTH: Final = 240
_HEIGHT: Final = 48
"""Height of the small picture of a series, in pixels."""


@dataclass(frozen=True, slots=True)
class Look:
    """Settings for drawing a float series.

    Attributes:
        points: Maximum number of representative points of each curve; at least 2. A series with no
            more points is drawn point by point.
        x: ``"step"``; ``"order"`` of recording, counted from 0; ``"time"`` (seconds since the Unix
            epoch); ``"relative"`` (seconds since the run was created); or the path of a float
            series, of which the value at the same step counts, else the last value before. Points
            before its first point, and points where it is not finite, are left out and counted.
        low: Lower limit of x, inclusive; None for no limit.
        high: Upper limit of x, inclusive; None for no limit.
        window: Width of a smoothed line in units of x: the mean of finite values around each x.
        half_life: Half-life of an exponentially smoothed line in units of x: the average of finite
            values up to each x, with half the weight that far back. Every point is read.
        log_x: Whether parts are equally wide in log2 x. Points with x <= 0 are left out and
            counted.
        log_y: Whether to count the values that a logarithmic y axis cannot show.
    """

    points: Annotated[int, Meta(le=MOST_PARTS)] = 1000
    x: str = "step"
    low: float | None = None
    high: float | None = None
    window: float | None = None
    half_life: float | None = None
    log_x: bool = False
    log_y: bool = False

    def check(self) -> None:
        """Check all settings before anything is read; raises `ArgumentError` or `PathError`."""
        check_points(self.points)
        if self.x not in NAMED_AXES:
            check_path(self.x)
        for name in ("window", "half_life"):
            given = getattr(self, name)
            if given is not None and not (is_number(given) and given > 0):
                raise argument_error(given, name, "a positive width in units of x")
        if self.window is not None and self.half_life is not None:
            raise ArgumentError("window, half_life: expected one kind of smoothed line, got both")
        for name in ("low", "high"):
            given = getattr(self, name)
            if given is not None and not is_number(given):
                raise argument_error(given, name, "a finite number or None")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ArgumentError(
                f"low, high: expected low <= high, got {self.low!r} and {self.high!r}"
            )


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number and not a bool."""
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and abs(value) <= 1.7976931348623157e308  # noqa: PLR2004 - an int may be more; NaN is not less
    )


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Float series in parts, for series with more points than a screen can show.

    Part k holds the points with ``k * width <= step < (k + 1) * width``; parts without points are
    left out. A curve requested with ``points`` has at most ``points // 2`` parts, hence at most
    ``points`` representative points, which include every one-point spike. If the series has at most
    ``points`` points, each point is a part, in the order of the series. While the width stays the
    same, appended points change only the last part, except for the rounding of means.

    Attributes:
        width: Width of a part in steps: the smallest power of two that gives few enough parts. It
            is 0.0 if each part is a single point, 2**-1074 (the smallest float) if there are more
            points but few enough different steps, and infinite if no power of two is large enough.
        first_step: First step in the part, float64 (N,).
        last_step: Last step in the part, float64 (N,).
        min: Smallest finite value, float64 (N,); NaN if there are none.
        max: Greatest finite value, float64 (N,); NaN if there are none.
        min_step: Step of the minimum, float64 (N,), of the first such point in the order of the
            series; NaN if there is none.
        max_step: Step of the maximum, float64 (N,), likewise.
        mean: Mean of the finite values, float64 (N,), always from ``min`` to ``max``; NaN if there
            are none.
        count: Number of points, int64 (N,).
        nan_count: Number of NaNs, int64 (N,).
        inf_count: Number of infinite values, int64 (N,).
    """

    width: float
    first_step: Floats
    last_step: Floats
    min: Floats
    max: Floats
    min_step: Floats
    max_step: Floats
    mean: Floats
    count: Ints
    nan_count: Ints
    inf_count: Ints

    def __post_init__(self) -> None:
        check_lengths(*(getattr(self, name) for name in _COLUMNS))

    def __len__(self) -> int:
        return len(self.count)

    def __repr__(self) -> str:
        return f"<Curve: {len(self)} parts of {int(self.count.sum())} points>"

    def _repr_html_(self) -> str:
        return html_or_text(self._page, self.__repr__)

    def _page(self) -> str:
        names = ("first_step", "last_step", "min", "max", "mean", "count")

        def row(at: int) -> list[str]:
            return [text(getattr(self, name)[at].item()) for name in names]

        of = plural(int(self.count.sum()), "point")
        title = f"{plural(len(self), 'part')} of {of}"
        return rows_of(title, names, len(self), row, line_of(self))

    @classmethod
    def none(cls) -> Curve:
        """Return a curve without points."""
        import numpy as np

        none, no_count = np.empty(0), np.empty(0, np.int64)
        return cls(0.0, none, none, none, none, none, none, none, no_count, no_count, no_count)

    def part(self, some: slice) -> Curve:
        """Return a slice of the parts."""
        return Curve(self.width, *(getattr(self, name)[some] for name in _COLUMNS))

    def followed_by(self, other: Curve) -> Curve:
        """Return the parts of this curve followed by those of another of the same width."""
        import numpy as np

        columns: Any = (
            np.concatenate([getattr(one, name) for one in (self, other)]) for name in _COLUMNS
        )
        return Curve(self.width, *columns)

    @property
    def step(self) -> Floats:
        """Steps of the representative points, float64; see `value`."""
        return self._representatives()[0]

    @property
    def value(self) -> Floats:
        """Values of the representative points, float64.

        They are the minimum and the maximum of each part, ordered by step (at equal steps the
        minimum first); a single point is given once. A part without finite values gives one NaN at
        its first step, where a line has a gap.
        """
        return self._representatives()[1]

    def _representatives(self) -> tuple[Floats, Floats]:
        import numpy as np

        empty = np.isnan(self.min)
        step = np.stack([np.where(empty, self.first_step, self.min_step), self.max_step], axis=1)
        value = np.stack([self.min, self.max], axis=1)
        falls = self.max_step < self.min_step
        step[falls], value[falls] = step[falls, ::-1], value[falls, ::-1]
        shown = np.ones(value.shape, bool)
        shown[:, 1] = self.min < self.max
        return step[shown], value[shown]


_COLUMNS: Final = tuple(one.name for one in fields(Curve)[1:])


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """Float series along a chosen x axis, with the annotations of its picture.

    Attributes:
        curve: Curve whose steps are positions on the x axis: steps, seconds, or values of another
            series. On a logarithmic axis the width is in log2 x.
        x: Position of the middle point of each part, float64 (N,).
        mean: Smoothed line at these positions, float64 (N,); NaN where there are no values. None if
            not requested.
        plus_inf: Positions of the first +inf of each part, float64.
        minus_inf: Positions of the first -inf of each part, float64.
        left_out: Number of points that the x axis cannot show.
        not_positive: Number of finite values not positive, for a logarithmic y axis; else 0.
        falls: Whether x decreases in the recording order of one process; one part may then hold
            several passes.
        ends: x and values of the first and the last finite point, float64; empty without a finite
            point, and if each part is a single point.
        kept: Number of leading parts left out because they are unchanged; see `since`.
    """

    curve: Curve
    x: Floats
    mean: Floats | None
    plus_inf: Floats
    minus_inf: Floats
    left_out: int
    not_positive: int
    falls: bool
    ends: tuple[Floats, Floats]
    kept: int = 0

    def __post_init__(self) -> None:
        check_lengths(self.curve, self.x, self.x if self.mean is None else self.mean)
        check_lengths(*self.ends)

    @property
    def cursor(self) -> str:
        """Cursor of this complete drawing for a request for later changes; see `since`."""
        count = len(self.curve)
        lengths = sorted({count, *(count - (1 << at) for at in range(count.bit_length()))})
        digests = self._digests([one for one in lengths if one >= 0])
        return ".".join([str(count), *reversed([digest for _, digest in digests])])

    def _digests(self, lengths: list[int]) -> Iterator[tuple[int, str]]:
        import numpy as np

        columns = [getattr(self.curve, name) for name in _COLUMNS]
        columns += [self.x, *([] if self.mean is None else [self.mean])]
        rows = np.stack([column.view(np.int64) for column in columns], axis=1)
        found = hashlib.blake2b(
            f"{self.curve.width!r} {len(columns)}".encode(), digest_size=_DIGEST_BYTES
        )
        done = 0
        for length in lengths:
            found.update(rows[done:length].tobytes())
            done = length
            yield length, found.hexdigest()

    def since(self, cursor: str) -> Drawing:
        """Return this drawing without its leading parts that are the same in an earlier one.

        A part changes when points are appended, hidden by a later attempt, or recorded late. Up to
        twice as many parts are returned as have changed.

        Args:
            cursor: `cursor` of the earlier drawing. An invalid cursor counts as none.
        """
        if not _CURSOR.fullmatch(cursor):
            return self
        count, *digests = cursor.split(".")
        before = int(count)
        lengths = [before, *(before - (1 << at) for at in range(before.bit_length()))]
        known = dict(
            zip([one for one in dict.fromkeys(lengths) if one >= 0], digests, strict=False)
        )
        kept = 0
        for length, digest in self._digests(sorted(one for one in known if one <= len(self.curve))):
            if known[length] == digest:
                kept = length
        return replace(
            self,
            curve=self.curve.part(slice(kept, None)),
            x=self.x[kept:],
            mean=None if self.mean is None else self.mean[kept:],
            kept=kept,
        )

    def after(self, before: Drawing) -> Drawing:
        """Return the complete drawing, given the earlier one whose cursor was passed to `since`.

        Raises:
            ArgumentError: If this drawing does not continue the earlier one.
        """
        import numpy as np

        if not self.kept:
            return self
        if (
            before.kept
            or self.kept > len(before.curve)
            or (self.mean is None) != (before.mean is None)
        ):
            raise ArgumentError(
                "after: expected the complete drawing whose cursor was passed to since()"
            )
        mean = None
        if self.mean is not None and before.mean is not None:
            mean = np.concatenate([before.mean[: self.kept], self.mean])
        return replace(
            self,
            curve=before.curve.part(slice(0, self.kept)).followed_by(self.curve),
            x=np.concatenate([before.x[: self.kept], self.x]),
            mean=mean,
            kept=0,
        )

    @classmethod
    def none(cls) -> Drawing:
        """Return the drawing of a series without points."""
        import numpy as np

        none = np.empty(0)
        return cls(Curve.none(), none, None, none, none, 0, 0, falls=False, ends=(none, none))


@dataclass(frozen=True, slots=True, eq=False)
class RunCurve:
    """Drawing of a series of a run."""

    project: str
    run: str
    path: str
    drawing: Drawing
    cursor: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Project, run id and path."""
        return self.project, self.run, self.path


def check_points(points: object) -> int:
    """Return ``points`` if it is an int of at least 2; raise `ArgumentError` otherwise."""
    if isinstance(points, int) and not isinstance(points, bool) and points >= 2:  # noqa: PLR2004
        return points
    raise argument_error(points, "points", "a whole number of at least 2")


def line_of(curve: Curve) -> str:
    """Return an SVG of the means and extremes of a series; empty if there is nothing to draw."""
    columns = (curve.first_step, curve.min, curve.max, curve.mean)
    rows = [
        row
        for row in zip(*(one.tolist() for one in columns), strict=True)
        if all(map(math.isfinite, row))
    ]
    if not rows:
        return ""
    across = _scale([row[0] for row in rows], 2, _WIDTH - 2)
    down = _scale([one for row in rows for one in row[1:3]], _HEIGHT - 2, 2)
    line = " ".join(f"{across(x):.1f},{down(mean):.1f}" for x, _, _, mean in rows)
    low = [f"{across(x):.1f},{down(least):.1f}" for x, least, _, _ in rows]
    high = [f"{across(x):.1f},{down(most):.1f}" for x, _, most, _ in reversed(rows)]
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    if len(rows) == 1:
        line = f"{line} {line}"  # a dot
    thick = 4 if len(rows) == 1 else 1.5
    return (
        f'<svg role="img" aria-label="the series" {size}>'
        f'<polygon points="{" ".join(low + high)}" fill="currentColor" fill-opacity=".2"/>'
        f'<polyline points="{line}" fill="none" stroke="currentColor" '
        f'stroke-linecap="round" stroke-width="{thick}"/></svg>'
    )


def _scale(values: list[float], start: float, end: float) -> Callable[[float], float]:
    # In halves, as the difference of two doubles may overflow.
    low, span = min(values), max(values) / 2 - min(values) / 2
    if span <= 0:
        return lambda _: (start + end) / 2
    return lambda value: start + (value / 2 - low / 2) / span * (end - start)
