"""What reads return, and that one snapshot agrees with itself."""

from __future__ import annotations

import logging
import math
import pickle
from datetime import datetime, timezone

import numpy as np
import pytest
from recording import QUIET

import seamark
from seamark.errors import ArgumentError, FamilyError, FileMissingError, MissingFieldError
from seamark.index.index import Index
from seamark.types import File


@pytest.fixture
def run():
    with seamark.init_run("p", **QUIET) as run:
        yield run


def view(run):
    return run.session.recorded.view()


def test_last_points_are_the_end_of_all(run):
    """Wherever row groups end."""
    for start in range(0, 60_000, 20_000):
        run["x"].extend(np.arange(start, start + 20_000.0).tolist())
        run["x"].fetch_last()
    for limit in (1, 30_000, 59_999, 60_000, 10**6):
        last = view(run).points("x", limit=limit).value.tolist()
        assert last == list(range(max(0, 60_000 - limit), 60_000)), limit


def test_table_is_cut_by_limit_and_offset(caplog):
    caplog.set_level(logging.ERROR)
    for number in range(7):
        with seamark.init_run("p", custom_run_id=str(number), **QUIET) as run:
            run["number"] = number
    project = seamark.init_project("p")
    ask = {"sort_by": "number", "ascending": True, "columns": ["number"]}
    table = project.fetch_runs_table(limit=3, offset=2, **ask)
    assert [row["number"] for row in table] == [2, 3, 4]
    assert (table.total, table.offset, len(table)) == (7, 2, 3)
    assert pickle.loads(pickle.dumps(project.fetch_runs_table(limit=3, **ask))).total == 7
    for limit, words in ((3, "3 runs"), (7, "7 runs"), (8, "7 of 7 runs")):
        found = project.fetch_runs_table(limit=limit, **ask)
        assert repr(found) == f"<RunsTable: {words}, 2 columns>"
    assert [row["number"] for row in project.fetch_runs_table(offset=6, **ask)] == [6]
    assert len(project.fetch_runs_table(offset=7, **ask)) == 0
    for wrong in (-1, 1.5, "2", True):
        with pytest.raises(ArgumentError, match="offset"):
            project.fetch_runs_table(offset=wrong)


def test_points_become_rows_and_a_data_frame(run):
    run["loss"].extend([1.0, math.inf], steps=[0, 2.5], timestamps=[1_000_000_000.123456, 2e9])
    points = run["loss"].fetch_points()
    rows = points.to_rows()
    found = [(row["step"], row["value"], row["attempt"]) for row in rows]
    assert found == [(0, 1, 0), (2.5, math.inf, 0)]
    assert rows[0]["time"] == datetime(2001, 9, 9, 1, 46, 40, 123456, tzinfo=timezone.utc)
    assert run["loss"].fetch_points(attempt=0).to_rows() == rows
    pytest.importorskip("pandas")
    frame, empty = points.to_pandas(), type(points).none().to_pandas()
    assert list(map(str, frame.dtypes)) == ["float64", "float64", "datetime64[ns, UTC]", "int64"]
    assert frame["time"][0].value == points.time_ns[0]
    assert frame["step"].tolist() == [0, 2.5]
    assert (list(empty.columns), len(empty)) == (list(frame.columns), 0)


def test_single_file_is_read_into_memory(run, tmp_path):
    (tmp_path / "one.bin").write_bytes(b"one")
    run["text"].upload(File.from_content("hello"))
    run["file"].upload(str(tmp_path / "one.bin"))
    run["set"].upload_files(str(tmp_path / "*.bin"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "part").write_bytes(b"part")
    run["folder"].upload(str(tmp_path / "folder"))
    run["series"].append(File.from_content("x"))
    run["lr"] = 0.1
    assert run["text"].fetch_bytes() == b"hello"
    assert run["file"].fetch_bytes() == b"one"
    for path in ("set", "folder", "series", "lr"):
        with pytest.raises(FamilyError, match=f"'{path}': expected a single file"):
            run[path].fetch_bytes()
    with pytest.raises(MissingFieldError):
        run["nothing"].fetch_bytes()


def test_reference_is_read_into_memory_while_it_is_the_recorded_file(run, tmp_path):
    (tmp_path / "one.bin").write_bytes(b"one")
    run.session.content.refer("model", tmp_path / "one.bin")
    assert run["model"].fetch_bytes() == b"one"
    (tmp_path / "one.bin").write_bytes(b"another")
    with pytest.raises(FileMissingError, match="has changed since it was recorded"):
        run["model"].fetch_bytes()
    assert run["model"].fetch_bytes(references=True) == b"another"


def test_returned_values_may_be_changed(run, tmp_path):
    tmp_path.joinpath("a.txt").write_text("x")
    run["artifact"].track_files(tmp_path / "a.txt")
    run["file"].upload(tmp_path / "a.txt")
    run["set"].upload_files([tmp_path / "a.txt"])
    run["text"] = "long" * 1_000_000
    run["files"].append(File.from_content("y"))
    run["json"] = {"in": {"a": [1]}}
    run.wait()

    def attributes():
        return [one for one in view(run).attributes() if not one.path.startswith("sys/")]

    shown = attributes()
    assert {one.family for one in shown} == {"artifact", "file", "file_set", "atom", "file_series"}
    before = repr(shown), repr(view(run).journals())
    for one in [*shown, *map(view(run).attribute, [one.path for one in shown])]:
        _spoil(getattr(one.value, "last", one.value))
    for one in view(run).journals():
        _spoil(one.header)
    assert (repr(attributes()), repr(view(run).journals())) == before


def _spoil(value):
    """Empty everything that a value holds, and itself."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            _spoil(inner)
        value.clear()


def said(seen):
    attributes = {one.path: one.value for one in seen.attributes()}
    assert attributes["sys/state"] == seen.state
    assert seen.families().keys() == attributes.keys()
    assert (seen.state == "failed") == bool(seen.reason) == seen.has_failed()
    counts = [attributes["a"].count, attributes["b"].count, seen.attribute("a").value.count]
    counts += [len(seen.points("b")), int(seen.curve("a", 100).count.sum())]
    return "half" in attributes, set(counts), seen.state


def test_snapshot_of_a_root_has_points_and_curves_of_one_moment(tmp_path):
    run = seamark.init_run("p", root=tmp_path, **QUIET)
    run.log_metrics({"a": 0, "b": 0}, step=0)
    with Index.open(tmp_path) as index, Index.open(tmp_path) as other:
        index.refresh()
        with index.moment():
            seen = index.view("p", run.id)
            before = said(seen)
            run.log_metrics({"a": 1, "b": -1}, step=1)
            run["half"] = 1
            run.set_state("failed", error=ValueError("boom"))
            run.stop()
            other.refresh()
            assert said(seen) == said(index.view("p", run.id)) == before == (False, {1}, "running")
        index.refresh()
        assert said(index.view("p", run.id)) == (True, {2}, "failed")
        assert "ValueError: boom" in index.view("p", run.id).reason
