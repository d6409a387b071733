"""What the Neptune client logged offline, or could not send, becomes a run."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timezone

import pytest

import seamark
from seamark.interchange import offline

HERE = "@HERE@"


def ids(cli, *words):
    return [one["run"] for one in json.loads(cli("ls", "--json", *words).stdout)]


def imported(cli, project="digits"):
    (run,) = ids(cli, "--project", project)
    return seamark.init_run(project, with_id=run, mode="read-only")


def folder_of(training, kind):
    (found,) = (training / ".neptune" / kind).iterdir()
    return found


@pytest.mark.parametrize("kind", ["offline", "async"])
def test_values_series_files_and_deletes_are_imported(training, cli, root, tmp_path, kind):
    """With steps as given and as the server numbered them."""
    result = cli("import", "neptune", folder_of(training, kind), "--project", "team/digits")
    assert (result.exit_code, result.stderr) == (0, f"imported 1 run to {root}\n")
    told = json.loads((folder_of(training, kind) / "metadata.json").read_text())
    with imported(cli, "team/digits") as run:
        expected = {
            "params": {"lr": 0.1, "n": 3, "on": True, "text": "text", "nested": {"deep": 2}},
            "when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc),
            "copied": 0.1,
            "sys/tags": {"b"},
            "sys/name": "baseline",
            "sys/state": "completed",
            "sys/creation_time": datetime.fromisoformat(told["createdAt"]),
        }
        assert {path: run[path].fetch() for path in expected} == expected
        assert not run.exists("gone")
        loss = run["train/loss"].fetch_points()
        assert loss["step"].tolist() == [0, 1, 2, 3, 4]
        assert loss["value"].tolist() == [1 / (i + 1) for i in range(5)]
        acc = run["train/acc"].fetch_points()
        assert acc["step"].tolist() == [10, 12.5]
        assert acc.time_ns[0] == 1_700_000_000_500_000_000
        assert run["logs"].fetch_last() == "hello"
        run["mem"].download(str(tmp_path / "mem"))
        assert (tmp_path / "mem").read_text() == "in memory"
        for path, name in (("set", "up.txt"), ("source_code/files", "make.py")):
            assert [one["name"] for one in run[path].list_fileset_files()] == [name]
        assert [one["path"] for one in run["data"].fetch_files_list()] == ["up.txt"]
        assert run["up"].fetch_extension() == "txt"
        assert json.loads(cli("show", run.id, "pixels", "--json").stdout)
    assert cli("fsck", "--blobs").exit_code == 0


def test_folder_of_several_runs_is_imported_once(training, cli, held):
    result = cli("import", "neptune", training)
    assert (result.exit_code, "--project" in result.stderr) == (2, True)
    assert cli("import", "neptune", training, "--project", "digits").exit_code == 0
    before = held()
    assert len(ids(cli)) == 2
    result = cli("import", "neptune", training / ".neptune", "--project", "digits")
    assert (result.exit_code, held()) == (0, before)
    assert "2 runs were there already" in result.stderr


def test_files_outside_the_folder_of_the_training_are_refused(training, cli, root, held):
    """A folder may be anybody's: what it names elsewhere, or by links, stays where it is."""
    secret = training.parent / "secret.txt"
    secret.write_text("not yours")
    (training / "linked.txt").symlink_to(secret)
    folder = folder_of(training, "offline")
    (folder / "upload_path" / "link").symlink_to(secret)
    (folder / "upload_path" / "fifo").mkdir()
    file = {"type": "UploadFile", "ext": ""}
    operations = [
        {**file, "path": ["a"], "file_path": str(secret)},
        {**file, "path": ["b"], "file_path": f"{training}/../secret.txt"},
        {**file, "path": ["c"], "file_path": f"{training}/linked.txt"},
        {**file, "path": ["d"], "tmp_file_name": "../../../../up.txt"},
        {**file, "path": ["e"], "tmp_file_name": "link"},
        {"type": "UploadFileSet", "path": ["f"], "file_globs": [f"{secret.parent}/*"]},
        {"type": "UploadFileSet", "path": ["g"], "file_globs": [f"{training}/linked.*"]},
        {"type": "TrackFilesToArtifact", "path": ["h"], "entries": [[str(secret), None]]},
        {**file, "path": ["i"], "file_path": f"{training}/up.txt"},
    ]
    log = folder / "data-1.log"
    with log.open("a") as lines:
        for at, one in enumerate(operations, 34):
            lines.write(json.dumps({"obj": one, "version": at, "at": 1795393400.0}) + "\n")
    result = cli("import", "neptune", folder, "--project", "digits")
    assert (result.exit_code, "behind links (9, the first: set: " in result.stderr) == (0, True)
    assert not any(b"not yours" in content for content in held().values())
    with imported(cli) as run:
        assert [each for each in "abcdei" if run.exists(each)] == ["i"]
    elsewhere = training.parent / "elsewhere"
    elsewhere.mkdir()
    secret.rename(elsewhere / "secret.txt")
    log.write_text(log.read_text().replace(str(secret), str(elsewhere / "secret.txt")))
    result = cli("import", "neptune", folder, "--project", "other", "--files", elsewhere)
    assert "behind links (" in result.stderr  # links, and names that lead out
    assert any(b"not yours" in content for content in held().values())


