# ruff: noqa: B007, BLE001, C408, ICN001, PLW0108, PTH100, PTH103, PTH123, PTH208, SIM115, T201
"""Short scripts that import `neptune`: run by the tests with the client's package and with Seamark.

Each is a function of the module `neptune`, whatever that is, and prints what it reads; both have to
print the same lines. Lines that differ for a decided reason are named in `test_vocabulary.py`.
"""

from __future__ import annotations

import datetime
import io
import os
import pathlib
import sys
import zipfile

import numpy as np

NAMED = (
    "MissingFieldException",
    "MetadataInconsistency",
    "FileNotFound",
    "InactiveRunException",
    "RunNotFound",
    "NeptuneUserApiInputException",
    "NeptuneRunResumeAndCustomIdCollision",
    "NeptuneInvalidQueryException",
    "TypeDoesNotSupportAttributeException",
)
PLAIN = (AttributeError, ValueError, TypeError, KeyError)


def show(label, look):
    """Print what a call returns, or which of the kinds that callers name it raises."""
    from neptune import exceptions

    try:
        found = look()
    except Exception as error:
        kinds = [name for name in NAMED if isinstance(error, getattr(exceptions, name))]
        kinds += [each.__name__ for each in PLAIN if isinstance(error, each)]
        found = f"raises {' '.join(kinds)}"
    print(f"{label}: {found}", flush=True)


def opened(neptune, **more):
    off = {f"capture_{what}": False for what in ("hardware_metrics", "stdout", "stderr")}
    return neptune.init_run(**{**off, "source_files": [], "git_ref": False, "mode": "sync", **more})


def put(files):
    for name, data in files.items():
        path = pathlib.Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data)


def members(archive):
    return sorted(name for name in zipfile.ZipFile(archive).namelist() if name[-1] != "/")


def values(neptune):
    run = opened(neptune, name="named", tags=["b", "a"], description="said")
    run["i"], run["f"], run["b"], run["s"] = 3, 0.5, True, "text"
    run["d"] = datetime.datetime(2020, 1, 2, 3, 4, 5, 678000, tzinfo=datetime.timezone.utc)
    for name in "ifbsd":
        show(name, lambda name=name: (type(run[name].fetch()).__name__, str(run[name].fetch())))
    run["i"] = 4
    run["f"] = 2
    show("again", lambda: (run["i"].fetch(), run["f"].fetch()))
    run["p"] = {"lr": 0.1, "deep": {"n": 2, "name": "x"}, "on": False}
    show("namespace", lambda: sorted(run["p"].fetch().items(), key=str))
    show("deep", lambda: (run["p/deep/n"].fetch(), run["p"]["deep"]["name"].fetch()))
    run["p/deep"] = {"n": 5}
    show("merged", lambda: sorted(run["p/deep"].fetch().items()))
    show("exists", lambda: [run.exists(name) for name in ("i", "p", "p/lr", "p/none", "none")])
    show("structure", lambda: sorted(run.get_structure()["p"]))
    show("nested", lambda: sorted(run.get_structure()["p"]["deep"]))
    run["n/x"].assign(1)
    run["n"].assign({"y": 2})
    show("assigned", lambda: (run["n/x"].fetch(), run["n/y"].fetch()))
    show("popped", lambda: (run["n/x"].pop(), run.pop("i"), run.exists("n/x"), run.exists("i")))
    del run["n"]
    show("deleted", lambda: (run.exists("n/y"), run.exists("n")))
    show("name", lambda: (run["sys/name"].fetch(), run["sys/description"].fetch()))
    show("failed", lambda: (run["sys/failed"].fetch(), run["sys/trashed"].fetch()))
    show("np", lambda: run.__setitem__("np", np.float32(1.5)) or run["np"].fetch())
    show("npi", lambda: run.__setitem__("npi", np.int64(7)) or run["npi"].fetch())
    run["odd path/é&%#?"] = "odd"
    show("odd", lambda: run["odd path/é&%#?"].fetch())
    run.assign({"top": {"a": 1}, "flat": "x"})
    show("top", lambda: (run["top/a"].fetch(), run["flat"].fetch()))
    run["copied"] = run["f"]
    show("copied", lambda: run["copied"].fetch())
    run.stop()


