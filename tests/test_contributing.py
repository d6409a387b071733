"""Checks that CONTRIBUTING.md describes the repository as it is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
CHANGES = {
    *("a read verb", "an option of a run", "a capture", "a callback or a handler"),
    *("a table column", "a reservation", "an importer", "a server route", "a state of a run"),
    *("a command-line flag", "a chart", "a launcher"),
}
CODE = re.compile(r"`([^`\n]+)`")
FOLDERS = ("src", "tests", "docs", "integrations", "benchmarks", "examples", "constraints")


def section(title):
    """Return the text of a section, without its heading."""
    return TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]


def layers_of_the_test():
    """Return `LAYERS` of ``test_layers.py``; ``__init__`` stands for the empty name."""
    tree = ast.parse((ROOT / "tests" / "test_layers.py").read_text("utf-8"))
    found = [
        node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "LAYERS"
    ]
    assert isinstance(found[0], ast.Tuple)
    layers = [ast.literal_eval(call.args[0]) for call in found[0].elts]
    return [{name or "__init__" for name in layer} for layer in layers]


def test_the_layers_are_those_of_the_test():
    """The table of packages has one row for each layer, in the same order."""
    table = TEXT.partition("<!-- layers -->")[2].partition("<!-- end of layers -->")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    assert [set(CODE.findall(row.split("|")[1])) for row in rows] == layers_of_the_test()


def test_every_path_of_the_changes_exists():
    """Of a path with a placeholder, the folder exists."""
    names = {name for name in CODE.findall(section("Where to make a change")) if " " not in name}
    paths = {name for name in names if name.split("/")[0] in FOLDERS and "/" in name}
    paths |= {name for name in names if "/" not in name and name.endswith((".md", ".toml"))}
    assert len(paths) > 100
    known = [path for path in paths if "<" not in path]
    assert [path for path in known if not (ROOT / path).exists()] == []
    folders = [path.partition("<")[0].rpartition("/")[0] for path in paths if "<" in path]
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []


def test_every_name_of_the_changes_is_in_a_file_of_its_row():
    """Names in code of a row without placeholders are names in the files that it mentions."""
    for line in section("Where to make a change").splitlines():
        files, _, text = line.removeprefix("| ").partition(" | ")
        paths = [ROOT / name for name in CODE.findall(line) if "/" in name]
        if not files.startswith("`") or "<" in line:
            continue
        files_of_row = [
            one for path in paths for one in (path.rglob("*.py") if path.is_dir() else [path])
        ]
        content = "".join(
            one.read_text("utf-8", "replace") for one in files_of_row if one.is_file()
        )
        names = [name for name in CODE.findall(text) if name.isidentifier()]
        assert [name for name in names if not re.search(rf"\b{name}\b", content)] == [], line


def test_every_kind_of_change_is_described():
    """Each has a section with a table of files, and a row in the overview."""
    text = section("Where to make a change")
    overview, *described = text.split("\n### ")
    titles = {one.partition("\n")[0] for one in described}
    assert {title[0].lower() + title[1:] for title in titles} == CHANGES
    assert set(re.findall(r"^\| \[([^]]+)\]", overview, re.MULTILINE)) == CHANGES
    assert all("\n| file | what to do |\n" in one for one in described)


def test_links_lead_somewhere():
    """Links to files of the repository, and to sections of this page."""
    headings = re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        path, _, anchor = target.partition("#")
        assert path.startswith("https://") or (ROOT / path).exists(), target
        assert path or anchor in anchors, target


def test_every_session_is_listed():
    """The table of sessions names those of the noxfile and no others."""
    tree = ast.parse((ROOT / "noxfile.py").read_text("utf-8"))
    sessions = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any("nox.session" in ast.unparse(one) for one in node.decorator_list)
    }
    rows = re.findall(r"^\| (`[^|]+) \|", section("Setting up"), re.MULTILINE)
    names = {re.split(r"[-(]", name)[0] for row in rows for name in CODE.findall(row)}
    assert names - {""} == sessions
