"""Columns of the table: moved, pinned, sized and hidden from their heads, by mouse and keys."""

from __future__ import annotations

import pytest
from page_looking import address, expect, findings, head, opening
from page_process import until

LR, SEED, LOSS, AGE = "parameters/lr", "parameters/seed", "val/loss", "Created"
FEW = "?project=sweep&q=val/loss < 8"
FIRST = [AGE, LOSS, LR, SEED, "Ran for", "Tags"]
"""Columns as they are at first."""


def heads(tab, names):
    """Expect columns, left to right, after the tick, the name and the state."""
    expect(tab.locator("thead th").nth(len(names) + 2)).to_be_visible()
    expect(tab.locator("tbody tr").first).to_be_visible()  # columns are as wide as their values

    def shown():
        return [
            one.get_attribute("aria-label") or one.locator("> button").get_attribute("aria-label")
            for one in tab.locator("thead th").all()[3:]
        ]

    until(lambda: shown() == names)


def box(tab, name):
    return head(tab, name).bounding_box()


def has_width(tab, name, width):
    until(lambda: box(tab, name)["width"] == pytest.approx(width, abs=1))


def awake(tab, name):
    """Point at a head, which brings its menu and its handle."""
    # Rows that come later change the widths, and with them the places.
    expect(tab.locator(".sheet[aria-busy=false] tbody tr").first).to_be_visible()
    head(tab, name).hover()
    expect(head(tab, name).locator(".grip")).to_be_attached()


def drag(tab, name, to, part, *, drop=True):
    """Drag a head to a part of the width of another one."""
    awake(tab, name)
    start, end = box(tab, name), box(tab, to)
    tab.mouse.move(start["x"] + start["width"] / 2, start["y"] + 14)
    tab.mouse.down()
    tab.mouse.move(end["x"] + part * end["width"], end["y"] + 14, steps=6)
    if not drop:
        tab.keyboard.press("Escape")
    tab.mouse.up()


def menu(tab, name):
    """Open the menu of a head."""
    awake(tab, name)
    head(tab, name).get_by_role("button", name=f"Column {name}").click()


def pick(tab, name, item):
    """Choose from the menu of a head."""
    menu(tab, name)
    tab.get_by_role("menuitem", name=item).click()


def stretch(tab, name, by):
    """Drag the handle of a head."""
    awake(tab, name)
    edge = box(tab, name)
    x, y = edge["x"] + edge["width"] - 3, edge["y"] + 14
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + by, y, steps=4)
    tab.mouse.up()


def test_columns_are_dragged_and_pinned(main_page, wide):
    wide.goto(opening(main_page, FEW))
    heads(wide, FIRST)
    drag(wide, LR, SEED, 0.9)
    heads(wide, [AGE, LOSS, SEED, LR, "Ran for", "Tags"])
    drag(wide, SEED, AGE, 0.1)
    moved = [SEED, AGE, LOSS, LR, "Ran for", "Tags"]
    heads(wide, moved)
    drag(wide, AGE, LR, 0.9, drop=False)
    heads(wide, moved)
    expect(head(wide, AGE)).to_have_attribute("aria-sort", "descending")
    assert "sort=" not in wide.url
    head(wide, LOSS).get_by_role("button").first.click()  # a click sorts, as before
    expect(head(wide, LOSS)).to_have_attribute("aria-sort", "ascending")

    pick(wide, LR, "Pin to the left")
    heads(wide, [LR, SEED, AGE, LOSS, "Ran for", "Tags"])
    assert "pins=parameters/lr" in wide.url
    drag(wide, LOSS, LR, 0.1)  # between pinned ones it is one of them
    pinned = [LOSS, LR, SEED, AGE, "Ran for", "Tags"]
    heads(wide, pinned)
    expect(wide.get_by_role("status").filter(has_text="column 1 of 6, pinned")).to_be_attached()
    wide.locator(".sheet").evaluate("(one) => one.scrollTo(150, 0)")

    def end(one):
        return pytest.approx(one["x"] + one["width"], abs=1)

    until(lambda: box(wide, LOSS)["x"] == end(wide.locator("thead .first").bounding_box()))
    cell = wide.locator("tbody tr").nth(2).locator("td").nth(2)
    assert cell.bounding_box()["x"] == pytest.approx(box(wide, LOSS)["x"], abs=1)
    assert box(wide, LR)["x"] == end(box(wide, LOSS))
    head(wide, LR).get_by_role("button", name=f"Column {LR}").click()
    assert findings(wide) == []
    wide.keyboard.press("Escape")

    wide.reload()
    heads(wide, pinned)
    wide.get_by_role("button", name="Columns", exact=True).click()
    dialog = wide.get_by_role("group", name="Columns")
    for at, text in enumerate(["val/loss (pinned)", f"{LR} (pinned)", SEED, AGE]):
        expect(dialog.locator("label").nth(at)).to_contain_text(text)
    dialog.get_by_label("val/loss (pinned)").click()
    heads(wide, pinned[1:])
    until(lambda: "pins=parameters/lr&" in f"{wide.url}&")
    wide.get_by_role("button", name="As at first").click()
    until(lambda: "pins=" not in wide.url and "cols=" not in wide.url)


