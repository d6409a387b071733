"""The table of runs: sorted, filtered, selected, compared and opened, by keyboard too."""

from __future__ import annotations

import re

import page_roots
from page_looking import expect, opening, plotted, rows, zoomed


def ask(tab, query):
    """Write a query by keyboard only."""
    expect(rows(tab).first).to_be_visible()
    tab.keyboard.press("/")
    tab.keyboard.press("Control+A")
    tab.keyboard.type(query)
    tab.keyboard.press("Enter")
    tab.keyboard.press("Escape")


def test_the_table_is_used_by_keyboard_and_back_restores_each_state(main_page, tab):
    tab.goto(opening(main_page, "?project=sweep"))
    expect(rows(tab)).to_have_count(200)
    ask(tab, "val/loss:min < 20")
    expect(rows(tab)).to_have_count(20)
    tab.get_by_role("columnheader", name="Name").get_by_role("button").press("Enter")
    expect(rows(tab).first).to_contain_text("sweep-000")
    for key in "jxjx":
        tab.keyboard.press(key)
    expect(tab.get_by_text("2 selected")).to_be_visible()
    chosen = rows(tab).filter(has=tab.get_by_role("checkbox", checked=True))
    first, second = chosen.locator("th a").all_inner_texts()
    tab.keyboard.press("c")
    for name in (first, second):
        expect(tab.get_by_role("columnheader", name=name)).to_be_visible()
    compared = tab.url
    tab.get_by_role("link", name=first).first.press("Enter")
    expect(tab.get_by_role("heading", name=first)).to_be_visible()
    opened = tab.url
    expect(tab.get_by_role("button", name="Run after this one")).to_be_enabled()
    tab.keyboard.press("]")
    expect(tab).not_to_have_url(opened)
    tab.go_back()
    expect(tab.get_by_role("heading", name=first)).to_be_visible()
    assert tab.url == opened
    tab.go_back()
    expect(tab.get_by_role("columnheader", name=second)).to_be_visible()
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


def test_a_link_shows_the_same_in_a_fresh_profile(main_page, tab, new_profile):
    tab.goto(opening(main_page, "?project=sweep"))
    ask(tab, "parameters/seed = 3")
    expect(rows(tab)).to_have_count(42)
    tab.get_by_role("columnheader", name="val/loss").get_by_role("button").click()
    expect(rows(tab).first).to_contain_text("sweep-003")
    tab.get_by_role("checkbox", name="Select sweep-013").check()
    tab.get_by_label("log y").check()
    whole = plotted(tab, "val/loss")["x"]
    part = (whole["max"] - whole["min"]) / 4
    zoomed(tab, "val/loss", whole["min"] + part, whole["max"] - part)
    seen = rows(tab).locator("th a").all_inner_texts()
    assert main_page.token not in tab.url
    other = new_profile().new_page()
    other.goto(f"{tab.url}#token={main_page.token}")
    expect(rows(other)).to_have_count(42)
    expect(rows(other).first).to_contain_text(seen[0])
    assert rows(other).locator("th a").all_inner_texts() == seen
    expect(other.get_by_role("checkbox", name="Select sweep-013")).to_be_checked()
    expect(other.get_by_label("log y")).to_be_checked()
    drawn = plotted(tab, "val/loss")
    assert drawn["x"] != whole
    plotted(other, "val/loss", lambda found: found == drawn)
    tab.go_back()
    plotted(tab, "val/loss", lambda found: found["x"] == whole)
    assert "zoom" not in tab.url

    tab.goto(opening(main_page, "?project=sweep"))
    expect(rows(tab)).to_have_count(200)
    tab.get_by_role("checkbox", name="Select all rows").check()
    expect(tab.get_by_text("200 selected")).to_be_visible()
    tab.get_by_role("checkbox", name="Select sweep-100").uncheck()
    expect(tab.get_by_text("199 selected")).to_be_visible()
    link = tab.url
    assert len(link.partition("#")[0]) < 2_000
    assert main_page.token not in link
    other.goto("about:blank")
    other.goto(f"{link}&token={main_page.token}")
    expect(other.get_by_text("199 selected")).to_be_visible()
    expect(other.get_by_role("checkbox", name="Select sweep-100")).not_to_be_checked()
    expect(other.get_by_role("checkbox", name="Select sweep-209")).to_be_checked()
    assert other.url == link
    other.get_by_role("button", name="Compare").click()
    expect(other.get_by_text("of 199 runs")).to_be_visible()
    other.go_back()
    expect(other.get_by_text("199 selected")).to_be_visible()


