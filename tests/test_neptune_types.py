"""Neptune's types: assigning one records what the plain value does, in our families."""

from __future__ import annotations

import math
from datetime import datetime, timezone

import pytest
from recording import NOTHING, QUIET

import seamark
from seamark import exceptions, types
from seamark.errors import ArgumentError, FamilyError, FileMissingError, ValueKindError
from seamark.utils import stringify_unsupported

_MOMENT = datetime(2026, 11, 22, 8, tzinfo=timezone.utc)
_SHA = "ab" * 32


@pytest.fixture
def run(tmp_path):
    with seamark.init_run("p", root=tmp_path / "root", **QUIET) as run:
        yield run


@pytest.mark.parametrize(
    ("value", "expected", "type_"),
    [
        (types.Integer("5"), 5, "int"),
        (types.Float("0.5"), 0.5, "float"),
        (types.Boolean("x"), True, "bool"),
        (types.String("a"), "a", "string"),
        (types.String(None), None, "null"),
        (types.Datetime(_MOMENT), _MOMENT, "datetime"),
    ],
    ids=repr,
)
def test_single_values_are_atoms(run, value, expected, type_):
    """The type says what the value becomes, by itself and in a mapping."""
    run["a"] = value
    run["b"] = {"c": {"d": value}}
    for path in ("a", "b/c/d"):
        assert run[path].fetch() == expected
        assert run.get_attribute_type(path) == type_


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: types.Integer("x"), ValueError),
        (lambda: types.Integer(None), TypeError),
        (lambda: types.Float("x"), ValueError),
        (lambda: types.String(5), TypeError),
        (lambda: types.Datetime(5), TypeError),
        (lambda: types.StringSet([1]), TypeError),
        (lambda: types.FileSet([1]), TypeError),
        (lambda: types.Artifact("abc"), ArgumentError),
        (lambda: types.FloatSeries(5), TypeError),
        (lambda: types.FloatSeries(["x"]), TypeError),
        (lambda: types.FloatSeries([1], steps=[1, 2]), ArgumentError),
        (lambda: types.StringSeries("abc"), TypeError),
        (lambda: types.StringSeries([1]), TypeError),
        (lambda: types.FileSeries([5]), TypeError),
    ],
)
def test_a_value_that_is_none_is_refused_where_it_is_made(make, error):
    """The line that is wrong raises, as an error of ours and the built-in."""
    with pytest.raises(error) as caught:
        make()
    assert isinstance(caught.value, exceptions.NeptuneException)


def test_a_value_copy_is_what_the_other_path_holds(run):
    """The module of Neptune's that has it is one here, too."""
    from seamark.types.value_copy import ValueCopy

    run["a"] = 3
    run["b"] = ValueCopy(run["a"])
    run["c"] = {"d": ValueCopy(run["a"])}
    assert ValueCopy is types.ValueCopy
    assert [run["b"].fetch(), run["c/d"].fetch()] == [3, 3]
    with pytest.raises(seamark.errors.MissingFieldError, match="'nothing'"):
        run["e"] = ValueCopy(run["nothing"])


def test_a_series_without_points_has_no_last_one(run):
    """As the client answers, of one that was emptied in either way."""
    for path, point in (("numbers", 0.5), ("texts", "a"), ("files", types.File.from_content("x"))):
        run[path].append(point)
        run[path].clear()
        assert run[path].fetch_last() is None
    run["assigned"].append(1)
    run["assigned"] = types.FloatSeries([])
    assert run["assigned"].fetch_last() is None


def test_a_file_in_a_folder_is_called_by_its_path(run, tmp_path):
    """As the client names it, whatever it was called where it came from."""
    (tmp_path / "weights.ckpt").write_bytes(b"w")
    (tmp_path / "out").mkdir()
    run["checkpoints"]["epoch_0"].upload(str(tmp_path / "weights.ckpt"))
    run["made"].upload(types.File.from_content(b"m", extension="bin"))
    run["bare"].upload(types.File.from_content(b"b", extension=""))
    for path in ("checkpoints/epoch_0", "made", "bare"):
        run[path].download(str(tmp_path / "out"))
    run["made"].download(f"{tmp_path}/new/folder/")
    assert (tmp_path / "new" / "folder" / "made.bin").read_bytes() == b"m"
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == [
        "bare",
        "epoch_0.ckpt",
        "made.bin",
    ]


def test_series_replace_what_was_there(run):
    """Steps and times are kept, and a second assignment begins again."""
    run["loss"] = types.FloatSeries([3, math.nan, 1], steps=[10, 20, 30], timestamps=[1, 2, 3])
    points = run["loss"].fetch_points()
    assert list(points.step) == [10, 20, 30]
    assert list(points.time_ns) == [1_000_000_000, 2_000_000_000, 3_000_000_000]
    assert math.isnan(points.value[1])
    run["loss"] = types.FloatSeries([7], min=0, max=9, unit="m")
    points = run["loss"].fetch_points()
    assert (list(points.step), list(points.value)) == ([0], [7])
    run["loss"].append(8)
    assert list(run["loss"].fetch_points().step) == [0, 1]
    run["n"] = {"words": types.StringSeries(["a", "b"]), "lr": types.Float(1)}
    assert run["n/words"].fetch_last() == "b"
    assert run["n/lr"].fetch() == 1.0


