"""Questions about a browser's tab."""

from __future__ import annotations

from pathlib import Path

from page_process import until

_AXE = Path(__file__).parents[1] / "page" / "browser" / "vendor" / "axe.min.js"
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
_LIKE_OTHERS = "tbody > tr:nth-child(n + 21)"
"""Rows of long tables are made as those before them, and axe needs milliseconds for each cell."""
PLOT = """
(element) => element.uplot && {
  data: element.uplot.data.map((one) => [...one]),
  x: element.uplot.scales.x,
  y: element.uplot.scales.y,
}
"""
"""A chart's uPlot: what it holds, and from where to where it goes."""
INK = """
(element, places) => {
  const u = element.uplot, {ctx, bbox} = u;
  const image = ctx.getImageData(0, 0, ctx.canvas.width, ctx.canvas.height);
  const coloured = (x, y) => {
    if (x < 0 || y < 0 || x >= image.width || y >= image.height) return false;
    const at = 4 * (Math.round(y) * image.width + Math.round(x));
    const [r, g, b, a] = image.data.subarray(at, at + 4);
    return a > 0 && Math.max(r, g, b) - Math.min(r, g, b) > 8;
  };
  const bottom = bbox.top + bbox.height;
  return places.filter(([x, y]) => {
    const across = u.valToPos(x, "x", true);
    const down = y === null ? bottom : u.valToPos(y, "y", true);
    for (let dx = -3; dx <= 3; dx += 1) {
      for (let dy = y === null ? -14 : -3; dy <= 3; dy += 1) {
        if (coloured(across + dx, down + dy)) return false;
      }
    }
    return true;
  });
}
"""
"""Those of some places of a chart without colour near them; y null: ticks above its foot."""


def expect(*given):
    """Return Playwright's assertions; the sessions that leave out these tests lack its module."""
    from playwright.sync_api import expect

    return expect(*given)


def rows(tab):
    return tab.locator("table.runs tbody tr")


def head(tab, name):
    return tab.get_by_role("columnheader", name=name, exact=True)


def address(page, asked=""):
    return f"http://127.0.0.1:{page.port}/{asked}"


def opening(page, asked=""):
    return f"{address(page, asked)}#token={page.token}"


def chart(tab, path):
    return tab.locator(f'.chart[data-paths="{path}"]')


def plotted(tab, path, fits=bool):
    """Return what the uPlot of a chart holds, once it is drawn and is what is asked."""
    place = chart(tab, path)

    def look():
        # It is drawn in view, out of which what comes above it may move it again.
        tab.locator(f'[data-label="{path}"]').scroll_into_view_if_needed()
        found = place.count() and place.evaluate(PLOT)
        return found if found and fits(found) else None

    return until(look)


def zoomed(tab, path, low, high):
    """Drag over a part of a chart, as a person zooms, and return what it holds then."""
    before = plotted(tab, path)
    box = chart(tab, path).locator(".u-over").bounding_box()
    width = before["x"]["max"] - before["x"]["min"]
    y = box["y"] + box["height"] / 2
    for at, step in ((low, "down"), (high, "up")):
        x = box["x"] + box["width"] * (at - before["x"]["min"]) / width
        tab.mouse.move(x, y, steps=4)
        getattr(tab.mouse, step)()
    return plotted(tab, path, lambda found: found["x"] != before["x"])


def findings(tab):
    """Return what axe finds against WCAG 2.2 AA: its rule, and where."""
    tab.evaluate(_AXE.read_text(encoding="utf-8"))
    found = tab.evaluate(
        "([tags, rows]) =>"
        " axe.run({ exclude: [[rows]] }, { runOnly: { type: 'tag', values: tags } })",
        [_RULES, _LIKE_OTHERS],
    )
    return [
        (one["id"], node["target"], node["failureSummary"][:300])
        for one in found["violations"]
        for node in one["nodes"]
    ]
