"""The page for every eye: the rules of WCAG, dark, narrow, and its pictures in the documents."""

from __future__ import annotations

from itertools import pairwise

import pytest
from page_looking import expect, findings, opening, plotted
from page_process import until

import seamark

STATES = {
    "table": "?project=vision/digits",
    "groups": "?project=sweep&group=parameters/seed",
    "projects": "?screen=projects",
    "run": "?project=vision/digits&run={heron}",
    "ranks": "?project=vision/digits&run={twins}&tab=ranks",
    "compare": "?project=vision/digits&screen=compare&selected={otter},{heron}",
}


@pytest.fixture(scope="session")
def ids(main_root):
    """Ids of the runs of `main_root`, by their custom ids."""
    given = {"root": main_root, "mode": "read-only"}
    return {
        name: seamark.init_run("vision/digits", custom_run_id=name, **given).id
        for name in ("otter", "heron", "twins")
    }


def shown(tab, page, ids, state):
    """Open one of `STATES`, and return when all of it is there."""
    tab.goto(opening(page, STATES[state].format(**ids)))
    expect(tab.get_by_role("banner")).to_be_visible()
    expect(tab.get_by_role("main").get_by_role("table").first).to_be_visible()
    expect(tab.locator("main [aria-busy=true], main .loading")).to_have_count(0)
    expect(tab.get_by_text("Opening …")).to_have_count(0)


@pytest.mark.parametrize(
    "state",
    [
        *("table", "run", "compare"),
        *(pytest.param(one, marks=pytest.mark.thorough) for one in ("groups", "projects", "ranks")),
    ],
)
def test_the_page_follows_wcag_and_fits_a_phone(state, main_page, tab, ids):
    tab.emulate_media(color_scheme="light")
    shown(tab, main_page, ids, state)
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        for _ in range(40):  # while it is read anew a table is pale, which passes
            if not (found := findings(tab)):
                break
            tab.wait_for_timeout(250)
        assert found == []
    tab.set_viewport_size({"width": 390, "height": 800})
    width = "() => document.documentElement.scrollWidth"
    until(lambda: tab.evaluate(width) <= 390)
    # What is drawn anew for the size is there, too.
    expect(tab.locator("main [aria-busy=true], main .loading")).to_have_count(0)
    assert tab.evaluate(width) <= 390


def test_dark_is_chosen_by_the_system_until_somebody_chooses(main_page, tab, ids):
    tab.emulate_media(color_scheme="dark")
    shown(tab, main_page, ids, "table")
    back = "() => getComputedStyle(document.body).backgroundColor"
    dark = tab.evaluate(back)
    tab.get_by_role("button", name="Colours").click()
    expect(tab.get_by_role("button", name="Colours: light")).to_be_visible()
    light = tab.evaluate(back)
    assert dark != light
    tab.reload()
    expect(tab.get_by_role("button", name="Colours: light")).to_be_visible()
    assert tab.evaluate(back) == light


GROUND = """
() => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const opaque = (one) => one.length < 4 || one[3] > 0;
  let at = document.querySelector(".chart-canvas");
  const ground = (one) => numbers(getComputedStyle(one).backgroundColor);
  while (at.parentElement && !opaque(ground(at))) at = at.parentElement;
  return [ground(at), [...document.querySelectorAll(".swatch.on")].map(ground)];
}
"""
"""The colour behind the curves, and the colours of the runs."""


def luminance(colour):
    parts = [part / 255 for part in colour[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def grounds(tab):
    """Yield the colours of the runs and their contrasts with the ground, in light and in dark."""
    for scheme in ("light", "dark"):

        def follows(scheme=scheme):
            ground, colours = tab.evaluate(GROUND)
            is_light = luminance(ground) > 0.5
            found = [contrast(ground, colour) for colour in colours]
            # The colours follow a moment later than the ground.
            return found if is_light == (scheme == "light") and min(found) >= 3 else None

        tab.emulate_media(color_scheme=scheme)
        yield until(follows)


def test_colours_can_be_told_from_the_ground(main_page, tab, ids):
    shown(tab, main_page, ids, "table")
    plotted(tab, "train/loss")
    assert [len(found) for found in grounds(tab)] == [8, 8]
    asked = "?project=sweep&selected=*&q=val/loss < 40&by=val/loss&cols=val/loss&sort=val/loss"
    tab.goto(opening(main_page, asked))
    plotted(tab, "val/loss")
    key = tab.get_by_label("What colours stand for")
    expect(key).to_contain_text("39.2 (log)")
    expect(key.locator("i")).to_have_count(1)
    until(lambda: len({tuple(colour) for colour in tab.evaluate(GROUND)[1]}) > 30)
    for found in grounds(tab):
        assert all(one <= other * 1.01 for one, other in pairwise(found))
