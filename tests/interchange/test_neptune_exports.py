"""Runs that neptune-exporter wrote become runs with the times, steps and ids that they had."""

from __future__ import annotations

import json
import signal
import sys
import zipfile
from datetime import timedelta

import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from neptune_exports import (  # noqa: E402 - after pyarrow is known to be there
    CREATED,
    MODIFIED,
    files_of,
    point,
    system,
    value,
    write_run,
)
from scripts import run_script  # noqa: E402

import seamark  # noqa: E402

P, R = "team/sandbox", "team/sandbox/SAN-6/"


@pytest.fixture
def exports(tmp_path):
    """Return a folder for an export."""
    return tmp_path / "exports"


def opened(run, project=P, **given):
    return seamark.init_run(project, with_id=run, mode="read-only", **given)


def test_values_points_times_and_ids_are_imported(exports, cli, root):
    """Whatever part or row group a row is in, and in whatever order."""
    params = [
        value("params/lr", "float", 0.1),
        value("params/n", "int", 3),
        value("params/on", "bool", given=True),
        value("params/when", "datetime", CREATED),
        value("params/none", "float", None),
        value("labels", "string_set", ["cat", "dog"]),
        value("sys/state", "string_set", ["running"]),  # told by the run itself
        point("sys/owner", 0, 1.0),
    ]
    losses = [point("train/loss", step, 1 / (step + 1)) for step in range(100)]
    later = CREATED + timedelta(seconds=3)
    early = [
        *losses[:50],
        point("train/half", "1.500000", float("nan"), later),
        point("log", 1, "second"),
        point("log", 0, "first"),
        point("grads", 10, {"type": "COUNTING", "edges": [0.0, 1.0, 2.0], "values": [3.0, 4.0]}),
    ]
    parts = [params, losses[50:]], [early, system("SAN-6", custom_run_id="mine")]
    write_run(exports, P, "SAN-6", *parts)
    assert cli("import", "neptune", exports).exit_code == 0
    with opened("SAN-6") as run:
        expected = {
            "sys/id": "SAN-6",
            "sys/creation_time": CREATED,
            "sys/modification_time": MODIFIED,
            "sys/running_time": 60.5,
            "sys/owner": "alice",
            "sys/state": "completed",
            "sys/name": "baseline",
            "sys/tags": {"a", "b"},
            "params": {"lr": 0.1, "n": 3, "on": True, "when": CREATED},
            "labels": {"cat", "dog"},
        }
        assert {path: run[path].fetch() for path in expected} == expected
        loss = run["train/loss"].fetch_values()
        assert loss["step"].tolist() == list(range(100))
        assert loss["value"].tolist() == [1 / (step + 1) for step in range(100)]
        assert set(loss["timestamp"]) == {CREATED}
        half = run["train/half"].fetch_values()
        assert (half["step"][0], half["timestamp"][0]) == (1.5, later)
        assert half["value"].isna().all()
        assert run["log"].fetch_values()["value"].tolist() == ["first", "second"]
    assert cli("fsck", "--blobs").exit_code == 0


def test_neptune_ids_and_custom_ids_find_the_run(exports, cli, root):
    write_run(exports, P, "SAN-6", [[*system("SAN-6", custom_run_id="mine"), point("x", 0, 1.0)]])
    cli("import", "neptune", exports)
    shown = json.loads(cli("show", "SAN-6", "--json").stdout)
    own = shown["run"]
    assert json.loads(cli("show", f"{P}/SAN-6", "--json").stdout)["run"] == own
    assert json.loads(cli("ls", "--json").stdout)[0]["run"] == own
    assert "SAN-6" in cli("ls").stdout
    with seamark.init_run(P, custom_run_id="mine", mode="read-only") as run:
        assert run["sys/id"].fetch() == "SAN-6"
    with seamark.init_project(P, mode="read-only") as project:
        for either in ("SAN-6", own):
            (row,) = project.fetch_runs_table(query=f'`sys/id` = "{either}"').to_rows()
            assert row["sys/id"] == "SAN-6"
    assert cli("tag", "SAN-6", "--add", "kept").exit_code == 0
    with opened(own) as run:
        assert "kept" in run["sys/tags"].fetch()


