"""The same scripts import `neptune` and print the same, whichever package that is."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

SCRIPTS = pathlib.Path(__file__).with_name("snippets.py")
PAGE = pathlib.Path(__file__).parents[3] / "docs" / "howto" / "from-neptune.md"

# What differs for a decided reason: how the row in the page's table begins, and the lines.
ROWS = {
    '`run["lr"] = "auto"` after': "values again, values npi, values copied, mistakes text to int",
    "`append(x, step=...)`": "series dtypes",
    "`fetch()` of a series": "series fetch",
    '`run["loss"] = 1.0` where a series is': "series text to floats",
    "`fetch_last()` of a value": "series value last",
    "`fetch_files_list()`, `list_fileset_files()`": (
        "files list, files below, "
        "artifacts whole files, artifacts part files, artifacts placed files"
    ),
    '`upload("missing.txt")`': "mistakes upload to value",
    "`del`, `pop` of a missing path": "mistakes delete nothing, mistakes pop nothing",
    "`run[1]`": "mistakes number path",
    '`run["x"] = object()`': "mistakes object",
    "after `stop()`": "mistakes after stop, mistakes append after stop",
    "`fetch_runs_table(columns=...)`": "tables columns, tables no columns",
    "`fetch_runs_table(query=..., tag=...)`": "tables both",
    "`fetch_runs_table(sort_by=...)`": "tables bad column",
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
    """Decided differences are on the page for users who move, with their reasons."""

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
    decided = {line for lines in ROWS.values() for line in lines.split(", ")}
    assert {name: both for name, both in differ.items() if name not in decided} == {}
    assert sorted(decided - set(differ)) == []
    page = PAGE.read_text()
    assert [row for row in ROWS if f"\n| {row}" not in page] == []
