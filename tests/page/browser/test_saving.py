"""Saved pages: one file that needs no server, and pictures of all charts."""

from __future__ import annotations

import base64
import re
from xml.etree import ElementTree as ET

from page_looking import chart, expect, findings, opening, plotted
from page_process import until

SVG = "{http://www.w3.org/2000/svg}"
METRICS = ["<b>]]>&amp;", *sorted(f"part{n % 2}/m{n}" for n in range(9))]
ROWS = """
(table) => [...table.rows].slice(1).map((row) => [...row.cells].flatMap((cell) => {
  if (!cell.matches(".numeric")) return [];
  const shown = cell.querySelector("[data-shown]")?.dataset.shown ?? cell.textContent;
  return [[shown.trim(), cell.title]];
}))
"""
"""The numbers of a table, as they are shown and in full."""
DRAWN = """
(element) => element.uplot.series.slice(1).map((one, at) => {
  const values = element.uplot.data[at + 1];
  const points = values.filter((value) => value !== undefined && value !== null).length;
  const isThere = (value) => value !== null && value !== undefined;
  const isFirst = (value, n) => isThere(value) && (n === 0 || values[n - 1] === null);
  return [one.label, values.filter(isFirst).length, points];
})
"""
"""The lines of a chart: their names, and the number of their pieces and points."""
PATHS = """
(element) => [...element.querySelectorAll("path:has(title)")].map((one) => {
  const d = one.getAttribute("d");
  return [one.textContent, d.match(/M/g).length, d.match(/[ML]/g).length];
})
"""
"""The same of a chart that was saved."""
IMAGE = """
async (data) => {
  const bytes = Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
  const image = await createImageBitmap(new Blob([bytes]));
  const canvas = new OffscreenCanvas(image.width, image.height);
  const ctx = canvas.getContext("2d");
  ctx.drawImage(image, 0, 0);
  const pixels = new Uint32Array(ctx.getImageData(0, 0, image.width, image.height).data.buffer);
  const { width, height } = image;
  return { width, height, corner: pixels[0] >>> 0, inks: new Set(pixels).size };
}
"""


def saved(tab, folder, item):
    """Return the file that the click on an item saves."""
    with tab.expect_download(timeout=60_000) as coming:
        item.click()
    path = folder / coming.value.suggested_filename
    coming.value.save_as(path)
    return path


def save(tab, what, folder):
    """Choose something from the menu, and return the file that is saved."""
    tab.get_by_role("button", name="Save", exact=True).click()
    return saved(tab, folder, tab.get_by_role("menuitem", name=what))


def lines_of(figure):
    """Return the lines of a chart, as `DRAWN` does."""
    found = []
    for path in figure.iter(f"{SVG}path"):
        if (title := path.find(f"{SVG}title")) is not None:
            d = path.get("d")
            found.append([title.text, d.count("M"), len(re.findall("[ML]", d))])
    return found


def pictured(path):
    """Return the charts of a picture by their titles, in their order."""
    found, title = {}, None
    for element in ET.parse(path).getroot():
        if element.tag == f"{SVG}text" and element.get("font-size") == "13":
            title = element.text
        elif title and element.find(f"{SVG}g") is not None:
            found[title] = element
    return found


