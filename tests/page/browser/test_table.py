"""The table of runs: sorted, filtered, selected, compared and opened, by keyboard too."""

from __future__ import annotations

import re

import page_roots
from page_looking import expect, opening, plotted, rows, zoomed

SHOWN = '"<script>"'


def ask(tab, query):
    """Write a query by keyboard only."""
    expect(rows(tab).first).to_be_visible()
    tab.keyboard.press("/")
    tab.keyboard.press("Control+A")
    tab.keyboard.type(query)
    tab.keyboard.press("Enter")
    tab.keyboard.press("Escape")


def test_filter_sort_select_compare_open_and_back(main_page, tab):
    """All by keyboard; what was seen comes again with Back, each time as it was."""
    tab.goto(opening(main_page, "?project=sweep"))
    expect(rows(tab)).to_have_count(200)
    ask(tab, "val/loss:min < 20")
    expect(rows(tab)).to_have_count(20)
    tab.get_by_role("columnheader", name="Name").get_by_role("button").press("Enter")
    expect(rows(tab).first).to_contain_text("sweep-000")
    tab.keyboard.press("j")
    tab.keyboard.press("x")
    tab.keyboard.press("j")
    tab.keyboard.press("x")
    expect(tab.get_by_text("2 selected")).to_be_visible()
    chosen = rows(tab).filter(has=tab.get_by_role("checkbox", checked=True))
    names = chosen.locator("th a").all_inner_texts()
    assert len(names) == 2
    tab.keyboard.press("c")
    expect(tab.get_by_role("columnheader", name=names[0])).to_be_visible()
    expect(tab.get_by_role("columnheader", name=names[1])).to_be_visible()
    compared = tab.url
    link = tab.get_by_role("link", name=names[0]).first
    link.press("Enter")
    expect(tab.get_by_role("heading", name=names[0])).to_be_visible()
    opened = tab.url
    expect(tab.get_by_role("button", name="Run after this one")).to_be_enabled()
    tab.keyboard.press("]")
    expect(tab).not_to_have_url(opened)
    tab.go_back()
    expect(tab.get_by_role("heading", name=names[0])).to_be_visible()
    assert tab.url == opened
    tab.go_back()
    expect(tab.get_by_role("columnheader", name=names[1])).to_be_visible()
    assert tab.url == compared
    tab.go_back()
    expect(rows(tab)).to_have_count(20)
    expect(rows(tab).first).to_contain_text("sweep-000")
    expect(tab.get_by_text("2 selected")).to_be_visible()
    tab.go_back()  # to what was asked, in the order before
    expect(rows(tab).first).to_contain_text("sweep-019")
    expect(rows(tab)).to_have_count(20)
    tab.go_back()
    expect(rows(tab)).to_have_count(200)
    expect(tab.get_by_role("combobox", name="Query")).to_have_value("")


def test_a_link_shows_the_same_in_a_fresh_profile(main_page, new_profile):
    """Query, order, selection, how charts are drawn and which part: all is in the address."""
    first = new_profile().new_page()
    first.goto(opening(main_page, "?project=sweep"))
    ask(first, "parameters/seed = 3")
    expect(rows(first)).to_have_count(42)
    first.get_by_role("columnheader", name="val/loss").get_by_role("button").click()
    expect(rows(first).first).to_contain_text("sweep-003")
    first.get_by_role("checkbox", name="Select sweep-013").check()
    first.get_by_label("log y").check()
    whole = plotted(first, "val/loss")["x"]
    part = (whole["max"] - whole["min"]) / 4
    zoomed(first, "val/loss", whole["min"] + part, whole["max"] - part)
    seen = rows(first).locator("th a").all_inner_texts()
    link = first.url
    assert main_page.token not in link
    other = new_profile().new_page()
    other.goto(f"{link}#token={main_page.token}")
    expect(rows(other)).to_have_count(42)
    expect(rows(other).first).to_contain_text(seen[0])
    assert rows(other).locator("th a").all_inner_texts() == seen
    expect(other.get_by_role("checkbox", name="Select sweep-013")).to_be_checked()
    expect(other.get_by_label("log y")).to_be_checked()
    drawn = plotted(first, "val/loss")
    assert drawn["x"] != whole
    plotted(other, "val/loss", lambda found: found == drawn)
    first.go_back()
    plotted(first, "val/loss", lambda found: found["x"] == whole)
    assert "zoom" not in first.url


