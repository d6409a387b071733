"""Finding one's way: groups in order, names of columns, wrong queries, keys on each screen."""

from __future__ import annotations

import re

import numpy as np
import page_roots
import pytest
from page_looking import address, expect, head, opening, plotted, rows

DASH = "\N{EN DASH}"


def groups(tab, shown):
    expect(tab.locator("table.runs tbody th")).to_have_text(shown)


def reopen(tab, page, link):
    """Open a link as if it came from somebody else."""
    tab.goto("about:blank")
    tab.goto(f"{link}#token={page.token}")


def test_groups_are_sorted_by_their_columns(main_page, tab):
    tab.goto(opening(main_page, "?project=sweep&group=parameters/seed&cols=val/loss&q=val/loss<8"))
    loss = head(tab, "val/loss")
    groups(tab, ["2", "1", "0", "4", "3"])  # the newest first
    loss.get_by_role("button").press("Enter")
    # Means of 0 and 5, 1 and 6, 2 and 7, 3, 4, each with 0.2 more: of a loss the least first.
    groups(tab, ["0", "3", "1", "4", "2"])
    assert loss.get_attribute("aria-sort") == "ascending"
    loss.get_by_role("button").press("Enter")
    groups(tab, ["2", "4", "1", "3", "0"])
    assert loss.get_attribute("aria-sort") == "descending"
    link = tab.url
    assert "order=-val/loss" in link
    head(tab, "Runs").get_by_role("button").click()
    groups(tab, ["2", "1", "0", "4", "3"])
    head(tab, "parameters/seed").get_by_role("button").click()
    groups(tab, ["0", "1", "2", "3", "4"])
    tab.go_back()
    tab.go_back()
    groups(tab, ["2", "4", "1", "3", "0"])
    reopen(tab, main_page, link)
    groups(tab, ["2", "4", "1", "3", "0"])
    assert loss.get_attribute("aria-sort") == "descending"
    # What shows no finite number is last in either order, and says so.
    asked = "?project=vision/digits&group=sys/name&cols=val/loss&q=parameters/layers > 0"
    tab.goto(opening(main_page, f"{asked}&order=val/loss"))
    for order in ("ascending", "descending"):
        expect(loss).to_have_attribute("aria-sort", order)
        expect(rows(tab).last).to_contain_text("sad-crab")
        expect(rows(tab).last).to_contain_text("no finite number")
        loss.get_by_role("button").click()


def test_parameters_of_groups_are_not_averaged(main_page, tab):
    def rates():
        return [row.locator("th, td").nth(2).inner_text() for row in rows(tab).all()]

    asked = "?project=sweep&group=parameters/seed&cols=parameters/lr,val/loss"
    tab.goto(opening(main_page, f"{asked}&q=parameters/lr = 0.1"))
    expect(rows(tab)).to_have_count(page_roots.SEEDS)
    assert rates() == ["0.1"] * page_roots.SEEDS
    tab.goto(address(main_page, f"{asked}&q=val/loss < 6"))
    groups(tab, ["0", "4", "3", "2", "1"])  # 0 and 5, 4, 3, 2, 1
    assert rates() == [f"0.01{DASH}0.1", "0.1", "0.0001", "0.001", "0.01"]
    head(tab, "parameters/lr").get_by_role("button").click()
    groups(tab, ["3", "2", "0", "1", "4"])
    tab.goto(address(main_page, "?project=vision/digits&group=sys/state&cols=parameters/optimizer"))
    expect(rows(tab).filter(has_text="completed")).to_contain_text("2 values")
    expect(rows(tab).filter(has_text="failed")).to_contain_text("SGD")
    # A number of no known kind is a parameter, one series more is not.
    tab.goto(opening(main_page, "?project=box&group=parameters/width&cols=model/encoder/depth,lr"))
    expect(rows(tab).filter(has_text="48")).to_contain_text(f"0{DASH}3")
    expect(rows(tab).filter(has_text="48")).to_contain_text("± 0")