def test_files_sets_pictures_and_artifacts_are_imported(exports, cli, root, tmp_path):
    base = files_of(exports, P) / R
    (base / "set").mkdir(parents=True)
    (base / "cfg").write_text("a: 1")
    (base / "pic").write_bytes(b"\x89PNG\r\n\x1a\nrest")
    (base / "0.png").write_bytes(b"picture")
    with zipfile.ZipFile(base / "set" / "set.zip", "w") as archive:
        for name, content in (("/", ""), ("d/", ""), ("d/x.txt", "x"), ("y.py", "y")):
            archive.writestr(name, content)
    tracked = [{"filePath": "q.csv", "fileHash": "356a", "type": "Local", "size": 1}]
    (base / "files_list.json").write_text(json.dumps(tracked))
    rows = [
        *(value(path, "file", R + path) for path in ("cfg", "pic")),
        value("set", "file_set", R + "set"),
        value("data", "artifact", R + "files_list.json"),
        point("imgs", 0, {"path": R + "0.png"}, None),
    ]
    write_run(exports, P, "SAN-6", [[*system("SAN-6"), *rows]])
    result = cli("import", "neptune", exports / "data")
    assert (result.exit_code, "imported 1 run" in result.stderr) == (0, True), result.stderr
    with opened("SAN-6") as run:
        run["cfg"].download(str(tmp_path / "cfg"))
        assert (tmp_path / "cfg").read_text() == "a: 1"
        assert run["pic"].fetch_extension() == "png"
        assert [one["name"] for one in run["set"].list_fileset_files()] == ["d/x.txt", "y.py"]
        assert [one["path"] for one in run["data"].fetch_files_list()] == ["q.csv"]
        assert run["imgs"].fetch_last() is not None


def test_file_names_that_lead_out_are_refused_and_the_rest_is_imported(exports, cli, root, held):
    """Neither .., nor absolute paths, nor links, nor what archives say."""
    secret = exports.parent / "secret"
    secret.write_text("not yours")
    base = files_of(exports, P) / R
    (base / "set").mkdir(parents=True)
    (base / "link").symlink_to(secret)
    (base / "down").symlink_to(exports.parent)
    (base / "good").write_text("good")
    with zipfile.ZipFile(base / "set" / "set.zip", "w") as archive:
        archive.writestr("../evil", "evil")
        archive.writestr("/abs", "evil")
        link = zipfile.ZipInfo("linked")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, str(secret))
    inside = [R + name for name in ("link", "down/secret", "a/../link")]
    names = ["../../../secret", str(secret), *inside, "", "."]
    rows = [value(f"bad/{at}", "file", name) for at, name in enumerate(names)]
    rows += [value("set", "file_set", R + "set"), value("good", "file", R + "good")]
    rows += [value("bad\x01path", "int", 1), value("gone", "file", R + "gone")]
    write_run(exports, P, "SAN-6", [[*system("SAN-6"), *rows]])
    result = cli("import", "neptune", exports)
    assert result.exit_code == 0
    assert f"behind links ({len(names) + 3}, the first: bad/0" in result.stderr
    assert "missing files (1, the first: gone" in result.stderr
    assert "invalid paths (1" in result.stderr
    assert not any(b"not yours" in content or content == b"evil" for content in held().values())
    with opened("SAN-6") as run:
        assert run["good"].fetch_extension() == ""
        assert not run.exists("bad/0")


def test_runs_that_are_there_are_kept_and_purged_ones_stay_away(exports, cli, root, held):
    """The ids follow from the source, so what is there is known; and bytes follow, too."""
    write_run(exports, P, "SAN-6", [system("SAN-6"), [point("x", 0, 1.0)]])
    write_run(exports, P, "SAN-7", [system("SAN-7", failed=True, running_time="odd")])
    words = ("import", "neptune", exports)
    cli(*words)
    before = held()
    elsewhere = root.with_name("elsewhere")
    assert cli(*words, "--root", elsewhere).exit_code == 0
    assert held(elsewhere) == before
    with opened("SAN-7") as run:
        assert run["sys/state"].fetch() == "failed"
        assert run["sys/running_time"].fetch() == (MODIFIED - CREATED).total_seconds()
    result = cli(*words)
    assert (result.exit_code, held()) == (0, before)
    assert "2 runs were there already" in result.stderr
    write_run(exports, P, "SAN-6", [system("SAN-6"), [point("x", 0, 1.0), point("x", 1, 2.0)]])
    result = cli(*words)
    assert (result.exit_code, held()) == (0, before)
    assert "exported again since their import: not changed (1, the first: SAN-6)" in result.stderr
    with seamark.init_run(P, custom_run_id="mine", capture={"git": False}) as run:
        run["x"] = 1
    before = held()
    write_run(exports, P, "SAN-8", [system("SAN-8", custom_run_id="mine")])
    result = cli(*words)
    assert (result.exit_code, held()) == (1, before)
    assert "SAN-8: run" in result.stderr
    assert "has the same custom id, but is another run" in result.stderr
    assert cli("purge", "SAN-7", "--force", "--yes").exit_code == 0
    result = cli(*words)
    assert (result.exit_code, "was purged here" in result.stderr) == (1, True)


def test_dry_run_lists_the_runs_and_writes_nothing(exports, cli, root, tmp_path, monkeypatch):
    write_run(exports, P, "SAN-6", [system("SAN-6"), [point("x", 0, 1.0)]])
    words = ("import", "neptune", exports, "--project", "mine")
    result = cli(*words, "--dry-run")
    assert result.exit_code == 0
    head, line = result.stdout.splitlines()
    assert " ".join(head.split()) == "PROJECT RUN SOURCE ID NAME CREATED VALUES SIZE STATUS"
    cells = line.split()
    assert (cells[0], cells[2], cells[3], cells[-1]) == ("mine", "SAN-6", "baseline", "new")
    assert not root.exists()
    cli(*words)
    assert cli(*words, "--dry-run").stdout.splitlines()[1].endswith("there already")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    result = cli(*words)
    assert (result.exit_code, 'pip install "seamark[parquet]"' in result.stderr) == (2, True)


