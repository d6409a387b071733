"""A run as a document and a document as a run; reports of what runs and projects come to."""

from __future__ import annotations

import copy
import json
import math
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from command import outcome_of
from hypothesis import given, settings
from hypothesis import strategies as st
from recording import QUIET

import seamark
from seamark import init_project, init_run
from seamark.errors import ArgumentError, RunExistsError, SeamarkError
from seamark.types import File

FIRST, SECOND = Path("first"), Path("second")


def command(*words, root=FIRST):
    given = [str(word) for word in words]
    return outcome_of(*given, "--root", str(root))


def recorded(root=FIRST):
    Path("notes.txt").write_text("notes", encoding="utf-8")
    file = seamark.types.File.from_content
    params: Any = {"lr": 1, "deep": [1, {"a": math.nan}]}
    given: Any = {"name": "one", "tags": ["x"], "params": params, **QUIET}
    with seamark.init_run("team/p", root=root, custom_run_id="same", **given) as run:
        run["values"] = {"f": math.inf, "big": 2**5000, "none": None, "empty": {}, "no": False}
        run["when"] = datetime(2026, 2, 3, 4, 5, 6, 7, tzinfo=timezone.utc)
        run["text"] = "\x00 \ud800 é"
        run["loss"].extend([1.0, math.nan, 3.0], steps=[3, 1, 1])
        run["log"].append("hello")
        run["gone"].append(1.0)
        run["gone"].clear()
        run["pictures"].append(file("a"), name="a", description="b")
        run["counts"].append(seamark.types.Histogram([0, 1, 2], [3, 4]))
        run["kept"].keep(seamark.Statistics(skip=1))
        run["kept"].extend([1.0, 2.0, 4.0])
        run["file"].upload(file("abc"))
        run["set"].upload_files("notes.txt")
        run["data"].track_files("notes.txt")
        run["parameters/lr"] = 2
        run.session.resume.begin_again()
        run["loss"].append(5.0, step=1)
        run["log"].append("again", step=0)
    return run


def test_document_is_what_the_command_exports_and_imports(tmp_path):
    run = recorded()
    document = run.to_dict()
    exported = command("export", run.id, "--format", "json", "-o", tmp_path / "x.json")
    assert exported.exit_code == 0, exported.output
    told = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    assert told == {"runs": [document]}
    assert document["series"]["loss"]["attempt"] == [0, 0, 1, 0]
    done = command("import", tmp_path / "x.json", root=SECOND)
    assert done.exit_code == 0, done.output
    assert "imported 1 run to" in done.stderr
    again = seamark.init_run("team/p", with_id="one", root=SECOND, mode="read-only")
    assert again.to_dict() == document
    assert again["sys/creation_time"].fetch() == run["sys/creation_time"].fetch()
    assert command("fsck", root=SECOND).exit_code == 1  # it names the files that did not come
    with pytest.raises(seamark.errors.FileMissingError):
        again["file"].download("there")


def test_imported_run_is_queried_and_continued():
    document = recorded().to_dict()
    there = seamark.from_dict(document, root=SECOND, project="mine")
    assert there.project == "mine"
    project = seamark.init_project("mine", root=SECOND)
    assert project.fetch_runs_table(query="parameters/lr = 2").to_rows()
    with seamark.init_run("mine", with_id=there.id, root=SECOND, **QUIET) as run:
        run["sys/tags"].add("seen")
        run["loss"].append(0.5, step=9)
    told = there.to_dict()
    assert told["attributes"]["sys/tags"]["value"] == ["seen", "x"]
    assert told["series"]["loss"]["value"][-1] == 0.5
    assert told["attributes"]["sys/owner"] == document["attributes"]["sys/owner"]


def test_existing_run_is_refused_and_no_run_is_written():
    run = recorded()
    document = run.to_dict()
    with pytest.raises(RunExistsError, match=f"run {run.id!r} of project 'team/p' exists below"):
        seamark.from_dict(document, root=FIRST)
    several = {"runs": [{**document, "run": "another"}, document]}
    Path("x.json").write_text(json.dumps(several), encoding="utf-8")
    done = command("import", "x.json")
    assert (done.exit_code, "exists below" in done.stderr) == (2, True)
    assert not (FIRST / "team/p/another").exists()