def test_groups_show_medians_errors_and_ranges(main_page, tab):
    """The band of a metric that is never negative ends at its smallest value."""
    asked = "?project=sweep&group=parameters/seed&cols=val/loss"
    query = "parameters/seed = 0 AND (val/loss < 6 OR val/loss > 205)"
    values = np.array([0.2, 5.2, 205.2])
    tab.goto(opening(main_page, f"{asked}&q={query}"))
    row, drawn = rows(tab), tab.get_by_label("Groups that are drawn")
    expect(row).to_have_count(1)
    expect(row).to_contain_text(f"70.2± {values.std(ddof=1):.0f}")
    hide = drawn.get_by_role("button", name="seed 0 (n = 3)")
    hide.click()
    expect(tab).to_have_url(re.compile("hidden=seed.{1,3}0(?![0-9A-Za-z%+ (])"))  # whatever n is
    hide.click()
    expect(drawn).to_contain_text("mean ± standard deviation")
    tab.keyboard.press("g")
    show, band = (tab.get_by_role("combobox", name=name, exact=True) for name in ("Show", "±"))
    show.select_option("median")
    band.select_option("standard error")
    error = values.std(ddof=1) / len(values) ** 0.5
    expect(row).to_contain_text(f"5.2± {error:.0f}")
    expect(drawn).to_contain_text("median ± standard error")

    def ends(found, line, low, high):
        y, room = found["y"], (high - low) / 20
        return (
            found["data"][1][-1] == pytest.approx(line)
            and y["max"] == pytest.approx(high + room, rel=0.02)
            and y["min"] == pytest.approx(low - room, abs=0.05 * high)
        )

    high = np.median(values) + error + 0.8
    plotted(tab, "val/loss", lambda found: ends(found, 5.2, 0.2, high))
    assert "stat=median-se" in tab.url
    show.select_option(f"min{DASH}max")
    expect(band).to_be_disabled()
    expect(row).to_contain_text(f"0.2{DASH}205.2")
    plotted(tab, "val/loss", lambda found: ends(found, values.mean(), 0.2, 206.0))
    reopen(tab, main_page, tab.url)
    expect(row).to_contain_text(f"0.2{DASH}205.2")
    tab.keyboard.press("g")
    show.select_option("mean")
    band.select_option("none")
    expect(row).not_to_contain_text("±")
    plotted(tab, "val/loss", lambda found: found["y"]["max"] - found["y"]["min"] < 2)


def test_a_wrong_query_leaves_what_the_one_before_found(main_page, tab, watched):
    watched.allow("422", "400")
    tab.goto(opening(main_page, "?project=sweep&q=val/loss < 3"))
    told = tab.locator(".found[role=status]")
    expect(told).to_have_text("3 of 210")
    expect(tab.locator(".chart").first).to_be_visible()
    expect(rows(tab)).to_have_count(3)
    tab.keyboard.press("/")
    field = tab.get_by_role("combobox", name="Query")
    expect(field).to_be_focused()

    def ask(query):
        field.fill(query)
        field.press("Enter")

    ask("val/losss < 3")
    expect(tab.get_by_role("alert").first).to_contain_text(re.compile(r"val/loss\b"))
    ask("val/loss <")
    expect(tab.get_by_role("alert")).to_contain_text("expected a value")
    expect(told).to_have_text("3 of 210, of the query before")
    expect(rows(tab)).to_have_count(3)
    expect(tab.locator(".sheet")).to_have_css("opacity", "0.55")
    expect(tab.locator(".chart").first).to_be_visible()
    ask("val/loss < 4")
    expect(told).to_have_text("4 of 210")
    expect(tab.locator(".sheet")).to_have_css("opacity", "1")
    expect(tab.get_by_role("alert")).to_have_count(0)


def test_keys_act_on_what_is_shown(main_page, tab):
    tab.goto(opening(main_page, "?project=sweep&q=val/loss < 0"))
    expect(tab.get_by_role("heading", name="No run matches")).to_be_visible()
    tab.keyboard.press("/")
    expect(tab.get_by_role("combobox", name="Query")).to_be_focused()
    tab.get_by_role("button", name="Clear", exact=True).click()
    for name in ("sweep-209", "sweep-208"):
        tab.get_by_role("checkbox", name=f"Select {name}").check()
    tab.keyboard.press("g")
    tab.get_by_role("group", name="Group by").get_by_label("parameters/seed").check()
    tab.keyboard.press("Escape")
    expect(head(tab, "parameters/seed")).to_be_visible()
    tab.keyboard.press("?")
    expect(tab.get_by_role("dialog")).to_be_visible()
    tab.keyboard.press("Escape")
    tab.keyboard.press("c")
    expect(tab.get_by_role("heading", name="Compare 2 runs")).to_be_visible()


def test_a_link_may_come_before_its_run(main_page, tab, watched):
    watched.allow("404")
    tab.goto(opening(main_page, "?project=sweep"))
    found = tab.get_by_role("link", name="sweep-209").get_attribute("href")
    asked = []

    def answer(route):
        asked.append(route.request.url)
        if len(asked) == 1:
            route.fulfill(status=404, json={"error": "no-such-run", "hint": "not there yet"})
        else:
            route.continue_()

    tab.route("**/read/overview", answer)
    tab.goto(opening(main_page, f"{found}&root=elsewhere"))
    expect(tab.get_by_role("heading", name="sweep-209")).to_be_visible()
    assert len(asked) > 1
    expect(tab.get_by_role("alert")).to_contain_text("no folder called elsewhere")
    tab.unroute("**/read/overview")
    tab.goto(opening(main_page, "?project=sweep&run=nosuchrun"))
    expect(tab.get_by_role("alert").first).to_contain_text("nosuchrun")
    tab.goto(address(main_page, "?project=sweep&selected=nosuchrun"))
    tab.get_by_role("button", name="Forget it").click()
    expect(tab).not_to_have_url(re.compile("nosuchrun"))
    expect(rows(tab)).to_have_count(200)
