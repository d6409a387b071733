"""The verbs of a path: what is written with them is read back, and mistakes are exact errors."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import hashlib
import io
import itertools
import math
import os
import sys
import threading
import types as python_types
import zipfile
from datetime import datetime, timezone
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
from seamark.reading.words import nearest_path
from seamark.types import File, Histogram
from seamark.utils import stringify_unsupported
from seamark.values import decode_atom, parameters


@pytest.fixture
def run(tmp_path):
    with init_run("p", root=tmp_path / "root", **QUIET) as run:
        yield run


@pytest.fixture
def again(run):
    """Return a function that opens the run for reading, as another process would."""
    return lambda: init_run("p", root=run.root, with_id=run.id, mode="read-only")


def ops(run):
    """Return every op in the run's journals."""
    return records(run, Kind.OP, Kind.TEXT, Kind.HISTOGRAM)


# -------------------------------------------------------------------- atoms


class Colour:
    """Something that cannot be kept."""


@dataclasses.dataclass
class Optimizer:
    lr: float = 0.1
    betas: tuple[float, float] = (0.9, 0.999)


def test_atoms_come_back_as_they_were(run, again):
    """An atom keeps its value and its type; which types there are is tested with the values."""
    when = datetime(2026, 11, 21, 8, 0, 0, 123456, timezone.utc)
    given = (
        (2**100, 2**100, "int"),
        (1.0, 1.0, "float"),
        (True, True, "bool"),
        ("Grüße 🚢\n\t", "Grüße 🚢\n\t", "string"),
        (None, None, "null"),
        (np.int64(7), 7, "int"),
        ((1, "a", None, [0.5]), [1, "a", None, [0.5]], "json"),
        ({}, {}, "json"),
        (when, when, "datetime"),
    )
    for value, expected, type_ in given:
        run["a/b"] = value
        for reader in (run, again()):
            fetched = reader["a/b"].fetch()
            assert fetched == expected
            assert type(fetched) is type(expected)
            assert reader.get_attribute_type("a/b") == type_
            assert reader.exists("a/b")
            assert reader.exists("a")


def test_containers_are_taken_apart(run, again):
    """Mappings, dataclasses and Namespaces give one path a leaf, nested as deep as they are."""
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
    run["class"], run["function"], run["module"] = Colour, os.path.join, math
    run["partial"] = functools.partial(Colour, 3)
    assert run["class"].fetch().endswith("Colour")
    assert run["function"].fetch() == "posixpath.join"
    assert run["module"].fetch() == "math"
    assert run["partial"].fetch().startswith("functools.partial(")


ODD = [Colour(), 1j, lambda: 0, dict, {1, 2}, {"deep": {"er": Colour()}}, np.zeros((200, 200))]


def test_a_mapping_is_taken_as_hyperparameters_are(run):
    """What has no form of its own is kept as `log_hyperparams` keeps it; nothing beside it is lost.

    Assignments raised here once, and people lost the learning rate beside an activation.
    """
    for at, value in enumerate(ODD):
        path = f"a{at}"
        run[path] = {"good": 1, "bad": value, "tags": {"x", "y"}}
        assert run[f"{path}/good"].fetch() == 1
        assert run[f"{path}/tags"].fetch() == {"x", "y"}
        kept = parameters({"bad": value}, path).items()
        expected = {each: decode_atom(*atom) for each, atom in kept}
        assert {each: run[each].fetch() for each in expected} == expected
    run["b"] = stringify_unsupported({"good": 1, "bad": ODD})  # is not needed, and does no harm
    assert run["b/good"].fetch() == 1


def test_single_values_that_cannot_be_kept(run):
    """A mistake at this line: the error names the path and the type, and nothing is written."""
    before = ops(run)
    for value in (Colour(), 1j, b"bytes", [Colour()], {1, 2}, np.zeros((200, 200))):
        with pytest.raises(ValueKindError, match=r"a.*got "):
            run["a"] = value
    with pytest.raises(ValueKindError, match=r"^'p/model/head': expected None, .* got object"):
        run["p"]["model/head"] = object()
    assert ops(run) == before


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("", "empty"),
        ("/", "leading slash"),
        ("a\nb", "control"),
        ("\udc80", "control"),
        ("ä" * 513, "1024"),
        (None, "string"),
    ],
    ids=repr,
)
def test_wrong_paths(run, path, what):
    """Every way to name a path says what is wrong with it, also below a handler."""
    before = ops(run)
    for act in (
        lambda: run[path],
        lambda: run["a"][path],
        lambda: run.__setitem__(path, 1),
        lambda: run.pop(path),
        lambda: run.exists(path),
        lambda: run.get_attribute_type(path),
    ):
        with pytest.raises(PathError, match=what):
            act()
    with pytest.raises(ValueError, match=what):  # also the built-in that people expect
        run[path]
    assert ops(run) == before


