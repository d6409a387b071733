"""Looking around in a run: ``in``, loops, keys that are proposed, and what a notebook shows."""

from __future__ import annotations

import base64
import contextlib
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from recording import QUIET

from seamark import init_project, init_run
from seamark.errors import FamilyError, MissingFieldError
from seamark.pictures.notebook import _image_html, image_type
from seamark.pictures.render import png
from seamark.reading.html import text
from seamark.reading.text import file_text
from seamark.run.run import make_run
from seamark.types import File

HOSTILE = "<img src=x onerror=alert(1)> $\\href{x}{y}$ \u202e\ud800\x1b[31m"


@pytest.fixture
def run(tmp_path):
    started = init_run("team/x", name="quick <b>otter</b>", root=tmp_path, tags=["<i>"], **QUIET)
    started["params/lr"] = 0.1
    started["params/name"] = HOSTILE.replace("\ud800", "")
    started["train"].log_metrics({"loss": 0.5, "acc": 0.1})
    started["train/loss"].extend([0.25, float("nan"), float("inf"), 0.125])
    started["notes"].extend(["first", "<script>alert(2)</script>"])
    started["histogram"].append(File.from_content("x", extension="html"))
    started["picture"].upload(File.as_image(np.zeros((4, 4, 3))), wait=True)
    started["page"].upload(File.from_content("<b>page</b>", extension="png"), wait=True)
    started["files"].upload_files([__file__], wait=True)
    started["text"] = "line\n" * 3
    yield started
    started.stop()


@pytest.fixture
def project(tmp_path, run):
    with init_project("team/x", root=tmp_path) as opened:
        yield opened


