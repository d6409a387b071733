"""What is drawn of a float series: parts of it, each with its extremes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamark.errors import ArgumentError
from seamark.reading.html import count_of, harmless, line_of, number, rows_of

if TYPE_CHECKING:
    from seamark.values.arrays import Floats, Ints

__all__ = ["Curve", "Drawing", "check_points"]


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A float series in parts: what is drawn of a series that has more points than a screen.

    Part k holds the points with ``k * width <= step < (k + 1) * width``; parts without points are
    left out. A curve that was asked for with ``points`` has at most ``points // 2`` parts,
    hence at most ``points`` representative points, and every one-point spike is one of them. Of a
    series with at most ``points`` points, each point is a part of its own, in the order of the
    series. While the width stays the same, appended points change no part but the last.

    Attributes:
        width: Of a part in steps: the smallest power of two that gives few enough parts. It is 0.0
            if each part is one single point, 2**-1074 (there is none smaller) if there are more
            points but few enough different steps, and infinite if no power of two is large enough.
        first_step: Of the points in the part, float64 (N,).
        last_step: Of the points in the part, float64 (N,).
        min: Of the finite values, float64 (N,); NaN if there are none.
        max: Of the finite values, float64 (N,); NaN if there are none.
        min_step: Where the minimum is, float64 (N,): the first such point in the order of the
            series; NaN if there is none.
        max_step: Where the maximum is, float64 (N,), likewise.
        mean: Of the finite values, float64 (N,), never outside ``min`` and ``max``; NaN if there
            are none.
        count: Of all points, int64 (N,).
        nan_count: Of the NaNs among them, int64 (N,).
        inf_count: Of the infinite values among them, int64 (N,).

    .. versionadded:: 0.1.0
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

    def __len__(self) -> int:
        """Return the number of parts."""
        return len(self.count)

    def __repr__(self) -> str:
        """Return how many parts there are, and of how many points."""
        return f"<Curve: {len(self)} parts of {int(self.count.sum())} points>"

    def _repr_html_(self) -> str:
        """Return a small picture, and the first and the last parts as a table; never raises."""
        return harmless(self._page, self.__repr__)

    def _page(self) -> str:
        names = ("first_step", "last_step", "min", "max", "mean", "count")

        def row(at: int) -> list[str]:
            return [number(getattr(self, name)[at].item()) for name in names]

        of = count_of(int(self.count.sum()), "point")
        title = f"{count_of(len(self), 'part')} of {of}"
        return rows_of(title, names, len(self), row, line_of(self))

    @classmethod
    def none(cls) -> Curve:
        """Return a curve without points."""
        import numpy as np

        none, no_count = np.empty(0), np.empty(0, np.int64)
        return cls(0.0, none, none, none, none, none, none, none, no_count, no_count, no_count)

    @property
    def step(self) -> Floats:
        """Steps of the representative points, float64; see `value`."""
        return self._representatives()[0]

    @property
    def value(self) -> Floats:
        """Values of the representative points, float64.

        They are the minimum and the maximum of each part by step (at one step the minimum first),
        once if they are the same point, and one NaN at the first step of a part that has no finite
        value: a line through them has a gap there.
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


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """A float series along an x axis of the reader's choice, and what a picture says of it.

    Attributes:
        curve: Its steps are places on the x axis: steps, seconds, or values of another series. On a
            logarithmic axis its width is one in log2 x.
        x: Of the middle point of each part, float64 (N,).
        mean: Around each of these, the mean of all finite values in a window, float64 (N,), NaN
            where there is none; None if no window was asked for.
        plus_inf: Where the first value of +inf of each part is, float64.
        minus_inf: Likewise for -inf.
        left_out: Points that have no place on the x axis.
        not_positive: Finite values that have no place on a logarithmic y axis; 0 if not asked for.
        falls: Whether x goes back somewhere: one part may hold several passes.
        ends: x and values of the first and the last finite point, float64; of a series without
            one, and where each part is one single point, none.
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

    @classmethod
    def none(cls) -> Drawing:
        """Return what is drawn of a series without points."""
        import numpy as np

        none = np.empty(0)
        return cls(Curve.none(), none, None, none, none, 0, 0, falls=False, ends=(none, none))


def check_points(points: object) -> int:
    """Return a number of representative points if it can be one.

    Raises:
        ArgumentError: If it is not a whole number, or less than 2.
    """
    if isinstance(points, int) and not isinstance(points, bool) and points >= 2:  # noqa: PLR2004
        return points
    msg = f"points: expected a whole number of at least 2, got {points!r}"
    raise ArgumentError(msg)
