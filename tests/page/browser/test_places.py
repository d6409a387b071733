"""The same page elsewhere: below a prefix, in a frame, on a team's server, of several roots."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from page_looking import opening, plotted
from prefix_proxy import PREFIX, prefixed

pytest.importorskip("fastapi")


def expect(*given):
    from playwright.sync_api import expect

    return expect(*given)


def test_below_a_prefix(main_page, tab):
    """All addresses are relative: nothing is asked for outside of the prefix, reload included."""
    asked = []
    tab.on("request", lambda request: asked.append(urlsplit(request.url).path))
    with prefixed(main_page.port) as url:
        tab.goto(f"{url}?project=vision/digits#token={main_page.token}")
        expect(tab.get_by_role("row").filter(has_text="quick-otter")).to_be_visible()
        plotted(tab, "train/loss")
        tab.reload()
        expect(tab.get_by_role("row").filter(has_text="quick-otter")).to_be_visible()
        tab.goto("about:blank")
    assert asked
    assert [path for path in asked if not path.startswith(PREFIX)] == []


def test_in_a_frame_of_the_same_place(main_page, tab):
    """As a notebook shows it below JupyterHub."""
    with prefixed(main_page.port) as url:
        origin = url.removesuffix(PREFIX)
        tab.goto(f"{origin}/frame?{PREFIX}?project=sweep#token={main_page.token}")
        frame = tab.frame_locator("iframe")
        # The fragment belongs to the outer address: the frame asks for the token.
        frame.get_by_label("Token").fill(main_page.token)
        frame.get_by_role("button", name="Open").click()
        expect(frame.get_by_role("row").filter(has_text="sweep-209")).to_be_visible()
        tab.goto("about:blank")


def test_several_roots_are_entries_of_one_list(main_root, recorded, serve, tab):
    """Each is opened by itself, and named on every screen."""
    other = recorded("wide")
    page = serve(main_root, other)
    tab.goto(opening(page, "?screen=projects"))
    for project in ("vision/digits", "sweep", "wide"):
        expect(tab.get_by_role("link", name=project).first).to_be_visible()
    tab.get_by_role("link", name="wide").first.click()
    expect(tab.get_by_role("row").filter(has_text="wide")).to_be_visible()
