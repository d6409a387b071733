"""The verbs of a path: what is written with them is read back, and mistakes are exact errors."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import itertools
import math
import os
import re
import types as python_types
import zipfile
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from journals import Kind, records
from recording import QUIET

from seamark import init_run
from seamark.errors import (
    ArgumentError,
    FamilyError,
    FileMissingError,
    InactiveRunError,
    MissingFieldError,
    PathError,
    ReadOnlyError,
    SeamarkError,
    UnknownArgumentError,
    ValueKindError,
)
from seamark.reading.text import nearest_path
from seamark.types import File, Histogram
from seamark.utils import stringify_unsupported
from seamark.values import encode_atom, escape, flatten


@pytest.fixture
def again(run):
    return lambda: init_run("p", root=run.root, with_id=run.id, mode="read-only")


def ops(run):
    return records(run, Kind.OP, Kind.TEXT, Kind.HISTOGRAM)


class Colour:
    """Something that cannot be kept."""


@dataclasses.dataclass
class Optimizer:
    lr: float = 0.1
    betas: tuple[float, float] = (0.9, 0.999)


def test_atoms_come_back_as_they_were(run, again):
    when = datetime(2026, 11, 21, 8, 0, 0, 123456, timezone.utc)
    for value, expected, type_ in (
        (2**100, 2**100, "int"),
        (1.0, 1.0, "float"),
        (True, True, "bool"),
        ("Grüße 🚢\n\t", "Grüße 🚢\n\t", "string"),
        (None, None, "null"),
        (np.int64(7), 7, "int"),
        (np.array(0.125, dtype=np.float32), 0.125, "float"),
        ((1, "a", None, [0.5]), [1, "a", None, [0.5]], "json"),
        ({}, {}, "json"),
        (when, when, "datetime"),
    ):
        run["a/b"] = value
        for reader in (run, again()):
            fetched = reader["a/b"].fetch()
            assert (fetched, type(fetched)) == (expected, type(expected))
            assert reader.get_attribute_type("a/b") == type_
            assert reader.exists("a/b")
            assert reader.exists("a")


def test_mappings_and_objects_give_one_path_for_each_leaf(run, again):
    run["params"] = {
        "optimizer": Optimizer(),
        "args": argparse.Namespace(epochs=3, data=python_types.SimpleNamespace(workers=2)),
        "a/b": 1,
        7: "seven",
        "empty": {},
    }
    assert again()["params"].fetch() == {
        "optimizer": {"lr": 0.1, "betas": [0.9, 0.999]},
        "args": {"epochs": 3, "data": {"workers": 2}},
        "a": {"b": 1},
        "7": "seven",
        "empty": {},
    }
    run.assign({"x": {"y": 5}})
    assert run["x/y"].fetch() == 5
    run["odd"] = {"good": 1, "class": Colour, "function": math.sqrt}
    assert run["odd/good"].fetch() == 1
    assert run["odd/class"].fetch().endswith("Colour")
    assert run["odd/function"].fetch() == "math.sqrt"


@pytest.mark.parametrize(
    ("path", "what"),
    [
        *(("", "empty"), ("/", "leading slash"), ("a\nb", "control"), ("\udc80", "control")),
        *(("ä" * 513, "1024"), (None, "string")),
    ],
    ids=repr,
)
def test_every_verb_says_what_is_wrong_with_a_path(run, path, what):
    before = ops(run)
    for act in (
        lambda: run[path],
        lambda: run["a"][path],
        lambda: run.__setitem__(path, 1),
        lambda: run.pop(path),
        lambda: run.exists(path),
        lambda: run.get_attribute_type(path),
    ):
        with pytest.raises(PathError, match=what) as caught:
            act()
        assert isinstance(caught.value, ValueError)  # the built-in that people expect
    assert ops(run) == before


def test_slashes_too_many_in_a_path_are_ignored(run):
    run["/config"] = 1
    run["a/"]["//b"].append(2)
    run["a"]["c//d/"] = 3
    assert run["config"].fetch() == run["//config/"].fetch() == 1
    assert run.exists("/a//b")
    assert "b/" in run["a"]
    assert sorted(run["a/"]) == ["b", "c"]
    assert run.get_attribute_type("/a/b") == "float_series"
    run["a/"].log_metrics({"acc": 0.9, "inner/f1": 0.8}, step=3)
    assert run["a/inner/f1"].fetch_points().step.tolist() == [3]
    assert run["/a/"].path == "a"
    assert repr(run["a"]) == f"<Handler 'a' of {run!r}>"
    assert run["a"].get_root_object() is run
    run["/a"].pop("/c/")
    del run["a"]["inner"]
    run.pop("config/")
    there = ("config", "a/b", "a/c", "a/inner/f1")
    assert [path for path in there if run.exists(path)] == ["a/b"]


def test_a_path_may_have_1024_bytes_of_any_characters_but_control_characters(run, again):
    paths = ["ä" * 500 + "/" + "x" * 23, "with blank/und.punkt/🚢/%2F\\'\""]
    for path in paths:
        run[path] = 1
        assert again()[path].fetch() == 1


def test_neither_derived_fields_nor_series_are_written_below_sys(run, again, caplog):
    for name in ("id", "state", "running_time"):
        at = run[f"sys/{name}"]
        for act in (
            partial(at.assign, "x"),
            partial(run.assign, {"sys": {name: "x"}}),
            partial(at.append, 1),
            partial(at.extend, [1]),
            partial(at.add, "x"),
            partial(at.upload, File.from_content("x")),
            at.clear,
            at.pop,
        ):
            with pytest.raises(PathError, match="derived"):
                act()
    for path in ("sys/tags", "sys/name", "sys/mine"):
        for act in (partial(run[path].append, 1), partial(run[path].extend, ["a"])):
            with pytest.raises(PathError, match="cannot be a series"):
                act()
        run.log_metrics({path: 1.0, "loss": 2.0})
    assert "'sys/tags' cannot be a series" in caplog.text
    assert not again().exists("sys/mine")
    assert again()["sys/tags"].fetch() == set()
    assert len(again()["loss"].fetch_points()) == 3


@pytest.mark.parametrize("text", ["a\x00b\udc80", "\\x00"], ids=ascii)
def test_what_utf8_cannot_hold_stands_as_escapes(run, again, text):
    """Lone surrogates and NUL are kept visibly, flagged as changed, wherever a text can stand."""
    run["atom"] = text
    run["set"].add(["plain", text])
    run["series"].append(text, step=1)
    run["sys/name"] = text
    reader = again()
    expected = str(escape(text))
    assert reader["atom"].fetch() == expected
    assert reader["set"].fetch() == {"plain", expected}
    assert reader["series"].fetch() == expected
    flagged = [op for op in ops(run) if op.get("escaped")]
    assert len(flagged) == (0 if text == "\\x00" else 3)


@pytest.mark.once
def test_texts_and_assignments_of_any_size_are_kept_whole(run, again):
    for text in ("x" * ((4 << 20) + 1), "\x01" * (3 << 20)):
        run["atom"] = text
        run["series"].append(text)
        reader = again()
        assert reader["atom"].fetch() == reader.fetch()["atom"] == text
        assert reader["series"].fetch_last() == text
    values = {f"k{number}": "x" * 500_000 for number in range(12)}
    values |= {f"big{number}": 3**20_000 for number in range(3)}
    run["many"] = values
    assert again()["many"].fetch() == values


def test_points_keep_their_steps_and_times(run, again):
    when = datetime(2020, 1, 1, 0, 0, 0, 123457, timezone.utc)
    run["a"].append(0.5)
    run["a"].append(1.5, step=10, timestamp=1_600_000_000.25)
    run["a"].append(np.float32(2.5), timestamp=when)
    points = again()["a"].fetch_points()
    assert points.step.tolist() == [0, 10, 11]
    assert points.value.tolist() == [0.5, 1.5, 2.5]
    assert points.time_ns.tolist()[1:] == [1_600_000_000_250_000_000, 1_577_836_800_123_457_000]
    assert run["a"].fetch() == run["a"].fetch_last() == 2.5
    run["log"].append("first")
    run["log"].append("second", step=5, timestamp=1.5)
    run["weights"].append(Histogram([0, 0.5, 1], [3, 4]), step=2)
    run["weights"].append(Histogram(np.array([0.0, 1.0]), np.array([7])))
    reader = again()
    assert reader["log"].fetch() == "second"
    last = reader["weights"].fetch_last()
    assert (last.step, list(last.edges), list(last.counts)) == (3, [0, 1], [7])
    types = [reader.get_attribute_type(path) for path in ("a", "log", "weights")]
    assert types == ["float_series", "string_series", "histogram_series"]


def test_a_file_series_holds_files_of_memory_disk_and_images(run, again, tmp_path):
    (tmp_path / "plot.svg").write_text("<svg/>")
    run["images"].append(File(str(tmp_path / "plot.svg")), step=1, name="plot")
    run["images"].append(File.from_content("hello"), description="text")
    run["images"].append(File.as_image(np.zeros((4, 4, 3))))
    again()["images"].download_last(tmp_path)
    assert (tmp_path / "3.png").read_bytes().startswith(b"\x89PNG")
    again()["images"].download(tmp_path / "all")
    names = sorted(each.name for each in (tmp_path / "all").iterdir())
    assert names == ["1.svg", "2.txt", "3.png"]


def test_extend_numbers_points_or_takes_steps_and_times(run, again):
    run["a"].extend([1, 2.5, True])
    run["a"].extend([4.0], steps=[10])
    run["a"].extend(np.array([5.0, 6.0]))
    run["b"].extend((n for n in (1.0, 2.0)), steps=iter([3, 3]), timestamps=iter([1.25, 2]))
    run["texts"].extend(["x", "y"], timestamps=[datetime(2020, 1, 1, 0, 0, 0, 3, timezone.utc), 1])
    run["m"].extend({"x": [1, 2], "y": [3, 4]}, steps=iter([7, 8]))
    run["nothing"].extend([])
    reader = again()
    assert reader["a"].fetch_points().step.tolist() == [0, 1, 2, 10, 11, 12]
    assert reader["b"].fetch_points().step.tolist() == [3, 3]
    assert reader["b"].fetch_points().time_ns.tolist() == [1_250_000_000, 2_000_000_000]
    assert reader["m/y"].fetch_points().step.tolist() == [7, 8]
    (text_times,) = [
        [point[2] for op in ops(run) if op.get("path") == "texts" for point in op["points"]]
    ]
    assert text_times[0] % 10**6 == 3000
    assert not reader.exists("nothing")


def test_every_argument_of_neptune_is_taken(run):
    run["a"].log(0.5)
    run["a"].log([1.5, np.float32(2.5)])
    run["a"].log(np.array(3.5), 10)
    run["images"].log(File.as_image(np.zeros((8, 8))))
    run["scores"].log({"precision": 0.8, "of": {"recall": 0.6}, "none": {}}, 4)
    told = {"name": "a name", "description": "what it shows", "wait": True}
    run["a"].append(1.0, step=12, timestamp=3.0, min=0, max=2, unit="m", **told)
    run["a"].extend([1.0], steps=[13], timestamps=[4.0], min=0, **told)
    run["a"].log(1.0, step=14, timestamp=5.0, unit="m", **told)
    points = run["a"].fetch_points()
    assert points.step.tolist() == [0, 1, 2, 10, 12, 13, 14]
    assert points.value.tolist() == [0.5, 1.5, 2.5, 3.5, 1, 1, 1]
    assert run["scores/of/recall"].fetch_points().step.tolist() == [4]
    assert sorted(run["scores"]) == ["of", "precision"]
    assert run.get_attribute_type("images") == "file_series"


ODD = (Colour(), 1j, {1})
HUGE = ["x" * 10**6] * 12
MISTAKES: tuple[tuple[str, str, Any, dict[str, Any], type[Exception], str], ...] = (
    *(("a", "assign", value, {}, ValueKindError, "a.*got ") for value in (*ODD, b"bytes", [ODD])),
    ("a", "assign", np.zeros((200, 200)), {}, ValueKindError, "a.*got "),
    ("p/model", "assign", object(), {}, ValueKindError, "^'p/model': expected None, .* got object"),
    ("a", "assign", {"fine": 1, "huge": HUGE}, {}, ValueKindError, "'a/huge'.*store it as a file"),
    ("x", "assign", {"fine": 1, "series": 2, "also": 3}, {}, FamilyError, "x/series"),
    ("a", "assign", {"fine": 1, "file": File("missing.txt")}, {}, FileNotFoundError, "missing"),
    *(("a", "append", 1.0, {"step": step}, ArgumentError, "step") for step in (math.nan, "3")),
    *(("a", "extend", [1.0], {"steps": [step]}, ArgumentError, "step") for step in (math.nan, "3")),
    ("a", "extend", [1, 2], {"steps": [1]}, ArgumentError, "steps: expected 2.*got 1"),
    ("a", "extend", [1], {"timestamps": [1, 2]}, ArgumentError, "timestamps: expected 1.*got 2"),
    ("a", "append", 1, {"timestamp": "yesterday"}, ArgumentError, "timestamp"),
    *(("a", "append", value, {}, ValueKindError, type(value).__name__) for value in ODD),
    ("a", "extend", [1.0, 1j], {}, ValueKindError, "got"),
    ("a", "extend", [1.0, "text"], {}, ValueKindError, "one kind"),
    ("x", "append", {"a": 1, "b": 2}, {}, FamilyError, "x/b"),
    ("x", "append", {"a": "x", "b": "y"}, {}, FamilyError, "x/b"),
    ("x", "extend", {"a": [1, 2], "b": [1, 2]}, {}, FamilyError, "x/b"),
    ("x", "extend", {"a": [1, 2], "c": [1, "x"]}, {}, ValueKindError, ""),
    ("x", "extend", {"a": [1, 2], "c": 3}, {}, ValueKindError, ""),
    *(("a", "add", wrong, {}, ValueKindError, "expected a string") for wrong in (None, ["a", 1])),
    ("a", "upload", "not-there.txt", {}, FileNotFoundError, "not-there"),
    ("a", "track_files", "not-there", {}, FileMissingError, "not-there"),
)


def test_a_mistake_raises_writes_nothing_and_takes_no_path(run, frames):
    run["x/series"].append(1.0)
    run["x/b"] = 1
    before = frames(run)
    for path, verb, value, more, error, match in MISTAKES:
        case = (path, verb, type(value), more, match)
        with pytest.raises(error) as caught:
            getattr(run[path], verb)(value, **more)
        assert re.search(match, str(caught.value)), case
        assert frames(run) == before, case
        assert not run.exists("a"), case
    run["a/fine"].append(1.0)
    run["x/a"], run["x/also"], run["x/c"] = "free", "free", "free"


def test_clear_empties_series_and_sets(run, again):
    run["a"].extend([1, 2, 3])
    run["s"].add(["x", "y"])
    run["t"].append("old")
    for path in "ast":
        run[path].clear()
    run["a"].append(4.0)
    run["s"].add("z")
    run["s"].add(["w", "v", "u"])
    run["s"].remove("w")
    run["s"].remove(["v", "not there"])
    run["t"].append("new")
    reader = again()
    assert reader["a"].fetch_points().value.tolist() == [4.0]
    assert reader["a"].fetch_points().step.tolist() == [0]  # numbering starts anew
    assert (reader["s"].fetch(), reader["t"].fetch_last()) == ({"u", "z"}, "new")
    run["s"] = {"x"}
    run["s"].add("y")
    assert again()["s"].fetch() == {"x", "y"}
    run["atom"] = 1
    with pytest.raises(FamilyError, match="holds a single value: only"):
        run["atom"].clear()


WRITERS: dict[str, Any] = {
    "atom": lambda at: at.assign(1),
    "float_series": lambda at: at.append(1.0),
    "string_series": lambda at: at.append("x"),
    "file_series": lambda at: at.append(File.from_content("x")),
    "histogram_series": lambda at: at.append(Histogram([0, 1], [1])),
    "string_set": lambda at: at.add("x"),
    "file": lambda at: at.upload(File.from_content("x")),
    "file_set": lambda at: at.upload_files("some.txt"),
    "artifact": lambda at: at.track_files("some.txt"),
}


@pytest.mark.parametrize("first", WRITERS)
def test_a_path_holds_one_family_until_it_is_deleted(run, first, frames):
    Path("some.txt").write_text("x")
    words = {name: f"a {name.replace('_', ' ')}" for name in WRITERS}
    words |= {"atom": "a single value", "artifact": "an artifact"}
    WRITERS[first](run["x/y"])
    run.wait()
    assert run.get_attribute_type("x/y") in (first, "int")
    before = frames(run)
    for second in WRITERS.keys() - {first}:
        with pytest.raises(FamilyError) as caught:
            WRITERS[second](run["x/y"])
        for part in ("'x/y'", f"holds {words[first]} and", f"cannot take {words[second]};"):
            assert part in str(caught.value)
        assert isinstance(caught.value, TypeError)
        assert frames(run) == before
    del run["x/y"]
    second = "atom" if first != "atom" else "float_series"
    WRITERS[second](run["x/y"])
    assert run.get_attribute_type("x/y") in (second, "int")


def test_a_path_is_deleted_with_all_below_it(run, again):
    run["a/b"] = 1
    run["a/c/d"] = 2
    run["ab"] = 3
    del run["a"]
    reader = again()
    assert not reader.exists("a")
    assert reader["ab"].fetch() == 3
    for act in (lambda: run.pop("a"), run["a"].pop, lambda: run["x"].pop("y")):
        with pytest.raises(MissingFieldError, match="nothing is recorded"):
            act()
    with pytest.raises(KeyError):
        del run["a/b"]
    run["a/b"].append(1.0)
    assert again()["a/b"].fetch_points().step.tolist() == [0]
    with init_run("p", root=run.root, with_id=run.id, owner=False) as other:
        del other["ab"]  # which another process wrote
    assert not again().exists("ab")


def test_a_file_is_kept_as_it_was_when_upload_returned(run, again, tmp_path):
    source = tmp_path / "weights.bin"
    source.write_bytes(b"one")
    run["model"].upload(str(source))
    source.write_bytes(b"changed")
    run["text"].upload(File.from_content("hello"), wait=True)
    run.wait()
    reader = again()
    assert reader["model"].fetch_extension() == "bin"
    reader["model"].download(tmp_path / "back.bin")
    assert (tmp_path / "back.bin").read_bytes() in (b"one", b"changed")
    reader["text"].download(tmp_path / "text.txt")
    assert (tmp_path / "text.txt").read_text() == "hello"
    with pytest.raises(FamilyError, match="download"):
        reader["model"].fetch()


def test_members_of_file_sets_are_added_listed_deleted_and_downloaded(run, again, tmp_path, caplog):
    Path("src").mkdir()
    for name in ("a.py", "b.py", "c.txt"):
        Path("src", name).write_text(name)
    run["code"].upload_files(["src/*.py", "src/c.txt"], wait=True)
    assert len(again()["code"].list_fileset_files()) == 3
    run["code"].delete_files("src/b.py")
    members = again()["code"].list_fileset_files("src")
    sizes = [(member["name"], member["size"]) for member in members]
    assert sizes == [("src/a.py", 4), ("src/c.txt", 5)]
    again()["code"].download(tmp_path / "out")
    assert (tmp_path / "out" / "src" / "c.txt").read_text() == "c.txt"
    again()["code"].download(tmp_path / "out.zip")
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        assert archive.read("src/c.txt") == b"c.txt"
    with pytest.raises(FileNotFoundError, match=r"nothing\.py"):
        run["other"].upload_files(["src/*.py", "nothing.py"])
    run["other"].upload_files("nothing-*.py")
    assert "no file matches the pattern 'nothing-*.py'" in caplog.text
    assert not run.exists("other")


def test_tracked_files_are_downloaded_while_they_are_the_same(run, tmp_path):
    """By Neptune's verbs, from where they lie; nothing else comes in their place."""
    data, out = tmp_path / "data", tmp_path / "out"
    (data / "in").mkdir(parents=True)
    for name in ("a.txt", "in/b.txt"):
        (data / name).write_text(f"data/{name}")
    run["data"].track_files(str(data))
    found = run["data"].fetch()
    assert found.hash == found["hash"] == run["data"].fetch_hash()
    files = run["data"].fetch_files_list()
    assert [(one.file_path, one.size, one.type) for one in files] == [
        ("a.txt", 10, "Local"),
        ("in/b.txt", 13, "Local"),
    ]
    assert files[0].file_hash == hashlib.sha256(b"data/a.txt").hexdigest()
    assert files[0].metadata == {"file_path": str(data / "a.txt")}
    run["data"].download(str(out))
    assert (out / "in" / "b.txt").read_text() == "data/in/b.txt"
    (data / "a.txt").write_text("other")
    with pytest.raises(FileMissingError, match="has changed since it was recorded"):
        run["data"].download(str(tmp_path / "again"))
    before = run["data"].fetch_hash()
    run["data"].track_files(str(data))
    assert run["data"].fetch_hash() != before
    assert not run.folder.blobs_dir.exists()
    run["data"].download(str(tmp_path / "again"), references=True)
    assert (tmp_path / "again" / "a.txt").read_text() == "other"
    (data / "in" / "b.txt").unlink()
    with pytest.raises(FileMissingError, match="does not exist"):
        run["data"].download(str(tmp_path / "more"), references=True)


