"""What is seen is what is said: long links, an order that has not come yet, units and counts."""

from __future__ import annotations

import re

from page_looking import expect, opening, rows


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
    # Unless the page has tried by itself meanwhile.
    tab.get_by_role("button", name="Try now").evaluate_all("(all) => all[0]?.click()")
    expect(rows(tab).first).to_contain_text("sweep-000")
    expect(name).to_have_attribute("aria-sort", "ascending")
    expect(tab.get_by_text("The server does not answer")).to_have_count(0)


def test_projects_count_their_failed_runs(main_page, tab):
    """With a link to them."""
    tab.goto(opening(main_page, "?screen=projects"))
    expect(tab.get_by_role("columnheader", name="Failed")).to_be_visible()
    tab.get_by_role("row").filter(has_text="box").get_by_role("link", name="1", exact=True).click()
    expect(rows(tab)).to_have_count(1)
    expect(rows(tab)).to_contain_text("failed")


def test_exact_numbers_are_copied_and_differences_have_a_unit(main_page, tab):
    """Of what is marked in the table; times differ by a time."""
    asked = "cols=val/loss,parameters/lr,sys/running_time&q=val/loss<2&sort=val/loss"
    tab.goto(opening(main_page, f"?project=sweep&{asked}"))
    expect(rows(tab)).to_have_count(2)
    cell = rows(tab).first.locator("td.numeric").first
    expect(cell).to_have_text("0.2")
    copied = tab.evaluate(
        """() => {
          getSelection().selectAllChildren(document.querySelector("table.runs tbody"));
          const event = new ClipboardEvent("copy", {bubbles: true, cancelable: true,
            clipboardData: new DataTransfer()});
          document.querySelector("table.runs tbody td.numeric").dispatchEvent(event);
          return event.clipboardData.getData("text/plain");
        }"""
    )
    assert {"sweep-000", "0.2", "0.1"} <= set(copied.split("\t"))
    rows(tab).first.get_by_role("button", name="More about").click()
    tab.get_by_role("menuitem", name="Baseline").click()
    unit = re.compile(r"^[+\u2212]\d[\d.]* (s|ms|µs)$")
    expect(rows(tab).nth(1).locator(".delta").last).to_have_text(unit)
