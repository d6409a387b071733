"""Layout: runs on the left, charts on the right, and the handle between them."""

from __future__ import annotations

import socket

import page_roots
from page_looking import expect, findings, opening, plotted
from page_process import until

SCROLLS = """
() => [document.documentElement, document.querySelector("main")].map((one) =>
  one.scrollHeight - one.clientHeight)
"""
"""The distance by which the page itself could be scrolled."""


def box(tab, place):
    return tab.locator(place).first.bounding_box()


def test_runs_left_charts_right_and_only_they_scroll(main_page, wide):
    wide.goto(opening(main_page, "?project=sweep&sort=-val/loss"))
    plotted(wide, "val/loss")
    heads = wide.locator("thead th > button")
    expect(heads.nth(2)).to_have_attribute("aria-label", "val/loss")  # sorted by: the first column
    assert box(wide, ".left") == {"x": 0, "y": 88, "width": 528, "height": 812}
    assert box(wide, ".right")["x"] == 533
    assert wide.evaluate(SCROLLS) == [0, 0]
    last = wide.locator("tbody tr").nth(25)
    last.get_by_role("link").hover()
    last.get_by_role("button", name="More about").click()
    at = wide.get_by_role("menu").bounding_box()
    assert 0 <= at["y"] <= 900 - at["height"]
    wide.keyboard.press("Escape")
    wide.locator(".sheet").evaluate("(one) => one.scrollTo(60, 1500)")
    assert box(wide, "thead .first")["y"] == 88
    assert [box(wide, f"thead {place}")["x"] for place in (".tick", ".first")] == [0, 52]
    assert wide.locator(".right").evaluate("(one) => one.scrollTop") == 0
    expect(wide.locator(".foot")).to_contain_text("200 of 210")
    expect(wide.get_by_role("button", name="CSV")).to_be_visible()
    assert findings(wide) == []


def test_the_handle_is_moved_by_mouse_and_keys_and_remembered(main_page, wide):
    wide.goto(opening(main_page, "?project=sweep"))
    handle = wide.get_by_role("separator", name="Size of the table")

    def is_at(now):
        expect(handle).to_have_attribute("aria-valuenow", now)

    is_at("528")
    at = handle.bounding_box()
    assert at["width"] == 5
    wide.mouse.move(at["x"] + 2, 400)
    wide.mouse.down()
    wide.mouse.move(702, 420, steps=3)
    wide.mouse.up()
    is_at("700")
    assert box(wide, ".left")["width"] == 700
    handle.press("ArrowLeft")
    is_at("684")
    wide.reload()
    is_at("684")
    for key, now in (("Home", "320"), ("ArrowLeft", "320"), ("End", "1008")):
        handle.press(key)
        is_at(now)
    assert handle.get_attribute("aria-valuemax") == "1008"
    for project, now in (("vision/digits", "528"), ("sweep", "1008")):
        wide.goto(opening(main_page, f"?project={project}"))
        is_at(now)
    handle.dblclick()
    is_at("528")
    wide.set_viewport_size({"width": 1000, "height": 800})
    expect(handle).to_have_attribute("aria-orientation", "horizontal")
    until(lambda: box(wide, ".left")["width"] == 1000)
    height = box(wide, ".left")["height"]
    handle.press("ArrowDown")
    until(lambda: box(wide, ".left")["height"] == height + 16)


def test_names_are_shortened_in_the_middle(recorded, serve_here, wide):
    root = recorded("few")
    names = [f"resnet18-cifar10-augmented-{end}" for end in ("seed1", "seed2", "🙂🙂🙂🙂🙂")]
    for name in (*names, page_roots.ARABIC, page_roots.HOSTILE):
        with page_roots.begin(str(root), "names", name, custom_run_id=None) as run:
            run["parameters/lr"] = 0.1
    wide.goto(opening(serve_here(root), "?project=names"))
    for name in names:
        link = wide.get_by_role("link", name=name, exact=True)
        expect(link).to_have_text(name)
        first, last = link.locator(".middle > *").all()
        assert first.evaluate("(one) => one.scrollWidth > one.clientWidth")
        assert last.evaluate("(one) => one.scrollWidth <= one.clientWidth")
    assert wide.get_by_role("link", name=page_roots.ARABIC).locator(".middle > *").count() == 1
    expect(wide.get_by_role("link", name="<img src=x")).to_have_text(page_roots.HOSTILE)


