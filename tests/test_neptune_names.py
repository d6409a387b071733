"""``import seamark as neptune``, and Seamark installed in its place: names, arguments and types."""

from __future__ import annotations

import contextlib
import enum
import fnmatch
import importlib
import inspect
import json
import logging
import math
import os
import pickle
import re
import runpy
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from recording import NOTHING, QUIET

import seamark
from seamark import errors, exceptions, types, utils
from seamark.integrations.python_logger import NeptuneHandler
from seamark.integrations.utils import expect_not_an_experiment, join_paths, verify_type
from seamark.utils import stringify_unsupported

# The public names of neptune 1.14.0 with the arguments that they take: [name, how, required].
KNOWN = json.loads((Path(__file__).parent / "data" / "neptune_1_14.json").read_text("utf-8"))
PAGE = Path(__file__).parents[1] / "docs" / "howto" / "from-neptune.md"
HOMES: dict[str, Any] = {
    name: getattr(seamark, name) for name in ("Run", "Project", "Model", "ModelVersion", "Handler")
}
OPENED = {
    seamark.Run: seamark.init_run,
    seamark.Project: seamark.init_project,
    seamark.Model: seamark.init_model,
    seamark.ModelVersion: seamark.init_model_version,
}
IGNORED = {"async_lag_callback", "async_lag_threshold", "async_no_progress_callback", "proxies"}
IGNORED |= {"async_no_progress_threshold", "enable_remote_signals", "flush_period"}
"""Arguments of Neptune's runs that are accepted, do nothing, and are not listed."""


def not_taken(ours, arguments):
    ours = OPENED.get(ours, ours) if isinstance(ours, type) else ours
    if arguments is None or not callable(ours):
        return
    if isinstance(ours, type) and issubclass(ours, enum.Enum):
        return  # what is asked of one differs with Python, not with us
    taken = inspect.signature(ours).parameters
    by_name = any(each.kind is each.VAR_KEYWORD for each in taken.values())
    for name, how, _ in arguments:
        mine = taken.get(name)
        is_ignored = ours is seamark.init_run and name in IGNORED
        if how in ("args", "kwargs", "positional") or (mine is None and (by_name or is_ignored)):
            continue
        if mine is None or (how == "either" and mine.kind is mine.KEYWORD_ONLY):
            yield name


def compared(where, owner, names):
    for name, arguments in names.items():
        if not hasattr(owner, name):
            yield f"{where}.{name}"
        else:
            for argument in not_taken(getattr(owner, name), arguments):
                yield f"{where}.{name}({argument})"


def differences():
    for module, names in KNOWN["modules"].items():
        owner = importlib.import_module(f"seamark.{module}".rstrip("."))
        yield from compared(f"neptune.{module}".rstrip("."), owner, names)
    for name, names in KNOWN["classes"].items():
        owner = HOMES.get(name) or getattr(seamark.types, name.removeprefix("types."))
        yield from compared(name, owner, names)


def test_the_page_names_every_difference_to_neptune_and_no_other():
    page = PAGE.read_text(encoding="utf-8")
    table = page.partition("<!-- names -->")[2].partition("<!-- end of names -->")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
    found = set(differences())
    covered = {each: fnmatch.filter(found, each) for each in named}
    assert found - {one for some in covered.values() for one in some} == set()
    assert [each for each, some in covered.items() if not some] == []


@pytest.mark.parametrize("module", sorted(KNOWN["exceptions"]))
def test_every_exception_can_be_caught_by_its_name(module):
    ours = importlib.import_module(f"seamark.{module}")
    assert sorted(ours.__all__) == sorted(KNOWN["exceptions"][module])
    for name in ours.__all__:
        kind = getattr(ours, name)
        assert issubclass(kind, errors.SeamarkError)
        assert kind.__doc__
        assert type(pickle.loads(pickle.dumps(kind("why")))) is kind