def test_only_the_beginning_of_a_huge_log_is_read(training, cli, root, monkeypatch):
    log = folder_of(training, "async") / "data-1.log"
    monkeypatch.setattr(offline, "_MAX_LOG_BYTES", log.stat().st_size + 1000)
    with log.open("ab") as file:
        file.truncate(1 << 36)
    result = cli("import", "neptune", log.parent, "--project", "digits")
    assert (result.exit_code, "incomplete or damaged operations (1" in result.stderr) == (0, True)
    with imported(cli) as run:
        assert len(run["train/loss"].fetch_points()["step"]) == 5


def test_damaged_log_is_imported_up_to_there_and_completed_later(training, cli, root):
    folder = folder_of(training, "async")
    log = folder / "data-1.log"
    whole = log.read_text()
    lines = whole.splitlines(keepends=True)
    cut = next(at for at, line in enumerate(lines) if '"version": 18' in line)
    log.write_text("".join(lines[:cut]) + lines[cut][:40])
    words = ("import", "neptune", folder, "--project")
    result = cli(*words, "digits")
    assert (result.exit_code, "incomplete or damaged operations (1" in result.stderr) == (0, True)
    (run_id,) = ids(cli)

    def losses():
        with imported(cli) as run:
            found = run["train/loss"].fetch_points()
        return list(zip(found["step"], found["value"], strict=True))

    assert losses() == [(0, 1), (1, 0.5)]
    log.write_text(whole)
    assert "more" in cli(*words, "digits", "--dry-run").stdout
    assert (cli(*words, "digits").exit_code, ids(cli)) == (0, [run_id])
    assert losses() == [(i, 1 / (i + 1)) for i in range(5)]
    lines[6] = "{ this is no JSON\n"
    log.write_text("".join(lines[1:]))
    result = cli(*words, "spoilt")
    assert result.exit_code == 0
    assert "damaged" in result.stderr
    assert "logs without their beginning, which the client had sent and removed" in result.stderr


def test_folders_of_several_processes_become_one_run(training, cli, root):
    """Also if one is found later."""
    first = folder_of(training, "async")
    cli("import", "neptune", training / ".neptune" / "async", "--project", "digits")
    (run_id,) = ids(cli)
    container = json.loads((first / "metadata.json").read_text())["containerId"]
    second = first.with_name(f"run__{container}__77__abcdefgh")
    second.mkdir()
    told = {"containerId": container, "containerType": "run"}
    told["createdAt"] = "2026-11-24T00:00:00+00:00"
    (second / "metadata.json").write_text(json.dumps(told))
    point = {"value": 0.125, "step": None, "ts": 1795478400.0}
    operation = {"type": "LogFloats", "path": ["train", "loss"], "values": [point]}
    record = {"obj": operation, "version": 1, "at": 1795478400.0}
    (second / "data-1.log").write_text(json.dumps(record))
    assert cli("import", "neptune", training, "--project", "digits").exit_code == 0
    with seamark.init_run("digits", with_id=run_id, mode="read-only") as run:
        found = run["train/loss"].fetch_points()
        assert (found["step"].tolist()[-1], found["value"].tolist()[-1]) == (5, 0.125)


def test_models_are_named_and_not_imported(training, cli, root):
    metadata = folder_of(training, "offline") / "metadata.json"
    told = json.loads(metadata.read_text())
    metadata.write_text(json.dumps({**told, "containerType": "model"}))
    result = cli("import", "neptune", metadata.parent, "--project", "digits")
    assert (result.exit_code, "model" in result.stderr, root.exists()) == (0, True, False)


def log_of(training, operations):
    """Return a folder of the client with these operations."""
    folder = training / ".neptune" / "offline" / "run__11-22"
    folder.mkdir()
    lines = [{"obj": one, "version": at, "at": 1.7e9} for at, one in enumerate(operations, 1)]
    (folder / "data-1.log").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_wrong_operation_changes_nothing(training, cli, root):
    """Neither a part of its points is kept nor their steps; times keep their microseconds."""
    point = {"value": 1.0, "step": None, "ts": 1700000000.123456}
    late, picture = {**point, "ts": 1e300}, base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
    pictures = [{**point, "value": picture}, {**point, "value": "no base64"}]
    operations = [
        {"type": "LogFloats", "path": ["loss"], "values": [point, late]},
        {"type": "LogFloats", "path": ["loss"], "values": [point]},
        {"type": "LogFloats", "path": ["nothing"], "values": []},
        {"type": "LogImages", "path": ["pictures"], "values": pictures},
        {"type": "AssignString", "path": ["pictures"], "value": {"no": "text"}},
        {"type": "AssignString", "path": ["pictures"], "value": "free"},
    ]
    result = cli("import", "neptune", log_of(training, operations), "--project", "digits")
    assert (result.exit_code, "that Neptune refuses (3, the first" in result.stderr) == (0, True)
    with imported(cli) as run:
        loss = run["loss"].fetch_points()
        assert (loss["step"].tolist(), loss.time_ns.tolist()) == ([0], [1700000000123456000])
        assert run["pictures"].fetch() == "free"
