"""What is seen is what is said: long links, an order that has not come yet, units and counts."""

from __future__ import annotations

import re

from page_looking import opening


def expect(*given):
    from playwright.sync_api import expect

    return expect(*given)


def rows(tab):
    return tab.locator("table.runs tbody tr")


def test_a_link_holds_all_that_is_selected(main_page, new_profile):
    """However much it is, in another browser, and with Back; the server is sent a short query."""
    tab = new_profile().new_page()
    tab.goto(opening(main_page, "?project=sweep"))
    expect(rows(tab)).to_have_count(200)
    tab.get_by_role("checkbox", name="Select all rows").check()
    expect(tab.get_by_text("200 selected")).to_be_visible()
    tab.get_by_role("checkbox", name="Select sweep-100").uncheck()
    expect(tab.get_by_text("199 selected")).to_be_visible()
    link = tab.url
    assert len(link.partition("#")[0]) < 2_000
    assert main_page.token not in link
    other = new_profile().new_page()
    other.goto(f"{link}&token={main_page.token}")
    expect(other.get_by_text("199 selected")).to_be_visible()
    expect(other.get_by_role("checkbox", name="Select sweep-100")).not_to_be_checked()
    expect(other.get_by_role("checkbox", name="Select sweep-209")).to_be_checked()
    assert other.url == link
    other.get_by_role("button", name="Compare").click()
    expect(other.get_by_text("of 199 runs")).to_be_visible()
    other.go_back()
    expect(other.get_by_text("199 selected")).to_be_visible()
    other.reload()
    expect(other.get_by_text("199 selected")).to_be_visible()


def test_the_order_is_told_once_it_is_shown(main_page, tab, watched):
    """While the server is away, no arrow moves, and one bar says why; then it is as asked."""
    watched.allow("Failed to load", "net::ERR")
    tab.goto(opening(main_page, "?project=sweep&cols=val/loss"))
    expect(rows(tab)).to_have_count(200)
    name = tab.get_by_role("columnheader", name="Name")
    tab.route("**/read/**", lambda route: route.abort())
    name.get_by_role("button").click()
    expect(tab.get_by_text("The server does not answer")).to_have_count(1)
    expect(tab.get_by_role("alert")).to_have_count(1)
    expect(name).to_have_attribute("aria-sort", "none")
    expect(tab.get_by_role("columnheader", name="Created")).to_have_count(0)
    expect(rows(tab).first).to_contain_text("sweep-209")
    tab.unroute("**/read/**")
    tab.get_by_role("button", name="Try now").click()
    expect(rows(tab).first).to_contain_text("sweep-000")
    expect(name).to_have_attribute("aria-sort", "ascending")
    expect(tab.get_by_text("The server does not answer")).to_have_count(0)


def test_differences_of_times_have_a_unit(main_page, tab):
    """In the table and beside each other."""
    asked = "?project=sweep&cols=sys/running_time&q=val/loss<2"
    tab.goto(opening(main_page, asked))
    expect(rows(tab)).to_have_count(2)
    rows(tab).first.get_by_role("button", name="More about").click()
    tab.get_by_role("menuitem", name="Baseline").click()
    unit = re.compile(r"^[+\u2212]\d[\d.]* (s|ms|µs)$")
    expect(rows(tab).nth(1).locator(".delta")).to_have_text(unit)


def test_projects_count_their_failed_runs(box_page, tab):
    """With a link to them."""
    tab.goto(opening(box_page, "?screen=projects"))
    expect(tab.get_by_role("columnheader", name="Failed")).to_be_visible()
    tab.get_by_role("row").filter(has_text="box").get_by_role("link", name="1", exact=True).click()
    expect(rows(tab)).to_have_count(1)
    expect(rows(tab)).to_contain_text("failed")