def test_a_selection_survives_turning_the_page(main_page, tab):
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
    tab.get_by_role("button", name="Clear", exact=True).click()
    expect(rows(tab).first).to_be_focused()


def test_every_row_follows_the_order(main_page, tab):
    """Rows further down are drawn a moment later."""
    tab.goto(opening(main_page, "?project=sweep&cols=val/loss"))
    every = [re.compile(f"sweep-{number:03}") for number in range(page_roots.SWEEP)]
    filled = tab.locator(".sheet[aria-busy=false] tbody tr th")
    expect(filled).to_have_text(every[::-1][:200])
    name = tab.get_by_role("columnheader", name="Name").get_by_role("button")
    name.click()
    expect(rows(tab).first).to_contain_text("sweep-000")
    rows(tab).nth(150).get_by_role("checkbox").check()
    expect(filled).to_have_text(every[:200])
    # Where it stood still when it was pressed, or on the other page.
    assert tab.locator("tr[aria-selected=true] th").count() <= 1
    for _ in range(3):
        name.press("Enter")
    expect(filled).to_have_text(every[::-1][:200])
    rows(tab).nth(120).focus()
    tab.keyboard.press("j")
    expect(rows(tab).nth(121)).to_be_focused()


def test_rows_stay_where_they_are_while_runs_change(recorded, serve_here, tab):
    root = recorded("few")
    page = serve_here(root)
    tab.goto(opening(page, "?project=sweep&cols=val/loss&sort=val/loss"))
    names = tab.locator("table.runs tbody tr th")
    before = [re.compile(f"sweep-00{number}") for number in range(3)]
    expect(names).to_have_text(before)
    with page_roots.begin(root, "sweep", "sweep-000", custom_run_id="s000") as run:
        run.log_metrics({"val/loss": 77.5}, step=5)
    with page_roots.begin(root, "sweep", "another", custom_run_id="s003") as run:
        run.log_metrics({"val/loss": 0.5}, step=0)
    page.watch.look()
    tab.get_by_role("button", name="look now").click()
    expect(rows(tab).first).to_contain_text("77.5")
    show = tab.get_by_role("button", name="1 new, order changed")
    expect(show).to_be_visible()
    expect(names).to_have_text(before)
    show.click()
    expect(names).to_have_text([re.compile("another"), *before[1:], before[0]])


def test_recorded_texts_stay_text(main_page, tab):
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


COPIED = """
() => {
  getSelection().selectAllChildren(document.querySelector("table.runs tbody"));
  const event = new ClipboardEvent("copy", {bubbles: true, cancelable: true,
    clipboardData: new DataTransfer()});
  document.querySelector("table.runs tbody td.numeric").dispatchEvent(event);
  return event.clipboardData.getData("text/plain");
}
"""


def test_exact_numbers_are_copied_and_differences_have_a_unit(main_page, tab):
    asked = "cols=val/loss,parameters/lr,sys/running_time&q=val/loss<2&sort=val/loss"
    tab.goto(opening(main_page, f"?project=sweep&{asked}"))
    expect(rows(tab)).to_have_count(2)
    expect(rows(tab).first.locator("td.numeric").first).to_have_text("0.2")
    assert {"sweep-000", "0.2", "0.1"} <= set(tab.evaluate(COPIED).split("\t"))
    rows(tab).first.get_by_role("button", name="More about").click()
    tab.get_by_role("menuitem", name="Baseline").click()
    unit = re.compile(r"^[+\u2212]\d[\d.]* (s|ms|µs)$")
    expect(rows(tab).nth(1).locator(".delta").last).to_have_text(unit)
