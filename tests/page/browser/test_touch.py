"""The page under a finger."""

from __future__ import annotations

import pytest
from page_looking import chart, expect, findings, opening, plotted
from page_process import until


@pytest.fixture
def phone(new_profile, whole_browser):
    """A tab of a phone; in the headless shell a mouse leaves the chart after every tap."""
    small = {"width": 390, "height": 844}
    return new_profile(whole_browser, viewport=small, has_touch=True, is_mobile=True).new_page()


SCROLLED = "document.querySelector('.right').scrollTop"


def swipe(tab, x, y, across, down):
    """Put a finger down, move it and lift it."""
    session = tab.context.new_cdp_session(tab)
    for part in range(12):
        kind = {0: "touchStart", 11: "touchEnd"}.get(part, "touchMove")
        at = {"x": x + across * part / 10, "y": y + down * part / 10}
        points = [] if kind == "touchEnd" else [at]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    session.detach()


def test_a_finger_selects_rows_and_parts_of_charts(main_page, phone):
    phone.goto(opening(main_page, "?project=vision/digits&q=val/loss > 0"))
    phone.get_by_role("checkbox", name="Select quick-otter").tap()
    expect(phone.get_by_text("1 selected")).to_be_visible()
    phone.get_by_role("tab", name="Charts").tap()
    before = plotted(phone, "val/loss")["x"]
    over = chart(phone, "val/loss").locator(".u-over")
    over.evaluate("(element) => element.scrollIntoView({block: 'center'})")
    box = over.bounding_box()
    x, y = box["x"] + box["width"] / 4, box["y"] + box["height"] / 2
    phone.touchscreen.tap(x, y)
    tip = phone.locator(".chart-tip")
    expect(tip).to_contain_text("step")
    swipe(phone, x, y, box["width"] / 2, 0)
    found = plotted(phone, "val/loss", lambda found: found["x"] != before)["x"]
    assert before["min"] < found["min"] < found["max"] < before["max"]
    over.evaluate("(element) => element.scrollIntoView({block: 'center'})")
    box, at = over.bounding_box(), phone.evaluate(SCROLLED)
    swipe(phone, x, box["y"] + box["height"] / 2, 0, -120)
    until(lambda: phone.evaluate(SCROLLED) > at, 20)
    expect(tip).to_be_hidden()
    least = chart(phone, "val/loss").evaluate("(element) => element.uplot.scales.x.min")
    assert least == pytest.approx(found["min"])
    phone.goto(opening(main_page, "?project=vision/digits&q=sys/name = calm-heron"))
    phone.get_by_role("link", name="calm-heron").tap()
    expect(phone.get_by_role("heading", name="Metrics")).to_be_visible()
    expect(phone.locator(".scroll[tabindex='0']").first).to_be_visible()
    assert findings(phone) == []