def test_errors_are_caught_by_neptunes_names(run, tmp_path):
    run["lr"] = 0.1
    with pytest.raises(exceptions.MissingFieldException, match="nothing") as caught:
        run["nothing"].fetch()
    assert isinstance(caught.value, AttributeError)
    with pytest.raises(exceptions.TypeDoesNotSupportAttributeException):
        run["lr"].append(1)
    with pytest.raises(exceptions.MetadataInconsistency):
        run.define("lr", 1)
    with pytest.raises(exceptions.FileNotFound) as missing:
        run["file"].upload(str(tmp_path / "missing"))
    assert missing.value.filename == str(tmp_path / "missing")
    with pytest.raises(exceptions.NeptuneProtectedPathException):
        run["sys/id"] = "x"
    given = {"root": tmp_path / "root", **QUIET}
    with pytest.raises(exceptions.NeedExistingRunForReadOnlyMode):
        seamark.init_run("p", mode="read-only", **given)
    with pytest.raises(exceptions.NeptuneRunResumeAndCustomIdCollision):
        seamark.init_run("p", with_id="a", custom_run_id="b", **given)
    with pytest.raises(exceptions.RunNotFound):
        seamark.init_run("p", with_id="0abc0abc0abc0abc", mode="read-only", **given)
    run.stop()
    with pytest.raises(exceptions.InactiveRunException):
        run["x"] = 1


def test_run_and_project_are_constructors(tmp_path):
    with seamark.Run(project="p", root=tmp_path, flush_period=1, **QUIET) as run:
        run["x"] = 1
        assert isinstance(run, seamark.Run)
    project = seamark.Project("p", root=tmp_path, flush_period=5, proxies=None)
    assert project.fetch_runs_table().to_rows()[0]["sys/id"] == run.id
    with pytest.raises(errors.UnknownArgumentError, match="flush_period"):
        seamark.init_project("p", flush_perod=5)  # codespell:ignore
    assert pickle.loads(pickle.dumps(run)).id == run.id


def test_methods_that_integrations_call(run):
    assert run.container_type == "run"
    assert run.get_state() == "started"
    run.ping()
    run.start()
    with run.lock(), run.lock():
        assert run.define("a/b", 5).fetch() == 5
    attribute = run.get_attribute("a/b")
    assert isinstance(attribute, seamark.Handler)
    assert attribute.container is run
    assert run.get_attribute("nothing") is None
    assert run.monitoring_namespace == f"monitoring/{run.writer}"
    project = seamark.init_project("p", mode="disabled")
    assert project.container_type == "project"
    assert project.get_state() in ("created", "started")
    # A namespace is a tree of handlers, whose length they ask for.
    run["fits/0/loss"].append(1)
    run["fits/1/loss"].append(1)
    found = run.get_attribute("/fits/")
    assert isinstance(found, dict)
    assert len(found) == 2
    assert found["1"]["loss"].fetch_last() == 1
    assert run.set_attribute("fits/2", found) is found
    assert not run.exists("fits/2")
    expect_not_an_experiment(run)
    assert join_paths("a", "b/", "", "/c") == "a/b/c"
    verify_type("run", run, (seamark.Run, seamark.Handler))
    with pytest.raises(TypeError, match="run: expected int"):
        verify_type("run", run, int)
    # ``expand=True`` gives each element of a list a path.
    run["p"] = utils.stringify_unsupported({"layers": [8, (1, "a")], "lr": 0.1}, expand=True)
    assert run["p"].fetch() == {"layers": {"0": 8, "1": {"0": 1, "1": "a"}}, "lr": 0.1}
    utils.stop_synchronization_callback(run)
    assert run.get_state() == "stopped"


def test_a_progress_bar_counts_and_is_closed(run):
    told: list[Any] = []

    class Bar(utils.ProgressBarCallback):
        def update(self, *, by: int, total: int | None = None) -> None:
            told.append((by, total))

        def __exit__(self, *_: object) -> None:
            told.append("closed")

    project = seamark.init_project("p", root=run.root)
    run["x"] = 1
    for bar in (Bar, utils.NullProgressBar):
        assert len(project.fetch_runs_table(progress_bar=bar).to_rows()) == 1
    assert told[-1] == "closed"
    assert sum(each[0] for each in told[:-1]) == 1


