"""The page's files, read as they lie: small, few, and nothing in them but what they say."""

from __future__ import annotations

import functools
import graphlib
import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from templates import Template, mistakes, templates

from seamark.reading import text as units
from seamark.reading.text import human_bytes

STATIC = Path(__file__).parents[2] / "src" / "seamark" / "page" / "static"
OWN = sorted(path for path in STATIC.rglob("*.js") if path.parent.name != "vendor")
NAMES = [path.relative_to(STATIC).as_posix() for path in OWN]
FORBIDDEN = {
    r"\b(?:inner|outer)HTML\b|insertAdjacentHTML|document\.write": "makes elements of text",
    r"DOMParser|createContextualFragment|dangerouslySetInnerHTML|\bsrcdoc\b": "the same",
    r"\beval\s*\(|\bnew Function\b|set(?:Timeout|Interval)\(\s*['\"`]": "makes code of text",
    r"javascript:": "makes code of text",
    r"\bdocument\.cookie\b": "the page has none",
    r"(?:https?:)?//[a-z0-9-]+\.[a-z]{2,}": "names another place",
}
INDEX = STATIC / "index.html"
OPENING = re.findall(r'"static/@VERSION@/([\w./]+)"', INDEX.read_text(encoding="utf-8"))
"""The files of the table and its charts; `browser/test_opening.py` checks that no others load."""
MODULE = re.compile(r"""["']\./(\w+\.js)["']""")
LONGEST_MODULE = 500
LONGEST_COMPONENT = 150


def without_comments(text):
    """Return code without its comments; what looks like one inside of a string stays."""
    pattern = r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|/\*.*?\*/|(?<![:\\])//[^\n]*"""
    return re.sub(pattern, lambda found: found[1] or " ", text, flags=re.DOTALL)


def test_the_page_is_small():
    files = [path for path in STATIC.rglob("*") if path.is_file()]
    assert OWN
    assert len(files) <= 48
    assert max(len(path.relative_to(STATIC).parts) for path in files) <= 2
    loaded = [path for path in files if path.suffix in (".js", ".css")]
    sizes = {path.name: len(gzip.compress(served(path), 9)) for path in loaded}
    assert sum(sizes.values()) <= 170_000
    assert sum(sizes[Path(name).name] for name in OPENING) <= 100_000


def uses(name):
    """Return the modules that one names: imports of code and of types, at once and later."""
    text = (STATIC / name).read_text(encoding="utf-8")
    return {f"js/{each}" for each in MODULE.findall(text)}


def test_modules_do_not_import_each_other():
    graph = {name: uses(name) for name in NAMES}
    assert set().union(*graph.values()) <= set(graph)
    assert sum(map(len, graph.values())) > len(graph)
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_modules_are_short_checked_and_well_formed(path):
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert len(lines) <= LONGEST_MODULE
    for begin, line in enumerate(lines):
        if re.match(r"(?:export )?(?:async )?function", line):
            assert lines.index("}", begin) - begin < LONGEST_COMPONENT, line
    assert lines[0] == "// @ts-check"
    found = re.findall(
        r"""\bfrom\s+["']([^"']+)["']|\bimport\(\s*["']([^"']+)["']\)""", without_comments(text)
    )
    imported = [one or other for one, other in found]
    assert [each for each in imported if not (path.parent / each).is_file()] == []
    html = [each for each in templates(text) if each.tag == "html"]
    assert [told for each in html for told in mistakes(each)] == []


def test_styles_have_no_lasting_animations():
    """An animation paints all that is seen sixty times a second, beside a training."""
    waited_for = (".starting", ".chart-loading", "*, ::before, ::after { animation: none")
    for path in STATIC.glob("*.css"):
        for line in path.read_text().splitlines():
            assert "animation:" not in line or line.strip().startswith(waited_for), line


@functools.cache
def page_files():
    pytest.importorskip("fastapi")
    from seamark.page.files import PageFiles

    return PageFiles(STATIC)


def served(path):
    """Return what a browser gets of a file."""
    files = page_files()
    answer = files.file(files.version, path.relative_to(STATIC).as_posix())
    assert answer is not None
    return bytes(answer.body)


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_what_is_served_lacks_comments_and_indentation_alone(path):
    text, code = path.read_text(encoding="utf-8"), served(path).decode()
    assert "/**" not in code
    assert text.count("\n") == code.count("\n")
    assert [len(one.text) for one in templates(code)] == [
        len(re.sub(r"/\*\*(?:[^*]|\*(?!/))*\*/|(?<=\n)[ \t]+", "", one.text))
        for one in templates(text)
    ]
    # htm ignores the indentation of markup; of a text it would be part.
    assert not [one for one in templates(text) if one.tag != "html" and "\n " in one.text]
    assert "".join(without_comments(text).split()) == "".join(without_comments(code).split())


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_modules_make_neither_elements_nor_code_of_text(path):
    code = without_comments(path.read_text(encoding="utf-8"))
    assert [why for pattern, why in FORBIDDEN.items() if re.search(pattern, code)] == []


def test_pages_and_styles_load_nothing_from_elsewhere():
    for path in STATIC.glob("*.*"):
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"(?:https?:)?//[a-z0-9-]+\.[a-z]{2,}|@import", text) == [], path
        if path.suffix == ".html":
            inline = r"<script(?![^>]*\bsrc=)[^>]*>|<style|\sstyle=|\son\w+=|(?:src|href)=\"/"
            assert re.findall(inline, text) == [], path


