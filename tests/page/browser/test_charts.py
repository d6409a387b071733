"""Charts show what was recorded, at every zoom."""

from __future__ import annotations

import re

import page_roots
import pytest
from page_looking import INK, PLOT, chart, expect, opening, plotted, zoomed
from page_process import until

import seamark


@pytest.fixture
def run_of(main_root):
    """Return a function that opens a run of `main_root` by its custom id."""

    def find(name, project="vision/digits"):
        given = {"root": main_root, "custom_run_id": name, "mode": "read-only"}
        return seamark.init_run(project, **given)

    return find


def opened(page, *runs, more=""):
    chosen = ",".join(run.id for run in runs)
    return opening(page, f"?project={runs[0].project}&selected={chosen}{more}")


def test_every_spike_and_every_nan_is_on_the_chart(main_page, tab, run_of):
    heron = run_of("heron")
    values, spikes, holes = page_roots.spiky()
    places = [[step, values[step]] for step in spikes] + [[step, None] for step in holes]
    tab.goto(opened(main_page, heron))
    found = plotted(tab, "spiky")
    expect(chart(tab, "spiky").get_by_text("1,000 NaN")).to_be_visible()
    for window in [None, (4_000, 9_000), (6_000, 6_500)]:
        found = found if window is None else zoomed(tab, "spiky", *window)
        low, high = found["x"]["min"], found["x"]["max"]
        inner = (high - low) / 100
        shown = [place for place in places if low + inner < place[0] < high - inner]
        assert shown
        until(lambda shown=shown: chart(tab, "spiky").evaluate(INK, shown) == [])


def test_a_selected_run_is_not_without_points_while_answers_are_awaited(main_page, tab):
    tab.goto(opening(main_page, "?project=sweep"))
    plotted(tab, "val/loss")
    held = []

    def hold(route):
        held.append(route)

    for number, last in enumerate(["series_paths", "attempts", "curves"], 13):
        tab.route(f"**/read/{last}", hold)
        tab.get_by_role("checkbox", name=f"Select sweep-{number:03}").check()
        until(lambda: tab.wait_for_timeout(20) or held)
        tab.wait_for_timeout(300)  # the others are answered and drawn
        expect(tab.get_by_text("no points")).to_have_count(0)
        for route in held:
            route.continue_()
        held.clear()
        tab.unroute_all()
        plotted(tab, "val/loss", lambda found, n=number: found["data"][1][-1] == n + 0.2)
        tab.get_by_role("checkbox", name=f"Select sweep-{number:03}").uncheck()