def test_an_argument_without_a_name_is_the_run_or_the_project(tmp_path, caplog):
    """``KEY-12`` is a run where there is one, and else a project, with a warning."""
    given = {"root": tmp_path, **QUIET}
    made = seamark.init_run("p", name="KEY-12", **given)
    made["x"] = 1
    made.stop()
    for word, more in (("KEY-12", {}), ("KEY-12", {"mode": "read-only"}), (made.id, {})):
        with seamark.init_run(word, project="p", **given, **more) as again:
            assert (again.id, again["x"].fetch()) == (made.id, 1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("NEPTUNE_PROJECT", "p")
        for word in ("KEY-12", made.id):
            with seamark.Run(word, **given) as again:
                assert again.id == made.id
        assert "KEY" not in caplog.text
        with seamark.init_run("KEY-13", **given) as other:
            assert other.project == "KEY-13"
        assert len([one for one in caplog.messages if "with_id='KEY-13'" in one]) == 1


def test_init_of_old_clients_warns_and_is_init_run(tmp_path):
    given = {"root": tmp_path, **QUIET}
    with pytest.warns(DeprecationWarning, match="init_run"):
        made = seamark.init("p", name="old", tags=["a"], **given)
    made.stop()
    with pytest.warns(DeprecationWarning, match="init_run"):
        again = seamark.init(project="p", run=made.id, **given)
    assert (again.id, again["sys/tags"].fetch()) == (made.id, {"a"})
    again.stop()


def test_seamark_new_has_the_names_of_neptune_new():
    for module, name, ours in (
        ("metadata_containers", "Run", seamark.Run),
        ("new.exceptions", "NeptuneException", exceptions.NeptuneException),
        ("new.types.value_copy", "ValueCopy", types.ValueCopy),
    ):
        assert getattr(importlib.import_module(f"seamark.{module}"), name) is ours
    for name, hint in {
        "new.nothing": "No module named 'seamark.new.nothing'",
        "integrations.optuna": "python -m seamark.neptune",
        "integrations.pytorch_lightning": "from seamark.lightning import NeptuneLogger",
    }.items():
        with pytest.raises(ModuleNotFoundError, match=hint):
            importlib.import_module(f"seamark.{name}")


def test_tables_know_of_every_run_whether_it_failed(tmp_path):
    """As a column and in a query, also of runs without a record of it."""
    for name in ("good", "bad", "cleared"):
        with seamark.init_run("team/p", root=tmp_path, name=name, **QUIET) as run:
            if name != "good":
                run["sys/failed"] = name == "bad"
    project = seamark.init_project("team/p", root=tmp_path, mode="read-only")

    def names(query):
        table = project.fetch_runs_table(query=query, columns=["sys/name"])
        return {row["sys/name"] for row in table.to_rows()}

    table = project.fetch_runs_table(columns=["sys/name", "sys/failed"])
    failed = {row["sys/name"]: row["sys/failed"] for row in table.to_rows()}
    assert failed == {"good": False, "bad": True, "cleared": False}
    assert names("sys/failed = true") == names("sys/failed != false") == {"bad"}
    assert names("sys/failed:bool = False") == names("sys/failed != true") == {"good", "cleared"}
    assert names("NOT (sys/failed = false)") == {"bad"}


def test_fields_of_every_run_of_neptune_can_be_fetched(tmp_path):
    """A run without a name has one for reading; other fields are empty; nothing is recorded."""
    with seamark.init_run("team/p", root=tmp_path, **QUIET) as run:
        called = run["sys/name"].fetch()
        assert run["sys/tags"].fetch() == run["sys/group_tags"].fetch() == set()
        assert run["sys/description"].fetch() == ""
        assert run["sys/failed"].fetch() is False
        assert not run.exists("sys/name")
        found = seamark.init_run("team/p", with_id=called, mode="read-only", root=tmp_path)
        assert found.id == run.id
        run["sys/name"] = "mine"
        assert run["sys/name"].fetch() == "mine"
        run["a"] = "x" * 5000
    project = seamark.init_project("team/p", root=tmp_path)
    assert project["sys/name"].fetch() == "p"
    read = seamark.init_run("team/p", with_id=run.id, mode="read-only", root=tmp_path)
    assert 5000 < read["sys/size"].fetch() < 50_000
    assert read["sys/ping_time"].fetch() == read["sys/modification_time"].fetch()
    assert read["sys/monitoring_time"].fetch() == int(read["sys/running_time"].fetch())
    assert read["sys/failed"].fetch() is False


def test_files_are_leaves_of_the_structure(run):
    """Loggers walk through nested dicts to find the recorded paths."""
    run["model/checkpoints/last"].upload(seamark.types.File.from_content("x"))
    run["model/data"].track_files(str(PAGE))
    run["model/names"].append("a")
    found = run.get_structure()["model"]
    assert list(found) == ["checkpoints", "data", "names"]
    leaves = (found["checkpoints"]["last"], found["data"], found["names"])
    assert not any(isinstance(leaf, dict) for leaf in leaves)
    assert leaves[0]["size"] == 1


def test_logging_goes_to_a_series(run, capsys):
    """Records are appended as formatted; nothing is raised, and there are no loops."""
    pytest.importorskip("pandas")
    logger, own = logging.getLogger("a test of logging"), logging.getLogger("seamark")
    logger.setLevel(logging.INFO)
    handlers = [NeptuneHandler(run=run), NeptuneHandler(run=run["fold"], path="log")]
    broken = NeptuneHandler(run=run, path="lr")
    run["lr"] = 0.1
    try:
        for handler in handlers:
            logger.addHandler(handler)
            own.addHandler(handler)
        logger.info("step %d", 1)
        logger.debug("left out")
        logger.addHandler(broken)
        logger.info("step 2")
        run["none"].append(None)  # warns
        for path in (f"{run.monitoring_namespace}/python_logger", "fold/log"):
            assert run[path].fetch_values()["value"].tolist()[:2] == ["step 1", "step 2"]
        assert "FamilyError" in capsys.readouterr().err
        run.stop()
        logger.info("after the end")
    finally:
        for handler in (*handlers, broken):
            logger.removeHandler(handler)
            own.removeHandler(handler)


_MOMENT = datetime(2026, 11, 22, 8, tzinfo=timezone.utc)
_SHA = "ab" * 32


def test_single_values_are_recorded_with_their_type(run):
    for value, expected, kind in (
        (types.Integer("5"), 5, "int"),
        (types.Float("0.5"), 0.5, "float"),
        (types.Boolean("x"), True, "bool"),
        (types.String("a"), "a", "string"),
        (types.String(None), None, "null"),
        (types.Datetime(_MOMENT), _MOMENT, "datetime"),
    ):
        run["a"] = value
        run["b"] = {"c": {"d": value}}
        for path in ("a", "b/c/d"):
            assert (run[path].fetch(), run.get_attribute_type(path)) == (expected, kind)


def test_wrong_values_are_refused_where_they_are_made():
    """With an error that is Neptune's and a built-in one."""
    for make, error in (
        (lambda: types.Integer("x"), ValueError),
        (lambda: types.String(5), TypeError),
        (lambda: types.Datetime(5), TypeError),
        (lambda: types.StringSet([1]), TypeError),
        (lambda: types.Artifact("abc"), errors.ArgumentError),
        (lambda: types.FloatSeries(5), TypeError),
        (lambda: types.FloatSeries(["x"]), TypeError),
        (lambda: types.FloatSeries([1], steps=[1, 2]), errors.ArgumentError),
        (lambda: types.StringSeries("abc"), TypeError),
        (lambda: types.FileSeries([5]), TypeError),
    ):
        with pytest.raises(error) as caught:
            make()
        assert isinstance(caught.value, exceptions.NeptuneException)


def test_a_series_without_points_has_no_last_value(run):
    """Whether it was cleared or assigned without any, as with the client."""
    for path, point in (("numbers", 0.5), ("texts", "a"), ("files", types.File.from_content("x"))):
        run[path].append(point)
        run[path].clear()
        assert run[path].fetch_last() is None
    run["assigned"].append(1)
    run["assigned"] = types.FloatSeries([])
    assert run["assigned"].fetch_last() is None


def test_a_downloaded_file_is_named_after_its_path(run, tmp_path):
    (tmp_path / "weights.ckpt").write_bytes(b"w")
    (tmp_path / "out").mkdir()
    run["checkpoints"]["epoch_0"].upload(str(tmp_path / "weights.ckpt"))
    run["made"].upload(types.File.from_content(b"m", extension="bin"))
    run["bare"].upload(types.File.from_content(b"b", extension=""))
    for path in ("checkpoints/epoch_0", "made", "bare"):
        run[path].download(str(tmp_path / "out"))
    run["made"].download(f"{tmp_path}/new/folder/")
    assert (tmp_path / "new" / "folder" / "made.bin").read_bytes() == b"m"
    names = {each.name for each in (tmp_path / "out").iterdir()}
    assert names == {"bare", "epoch_0.ckpt", "made.bin"}


def test_assigning_a_series_replaces_its_points(run):
    """Steps and times are kept; later points continue after the last one."""
    run["loss"] = types.FloatSeries([3, math.nan, 1], steps=[10, 20, 30], timestamps=[1, 2, 3])
    points = run["loss"].fetch_points()
    assert list(points.step) == [10, 20, 30]
    assert list(points.time_ns) == [1_000_000_000, 2_000_000_000, 3_000_000_000]
    assert math.isnan(points.value[1])
    run["loss"] = types.FloatSeries([7], min=0, max=9, unit="m")
    points = run["loss"].fetch_points()
    assert (list(points.step), list(points.value)) == ([0], [7])
    run["loss"].append(types.Float(8))
    assert list(run["loss"].fetch_points().step) == [0, 1]
    run["n"] = {"words": types.StringSeries(["a", "b"]), "lr": types.Float(1)}
    assert (run["n/words"].fetch_last(), run["n/lr"].fetch()) == ("b", 1.0)
    # A list does so where a series is, and elsewhere is a value.
    run["loss"] = [1, 2.5]
    with pytest.raises(errors.ValueKindError):
        run["loss"] = ["a"]
    run["n/words"] = ("c", "d")
    run["value"] = [1, 2.5]
    assert run["loss"].fetch_points().value.tolist() == [1, 2.5]
    assert (run["n/words"].fetch_last(), run["value"].fetch()) == ("d", [1, 2.5])


def test_points_may_be_of_these_types_or_none(run, caplog):
    """A study whose best value is not known yet goes on."""
    run["m"].append({"a": types.Integer(1), "b": types.String("x")})
    assert (run["m/a"].fetch_last(), run["m/b"].fetch_last()) == (1.0, "x")
    run["best"].append(stringify_unsupported(None))
    run["best"].append({"a": None, "b": 1})
    run["best/b"].append(2)
    assert list(run["best/b"].fetch_points().value) == [1, 2]
    assert not run.exists("best/a")
    assert "None is not a point" in caplog.text


def test_files_of_a_series(run, tmp_path):
    """Paths and contents are points; a missing file prevents the assignment of its mapping."""
    (tmp_path / "a.txt").write_text("one")
    files = [str(tmp_path / "a.txt"), types.File.from_content("two")]
    run["plots"] = types.FileSeries(files, name="n", description="d")
    run["plots"].download(tmp_path / "out")
    assert sorted(each.read_text() for each in (tmp_path / "out").rglob("*.txt")) == ["one", "two"]
    with pytest.raises(errors.FileMissingError):
        run["x"] = {"lr": 1, "plots": types.FileSeries([str(tmp_path / "missing.png")])}
    assert not run.exists("x")
    run["files"].extend([files[1]] * 2, description="both", name="same")
    run.wait()
    found = run.session.recorded.local_reader().files("files")
    assert [(one.name, one.description) for one in found] == [("same", "both")] * 2


def test_sets_of_strings_and_files_are_replaced(run, monkeypatch, tmp_path):
    """A pattern without a match raises an error before anything is written."""
    run["labels"] = types.StringSet(["a", "b"])
    run["labels"] = types.StringSet("c")
    run["sys/tags"] = types.StringSet(["quick"])
    assert (run["labels"].fetch(), run["sys/tags"].fetch()) == ({"c"}, {"quick"})
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt", "c.md"):
        (tmp_path / name).write_text(name)

    def names():
        return [one["name"] for one in run["files"].list_fileset_files()]

    run["files"] = types.FileSet("*.txt")
    assert names() == ["a.txt", "b.txt"]
    run.assign({"files": types.FileSet(["*.md"])}, wait=True)
    assert names() == ["c.md"]
    with pytest.raises(errors.FileMissingError):
        run["files"] = types.FileSet("*.py")
    assert names() == ["c.md"]


def test_another_family_is_refused_before_anything_is_written(run):
    run["a/loss"] = 1.0
    for value in (types.FloatSeries([1]), types.Artifact(_SHA)):
        with pytest.raises(errors.FamilyError):
            run["a"] = {"lr": 1, "loss": value}
    assert not run.exists("a/lr")
    assert run["a/loss"].fetch() == 1.0
    run["data"] = types.Artifact(_SHA)
    assert (run["data"].fetch_hash(), run["data"].fetch_files_list()) == (_SHA, [])


def test_git_ref_is_an_argument_and_no_value(run, tmp_path):
    with pytest.raises(errors.ValueKindError, match="init_run"):
        run["git"] = types.GitRef()
    assert types.GitRef().resolve_path() is None
    assert types.GitRef(tmp_path).resolve_path() == tmp_path.resolve()
    for git_ref in (types.GitRef.DISABLED, types.GitRef(tmp_path)):
        quiet = {**QUIET, "capture": {**NOTHING, "git": True}}
        with seamark.init_run("p", root=tmp_path / "r", git_ref=git_ref, **quiet) as other:
            assert not other.exists("source_code/git")


def test_a_path_is_copied_by_its_value(run, tmp_path):
    """Values, sets and artifacts, also from another run; later changes are not copied."""
    from seamark.types.value_copy import ValueCopy

    assert ValueCopy is types.ValueCopy
    (tmp_path / "data.csv").write_text("1")
    run["a"] = {"lr": 0.1, "when": _MOMENT, "none": None, "labels": {"x"}, "long": [1, 2]}
    run["a/data"].track_files(str(tmp_path / "data.csv"))
    with seamark.init_run("p", root=tmp_path / "root", **QUIET) as other:
        other["lr"] = run["a/lr"]
        other["c"] = {"d": ValueCopy(run["a/lr"])}
        other["b"] = {name: run["a"][name] for name in ("when", "none", "labels", "long")}
        other["data"] = run["a/data"]
        other["fetched"] = run["a/data"].fetch()
        run["a/lr"] = 0.2
        assert [other["lr"].fetch(), other["c/d"].fetch()] == [0.1, 0.1]
        assert other["b/labels"].fetch() == {"x"}
        assert other["b"].fetch() == {"when": _MOMENT, "none": None, "long": [1, 2]}
        for path in ("data", "fetched"):
            assert other[path].fetch_hash() == run["a/data"].fetch_hash()
            assert other[path].fetch_files_list() == run["a/data"].fetch_files_list()
            assert [file.file_path for file in other[path].fetch_files_list()] == ["data.csv"]


def test_sources_without_a_single_value_cannot_be_copied(run):
    run["loss"].append(1)
    run["space/x"] = 1
    for source in (run["loss"], run):
        with pytest.raises(errors.ValueKindError, match="copy"):
            run["b"] = source
    for missing in (run["space"], run["nothing"], types.ValueCopy(run["nothing"])):
        with pytest.raises(exceptions.MissingFieldException):
            run["b"] = missing
    assert not run.exists("b")


def test_drawings_become_files(run):
    """A figure, a picture, a table and charts, which can be read without a network or are small."""
    figure = pytest.importorskip("matplotlib.figure").Figure()
    image = pytest.importorskip("PIL.Image").new("RGB", (2, 2))
    table = pytest.importorskip("pandas").DataFrame({"a": [1]})
    chart = pytest.importorskip("plotly.graph_objects").Figure()
    run["figure"] = figure
    run["more"] = {"image": image, "table": table, "lr": 0.1}
    paths = ("figure", "more/image", "more/table")
    assert [run[path].fetch_extension() for path in paths] == ["png", "png", "html"]
    assert run["figure"].fetch_bytes().startswith(b"\x89PNG")
    run["whole"] = chart
    run["small"].upload(chart, include_plotlyjs="cdn", wait=True)
    assert len(run["small"].fetch_bytes()) < 1_000_000 < len(run["whole"].fetch_bytes())


CHECKS = """
import importlib.metadata, importlib.util, multiprocessing, os, subprocess, sys

def imported(_=None):
    import neptune
    return neptune.__name__

if __name__ == "__main__":
    found = importlib.util.find_spec("neptune")
    assert found is not None and found.name == "neptune", found
    import neptune
    import neptune.new
    import neptune.types.series.float_series
    import seamark
    from neptune.common.exceptions import NeptuneException
    from neptune.exceptions import NeptuneOfflineModeFetchException
    from neptune.management.exceptions import ProjectAlreadyExists
    from neptune.new.handler import Handler
    from neptune.new.run import Run
    from neptune.new.types import File
    from neptune.types import FileSeries

    assert neptune is neptune.new is seamark
    assert neptune.types is neptune.new.types is seamark.types
    assert neptune.types.File is File is seamark.types.File
    assert neptune.Run is neptune.new.Run is Run is seamark.Run
    assert neptune.new.handler.Handler is Handler is seamark.Handler
    assert neptune.exceptions.NeptuneException is NeptuneException is seamark.errors.SeamarkError

    for name in ("neptune", "neptune-client", "neptune_client"):
        assert importlib.metadata.version(name) == "1.14.0"
    named = {one.metadata["Name"] for one in importlib.metadata.distributions()}
    assert "neptune" not in named  # nobody installed it
    for name in ("neptune.nothing", "neptune.integrations.nothing", "neptune.types.series.nothing"):
        try:
            __import__(name)
        except ModuleNotFoundError as error:
            assert error.name == name, error.name
        else:
            assert name == "neptune.types.series.nothing", name

    with neptune.init_run(project="team/moved") as run:
        run["lr"] = 0.1
        run["plots"] = FileSeries([File.from_content("a")])
        assert isinstance(run, neptune.Run) and isinstance(run["lr"], Handler)
        assert run["source_code/entrypoint"].fetch() == sys.argv[1]

    assert sys.argv[2:] == ["-x", "two words"], sys.argv
    is_script = sys.argv[1].endswith(".py")  # which is started with options of Python's
    assert sys.warnoptions == (["error::ResourceWarning"] if is_script else []), sys.warnoptions
    assert sys.dont_write_bytecode or not is_script
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(imported, [1]), flush=True)
    code = "import neptune; print(neptune.__name__)"
    subprocess.run([sys.executable, "-c", code], check=True)
    from package.inner import beside
    print(beside)
    sys.exit(3)
"""


def python(*words, **env):
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "SEAMARK_QUIET": "1", "SEAMARK_CAPTURE_GIT": "0", **env},
    )