def test_slashes_too_many_are_left_out(run):
    """Integrations join a prefix that may be empty, or end with a slash, to a name."""
    run["/config"] = 1
    run["a/"]["//b"].append(2)
    run["a"]["c//d/"] = 3
    assert run["config"].fetch() == run["//config/"].fetch() == 1
    assert run.exists("/a//b")
    assert "b/" in run["a"]
    assert sorted(run["a/"]) == ["b", "c"]
    assert run.get_attribute_type("/a/b") == "float_series"
    run["/a"].pop("/c/")
    run.pop("config/")
    assert [path for path in ("config", "a/b", "a/c") if run.exists(path)] == ["a/b"]


def test_a_path_may_be_1024_bytes_long(run, again):
    """In UTF-8, and with any characters that are no control characters."""
    path = "ä" * 500 + "/" + "x" * 23
    run[path] = 1
    run["with blank/und.punkt/🚢/%2F\\'\""] = 2
    assert again()[path].fetch() == 1
    assert again()["with blank/und.punkt/🚢/%2F\\'\""].fetch() == 2
    with pytest.raises(PathError, match="1024"):
        run["p"][path]


@pytest.mark.parametrize("name", ["id", "state", "running_time"])
def test_derived_fields_refuse_assignment(run, name):
    """What is derived from the run cannot be written, by any verb, and says so."""
    at = f"sys/{name}"
    for act in (
        lambda: run.__setitem__(at, "x"),
        lambda: run.assign({"sys": {name: "x"}}),
        lambda: run[at].append(1),
        lambda: run[at].extend([1]),
        lambda: run[at].add("x"),
        lambda: run[at].upload(File.from_content("x")),
        run[at].clear,
        lambda: run.pop(at),
    ):
        with pytest.raises(PathError, match="derived"):
            act()


@pytest.mark.parametrize("at", ["sys/tags", "sys/name", "sys/mine"])
def test_no_series_lies_below_sys(run, again, caplog, at):
    """Name and tags of every run can be read: a series cannot take their place."""
    for act in (lambda: run[at].append(1), lambda: run[at].extend(["a"])):
        with pytest.raises(PathError, match="cannot be a series"):
            act()
    run.log_metrics({at: 1.0, "loss": 2.0})
    assert f"{at!r} cannot be a series" in caplog.text
    assert not again().exists("sys/mine")
    assert again()["sys/tags"].fetch() == set()
    assert again()["loss"].fetch_last() == 2.0


def test_nested_handlers(run):
    """A handler of a namespace has every verb, and can be handed on."""
    model = run["model"]
    model["layer"]["size"] = 64
    model["loss"].append(0.5)
    model.log_metrics({"acc": 0.9, "inner/f1": 0.8}, step=3)
    assert model["layer/size"].fetch() == 64
    assert run["model/loss"].fetch_points().value.tolist() == [0.5]
    assert run["model/inner/f1"].fetch_points().step.tolist() == [3]
    assert model.get_root_object() is run
    assert model.path == "model"
    assert "model" in repr(model)
    del model["layer"]
    assert not run.exists("model/layer/size")


# -------------------------------------------------------------------- long and odd texts


@pytest.mark.parametrize("text", ["a\x00b\udc80", "\\x00"], ids=ascii)
def test_what_utf8_cannot_hold_stands_as_escapes(run, again, text):
    """Lone surrogates and NUL are kept visibly, flagged as changed, wherever a text can stand."""
    from seamark.values import escape

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
@pytest.mark.parametrize(
    "text",
    ["x" * ((4 << 20) + 1), "\x01" * (3 << 20)],
    ids=["4 MiB + 1", "control characters"],
)
def test_very_long_texts(run, again, text):
    """A text of any length is kept whole; beyond about 4 MiB it is a blob."""
    run["atom"] = text
    run["series"].append(text)
    reader = again()
    assert reader["atom"].fetch() == text
    assert reader["series"].fetch_last() == text
    assert reader.fetch()["atom"] == text


