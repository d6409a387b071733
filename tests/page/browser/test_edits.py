"""What people change from the page: in two tabs, and with a way back."""

from __future__ import annotations

from page_looking import expect, opening

import seamark


def row(tab, name):
    return tab.get_by_role("row").filter(has_text=name)


def more(tab, name, item):
    """Choose from the menu of a run."""
    row(tab, name).get_by_role("button", name="More about").click()
    tab.get_by_role("menuitem", name=item).click()


def test_two_tabs_edit_one_run(recorded, serve_here, profile, watched):
    """Who would overwrite what they have not seen is shown it first, and loses nothing typed."""
    watched.allow("409")
    root = recorded("few")
    page = serve_here(root)
    one, other = profile.new_page(), profile.new_page()
    for tab in (one, other):
        tab.goto(opening(page, "?project=sweep"))
        more(tab, "sweep-001", "Name and description")
        expect(tab.get_by_role("textbox", name="Description")).to_be_enabled()
    one.get_by_role("textbox", name="Description").fill("from <b>one</b>")
    one.get_by_role("textbox", name="Name").fill("renamed")
    one.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(one.get_by_role("dialog")).to_have_count(0)
    expect(row(one, "renamed")).to_be_visible()
    other.get_by_role("textbox", name="Description").fill("from the other")
    other.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(other.get_by_text("from <b>one</b>").first).to_be_visible()
    assert other.get_by_role("textbox", name="Description").input_value() == "from the other"
    other.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(other.get_by_role("dialog")).to_have_count(0)
    run = seamark.init_run("sweep", root=root, custom_run_id="s001", mode="read-only")
    assert run["sys/description"].fetch() == "from the other"
    assert run["sys/name"].fetch() == "renamed"
    assert run.state == "completed"


def test_tags_and_trash_with_a_way_back(recorded, serve_here, tab):
    """Of several runs at once; one press takes a run out of the trash again."""
    page = serve_here(recorded("few"))
    tab.goto(opening(page, "?project=sweep"))
    expect(row(tab, "sweep-002")).to_be_visible()
    more(tab, "sweep-000", "Tags")
    tab.get_by_label("Add").fill("good")
    tab.get_by_role("button", name="Change tags").click()
    expect(row(tab, "sweep-000")).to_contain_text("good")
    tab.get_by_role("checkbox", name="Select all rows").check()
    tab.get_by_role("button", name="Edit").click()
    tab.get_by_role("menuitem", name="Tags").click()
    tab.get_by_label("Add").fill("good, quick")
    tab.get_by_role("button", name="Change tags").click()
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


def test_a_run_is_edited_on_its_own_page(recorded, serve_here, tab):
    """Its tags, with a way back, and the trash."""
    page = serve_here(recorded("few"))
    tab.goto(opening(page, "?project=sweep"))
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