def test_a_phone_has_one_pane_at_a_time(main_page, new_profile):
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    tab = new_profile(**phone).new_page()
    tab.goto(opening(main_page, "?project=sweep"))
    row = tab.locator("tbody tr").first
    expect(row).to_be_visible()
    heads = tab.locator("table.runs thead button:visible")
    assert [one.get_attribute("aria-label") for one in heads.all()] == ["Name", "State", "Created"]
    at = tab.get_by_role("tablist", name="Runs or charts").bounding_box()
    assert at["y"] + at["height"] == 844
    assert min(at["height"], box(tab, "tbody tr")["height"]) >= 40
    tab.get_by_role("tab", name="Charts").tap()
    plotted(tab, "val/loss")
    expect(row).to_be_hidden()
    assert findings(tab) == []
    tab.keyboard.press("ArrowLeft")
    expect(tab.get_by_role("tab", name="Runs")).to_be_focused()
    expect(row).to_be_visible()
    tab.get_by_role("checkbox", name="Select sweep-209").tap()
    expect(tab.get_by_role("group", name="Selected runs")).to_be_visible()
    assert tab.evaluate(SCROLLS) == [0, 0]
    assert tab.evaluate("() => document.documentElement.scrollWidth") <= 390
    tab.goto(opening(main_page, "?project=vision/digits&sort=-train/loss"))
    expect(heads.nth(2)).to_have_attribute("aria-label", "train/loss")  # what it is sorted by
    expect(heads).to_have_count(3)
    tab.get_by_role("tab", name="Charts").tap()
    plotted(tab, "train/loss")
    lefts = "(all) => all.slice(0, 3).map((one) => one.getBoundingClientRect().left)"
    assert len(set(tab.locator(".charts-slot").evaluate_all(lefts))) == 1
    tab.get_by_role("tab", name="Runs").tap()
    tab.get_by_role("link", name="calm-heron").tap()
    tabs = tab.get_by_role("tablist", name="About this run").get_by_role("tab")
    expect(tab.get_by_role("tab", name="Journals")).to_be_attached()
    assert len(set(tabs.evaluate_all("(all) => all.map((one) => one.offsetTop)"))) == 1
    tab.get_by_role("tab", name="Journals").tap()
    expect(tab.get_by_role("tab", name="Journals", selected=True)).to_be_in_viewport()


MARKED = """# Why
Tries **warm-up** of `lr` and *cosine*; see https://example.org/a.
- one
- <img src=x onerror=alert(1)>

[a link](https://example.org/b), [no link](javascript:alert(1)), 2 * 3 * 4, __init__"""