def series(neptune):
    from neptune.types import FloatSeries, StringSeries

    run = opened(neptune)
    for place in range(3):
        run["loss"].append(1.0 / (place + 1))
        run["steps"].append(place * 1.5, step=place * 10, timestamp=1_600_000_000 + place)
        run["text"].append(f"line {place}")
    run["loss"].extend([0.25, 0.125])
    run["more"].extend([1, 2], steps=[5, 7], timestamps=[1_600_000_000, 1_600_000_001])
    run["logged"].log(4)
    run["logged"].log([5, 6])
    run["whole"] = FloatSeries([3.0, 4.0], steps=[1, 2], min=0, max=5, unit="m")
    run["words"] = StringSeries(["a", "b"])
    for name in ("loss", "steps", "text", "more", "logged", "whole", "words"):
        table = run[name].fetch_values(include_timestamp=False, progress_bar=False)
        show(f"{name} columns", lambda table=table: list(table.columns))
        show(f"{name} steps", lambda table=table: [float(step) for step in table["step"]])
        show(f"{name} values", lambda table=table: table["value"].tolist())
        show(f"{name} last", lambda name=name: run[name].fetch_last())
    table = run["steps"].fetch_values(progress_bar=False)
    show("timed", lambda: (list(table.columns), [t.timestamp() for t in table["timestamp"]]))
    show("dtypes", lambda: [str(table[name].dtype) for name in ("step", "value")])
    run["whole"] = FloatSeries([9.0])
    show("replaced", lambda: run["whole"].fetch_values(include_timestamp=False)["value"].tolist())
    run["group"].append({"a": 1.0, "b": {"c": 2.0}})
    run["group"].append({"a": 3.0}, step=4)
    show("group", lambda: (run["group/a"].fetch_last(), run["group/b/c"].fetch_last()))
    show("fetch", lambda: run["loss"].fetch())
    show("assign over series", lambda: run.__setitem__("loss", 1.0))
    show("text to floats", lambda: run["loss"].append("x"))
    show("float to texts", lambda: run["text"].append(1.5) or run["text"].fetch_last())
    show("missing", lambda: run["none"].fetch_last())
    show("missing values", lambda: run["none"].fetch_values())
    show("value last", lambda: run.__setitem__("one", 1) or run["one"].fetch_last())
    show("steps missing", lambda: run["more"].extend([1, 2], steps=[1]))
    run.stop()


def sets(neptune):
    run = opened(neptune, tags=["first"])
    show("tags", lambda: sorted(run["sys/tags"].fetch()))
    run["sys/tags"].add("second")
    run["sys/tags"].add(["third", "fourth"])
    show("added", lambda: sorted(run["sys/tags"].fetch()))
    run["sys/tags"].remove("third")
    run["sys/tags"].remove(["none"])
    show("removed", lambda: sorted(run["sys/tags"].fetch()))
    run["sys/tags"].clear()
    show("cleared", lambda: run["sys/tags"].fetch())
    run["sys/group_tags"].add("g")
    show("group", lambda: run["sys/group_tags"].fetch())
    show("kind", lambda: type(run["sys/tags"].fetch()).__name__)
    show("to a number", lambda: run.__setitem__("n", 1) or run["n"].add("x"))
    run.stop()


def files(neptune):
    from neptune.types import File

    run = opened(neptune)
    put({"m.txt": "hello", "d/a.txt": "A", "d/sub/b.txt": "BB"})
    run["f"].upload("m.txt")
    run["content"].upload(File.from_content("text"))
    run["bytes"].upload(File.from_content(b"\x00\x01", extension="dat"))
    run["stream"].upload(File.from_stream(io.BytesIO(b"abc")))
    run["assigned"] = File("m.txt")
    run["path"].upload(File.from_path("m.txt", extension="md"))
    for name in ("f", "content", "bytes", "stream", "assigned", "path"):
        show(f"{name} extension", lambda name=name: run[name].fetch_extension())
        run[name].download(f"out_{name}")
        show(f"{name} bytes", lambda name=name: open(f"out_{name}", "rb").read())
    os.makedirs("into")
    run["f"].download("into")
    run["content"].download("into")
    show("into", lambda: sorted(os.listdir("into")))
    run["set"].upload_files("d/**/*.txt")
    run["set"].download("set.zip")
    show("set", lambda: members("set.zip"))
    show("list", lambda: [entry.name for entry in run["set"].list_fileset_files()])
    show("below", lambda: [entry.name for entry in run["set"].list_fileset_files("d/sub")])
    run["set"].upload_files("m.txt")
    run["set"].delete_files("d/a.txt")
    run["set"].download("again.zip")
    show("again", lambda: members("again.zip"))
    run["shot"].upload(File.as_image(np.zeros((4, 4, 3))))
    show("image", lambda: run["shot"].fetch_extension())
    for place in range(2):
        run["pics"].append(File.as_image(np.zeros((2, 2))), name="n", description="d")
    run["pics"].download("pics")
    show("pictures", lambda: sorted(os.listdir("pics")))
    run["pics"].download_last("last")
    show("last", lambda: sorted(os.listdir("last")))
    import pandas as pd

    run["table"].upload(File.as_html(pd.DataFrame({"a": [1]})))
    show("html", lambda: run["table"].fetch_extension())
    run["pickled"].upload(File.as_pickle({"a": 1}))
    show("pickle", lambda: run["pickled"].fetch_extension())
    show("missing", lambda: run["f"].upload("none.txt"))
    show("download missing", lambda: run["none"].download())
    show("download value", lambda: run.__setitem__("v", 1) or run["v"].download())
    show("kinds", lambda: [File.is_convertable(one) for one in ("m.txt", 1, None)])
    run.stop()


