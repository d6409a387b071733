"""The page is opened: by its address with the token, by a link without, with a wrong one."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import page_roots
import pytest
from page_looking import address, expect, opening
from page_process import until

INDEX = Path(__file__).parents[3] / "src/seamark/page/static/index.html"
OPENING = re.findall(r'"static/@VERSION@/([\w./]+)"', INDEX.read_text(encoding="utf-8"))


def test_runs_that_are_read_while_it_opens_are_shown(tab, tmp_path):
    import page_served  # needs what the sessions that leave these tests out do not have

    with page_roots.begin(str(tmp_path), "early", "bird") as run:
        run.log_metrics({"train/loss": 0.25}, step=0)
    looked = []
    with page_served.page(tmp_path, look=False) as here:

        def first(route):
            if not looked:
                looked.append(here.watch.look())
            route.continue_()

        tab.route(re.compile("/changes"), first)
        tab.goto(f"{here.url}?project=early#token={page_served.TOKEN}")
        expect(tab.get_by_role("row").filter(has_text="bird")).to_contain_text("0.25")
        tab.goto("about:blank")


def test_a_link_asks_for_the_token_in_a_fresh_profile(main_page, tab, watched):
    watched.allow("401")
    tab.goto(address(main_page, "?project=sweep"))
    field = tab.get_by_role("textbox", name=re.compile("token", re.IGNORECASE))
    expect(field).to_be_visible()
    expect(tab.get_by_text("seamark ui --print-token")).to_be_visible()
    field.fill("seamark_wrong")
    field.press("Enter")
    expect(field).to_be_visible()
    expect(tab.get_by_role("table")).to_have_count(0)
    field.fill(main_page.token)
    field.press("Enter")
    expect(tab.get_by_role("table")).to_be_visible()
    expect(tab.get_by_role("row").filter(has_text="sweep-209")).to_be_visible()
    assert "project=sweep" in tab.url


@pytest.mark.parametrize("path", ["", "?run=x"])
def test_only_files_of_the_page_are_fetched_and_only_those_needed(path, main_page, tab, watched):
    """A request to another host fails every test."""
    watched.allow("404")  # there is no such run
    asked = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(opening(main_page, path))
    expect(tab.get_by_role("banner")).to_be_visible()
    names = set()

    def is_asked(name):
        tab.evaluate("0")  # what the browser has told by now is heard
        names.update(urlsplit(url).path.split("/")[-1] for url in asked)
        return name in names

    until(lambda: is_asked("run.js" if path else "views.js"))
    assert {urlsplit(url).netloc for url in asked} == {urlsplit(address(main_page)).netloc}
    assert "table.js" in names
    assert ("run.js" in names) == bool(path)
    files = {name for name in names if name.endswith((".js", ".css"))}
    assert bool(files - {Path(name).name for name in OPENING}) == bool(path)
    assert main_page.token not in tab.url  # neither in what is copied nor in what reload sends
    if not path:
        tab.reload()
        expect(tab.get_by_role("table")).to_be_visible()
        assert main_page.token not in tab.url
