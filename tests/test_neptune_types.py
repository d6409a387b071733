"""Neptune's types: assigning one records what the plain value does."""

from __future__ import annotations

import math
from datetime import datetime, timezone

import pytest
from recording import NOTHING, QUIET

import seamark
from seamark import errors, exceptions, types
from seamark.utils import stringify_unsupported

_MOMENT = datetime(2026, 11, 22, 8, tzinfo=timezone.utc)
_SHA = "ab" * 32


@pytest.fixture
def run(tmp_path):
    with seamark.init_run("p", root=tmp_path / "root", **QUIET) as run:
        yield run


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
        (lambda: types.Integer(None), TypeError),
        (lambda: types.Float("x"), ValueError),
        (lambda: types.String(5), TypeError),
        (lambda: types.Datetime(5), TypeError),
        (lambda: types.StringSet([1]), TypeError),
        (lambda: types.FileSet([1]), TypeError),
        (lambda: types.Artifact("abc"), errors.ArgumentError),
        (lambda: types.FloatSeries(5), TypeError),
        (lambda: types.FloatSeries(["x"]), TypeError),
        (lambda: types.FloatSeries([1], steps=[1, 2]), errors.ArgumentError),
        (lambda: types.StringSeries("abc"), TypeError),
        (lambda: types.StringSeries([1]), TypeError),
        (lambda: types.FileSeries([5]), TypeError),
    ):
        with pytest.raises(error) as caught:
            make()
        assert isinstance(caught.value, exceptions.NeptuneException)


def test_values_are_compared_and_printed():
    assert types.Float(1) == types.Float("1")
    assert types.Float(1) != types.Integer(1)
    assert repr(types.Float(1)) == "Float(1.0)"
    assert repr(types.GitRef.DISABLED) == "GitRef.DISABLED"
    series = types.FloatSeries([1], unit="m")
    assert series == types.FloatSeries([1], unit="m")
    assert series != types.FloatSeries([1])
    assert stringify_unsupported({"a": series})["a"] is series


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
