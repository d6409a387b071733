"""The colours of runs can be told apart, by who sees few colours too."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

JS = Path(__file__).parents[2] / "src" / "seamark" / "page" / "static" / "js" / "colours.js"
PALETTE = {
    theme: re.findall(r'"#(\w{6})"', found)
    for theme, found in re.findall(r"(light|dark): (\[.*?\])", JS.read_text(encoding="utf-8"))
}
GROUND = {"light": "ffffff", "dark": "14181d"}
# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
SIGHTS = {
    "normal": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
"""For OKLCH."""


def linear(colour):
    """Return linear RGB of a hexadecimal colour."""
    rgb = np.array([int(colour[at : at + 2], 16) for at in (0, 2, 4)]) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """Return CIELAB of linear RGB, D65."""
    xyz = TO_XYZ @ np.clip(rgb, 0, 1) / (TO_XYZ @ np.ones(3))
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz * (29 / 6) ** 2 / 3 + 4 / 29)
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def distance(one, other):
    """Return the distance of two colours in CIELAB by CIEDE2000."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    g = 0.5 * (1 - np.sqrt(mean**7 / (mean**7 + 25.0**7)))
    c1, c2 = np.hypot(a1 * (1 + g), b1), np.hypot(a2 * (1 + g), b2)
    h1, h2 = (np.degrees(np.arctan2(b, a * (1 + g))) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180
    dh = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2))
    l_mean, c_mean, h = (l1 + l2) / 2, (c1 + c2) / 2, (h1 + turn / 2) % 360
    cos = [np.cos(np.radians(n * h - at)) for n, at in ((1, 30), (2, 0), (3, -6), (4, 63))]
    t = 1 - 0.17 * cos[0] + 0.24 * cos[1] + 0.32 * cos[2] - 0.20 * cos[3]
    sl = 1 + 0.015 * (l_mean - 50) ** 2 / np.sqrt(20 + (l_mean - 50) ** 2)
    sc, sh = 1 + 0.045 * c_mean, 1 + 0.015 * c_mean * t
    rc = 2 * np.sqrt(c_mean**7 / (c_mean**7 + 25.0**7))
    rt = -rc * np.sin(np.radians(60 * np.exp(-(((h - 275) / 25) ** 2))))
    parts = (l2 - l1) / sl, (c2 - c1) / sc, dh / sh
    return float(np.sqrt(sum(part**2 for part in parts) + rt * parts[1] * parts[2]))


def test_the_distance_is_that_of_ciede2000():
    """Pairs 1 and 17 of Sharma, Wu and Dalal 2005."""
    pairs = [((50, 2.6772, -79.7751), (50, 0, -82.7485)), ((50, 2.5, 0), (73, 25, -18))]
    assert [round(distance(*pair), 4) for pair in pairs] == [2.0425, 27.1492]


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_hues_are_far_apart(theme, sight):
    seen = [lab(np.array(SIGHTS[sight]) @ linear(one)) for one in PALETTE[theme]]
    assert len(seen) == 10
    assert min(distance(a, b) for a, b in combinations(seen, 2)) >= 15 - 6 * (sight != "normal")
    assert min(map(distance, seen, seen[1:] + seen[:1])) >= 18


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_hues_stand_out_from_the_ground_and_are_neither_black_nor_white(theme):
    """A contrast of 3 at least, and an OKLCH lightness between two bounds."""
    low, high = {"light": (0.42, 0.68), "dark": (0.58, 0.90)}[theme]
    ground = TO_XYZ[1] @ linear(GROUND[theme])
    for colour in PALETTE[theme]:
        own = TO_XYZ[1] @ linear(colour)
        assert (max(own, ground) + 0.05) / (min(own, ground) + 0.05) >= 3
        lms = np.cbrt(TO_LMS @ linear(colour))
        lightness = np.array([0.2104542553, 0.7936177850, -0.0040720468]) @ lms
        assert low - 0.005 <= lightness <= high + 0.005