def test_columns_are_sized_and_remembered(main_page, wide):
    wide.goto(opening(main_page, FEW))
    heads(wide, FIRST)
    before = box(wide, LR)["width"]
    stretch(wide, LR, 60)
    has_width(wide, LR, before + 60)
    assert f"widths=parameters/lr:{round(before + 60)}" in wide.url
    stretch(wide, LOSS, -400)
    has_width(wide, LOSS, 40)
    link = wide.url
    for asked in (address(main_page, "?project=sweep"), link):
        wide.goto("about:blank")
        wide.goto(asked)
        has_width(wide, LR, before + 60)
    wide.goto(address(main_page, "?project=vision/digits&cols=parameters/lr,train/loss"))
    expect(wide.locator("tbody tr").first).to_be_visible()
    awake(wide, "train/loss")
    assert box(wide, LR)["width"] < before + 50  # another project
    wide.goto(link)
    has_width(wide, LR, before + 60)
    awake(wide, LR)
    edge = box(wide, LR)
    wide.mouse.dblclick(edge["x"] + edge["width"] - 3, edge["y"] + 14)
    has_width(wide, LR, before)
    assert "parameters/lr:" not in wide.url


def test_columns_are_moved_and_sized_by_keys(main_page, wide):
    wide.goto(opening(main_page, FEW))
    heads(wide, FIRST)
    own = head(wide, LR).get_by_role("button", name=LR, exact=True)
    own.focus()
    expect(head(wide, LR).locator(".grip")).to_be_attached()
    before = box(wide, LR)["width"]
    for key in ("Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowLeft", "+", "+", "-"):
        wide.keyboard.press(key)
    heads(wide, [AGE, LOSS, SEED, LR, "Ran for", "Tags"])
    expect(own).to_be_focused()
    has_width(wide, LR, before + 16)
    wide.keyboard.press("Tab")
    wide.keyboard.press("Enter")
    expect(wide.get_by_role("menuitem", name="Move left")).to_be_focused()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        wide.keyboard.press(key)
    heads(wide, [LR, AGE, LOSS, SEED, "Ran for", "Tags"])
    expect(head(wide, LR).get_by_role("button", name=f"Column {LR}")).to_be_focused()
    pick(wide, LR, "Fit to its values")
    has_width(wide, LR, before)
    pick(wide, LOSS, "Hide")
    heads(wide, [LR, AGE, SEED, "Ran for", "Tags"])
    columns = wide.get_by_role("button", name="Columns", exact=True)
    columns.click()
    expect(wide.get_by_role("group", name="Columns").get_by_label(LOSS)).not_to_be_checked()
    wide.keyboard.press("Escape")
    expect(columns).to_be_focused()


def test_wrong_columns_in_addresses_and_storage_are_ignored(main_page, wide):
    wide.goto(opening(main_page, FEW))
    heads(wide, FIRST)
    wide.evaluate("localStorage.setItem('seamark:widths:vision/digits', '[[\"a\"], 3, {')")
    asked = "?project=vision/digits&cols=<img src=x>/loss,parameters/arabic,parameters/long"
    wide.goto(address(main_page, f"{asked}&pins=nowhere,<img src=x>/loss&widths=x,:,a:b,c:9e9"))
    name = "<img src=x>/loss"
    expect(head(wide, name)).to_be_visible()
    pick(wide, name, "Wider")
    until(lambda: "src=x" in (link := wide.url) or "src%3Dx" in link)
    stretch(wide, "parameters/long", -100)
    drag(wide, "parameters/arabic", name, 0.1)
    heads(wide, ["parameters/arabic", name, "parameters/long"])
