"""The box above the table: words that find runs, queries with short names, and metrics."""

from __future__ import annotations

import re
import urllib.parse

import pytest
from page_looking import expect, findings, opening, rows


def box(tab):
    return tab.get_by_role("combobox", name="query")


def asked(tab):
    """Return the query in the address."""
    return urllib.parse.parse_qs(urllib.parse.urlsplit(tab.url).query).get("q", [""])[0]


def ask(tab, query):
    box(tab).fill(query)
    box(tab).press("Enter")


@pytest.fixture
def shown(main_page, tab):
    """A tab with the runs of the box."""
    tab.goto(opening(main_page, "?project=box"))
    expect(rows(tab)).to_have_count(13)
    return tab


def test_words_find_by_name_tag_and_id(shown):
    finding = {
        "base RES": 6,
        "BASELINE": 2,
        "b03": 1,
        "res*": 6,
        "*-1*": 2,
        "/^vgg-0[24]$/": 2,
        "lr=0.5,seed=3": 1,
        "(copy)": 1,
        '"11 base"': 1,
        "/^vgg/ baseline": 1,
        "res width < 40": 4,
        "": 13,
    }
    others = iter(("not", "and", "in (", "c++", "(((", "it's", "a/b/c/", "is missing"))
    for text, count in finding.items():
        if other := next(others, None):
            ask(shown, other)
            expect(shown.get_by_role("heading", name="No run matches")).to_be_visible()
            expect(box(shown)).not_to_have_attribute("aria-invalid", "true")
        ask(shown, text)
        expect(rows(shown)).to_have_count(count)
        expect(box(shown)).not_to_have_attribute("aria-invalid", "true")
    box(shown).press("Escape")
    shown.keyboard.press("/")
    shown.keyboard.type("vgg 00")
    expect(rows(shown)).to_have_count(1)
    shown.keyboard.press("Escape")
    expect(box(shown)).not_to_be_focused()
    shown.keyboard.press("x")
    expect(shown.get_by_text("1 selected")).to_be_visible()


SHORT = [
    ("width < 40", "parameters/width < 40", 8),
    ("tag = baseline", "sys/tags CONTAINS baseline", 2),
    ("tag != a and width=16", "NOT sys/tags CONTAINS a and parameters/width=16", 4),
    ("state = failed", "sys/state = failed", 1),
    ("name = vgg-00", "sys/name = vgg-00", 1),
    ("encoder/depth = 4", "model/encoder/depth = 4", 2),
    ("loss:min < 2", "val/loss:min < 2", 2),
    ("min(loss) < 2", "min(val/loss) < 2", 2),
]
"""Queries with short names, with what they mean, and how many runs match."""


def test_short_names_are_replaced_by_paths(main_page, shown, watched):
    watched.allow("422")  # the table asks before the name is replaced
    for typed, meant, count in SHORT:
        ask(shown, typed)
        expect(box(shown)).to_have_value(meant)
        expect(rows(shown)).to_have_count(count)
        assert asked(shown) == meant
    for typed, meant, count in SHORT[:2]:
        shown.goto("about:blank")
        shown.goto(opening(main_page, f"?project=box&q={urllib.parse.quote(typed)}"))
        expect(box(shown)).to_have_value(meant)
        expect(rows(shown)).to_have_count(count)


def test_names_of_several_paths_are_asked_about(shown):
    head = shown.get_by_role("columnheader", name="parameters/lr", exact=True)
    expect(head.get_by_role("button")).to_have_text("parameters/lr")
    width = shown.get_by_role("columnheader", name="parameters/width").get_by_role("button")
    expect(width).to_have_text("width")
    for query, count in {"parameters/lr < 0.05": 9, "lr < 0.05": 12}.items():
        ask(shown, query)
        expect(rows(shown)).to_have_count(count)
    shown.get_by_role("button", name="Use parameters/lr").click()
    expect(rows(shown)).to_have_count(9)
    assert asked(shown) == "parameters/lr < 0.05"
    ask(shown, "")
    expect(rows(shown)).to_have_count(13)

    ask(shown, "depth > 3")
    choice = shown.get_by_role("listbox", name="Which depth?")
    expect(choice.get_by_role("option")).to_have_text(
        [re.compile(r"^model/decoder/depth4, 3, 2, 1 …$"), re.compile("^model/encoder/depth1, 0,")]
    )
    expect(rows(shown)).to_have_count(13)
    assert asked(shown) == ""
    assert findings(shown) == []
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        shown.keyboard.press(key)
    expect(box(shown)).to_have_value("model/encoder/depth > 3")
    expect(rows(shown)).to_have_count(2)
    expect(choice).to_have_count(0)


def test_paths_are_completed(shown):
    shown.keyboard.press("/")
    shown.keyboard.type("res wid")
    expect(shown.get_by_role("option", name="parameters/width")).to_be_visible()
    shown.keyboard.press("ArrowDown")
    shown.keyboard.press("Enter")
    expect(box(shown)).to_have_value("res parameters/width ")
    expect(shown.get_by_role("option", name=">=", exact=True)).to_be_visible()
    shown.keyboard.type("= 16")
    shown.keyboard.press("Enter")
    expect(rows(shown)).to_have_count(2)


def test_metrics_are_found_among_thousands(recorded, serve_here, tab):
    page = serve_here(recorded("thousands"))
    tab.goto(opening(page, "?project=thousands"))
    field = tab.get_by_role("searchbox", name="Filter charts")
    for text, count in {"m29 part29": 100, "part2/*9": 10, "/m(0001|2999)$/": 2}.items():
        field.fill(text)
        expect(tab.locator("[data-label]")).to_have_count(count)
    tab.get_by_role("button", name="Columns").click()
    tab.get_by_label("Only those that differ").uncheck()
    expect(tab.get_by_text(re.compile(r"^28\d\d more: type to filter\.$"))).to_be_visible()
    tab.get_by_role("searchbox", name="Filter columns").fill("/m2999$/")
    expect(tab.get_by_role("group", name="Columns").get_by_label("part29/m2999")).to_be_visible()
