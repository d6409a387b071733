from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap

import pytest
from journals import journals, operations

from seamark.blobs import finish_staged
from seamark.blobs.staging import SMALL
from seamark.journal.folder import RunFolder
from seamark.journal.writer import JournalWriter

LARGE = SMALL + 1_000_000

TRAINING = """
    import signal, sys, threading
    from pathlib import Path
    from seamark.blobs import BlobWriter
    from seamark.blobs.pending import _header
    from seamark.blobs.worker import Job
    from seamark.journal.folder import RunFolder
    from seamark.journal.writer import JournalWriter

    root, *sources = map(Path, sys.argv[1:])
    folder = RunFolder(root, "digits", "0123456789abcdef")
    writer = JournalWriter(folder, _header)
    files = BlobWriter(folder, writer.append_op, print)
    files._worker.submit(Job(threading.Event().wait))
    for source in sources:
        files.keep(f"model/{source.stem}", source)
        files.upload_members("set", {source.name: source}) if source.is_file() else None
    print("taken", flush=True)
    signal.pause()
"""


FINISHING = """
    import sys
    from pathlib import Path
    from seamark.blobs import pending as recover
    from seamark.journal.folder import RunFolder

    store = recover._store_target

    def late(*given):
        print("looked", flush=True)
        sys.stdin.readline()
        return store(*given)

    recover._store_target = late
    recover.finish_staged(RunFolder(Path(sys.argv[1]), "digits", "0123456789abcdef"))
"""


@pytest.fixture
def train(folder):
    started = []

    def start(*sources):
        command = [sys.executable, "-c", textwrap.dedent(TRAINING), str(folder.root)]
        child = subprocess.Popen([*command, *map(str, sources)], stdout=subprocess.PIPE, text=True)
        started.append(child)
        assert child.stdout.readline() == "taken\n"
        return child

    yield start
    for child in started:
        child.kill()
        child.wait()
        child.stdout.close()


def kill(child):
    child.kill()
    child.wait()


def large(folder, name="a.ckpt"):
    source = folder / name
    source.write_bytes(b"a" * LARGE)
    return source


def test_files_that_a_killed_process_had_taken_are_completed(run, train, tmp_path, monkeypatch):
    """A checkpoint whose hook returned is kept, though the process died before it was copied.

    What is staged stays while no journal takes its record, as on a full disk: without it nobody
    could tell whose bytes the blob has.
    """
    source = large(tmp_path)
    child = train(source)
    source.unlink()
    staged = run.staged()
    assert finish_staged(run.folder) == 0  # it lives
    assert child.poll() is None
    kill(child)
    assert "sha256" not in run.file("model/a")
    before = {journal.path for journal in run.folder.journals()}
    assert len(before) == 1
    with monkeypatch.context() as full_disk:
        full_disk.setattr(JournalWriter, "append_op", lambda *_: False)
        assert finish_staged(run.folder) == 0
    assert run.staged() == staged != []
    assert finish_staged(run.folder) == 2
    assert run.content("model/a") == b"a" * LARGE
    assert run.member("set", "a.ckpt")["sha256"] == run.file("model/a")["sha256"]
    assert run.staged() == []
    assert finish_staged(run.folder) == 0
    (added,) = [one for one in journals(run.folder.path) if one.path not in before]
    assert added.header["owner"] is False  # who completes it decides nothing about the run
    assert added.closed


def test_a_journal_that_its_living_process_rotated_is_left_alone(run, tmp_path, monkeypatch):
    with run.held_up():
        run.files.keep("model/a", large(tmp_path))
        monkeypatch.setattr("seamark.journal.writer.ROTATE_BYTES", 1)
        run.writer._upkeep.keep()
        run.writer.append_op({"op": "add", "path": "sys/tags", "values": ["x"]})
        assert len(run.folder.journals()) == 2
        assert finish_staged(run.folder) == 0
        assert run.staged()
    assert run.content("model/a") == b"a" * LARGE


