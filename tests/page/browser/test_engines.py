"""The page in Firefox and in WebKit, whose engine is Safari's: its main screens, one after another.

The tests beside this one run in Chromium. On demand: ``nox -s page -- -m thorough -k engines``.
"""

from __future__ import annotations

import pytest
from page_engines import DOWN, ELEMENT, ENTER, ESCAPE, TAB, engine, lacking
from page_looking import opening
from page_process import until

pytestmark = pytest.mark.thorough

CENTRE = """
const box = arguments[0].getBoundingClientRect();
return [box.left, box.top, box.width, box.height];
"""
SHOWN = """
const panel = document.getElementById("tab-panel");
return panel.textContent.length > 9 && !panel.querySelector("[aria-busy=true]");
"""
LOADED = """
return [...document.querySelectorAll(".image-row img")].some((one) => one.naturalWidth > 0);
"""
COMES = """
return [...document.querySelectorAll(arguments[0])].some((one) =>
  one.getClientRects().length && one.textContent.includes(arguments[1]));
"""
FOCUSED = """
const canvas = document.querySelector(".chart[aria-busy=false] .chart-canvas");
canvas?.focus();
return canvas && document.activeElement === canvas;
"""
OVER = "(//div[@class='u-over'])[1]"
TABS = ["Overview", "Charts", "Images", "Log", "Files & checkpoints", "Ranks", "Profile", "System"]


def button(name):
    return f"//button[normalize-space(.)='{name}' or @aria-label='{name}']"


@pytest.fixture(params=["firefox", "webkit"])
def driven(request, tmp_path):
    """A browser that is not Chromium; skipped where it is not installed."""
    if why := lacking(request.param):
        pytest.skip(why)
    with engine(request.param, tmp_path) as found:
        yield found


def comes(driven, selector, text=""):
    """Wait for an element that is shown and has a text."""
    until(lambda: driven.run(COMES, selector, text), 30)


def open_table(driven, page, more=""):
    driven.go(opening(page, f"?project=vision/digits{more}"))
    comes(driven, "table.runs tbody tr", "quick-otter")


def test_table_query_and_compare(driven, main_page):
    open_table(driven, main_page)
    assert main_page.token not in driven.run("return location.href")
    driven.click(button("Columns"))
    until(lambda: "Filter columns" in driven.focus())
    driven.keys(ESCAPE)
    until(lambda: "Choose columns" in driven.focus())
    driven.click("//input[@role='combobox']")
    driven.keys("val/lo")
    comes(driven, "[role=option]", "val/loss")
    driven.keys(DOWN + TAB)
    value = "return document.querySelector('[role=combobox]').value"
    until(lambda: driven.run(value) == "val/loss ")
    driven.keys("< < 3" + ENTER)
    comes(driven, ".query-error pre", "^")
    driven.click(button("Clear the query"))
    comes(driven, "table.runs tbody tr", "calm-heron")
    sort = "return document.querySelector('[aria-sort]:not([aria-sort=none])').textContent"
    driven.click("//thead//button[starts-with(., 'Name')]")
    until(lambda: driven.run(sort).startswith("Name"))
    for name in ("quick-otter", "calm-heron"):
        driven.click(f"//input[@aria-label='Select {name}']")
    driven.click(button("Compare"))
    comes(driven, "h1", "Compare 2 runs")
    comes(driven, "table.compare", "optimizer")
    driven.run("history.back()")
    comes(driven, "table.runs tbody tr", "quick-otter")
    driven.click(button("Help"))
    comes(driven, "dialog[open]", "Keys and queries")
    driven.keys(ESCAPE)
    until(lambda: driven.run("return !document.querySelector('dialog')"))
    driven.go(opening(main_page, "?project=sweep&group=parameters/lr"))
    comes(driven, "table.runs caption", "standard deviation")
    assert driven.troubles() == []


def test_charts_by_mouse_and_keys(driven, main_page):
    open_table(driven, main_page, "&q=val/loss > 0")
    comes(driven, ".charts-section")
    driven.run("document.querySelector('.charts-section').scrollIntoView({block: 'center'})")
    until(lambda: driven.run("return document.querySelector('.u-over')?.clientWidth > 50"))
    driven.run("document.querySelector('.u-over').scrollIntoView({block: 'center'})")
    left, top, width, height = driven.run(CENTRE, {ELEMENT: driven.find(OVER)})
    quarter, half, middle = left + width / 4, left + width / 2, top + height / 2
    driven.point((left + 5, middle), (half, middle), (half + 2, middle))
    comes(driven, ".chart-tip:not([hidden])", "step")
    driven.point((quarter, middle), (half, middle), press=True)
    comes(driven, ".charts-zoom")
    driven.keys("r")
    until(lambda: driven.run("return !document.querySelector('.charts-zoom')"))
    until(lambda: driven.run(FOCUSED))
    driven.keys("t")
    comes(driven, ".chart-table td")
    until(lambda: "chart-table" in driven.focus())
    driven.keys(ESCAPE)
    until(lambda: "chart-canvas" in driven.focus())
    assert driven.troubles() == []


@pytest.mark.parametrize("name", ["calm-heron", "twin-ranks"])
def test_every_tab_of_a_run_is_shown(name, driven, main_page):
    open_table(driven, main_page)
    driven.click(f"//a[@title='{name}']")
    comes(driven, "h1", name)
    for tab in TABS:
        driven.click(f"//*[@role='tab'][.='{tab}']")
        comes(driven, "[role=tab][aria-selected=true]", tab)
        until(lambda: driven.run(SHOWN))
        assert driven.run("return document.querySelectorAll('[role=alert]').length") == 0
    if name == "calm-heron":
        driven.click("//*[@role='tab'][.='Images']")
        until(lambda: driven.run(LOADED))
    assert driven.troubles() == []


def test_a_tag_is_added_and_undone(driven, recorded, serve):
    page = serve(recorded("few"))
    driven.go(opening(page, "?project=sweep"))
    comes(driven, "table.runs tbody tr", "sweep-001")
    driven.click("//button[@title='More about sweep-001']")
    driven.click("//*[@role='menuitem'][starts-with(., 'Tags')]")
    until(lambda: driven.run("return document.activeElement.closest('dialog label') !== null"))
    driven.keys("nice" + ENTER)
    comes(driven, ".toasts[role=status]", "Tags of 1 run changed.")
    comes(driven, "table.runs .tags", "nice")
    driven.click(button("Undo"))
    comes(driven, ".toasts[role=status]", "Undone.")
    until(lambda: driven.run("return !document.querySelector('table.runs .tags .badge')"))
    assert driven.troubles() == []
