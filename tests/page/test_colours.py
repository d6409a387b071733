"""The colours of runs can be told apart, also by people who see few colours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

JS = Path(__file__).parents[2] / "src" / "seamark" / "page" / "static" / "js" / "colours.js"
MEASURED = {
    "light": "#504cd8 #33a596 #d52d42 #397fc7 #9a044a #999836 #b14b8d #258450 #7a2280 #415907",
    "dark": "#9e85f7 #17f7d1 #fe7666 #72c0fd #b96783 #e8d86d #ff89c7 #82c395 #a35ab6 #629338",
}
"""Hues of which any two are at least 15 apart by CIEDE2000 in normal sight.

In protan, deutan and tritan sight (Machado, Oliveira and Fernandes 2009, severity 1) they are at
least 9 apart, neighbours 18 in every sight. The contrast with the ground is at least 3, and the
OKLCH lightness from 0.42 to 0.68 in light, from 0.58 to 0.90 in dark. Measure others likewise.
"""


@pytest.mark.parametrize("theme", MEASURED)
def test_hues_are_those_that_were_measured(theme):
    found = re.search(rf"{theme}: (\[.*?\])", JS.read_text(encoding="utf-8"), re.DOTALL)
    assert re.findall(r'"(#\w{6})"', found[1]) == MEASURED[theme].split()