def artifacts(neptune):
    run = opened(neptune)
    put({"data/a": "data/a", "data/sub/b": "data/sub/b"})
    run["whole"].track_files("data")
    run["part"].track_files("data/a")
    run["placed"].track_files("data/a", destination="there")

    def files(path):
        found = run[path].fetch_files_list()
        return sorted((one.file_path, one.file_hash, one.size, one.type) for one in found)

    for name in ("whole", "part", "placed"):
        show(name, lambda name=name: (len(run[name].fetch_hash()), len(run[name].fetch().hash)))
        show(f"{name} files", lambda name=name: files(name))
    run["part"].track_files("data/sub")
    show("merged", lambda: [one.file_path for one in run["part"].fetch_files_list()])
    run["copy"] = run["whole"].fetch()
    show("copy", lambda: run["copy"].fetch_hash() == run["whole"].fetch_hash())
    os.makedirs("back")
    show("download", lambda: run["whole"].download("back"))
    back = pathlib.Path("back")
    show("back", lambda: sorted(str(p.relative_to(back)) for p in back.rglob("*") if p.is_file()))
    show("missing", lambda: run["none"].fetch_hash())
    run.stop()


def mistakes(neptune):
    run = opened(neptune)
    run["i"], run["s"] = 1, "x"
    run["n/a"] = 1
    run["loss"].append(1.0)
    show("fetch nothing", lambda: run["none"].fetch())
    show("attribute", lambda: run["i"].none())
    show("append to value", lambda: run["i"].append(1))
    show("upload to value", lambda: run["i"].upload("x.txt"))
    show("delete nothing", lambda: run.__delitem__("none"))
    show("pop nothing", lambda: run["none"].pop())
    show("number path", lambda: run[1])
    show("text to int", lambda: run.__setitem__("i", "text"))
    show("object", lambda: run.__setitem__("o", object()))
    show("bad mode", lambda: neptune.init_run(mode="wrong"))
    show("no such run", lambda: opened(neptune, with_id="NONE-999"))
    show("both ids", lambda: opened(neptune, with_id="A-1", custom_run_id="x"))
    show("tags of ints", lambda: opened(neptune, tags=[1]))
    run.stop()
    run.stop()
    show("after stop", lambda: run["after"].__class__.__name__)
    show("set after stop", lambda: run.__setitem__("after", 1))
    show("append after stop", lambda: run["loss"].append(1))


def modes(neptune):
    run = opened(neptune, custom_run_id="mine")
    run["x"] = 1
    show("states", lambda: run.get_state())
    known = run["sys/id"].fetch()
    run.sync()
    run.wait()
    run.stop()
    show("states", lambda: run.get_state())
    again = opened(neptune, custom_run_id="mine")
    show("same", lambda: (again["sys/id"].fetch() == known, again["x"].fetch()))
    show("custom", lambda: again["sys/custom_run_id"].fetch())
    again.stop()
    reader = neptune.init_run(with_id=known, mode="read-only")
    show("read", lambda: reader["x"].fetch())
    reader.stop()
    debug = neptune.init_run(mode="debug")
    debug["x"] = 1
    debug["loss"].append(1.0)
    debug.stop()
    print("debug ends")
    with opened(neptune) as held:
        held["y"] = 2
        inside = held["sys/id"].fetch()
    show("left", lambda: held.get_state())
    later = neptune.init_run(with_id=inside, mode="read-only")
    show("kept", lambda: later["y"].fetch())
    later.stop()
    show("kinds", lambda: (isinstance(held, neptune.Run), type(held).__name__))
    show("url", lambda: isinstance(held.get_url(), str))