def test_points_means_replaced_points_and_logarithmic_axes(main_page, tab, run_of):
    """Few points are those of Python; of many, each place has the mean of its points."""
    otter = run_of("otter")
    tab.goto(opened(main_page, otter))
    points = otter["val/loss"].fetch_points()
    assert plotted(tab, "val/loss")["data"] == [points.step.tolist(), points.value.tolist()]

    points = otter["train/loss"].fetch_points()
    steps, values = plotted(tab, "train/loss")["data"]
    assert 200 < len(steps) <= len(points)
    for at in (0, len(steps) // 2, len(steps) - 2):
        low, high = steps[at], steps[at + 1]
        near = points.value[(points.step >= 2 * low - high) & (points.step <= 2 * high - low)]
        assert near.min() <= values[at] <= near.max()

    tab.get_by_role("button", name="More", exact=True).click()
    tab.get_by_label("replaced points").check()
    found = plotted(tab, "train/loss", lambda found: len(found["data"]) == 3)
    replaced = {
        x: y for x, y in zip(found["data"][0], found["data"][2], strict=True) if y is not None
    }
    assert {round(y, 9) for y in replaced.values()} == {5.0}
    assert 4_000 <= min(replaced) <= max(replaced) <= 4_411
    expect(chart(tab, "train/loss").get_by_text("412 replaced points dashed")).to_be_visible()
    dashes = [dash for _, _, dash, _ in chart(tab, "train/loss").evaluate(STYLED)]
    assert [dash != "" for dash in dashes] == [False, True]
    assert "attempts=1" in tab.url
    for name in ("log x", "robust"):
        tab.get_by_label(name).check()
        expect(tab).to_have_url(re.compile(f"{name.replace(' ', '')}=1"))
        tab.get_by_label(name).uncheck()
    tab.get_by_role("button", name="Fold all sections").click()
    expect(tab.locator(".chart")).to_have_count(0)
    tab.get_by_role("button", name="Unfold all sections").click()
    tab.keyboard.press("Escape")

    plotted(tab, "val/loss")
    place = chart(tab, "val/loss")
    place.get_by_role("img").first.focus()
    tab.keyboard.press("ArrowRight")
    expect(place.locator("[aria-live]")).to_contain_text(re.compile(r"\d"))
    tab.keyboard.press("t")
    values = place.get_by_role("region", name="Values")
    expect(values).to_be_focused()
    tab.keyboard.press("Escape")
    expect(place.get_by_role("img")).to_be_focused()
    place.get_by_role("button", name="More of").click()
    tab.get_by_role("button", name="As table").click()
    table = values.get_by_role("table")
    expect(table.get_by_role("row")).to_have_count(11)
    expect(table.get_by_text("0.043478260869565216")).to_be_visible()

    # The first decades of a long run have points, which linear parts would make one of.
    tab.goto(opened(main_page, otter, more="&logx=1&logy=1"))
    steps, values = plotted(tab, "train/loss", lambda found: min(found["data"][0]) >= 1)["data"]
    for low in (10, 100, 1_000):
        assert sum(low <= step < 10 * low for step in steps) >= 20
    assert all(value is None or value > 0 for value in values)


WRITTEN = """
window.written = [];
const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  window.written.push([this.canvas, String(text), x]);
  return write.call(this, text, x, y);
};
"""
"""Notes what is written on canvases, and where."""
TICKS = """
(element, places) => {
  const u = element.uplot;
  const there = window.written.filter(([canvas]) => u && canvas === u.ctx.canvas);
  return places.filter(([text, at]) => there.some(([, one, x]) =>
    one === text && Math.abs(x - u.valToPos(at, "x", true)) < 6));
}
"""
"""The marks of attempts, of some with their places on x, that are drawn on a chart now."""


def test_each_attempt_is_marked_where_it_begins(serve_here, tab, tmp_path):
    root = tmp_path / "runs"
    run = page_roots.begin(str(root), "long", "thrice", custom_run_id="thrice")
    for first in (0, 10_000, 20_000):
        for step in range(first, first + 10_000):
            run.log_metrics({"train/loss": 1 / (1 + step)}, step=step)
        state = run.checkpoint_state()
        for step in range(first + 10_000, first + 10_100) if first < 20_000 else ():
            run.log_metrics({"train/loss": 0.5}, step=step)
        run.stop()
        if first < 20_000:
            again = page_roots.make_run(project="long", root=str(root), **page_roots.QUIET)
            run = again.resumed(state)
    run = seamark.init_run("long", root=root, custom_run_id="thrice", mode="read-only")
    points = run["train/loss"].fetch_points()
    assert len(points) == 30_000
    steps = [["↻2", 10_000], ["↻3", 20_000]]
    times = [[name, points.time_ns[step].item() / 1e9] for name, step in steps]
    tab.add_init_script(WRITTEN)

    def marked(places):
        return until(lambda: chart(tab, "train/loss").evaluate(TICKS, places) == places)

    page = serve_here(root)
    tab.goto(opened(page, run))
    plotted(tab, "train/loss")
    marked(steps)
    tab.goto(opened(page, run, more="&x=time"))
    plotted(tab, "train/loss", lambda found: found["x"]["min"] > 1e9)
    marked(times)


TOLD = """
(element) => {
  const u = element.uplot, tip = document.querySelector(".chart-tip");
  const rows = [...tip.querySelectorAll("tr")];
  return {
    x: u.posToVal(u.cursor.left, "x"),
    title: tip.firstChild.textContent,
    hidden: tip.hidden,
    rows: rows.map((row) => [...row.cells].map((one) => one.textContent)),
  };
}
"""
"""The place of the crosshair of a chart, and the text beside it."""


def nearest(points, x):
    """Return step and value of the point nearest to an x, as Python reads and the page writes."""
    at = int(abs(points.step - x).argmin())
    return f"{points.step[at]:.0f}", repr(float(points.value[at])).replace("nan", "NaN")


@pytest.mark.parametrize(
    "more",
    [
        "",
        *(pytest.param(f"&{one}", marks=pytest.mark.thorough) for one in ("logx=1", "smooth=500")),
    ],
)
def test_the_number_beside_the_pointer_is_exact(more, main_page, tab, run_of):
    otter, heron = run_of("otter"), run_of("heron")
    recorded = {
        "quick-otter train/loss": otter["train/loss"].fetch_points(),
        "calm-heron spiky": heron["spiky"].fetch_points(),
    }
    tab.goto(opened(main_page, otter, heron, more=f"&pinned=spiky%0Atrain/loss{more}"))
    place, label = chart(tab, "spiky train/loss"), tab.locator('[data-label="spiky + train/loss"]')

    def drawn():
        label.scroll_into_view_if_needed()
        found = place.count() and place.evaluate(PLOT)
        return found and len(found["data"]) == 4

    until(drawn)
    expect(tab.locator(".chart[aria-busy=true]")).to_have_count(0)
    box = place.locator(".u-over").bounding_box()
    for part in (0.11, 0.2, 0.62):
        tab.mouse.move(5, 5)
        tab.mouse.move(box["x"] + box["width"] * part, box["y"] + 40)
        expect(tab.locator(".chart-tip")).to_be_visible()
        at = place.evaluate(TOLD)["x"]
        wanted = {
            name: nearest(points, at) for name, points in recorded.items() if at <= points.step[-1]
        }

        def told(wanted=wanted):
            rows = {row[1]: row[2:] for row in place.evaluate(TOLD)["rows"]}
            return {
                name: (value in rows[name][1] if "smooth" in more else value == rows[name][0])
                and any(step in text for text in (place.evaluate(TOLD)["title"], rows[name][1]))
                for name, (step, value) in wanted.items()
            }

        until(lambda told=told: all(told().values()))
    tab.mouse.move(5, 5)
    assert place.evaluate(TOLD)["hidden"]


STROKES = """
(element) => {
  const canvas = document.createElement("canvas").getContext("2d");
  return element.uplot.series.slice(1).map((one) => {
    canvas.fillStyle = one.stroke();
    const n = parseInt(canvas.fillStyle.slice(1), 16);
    return `rgb(${n >> 16}, ${(n >> 8) & 255}, ${n & 255})`;
  });
}
"""
"""The colours of the lines of a chart."""

STYLED = """
(element) => {
  const canvas = document.createElement("canvas").getContext("2d");
  return element.uplot.series.slice(1).map((one) => {
    canvas.strokeStyle = one.stroke();
    return [one.label, canvas.strokeStyle, one.dash ? one.dash.join() : "", one.width];
  });
}
"""
"""Name, colour, dash and width of the lines of a chart, in the order of drawing."""


def styled(tab, path, count):
    """Return the styles of the lines of a chart, once it has so many."""
    plotted(tab, path, lambda found: len(found["data"]) == count + 1)
    return {name: rest for name, *rest in chart(tab, path).evaluate(STYLED)}


def test_a_run_keeps_its_hue(main_page, tab, run_of):
    runs = [run_of(f"s{number:03}", "sweep") for number in range(4)]
    names = [f"sweep-{number:03}" for number in range(4)]

    def hues(*shown):
        found = styled(tab, "val/loss", len(shown))
        return [found[names[number]][0] for number in shown]

    tab.emulate_media(color_scheme="light")
    tab.goto(opened(main_page, *runs))
    light = ["#504cd8", "#33a596", "#d52d42", "#397fc7"]
    assert hues(0, 1, 2, 3) == light
    until(lambda: tab.url.count("colour=") == 4)
    link = tab.url
    tab.goto(opened(main_page, runs[3], runs[1]))
    assert hues(3, 1) == [light[3], light[1]]
    tab.emulate_media(color_scheme="dark")
    until(lambda: hues(1, 3) == ["#17f7d1", "#72c0fd"])
    tab.emulate_media(color_scheme="light")
    tab.goto(opening(main_page, f"?project=sweep&run={runs[2].id}&tab=charts"))
    assert [one[0] for one in styled(tab, "val/loss", 1).values()] == [light[2]]
    tab.evaluate("localStorage.removeItem('seamark:hues')")
    tab.goto(link + "&selected=" + ",".join(run.id for run in runs[::-1]))
    assert hues(0, 1, 2, 3) == light


def test_hues_are_used_three_times_and_further_runs_are_grey(main_page, tab, run_of):
    runs = [run_of(f"s{number:03}", "sweep") for number in range(40)]
    grey = "rgba(133, 139, 148, 0.35)"
    tab.emulate_media(color_scheme="light")
    tab.goto(opened(main_page, *runs))
    plotted(tab, "val/loss", lambda found: len(found["data"]) == 41)
    lines = chart(tab, "val/loss").evaluate(STYLED)
    assert [one[:2] for one in lines[:10]] == [[f"sweep-{n:03}", grey] for n in range(30, 40)]
    assert {one[3] for one in lines} == {1}
    coloured = [tuple(one[1:3]) for one in lines[10:]]
    assert len(set(coloured)) == 30
    assert [dash for _, dash in coloured] == [""] * 10 + ["7,4"] * 10 + ["2,3"] * 10
    legend = tab.get_by_label("Runs that are drawn")
    legend.get_by_text("+").click()
    legend.get_by_role("button", name="sweep-035", exact=True).hover()
    until(lambda: chart(tab, "val/loss").evaluate(STYLED)[5][1] != grey)


LEGEND = """
(list) => [...list.querySelectorAll("li.charts-value")].map((one) => [
  one.querySelector("bdi").textContent,
  getComputedStyle(one.querySelector("i")).backgroundColor,
])
"""
"""The values that colours stand for."""
SWATCHES = """
() => [...document.querySelectorAll(".swatch.on")].map(
  (one) => getComputedStyle(one).backgroundColor)
"""


def test_runs_and_groups_are_coloured_by_a_value(main_page, tab, run_of):
    runs = [run_of(f"s{number:03}", "sweep") for number in range(6)]
    tab.goto(opened(main_page, *runs, more="&cols=parameters/lr&q=val/loss < 6"))
    plotted(tab, "val/loss", lambda found: len(found["data"]) == 7)
    each = chart(tab, "val/loss").evaluate(STROKES)
    assert len(set(each)) == 6
    tab.get_by_role("button", name="Colour by").click()
    tab.get_by_role("group", name="Colour by").get_by_label("parameters/lr").check()
    key = tab.get_by_label("What colours stand for")
    expect(key).to_be_visible()
    tab.keyboard.press("Escape")  # the box that was checked has the focus still
    expect(tab.get_by_role("group", name="Colour by")).to_have_count(0)
    assert "by=parameters/lr" in tab.url
    tab.mouse.move(5, 5)  # what is below the menu is not pointed at
    for _ in range(2):
        until(lambda: len(set(chart(tab, "val/loss").evaluate(STROKES))) == 4)
        colours = chart(tab, "val/loss").evaluate(STROKES)
        assert colours == [*colours[:4], *colours[:2]]
        values = ["0.0001", "0.001", "0.01", "0.1"]
        assert key.evaluate(LEGEND) == [
            list(one) for one in zip(values, colours[3::-1], strict=True)
        ]
        until(lambda colours=colours: sorted(tab.evaluate(SWATCHES)) == sorted(colours))
        tab.reload()  # the address is all that there is
        plotted(tab, "val/loss", lambda found: len(found["data"]) == 7)
        expect(key).to_be_visible()
    tab.get_by_role("button", name="Colour by parameters/lr").click()
    tab.get_by_role("button", name="By run").click()
    until(lambda: chart(tab, "val/loss").evaluate(STROKES) == each)
    expect(key).to_have_count(0)

    asked = "?project=sweep&group=parameters/lr,parameters/seed&by=parameters/lr"
    tab.goto(opening(main_page, asked))
    plotted(tab, "val/loss", lambda found: len(found["data"]) > 5)
    until(lambda: len(key.evaluate(LEGEND)) > 1)
    of = {colour for _, colour in key.evaluate(LEGEND)}
    until(lambda: set(chart(tab, "val/loss").evaluate(STROKES)) == of)


def test_few_of_a_thousand_charts_are_drawn_at_a_time(recorded, serve_here, tab):
    page = serve_here(recorded("wide"))
    tab.goto(opening(page, "?project=wide"))
    expect(tab.get_by_placeholder("Filter 1,000 charts")).to_be_visible()
    alive = "() => [...document.querySelectorAll('.chart')].filter((one) => one.uplot).length"
    until(lambda: tab.evaluate(alive) > 0)
    for _ in range(20):
        tab.mouse.wheel(0, 6_000)
        assert tab.evaluate(alive) <= 24
    tab.get_by_label("Filter charts").fill("m0777")
    assert plotted(tab, "part7/m0777")["data"][1] == [777, 778, 779]


def names(tab, path, count):
    """Return the lines of a chart, once it has so many."""
    plotted(tab, path, lambda found: len(found["data"]) == count + 1)
    return [name for name, *_ in chart(tab, path).evaluate(STYLED)]


def test_the_first_ten_of_the_table_are_drawn(main_page, tab, run_of):
    tab.goto(opening(main_page, "?project=sweep&sort=val/loss"))
    assert names(tab, "val/loss", 10) == [f"sweep-{number:03}" for number in range(10)]
    expect(chart(tab, "val/loss").get_by_text("10 of 210 runs")).to_be_visible()
    tab.get_by_role("checkbox", name="Select sweep-004").check()
    assert names(tab, "val/loss", 1) == ["sweep-004"]
    tab.goto(opened(main_page, run_of("heron"), run_of("otter")))
    plotted(tab, "val/loss")
    titles = "(all) => all.map((one) => one.dataset.label)"
    cards = tab.locator(".charts-slot").evaluate_all(titles)
    assert cards == ["val/loss", "val/acc", "train/loss", "train/epoch", "spiky"]


def test_a_chart_can_be_sized_and_fill_the_screen(main_page, wide, run_of):
    asked: set[int] = set()

    def note(request):
        given = request.post_data_json if request.url.endswith("/curves") else None
        if given and given["paths"] == ["val/loss"]:
            asked.add(given["px"])

    wide.on("request", note)
    wide.goto(opened(main_page, run_of("otter"), run_of("heron")))
    plotted(wide, "val/loss")
    place = chart(wide, "val/loss")

    def has_size(*sizes):
        def holds():
            box = place.bounding_box()
            return (round(box["width"]), round(box["height"])) in sizes

        until(holds)

    has_size((442, 196))
    place.get_by_label("Size of val/loss").focus()
    wide.keyboard.press("ArrowRight")
    wide.keyboard.press("ArrowDown")
    has_size((891, 216), (892, 216))
    wide.reload()
    plotted(wide, "val/loss")
    has_size((891, 216), (892, 216))
    place.get_by_label("Size of val/loss").dblclick()
    has_size((442, 196))
    corner = place.get_by_label("Size of val/loss").bounding_box()
    wide.mouse.move(corner["x"] + 12, corner["y"] + 12)
    wide.mouse.down()
    wide.mouse.move(corner["x"] + 12, corner["y"] + 880)
    has_size((442, 600))
    wide.mouse.move(corner["x"] + 12, corner["y"] + 92)
    wide.mouse.up()
    has_size((442, 276))
    place.get_by_role("button", name="Full screen val/loss").click()
    has_size((1440, 900))
    until(lambda: place.evaluate("(one) => one.uplot.height") > 800)
    until(lambda: max(asked) == 1500)
    wide.keyboard.press("Escape")
    has_size((442, 276))
    for pinned in ("true", "false"):
        place.get_by_role("button", name="Pin val/loss").press("Enter")
        expect(place.locator(".chart-tool").first).to_have_attribute("aria-pressed", pinned)
        expect(place.locator(".chart-tool").first).to_be_focused()


def test_the_legend_hides_and_isolates_runs(main_page, tab, run_of):
    tab.goto(opened(main_page, *(run_of(f"s{number:03}", "sweep") for number in range(20))))
    assert len(names(tab, "val/loss", 20)) == 20
    legend = tab.get_by_label("Runs that are drawn")
    legend.get_by_role("button", name=re.compile(r"^\+\d+$")).click()
    button = legend.get_by_role("button", name="sweep-003", exact=True)
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    assert "sweep-003" not in names(tab, "val/loss", 19)
    button.click()
    names(tab, "val/loss", 20)
    button.dblclick()
    assert names(tab, "val/loss", 1) == ["sweep-003"]
    button.press("Alt+Enter")
    names(tab, "val/loss", 20)
    button.hover()
    legend.get_by_role("button", name="Open sweep-003").click()
    expect(tab.get_by_role("heading", level=1)).to_contain_text("sweep-003")
