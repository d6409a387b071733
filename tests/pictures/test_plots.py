from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from seamark.errors import ArgumentError
from seamark.pictures.plots import COLOURS, Axes, Curve, figure_of, save, slots


def curve(values, label="loss"):
    x, y = np.arange(len(values), dtype=float), np.asarray(values, dtype=float)
    odd = ~np.isfinite(y)
    return Curve(label, x, y, odd_x=x[odd], odd_y=y[odd], odd_count=int(odd.sum()))


def banded(values):
    line = curve(values)
    return replace(line, low=line.y - 0.5, high=line.y + 0.5)


ODD = [1.0, 0.5, math.nan, 0.25, math.inf, 0.1, -math.inf]


def test_unknown_endings_are_refused(tmp_path):
    with pytest.raises(ArgumentError, match=r"\.png, \.svg, \.pdf, \.html"):
        save([curve([1.0])], Axes(), tmp_path / "loss.bmp")
    assert not list(tmp_path.iterdir())


def test_images_are_written(tmp_path):
    pytest.importorskip("matplotlib")
    for axes in (
        Axes(),
        Axes(log_y=True, log_x=True),
        Axes(x_kind="time", title="a $b$ _c", note="mean of 5 seconds"),
        Axes(x_kind="relative"),
    ):
        target = tmp_path / "loss.png"
        save([curve(ODD, "_hidden $x$"), curve([1.0]), banded([1.0, 0.5, 0.1])], axes, target)
        assert target.read_bytes().startswith(b"\x89PNG")
        target.unlink()


def test_pages_need_no_network_and_names_are_text(tmp_path):
    pytest.importorskip("plotly")
    target = tmp_path / "loss.html"
    script, image = "</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>"
    save([curve(ODD, script)], Axes(title=image), target)
    page = target.read_text(encoding="utf-8")
    assert [one for one in ("<script>alert(1)", "<img src=x", 'src="http') if one in page] == []
    assert len(page) > 1_000_000
    figure = figure_of([curve([1.0, 2.0], "<b>$x$ \ud800")], Axes(title="<a>", x_name="<i>"))
    text = figure.to_json()
    assert [one for one in ("<b>", "$x$", "<a>", "<i>") if one in text] == []


def test_a_figure_marks_what_is_not_finite():
    pytest.importorskip("plotly")
    figure = figure_of([curve(ODD)], Axes())
    line, *marks = figure.data
    assert np.isnan(line.y).tolist() == [not math.isfinite(value) for value in ODD]
    assert {mark.name: mark.x.tolist() for mark in marks} == {
        "NaN": [2.0],
        "-inf": [6.0],
        "+inf": [4.0],
    }


def test_a_band_is_behind_the_lines():
    """Only up to eight curves have one; on a logarithmic axis it stays above 0."""
    pytest.importorskip("plotly")
    low, high, line = figure_of([banded([1.0, 0.25])], Axes(log_y=True)).data
    assert low.y.tolist() == [0.5, 0.25]
    assert (high.y.tolist(), high.fill) == ([1.5, 0.75], "tonexty")
    assert line.line.color in COLOURS
    assert len(figure_of([banded([1.0])] * 9, Axes()).data) == 9


def test_a_run_keeps_its_colour():
    """If two would have the same, the second has another one."""
    keys = [f"run{at}" for at in range(40)]
    alone = {key: slots([key])[key] for key in keys}
    assert len(set(alone.values())) == len(COLOURS)
    for first, second in pairwise(keys):
        both = slots([first, second])
        assert both[first] == alone[first]
        assert both[second] != both[first]
        if alone[second] != alone[first]:
            assert both[second] == alone[second]
    assert len(set(slots(keys).values())) == len(keys)