def tables(neptune):
    for place in range(4):
        run = opened(neptune, custom_run_id=f"t{place}", tags=["even" if place % 2 == 0 else "odd"])
        run["p/lr"], run["acc"], run["word"] = 0.1 * place, place, f"w{place}"
        run["loss"].append(2.0 * place)
        run.stop()
    project = neptune.init_project(mode="sync")
    project["note"] = "for all"
    project["versions"].append(1)
    show("note", lambda: (project["note"].fetch(), project["versions"].fetch_last()))

    def look(**what):
        given = dict(columns=["sys/custom_run_id", "p/lr"], sort_by="p/lr", ascending=True)
        return project.fetch_runs_table(progress_bar=False, **{**given, **what})

    def ids(**what):
        table = look(**what).to_pandas()
        return table["sys/custom_run_id"].tolist() if len(table) else []

    query = '(`p/lr`: float > 0.05) AND (sys/tags: stringSet CONTAINS "odd")'
    show("all", ids)
    show("descending", lambda: ids(ascending=False))
    show("by word", lambda: ids(sort_by="word", ascending=False))
    show("limit", lambda: ids(limit=2))
    show("tag", lambda: ids(tag="even"))
    show("tags", lambda: ids(tag=["even", "odd"]))
    show("query", lambda: ids(query=query))
    show("int", lambda: ids(query="(acc: int >= 2)"))
    show("string", lambda: ids(query='(word: string = "w1") OR (word: string = "w3")'))
    show("series", lambda: ids(query="(loss: floatSeries > 3)"))
    show("not", lambda: ids(query="NOT (acc: int = 2)"))
    show("id", lambda: len(ids(id="NONE-1")))
    show("columns", lambda: list(look().to_pandas().columns))
    show("all columns", lambda: {"acc", "word", "loss"} <= set(look(columns=None).to_pandas()))
    show("no columns", lambda: list(look(columns=[]).to_pandas().columns))
    rows = look(columns=["acc", "word", "loss"]).to_rows()
    show("rows", lambda: [row.get_attribute_value("acc") for row in rows])
    show("series cell", lambda: [row.get_attribute_value("loss") for row in rows])
    show("no cell", lambda: rows[0].get_attribute_value("none"))
    show("iterates", lambda: [row.get_attribute_value("word") for row in look(columns=["word"])])
    show("both", lambda: ids(query=query, tag="odd"))
    show("bad query", lambda: ids(query="(("))
    show("bad limit", lambda: ids(limit=0))
    show("bad column", lambda: ids(sort_by="none"))
    show("exists", lambda: (project.exists("note"), project.exists("none")))
    project.stop()


def helpers(neptune):
    from neptune.types import File, FloatSeries, StringSet
    from neptune.utils import stringify_unsupported

    class Own:
        def __str__(self):
            return "own"

    run = opened(neptune)
    run["all"] = stringify_unsupported({"o": Own(), "n": 1, "deep": {"o": Own()}, "t": "x"})
    show("own", lambda: (run["all/o"].fetch(), run["all/n"].fetch(), run["all/deep/o"].fetch()))
    show("kinds", lambda: [one.__module__.split(".")[1] for one in (File, FloatSeries, StringSet)])
    children = ("MissingFieldException", "MetadataInconsistency", "FileNotFound", "RunNotFound")
    pairs = [(child, "NeptuneException") for child in children]
    pairs += [("InactiveRunException", "InactiveContainerException")]
    classes = neptune.exceptions
    show("exceptions", lambda: [issubclass(*(getattr(classes, n) for n in p)) for p in pairs])
    run.stop()


# The tables first: they are to hold no other runs.
ALL = (tables, values, series, sets, files, artifacts, mistakes, modes, helpers)

if __name__ == "__main__":
    if sys.argv[1] == "seamark":
        import seamark.neptune

        seamark.neptune.install()
    import neptune

    for each in ALL:
        if sys.argv[2:] and each.__name__ not in sys.argv[2:]:
            continue
        folder = os.path.abspath(each.__name__)
        os.makedirs(folder)
        os.chdir(folder)
        print(f"BEGIN {each.__name__}", flush=True)
        each(neptune)
        os.chdir(os.pardir)
