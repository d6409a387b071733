"""Runs side by side: what differs, the best, code line by line, and images at one step."""

from __future__ import annotations

import re

import pytest
from page_looking import expect, findings, opening, plotted, rows
from page_process import until


def sheet(tab, page, project):
    """Compare all runs of a project and return the table, once it is there."""
    tab.goto("about:blank")
    tab.goto(opening(page, f"?project={project}&screen=compare&selected=*&sort=sys/name"))
    table = tab.locator("table.compare")
    expect(table.locator("thead .run").first).to_be_visible(timeout=60_000)
    return table


def titles(table):
    return table.locator("tbody th[title]").evaluate_all("all => all.map((one) => one.title)")


def test_compared_runs_show_what_differs_and_the_best(main_page, compare_page, tab):
    tab.goto(opening(main_page, "?project=vision/digits&q=name in (quick-otter, calm-heron)"))
    expect(rows(tab)).to_have_count(2)
    tab.get_by_role("checkbox", name="Select all rows").check()
    tab.get_by_role("button", name="Compare").click()
    table = tab.locator("table.compare")
    best = table.get_by_role("row").filter(has=tab.get_by_title("val/loss:min", exact=True))
    expect(best.get_by_role("rowheader")).to_have_text("val/loss best")
    expect(best).to_contain_text("0.33333")
    expect(best.locator(".best")).to_have_attribute("title", "0.043478260869565216")
    mark = best.locator(".best").evaluate("one => getComputedStyle(one, '::before').content")
    assert mark.startswith('"\u25b2 "')
    told = titles(table)
    assert told.index("val/loss") + 1 == told.index("val/loss:min")
    heads = table.locator("tr.section").all_inner_texts()
    assert heads[0] == "parameters"
    assert heads.index("train") < heads.index("source_code" if "source_code" in heads else "sys")
    own = re.compile("monitoring/|sys/id|sys/.*_time")
    assert [one for one in told if own.match(one)] == []
    tab.get_by_label("Only what differs").uncheck()
    expect(table.get_by_title("sys/creation_time", exact=True)).to_have_count(1)

    table = sheet(tab, compare_page, "same")
    expect(tab.get_by_text("These runs show the same everywhere.")).to_be_visible()
    assert titles(table) == []
    tab.get_by_label("Only what differs").uncheck()
    expect(table.get_by_title("sys/start_time", exact=True)).to_have_count(1)
    assert [one for one in titles(table) if one.startswith("monitoring/")]


def test_heads_and_names_of_compared_runs_stay_in_sight(compare_page, tab):
    tab.set_viewport_size({"width": 320, "height": 300})
    table = sheet(tab, compare_page, "code")
    tab.get_by_label("Only what differs").uncheck()
    last = table.locator("tbody tr").last
    last.scroll_into_view_if_needed()
    top = tab.locator("main").bounding_box()["y"]
    assert table.locator("thead .run").first.bounding_box()["y"] == pytest.approx(top, abs=2)
    assert last.bounding_box()["y"] > top
    tab.locator("main").evaluate("one => one.scrollTo(400, one.scrollTop)")
    until(lambda: tab.locator("main").evaluate("one => one.scrollLeft") > 0)
    assert table.locator("tbody th[title]").last.bounding_box()["x"] == 0
    assert tab.locator(".comparison > .title").bounding_box()["x"] == 0


def test_more_than_eight_runs_are_rows_that_can_be_sorted(compare_page, tab):
    table = sheet(tab, compare_page, "many")
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(12)
    losses = sorted(range(12), key=lambda n: (7 * n) % 12)
    table.get_by_role("columnheader", name="val/loss, best").get_by_role("button").click()
    expect(rows.first).to_contain_text("many-00")
    expect(table.locator("thead [aria-sort=ascending]")).to_have_text("best\u25b2")
    names = rows.locator("th a").evaluate_all("all => all.map((one) => one.title)")
    assert names == [f"many-{n:02}" for n in losses]
    best = table.locator("td.best")
    expect(best).to_have_count(2)
    expect(best.first).to_have_attribute("title", repr(1 / 3))
    tab.reload()
    expect(rows.nth(1)).to_contain_text(f"many-{losses[1]:02}")
    rows.nth(1).get_by_role("button", name="More about").press("Enter")
    tab.get_by_role("menuitem", name="Baseline").press("Enter")
    expect(rows.first.locator(".delta")).not_to_have_count(0)
    expect(rows.nth(1).locator(".delta")).to_have_count(0)
    plotted(tab, "val/loss")


def test_code_and_configuration_are_compared_line_by_line(compare_page, tab):
    sheet(tab, compare_page, "code")
    tab.get_by_role("button", name="Code", exact=True).click()
    code = tab.get_by_label("Code and configuration")
    expect(code).to_contain_text("3 files of 4 differ")
    parts = code.locator("section")
    expect(parts.filter(has_text="data.bin")).to_contain_text("not a text")
    expect(parts.filter(has_text="settings").locator("tr")).to_have_count(3)
    script = parts.filter(has_text="train.py")
    expect(script.locator("ins")).to_contain_text(["<img src=x onerror=", "\u2039U+202E\u203a"])
    expect(script.locator("del mark")).to_have_count(1)
    expect(script.locator("tbody tr")).to_have_count(10)
    fold = script.get_by_role("button", name="27 equal lines")
    fold.press("Enter")
    expect(script.locator("tbody tr")).to_have_count(36)
    assert tab.title() != "owned"
    assert findings(tab) == []


def test_images_are_shown_at_one_step(compare_page, tab):
    tab.set_viewport_size({"width": 1280, "height": 160})
    table = sheet(tab, compare_page, "code&all=1")
    expect(table.get_by_title("sys/start_time", exact=True)).to_have_count(1)
    expect(tab.get_by_text("logged no numbers")).to_have_count(1)
    tab.get_by_role("button", name="Images", exact=True).click()
    tab.set_viewport_size({"width": 1280, "height": 900})
    grid = tab.get_by_label("Images", exact=True)
    expect(grid.locator("img")).to_have_count(4)
    expect(grid.get_by_alt_text("samples/two, step 20, left-hand")).to_be_visible()
    slider = grid.get_by_role("slider")
    slider.press("ArrowLeft")
    expect(grid.locator("output")).to_have_text("15")
    expect(grid.get_by_alt_text("samples/one, step 10, left-hand")).to_be_visible()
    expect(grid.get_by_alt_text("samples/one, step 15, right-hand")).to_be_visible()
    assert findings(tab) == []
