"""Views are saved, opened and shared; who opens a link sees the same."""

from __future__ import annotations

import re

import pytest
from page_looking import address, expect, findings, opening, plotted


def menu(tab, name=""):
    """Open the menu of views, and return it, or the item of a name."""
    button(tab, re.compile("^View")).click()
    found = tab.get_by_role("dialog", name="Views of this project")
    return found.get_by_text(name, exact=True) if name else found


def drawn(tab):
    """Return the runs whose lines a chart has, and the colour of each name in the legend."""
    lines = len(plotted(tab, "val/loss")["data"])
    legend = tab.locator(".charts-key li")
    return lines, legend.locator("line").evaluate_all(
        "(all) => all.map((one) => one.getAttribute('stroke'))"
    )


def save(tab, name):
    """Save what is seen as a view."""
    menu(tab, "Save as …").click()
    field = tab.get_by_role("textbox", name="Name")
    expect(field).to_be_focused()
    assert findings(tab) == []
    field.fill(name)
    field.press("Enter")


@pytest.fixture
def visitor(new_profile):
    """Return a function that opens a link as somebody else."""

    def visit(link):
        tab = new_profile(viewport={"width": 1440, "height": 900}).new_page()
        tab.goto(link)
        expect(tab.get_by_role("table")).to_be_visible()
        return tab

    return visit


def log_y(tab):
    return tab.get_by_role("checkbox", name="log y")


def button(tab, name):
    return tab.locator(".find").get_by_role("button", name=name)


def check(tab, seen):
    """Expect the lines and colours of another tab, and its axis."""
    expect(log_y(tab)).to_be_checked()
    plotted(tab, "val/loss", lambda found: len(found["data"]) == seen[0])
    assert drawn(tab) == seen


def test_a_view_is_saved_and_shared(recorded, serve_here, visitor, watched):
    watched.allow("409")  # a name that is taken
    here = serve_here(recorded("box"))

    tab = visitor(opening(here, "?project=box"))
    before = drawn(tab)
    hide = tab.locator(".charts-key").get_by_role("button", name=re.compile("^vgg-10")).first
    hide.click()
    expect(hide).to_have_attribute("aria-pressed", "false")
    log_y(tab).check()
    assert plotted(tab, "val/loss", lambda found: len(found["data"]) < before[0])
    save(tab, "<b>Loss & höhe")
    view = button(tab, "View: <b>Loss & höhe")
    expect(view).to_be_visible()
    seen = drawn(tab)
    tab.set_viewport_size({"width": 390, "height": 800})  # Share covers no other button
    assert tab.locator(".find").evaluate("(one) => one.scrollWidth") <= 390
    tab.set_viewport_size({"width": 1440, "height": 900})

    log_y(tab).uncheck()
    expect(view).to_contain_text("changed")
    menu(tab, "<b>Loss & höhe").click()
    expect(view).not_to_contain_text("changed")
    expect(log_y(tab)).to_be_checked()
    menu(tab, "Open the project with it").click()

    # Somebody else opens the project: the same colours, lines and axes.
    other = visitor(opening(here, "?project=box"))
    expect(button(other, "View: <b>Loss & höhe")).to_be_visible()
    check(other, seen)
    menu(other, "Everything as at first").click()
    expect(log_y(other)).not_to_be_checked()
    other.get_by_role("navigation").get_by_role("link", name="box").click()
    expect(log_y(other)).to_be_checked()
    save(other, "<b>Loss & höhe")
    expect(other.get_by_role("alert")).to_contain_text("there already")
    other.keyboard.press("Escape")

    # A view that is renamed and deleted; the list of the other is the one of now.
    menu(tab, "Rename …").click()
    tab.get_by_role("textbox", name="Name").fill("-")
    tab.keyboard.press("Enter")
    expect(button(tab, "View: -")).to_be_visible()
    expect(menu(other)).to_contain_text("-")
    expect(button(other, re.compile("^View$"))).to_be_visible()
    menu(tab, "Delete …").click()
    tab.get_by_role("button", name="Delete", exact=True).click()
    expect(button(tab, re.compile("^View$"))).to_be_visible()
    expect(log_y(tab)).to_be_checked()

    # A link has all that is seen, though nothing of it is selected.
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.get_by_role("button", name="Share").click()
    expect(tab.get_by_role("button", name="Copied")).to_be_visible()
    link = tab.evaluate("navigator.clipboard.readText()")
    assert link.startswith(address(here))
    third = visitor(f"{link}{'&' if '#' in link else '#'}token={here.token}")
    check(third, seen)