def test_an_artifact_is_known_by_names_and_contents_of_its_files(run, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for name in ("a.csv", "b.csv"):
        (data / name).write_text(name)

    def tracked(path, target, **how):
        run[path].track_files(str(target), **how)
        found = run.session.recorded.attribute(path).value
        return found["hash"], [file["path"] for file in found["files"]]

    placed = tracked("placed", f"{data}/*.csv", destination="/sets/1/")[1]
    assert placed == ["sets/1/a.csv", "sets/1/b.csv"]
    before, names = tracked("whole", data)
    assert names == ["a.csv", "b.csv"]
    os.utime(data / "b.csv", (1, 1))
    assert tracked("touched", data)[0] == before
    tracked("more", "s3://me:pw@bucket/x")
    (data / "a.csv").write_text("new")
    assert tracked("changed", data)[0] != before
    more, names = tracked("more", data / "a.csv")  # is added
    assert names == ["a.csv"]
    assert run.session.recorded.attribute("more").value["references"] == ["s3://bucket/x"]
    assert more not in (before, tracked("alone", data / "a.csv")[0])


def test_reading_verbs_name_the_family_that_they_found(run):
    run["a"] = 1
    verbs = ("fetch_points", "fetch_hash", "fetch_extension", "fetch_files_list")
    for verb in (*verbs, "list_fileset_files", "download", "download_last"):
        with pytest.raises(SeamarkError, match="a single value"):
            getattr(run["a"], verb)()
    with pytest.raises(MissingFieldError, match="expected a series, got a single val"):
        run["a"].fetch_last()
    with pytest.raises(FamilyError, match="expected a float series"):
        run["a"].fetch_points(points=10)


def test_a_path_with_nothing_there_names_the_nearest(run):
    run["val/loss"].append(1.0)
    run["parameters/lr"] = 0.1
    for asked, near in (
        ("val/los", "val/loss"),
        ("loss", "val/loss"),
        ("VAL/Loss", "val/loss"),
        ("val", "val/loss"),
        ("paramters/lr", "parameters/lr"),
        ("zzz", None),
    ):
        at = run[asked]
        assert run.exists(asked) == (asked == "val")
        acts = [at.fetch_points, at.fetch_last, at.fetch_bytes, at.fetch_hash]
        acts += [] if asked == "val" else [at.fetch, at.download, at.pop]
        acts += [partial(at.fetch_points, points=5), partial(run.get_attribute_type, asked)]
        for act in acts:
            with pytest.raises(MissingFieldError) as refused:
                act()
            expected = f"nothing is recorded there in {run.folder.words}"
            assert str(refused.value).endswith(expected + f"; did you mean {near!r}?" * bool(near))


def test_the_nearest_of_very_many_paths_is_not_looked_for_in_all():
    assert nearest_path("b", (f"a{number}" for number in itertools.count())) is None
    assert nearest_path("x" * 10_000, ["x" * 9_999]) is None


def test_the_structure_is_shown_as_a_tree(run, capsys):
    run["a/b"] = 1
    run["a/c"].append("x")
    run["ab/c"] = 2
    run["ab"] = 3  # a value and a namespace of one name
    structure = run.get_structure()
    assert structure["a"]["b"] == 1
    assert structure["ab"] == {"": 3, "c": 2}
    assert (run["ab"].fetch(), run["ab/c"].fetch()) == (3, 2)
    assert structure["sys"]["id"] == run.id
    run.print_structure()
    assert "'a':\n    'b': int\n    'c': string_series" in capsys.readouterr().out


def test_fetch_values_has_the_columns_of_neptune(run):
    pd = pytest.importorskip("pandas")
    run["a"].extend([1.0, 2.0, 3.0], steps=[1, 2, 3], timestamps=[10, 20, 30])
    run["t"].extend(["x", "y"])
    frame = run["a"].fetch_values()
    assert list(frame.columns) == ["step", "value", "timestamp"]
    assert frame["value"].tolist() == [1, 2, 3]
    assert frame["timestamp"].tolist() == list(pd.to_datetime([10, 20, 30], unit="s", utc=True))
    assert run["a"].fetch_values(include_timestamp=False, limit=2)["step"].tolist() == [2, 3]
    assert run["t"].fetch_values()["value"].tolist() == ["x", "y"]
    run["long"].append("x" * (5 << 20))
    assert run["long"].fetch_values()["value"].tolist() == ["x" * (5 << 20)]
    with pytest.raises(ArgumentError, match="limit"):
        run["a"].fetch_values(limit=0)


def test_a_namespace_of_series_and_files_alone_is_empty(run, again):
    run["checkpoints/epoch_0"].upload(File.from_content("x"), wait=True)
    run["fold/loss"].append(1)
    for where in (run, again()):
        assert where["checkpoints"].fetch() == where["fold"].fetch() == {}
        with pytest.raises(MissingFieldError):
            where["nothing"].fetch()


def test_every_writing_verb_says_why_it_cannot_write(run, again):
    run["a"] = 1
    reader = again()
    run.stop()
    file = File.from_content("x")
    verbs = [("assign", 1), ("add", "x"), ("remove", "x"), ("clear",), ("upload", file), ("pop",)]
    series = [("append", 1), ("append", "x"), ("extend", [1])]
    for target, error, acts in (
        (run, InactiveRunError, verbs),
        (reader, ReadOnlyError, verbs + series),
    ):
        for verb, *value in acts:
            with pytest.raises(error, match=run.id):
                getattr(target["a"], verb)(*value)
        with pytest.raises(error):
            target["long"] = "x" * (5 << 20)
    assert not run.folder.blobs_dir.exists()
    assert reader["a"].fetch() == 1


def test_a_loop_that_appends_to_a_stopped_run_goes_on(run, again, caplog):
    """To a series that is there and to a new one, of any kind; one warning says so."""
    run["a"].append(1)
    run.stop()
    for path in ("a", "new"):
        run[path].append(2)
        run[path].extend([3, 4])
        run[f"{path}/text"].append("x")
        run[f"{path}/file"].append(File.from_content("x"))
        run[path].append({"b": 1})
    (said,) = [one.getMessage() for one in caplog.records]
    assert "was stopped" in said
    assert again()["a"].fetch_points().value.tolist() == [1]
    assert not again().exists("new")


def test_a_run_and_its_handlers_are_no_sequences(tmp_path):
    """A loop over one that records nothing ends at once instead of asking for 0, 1, 2, ..."""
    run = init_run(root=tmp_path, mode="disabled")
    for one in (run, run["a"]):
        assert list(one) == []
        assert "a" not in one
        with pytest.raises(TypeError):
            len(one)  # else what records nothing would be False
        with pytest.raises(TypeError):
            reversed(one)


def test_numbers_of_known_series_are_checked_like_those_of_new_ones(run):
    for _ in range(3):
        run["x"].append(1.0)
        run["m"].append({"a": 1.0, "b/c": 2})
    run["x"].append(3, step=7)
    run["m"].append({"a": 2**53 + 1, "b/c": 1})
    for wrong in ({"a": 10**400, "b/c": 1}, {"a": "text", "b/c": 1.0}, {"a": object()}):
        with pytest.raises((ValueKindError, FamilyError)):
            run["m"].append(wrong)
    with pytest.raises(ArgumentError):
        run["m"].append({"a": 1.0, "b/c": 2}, step=float("nan"))
    run["m"].append({})
    run["x"].append(float("nan"))
    del run["m/a"]
    run["m/a"] = "a text now"
    with pytest.raises(FamilyError):
        run["m"].append({"a": 1.0, "b/c": 2})
    points = run["x"].fetch_points()
    assert points.step.tolist() == [0, 1, 2, 7, 8]
    assert run["m/b/c"].fetch_points().value.tolist() == [2, 2, 2, 1]


@pytest.mark.parametrize("mode", ["offline", "disabled"])
def test_a_mistyped_argument_is_refused_in_disabled_runs_too(tmp_path, mode):
    with init_run("p", root=tmp_path, mode=mode, **QUIET) as run:
        for verb, given, wrong, near in (
            ("append", {"stp": 5}, "stp", "; did you mean 'step'[?]"),
            ("append", {"name": "x", "descripton": "y"}, "descripton", "; did you mean 'desc"),
            ("extend", {"step": [5]}, "step", "; did you mean 'steps'[?]"),
            ("log", {"zzz": 5}, "zzz", "$"),
        ):
            value = [1.0] if verb == "extend" else 1.0
            expected = f"^{verb}[(][)] got an unknown argument '{wrong}'{near}"
            with pytest.raises(UnknownArgumentError, match=expected):
                getattr(run["loss"], verb)(value, **given)
        assert not run.exists("loss")


class Loss:
    """Can be called, and is printed all the same."""

    def __call__(self):
        pass

    def __str__(self):
        return "a loss"


def test_what_cannot_be_kept_becomes_text_and_the_rest_stays():
    plain = {"lr": 0.1, "f": File.from_content("x"), "n": None, "l": [1, 2]}
    found = stringify_unsupported({**plain, "loss": Loss(), "deep": {1: {"x": Loss()}}})
    assert found == {**plain, "loss": "a loss", "deep": {"1": {"x": "a loss"}}}
    assert stringify_unsupported(found) == found
    assert [stringify_unsupported(one) for one in (5, print, {})] == [5, "print", {}]
    cycle = {"x": object()}
    cycle["self"] = cycle
    for leaf in flatten(stringify_unsupported({"c": cycle, "l": [[object()]]}), "p").values():
        encode_atom(leaf)