class Tags(HTMLParser):
    """The tags and words that a browser finds in a piece of HTML."""

    def __init__(self, text):
        super().__init__()
        self.found, self.open, self.words = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in ("img", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


ALLOWED = {
    "div", "b", "table", "thead", "tr", "th", "td", "svg", "polygon", "polyline", "code", "pre",
    "img",
}  # fmt: skip


def page_of(thing):
    """Return what a notebook gets, after looking that it is harmless."""
    page = thing._repr_html_()
    page.encode()  # no half of a surrogate pair
    tags = Tags(page)
    assert {tag for tag, _ in tags.found} <= ALLOWED
    for _, attributes in tags.found:
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("src", "data:image/").startswith("data:image/")
        assert "href" not in attributes
    assert "mathjax_ignore" in tags.found[0][1]["class"]
    assert not re.search("#[0-9a-f]{3,6}|rgb|color:(?!inherit)|url\\(|https?:", page)
    return page, " ".join(tags.words)


def test_in_and_loops_are_about_paths(run, project):
    """A loop gives the names one level below; of a value or of nothing it is an error."""
    project["config/depth"] = 3
    places = (run, "train/loss"), (run, "train"), (run["train"], "loss"), (project, "config")
    assert [name in place for place, name in places] == [True] * 4
    places = (run["train"], "los"), (run, "a//b"), (run, 0), (run["train"], None)
    assert [name in place for place, name in places] == [False] * 4
    assert list(run["train"]) == ["acc", "loss"]
    assert {"params", "train", "sys", "notes"} <= set(run)
    assert [run["params"][name].fetch() for name in run["params"]][:1] == [0.1]
    assert list(project["config"]) == ["depth"]
    for place, error, told in (
        (run["train/loss"], FamilyError, "fetch_points"),
        (run["trian"], MissingFieldError, "'trian'"),
        (project, TypeError, r"fetch_runs_table\(\) returns its runs"),
    ):
        with pytest.raises(error, match=told):
            list(place)


def test_keys_are_completed(run, project):
    assert {"train", "train/loss", "params/lr", "sys/tags"} <= set(run._ipython_key_completions_())
    assert run["train"]._ipython_key_completions_() == ["acc", "loss"]
    assert run["nothing"]._ipython_key_completions_() == []
    project["config/depth"] = 3
    assert "config/depth" in project._ipython_key_completions_()
    table = project.fetch_runs_table()
    assert "train/loss" in table._ipython_key_completions_()
    run["many"] = {str(at): at for at in range(5000)}
    assert len(run._ipython_key_completions_()) == 5000


def test_rows_and_columns_of_a_table(project, run):
    table = project.fetch_runs_table(columns=["sys/name", "params/lr"])
    assert table[0] == table[-1] == table.rows[0]
    assert table[:5] == table.rows
    assert (len(table), table["params/lr"]) == (1, [0.1])
    assert ("params/lr" in table, "params/l" in table, table[0] in table) == (True, False, True)
    assert [row["sys/id"] for row in table] == [run.id]
    with pytest.raises(IndexError):
        table[1]
    with pytest.raises(MissingFieldError, match="'params/lr'"):
        table["params/l"]


def test_rows_and_columns_of_series(project, run):
    for table in (project.fetch_series("train/*"), project.fetch_series("train/*", points=100)):
        rows = list(table)
        assert [repr(table[at]) for at in range(len(table))] == [repr(row) for row in rows]
        for outside in (len(rows), -len(rows) - 1):
            with pytest.raises(IndexError):
                table[outside]
        assert "value" in table or "mean" in table
        for name, column in table.to_numpy().items():
            assert repr(table[name].tolist()) == repr(column.tolist())
        with pytest.raises(MissingFieldError, match="no column 'pat'; did you mean 'path'"):
            table["pat"]
        with pytest.raises(TypeError, match=r"a column name, got 1\.5"):
            table[1.5]


def test_rows_and_columns_of_points(project, run):
    points = run["train/loss"].fetch_points()
    rows = points.to_rows()
    assert repr([points[at] for at in range(len(points))]) == repr(list(points)) == repr(rows)
    assert repr(points[-1]) == repr(rows[-1])
    assert repr(points[1:3].to_rows()) == repr(rows[1:3])
    assert points["value"] is points.value
    assert points["time"].tolist() == points.time_ns.tolist()
    for outside in (len(rows), -len(rows) - 1):
        with pytest.raises(IndexError, match=f"row {outside} of"):
            points[outside]
    with pytest.raises(MissingFieldError, match="there are: step, value, time, attempt"):
        points["loss"]
    for table in (points, project.fetch_runs_table()):
        with pytest.raises(TypeError, match="expected a row number, a slice or a column name"):
            table[None]


def test_a_run_shows_what_it_is(run, project):
    page, words = page_of(run)
    shown = ["quick <b>otter</b> · running", run.id, "train/loss", "params/lr", "<i>"]
    shown += ["\\u202e", "\\x1b", f"{run['sys/creation_time'].fetch():%Y-%m-%d %H:%M:%S} UTC"]
    assert [one for one in shown if one not in words] == []
    assert "&lt;b&gt;otter" in page
    _, words = page_of(project)
    shown = ["Project team/x · 1 run", "1 running", run.id]
    assert [one for one in shown if one not in words] == []


def test_a_failed_run_says_why(tmp_path):
    run = init_run("team/x", root=tmp_path, **QUIET)
    with contextlib.suppress(RuntimeError), run:
        run["a"] = 1
        raise RuntimeError("<b>no</b> memory " * 100)
    opened = init_run("team/x", root=tmp_path, with_id=run.id, mode="read-only")
    assert repr(opened) == f"<seamark.Run team/x/{run.id} read-only>"
    page, words = page_of(opened)
    assert "RuntimeError: <b>no</b> memory" in words
    assert "&lt;b&gt;no" in page
    assert len(page) < 4000
    again = init_run("team/x", root=tmp_path, with_id=run.id, **QUIET)
    assert "created" not in repr(again)


def test_a_disabled_run_says_so(tmp_path):
    run = init_run("team/x", root=tmp_path, mode="disabled", **QUIET)
    assert repr(run).endswith(" disabled>")
    assert "disabled: nothing is recorded" in page_of(run)[1]


def test_any_value_is_shown_as_text():
    for value in (10**5000, [10**5000], {"a": "\ud800<script>"}, "<>&'\"$\\/", "\0"):
        shown = text(value)
        shown.encode()
        tags = Tags(shown)
        assert tags.found == []
        assert "".join(tags.words).isprintable()
    assert text("<b>") == "&lt;b&gt;"


def test_what_is_below_a_path_is_shown(run):
    for path, shown in {
        "train": ["2 paths below"],
        "train/loss": ["0.125", "inf count"],
        "text": ["line"],
        "notes": ["<script>alert(2)</script>"],
        "files": ["test_browsing.py"],
        "trian": ["nothing is recorded here"],
        "histogram": ["1 point"],
    }.items():
        words = page_of(run[path])[1]
        assert [one for one in shown if one not in words] == [], path
    assert "<svg" in page_of(run["train/loss"])[0]


def test_images_are_known_by_their_first_bytes_and_shown_byte_for_byte(run):
    page, _ = page_of(run["picture"])
    data = re.search('src="data:image/png;base64,([^"]+)"', page)[1]
    assert base64.b64decode(data) == png(bytes(48), 4, 4, 3)
    run["elsewhere"].track_files(__file__)
    for path in ("page", "elsewhere"):
        assert "<img" not in page_of(run[path])[0]
    data = (png(bytes(12), 2, 2, 3), b"\xff\xd8\xff\xe0\x00\x10", b"<html>", b"")
    assert list(map(image_type, data)) == ["png", "jpeg", None, None]


def test_a_record_that_names_no_bytes_of_the_run_is_no_image(run):
    """A record comes from disk, and may have any content."""
    digest = "0" * 64
    for record in (
        "text",
        {"sha256": "../../../etc/passwd", "size": 10},
        {"sha256": 7, "size": 10},
        *({"sha256": digest, "size": size} for size in (-1, 10**5000, "10")),
        {"ref": "/etc/passwd", "size": 10, "name": "picture.png"},
        {},
    ):
        assert _image_html(run.session.recorded.view(), record) == ""
        assert isinstance(file_text(record, exact=False), str)


def test_tables_and_points_show_their_ends(project, run):
    run["long"].extend(range(1000))
    points, table = run["long"].fetch_points(), project.fetch_series("long")
    for thing, told in ((points, "1,000 points"), (table, "1,000 rows of 1 series")):
        page, words = page_of(thing)
        assert told in words
        assert page.count("<tr>") == 12
    assert "1 run" in page_of(project.fetch_runs_table())[1]
    for empty in (project.fetch_runs_table(tag="none"), project.fetch_series("none")):
        assert page_of(empty)[1]
    assert repr(points) == "<Points: 1000, steps 0 to 999>"


def test_showing_a_run_does_not_start_it(tmp_path):
    """Nothing is written: a logger's run starts with its first record."""
    run = make_run(root=tmp_path / "root", name="later", **QUIET)
    assert "later · created" in page_of(run)[1]
    assert "later" in page_of(run["sys"])[1]
    assert list(run) == ["sys"]
    assert "sys/name" in run._ipython_key_completions_()
    assert not (tmp_path / "root").exists()


def test_a_run_that_cannot_be_read_is_shown_without_an_error(run, monkeypatch):

    def broken(*_):
        raise RuntimeError

    monkeypatch.setattr(run.session.recorded, "reader", broken)
    assert run._repr_html_() == f"<code>&lt;seamark.Run team/x/{run.id} running&gt;</code>"
    assert run._ipython_key_completions_() == []
