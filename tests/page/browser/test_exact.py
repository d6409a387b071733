"""What is seen is what is said: long links, an order that has not come yet, units and counts."""

from __future__ import annotations

import random
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
    # Unless the page has tried by itself meanwhile.
    tab.get_by_role("button", name="Try now").evaluate_all("(all) => all[0]?.click()")
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


def test_projects_count_their_failed_runs(main_page, tab):
    """With a link to them."""
    tab.goto(opening(main_page, "?screen=projects"))
    expect(tab.get_by_role("columnheader", name="Failed")).to_be_visible()
    tab.get_by_role("row").filter(has_text="box").get_by_role("link", name="1", exact=True).click()
    expect(rows(tab)).to_have_count(1)
    expect(rows(tab)).to_contain_text("failed")


FORMATTED = """
async (numbers) => {
  const place = document.querySelector("link[href$='/js/components.js']").href;
  const { number, digitsBeside, exact } = await import(new URL("format.js", place).href);
  const shown = numbers.map((one) => number(one));
  return { shown, exact: numbers.map(exact), beside: numbers.map((one, n) => {
    const near = [numbers[n - 1], numbers[n + 1]];
    return [one, ...near].map((x) => number(x, Math.max(5, digitsBeside(one, near))));
  }) };
}
"""
"""How numbers are shown alone, in full, and beside their neighbours."""


def read_number(text):
    return float(text.replace("\u2212", "-").replace(",", ""))


def test_numbers_are_those_of_python(main_page, tab):
    """Five digits as Python rounds them, all digits in full, and more beside a near neighbour."""
    draw = random.Random(5)
    numbers = [draw.uniform(-1, 1) * 10.0 ** draw.randint(-300, 4) for _ in range(300)]
    numbers += [draw.uniform(1, 9) * 10.0 ** draw.randint(7, 300) for _ in range(100)]
    for _ in range(100):
        near = draw.uniform(1, 9) * 10.0 ** draw.randint(-12, 12)
        numbers += [near, near * (1 + 10.0 ** -draw.randint(3, 15))]
    tab.goto(opening(main_page, "?screen=projects"))
    expect(tab.get_by_role("main").get_by_role("table").first).to_be_visible()
    told = tab.evaluate(FORMATTED, numbers)
    for one, shown, exact in zip(numbers, told["shown"], told["exact"], strict=True):
        assert float(exact) == one
        if not 1e5 <= abs(one) < 1e7 and one != int(one):
            assert read_number(shown) == float(f"{one:.5g}")
    for n, (own, before, after) in enumerate(told["beside"]):
        for at, text in ((n - 1, before), (n + 1, after)):
            if 0 <= at < len(numbers):
                assert (text == own) == (numbers[at] == numbers[n])


def test_exact_numbers_are_copied(main_page, tab):
    """Of what is marked in the table; the title of a cell has them too."""
    tab.goto(opening(main_page, "?project=sweep&cols=val/loss,parameters/lr&q=val/loss<1"))
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


GOOD = """
async (paths) => {
  const place = document.querySelector("link[href$='/js/components.js']").href;
  const { ascendsFirst } = await import(new URL("columns.js", place).href);
  return paths.filter((path) => !ascendsFirst(path));
}
"""
"""The paths whose greatest values come first."""


def test_the_good_end_comes_first(main_page, tab):
    """Accuracies with the greatest first, losses with the least, texts from A; again reverses."""
    tab.goto(opening(main_page, "?project=sweep&cols=val/loss"))
    greatest = ["val/acc", "val_accuracy", "test/F1", "top1_acc5", "bbox/mAP", "r2", "val/acc:max"]
    least = ["val/loss", "rmse", "parameters/lr", "sys/name", "accident", "train/acc_loss", "lr"]
    assert tab.evaluate(GOOD, greatest + least) == greatest
    head = tab.get_by_role("columnheader", name="val/loss")
    sort = head.get_by_role("button", name="val/loss", exact=True)
    sort.click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    expect(rows(tab).first).to_contain_text("sweep-000")
    sort.click()
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(rows(tab).first).to_contain_text("sweep-209")