@pytest.mark.parametrize("how", ["script", "module"])
def test_a_script_runs_as_python_runs_it(how, captured, tmp_path, monkeypatch):
    """Every way to import neptune gives Seamark, also in the processes that it starts."""
    folder = tmp_path / "scripts"  # not the working one
    for name in ("package", "site", "sites"):
        (folder / name).mkdir(parents=True)
    for name in ("train.py", "package/train.py"):
        (folder / name).write_text(CHECKS)
    (folder / "package" / "__init__.py").touch()
    (folder / "package" / "inner.py").write_text("beside = 'beside the script'")
    (folder / "site" / "sitecustomize.py").write_text(
        "import os, pathlib; pathlib.Path(os.environ['SITES'], str(os.getpid())).touch()"
    )
    if how == "script":
        options = ["-W", "error::ResourceWarning", "-Bm"]
        words = [str(folder / "train.py"), str(folder / "train.py")]
    else:
        monkeypatch.chdir(folder)
        options = ["-m"]
        words = ["-m", "package.train", "-m package.train"]
    path = os.pathsep.join(filter(None, (str(folder / "site"), os.environ.get("PYTHONPATH"))))
    more = {"PYTHONPATH": path, "SITES": str(folder / "sites")}
    done = python(*options, "seamark.neptune", *words, "-x", "two words", **more)
    assert done.stderr == ""
    assert done.returncode == 3
    assert done.stdout.splitlines() == ["['seamark']", "seamark", "beside the script"]
    # The environment is unchanged here, in a worker and in a process of its own.
    assert len(list((folder / "sites").iterdir())) >= 3


