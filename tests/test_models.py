"""Models and their versions: containers like runs, with numbers that nobody hands out twice."""

from __future__ import annotations

import inspect
import json
import os
from pathlib import Path
from shutil import copytree

import pytest
from command import output_of
from journals import headers

import seamark
from seamark import errors, exceptions
from seamark.index.index import Index
from seamark.journal.folder import RunFolder, iter_runs
from seamark.run.logbook import LogSession


@pytest.fixture
def given(root):
    given = {"project": "team/p", "root": root}
    with seamark.init_model(key="RESNET", name="Big one", **given) as model:
        model["signature"] = "image -> class"
    return given


def numbers(given):
    model = seamark.init_model("RESNET", mode="read-only", **given)
    rows = model.fetch_model_versions_table(columns=["sys/version"]).to_rows()
    return {row["sys/id"]: row["sys/version"] for row in rows}


def test_what_is_no_model_is_refused(root, given):
    (root / "team/p/.models/HALF").mkdir()
    model, version, neptune = seamark.init_model, seamark.init_model_version, exceptions
    half = r"'HALF' of .* holds no model .* remove the folder"
    for make, wrong, error, why in (
        (model, {}, neptune.NeptuneMissingRequiredInitParameter, "key="),
        (version, {}, errors.RunNotNamedError, "model="),
        (model, {"key": "N", "mode": "read-only"}, neptune.NeedExistingModelForReadOnlyMode, None),
        (model, {"with_id": "NONE"}, neptune.ModelNotFound, "no model 'NONE'"),
        (model, {"with_id": 7}, errors.ArgumentError, "with_id: expected a string"),
        (version, {"model": "NONE"}, neptune.ModelNotFound, None),
        (version, {"with_id": "RESNET-7"}, neptune.ModelVersionNotFound, None),
        (version, {"nmae": "RESNET"}, errors.UnknownArgumentError, "did you mean 'name'"),
        (model, {"key": "HALF"}, errors.KeyTakenError, half),
        *(
            (model, {"key": key}, errors.PathError, "key")
            for key in ("../x", "a-b", "", ".models", "con")
        ),
        (model, {"key": "RESNET"}, errors.KeyTakenError, "exists"),
        (model, {"key": "RESNET"}, neptune.NeptuneModelKeyAlreadyExistsError, None),
        (model, {"key": "RESNET"}, neptune.NeptuneObjectCreationConflict, None),
    ):
        with pytest.raises(error, match=why):
            make(**wrong, **given)
    assert [folder.run for folder in iter_runs(root, models=True)] == ["RESNET"]


def test_arguments_come_in_neptunes_order():
    for verb, fourth in ((seamark.init_model, "key"), (seamark.init_model_version, "model")):
        names = list(inspect.signature(verb).parameters)
        assert names[:5] == ["with_id", "name", fourth, "project", "mode"]
    assert list(inspect.signature(seamark.Project.fetch_models_table).parameters)[1:] == [
        *("query", "columns", "trashed", "limit", "sort_by", "ascending", "progress_bar")
    ]


def test_a_stage_is_changed_by_its_verb_alone(given):
    version = seamark.init_model_version(model="RESNET", **given)
    assert version["sys/stage"].fetch() == "none"
    version.change_stage("production")
    assert version["sys/stage"].fetch() == "production"
    for path in ("sys/stage", "sys/version", "sys/model_id", "sys/id"):
        with pytest.raises(errors.PathError):
            version[path] = "staging"
    with pytest.raises(exceptions.NeptuneCannotChangeStageManually):
        del version["sys/stage"]
    with pytest.raises(errors.StageError, match="change_stage"):
        version["sys"] = {"stage": "staging"}
    with pytest.raises(ValueError, match="did you mean 'staging'"):
        version.change_stage("stagin")  # codespell:ignore
    version.stop()
    with pytest.raises(errors.InactiveRunError):
        version.change_stage("none")
    read = seamark.init_model_version(version.id, mode="read-only", **given)
    with pytest.raises(errors.ReadOnlyError):
        read.change_stage("none")
    assert read["sys/stage"].fetch() == "production"