def test_a_selection_survives_turning_the_page(main_page, tab):
    """Pages are of 200; all that match can be selected, which the address keeps as a query."""
    tab.goto(opening(main_page, "?project=sweep"))
    tab.get_by_role("checkbox", name="Select sweep-209").check()
    tab.get_by_role("button", name="Next").click()
    expect(rows(tab)).to_have_count(10)
    expect(tab.get_by_text("1 selected")).to_be_visible()
    tab.go_back()
    expect(tab.get_by_role("checkbox", name="Select sweep-209")).to_be_checked()
    tab.get_by_role("checkbox", name="Select all rows").check()
    tab.get_by_role("button", name="Select all 210 that match").click()
    expect(tab.get_by_text("210 selected")).to_be_visible()
    assert len(tab.url) < 2_000


def test_every_row_follows_the_order(main_page, tab):
    """Those further down are drawn a moment later; what is pressed meanwhile is meant as seen."""
    tab.goto(opening(main_page, "?project=sweep&cols=val/loss"))
    every = [f"sweep-{number:03}" for number in range(page_roots.SWEEP)]
    filled = tab.locator(".sheet[aria-busy=false] tbody tr th")
    expect(filled).to_have_text([re.compile(name) for name in every[::-1][:200]])
    name = tab.get_by_role("columnheader", name="Name").get_by_role("button")
    name.click()
    expect(rows(tab).first).to_contain_text("sweep-000")
    rows(tab).nth(150).get_by_role("checkbox").check()
    picked = tab.locator("tr[aria-selected=true] th")
    expect(filled).to_have_text([re.compile(name) for name in every[:200]])
    assert picked.count() <= 1  # where it stood still when it was pressed, or on the other page
    for _ in range(3):
        name.press("Enter")
    expect(filled).to_have_text([re.compile(name) for name in every[::-1][:200]])
    rows(tab).nth(120).focus()
    tab.keyboard.press("j")
    expect(rows(tab).nth(121)).to_be_focused()


def test_rows_stay_where_they_are_while_runs_change(recorded, serve, tab):
    """Values are those of now; one press shows others that came, and the order of now."""
    root = recorded("few")
    tab.goto(opening(serve(root), "?project=sweep&cols=val/loss&sort=val/loss"))
    names = tab.locator("table.runs tbody tr th")
    before = [re.compile(f"sweep-00{number}") for number in range(3)]
    expect(names).to_have_text(before)
    with page_roots.begin(root, "sweep", "sweep-000", custom_run_id="s000") as run:
        run.log_metrics({"val/loss": 77.5}, step=5)
    with page_roots.begin(root, "sweep", "another", custom_run_id="s003") as run:
        run.log_metrics({"val/loss": 0.5}, step=0)
    rare = 30_000  # ms: where nothing runs, it is asked less often
    expect(rows(tab).first).to_contain_text("77.5", timeout=rare)
    show = tab.get_by_role("button", name="1 new, order changed")
    expect(show).to_be_visible(timeout=rare)
    expect(names).to_have_text(before)
    show.click()
    expect(names).to_have_text([re.compile("another"), *before[1:], before[0]])


def test_strangers_texts_stay_text(main_page, tab):
    """Names, tags, paths and values that would be elements if anybody took them for that."""
    tab.goto(opening(main_page, "?project=vision/digits"))
    row = rows(tab).filter(has_text="<img src=x")
    expect(row).to_have_count(1)
    expect(row.get_by_role("link")).to_have_text(page_roots.HOSTILE)
    expect(tab.locator("img")).to_have_count(0)
    expect(tab.locator(".chart").first).to_be_visible()
    row.get_by_role("link").click()
    expect(tab.get_by_role("heading", name="<img src=x").first).to_be_visible()
    for name in tab.get_by_role("tab").all_inner_texts():
        tab.get_by_role("tab", name=name, exact=True).click()
        expect(tab.get_by_role("tab", name=name, exact=True, selected=True)).to_be_visible()
        expect(tab.locator("main [aria-busy=true]")).to_have_count(0)
    assert "owned" not in tab.title().replace(page_roots.HOSTILE, "")
    assert tab.locator("img[src=x], script:not([src])").count() == 0