WRONG: list[tuple[str, Any, str]] = [
    ("run", "../x", "run: "),
    ("project", 3, "project: expected a name, got int: 3"),
    ("project", "a/.models/b", "project: "),
    ("kind", "model", "kind: expected a run, got str: 'model'"),
    ("attributes values/no value", 1, "attributes['values/no'].value: expected a value of"),
    ("attributes when value", "now", "attributes.when.value: expected a value of type dat"),
    ("attributes /bad", {}, "attributes['/bad']: expected non-empty parts"),
    ("attributes file value sha256", "../x", "attributes.file.value: expected a valid val"),
    ("attributes kept kept state", None, "attributes.kept.kept: Statistics.from_dict:"),
    ("attributes sys/tags value", "x", "attributes['sys/tags'].value: expected a list of t"),
    ("attributes sys/state value", "x", "attributes['sys/state'].value: expected one of c"),
    ("attributes sys/creation_time value", "2300-01-01T00:00:00+00:00", "attributes['sys/cr"),
    ("attributes sys/modification_time value", "2020-01-01T00:00:00Z", "attributes['sys/modi"),
    ("series", None, "series: expected an object with the points of 'gone'"),
    ("series loss", None, "series.loss: expected an object with step, value, time and attem"),
    ("series loss value 2", 10**400, "series.loss.value[2]: expected a number that fits"),
    ("series loss step 0", "nan", "series.loss.step[0]: expected a finite number, got"),
    ("series loss step", [1], "series.loss.value: expected length 1 (as step), got 4"),
    ("series loss time 1", "2026-13-01T00:00:00Z", "series.loss.time[1]: expected a time such as"),
    ("texts log value 0", {"sha256": "x"}, "texts.log.value[0]: expected a text"),
    ("files pictures value 0", {"size": -1}, "files.pictures.value[0]: expected the recor"),
]


@pytest.mark.parametrize(("place", "value", "said"), WRONG, ids=[one[2][:40] for one in WRONG])
def test_error_names_the_place_of_a_wrong_value(place, value, said, document):
    """Before anything is written: there is not even a root."""
    broken = copy.deepcopy(document)
    at: Any = broken
    *outer, last = [int(key) if key.isdigit() else key for key in place.split()]
    for key in outer:
        at = at[key]
    at[last] = value
    with pytest.raises(ArgumentError) as caught:
        seamark.from_dict(broken, root=SECOND)
    assert str(caught.value).startswith(said)
    Path("x.json").write_text(json.dumps({"runs": [document, broken]}), encoding="utf-8")
    done = command("import", "x.json", root=SECOND)
    assert done.exit_code == 2
    assert f"runs[1].{said}" in done.stderr
    assert not SECOND.exists()


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("document"))
        return recorded().to_dict()


def test_file_that_is_no_document_is_refused_in_one_line():
    for text, said in (
        ("{", "expected JSON as seamark export --format json writes it"),
        ('{"run": NaN}', "expected strict JSON, got NaN"),
        ("[" * 100_000, "expected JSON"),
        ("[]", "the document: expected an object, got list: []"),
        ('{"runs": 1}', "runs: expected a list, got int: 1"),
    ):
        Path("x.JSON").write_text(text, encoding="utf-8")
        done = command("import", "x.JSON", root=SECOND)
        assert done.exit_code == 2
        assert said in done.stderr.replace("\n", " ")
    assert not SECOND.exists()


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_document_is_refused_completely_or_becomes_a_readable_run(document, data):
    broken = copy.deepcopy(document)
    at: Any = broken
    for _ in range(data.draw(st.integers(0, 4))):
        keys = list(at) if isinstance(at, dict) else range(len(at))
        inner = [key for key in keys if isinstance(at[key], dict | list) and at[key]]
        if not inner:
            break
        at = at[data.draw(st.sampled_from(inner))]
    key = data.draw(st.sampled_from(list(at) if isinstance(at, dict) else range(len(at))))
    at[key] = data.draw(JUNK)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        try:
            run = seamark.from_dict(broken, root=root)
        except SeamarkError:
            assert not root.exists()
        else:
            told = run.to_dict()
            json.dumps(told, allow_nan=False)
            assert "monitoring/seamark/fold_errors" not in told["attributes"]


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
    run = record()

    shown = command("show", run.id, "--json", root=run.root).stdout
    told, report = json.loads(shown)["report"], run.report()
    assert (told["state"], told["metrics"]["val/loss"]) == (report["state"], "nan")
    assert {**told["errors"][0], "time": None} == {**report["errors"][0], "time": None}
    printed = command("show", run.id, root=run.root).stdout
    assert "Errors (2)" in printed
    assert "first  failed (broken)" in printed
