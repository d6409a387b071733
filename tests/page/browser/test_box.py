"""The box above the table: words that find runs, queries with short names, and metrics."""

from __future__ import annotations

import re
import urllib.parse

from page_looking import expect, findings, opening, rows


def box(tab):
    return tab.get_by_role("combobox", name="query")


def asked(tab):
    """Return the query in the address."""
    return urllib.parse.parse_qs(urllib.parse.urlsplit(tab.url).query).get("q", [""])[0]


def test_words_find_by_name_tag_and_id(main_page, tab):
    """In any order and case, with a star or a regular expression; none is a mistake."""
    tab.goto(opening(main_page, "?project=box"))
    expect(rows(tab)).to_have_count(13)
    for text, count in {
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
    }.items():
        box(tab).fill(text)
        box(tab).press("Enter")
        expect(rows(tab)).to_have_count(count)
        expect(box(tab)).not_to_have_attribute("aria-invalid", "true")
    for text in ("not", "and", "in (", "c++", "(((", "it's", "a/b/c/", "is missing"):
        box(tab).fill(text)
        box(tab).press("Enter")
        expect(tab.get_by_role("heading", name="No run matches")).to_be_visible()
        expect(box(tab)).not_to_have_attribute("aria-invalid", "true")
        box(tab).fill("")
        box(tab).press("Enter")
        expect(rows(tab)).to_have_count(13)


def test_words_find_while_they_are_typed(main_page, tab):
    """Without Enter; Escape leaves the box, so that the keys of the table act again."""
    tab.goto(opening(main_page, "?project=box"))
    expect(rows(tab)).to_have_count(13)
    tab.keyboard.press("/")
    tab.keyboard.type("vgg 00")
    expect(rows(tab)).to_have_count(1)
    tab.keyboard.press("Escape")
    expect(box(tab)).not_to_be_focused()
    tab.keyboard.press("x")
    expect(tab.get_by_text("1 selected")).to_be_visible()


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


def test_short_names_are_replaced_by_paths(main_page, tab, watched):
    """The full path stands in the address, and in the box; by a link too."""
    watched.allow("422")  # the table asks before the name is replaced
    tab.goto(opening(main_page, "?project=box"))
    for typed, meant, count in SHORT:
        box(tab).fill(typed)
        box(tab).press("Enter")
        expect(box(tab)).to_have_value(meant)
        expect(rows(tab)).to_have_count(count)
        assert asked(tab) == meant
    for typed, meant, count in SHORT[:2]:
        tab.goto("about:blank")
        tab.goto(opening(main_page, f"?project=box&q={urllib.parse.quote(typed)}"))
        expect(box(tab)).to_have_value(meant)
        expect(rows(tab)).to_have_count(count)


def test_a_column_and_a_query_of_its_title_mean_the_same(main_page, tab):
    """The title of a parameter of which there is a series too is longer; both can be asked for."""
    tab.goto(opening(main_page, "?project=box"))
    head = tab.get_by_role("columnheader", name="parameters/lr", exact=True).get_by_role("button")
    expect(head).to_have_text("parameters/lr")
    box(tab).fill("parameters/lr < 0.05")
    box(tab).press("Enter")
    expect(rows(tab)).to_have_count(9)
    box(tab).fill("lr < 0.05")
    box(tab).press("Enter")
    expect(rows(tab)).to_have_count(12)
    tab.get_by_role("button", name="Use parameters/lr").click()
    expect(rows(tab)).to_have_count(9)
    assert asked(tab) == "parameters/lr < 0.05"
    expect(
        tab.get_by_role("columnheader", name="parameters/width").get_by_role("button")
    ).to_have_text("width")


def test_several_paths_of_a_name_are_asked_about(main_page, tab):
    """With values of each; until one is chosen, nothing is filtered."""
    tab.goto(opening(main_page, "?project=box"))
    expect(rows(tab)).to_have_count(13)
    box(tab).fill("depth > 3")
    box(tab).press("Enter")
    choice = tab.get_by_role("listbox", name="Which depth?")
    expect(choice.get_by_role("option")).to_have_text(
        [
            re.compile(r"^model/decoder/depth4, 3, 2, 1 …$"),
            re.compile("^model/encoder/depth1, 0,"),
        ]
    )
    expect(rows(tab)).to_have_count(13)
    assert asked(tab) == ""
    assert findings(tab) == []
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    expect(box(tab)).to_have_value("model/encoder/depth > 3")
    expect(rows(tab)).to_have_count(2)
    expect(choice).to_have_count(0)


def test_paths_are_completed(main_page, tab):
    """By any part; a word that is not a path is not taken for one."""
    tab.goto(opening(main_page, "?project=box"))
    expect(rows(tab)).to_have_count(13)
    tab.keyboard.press("/")
    tab.keyboard.type("res wid")
    option = tab.get_by_role("option", name="parameters/width")
    expect(option).to_be_visible()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    expect(box(tab)).to_have_value("res parameters/width ")
    expect(tab.get_by_role("option", name=">=", exact=True)).to_be_visible()
    tab.keyboard.type("= 16")
    tab.keyboard.press("Enter")
    expect(rows(tab)).to_have_count(2)


def test_metrics_are_found_among_thousands(recorded, serve_here, tab):
    """By words, a star or a regular expression; what a list leaves out is told."""
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