def test_many_values_at_once(run, again):
    """An assignment of any size goes through, in as many frames as it takes."""
    values = {f"k{number}": "x" * 500_000 for number in range(12)}
    values |= {f"big{number}": 3**20_000 for number in range(3)}
    run["many"] = values
    assert again()["many"].fetch() == values


@pytest.mark.once
def test_a_list_over_the_limit_is_refused_before_anything_is_written(run):
    """No list is cut short, and no neighbour of it is written half-way."""
    before = ops(run)
    with pytest.raises(ValueKindError, match=r"'a/huge'.*keep it as a file"):
        run["a"] = {"small": 1, "huge": list(range(1_500_000))}
    assert ops(run) == before


# -------------------------------------------------------------------- series


def test_append_numbers(run, again):
    """Points come back with the steps and times that were given, in order of their steps."""
    run["a"].append(0.5)
    run["a"].append(1.5, step=10, timestamp=1_600_000_000.25)
    run["a"].append(np.float32(2.5), timestamp=datetime(2020, 1, 1, 0, 0, 0, 123457, timezone.utc))
    points = again()["a"].fetch_points()
    assert points.step.tolist() == [0, 10, 11]
    assert points.value.tolist() == [0.5, 1.5, 2.5]
    assert points.time_ns.tolist()[1:] == [1_600_000_000_250_000_000, 1_577_836_800_123_457_000]
    assert run["a"].fetch() == run["a"].fetch_last() == 2.5
    assert run.get_attribute_type("a") == "float_series"


def test_append_texts_and_histograms(run, again):
    """A string series and a histogram series hold what was appended."""
    run["log"].append("first")
    run["log"].append("second", step=5, timestamp=1.5)
    run["weights"].append(Histogram([0, 0.5, 1], [3, 4]), step=2)
    run["weights"].append(Histogram(np.array([0.0, 1.0]), np.array([7])))
    reader = again()
    assert reader["log"].fetch() == "second"
    assert reader.get_attribute_type("log") == "string_series"
    last = reader["weights"].fetch_last()
    assert (last.step, list(last.edges), list(last.counts)) == (3, [0, 1], [7])
    assert reader.get_attribute_type("weights") == "histogram_series"


@pytest.mark.parametrize("point", ["text", Histogram([0, 1], [2])], ids=["texts", "histograms"])
def test_points_of_one_call_are_one_write(run, again, monkeypatch, point):
    """A mapping and a sequence of texts or histograms; numbers beside them are one row."""
    run["begun"].append(0.0)
    writes, write, me = [], os.write, threading.get_ident()

    def counted(fd, data):
        if threading.get_ident() == me:  # a heartbeat is another thread's
            writes.append(len(data))
        return write(fd, data)

    monkeypatch.setattr(os, "write", counted)
    run["all"].append({"a": point, "b": point, "x": 1.0, "y": 2.0}, step=3)
    assert len(writes) == 2
    run["all/a"].extend([point] * 1050)
    assert len(writes) == 4
    monkeypatch.undo()
    points = [(op["path"], point[0]) for op in ops(run) for point in op.get("points", ())]
    assert points == [("all/a", 3), ("all/b", 3), *[("all/a", step) for step in range(4, 1054)]]
    assert [again()[f"all/{path}"].fetch_points().step.tolist() for path in "xy"] == [[3], [3]]


def test_append_files(run, again, tmp_path):
    """A file series holds files of memory, disk and images; the last can be downloaded."""
    (tmp_path / "plot.svg").write_text("<svg/>")
    run["images"].append(File.from_path(tmp_path / "plot.svg"), step=1, name="plot")
    run["images"].append(File.from_content("hello"), description="text")
    run["images"].append(File.as_image(np.zeros((4, 4, 3))))
    reader = again()
    assert reader.get_attribute_type("images") == "file_series"
    reader["images"].download_last(tmp_path)
    assert (tmp_path / "3.png").read_bytes().startswith(b"\x89PNG")
    reader["images"].download(tmp_path / "all")
    assert (tmp_path / "all" / "2.txt").read_text() == "hello"
    assert len(list((tmp_path / "all").iterdir())) == 3


