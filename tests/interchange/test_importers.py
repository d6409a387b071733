"""Importers of other packages: found by their entry point, each run checked like any document."""

from __future__ import annotations

import sys

import pytest

import seamark

PACKAGE = """
import json


def read(path):
    for line in path.read_text().splitlines():
        name, *values = line.split()
        times = [f"2024-05-01T12:00:0{at}Z" for at, _ in enumerate(values)]
        facts = {
            "sys/creation_time": (times[0], "datetime"),
            "sys/modification_time": (times[-1], "datetime"),
            "sys/state": ("completed", "string"),
        }
        points = {
            "step": [*range(len(values))],
            "value": [float(value) for value in values],
            "time": times,
            "attempt": [0] * len(values),
        }
        yield {
            "project": "old",
            "run": name,
            "attributes": {
                **{
                    path: {"family": "atom", "type": kind, "value": value}
                    for path, (value, kind) in facts.items()
                },
                "loss": {"family": "float_series", "type": "float_series"},
            },
            "series": {"loss": points},
        }
"""


@pytest.fixture(autouse=True)
def _package(tmp_path, monkeypatch):
    info = tmp_path / "site" / "lab_importers-1.0.dist-info"
    info.mkdir(parents=True)
    (tmp_path / "site" / "lab_importers.py").write_text(PACKAGE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lab-importers\nVersion: 1.0\n")
    points = "lines = lab_importers:read\nabsent = lab_importers:nothing\njson = lab_importers:read"
    (info / "entry_points.txt").write_text(f"[seamark.importers]\n{points}\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    yield
    sys.modules.pop("lab_importers", None)


def test_runs_of_an_importer_are_ordinary_runs_and_come_once(cli, root, tmp_path):
    source = tmp_path / "runs.txt"
    source.write_text("first 3 2 1\nsecond 5\n")
    done = cli("import", "lines", source, "--project", "digits")
    assert (done.exit_code, done.stdout) == (0, "")
    assert f"imported 2 runs to {root}" in done.stderr
    with seamark.init_run("digits", with_id="first", mode="read-only", root=root) as run:
        assert run["loss"].fetch_values()["value"].tolist() == [3.0, 2.0, 1.0]
        assert run["sys/state"].fetch() == "completed"
    source.write_text("first 9\nthird 4\n")
    again = cli("import", "lines", source, "--project", "digits")
    assert "imported 1 run " in again.stderr
    assert "1 run was there already" in again.stderr
    with seamark.init_run("digits", with_id="first", mode="read-only", root=root) as run:
        assert run["loss"].fetch_last() == 1.0


def test_a_wrong_document_is_named_and_the_others_come(cli, root, tmp_path):
    source = tmp_path / "runs.txt"
    source.write_text("a/b 1\nfine 2\n")
    done = cli("import", "lines", source)
    assert done.exit_code == 1
    assert "lines[0].run" in done.stderr
    assert "1 run could not be imported" in done.stderr
    assert [path.name for path in (root / "old").iterdir() if path.name[0] != "."] == ["fine"]


def test_what_json_cannot_hold_is_refused(cli, tmp_path):
    source = tmp_path / "runs.txt"
    source.write_text("odd nan\n")
    done = cli("import", "lines", source)
    assert done.exit_code == 1
    assert "lines[0]: expected a document of strict JSON" in done.stderr


def test_an_importer_that_fails_is_named(cli, root, tmp_path):
    source = tmp_path / "runs.txt"
    source.write_text("before 1\nfirst none\n")
    for name, reason in (("lines", "could not convert"), ("absent", "nothing")):
        done = cli("import", name, source)
        assert done.exit_code == 1
        assert f"the importer {name} (lab_importers:" in done.stderr
        assert reason in done.stderr
    assert (root / "old" / "before").is_dir()


def test_importers_are_listed_and_replace_no_source_of_this_package(cli):
    helped = cli("import", "--help").stdout
    assert helped.count("\n  json ") == 1
    assert "\n  lines " in helped
    assert cli("import", "json", "missing.json").exit_code != 0
    assert cli("import", "unknown", "x").exit_code == 2