def test_a_saved_page_shows_the_same_without_a_server(
    saved_page, tab, new_profile, watched, tmp_path
):
    # The table may be asked for before the short name in the address is replaced.
    watched.allow("asked elsewhere: file:", "422 (Unprocessable Entity)")
    tab.emulate_media(color_scheme="dark")
    tab.goto(opening(saved_page, "?project=saved&logy=1&cols=parameters/rate,part0/m2&q=rate > 0"))
    legend = tab.get_by_role("list", name="Runs that are drawn")
    legend.get_by_role("button", name="twin", exact=True).first.click()
    shown = {}
    for path in METRICS:
        plotted(tab, path, lambda found: len(found["data"]) == 4)
        shown[path] = chart(tab, path).evaluate(DRAWN)
        assert [(pieces, points) for _, pieces, points in shown[path]] == [(3, 37)] * 3
    rows = tab.locator(".runs").evaluate(ROWS)
    svg = save(tab, "SVG", tmp_path)
    drawn = pictured(svg)
    assert {title: lines_of(one) for title, one in drawn.items()} == shown
    page = save(tab, "HTML", tmp_path)
    assert page.name == "saved.html"
    assert chart(tab, METRICS[1]).count() == 1  # what was drawn to be saved is gone

    away = new_profile(color_scheme="light", offline=True).new_page()
    away.goto(page.as_uri())
    assert away.title() == "saved"
    assert away.locator("script, [src], link").count() == 0
    assert "default-src 'none'" in away.locator("meta[http-equiv]").get_attribute("content")
    table = away.locator("table")
    assert len(rows) == 4
    assert table.evaluate(ROWS) == rows
    for name in ("]]></style><script>document.title='owned'</script>", "twin"):
        expect(table.get_by_text(name, exact=True)).to_be_visible()
    expect(away.locator("li.gone")).to_have_text("twin")
    expect(away.get_by_text("Query: parameters/rate > 0")).to_be_visible()
    # All digits are copied.
    table.evaluate("(table) => getSelection().selectAllChildren(table)")
    text = away.evaluate("() => String(getSelection())")
    exact = [title for row in rows for _, title in row]
    assert any(len(one) > 8 for one in exact)
    assert [one for one in exact if one not in text] == []
    figures = away.locator("figure")
    assert figures.locator("b").all_inner_texts() == list(shown)
    assert [one.evaluate(PATHS) for one in figures.all()] == list(shown.values())
    assert findings(away) == []
    ground = "() => getComputedStyle(document.body).backgroundColor"
    assert away.evaluate(ground) == "rgb(255, 255, 255)"
    away.emulate_media(color_scheme="dark")
    assert away.evaluate(ground) == "rgb(20, 24, 29)"
    assert findings(away) == []


def test_pictures_of_charts_have_bands_and_a_size(saved_page, tab, tmp_path):
    tab.emulate_media(color_scheme="dark")
    tab.goto(opening(saved_page, "?project=saved&group=parameters/width&stat=median-se"))
    plotted(tab, METRICS[1], lambda found: len(found["data"]) == 3)
    svg = save(tab, "SVG", tmp_path)
    drawn = pictured(svg)
    assert list(drawn) == METRICS
    assert "median ± standard error" in svg.read_text(encoding="utf-8")
    for one in drawn.values():
        assert sorted(name for name, *_ in lines_of(one)) == ["width 16", "width 32"]
        fills = [path.get("fill-opacity") for path in one.iter(f"{SVG}path")]
        assert fills.count("0.17") == 2
    png = save(tab, "PNG", tmp_path)
    picture = tab.evaluate(IMAGE, base64.b64encode(png.read_bytes()).decode())
    root = ET.parse(svg).getroot()
    sizes = [2 * int(root.get(side)) for side in ("width", "height")]
    assert [picture["width"], picture["height"]] == sizes
    assert (picture["corner"], picture["inks"] > 50) == (0xFFFFFFFF, True)
    first = chart(tab, METRICS[1])
    first.hover()
    first.get_by_role("button", name="More of").click()
    alone = saved(tab, tmp_path, first.get_by_role("button", name="Save as SVG"))
    assert lines_of(pictured(alone)[METRICS[1]]) == lines_of(drawn[METRICS[1]])
    # It is on the screen as before.
    until(lambda: first.evaluate("(one) => one.uplot.series[1]._paths?.stroke instanceof Path2D"))
    # No value, NaN and two that look the same are four groups, which may differ in another value.
    tab.goto(opening(saved_page, "?project=saved&group=parameters/near&by=parameters/width"))
    plotted(tab, METRICS[1], lambda found: len(found["data"]) == 5)
    assert tab.get_by_label("What colours stand for").count() == 0


def test_a_saved_page_has_the_meaning_of_colours_and_the_best(
    saved_page, compare_page, tab, new_profile, watched, tmp_path
):
    watched.allow("asked elsewhere: file:")
    tab.goto(opening(saved_page, "?project=saved&by=parameters/width&cols=parameters/width"))
    expect(tab.get_by_label("What colours stand for")).to_be_visible()
    plotted(tab, METRICS[1], lambda found: len(found["data"]) == 5)
    away = new_profile(offline=True).new_page()
    away.goto(save(tab, "HTML", tmp_path).as_uri())
    keys = away.locator("body > .keys li")
    expect(keys).to_have_text(["parameters/width: 16", "parameters/width: 32"])

    tab.goto(opening(compare_page, "?project=many&screen=compare&q=parameters/seed < 2&selected=*"))
    expect(tab.locator("td.best").first).to_be_visible()
    away.goto(save(tab, "HTML", tmp_path).as_uri())
    assert away.title() == "Compare 2 runs"
    mark = "(one) => getComputedStyle(one, '::before').content"
    assert "▲" in away.locator("td.best").first.evaluate(mark)
