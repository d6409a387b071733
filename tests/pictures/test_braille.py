from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seamark.errors import ArgumentError
from seamark.pictures.braille import draw
from seamark.pictures.plots import Axes, Curve


def curve(values, steps=None, label="loss"):
    x = np.arange(len(values), dtype=float) if steps is None else np.asarray(steps, dtype=float)
    y = np.asarray(values, dtype=float)
    odd = ~np.isfinite(y)
    return Curve(label, x, y, odd_x=x[odd], odd_y=y[odd], odd_count=int(odd.sum()))


def picture(*values, axes=None, width=60, height=8, **given):
    curves = [one if isinstance(one, Curve) else curve(one) for one in values]
    return draw(curves, axes or Axes(), width=width, height=height, colour=False, **given)


def test_a_falling_line_falls():
    rows = picture([3, 2, 1, 0]).splitlines()
    top, bottom = rows[0], rows[7].rstrip()
    assert "⠉" in top[:12] or "⠑" in top[:12]
    assert bottom[-1] not in " │┤"
    assert len(bottom) > 50
    assert top.startswith("3 ┤")
    assert "●" in picture([5.0])  # one point is seen


def test_values_that_are_not_finite_are_marked_and_counted():
    shown = picture([1, math.nan, 2, math.inf, -math.inf, 1.5])
    rows = shown.splitlines()
    assert ("^" in rows[0], "x" in rows[7], "v" in rows[7]) == (True, True, True)
    assert "3 not finite" in shown


def test_nothing_to_draw_is_an_error_that_says_why():
    with pytest.raises(ArgumentError, match="finite"):
        picture([math.nan])
    with pytest.raises(ArgumentError, match="greater than zero"):
        picture([-1.0, 0.0], axes=Axes(log_y=True))


def test_curves_have_letters_and_safe_names_in_the_legend():
    first, second = curve([1, 2, 3, 4, 5], label="first"), curve([5, 4, 3, 2, 1], label="\x1b[2J")
    drawn, legend = picture(first, second, safe=ascii).split("step")
    assert ("a" in drawn, "b" in drawn) == (True, True)
    assert (" a 'first'" in legend, r" b '\x1b[2J'" in legend) == (True, True)
    assert "\x1b" not in legend


values = st.floats(width=64, allow_nan=True, allow_infinity=True)


@given(
    st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), values), min_size=1),
    st.booleans(),
    st.booleans(),
)
@example(points=[(0.0, 1e-300), (1.0, 1e300)], log_x=False, log_y=False)
def test_any_series_fits_a_terminal(points, log_x, log_y):
    one = curve([value for _, value in points], [step for step, _ in points])
    for kind in ("step", "relative"):
        try:
            shown = picture(one, axes=Axes(x_kind=kind, log_x=log_x, log_y=log_y), width=50)
        except ArgumentError:
            continue
        assert max(map(len, shown.splitlines()[:8])) <= 50