def test_append_mappings(run):
    """A mapping appends to each series below the path, with one step."""
    run["m"].append({"loss": 0.5, "inner": {"acc": 0.9}}, step=4)
    run["m"].append({"loss": 0.4, "inner": {"acc": 0.95}, "none": {}})
    run["m"].append({})  # the parameters of a trial that has none
    run["n"].append(
        {"text": "t", "number": 1.0},
        step=2,
        timestamp=datetime(2020, 1, 1, 0, 0, 0, 1, timezone.utc),
    )
    assert run["m/loss"].fetch_points().step.tolist() == [4, 5]
    assert run["m/inner/acc"].fetch_points().value.tolist() == [0.9, 0.95]
    assert sorted(run["m"]) == ["inner", "loss"]
    assert run["n/text"].fetch() == "t"
    assert run["n/number"].fetch_points().time_ns[0] % 10**6 == 1000


def test_extend(run, again):
    """Many points in one call, numbered or with steps and times of their own."""
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
    """Those of ``append``, ``extend`` and of ``log``, an older name of both, in Neptune 1.14."""
    run["a"].log(0.5)
    run["a"].log([1.5, 2.5])
    run["a"].log(3.5, 10)
    run["t"].log(["x", "y"])
    told = {"name": "a name", "description": "what it shows", "wait": True}
    run["a"].append(1.0, step=12, timestamp=3.0, min=0, max=2, unit="m", **told)
    run["a"].extend([1.0], steps=[13], timestamps=[4.0], min=0, **told)
    run["a"].log(1.0, step=14, timestamp=5.0, unit="m", **told)
    assert run["a"].fetch_points().step.tolist() == [0, 1, 2, 10, 12, 13, 14]
    assert run["t"].fetch() == "y"


def test_wrong_steps_and_times(run):
    """They raise, and nothing is written; as many steps and times as values are expected."""
    before = ops(run)
    for step in (math.nan, "3"):
        with pytest.raises(ArgumentError, match="step"):
            run["a"].append(1.0, step=step)
        with pytest.raises(ArgumentError, match="step"):
            run["a"].extend([1.0], steps=[step])
    with pytest.raises(ArgumentError, match=r"steps: expected 2.*got 1"):
        run["a"].extend([1, 2], steps=[1])
    with pytest.raises(ArgumentError, match=r"timestamps: expected 1.*got 2"):
        run["a"].extend([1], timestamps=[1, 2])
    with pytest.raises(ArgumentError, match="timestamp"):
        run["a"].append(1, timestamp="yesterday")
    assert ops(run) == before
    assert not run.exists("a")


def test_points_without_a_place(run):
    """What is no number, text, file or histogram is refused by its type."""
    for value in (Colour(), 1j, {1}):
        with pytest.raises(ValueKindError, match=type(value).__name__):
            run["a"].append(value)
        with pytest.raises(ValueKindError, match=r"one kind|got"):
            run["a"].extend([1.0, value])
    with pytest.raises(ValueKindError, match="one kind"):
        run["a"].extend([1.0, "text"])


def test_clear_empties_a_series(run, again):
    """What came before is gone, numbering starts at 0, the path keeps its family."""
    run["a"].extend([1, 2, 3])
    run["s"].add(["x", "y"])
    run["t"].append("old")
    for path in "ast":
        run[path].clear()
    run["a"].append(4.0)
    run["s"].add("z")
    run["t"].append("new")
    reader = again()
    assert reader["a"].fetch_points().value.tolist() == [4.0]
    assert reader["a"].fetch_points().step.tolist() == [0]
    assert reader["s"].fetch() == {"z"}
    assert reader["t"].fetch_last() == "new"
    run["atom"] = 1
    with pytest.raises(FamilyError, match="holds a single value: only"):
        run["atom"].clear()


# -------------------------------------------------------------------- sets


