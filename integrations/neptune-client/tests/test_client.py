"""The unmodified client writes to a server, and reads what it wrote."""

from __future__ import annotations

import datetime as dt
import json
import re

import pytest

UTC = dt.timezone.utc
WRITES = """
import datetime
run = neptune.init_run(name="first", tags=["a", "b"], description="said", **OPTIONS)
run["f"], run["i"], run["b"], run["s"] = 0.5, 3, True, "h\u00e9llo / \u4e16"
run["d"] = datetime.datetime(2020, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
run["a b/c?&%#"] = "odd"
run["params"] = {"lr": 0.1, "deep": {"n": 2}}
for value in (3.0, 2.0, 1.0):
    run["loss"].append(value)
run["steps"].extend([1.0, 2.0], steps=[0.5, 4], timestamps=[1, 2])
run["lines"].extend(["x", "y"])
run["sys/tags"].remove("a")
run["gone/x"], run["gone/y"] = 1, 2
run.sync()
del run["gone"]
run.sync()
steps = run["steps"].fetch_values()
tell(
    id=run["sys/id"].fetch(), name=run["sys/name"].fetch(), tags=sorted(run["sys/tags"].fetch()),
    f=run["f"].fetch(), i=run["i"].fetch(), b=run["b"].fetch(), s=run["s"].fetch(),
    d=run["d"].fetch().timestamp(), odd=run["a b/c?&%#"].fetch(), deep=run["params/deep/n"].fetch(),
    loss=run["loss"].fetch_values()["value"].tolist(), last=run["loss"].fetch_last(),
    numbers=run["loss"].fetch_values()["step"].tolist(),
    steps=steps["step"].tolist(), times=[one.timestamp() for one in steps["timestamp"]],
    lines=run["lines"].fetch_values()["value"].tolist(), gone=run.exists("gone/x"),
    owner=run["sys/owner"].fetch(), failed=run["sys/failed"].fetch(),
)
found = run["sys/id"].fetch()
run.stop()
again = neptune.init_run(with_id=found, **OPTIONS)
other = neptune.init_run(with_id=found, **{**OPTIONS, "mode": "sync"})
again["loss"].append(0.5)
again["i"] = 4
again["new"] = "text"
again.sync()
tell(resumed=again["loss"].fetch_values()["step"].tolist(), now=again["i"].fetch())
try:
    other["new"] = 3
except Exception as error:
    tell(error=type(error).__name__)
again.stop()
other.stop()
"""
FILES = """
from neptune.types import File
import numpy as np
def put(path, data):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
big = bytes(range(256)) * 45_000
put("m.txt", b"hello"); put("big.bin", big); put("d/a.txt", b"A"); put("d/sub/b.txt", b"BB")
put("d/sub/large.bin", big[:6_000_000])
run = neptune.init_run(**OPTIONS)
run["f"].upload("m.txt")
run["big"].upload("big.bin")
run["text"].upload(File.from_content("some text"))
run["set"].upload_files("d/**/*")
for place in range(2):
    run["pictures"].append(File.as_image(np.zeros((2, 2, 3))), name=f"p{place}", description="d")
run["data"].track_files("d")
run.sync()
run["data"].track_files("m.txt")
run.sync()
run["f"].download("out.txt"); run["big"].download("out.bin"); run["set"].download("set.zip")
run["pictures"].download("pictures")
import zipfile
run["set"].delete_files("d/sub")
run.sync()
tell(
    f=open("out.txt").read(), same=open("out.bin", "rb").read() == big,
    ext=run["text"].fetch_extension(), names=sorted(zipfile.ZipFile("set.zip").namelist()),
    pictures=sorted(os.listdir("pictures")), id=run["sys/id"].fetch(),
    tracked=sorted(one.file_path for one in run["data"].fetch_files_list()),
)
run.stop()
"""
TABLE = """
for place in range(3):
    run = neptune.init_run(custom_run_id=f"c{place}", tags=["x"] if place else ["y"], **OPTIONS)
    run["p/lr"], run["acc"] = 0.1 * place, place
    run["loss"].append(2.0 * place)
    found = run["sys/id"].fetch()
run.stop()
again = neptune.init_run(custom_run_id="c1", **OPTIONS)
tell(again=again["sys/id"].fetch(), acc=again["acc"].fetch())
again.stop()
project = neptune.init_project(mode="sync")
project["data/version"] = 3
project.sync()
def rows(**what):
    return project.fetch_runs_table(**what).to_pandas()
import inspect
newer = "query" in inspect.signature(project.fetch_runs_table).parameters
order = dict(sort_by="p/lr", ascending=True) if newer else {}
found = rows(columns=["p/lr", "loss", "sys/id"], **order)
found = found if newer else found.sort_values("p/lr")
tell(
    ids=found["sys/id"].tolist(), lr=found["p/lr"].tolist(), loss=found["loss"].tolist(),
    tagged=rows(tag="x", columns=["sys/id"])["sys/id"].tolist(),
    active=len(rows(state="active")), version=project["data/version"].fetch(), newer=newer,
)
if newer:
    tell(
        asked=rows(query='(`p/lr`:float > 0.05) AND NOT (`acc`:int = 2)', columns=["sys/id"])[
            "sys/id"].tolist(),
        none=len(rows(query='`sys/tags`:stringSet CONTAINS "z"')),
    )
    try:
        rows(query="((")
    except Exception as error:
        tell(error=type(error).__name__)
from neptune import management
management.trash_objects(os.environ["NEPTUNE_PROJECT"], os.environ["PREFIX"] + "-1")
tell(left=sorted(rows(columns=["sys/id"])["sys/id"].tolist()))
project.stop()
"""
OFFLINE = """
OPTIONS["mode"] = "offline"
run = neptune.init_run(**OPTIONS)
run["x"] = 1
run["loss"].extend([1.0, 2.0])
run.stop()
from neptune.cli.commands import sync
from click.testing import CliRunner
made = CliRunner().invoke(sync, ["-p", os.environ["NEPTUNE_PROJECT"]])
assert made.exit_code == 0, made.output
project = neptune.init_project(mode="read-only")
found = project.fetch_runs_table(columns=["x", "loss"]).to_pandas()
tell(x=found["x"].tolist(), loss=found["loss"].tolist())
"""


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_what_is_written_is_read(server, tmp_path, mode):
    """Values, series, tags: what one client writes, a later one and Seamark itself read."""
    env = server.environment(f"values/{mode}", mode)
    told = server.run(tmp_path, WRITES, env)
    assert re.fullmatch(rf"{mode.upper()[:3]}-\d+", told["id"])
    assert told["name"] == "first"
    assert told["tags"] == ["b"]
    assert told["owner"] == "admin"
    assert (told["f"], told["i"], told["b"], told["s"]) == (0.5, 3, True, "héllo / 世")
    assert told["d"] == dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()
    assert (told["odd"], told["deep"]) == ("odd", 2)
    assert told["loss"] == [3.0, 2.0, 1.0]
    assert told["numbers"] == [0, 1, 2]
    assert told["last"] == 1.0
    assert told["steps"] == [0.5, 4]
    assert told["lines"] == ["x", "y"]
    assert not told["gone"]
    assert not told["failed"]

    assert told["resumed"] == [0, 1, 2, 3]
    assert told["now"] == 4
    assert told["error"] == "MetadataInconsistency"

    text = server.seamark("ls", "--remote", server.url, "--project", f"values/{mode}", "--json")
    (row,) = (
        [json.loads(line) for line in text.splitlines()] if text[0] == "{" else json.loads(text)
    )
    assert row["sys/name"] == "first"
    assert row["sys/state"] == "running"  # as long as it may still be heard of