@pytest.mark.parametrize("words", [[], ["--nothing"], ["-m"], ["--help"]], ids=str)
def test_arguments_without_a_script_print_the_usage(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["seamark.neptune", *words])
    is_asked = words == ["--help"]
    with contextlib.nullcontext() if is_asked else pytest.raises(SystemExit, match=r"^2$"):
        runpy.run_module("seamark.neptune", run_name="__main__")
    told = capsys.readouterr()
    assert (told.out if is_asked else told.err).startswith("usage: python -m seamark.neptune")


def test_an_imported_neptune_is_not_replaced(tmp_path):
    """The error names its file; after that is unloaded, install() can be called twice."""
    (tmp_path / "neptune").mkdir()
    (tmp_path / "neptune" / "__init__.py").write_text("")
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    code = (
        "import sys, neptune, seamark.neptune\n"
        "before = [*sys.meta_path]\n"
        "try: seamark.neptune.install()\n"
        "except seamark.errors.LoadedAlreadyError as error: print(error)\n"
        "assert sys.meta_path == before\n"
        "assert issubclass(seamark.errors.LoadedAlreadyError, ImportError)\n"
        "del sys.modules['neptune']\n"
        "for _ in range(2): seamark.neptune.install()\n"
        "import neptune; print(neptune.__name__, len(sys.meta_path) - len(before))\n"
    )
    done = python("-c", code, PYTHONPATH=path)
    assert done.stderr == ""
    said, then = done.stdout.splitlines()
    assert "before anything imports neptune" in said
    assert said.endswith(str(tmp_path / "neptune" / "__init__.py"))
    assert then == "seamark 1"