def test_models_have_the_verbs_of_a_run_and_are_no_runs(given, tmp_path):
    file = tmp_path / "weights.bin"
    file.write_bytes(b"weights" * 1000)
    with seamark.ModelVersion(model="P-RESNET", name="first", flush_period=1, **given) as version:
        version["data"] = {"rows": 10, "split": "a"}
        version["acc"].extend([0.5, 0.75])
        version["sys/tags"].add("good")
        version["weights"].upload(str(file))
        assert isinstance(version, seamark.ModelVersion)
        assert (version.model, version.project) == ("RESNET", "team/p")
    with seamark.init_model_version("X-RESNET-1", **given) as again:
        again["acc"].append(1.0)  # goes on after the last step that there was
        assert again["acc"].fetch_last() == 1.0
        again["weights"].download(str(tmp_path / "back"))
        structure = again.get_structure()
        assert set(structure) == {"acc", "data", "sys", "weights"}
        assert (structure["acc"].count, structure["acc"].last_step) == (3, 2.0)
        assert "Version of model RESNET" in again._repr_html_()
    assert (tmp_path / "back").read_bytes() == file.read_bytes()
    told = [(one["kind"], bool(one["owner"])) for one in headers(version.folder.path)]
    assert told == [("model_version", False)] * 2
    project = seamark.init_project("team", root=given["root"])
    assert len(project.fetch_runs_table()) == 0
    (row,) = project.fetch_models_table(query='signature CONTAINS "class"').to_rows()
    assert (row["sys/id"], row["sys/name"]) == ("RESNET", "Big one")
    assert "sys/state" not in row
    model = seamark.Model("RESNET", **given)
    (row,) = model.fetch_model_versions_table(columns=["acc", "sys/*"]).to_rows()
    assert (row["sys/version"], row["sys/model_id"], row["acc"]) == (1, "RESNET", 1.0)
    assert (row["sys/stage"], row["sys/name"], row["sys/id"]) == ("none", "first", version.id)
    with seamark.init_run(**given) as run:  # lineage names them as people do
        run.mark_input(model)
        run.mark_output(version)
        labels = [one.label for one in run.lineage().nodes.values()]
    assert labels[1:] == ["team/p/RESNET", "team/p/RESNET-1"]


def test_disabled_and_debug_models_leave_nothing(given):
    for mode in ("disabled", "debug"):
        with seamark.init_model_version(model="WHICH", project="q", mode=mode) as version:
            version["x"] = 1
            version.change_stage("staging")
        with seamark.init_model("Q-WHICH", project="q", mode=mode) as model:
            model["x"] = 1
            assert model.key == "WHICH"
    assert not Path(".seamark").exists()
    assert numbers(given) == {}


def test_commands_take_models_and_versions(given, root):
    def called(*words):
        return output_of(*words, "--root", str(root))

    versions = []
    for stage in ("staging", "production"):
        with seamark.init_model_version(model="RESNET", **given) as version:
            version.change_stage(stage)
            versions.append(version.id)
    assert json.loads(called("ls", "--json")) == []
    (row,) = json.loads(called("ls", "--kind", "model", "--json"))
    assert (row["project"], row["run"]) == ("team/p", "RESNET")
    where = ["--query", "sys/stage = production", "--json"]
    (row,) = json.loads(called("ls", "--kind", "model_version", *where))
    assert (row["run"], row["sys/version"]) == (versions[1], 2)
    assert "RESNET-2" in called("show", "RESNET-2")
    exported = called("export", f"team/p/{versions[0]}", "--format", "json")
    (one,) = json.loads(exported)["runs"]
    assert (one["project"], one["kind"]) == ("team/p", "model_version")
    assert "3 journals" in called("fsck")
    called("trash", "RESNET", "RESNET-1")
    with pytest.raises(AssertionError, match="has 1 version that would be deleted with it"):
        called("purge", "--yes")
    called("trash", versions[1])
    kept = copytree(root / "team/p/.models/RESNET" / versions[0], root.parent / "kept")
    called("purge", "--yes")
    assert [*iter_runs(root, models=True)] == []
    copytree(kept, root / "team/p/.models/RESNET" / versions[0])
    with Index.open(root) as index:
        index.refresh()
        assert index.runs(None, "model_version") == []  # it was purged with its model
    with pytest.raises(errors.KeyTakenError, match="purged"):
        seamark.init_model(key="RESNET", **given)


_MAKE = """
import sys, seamark
root = sys.argv[1]
try:
    seamark.init_model(key="K", project="p", root=root)
except seamark.errors.KeyTakenError:
    print("K taken")
for _ in range(3):
    with seamark.init_model_version(model="RESNET", project="team/p", root=root) as version:
        version["x"] = 1
        print(version.id, version["sys/version"].fetch(), flush=True)
"""