def test_files_of_a_series(run, tmp_path):
    """Whatever can be a file is a point; names are kept."""
    (tmp_path / "a.txt").write_text("one")
    files = [str(tmp_path / "a.txt"), types.File.from_content("two")]
    run["plots"] = types.FileSeries(files, name="n", description="d")
    run["plots"].download(tmp_path / "out")
    assert sorted(each.read_text() for each in (tmp_path / "out").rglob("*.txt")) == ["one", "two"]
    with pytest.raises(FileMissingError):
        run["x"] = {"lr": 1, "plots": types.FileSeries([str(tmp_path / "missing.png")])}
    assert not run.exists("x")


def test_sets_of_strings(run):
    """One replaces what was there, also where tags are."""
    run["labels"] = types.StringSet(["a", "b"])
    run["labels"] = types.StringSet("c")
    run["sys/tags"] = types.StringSet(["quick"])
    assert run["labels"].fetch() == {"c"}
    assert run["sys/tags"].fetch() == {"quick"}


def test_sets_of_files_are_replaced(run, monkeypatch, tmp_path):
    """A pattern that matches nothing raises before anything is written."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt", "c.md"):
        (tmp_path / name).write_text(name)
    run["files"] = types.FileSet("*.txt")
    assert [one["name"] for one in run["files"].list_fileset_files()] == ["a.txt", "b.txt"]
    run.assign({"files": types.FileSet(["*.md"])}, wait=True)
    assert [one["name"] for one in run["files"].list_fileset_files()] == ["c.md"]
    with pytest.raises(FileMissingError):
        run["files"] = types.FileSet("*.py")
    assert [one["name"] for one in run["files"].list_fileset_files()] == ["c.md"]


def test_artifacts(run):
    """An artifact is known by its digest."""
    run["data"] = types.Artifact(_SHA)
    assert run["data"].fetch_hash() == _SHA
    assert run["data"].fetch_files_list() == []


def test_another_family_is_refused_before_anything_is_written(run):
    """A mapping is assigned whole or not at all."""
    run["a/loss"] = 1.0
    for value in (types.FloatSeries([1]), types.Artifact(_SHA)):
        with pytest.raises(FamilyError):
            run["a"] = {"lr": 1, "loss": value}
    assert not run.exists("a/lr")
    assert run["a/loss"].fetch() == 1.0


def test_git_ref_is_for_the_start(run, tmp_path):
    """It is no value of a path; its marker switches git off."""
    with pytest.raises(ValueKindError, match="init_run"):
        run["git"] = types.GitRef()
    assert types.GitRef().resolve_path() is None
    assert types.GitRef(tmp_path).resolve_path() == tmp_path.resolve()
    for git_ref in (types.GitRef.DISABLED, types.GitRef(tmp_path)):
        quiet = {**QUIET, "capture": {**NOTHING, "git": True}}
        with seamark.init_run("p", root=tmp_path / "r", git_ref=git_ref, **quiet) as other:
            assert not other.exists("source_code/git")


def test_values_are_compared_and_printed():
    """Two that hold the same are equal; what one holds can be read."""
    assert types.Float(1) == types.Float("1")
    assert types.Float(1) != types.Integer(1)
    assert repr(types.Float(1)) == "Float(1.0)"
    assert repr(types.GitRef.DISABLED) == "GitRef.DISABLED"
    assert types.FloatSeries([1], unit="m") == types.FloatSeries([1], unit="m")
    assert types.FloatSeries([1], unit="m") != types.FloatSeries([1])


def test_points_may_be_values_of_these_types(run):
    """``append`` takes what an assignment takes of single values."""
    run["loss"].append(types.Float(0.5))
    run["m"].append({"a": types.Integer(1), "b": types.String("x")})
    assert run["loss"].fetch_last() == 0.5
    assert run["m/a"].fetch_last() == 1.0
    assert run["m/b"].fetch_last() == "x"


def test_none_is_left_out_of_a_series(run, caplog):
    """A study whose best value is not known yet goes on."""
    run["best"].append(stringify_unsupported(None))
    run["best"].append({"a": None, "b": 1})
    run["best/b"].append(2)
    assert list(run["best/b"].fetch_points().value) == [1, 2]
    assert not run.exists("best/a")
    assert "None is no point" in caplog.text


def test_stringify_keeps_these_types():
    """They say themselves what they become."""
    value = types.FloatSeries([1])
    assert stringify_unsupported({"a": value})["a"] is value


# ------------------------------------------------------------------- copies and drawings


def test_a_path_is_copied_by_its_value(run, tmp_path):
    """Values, sets and artifacts, also from another run; the copy stays as it is."""
    (tmp_path / "data.csv").write_text("1")
    run["a"] = {"lr": 0.1, "when": _MOMENT, "none": None, "labels": {"x"}, "long": [1, 2]}
    run["a/data"].track_files(str(tmp_path / "data.csv"))
    with seamark.init_run("p", root=tmp_path / "root", **QUIET) as other:
        other["lr"] = run["a/lr"]
        other["b"] = {name: run["a"][name] for name in ("when", "none", "labels", "long")}
        other["data"] = run["a/data"]
        run["a/lr"] = 0.2
        assert other["lr"].fetch() == 0.1
        assert other["b/labels"].fetch() == {"x"}
        assert other["b"].fetch() == {"when": _MOMENT, "none": None, "long": [1, 2]}
        assert other["data"].fetch_hash() == run["a/data"].fetch_hash()
        assert other["data"].fetch_files_list() == run["a/data"].fetch_files_list()


def test_what_cannot_be_copied_is_said(run):
    """A series, a namespace and a run have no single value."""
    run["loss"].append(1)
    run["space/x"] = 1
    for source in (run["loss"], run):
        with pytest.raises(ValueKindError, match="copy"):
            run["b"] = source
    for missing in (run["space"], run["nothing"]):
        with pytest.raises(exceptions.MissingFieldException):
            run["b"] = missing
    assert not run.exists("b")


def test_drawings_become_files(run, tmp_path):
    """A figure, a picture, a chart and a table are files; arrays are values."""
    figure = pytest.importorskip("matplotlib.figure").Figure()
    image = pytest.importorskip("PIL.Image").new("RGB", (2, 2))
    table = pytest.importorskip("pandas").DataFrame({"a": [1]})
    run["figure"] = figure
    run["more"] = {"image": image, "table": table, "lr": 0.1}
    assert run["figure"].fetch_extension() == "png"
    assert run["more/image"].fetch_extension() == "png"
    assert run["more/table"].fetch_extension() == "html"
    assert run["figure"].fetch_bytes().startswith(b"\x89PNG")


def test_plotly_is_told_where_its_library_is(run):
    """``include_plotlyjs`` reaches the page."""
    chart = pytest.importorskip("plotly.graph_objects").Figure()
    run["chart"].upload(chart, include_plotlyjs="cdn", wait=True)
    run["whole"] = chart
    assert len(run["chart"].fetch_bytes()) < 1_000_000 < len(run["whole"].fetch_bytes())


def test_a_list_replaces_the_points_of_a_series():
    """Where there is none it is a value."""
    with seamark.init_run("p", **QUIET) as run:
        run["numbers"].append(9.0)
        run["texts"].append("old")
        run["numbers"] = [1, 2.5]
        with pytest.raises(ValueKindError):
            run["numbers"] = ["a"]
        run["value"] = [1, 2.5]
        run["texts"] = ("a", "b")
        run.wait()
        assert run["numbers"].fetch_points().value.tolist() == [1, 2.5]
        assert run["texts"].fetch_last() == "b"
        assert run["value"].fetch() == [1, 2.5]


def test_the_files_of_a_series_may_have_a_description():
    files = [types.File.from_content(text, "txt") for text in ("a", "b")]
    with seamark.init_run("p", **QUIET) as run:
        run["files"].extend(files, description="both", name="same")
        run.wait()
        found = [
            (one.name, one.description)
            for one in run.session.recorded.local_reader().files("files")
        ]
        assert found == [("same", "both")] * 2


def test_a_fetched_artifact_is_assigned_as_one(tmp_path):
    """As Neptune's example of a shared data set does, from one run to another."""
    (tmp_path / "data.csv").write_text("1,2")
    with seamark.init_run("p", **QUIET) as run:
        run["data"].track_files(str(tmp_path / "data.csv"))
        run.wait()
        with seamark.init_run("p", **QUIET) as other:
            other["copy"] = run["data"].fetch()
            other.wait()
            assert other["copy"].fetch_hash() == run["data"].fetch_hash()
            assert [file.file_path for file in other["copy"].fetch_files_list()] == ["data.csv"]


def test_what_neptune_knows_of_every_run_can_be_fetched():
    with seamark.init_run("p", **QUIET) as run:
        run["a"] = "x" * 5000
    read = seamark.init_run("p", with_id=run.id, mode="read-only")
    assert 5000 < read["sys/size"].fetch() < 50_000
    assert read["sys/ping_time"].fetch() == read["sys/modification_time"].fetch()
    assert read["sys/monitoring_time"].fetch() == int(read["sys/running_time"].fetch())
    assert read["sys/failed"].fetch() is False