def test_mistakes_of_templates_are_found():
    for text, told in {
        "<input type='a b' checked />": [],
        "<\0 a=\0 ...\0>\0<//>": [],
        '<p class="a \0">a -> b</p>': ["line 1: > stands alone"],
        "<br>": ["line 1: <br> is not closed"],
        "<p>\n<b></p>": ["line 2: </p> closes <b> of line 2", "line 1: <p> is not closed"],
        "</p>": ["line 1: </p> closes nothing"],
        "<p a='1>": ["line 1: a of <p> is not ended"],
        "a < b": ["line 1: < begins no tag"],
        "a&nbsp;b": ["line 1: htm knows no entities: write the character itself"],
        "<p style='color: red' />": ["line 1: a style as text is refused by the page's policy"],
    }.items():
        template = Template(1, "html", text, ["x"] * text.count("\0"))
        assert list(mistakes(template)) == told, text


_FORMATS = """
import { bytes, unitOf } from "./format.mjs";
const [paths, sizes] = JSON.parse(process.argv[2]);
console.log(JSON.stringify([paths.map(unitOf), sizes.map(bytes)]));
"""


def told_by_node(folder, module, code, *given):
    """Return what a script prints that lies beside a module of the page."""
    if shutil.which("node") is None:
        pytest.skip("there is no node")
    shutil.copy(STATIC / "js" / f"{module}.js", folder / f"{module}.mjs")
    (folder / "ask.mjs").write_text(code, encoding="utf-8")
    node = ["node", "ask.mjs", *map(json.dumps, given)]
    run = subprocess.run(node, cwd=folder, capture_output=True, check=True, timeout=60)
    return json.loads(run.stdout)


def test_units_are_those_of_commands(tmp_path):
    names = {*units.UNITS, *units.FACT_UNITS, "other", "constructor"}
    spaces = ("monitoring/a", "monitoring/a/environment", "monitoring", "train", "monitoring_2")
    ends = ("", "_1", "_limit")
    paths = sorted({f"{space}/{name}{end}" for space in spaces for name in names for end in ends})
    sizes = [0, 1, 999, 1000, 1234, 99_949, 999_499, 10**6, 123 * 10**7, 5 * 10**12]
    told = told_by_node(tmp_path, "format", _FORMATS, [paths, sizes])
    assert told == [list(map(units.unit_of, paths)), list(map(human_bytes, sizes))]


_ANSWERS = """
globalThis.location = { origin: "https://hub", pathname: "/user/anna/proxy/8765/" };
const asked = [];
globalThis.fetch = async (target) => { asked.push(String(target)); throw new Error("no answer"); };
const { Api, decode, runPath } = await import("./api.mjs");
const said = decode(JSON.parse(process.argv[2]));
const api = new Api("r0/api/v1/", "secret");
const far = "../../../../../mallory/proxy/9";
for (const [project, run] of [[far, "x"], ["..", ".."], ["a/b", "c"]]) {
  await api.get(runPath(project, run, "contents")).catch(() => undefined);
}
const drawn = [said.rank, said.rank.props, said.gone].map((one) => one.constructor === undefined);
const text = String(said.rank);
console.log(JSON.stringify({ drawn, text, names: Object.keys(said), said, asked }));
"""


def test_recorded_values_become_neither_elements_nor_addresses(tmp_path):
    """Preact draws every object without a ``constructor``; a project may be called ``../..``."""
    element = {"type": "iframe", "props": {"srcdoc": "<p>"}}
    given = {"rank": element, "__proto__": {"a": 1}, "gone": {"constructor": None}, "toString": 2}
    told = told_by_node(tmp_path, "api", _ANSWERS, given)
    assert told["drawn"] == [False, False, False]
    assert told["said"] == given
    assert (told["text"], told["names"]) == ("…", list(given))
    assert told["asked"] == ["https://hub/user/anna/proxy/8765/r0/api/v1/runs/a/b/c/contents"]


_READS = """
globalThis.location = { origin: "https://hub", pathname: "/" };
const asked = [];
let answers = [];
globalThis.fetch = async (target, { body }) => {
  asked.push([String(target).split("/v1/")[1], JSON.parse(body)]);
  return new Response(JSON.stringify(answers.shift()));
};
const { Api } = await import("./api.mjs");
const api = new Api("api/v1/");
answers = [
  { answer: [{ a: 1 }], seen: "x", next: "1" }, { answer: [{ a: 2 }], seen: "y", next: "2" },
  { answer: [3], seen: "y" }, { answer: { b: 1 }, seen: "z" },
  { unchanged: true }, { unchanged: true },
  { runs: [] }, { answer: { b: 1 }, seen: "z" }, { answer: 4 },
];
const list = await api.read("files", { path: "p" });
const one = await api.read("table", { limit: 1 });
const same = [await api.read("files", { path: "p" }), await api.read("table", { limit: 1 })];
await api.patch("runs", {});
const anew = await api.read("table", { limit: 1 });
await api.read("table", { limit: 2 });
const kept = [same[0] === list, same[1] === one, anew === one];
console.log(JSON.stringify({ list, same: kept, asked }));
"""


def test_an_unchanged_answer_is_the_same_object(tmp_path):
    told = told_by_node(tmp_path, "api", _READS)
    assert told["list"] == [{"a": 1}, {"a": 2}, 3]
    assert told["same"] == [True, True, False]
    assert told["asked"] == [
        ["read/files", {"path": "p"}],
        ["read/files", {"path": "p", "next": "1"}],
        ["read/files", {"path": "p", "next": "2"}],
        ["read/table", {"limit": 1}],
        ["read/files", {"path": "p", "seen": "x"}],
        ["read/table", {"limit": 1, "seen": "z"}],
        ["runs", {}],
        ["read/table", {"limit": 1}],
        ["read/table", {"limit": 2}],
    ]