def test_a_runs_page_shows_curves_beside_values(recorded, serve_here, wide):
    root = recorded("few")
    capture = {**page_roots.QUIET["capture"], "host": True}
    with page_roots.begin(str(root), "one", "one", custom_run_id="one", capture=capture) as run:
        run["sys/description"] = MARKED
        run["parameters"] = {"lr": 0.1, "width": 64}
        run["ranks/1/loss"].append(1.0)
        for step in range(20):
            scores = {f"{part}/{name}": step for part in ("train", "val", "test") for name in "xyz"}
            run.log_metrics({"val/acc": step % 7, "val/loss": 1 / (1 + step), **scores}, step=step)
    wide.goto(opening(serve_here(root), "?project=one"))
    wide.locator("tbody").get_by_role("link", name="one").click()
    expect(wide.locator(".run-head").get_by_role("heading", name="one")).to_be_visible()
    plotted(wide, "val/loss")
    expect(wide.locator(".overview-curves .charts-slot")).to_have_count(6)
    shown = wide.locator(".overview-values")
    heads = shown.locator("h2").all_inner_texts()
    assert [head.split()[-2] for head in heads[:2]] == ["parameters", "Metrics"]
    for path, best in {"val/acc": "6", "val/loss": "0.05", "test/x": ""}.items():
        row = wide.get_by_role("row").filter(has_text=path)
        expect(row.locator("td.best")).to_have_text(best)
    expect(shown.get_by_text("ranks/")).to_have_count(0)
    for text, count in {"val/*": 5, "/^test.[xy]$/": 2, "0.1 lr": 1}.items():
        wide.get_by_label("Filter values").fill(text)
        expect(shown.locator("tbody tr")).to_have_count(count)
    wide.get_by_label("Filter values").fill("")
    about = wide.locator(".markdown")
    assert about.locator("strong").all_inner_texts() == ["Why", "warm-up"]
    links = about.locator("a").evaluate_all("(all) => all.map((one) => one.href)")
    assert links == ["https://example.org/a.", "https://example.org/b"]
    assert about.locator("li").all_inner_texts() == ["one", "<img src=x onerror=alert(1)>"]
    expect(about).to_contain_text("2 * 3 * 4, __init__")
    assert findings(wide) == []
    wide.set_viewport_size({"width": 1440, "height": 500})
    wide.locator("main").evaluate("(one) => one.scrollTo(0, 400)")
    assert box(wide, ".run-tabs")["y"] == 44
    wide.get_by_role("link", name="All 11 charts").click()
    expect(wide.get_by_role("tab", name="Charts", selected=True)).to_be_visible()
    assert box(wide, ".run-tabs")["y"] >= 44
    wide.get_by_role("tab", name="System").click()
    expect(wide.get_by_text(f"Machine {socket.gethostname()}")).to_be_visible()
    expect(wide.get_by_text("No numbers of this kind were recorded.")).to_be_visible()


def test_panes_are_scrolled_as_before_after_reload_and_back(main_page, wide):
    tops = "() => [...document.querySelectorAll('.sheet, .right')].map((one) => one.scrollTop)"
    wide.goto(opening(main_page, "?project=vision/digits&sort=sys/name&q=train/loss >= 0"))
    plotted(wide, "train/loss")
    wide.set_viewport_size({"width": 1200, "height": 300})
    for place, top in ((".sheet", 60), (".right", 90)):
        wide.locator(place).evaluate("(one, top) => one.scrollTo(0, top)", top)
    until(lambda: wide.evaluate("() => history.state?.tops") == [60, 90])
    wide.reload()
    until(lambda: wide.evaluate(tops) == [60, 90])
    wide.get_by_role("link", name="calm-heron").first.click()
    expect(wide.get_by_role("tab", name="Overview")).to_be_visible()
    wide.go_back()
    until(lambda: wide.evaluate(tops) == [60, 90])


def test_sizes_are_in_the_address_and_can_be_forgotten(main_page, wide, new_profile):
    wide.goto(opening(main_page, "?project=sweep&widths=parameters/lr:150"))
    plotted(wide, "val/loss")
    wide.get_by_role("separator", name="Size of the table").press("ArrowRight")
    wide.get_by_role("button", name="Size of val/loss").press("ArrowDown")
    assert "split=37.78" in wide.url
    assert "sizes=val/loss:1x216" in wide.url
    wide.get_by_role("button", name="More", exact=True).click()
    wide.get_by_label("Charts beside each other").select_option("3")
    wide.keyboard.press("Escape")
    assert "sizes=:3x0,val/loss:1x216" in wide.url

    def sizes(tab):
        plotted(tab, "val/loss")
        columns = "(one) => one.style.getPropertyValue('--columns')"
        return [
            tab.get_by_role("separator").get_attribute("aria-valuenow"),
            round(box(tab, ".chart")["height"] / 20),
            tab.locator(".charts-grid").first.evaluate(columns),
        ]

    other = new_profile(viewport={"width": 1440, "height": 900}).new_page()
    other.goto(f"{wide.url}#token={main_page.token}")
    assert sizes(wide) == sizes(other) == ["544", 11, "3"]
    wide.get_by_role("button", name="View", exact=True).click()
    wide.get_by_role("button", name="Everything as at first").click()
    until(lambda: "sizes=" not in wide.url and "split=" not in wide.url)
    wide.reload()
    assert sizes(wide) == ["528", 10, "2"]
    kept = "Object.keys(localStorage).filter((one) => /widths|split|sizes/.test(one))"
    assert wide.evaluate(kept) == []
