"""The reader of journals that tests use, held to what a run wrote and to what it reads back."""

from __future__ import annotations

import ast
from pathlib import Path

import journals
import pytest
from journals import Point, points
from recording import QUIET

from seamark import init_run


@pytest.fixture
def run(tmp_path):
    """A run with rows, sparse rows, a column and times of the user."""
    with init_run("team/p", root=tmp_path, **QUIET) as run:
        for step in range(300):
            run.log_metrics({"a": step / 2, "b": -step}, step)
        run.log_metrics({"odd": 7.0, "a": 150.0}, 300, timestamp=12.5)
        run["col"].extend([1.0, 2.0, 3.0], steps=[5, 6, 7], timestamps=[1.0, 2.0, 3.0])
    return run


def test_points_are_those_that_the_run_reads_back(run):
    for path in ("a", "b", "odd", "col"):
        read = run[path].fetch_points()
        columns = (read.step.tolist(), read.value.tolist(), read.time_ns.tolist())
        assert points(run, path) == [Point(*one) for one in zip(*columns, strict=True)]
    assert points(run, "odd") == [Point(300.0, 7.0, 12_500_000_000)]
    assert len(points(run, "a")) == 301


def test_reader_of_tests_imports_nothing_of_the_package():
    """Else a fault of the package's reader would be one of this one too."""
    tree = ast.parse(Path(journals.__file__).read_text("utf-8"))
    named = [one.module for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)]
    for one in ast.walk(tree):
        named += [each.name for each in one.names] if isinstance(one, ast.Import) else []
    assert not [name for name in named if str(name).split(".")[0] == "seamark"]