@pytest.mark.once
def test_processes_at_once_get_numbers_of_their_own(forks, given, root):
    ended = forks.run(_MAKE, str(root), environments=[{}] * 3)
    lines = [line.split() for each in ended for line in each.stdout.splitlines()]
    assert lines.count(["K", "taken"]) == 2
    told = dict(line for line in lines if line[0] != "K")
    assert sorted(map(int, told.values())) == list(range(1, 10))
    assert numbers(given) == {version: int(number) for version, number in told.items()}


def test_of_two_versions_with_one_number_the_later_gets_the_next_free_one(given, root):
    other = copytree(root, root.parent / "other")
    ids = []
    for place in (root, other, root, other):
        with seamark.init_model_version(model="RESNET", **{**given, "root": place}) as version:
            ids.append(version.id)
    there = other / "team/p/.models/RESNET"
    for place in (there / ids[1], there / ids[3]):
        copytree(place, root / "team/p/.models/RESNET" / place.name)
    merged = numbers(given)
    assert merged == dict(zip(ids, (1, 3, 2, 4), strict=True))
    model = seamark.init_model("RESNET", mode="read-only", **given)
    for query, wanted in (
        ("`sys/version` > 2", {3, 4}),
        ("NOT sys/version = 3 AND sys/version:int <= 3", {1, 2}),
        ("sys/version IN (1, 4) OR sys/version = 3.0", {1, 3, 4}),
        ('NOT sys/id IN ("x", "y")', {1, 2, 3, 4}),
    ):
        rows = model.fetch_model_versions_table(query=query).to_rows()
        assert {row["sys/version"] for row in rows} == wanted, query
    opened = seamark.init_model_version("RESNET-3", mode="read-only", **given)
    assert (opened.id, opened["sys/version"].fetch()) == (ids[1], 3)
    with seamark.init_model_version(model="RESNET", **given) as newest:
        assert newest["sys/version"].fetch() == 5
    assert numbers(given) == {**merged, newest.id: 5}
    (root / "team/p/.models/RESNET" / ids[1]).rename(root.parent / "gone")
    assert numbers(given) == {ids[0]: 1, ids[2]: 2, ids[3]: 3, newest.id: 5}


def test_links_and_odd_names_among_models_mislead_nobody(given, root):
    models = root / "team/p/.models"
    with seamark.init_model_version(model="RESNET", **given) as version:
        pass
    (outside := root.parent / "outside").mkdir()
    journal = models / "RESNET" / version.id / "journal"
    for name in ("a-b", "x y", "..x", "journal"):
        copytree(journal, models / name / "journal")
    (models / "LINK").symlink_to(models / "RESNET")
    for name in ("0", "07", "-3", "x", "9" * 30, "1e3", "٣"):
        (models / "RESNET/.numbers" / name).touch()
    (models / "RESNET/.numbers/2").mkdir()
    os.mkfifo(models / "RESNET/.numbers/3")
    (models / "RESNET/.numbers/4").symlink_to(outside / "made")
    found = {(one.project, one.run) for one in iter_runs(root, models=True)}
    assert found == {("team/p/.models", "RESNET"), ("team/p/.models/RESNET", version.id)}
    with seamark.init_model_version(model="RESNET", **given) as another:
        assert another["sys/version"].fetch() == 5
    (models / "RESNET/.numbers/999999999").touch()
    with seamark.init_model_version(model="RESNET", **given) as another:
        assert another["sys/version"].fetch() == 6
    assert not any(outside.iterdir())
    (models / "RESNET/.numbers").rename(models / "RESNET/.was")
    (models / "RESNET/.numbers").symlink_to(outside)
    with pytest.raises(OSError, match="link"):
        seamark.init_model_version(model="RESNET", **given)
    assert not any(outside.iterdir())


def test_a_recorded_number_that_is_none_is_ignored(given):
    for at, number in enumerate((0, 10**9, 1.0, "1", True), 1):
        ref = ("team/p/.models/RESNET", f"odd{at}")
        odd = seamark.ModelVersion(LogSession(RunFolder(given["root"], *ref), "offline"))
        odd.start()
        odd.session.recorder.values.assign_quietly({"sys/version": number})
        odd.stop()
        with seamark.init_model_version(model="RESNET", **given) as version:
            assert version["sys/version"].fetch() == at, number
        assert seamark.init_model_version(f"odd{at}", **given).id == f"odd{at}"
    with pytest.raises(errors.RunNotFoundError):
        seamark.init_model_version("RESNET-0", **given)