def test_files_come_back(server, tmp_path):
    """Files whole and in parts, sets, pictures and artifacts."""
    told = server.run(tmp_path, FILES, server.environment("contents/all", "async"))
    assert told["f"] == "hello"
    assert told["same"]
    assert told["ext"] == "txt"
    assert told["names"] == ["/", "d/", "d/a.txt", "d/sub/", "d/sub/b.txt", "d/sub/large.bin"]
    assert told["pictures"] == ["0.png", "1.png"]
    assert told["tracked"] == ["a.txt", "m.txt", "sub/b.txt", "sub/large.bin"]


def test_tables_and_projects(server, tmp_path):
    """Columns, order, queries, the trash; a custom id means one run."""
    env = server.environment("tables/all") | {"PREFIX": "ALL"}
    told = server.run(tmp_path, TABLE, env)
    assert told["ids"] == ["ALL-1", "ALL-2", "ALL-3"]
    assert told["loss"] == [0.0, 2.0, 4.0]
    assert (told["again"], told["acc"]) == ("ALL-2", 1)
    assert sorted(told["tagged"]) == ["ALL-2", "ALL-3"]
    assert (told["active"], told["version"], told["left"]) == (3, 3, ["ALL-2", "ALL-3"])
    if told["newer"]:  # queries came with 1.9
        assert (told["asked"], told["none"]) == (["ALL-2"], 0)
        assert told["error"] == "NeptuneInvalidQueryException"


def test_what_was_recorded_offline_is_sent(server, tmp_path):
    """``neptune sync`` sends what a script recorded without a server."""
    told = server.run(tmp_path, OFFLINE, server.environment("offline/all"))
    assert told["x"] == [1]
    assert told["loss"] == [2.0]
