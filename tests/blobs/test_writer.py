from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from own_calls import own

from seamark.blobs import BlobWriter
from seamark.blobs.take import SMALL
from seamark.blobs.worker import Job, Worker
from seamark.errors import FileMissingError
from seamark.journal.folder import RunFolder
from seamark.types import File

LARGE = SMALL + 1_000_000


def large(letter):
    return letter.encode() * LARGE


# -------------------------------------------------------------------- mistakes


@pytest.mark.parametrize("verb", ["keep", "refer"])
def test_what_does_not_exist_is_a_mistake(run, tmp_path, verb):
    with pytest.raises(FileMissingError, match="nowhere"):
        getattr(run.files, verb)("a", tmp_path / "nowhere.ckpt")
    with pytest.raises(FileNotFoundError):
        run.files.upload("a", File(tmp_path / "nowhere.ckpt"))
    with pytest.raises(FileNotFoundError):
        run.files.put(File(tmp_path / "nowhere.ckpt"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileMissingError, match="regular file"):
        run.files.upload("a", File(tmp_path / "pipe"))
    assert run.ops() == []


def test_one_missing_member_takes_no_other_with_it(run, tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    with pytest.raises(FileMissingError):
        run.files.upload_members("set", {"a": tmp_path / "a", "b": tmp_path / "b"})
    with pytest.raises(FileMissingError, match="folder"):
        run.files.upload_members("set", {"a": tmp_path / "a", "b": tmp_path})
    assert run.ops() == []


# -------------------------------------------------------------------- the bytes are held


def test_a_small_file_is_complete_when_the_call_returns(run, tmp_path):
    source = tmp_path / "last.ckpt"
    source.write_bytes(b"one")
    run.files.keep("model/last", source)
    with source.open("r+b") as file:
        file.write(b"TWO")
    assert run.content("model/last") == b"one"
    assert run.file("model/last") == {
        "name": "last.ckpt",
        "ext": "ckpt",
        "size": 3,
        "sha256": run.file("model/last")["sha256"],
    }


def test_a_small_file_rewritten_in_the_same_tick_is_taken_again(run, tmp_path):
    """Equal size, time and inode prove nothing about a file that was written just now."""
    source = tmp_path / "last.ckpt"
    for number in range(50):
        source.write_bytes(b"%03d" % number)
        run.files.keep("model/last", source)
        assert run.content("model/last") == b"%03d" % number


@pytest.mark.parametrize("way", ["remove", "replace"])
def test_a_large_file_survives_its_removal_and_replacement(run, tmp_path, way):
    """What callbacks prune or replace after the hook is kept as it was at the hook."""
    source = tmp_path / "epoch=1.ckpt"
    source.write_bytes(large("a"))
    opened = run.hold_up()
    run.files.keep("model/best", source)
    if way == "remove":
        source.unlink()
    else:
        (tmp_path / "new").write_bytes(large("b"))
        (tmp_path / "new").replace(source)
    assert run.file("model/best")["staged"]
    opened.set()
    run.files.close(60)
    assert run.content("model/best") == large("a")
    assert "staged" not in run.file("model/best")
    assert {path.name for path in run.folder.path.iterdir()} == {"blobs", "journal"}
    assert run.troubles == []


@pytest.mark.parametrize("change", [b"b", b"b" * LARGE, b"b" * (2 * LARGE)], ids=len)
def test_rewriting_before_the_copy_is_recorded_as_loss_and_learned(run, tmp_path, change):
    source = tmp_path / "last.ckpt"
    source.write_bytes(large("a"))
    opened = run.hold_up()
    run.files.keep("model/last", source)
    with source.open("r+b") as file:
        file.write(change)
    opened.set()
    assert run.files.flush(60)
    found = run.file("model/last")
    if "lost" not in found:  # a file system that clones
        assert run.content("model/last") == large("a")
        return
    assert found["lost"] == "changed"
    assert "sha256" not in found
    assert run.blobs() == set()
    assert [kind for kind, _ in run.troubles] == ["rewritten before it was copied"]

    source.write_bytes(large("c"))
    opened = run.hold_up()
    run.files.keep("model/last", source)
    with source.open("r+b") as file:
        file.write(b"d" * LARGE)
    opened.set()
    run.files.flush(60)
    assert run.content("model/last") == large("c")


def test_a_file_known_to_be_rewritten_in_place_is_copied_at_the_call(run, tmp_path):
    """Same name and inode, other bytes: from the second version on nothing can be lost."""
    source = tmp_path / "last.ckpt"
    for letter in "abc":
        source.write_bytes(large(letter))
        run.files.keep(f"model/{letter}", source)
        run.files.flush(60)
    opened = run.hold_up()
    source.write_bytes(large("d"))
    run.files.keep("model/d", source)
    source.write_bytes(large("e"))
    opened.set()
    run.files.flush(60)
    assert [run.content(f"model/{letter}") for letter in "abcd"] == [large(x) for x in "abcd"]
    assert run.troubles == []


def test_a_file_on_another_file_system_is_held_open(run, other_device):
    source = other_device / "a.ckpt"
    source.write_bytes(large("a"))
    opened = run.hold_up()
    run.files.keep("model/a", source)
    source.unlink()
    assert run.file("model/a")["source"] == str(source)
    opened.set()
    run.files.flush(60)
    assert run.content("model/a") == large("a")


def test_a_link_is_the_file_it_leads_to(run, tmp_path):
    """``save_last="link"`` leaves a link; what is kept is the checkpoint, under the link's name."""
    (tmp_path / "epoch=1.ckpt").write_bytes(large("a"))
    (tmp_path / "last.ckpt").symlink_to("epoch=1.ckpt")
    run.files.keep("model/last", tmp_path / "last.ckpt")
    run.files.flush(60)
    assert run.content("model/last") == large("a")
    assert run.file("model/last")["name"] == "last.ckpt"


def test_nothing_is_taken_twice(run, tmp_path):
    source = tmp_path / "a.ckpt"
    source.write_bytes(large("a"))
    opened = run.hold_up()
    run.files.keep("model/a", source)
    run.files.keep("model/best", source)
    assert len(run.staged()) == 1
    opened.set()
    run.files.flush(60)
    run.files.keep("model/last", source)
    assert run.file("model/a")["sha256"] == run.file("model/best")["sha256"]
    assert run.file("model/last")["sha256"] == run.file("model/a")["sha256"]
    assert [op["op"] for op in run.ops()] == ["own", "own", "digest", "digest", "file"]
    assert run.staged() == []


# -------------------------------------------------------------------- folders


def test_a_folder_is_one_file_with_members(run, tmp_path):
    shards = tmp_path / "epoch=1.ckpt"
    (shards / "rank").mkdir(parents=True)
    (shards / "rank" / "0.pt").write_bytes(large("a"))
    (shards / "meta.json").write_bytes(b"{}")
    (shards / "link.json").symlink_to("meta.json")
    (shards / "gone").symlink_to("nowhere")
    opened = run.hold_up()
    run.files.keep("model/a", shards)
    shutil.rmtree(shards)
    opened.set()
    run.files.flush(60)
    found = run.file("model/a")
    assert found["dir"] is True
    assert set(found["members"]) == {"rank/0.pt", "meta.json", "link.json"}
    assert found["size"] == LARGE + 4
    digests = {digest for _, digest in found["members"].values()}
    assert run.blobs() == digests | {found["sha256"]}
    assert run.staged() == []


def test_one_rewritten_shard_is_told(run, tmp_path):
    shards = tmp_path / "a.ckpt"
    shards.mkdir()
    (shards / "0").write_bytes(large("a"))
    (shards / "1").write_bytes(b"b")
    opened = run.hold_up()
    run.files.keep("model/a", shards)
    with (shards / "0").open("r+b") as file:
        file.write(b"x")
    opened.set()
    run.files.flush(60)
    found = run.file("model/a")
    if "lost" in found:  # a file system that does not clone
        assert found["members"]["0"] == [LARGE, None]
        assert found["members"]["1"][1] is not None
        assert "sha256" not in found


# -------------------------------------------------------------------- references


def test_a_reference_takes_no_bytes_and_gets_its_digest_later(run, tmp_path):
    """The hook only looks; the digest follows if the file is still the same."""
    source = tmp_path / "a.ckpt"
    source.write_bytes(b"abc")
    opened = run.hold_up()
    run.files.refer("model/a", source)
    first = run.file("model/a")
    stat = source.stat()
    assert first == {
        "name": "a.ckpt",
        "ext": "ckpt",
        "size": 3,
        "ref": str(source),
        "mtime_ns": stat.st_mtime_ns,
        "inode": stat.st_ino,
    }
    opened.set()
    run.files.flush(60)
    assert run.file("model/a") == first | {"sha256": run.file("model/a")["sha256"]}
    assert run.blobs() == set()
    run.files.refer("model/best", source)
    assert run.file("model/best")["sha256"] == run.file("model/a")["sha256"]


@pytest.mark.parametrize("way", ["remove", "rewrite"])
def test_a_reference_that_went_away_gets_no_digest(run, tmp_path, way):
    source = tmp_path / "a.ckpt"
    source.write_bytes(b"abc")
    opened = run.hold_up()
    run.files.refer("model/a", source)
    source.unlink()
    if way == "rewrite":
        source.write_bytes(b"other")
    opened.set()
    assert run.files.flush(60)
    assert "sha256" not in run.file("model/a")
    assert run.troubles == []


def test_references_to_folders_and_urls(run, tmp_path):
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "0").write_bytes(b"abc")
    run.files.refer("model/shards", tmp_path / "shards")
    run.files.refer("model/url", "s3://key:secret@bucket/a/last.ckpt?version=3")
    run.files.refer("model/local", (tmp_path / "shards" / "0").as_uri())
    run.files.flush(60)
    assert run.file("model/shards")["dir"] is True
    assert run.file("model/shards")["members"]["0"][1] == run.file("model/local")["sha256"]
    assert run.file("model/url") == {
        "name": "last.ckpt",
        "ext": "ckpt",
        "ref": "s3://bucket/a/last.ckpt?version=3",
    }


# -------------------------------------------------------------------- uploads


def test_uploads_of_content_and_files(run, tmp_path):
    (tmp_path / "a.bin").write_bytes(large("a"))
    odd = tmp_path / os.fsdecode(b"bad\xff.bin")
    odd.write_bytes(b"x")
    run.files.upload("odd", File(odd))
    assert (run.file("odd")["name"], run.content("odd")) == ("bad\\udcff.bin", b"x")
    run.files.upload("notes", File.from_content("hello"))
    run.files.upload("data", File(tmp_path / "a.bin", extension="dat"), wait=True)
    assert run.content("notes") == b"hello"
    assert run.file("notes")["name"] == "notes.txt"
    assert run.file("data")["ext"] == "dat"
    assert run.content("data") == large("a")


def test_members_of_a_file_set(run, tmp_path):
    (tmp_path / "small").write_bytes(b"s")
    (tmp_path / "large").write_bytes(large("a"))
    (tmp_path / "gone").write_bytes(large("b"))
    opened = run.hold_up()
    members = {name: tmp_path / name for name in ("small", "large", "gone")}
    run.files.upload_members("set", {f"d/{name}": path for name, path in members.items()})
    assert run.member("set", "d/small")["sha256"]
    assert run.member("set", "d/large")["staged"]
    run.writer.append_op({"op": "unfiles", "path": "set", "names": ["d/gone"]})
    run.files.forget("set", ["d/gone"])
    opened.set()
    run.files.flush(60)
    assert run.member("set", "d/large")["sha256"]
    assert run.member("set", "d/large")["name"] == "large"
    assert run.ops()[-1]["members"].keys() == {"d/large"}
    assert run.staged() == []


def test_a_log_that_grows_while_it_is_stored_is_kept_and_marked(run, tmp_path):
    source = tmp_path / "train.log"
    source.write_bytes(large("a"))
    opened = run.hold_up()
    run.files.upload("logs/train", File(source))
    with source.open("ab") as file:
        file.write(b"more")
    opened.set()
    run.files.flush(60)
    found = run.file("logs/train")
    if "changed" in found:
        assert run.content("logs/train") == large("a") + b"more"
        assert found["size"] == LARGE + 4
    else:  # a file system that clones
        assert run.content("logs/train") == large("a")
    assert run.troubles == []


def test_many_members_and_many_images(run, tmp_path):
    for number in range(250):
        (tmp_path / f"{number}.txt").write_text(str(number))
    names = [f"{number}.txt" for number in range(250)]
    run.files.upload_members("set", {name: tmp_path / name for name in names})
    assert [len(op["members"]) for op in run.ops()] == [100, 100, 50]
    for number in range(300):  # of which not all are forced to disk
        run.files.put(File.from_content(f"image {number}"))
    assert run.files.flush(60)
    assert len(run.blobs()) == 550


def test_many_files_on_another_file_system_do_not_use_up_the_descriptors(run, other_device):
    shards = other_device / "a.ckpt"
    shards.mkdir()
    for number in range(200):
        (shards / str(number)).write_bytes(b"%d" % number)
    opened = run.hold_up()
    before = len(list(Path("/proc/self/fd").iterdir()))
    run.files.keep("model/a", shards)
    assert len(list(Path("/proc/self/fd").iterdir())) - before <= 70
    shutil.rmtree(shards)
    opened.set()
    run.files.flush(60)
    assert len(run.file("model/a")["members"]) == 200
    assert run.file("model/a")["sha256"] in run.blobs()


def test_put_stores_before_it_returns(run, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_bytes(large("a"))
    opened = run.hold_up()
    file = run.files.put(File(tmp_path / "d" / "a"))
    whole = run.files.put(File(tmp_path / "d"))
    assert {file["sha256"], whole["sha256"]} <= run.blobs()
    assert whole["members"] == {"a": [LARGE, file["sha256"]]}
    assert run.files.put(File.from_content(b"x", "png"))["ext"] == "png"
    opened.set()


# -------------------------------------------------------------------- pruning


def test_pruning_removes_what_nothing_else_has(run, tmp_path):
    source = tmp_path / "a.ckpt"
    source.write_bytes(large("a"))
    run.files.keep("model/a", source)
    run.files.keep("model/best", source)
    run.files.flush(60)
    for path, left in (("model/a", 1), ("model/best", 0)):
        run.writer.append_op({"op": "delete", "paths": [path]})
        run.files.prune(path)
        run.files.flush(60)
        assert len(run.blobs()) == left


def test_pruning_leaves_what_a_series_or_another_process_has(run, tmp_path, folder):
    for name in ("point", "text", "other", "free"):
        (tmp_path / name).write_bytes(name.encode())
        run.files.keep(f"model/{name}", tmp_path / name)
    point = run.files.put(File.from_content("point"))
    run.writer.append_op({"op": "file_point", "path": "images", "step": 0, "file": point})
    text = run.file("model/text")
    run.writer.append_op({"op": "assign", "atoms": {"t": ["text", {"sha256": text["sha256"]}]}})
    code = """
        import sys
        from pathlib import Path
        from seamark.blobs.pending import _header
        from seamark.journal.folder import RunFolder
        from seamark.journal.writer import JournalWriter
        writer = JournalWriter(RunFolder(Path(sys.argv[1]), "digits", sys.argv[2]), _header)
        file = {"name": "x", "ext": "", "size": 5, "sha256": sys.argv[3]}
        writer.append_op({"op": "file", "path": "model/other", "file": file})
        writer.close()
    """
    digest = run.file("model/other")["sha256"]
    command = [sys.executable, "-c", textwrap.dedent(code), str(folder.root), folder.run, digest]
    subprocess.run(command, check=True)
    for name in ("point", "text", "other", "free"):
        run.files.prune(f"model/{name}")
    run.files.flush(60)
    assert len(run.blobs()) == 3
    assert {point["sha256"], text["sha256"], digest} == run.blobs()


def test_pruning_before_it_is_stored_leaves_nothing(run, tmp_path):
    source = tmp_path / "a.ckpt"
    source.write_bytes(large("a"))
    opened = run.hold_up()
    run.files.keep("model/a", source)
    run.files.prune("model/a")
    opened.set()
    run.files.flush(60)
    assert run.blobs() == set()
    assert run.staged() == []


# -------------------------------------------------------------------- trouble


@pytest.fixture
def no_room():
    """A disk on which no file can grow beyond one mebibyte, until it is called."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before)
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_run_folder_that_cannot_be_written_raises_nothing(tmp_path):
    (tmp_path / "root").write_text("not a folder")
    (tmp_path / "small").write_bytes(b"s")
    (tmp_path / "large").write_bytes(large("a"))
    ops, troubles = [], []
    folder = RunFolder(tmp_path / "root", "p", "0123456789abcdef")
    files = BlobWriter(folder, ops.append, lambda *given: troubles.append(given))
    files.keep("a", tmp_path / "small")
    files.keep("b", tmp_path / "large")
    assert files.put(File(tmp_path / "large"))["lost"] == "not stored"
    assert not files.flush(60)
    files.close(1)
    assert [(op["op"], op["path"]) for op in ops] == [("own", "a"), ("own", "b"), ("digest", "a")]
    assert ops[-1]["file"]["lost"] == "not stored"
    assert sorted(kind for kind, _ in troubles) == ["not stored"] * 3 + ["not stored yet"] * 2


def test_a_writer_that_was_stopped_records_nothing_more(run, tmp_path):
    source = tmp_path / "a.ckpt"
    source.write_bytes(large("a"))
    opened = run.hold_up()
    run.files.keep("model/a", source)
    run.files.close(0.0)
    count = len(run.ops())
    opened.set()
    assert run.files.flush(60)
    assert len(run.ops()) == count
    assert len(run.staged()) == 1


def test_what_the_disk_refused_is_as_private_as_its_source(run, tmp_path, request):
    for name, mode in (("secret", 0o600), ("again", 0o644)):
        (tmp_path / name).write_bytes(b"s" * 2_000_000)
        (tmp_path / name).chmod(mode)
    make_room = request.getfixturevalue("no_room")
    for name in ("secret", "again"):
        run.files.upload(name, File(tmp_path / name))
    assert run.blobs() == set()
    make_room()
    assert run.files.flush(60)
    (blob,) = run.folder.blobs_dir.iterdir()
    assert blob.stat().st_mode & 0o777 == 0o600


def test_what_is_staged_stays_until_the_journal_took_its_record(folder, tmp_path):
    (tmp_path / "a").write_bytes(large("a"))
    ops, takes = [], []

    def record(op):
        if op["op"] == "digest" and not takes:
            return False
        ops.append(op)
        return True

    files = BlobWriter(folder, record, lambda *_: None)
    files.keep("model/a", tmp_path / "a")
    assert not files.flush(60)
    assert [path.name for path in folder.staging_dir.iterdir()] == [ops[0]["file"]["staged"]]
    takes.append(True)
    assert files.flush(60)
    assert [op["op"] for op in ops] == ["own", "digest"]
    files.close(1)
    assert not folder.staging_dir.exists()
    files = BlobWriter(folder, lambda op: op["op"] == "own", lambda *_: None)
    files.keep("model/b", tmp_path / "a")
    files.close(60)  # the run ends before that: whoever completes it finds the bytes
    (staged,) = folder.staging_dir.iterdir()
    assert staged.read_bytes() == large("a")


@pytest.fixture
def time_limit(monkeypatch):
    """A handler that raises in the middle of the next write, as a time limit does."""

    def limit(*_):
        raise TimeoutError

    def interrupted(*_):
        monkeypatch.undo()
        signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, limit)
    yield lambda: monkeypatch.setattr(os, "write", own(interrupted, os.write))
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("way", ["content", "small", "now", "copied"])
def test_a_time_limit_that_ends_in_the_middle_of_a_file_is_no_trouble_with_the_disk(
    run, tmp_path, time_limit, way
):
    """What a signal handler raises goes on, although TimeoutError is an OSError."""
    (tmp_path / "small").write_bytes(b"small")
    (tmp_path / "large").write_bytes(large("a"))
    run.files._sources.note_rewritten(str(tmp_path / "large"))
    files = {
        "content": lambda: run.files.upload("a", File.from_content("x")),
        "small": lambda: run.files.keep("a", tmp_path / "small"),
        "now": lambda: run.files.put(File(tmp_path / "large")),
        "copied": lambda: run.files.keep("a", tmp_path / "large"),
    }
    time_limit()
    with pytest.raises(TimeoutError):
        files[way]()
    assert run.ops() == []
    assert run.troubles == []
    assert run.staged() == []


def test_a_time_limit_that_ends_while_somebody_waits_leaves_the_job(monkeypatch):
    def no_thread(_):
        raise RuntimeError

    def limit(*_):
        raise TimeoutError

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    before = signal.signal(signal.SIGUSR1, limit)
    done = []
    worker = Worker(lambda *given: done.append(given))
    steps = iter([lambda: signal.raise_signal(signal.SIGUSR1), lambda: done.append("stored")])

    def work():
        next(steps)()

    worker.submit(Job(work))
    with pytest.raises(TimeoutError):
        worker.flush(60)
    assert worker.flush(60)
    assert done == ["stored"]
    signal.signal(signal.SIGUSR1, before)


# -------------------------------------------------------------------- processes


def test_a_forked_child_leaves_the_jobs_to_its_parent(run, tmp_path):
    (tmp_path / "a").write_bytes(large("a"))
    (tmp_path / "b").write_bytes(large("b"))
    opened = run.hold_up()
    run.files.keep("model/a", tmp_path / "a")
    child = os.fork()
    if not child:
        code = 1
        try:
            assert run.files.flush(10)
            run.files.keep("model/b", tmp_path / "b")
            assert run.files.flush(60)
            run.files.close(10)
            run.writer.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    opened.set()
    run.files.flush(60)
    assert run.content("model/a") == large("a")
    assert run.content("model/b") == large("b")


def test_a_file_taken_while_the_interpreter_ends_is_stored(tmp_path):
    code = """
        import atexit, sys
        from pathlib import Path
        from seamark.blobs import BlobWriter
        from seamark.blobs.pending import _header
        from seamark.journal.folder import RunFolder
        from seamark.journal.writer import JournalWriter
        root = Path(sys.argv[1])
        folder = RunFolder(root, "p", "0123456789abcdef")
        writer = JournalWriter(folder, _header)
        files = BlobWriter(folder, writer.append_op, print)
        @atexit.register
        def late():
            files.keep("a", root / "a")
            assert files.flush(60)
            files.close(1)
            writer.close()
    """
    (tmp_path / "a").write_bytes(large("a"))
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == ""
    folder = RunFolder(tmp_path, "p", "0123456789abcdef")
    assert len(list(folder.blobs_dir.iterdir())) == 1
