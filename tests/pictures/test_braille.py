from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.errors import ArgumentError
from seamark.pictures.braille import draw
from seamark.pictures.plots import Axes, Curve


def curve(values, steps=None, label="loss"):
    x = np.arange(len(values), dtype=float) if steps is None else np.asarray(steps, dtype=float)
    return Curve(label, x, np.asarray(values, dtype=float))


def picture(*curves, axes=None, width=60, height=8):
    return draw(curves, axes or Axes(), width=width, height=height, colour=False)


def test_a_falling_line_falls():
    """The greatest value is in the first row at the left, the smallest in the last at the right."""
    rows = picture(curve([3, 2, 1, 0])).splitlines()
    top, bottom = rows[0], rows[7]
    assert "⠉" in top[:12] or "⠑" in top[:12]
    assert bottom.rstrip()[-1] not in " │┤"
    assert len(bottom.rstrip()) > 50
    assert rows[0].startswith("3 ┤")


def test_no_line_is_wider_than_the_terminal():
    """Whatever the tick labels, a line fits."""
    shown = picture(curve([1e-300, 1e300]), width=40)
    assert max(map(len, shown.splitlines())) <= 40


def test_values_that_are_not_finite_are_marked_and_counted():
    """NaN stands at the bottom, infinities at their edge, and the legend counts them."""
    shown = picture(curve([1, math.nan, 2, math.inf, -math.inf, 1.5]))
    rows = shown.splitlines()
    assert "^" in rows[0]
    assert "x" in rows[7]
    assert "v" in rows[7]
    assert "3 not finite" in shown


def test_one_point_is_seen():
    """A series of one point is a dot, not an empty picture."""
    assert "●" in picture(curve([5.0]))


def test_nothing_to_draw_is_an_error_that_says_why():
    """Only NaN, or nothing above zero on a logarithmic axis."""
    with pytest.raises(ArgumentError, match="finite"):
        picture(curve([math.nan]))
    with pytest.raises(ArgumentError, match="greater than zero"):
        picture(curve([-1.0, 0.0]), axes=Axes(log_y=True))


def test_curves_are_told_apart_without_colour():
    """Letters stand on the curves and in the legend."""
    shown = picture(curve([1, 2, 3, 4, 5], label="first"), curve([5, 4, 3, 2, 1], label="second"))
    drawn, legend = shown.split("step")
    assert "a" in drawn
    assert "b" in drawn
    assert " a first" in legend
    assert " b second" in legend


def test_logarithmic_ticks_are_powers_of_ten():
    """Over several decades the axis names the decades."""
    shown = picture(curve([1, 10, 100, 1000, 10000]), axes=Axes(log_y=True), height=15)
    labels = [row.split("┤")[0].strip() for row in shown.splitlines() if "┤" in row]
    assert labels == ["10000", "1000", "100", "10", "1"]


@pytest.mark.parametrize(
    ("values", "labels"), [([0.9, 9.5], {"2.5", "5", "7.5"}), ([5e-324, 1.7e308], {"1e-200", "1"})]
)
def test_ticks_of_a_logarithmic_axis_are_round(values, labels):
    """Also where one power of ten lies on it, or all that doubles hold."""
    shown = picture(curve(values), axes=Axes(log_y=True), height=8)
    assert {row.split("┤")[0].strip() for row in shown.splitlines() if "┤" in row} >= labels


def test_steps_are_whole():
    """Three epochs have no tick at epoch 0.5."""
    assert "0.5" not in picture(curve([1, 2, 3])).splitlines()[-3]


def test_time_axes_name_their_unit():
    """Two hours are shown in hours, clock times with their day."""
    for length, ticks, unit in ((100, "0 25 50 75 100", "s"), (7300, "0 0.5 1 1.5 2", "h")):
        shown = picture(curve([1, 2], [0, length]), axes=Axes(x_kind="relative")).splitlines()
        assert [" ".join(row.split()) for row in shown[-3:-1]] == [ticks, f"elapsed, {unit}"]
    assert "2026" in picture(curve([1, 2], [1.795e9, 1.7951e9]), axes=Axes(x_kind="time"))


def test_names_are_made_safe():
    """What a run is called goes through the caller's escaping."""
    shown = draw(
        [curve([1, 2], label="\x1b[2J")], Axes(), width=60, height=8, colour=False, safe=ascii
    )
    assert "\x1b" not in shown


values = st.floats(width=64, allow_nan=True, allow_infinity=True)


@given(
    st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), values), min_size=1),
    st.booleans(),
    st.booleans(),
)
def test_any_series_can_be_drawn(
    points,
    log_x,
    log_y,
):
    """Drawing never fails, other than by saying that there is nothing to show."""
    one = curve([value for _, value in points], [step for step, _ in points])
    for kind in ("step", "relative"):
        try:
            shown = picture(one, axes=Axes(x_kind=kind, log_x=log_x, log_y=log_y), width=50)
        except ArgumentError:
            continue
        assert max(map(len, shown.splitlines()[:8])) <= 50
