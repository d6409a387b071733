"""Reports: what a run and a project come to, in a script, in a notebook and on a terminal."""

from __future__ import annotations

import json
import math
from datetime import datetime, timezone

import pytest
from recording import QUIET

import seamark
from seamark import init_project, init_run
from seamark.types import File


@pytest.fixture
def record(tmp_path):
    def record(**given):
        given = {"params": {"lr": 0.1, "net": {"depth": 3}}, **QUIET, **given}
        about = {"name": "first", "description": "of two layers", "code_version": "2024.3"}
        places = {"root": tmp_path / "root", "tags": ["baseline"], "groups": ["sweep"]}
        run = init_run("team/p", **about, **places, **given)
        run["tags/team"] = "vision"
        run["metadata/seed"] = 7
        run.log_metrics({"train/loss": 0.5, "val/loss": float("nan"), "epoch": 1}, 0)
        run["monitoring/x/cpu"].append(1.0)
        with run.chrono("batch"):
            pass
        run.set_state("suspended", error=ValueError("once"))
        run.set_state("failed", detail="broken", error=RuntimeError("a \x1b[31m<b>word</b>"))
        run.stop()
        return run

    return record


SAID = {
    "name": "first",
    "state": "failed",
    "detail": "broken",
    "description": "of two layers",
    "version": "2024.3",
    "project": "team/p",
    "revision": 1,
    "tags": ["baseline"],
    "groups": ["sweep"],
    "keyed_tags": {"team": "vision"},
    "parameters": {"lr": 0.1, "net/depth": 3},
    "metadata": {"seed": 7},
    "code": {"version": "2024.3"},
    "edited": None,
    "trashed": None,
    "health": {},
}
"""Items of the report of the run of `record` that are always the same."""


def test_a_report_has_metadata_parameters_metrics_and_errors(record):
    run = record()
    report = run.report()
    assert {name: report[name] for name in SAID} == SAID
    assert report["id"] == run.id
    assert list(report["metrics"]) == ["val/loss", "train/loss", "epoch"]
    assert (report["metrics"]["train/loss"], report["chronos"]["batch"]["count"]) == (0.5, 1)
    assert [one["type"] for one in report["errors"]] == ["ValueError", "RuntimeError"]
    assert report["start_time"] < report["end_time"] == report["last_record"]
    printed, short = str(report), run.report(short=True)
    assert printed.startswith("first - failed (broken)\n")
    assert "\x1b" not in printed
    assert "val/loss" in printed
    assert f"{report!r}" == printed
    assert set(report) - set(short) == {
        *("id", "custom_id", "project", "parent", "owner", "claimed_by", "hostname"),
        *("creation_time", "last_record", "edited", "trashed", "attempts", "environment"),
        *("distribution", "code", "progress", "inherited_tags", "changes", "masked", "health"),
    }
    assert "traceback" not in short["errors"][0]
    assert run.id not in str(short)
    page = report._repr_html_()
    assert "<b>word" not in page
    assert "&lt;b&gt;word" in page


def test_a_report_has_what_is_kept_instead_of_points(tmp_path):
    keep = {"*/ring": seamark.Ring(2), "*/best": seamark.Last(), "*/power": seamark.Statistics()}
    with init_run("p", root=tmp_path / "root", keep=keep, **QUIET) as run:
        for value in (1.0, 2.0, 3.0):
            for name in ("ring", "best", "power", "all"):
                run[f"val/{name}"].append(value)
                run[f"metadata/{name}"].append(value)
        run["metadata/note"].append("warm")
        run["metadata/words"].add(["b", "a"])
        run["metadata/file"].upload(File.from_content("x"))
        run["monitoring/x/kept"].keep(seamark.Last()).append(1.0)
    report = run.report()
    power = run["val/power"].fetch().to_dict()
    assert power["mean"] == 2.0
    found = {"ring": [2.0, 3.0], "best": 3.0, "power": power, "all": 3.0}
    assert report["metrics"] == {f"val/{name}": value for name, value in found.items()}
    assert report["metadata"] == {**found, "note": "warm", "words": ["a", "b"]}


def test_a_report_is_json(record):
    when = datetime(2026, 1, 2, tzinfo=timezone.utc)
    run = record(params={"when": when, "rate": float("nan")})
    report = run.report()
    assert math.isnan(report["parameters"]["rate"])
    assert report["parameters"]["when"] == "2026-01-02T00:00:00+00:00"
    assert datetime.fromisoformat(report["start_time"]) == run["sys/start_time"].fetch()
    assert datetime.fromisoformat(report["errors"][0]["time"]) == run.errors[0].time
    assert json.dumps(json.loads(json.dumps(report))) == json.dumps(report)
    started = run["sys/start_time"].fetch().isoformat(sep=" ", timespec="seconds")
    assert f"start time      {started}\n" in str(report)
    project = init_project("team/p", root=run.root, mode="read-only")
    project_report = project.report()
    assert json.loads(json.dumps(project_report)) == project_report


def test_reports_of_disabled_runs_and_new_projects_are_empty(tmp_path):
    report = init_run(mode="disabled", root=tmp_path / "none").report()
    assert (report["name"], report["metrics"], report["errors"]) == (None, {}, [])
    assert str(report).startswith("(no name)")
    found = init_project("new", root=tmp_path / "none").report(short=True)
    empty = {"tags": [], "keyed_tags": {}, "metadata": {}, "groups": [], "runs": {}}
    assert found == {"name": "new", "description": None, **empty}


def test_the_report_of_a_project_counts_its_runs_by_state(record):
    run = record()
    init_run("team/q", root=run.root, start=False, **QUIET).stop()
    with init_project("team", root=run.root) as project:
        project["sys/name"] = "The team"
        project["metadata/budget"] = 100
        project.group("sweep")["seed"] = 1
    report = init_project("team", root=run.root, mode="read-only").report()
    assert report["runs"] == {"created": 1, "failed": 1}
    assert (report["name"], report["project"]) == ("The team", "team")
    assert (report["metadata"], report["groups"]) == ({"budget": 100}, ["sweep"])
    assert str(report).startswith("The team\n")


def test_the_command_shows_the_report(record):
    click = pytest.importorskip("click.testing")
    from command import app

    run = record()

    def show(*words):
        words = ["show", run.id, "--root", str(run.root), *words]
        return click.CliRunner().invoke(app, words, prog_name="seamark").stdout

    told, report = json.loads(show("--json"))["report"], run.report()
    assert (told["state"], told["metrics"]["val/loss"]) == (report["state"], "nan")
    assert {**told["errors"][0], "time": None} == {**report["errors"][0], "time": None}
    printed = show()
    assert "Errors (2)" in printed
    assert "first  failed (broken)" in printed