def test_string_sets(run, again):
    """Add, remove, and assignment of the whole; removing what is not there is nothing."""
    run["tags"].add("a")
    run["tags"].add(["b", "c"])
    run["tags"].remove("b")
    run["tags"].remove(["not there"])
    assert again()["tags"].fetch() == {"a", "c"}
    run["tags"] = {"x"}
    run["tags"].add("y")
    assert again()["tags"].fetch() == {"x", "y"}
    for wrong in (1, ["a", 1], None):
        with pytest.raises(ValueKindError, match="expected a string"):
            run["tags"].add(wrong)


# -------------------------------------------------------------------- families


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


def spoken(family):
    """Return how a message names a family."""
    names = {"atom": "a single value", "artifact": "an artifact"}
    return names.get(family) or f"a {family.replace('_', ' ')}"


@pytest.mark.parametrize("first", WRITERS)
def test_a_path_holds_one_family(run, first, tmp_path, monkeypatch):
    """A second family raises, naming path and both; a delete frees the path for any."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some.txt").write_text("x")
    WRITERS[first](run["x/y"])
    run.wait()
    assert run.get_attribute_type("x/y") in (first, "int")
    for second, write in WRITERS.items():
        if second == first:
            continue
        before = ops(run)
        with pytest.raises(FamilyError) as caught:
            write(run["x/y"])
        for part in ("'x/y'", f"holds {spoken(first)} and", f"cannot take {spoken(second)};"):
            assert part in str(caught.value)
        assert isinstance(caught.value, TypeError)
        assert ops(run) == before
    del run["x/y"]
    second = "atom" if first != "atom" else "float_series"
    WRITERS[second](run["x/y"])
    assert run.get_attribute_type("x/y") in (second, "int")


def test_a_family_conflict_leaves_nothing_half_written(run):
    """One wrong path in an assignment of many: none of them is written or taken."""
    run["a/series"].append(1.0)
    before = ops(run)
    with pytest.raises(FamilyError, match="a/series"):
        run["a"] = {"fine": 1, "series": 2, "also": 3}
    assert ops(run) == before
    with pytest.raises(FileNotFoundError, match="missing"):
        run["a"] = {"fine": 1, "file": File("missing.txt")}
    assert ops(run) == before
    run["a/fine"].append(1.0)


@pytest.mark.parametrize(
    ("verb", "value", "error"),
    [
        ("append", {"a": 1, "b": 2}, FamilyError),
        ("append", {"a": "x", "b": "y"}, FamilyError),
        ("extend", {"a": [1, 2], "b": [1, 2]}, FamilyError),
        ("extend", {"a": [1, 2], "c": [1, "x"]}, ValueKindError),
        ("extend", {"a": [1, 2], "": [1]}, PathError),
        ("extend", {"a": [1, 2], "c": 3}, ValueKindError),
    ],
)
def test_several_series_are_extended_all_or_none(run, frames, verb, value, error):
    """What one of them refuses writes nothing to the others, and claims no path for them."""
    run["x/b"] = 1
    before = frames(run)
    with pytest.raises(error):
        getattr(run["x"], verb)(value)
    assert frames(run) == before
    run["x/a"] = "free"


def test_a_number_of_too_many_digits_is_refused(run):
    """Although Python does not show it."""
    with pytest.raises(ValueKindError, match="expected a number, a string"):
        run["x"].append(10**5000)


# -------------------------------------------------------------------- deleting


def test_delete(run, again):
    """``del`` and ``pop`` remove a path and everything below; what is not there is an error."""
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


# -------------------------------------------------------------------- files


def test_upload(run, again, tmp_path):
    """A file is kept as it was when `upload` returned, with name and extension."""
    source = tmp_path / "weights.bin"
    source.write_bytes(b"one")
    run["model"].upload(str(source))
    source.write_bytes(b"changed")
    run["text"].upload(File.from_content("hello"), wait=True)
    run["assigned"] = File.from_content(b"bytes", extension="dat")
    run.wait()
    reader = again()
    assert reader["model"].fetch_extension() == "bin"
    reader["model"].download(tmp_path / "back.bin")
    assert (tmp_path / "back.bin").read_bytes() in (b"one", b"changed")
    reader["text"].download(tmp_path / "text.txt")
    assert (tmp_path / "text.txt").read_text() == "hello"
    with pytest.raises(FamilyError, match="download"):
        reader["model"].fetch()
    with pytest.raises(FileNotFoundError, match="not-there"):
        run["other"].upload("not-there.txt")
    with pytest.raises(ValueKindError):
        run["other"].upload(Colour())
    assert not again().exists("other")


def test_file_sets(run, again, tmp_path, monkeypatch, caplog):
    """Members are added by pattern, listed with sizes, deleted by name, downloaded together."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    for name in ("a.py", "b.py", "c.txt"):
        (tmp_path / "src" / name).write_text(name)
    run["code"].upload_files(["src/*.py", "src/c.txt"], wait=True)
    names = [member["name"] for member in again()["code"].list_fileset_files()]
    assert names == ["src/a.py", "src/b.py", "src/c.txt"]
    run["code"].delete_files("src/b.py")
    members = again()["code"].list_fileset_files("src")
    assert [(member["name"], member["size"]) for member in members] == [
        ("src/a.py", 4),
        ("src/c.txt", 5),
    ]
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
    (tmp_path / "data" / "in").mkdir(parents=True)
    for name in ("data/a.txt", "data/in/b.txt"):
        (tmp_path / name).write_text(name)
    run["data"].track_files(str(tmp_path / "data"))
    found = run["data"].fetch()
    assert found.hash == found["hash"] == run["data"].fetch_hash()
    files = run["data"].fetch_files_list()
    assert [(one.file_path, one.size, one.type) for one in files] == [
        ("a.txt", 10, "Local"),
        ("in/b.txt", 13, "Local"),
    ]
    assert files[0].file_hash == hashlib.sha256(b"data/a.txt").hexdigest()
    assert files[0].metadata == {"file_path": str(tmp_path / "data" / "a.txt")}
    out = tmp_path / "out"
    run["data"].download(str(out))
    assert (out / "in" / "b.txt").read_text() == "data/in/b.txt"
    (tmp_path / "data" / "a.txt").write_text("other")
    with pytest.raises(FileMissingError, match="no longer the file that was recorded"):
        run["data"].download(str(tmp_path / "again"))
    before = run["data"].fetch_hash()
    run["data"].track_files(str(tmp_path / "data"))
    assert run["data"].fetch_hash() != before
    assert not run.folder.blobs_dir.exists()
    run["data"].download(str(tmp_path / "again"), references=True)
    assert (tmp_path / "again" / "a.txt").read_text() == "other"
    (tmp_path / "data" / "in" / "b.txt").unlink()
    with pytest.raises(FileMissingError, match="does not exist"):
        run["data"].download(str(tmp_path / "more"), references=True)


