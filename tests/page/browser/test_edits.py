"""Edits from the page: in two tabs, and undone."""

from __future__ import annotations

from page_looking import expect, opening

import seamark


def row(tab, name):
    return tab.get_by_role("row").filter(has_text=name)


def more(tab, name, item):
    """Choose from the menu of a run."""
    row(tab, name).get_by_role("button", name="More about").click()
    tab.get_by_role("menuitem", name=item).click()


def add_tags(tab, tags):
    """Fill in the window for tags, once it has been opened."""
    tab.get_by_label("Add").fill(tags)
    tab.get_by_role("button", name="Change tags").click()


def test_two_tabs_do_not_overwrite_each_other_unseen(recorded, serve_here, tab, watched):
    watched.allow("409")
    root = recorded("few")
    page = serve_here(root)
    other = tab.context.new_page()
    for each in (tab, other):
        each.goto(opening(page, "?project=sweep"))
        more(each, "sweep-001", "Name and description")
        expect(each.get_by_role("textbox", name="Name")).to_be_focused()
        expect(each.get_by_role("textbox", name="Description")).to_be_enabled()
    tab.get_by_role("textbox", name="Description").fill("from <b>one</b>")
    tab.get_by_role("textbox", name="Name").fill("renamed")
    tab.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(tab.get_by_role("dialog")).to_have_count(0)
    expect(row(tab, "renamed")).to_be_visible()
    field = other.get_by_role("textbox", name="Description")
    save = other.get_by_role("dialog").get_by_role("button", name="Save")
    field.fill("from the other")
    save.click()
    expect(other.get_by_text("from <b>one</b>").first).to_be_visible()
    assert field.input_value() == "from the other"
    save.click()
    expect(other.get_by_role("dialog")).to_have_count(0)
    run = seamark.init_run("sweep", root=root, custom_run_id="s001", mode="read-only")
    found = (run["sys/description"].fetch(), run["sys/name"].fetch(), run.state)
    assert found == ("from the other", "renamed", "completed")


def test_tags_and_trash_can_be_undone(recorded, serve_here, tab):
    page = serve_here(recorded("few"))
    tab.goto(opening(page, "?project=sweep"))
    more(tab, "sweep-000", "Tags")
    told = tab.locator(".toasts[role=status]")
    expect(told).to_have_text("")  # one that came along with its words would be silent
    add_tags(tab, "good")
    expect(told).to_contain_text("Tags of 1 run changed.")
    expect(row(tab, "sweep-000")).to_contain_text("good")
    tab.get_by_role("checkbox", name="Select all rows").check()
    tab.get_by_role("button", name="Edit").click()
    tab.get_by_role("menuitem", name="Tags").click()
    add_tags(tab, "good, quick")
    for number in range(3):
        expect(row(tab, f"sweep-00{number}")).to_contain_text("quick")
    tab.get_by_role("button", name="Undo").click()
    expect(row(tab, "sweep-000")).to_contain_text("good")  # it was there before
    for number in range(3):
        expect(row(tab, f"sweep-00{number}")).not_to_contain_text("quick")
    expect(row(tab, "sweep-001")).not_to_contain_text("good")
    more(tab, "sweep-002", "Into the trash")
    expect(row(tab, "sweep-002")).to_have_count(0)
    tab.get_by_role("button", name="Undo").click()
    expect(row(tab, "sweep-002")).to_be_visible()

    row(tab, "sweep-001").get_by_role("link").click()
    head = tab.locator(".run-head")
    expect(head.get_by_role("heading", name="sweep-001")).to_be_visible()
    tab.get_by_role("button", name="Edit").click()
    tab.get_by_role("menuitem", name="Tags").click()
    tab.get_by_label("Add").fill("kept")
    tab.keyboard.press("Enter")
    expect(head).to_contain_text("kept")
    tab.get_by_role("button", name="Undo").click()
    expect(head).not_to_contain_text("kept")
    tab.get_by_role("button", name="Edit").click()
    tab.get_by_role("menuitem", name="Into the trash").click()
    expect(head).to_contain_text("in the trash")
