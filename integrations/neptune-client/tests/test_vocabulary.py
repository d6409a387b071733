"""The same scripts say `neptune` and print the same, whichever package that is."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

SCRIPTS = pathlib.Path(__file__).with_name("snippets.py")
PAGE = pathlib.Path(__file__).parents[3] / "docs" / "howto" / "from-neptune.md"

# What differs for a decided reason: the line, and how its row in the page's table begins.
DECIDED = {
    "values again": '`run["lr"] = "auto"` after',
    "values npi": '`run["lr"] = "auto"` after',
    "values copied": '`run["lr"] = "auto"` after',
    "series dtypes": "`append(x, step=...)`",
    "series fetch": "`fetch()` of a series",
    "series text to floats": '`run["loss"] = 1.0` where a series is',
    "series value last": "`fetch_last()` of a value",
    "files list": "`fetch_files_list()`, `list_fileset_files()`",
    "files below": "`fetch_files_list()`, `list_fileset_files()`",
    "artifacts whole files": "`fetch_files_list()`, `list_fileset_files()`",
    "artifacts part files": "`fetch_files_list()`, `list_fileset_files()`",
    "artifacts placed files": "`fetch_files_list()`, `list_fileset_files()`",
    "mistakes upload to value": '`upload("missing.txt")`',
    "mistakes delete nothing": "`del`, `pop` of what is not there",
    "mistakes pop nothing": "`del`, `pop` of what is not there",
    "mistakes number path": "`run[1]`",
    "mistakes text to int": '`run["lr"] = "auto"` after',
    "mistakes object": '`run["x"] = object()`',
    "mistakes after stop": "after `stop()`",
    "mistakes append after stop": "after `stop()`",
    "tables columns": "`fetch_runs_table(columns=...)`",
    "tables no columns": "`fetch_runs_table(columns=...)`",
    "tables both": "`fetch_runs_table(query=..., tag=...)`",
    "tables bad column": "`fetch_runs_table(sort_by=...)`",
}
BUILT_IN = {"AttributeError", "ValueError", "TypeError", "KeyError"}


def lines_of(text: str) -> dict[str, str]:
    """Return what was printed, by the name of the script and the label."""
    found, script = {}, ""
    for line in text.splitlines():
        if line.startswith("BEGIN "):
            script = line.removeprefix("BEGIN ")
        elif script and ": " in line and not line.startswith("[neptune]"):
            label, _, told = line.partition(": ")
            found.setdefault(f"{script} {label}", told)
    return found


def is_same(theirs: str, ours: str) -> bool:
    """Return whether both printed the same, or code that catches theirs catches ours."""
    if not (theirs.startswith("raises") and ours.startswith("raises")):
        return theirs == ours
    expected, given = set(theirs.split()), set(ours.split())
    return (expected - BUILT_IN if expected - BUILT_IN - {"raises"} else expected) <= given


@pytest.mark.slow
def test_scripts_print_the_same_under_both_imports(server, tmp_path):
    """What differs is decided, and stands with its reason in the page for those who move."""

    def run(python, name, env):
        (tmp_path / name).mkdir()
        made = subprocess.run(
            [python, "-W", "ignore", str(SCRIPTS), name],
            cwd=tmp_path / name,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            check=False,
            timeout=250,
        )
        assert made.returncode == 0, made.stderr[-3000:]
        return lines_of(made.stdout)

    python = os.environ.get("SEAMARK_NEPTUNE_PYTHON", sys.executable)
    theirs = run(python, "neptune", server.environment("vocabulary/theirs"))
    ours = run(sys.executable, "seamark", {"SEAMARK_PROJECT": "vocabulary/ours"})
    assert list(theirs) == list(ours)
    assert len(ours) > 150
    differ = {name: (theirs[name], ours[name]) for name in ours}
    differ = {name: both for name, both in differ.items() if not is_same(*both)}
    assert {name: both for name, both in differ.items() if name not in DECIDED} == {}
    assert sorted(set(DECIDED) - set(differ)) == []
    page = PAGE.read_text()
    assert [row for row in DECIDED.values() if f"\n| {row}" not in page] == []
