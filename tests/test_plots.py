from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.errors import ArgumentError, MissingExtraError
from seamark.pictures.plots import Axes, Curve, save, smooth, thin

if TYPE_CHECKING:
    from pathlib import Path


def curve(values: list[float], label: str = "loss") -> Curve:
    return Curve(label, np.arange(len(values), dtype=float), np.asarray(values, dtype=float))


ODD = [1.0, 0.5, math.nan, 0.25, math.inf, 0.1, -math.inf]


@pytest.mark.parametrize("weight", [-0.1, 1, 1.5, math.nan])
def test_smoothing_weight_must_be_below_one(weight: float) -> None:
    """A weight of one would never move."""
    with pytest.raises(ArgumentError, match="smoothing"):
        smooth(np.ones(3), weight)


def test_smoothing_starts_at_the_first_value() -> None:
    """The average is corrected for its start: a constant stays a constant."""
    assert smooth(np.full(5, 7.0), 0.9) == pytest.approx(np.full(5, 7.0))
    assert smooth(np.asarray([1.0, 3.0]), 0.5)[1] == pytest.approx((0.5 * 0.5 * 1 + 0.5 * 3) / 0.75)


def test_smoothing_passes_over_what_is_not_finite() -> None:
    """One NaN does not swallow the rest of the curve, and stays visible."""
    smoothed = smooth(np.asarray([1.0, math.nan, 1.0]), 0.9)
    assert math.isnan(smoothed[1])
    assert smoothed[2] == pytest.approx(1.0)


@given(st.lists(st.floats(), min_size=100, max_size=400), st.integers(1, 8))
def test_thinning_keeps_the_extremes(values: list[float], buckets: int) -> None:
    """The least and the greatest value stay, and so does that some were not finite."""
    full = curve(values)
    few = thin(full, buckets)
    finite = [value for value in values if math.isfinite(value)]
    if finite:
        assert few.finite().y.min() == min(finite)
        assert few.finite().y.max() == max(finite)
    assert np.isfinite(few.y).all() == np.isfinite(full.y).all()
    assert len(few.x) <= max(6 * buckets, 6)
    assert (np.diff(few.x) > 0).all()


def test_unknown_endings_are_refused(tmp_path: Path) -> None:
    """The error names the endings that work, and nothing is written."""
    with pytest.raises(ArgumentError, match=r"\.png, \.svg, \.pdf, \.html"):
        save([curve([1.0])], None, Axes(), tmp_path / "loss.bmp")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("ending", "package"), [(".png", "matplotlib"), (".html", "plotly")])
def test_missing_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, package: str
) -> None:
    """Without the extra the error says how to install it."""
    for module in (package, "matplotlib.figure", "plotly.graph_objects"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(MissingExtraError, match=r'pip install "seamark\[plot\]"'):
        save([curve([1.0])], None, Axes(), tmp_path / f"loss{ending}")


@pytest.mark.parametrize(
    "axes",
    [
        Axes(),
        Axes(log_y=True, log_x=True),
        Axes(x_kind="date", title="a $b$ _c"),
        Axes(x_kind="time"),
    ],
)
def test_images_are_written(tmp_path: Path, axes: Axes) -> None:
    """PNG with every kind of axis, odd values, and names that Matplotlib would interpret."""
    pytest.importorskip("matplotlib")
    target = tmp_path / "loss.png"
    save([curve(ODD, "_hidden $x$"), curve([1.0])], [curve(ODD), curve([1.0])], axes, target)
    assert target.read_bytes().startswith(b"\x89PNG")


def test_pages_need_no_network_and_run_no_names(tmp_path: Path) -> None:
    """One file with everything in it, in which names are text."""
    pytest.importorskip("plotly")
    target = tmp_path / "loss.html"
    save(
        [curve(ODD, "</script><script>alert(1)</script>")],
        None,
        Axes(title="<img src=x onerror=alert(2)>"),
        target,
    )
    page = target.read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    assert "<img src=x" not in page
    assert 'src="http' not in page
    assert len(page) > 1_000_000