# -------------------------------------------------------------------- reading


def test_reading_another_family(run):
    """Each reading verb names the family that it found."""
    run["a"] = 1
    for act in (
        run["a"].fetch_points,
        run["a"].fetch_hash,
        run["a"].fetch_extension,
        run["a"].fetch_files_list,
        run["a"].list_fileset_files,
        run["a"].download,
        run["a"].download_last,
    ):
        with pytest.raises(SeamarkError, match="a single value"):
            act()
    with pytest.raises(MissingFieldError, match="expected a series, got a single val"):
        run["a"].fetch_last()


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        ("val/los", "val/loss"),
        ("loss", "val/loss"),
        ("VAL/Loss", "val/loss"),
        ("val", "val/loss"),
        ("paramters/lr", "parameters/lr"),
        ("zzz", None),
    ],
)
def test_a_path_with_nothing_there_names_the_nearest(run, asked, near):
    """Whatever verb asks, of the paths of the run."""
    run["val/loss"].append(1.0)
    run["parameters/lr"] = 0.1
    assert run.exists(asked) == (asked == "val")
    acts = [run[asked].fetch_points, run[asked].fetch_last, run[asked].fetch_bytes]
    acts += [run[asked].fetch_hash]
    acts += [] if asked == "val" else [run[asked].fetch, run[asked].download, run[asked].pop]
    acts += [lambda: run[asked].fetch_points(points=5), lambda: run.get_attribute_type(asked)]
    for act in acts:
        with pytest.raises(MissingFieldError) as refused:
            act()
        expected = f"nothing is recorded there in {run.folder.words}"
        assert str(refused.value).endswith(expected + f"; did you mean {near!r}?" * bool(near))