def test_two_processes_may_complete_the_same_file(run, train, tmp_path):
    kill(train(large(tmp_path)))
    command = [sys.executable, "-c", textwrap.dedent(FINISHING), str(run.folder.root)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "looked\n"
        assert finish_staged(run.folder) == 2
        child.communicate("go\n")
    assert child.returncode == 0
    assert run.content("model/a") == b"a" * LARGE
    assert "lost" not in run.member("set", "a.ckpt")


def test_a_source_rewritten_in_place_after_the_death_is_recorded_as_lost(run, train, tmp_path):
    source = large(tmp_path)
    kill(train(source))
    with source.open("r+b") as file:
        file.write(b"x")
    finish_staged(run.folder)
    found = run.file("model/a")
    if "lost" not in found:  # a file system that clones
        assert run.content("model/a") == b"a" * LARGE
    else:
        assert found["lost"] == "changed"
        assert "sha256" not in found
    assert run.staged() == []
    assert finish_staged(run.folder) == 0


def test_staged_bytes_that_are_gone_are_recorded_as_lost(run, train, tmp_path):
    kill(train(large(tmp_path)))
    shutil.rmtree(run.folder.staging_dir)
    run.folder.staging_dir.mkdir()
    assert finish_staged(run.folder) == 0
    assert run.file("model/a")["lost"] == "gone"


def test_a_sharded_checkpoint_is_completed(run, train, tmp_path):
    shards = tmp_path / "a.ckpt"
    (shards / "x").mkdir(parents=True)
    large(shards, "x/0")
    (shards / "1").write_bytes(b"1")
    child = train(shards)
    shutil.rmtree(shards)
    kill(child)
    assert finish_staged(run.folder) == 1
    found = run.file("model/a")
    assert set(found["members"]) == {"x/0", "1"}
    assert {digest for _, digest in found["members"].values()} | {found["sha256"]} == run.blobs()
    assert run.staged() == []


def test_a_copied_run_folder_is_completed_where_it_lies(run, train, tmp_path):
    kill(train(large(tmp_path)))
    copy = tmp_path / "copy"
    shutil.copytree(run.folder.root, copy, copy_function=shutil.copyfile)
    folder = RunFolder(copy, run.folder.project, run.folder.run)
    assert finish_staged(folder) == 2
    stored = [op["op"] for op in operations(folder.path) if '"sha256"' in json.dumps(op)]
    assert stored == ["digest", "files"]
    assert len(list(folder.blobs_dir.iterdir())) == 1
    assert list(folder.staging_dir.iterdir()) == []


@pytest.mark.parametrize("way", ["leave", "remove", "rewrite"])
def test_a_file_held_open_is_completed_from_its_source(run, train, other_device, way):
    source = large(other_device)
    kill(train(source))
    if way == "remove":
        source.unlink()
    elif way == "rewrite":
        source.write_bytes(b"b" * LARGE)
    finish_staged(run.folder)
    found = run.file("model/a")
    if way == "leave":
        assert run.content("model/a") == b"a" * LARGE
    else:
        assert found["lost"] == {"remove": "gone", "rewrite": "changed"}[way]


def test_a_file_that_was_deleted_meanwhile_is_not_completed(run, train, tmp_path):
    kill(train(large(tmp_path)))
    run.writer.append_op({"op": "delete", "paths": ["model"]})
    run.writer.append_op({"op": "unfiles", "path": "set", "names": ["a.ckpt"]})
    assert finish_staged(run.folder) == 0
    assert run.file("model/a") is None


def test_a_forged_journal_reaches_nothing_outside(run):
    victim = run.folder.root.parent / "x"
    victim.write_bytes(b"x")
    file = {"name": "x", "ext": "", "size": 1}
    for number, name in enumerate(["../../x", "/etc/passwd", "..", "", "zz"]):
        op = {
            "op": "own",
            "path": f"a{number}",
            "token": f"t{number}",
            "file": file | {"staged": name},
        }
        run.writer.append_op(op)
    run.writer.append_op({"op": "own", "path": "b", "token": 5, "file": None})
    run.writer.append_op({"op": "own", "path": "c", "token": "c", "file": file | {"staged": 5}})
    run.writer.append_op({"op": "files", "path": 5, "members": {"x": 5}})
    run.writer.close()
    run.folder.staging_dir.mkdir()
    assert finish_staged(run.folder) == 0
    assert victim.read_bytes() == b"x"
    assert [run.file(f"a{number}")["lost"] for number in range(5)] == ["gone"] * 5