def test_unreadable_runs_are_named_and_the_others_imported(exports, cli, root):
    good, *_ = write_run(exports, P, "SAN-6", [system("SAN-6")])
    (good.parent / "SAN-5-0_part_0.parquet").write_bytes(b"PAR1 and no more")
    odd = pa.table({"project_id": [P], "run_id": ["SAN-4"], "attribute_path": [1]})
    pq.write_table(odd, good.parent / "SAN-4-0_part_0.parquet")
    result = cli("import", "neptune", exports)
    assert result.exit_code == 1
    for said in (
        "SAN-4-0: expected a column 'attribute_path' of string, got int64",
        "SAN-5-0: it cannot be read",
        "could not be imported",
    ):
        assert said in result.stderr
    with opened("SAN-6") as run:
        assert run["sys/name"].fetch() == "baseline"


def test_project_names_that_are_no_paths_are_replaced_and_stay_distinct(exports, cli, root):
    for project, run in (("our team/ü", "A-1"), ("our team/ö", "B-1"), ("journal/ü", "C-1")):
        write_run(exports, project, run, [system(run)])
    assert cli("import", "neptune", exports).exit_code == 0
    listed = sorted(one["project"] for one in json.loads(cli("ls", "--json").stdout))
    paths = ["imported/project", "our-team/project", "our-team/project"]
    assert [one.rpartition("-")[0] for one in listed] == paths
    assert len({*listed}) == 3


def test_local_times_of_an_exporter_are_corrected_with_tz(exports, cli, root):
    shifted = CREATED - timedelta(hours=5)
    write_run(exports, P, "SAN-6", [[*system("SAN-6"), point("x", 0, 1.0, shifted)]])
    result = cli("import", "neptune", exports, "--project", "as-it-is")
    assert "a time zone other than UTC" in result.stderr
    result = cli("import", "neptune", exports, "--project", "right", "--tz", "America/New_York")
    assert "a time zone other than UTC" not in result.stderr
    with opened("SAN-6", "right") as run:
        assert run["x"].fetch_values()["timestamp"][0] == CREATED


KILLED = """
import os, signal, sys
from seamark.cli import main

rename, moved = os.rename, []

def rename_or_die(place, *more, **given):
    if "/.import-" in str(place):
        moved.append(place)
    if len(moved) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    rename(place, *more, **given)

os.rename = rename_or_die
main(sys.argv[1:])
"""
"""Imports until the second run would be complete."""


@pytest.mark.once
def test_killed_import_is_completed_by_the_next(exports, cli, root, held):
    """Complete runs stay, nothing is visible of the others, and in the end nothing differs."""
    for run in ("SAN-1", "SAN-2"):
        write_run(exports, P, run, [system(run), [point("x", 0, 1.0)]])
    run_script(KILLED, "import", "neptune", str(exports), status=-signal.SIGKILL)
    assert any(root.glob(f"{P}/.import-*/journal/*"))
    whole = {one["sys/id"] for one in json.loads(cli("ls", "--columns", "sys/id", "--json").stdout)}
    assert whole == {"SAN-1"}
    result = cli("import", "neptune", exports)
    assert (result.exit_code, "1 run was there already" in result.stderr) == (0, True)
    elsewhere = root.with_name("elsewhere")
    assert cli("import", "neptune", exports, "--root", elsewhere).exit_code == 0
    assert held(elsewhere) == held()
    assert not [one for one in (root / P).iterdir() if one.name.startswith(".")]
    shown = json.loads(cli("show", "SAN-2", "--json").stdout)
    assert shown["attributes"]["x"]["value"]["count"] == 1


def test_fork_shows_the_points_of_its_parent(exports, cli, root):
    """Though its files hold only its own, and whichever of them is imported first."""
    forked = [
        value("sys/custom_run_id", "string", "child"),
        value("sys/forking/parent", "string", "my-run"),
        value("sys/forking/step", "float", 2.0),
    ]
    own = [point("loss", 3, 30.0), point("loss", 4, 40.0)]
    write_run(exports, P, "child", [[*system("child"), *forked, *own]])
    first = [value("sys/custom_run_id", "string", "my-run")]
    points = [point("loss", step, float(step)) for step in range(6)]
    write_run(exports, P, "my-run", [[*system("my-run"), *first, *points]])
    told = cli("import", "neptune", str(exports))
    assert (told.exit_code, "own points" in told.output) == (0, False)
    table = seamark.init_project(P).fetch_runs_table(query='sys/custom_run_id = "child"')
    points = opened(table[0]["sys/id"])["loss"].fetch_points()
    assert (points.step.tolist(), points.value.tolist()) == ([0, 1, 2, 3, 4], [0, 1, 2, 30, 40])