def test_the_nearest_of_very_many_paths_is_not_looked_for_in_all(run):
    """A mistake is not to cost seconds."""
    assert nearest_path("b", (f"a{number}" for number in itertools.count())) is None
    assert nearest_path("x" * 10_000, ["x" * 9_999]) is None


def test_structure(run, capsys):
    """`get_structure` and `print_structure` show the tree of what was recorded."""
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
    printed = capsys.readouterr().out
    assert "'a':\n    'b': int\n    'c': string_series" in printed


def test_a_structure_is_printed_wherever_standard_output_goes(run, monkeypatch):
    """What cannot be encoded there is escaped."""
    run["größe/µ"] = 1
    written = io.BytesIO()
    stdout = io.TextIOWrapper(written, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stdout)
    run.print_structure()
    stdout.flush()
    assert rb"'gr\xf6\xdfe':" in written.getvalue()


def test_fetch_values(run):
    """A data frame with Neptune's columns; the last points if a limit is given."""
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


def test_a_loop_that_appends_once_too_often_goes_on(run, again, caplog):
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


def test_a_namespace_without_values_is_empty(run, again):
    """As in Neptune: series and files are not shown in it."""
    run["checkpoints/epoch_0"].upload(File.from_content("x"), wait=True)
    run["fold/loss"].append(1)
    for where in (run, again()):
        assert where["checkpoints"].fetch() == where["fold"].fetch() == {}
        with pytest.raises(MissingFieldError):
            where["nothing"].fetch()


def test_stopped_and_read_only_handlers(run, again):
    """Every writing verb says why it cannot write."""
    run["a"] = 1
    reader = again()
    run.stop()
    for target, error in ((run, InactiveRunError), (reader, ReadOnlyError)):
        for act in (
            lambda at: at.assign(1),
            lambda at: at.add("x"),
            lambda at: at.remove("x"),
            lambda at: at.clear(),
            lambda at: at.upload(File.from_content("x")),
            lambda at: at.pop(),
        ):
            with pytest.raises(error, match=run.id):
                act(target["a"])
        with pytest.raises(error):
            target["long"] = "x" * (5 << 20)
    for act in (lambda at: at.append(1), lambda at: at.append("x"), lambda at: at.extend([1])):
        with pytest.raises(ReadOnlyError, match=run.id):
            act(reader["a"])
    assert not run.folder.blobs_dir.exists()
    assert reader["a"].fetch() == 1


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


def test_plain_numbers_of_known_series_are_checked_as_ever(run):
    """The quick way of a point takes what the slow one takes, and refuses what it refuses."""
    for _ in range(3):
        run["x"].append(1.0)
        run["m"].append({"a": 1.0, "b/c": 2})
    run["x"].append(3, step=7)
    run["m"].append({"a": 2**53 + 1, "b/c": 1})
    for wrong in ({"a": 10**400, "b/c": 1}, {"a": "text", "b/c": 1.0}, {"a": object()}, 10**400):
        with pytest.raises((ValueKindError, FamilyError)):
            run["x" if wrong == 10**400 else "m"].append(wrong)
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


# -------------------------------------------------------------------- mistyped arguments


@pytest.mark.parametrize("mode", ["offline", "disabled"])
def test_a_mistyped_argument_costs_no_step(tmp_path, mode):
    """It is refused at once, in a disabled run too, and nothing is recorded under a wrong step."""
    with init_run("p", root=tmp_path, mode=mode, **QUIET) as run:
        for verb, given, wrong, near in (
            ("append", {"stp": 5}, "stp", "; did you mean 'step'[?]"),
            ("append", {"name": "x", "descripton": "y"}, "descripton", "; did you mean 'desc"),
            ("append", {"mim": 0}, "mim", "; did you mean 'min'"),
            ("extend", {"step": [5]}, "step", "; did you mean 'steps'[?]"),
            ("extend", {"timestamp": [5]}, "timestamp", "; did you mean 'timestamps'[?]"),
            ("log", {"stp": 5}, "stp", "; did you mean 'step'[?]"),
            ("log", {"zzz": 5}, "zzz", "$"),
        ):
            value = [1.0] if verb == "extend" else 1.0
            expected = f"^{verb}[(][)] got an unknown argument '{wrong}'{near}"
            with pytest.raises(UnknownArgumentError, match=expected):
                getattr(run["loss"], verb)(value, **given)
        assert not run.exists("loss")
