"""Importers of other packages: found by their entry point, each run checked like any document."""

from __future__ import annotations

import sys

import pytest

import seamark

PACKAGE = """
def read(path):
    for line in path.read_text().splitlines():
        name, *values = line.split()
        times = [f"2024-05-01T12:00:0{at}Z" for at, _ in enumerate(values)]
        facts = {"creation_time": times[0], "modification_time": times[-1], "state": "completed"}
        attributes = {
            f"sys/{key}": {
                "family": "atom",
                "type": "datetime" if key.endswith("time") else "string",
                "value": value,
            }
            for key, value in facts.items()
        }
        points = {
            "step": [*range(len(values))],
            "value": [float(value) for value in values],
            "time": times,
            "attempt": [0] * len(values),
        }
        series = {"loss": {"family": "float_series", "type": "float_series"}}
        yield {
            "project": "old",
            "run": name,
            "attributes": attributes | series,
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
        assert run["loss"].fetch_points().value.tolist() == [3.0, 2.0, 1.0]
        assert run["sys/state"].fetch() == "completed"
    source.write_text("first 9\nthird 4\n")
    again = cli("import", "lines", source, "--project", "digits")
    assert "imported 1 run " in again.stderr
    assert "1 run was there already" in again.stderr
    with seamark.init_run("digits", with_id="first", mode="read-only", root=root) as run:
        assert run["loss"].fetch_last() == 1.0


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("lines", "fine 2\na/b 1\nlast 1\n", ["lines[1].run", "1 run could not be imported"]),
        ("lines", "fine 2\nodd nan\n", ["lines[1]: expected a document of strict JSON"]),
        ("lines", "fine 1\nfirst none\n", ["importer lines (lab_importers:", "could not convert"]),
        ("absent", "", ["importer absent (lab_importers:", "nothing"]),
    ],
)
def test_error_names_the_document_and_the_others_are_imported(
    cli, root, tmp_path, name, text, said
):
    (tmp_path / "runs.txt").write_text(text)
    done = cli("import", name, tmp_path / "runs.txt")
    assert done.exit_code == 1
    assert [one for one in said if one not in done.stderr] == []
    imported = sorted(path.name for path in root.glob("old/[!.]*"))
    assert imported == [word for word in ("fine", "last") if word in text]


def test_importers_are_listed_and_replace_no_source_of_this_package(cli):
    helped = cli("import", "--help").stdout
    assert helped.count("\n  json ") == 1
    assert "\n  lines " in helped
    assert cli("import", "json", "missing.json").exit_code != 0
    assert cli("import", "unknown", "x").exit_code == 2
