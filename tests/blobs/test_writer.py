from __future__ import annotations

import hashlib
import os
import resource
import shutil
import signal
from pathlib import Path

import pytest
from journal_builder import JournalBuilder
from own_calls import own

from seamark.blobs import BlobWriter
from seamark.blobs.staging import SMALL
from seamark.errors import FileMissingError
from seamark.journal.folder import RunFolder
from seamark.types import File

LARGE = SMALL + 1_000_000


def large(letter):
    return letter.encode() * LARGE


def made(path, content):
    path.write_bytes(content)
    return path


def overwrite(path, content):
    with path.open("r+b") as file:
        file.write(content)


@pytest.mark.parametrize("verb", ["keep", "refer"])
def test_files_that_cannot_be_taken_are_refused_and_nothing_is_recorded(run, tmp_path, verb):
    there = made(tmp_path / "a", b"a")
    with pytest.raises(FileMissingError, match="nowhere"):
        getattr(run.files, verb)("a", tmp_path / "nowhere.ckpt")
    with pytest.raises(FileNotFoundError):
        run.files.upload("a", File(tmp_path / "nowhere.ckpt"))
    with pytest.raises(FileNotFoundError):
        run.files.put(File(tmp_path / "nowhere.ckpt"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileMissingError, match="regular file"):
        run.files.upload("a", File(tmp_path / "pipe"))
    for other, message in ((tmp_path / "b", "/b"), (tmp_path, "folder")):
        with pytest.raises(FileMissingError, match=message):
            run.files.upload_members("set", {"a": there, "b": other})
    assert run.ops() == []


def test_a_small_file_is_complete_when_the_call_returns(run, tmp_path):
    source = made(tmp_path / "last.ckpt", b"one")
    run.files.keep("model/last", source)
    overwrite(source, b"TWO")
    assert run.content("model/last") == b"one"
    (blob,) = run.folder.blobs_dir.iterdir()
    assert blob.stat().st_ino != source.stat().st_ino
    assert run.file("model/last") == {
        "name": "last.ckpt",
        "ext": "ckpt",
        "size": 3,
        "sha256": hashlib.sha256(b"one").hexdigest(),
    }


def test_a_small_file_rewritten_in_the_same_tick_is_taken_again(run, tmp_path):
    for number in range(50):
        run.files.keep("model/last", made(tmp_path / "last.ckpt", b"%03d" % number))
        assert run.content("model/last") == b"%03d" % number


@pytest.mark.parametrize("place", ["tmp_path", "other_device"])
def test_a_large_file_survives_its_replacement(run, tmp_path, request, place):
    """It is kept as it was at the hook; on another file system it is held open."""
    source = made(request.getfixturevalue(place) / "epoch=1.ckpt", large("a"))
    with run.held_up():
        run.files.keep("model/best", source)
        made(source.with_name("new"), large("b")).replace(source)
        if place == "tmp_path":
            assert [run.file("model/best")["staged"]] == run.staged()
        else:
            assert run.file("model/best")["source"] == str(source)
    run.files.close(60)
    assert run.content("model/best") == large("a")
    assert {path.name for path in run.folder.path.iterdir()} == {"blobs", "journal"}
    assert run.troubles == []


@pytest.mark.parametrize("change", [b"b", b"b" * LARGE, b"b" * (2 * LARGE)], ids=len)
def test_rewriting_before_the_copy_is_recorded_as_loss_and_learned(run, tmp_path, change):
    source = made(tmp_path / "last.ckpt", large("a"))
    with run.held_up():
        run.files.keep("model/last", source)
        overwrite(source, change)
    found = run.file("model/last")
    if "lost" not in found:  # a file system that clones
        assert run.content("model/last") == large("a")
        return
    assert found["lost"] == "changed"
    assert "sha256" not in found
    assert (run.blobs(), run.staged()) == (set(), [])
    assert [kind for kind, _ in run.troubles] == ["rewritten before it was copied"]

    made(source, large("c"))
    with run.held_up():
        run.files.keep("model/last", source)
        overwrite(source, large("d"))
    assert run.content("model/last") == large("c")


def test_a_file_known_to_be_rewritten_in_place_is_copied_at_the_call(run, tmp_path):
    """Same name and inode, other bytes: from the second version on nothing can be lost."""
    source = tmp_path / "last.ckpt"
    for letter in "abc":
        run.files.keep(f"model/{letter}", made(source, large(letter)))
        run.files.flush(60)
    with run.held_up():
        run.files.keep("model/d", made(source, large("d")))
        made(source, large("e"))
    assert [run.content(f"model/{letter}") for letter in "abcd"] == [large(x) for x in "abcd"]
    assert run.troubles == []


def test_a_link_is_kept_as_the_file_it_leads_to(run, tmp_path):
    """``save_last="link"`` leaves a link; the checkpoint is kept, under the name of the link."""
    made(tmp_path / "epoch=1.ckpt", large("a"))
    (tmp_path / "last.ckpt").symlink_to("epoch=1.ckpt")
    run.files.keep("model/last", tmp_path / "last.ckpt")
    run.files.flush(60)
    assert run.content("model/last") == large("a")
    assert run.file("model/last")["name"] == "last.ckpt"


def test_nothing_is_taken_twice(run, tmp_path):
    source = made(tmp_path / "a.ckpt", large("a"))
    with run.held_up():
        run.files.keep("model/a", source)
        run.files.keep("model/best", source)
        assert len(run.staged()) == 1
    run.files.keep("model/last", source)
    assert len({run.file(f"model/{name}")["sha256"] for name in ("a", "best", "last")}) == 1
    assert [op["op"] for op in run.ops()] == ["own", "own", "digest", "digest", "file"]
    assert run.staged() == []


def test_a_folder_is_one_file_with_members(run, tmp_path):
    shards = tmp_path / "epoch=1.ckpt"
    (shards / "rank").mkdir(parents=True)
    made(shards / "rank" / "0.pt", large("a"))
    made(shards / "meta.json", b"{}")
    (shards / "link.json").symlink_to("meta.json")
    (shards / "gone").symlink_to("nowhere")
    with run.held_up():
        run.files.keep("model/a", shards)
        shutil.rmtree(shards)
    found = run.file("model/a")
    assert (found["dir"], found["size"]) == (True, LARGE + 4)
    assert set(found["members"]) == {"rank/0.pt", "meta.json", "link.json"}
    digests = {digest for _, digest in found["members"].values()}
    assert run.blobs() == digests | {found["sha256"]}
    assert run.staged() == []


def test_one_rewritten_shard_is_recorded_as_lost(run, tmp_path):
    shards = tmp_path / "a.ckpt"
    shards.mkdir()
    shard = made(shards / "0", large("a"))
    made(shards / "1", b"b")
    with run.held_up():
        run.files.keep("model/a", shards)
        overwrite(shard, b"x")
    found = run.file("model/a")
    if "lost" in found:  # a file system that does not clone
        assert found["members"]["0"] == [LARGE, None]
        assert found["members"]["1"][1] is not None
        assert "sha256" not in found


def test_a_reference_takes_no_bytes_and_gets_its_digest_later(run, tmp_path):
    source = made(tmp_path / "a.ckpt", b"abc")
    with run.held_up():
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
    digest = hashlib.sha256(b"abc").hexdigest()
    assert run.file("model/a") == first | {"sha256": digest}
    assert run.blobs() == set()
    run.files.refer("model/best", source)
    assert run.file("model/best")["sha256"] == digest


@pytest.mark.parametrize("way", ["remove", "rewrite"])
def test_a_reference_that_went_away_gets_no_digest(run, tmp_path, way):
    source = made(tmp_path / "a.ckpt", b"abc")
    with run.held_up():
        run.files.refer("model/a", source)
        source.unlink()
        if way == "rewrite":
            made(source, b"other")
    assert "sha256" not in run.file("model/a")
    assert run.troubles == []


def test_uploads_of_content_and_files(run, tmp_path):
    run.files.upload("odd", File(made(tmp_path / os.fsdecode(b"bad\xff.bin"), b"x")))
    assert (run.file("odd")["name"], run.content("odd")) == ("bad\\udcff.bin", b"x")
    run.files.upload("notes", File.from_content("hello"))
    assert (run.file("notes")["name"], run.content("notes")) == ("notes.txt", b"hello")
    source = made(tmp_path / "a.bin", large("a"))
    run.files.upload("data", File(source, extension="dat"), wait=True)
    assert (run.file("data")["ext"], run.content("data")) == ("dat", large("a"))


def test_members_of_a_file_set(run, tmp_path):
    contents = {"small": b"s", "large": large("a"), "gone": large("b")}
    members = {f"d/{name}": made(tmp_path / name, content) for name, content in contents.items()}
    with run.held_up():
        run.files.upload_members("set", members)
        assert run.member("set", "d/small")["sha256"]
        assert run.member("set", "d/large")["staged"]
        run.writer.append_op({"op": "unfiles", "path": "set", "names": ["d/gone"]})
        run.files.forget("set", ["d/gone"])
    assert run.member("set", "d/large")["sha256"]
    assert run.member("set", "d/large")["name"] == "large"
    assert run.ops()[-1]["members"].keys() == {"d/large"}
    assert run.staged() == []


def test_a_log_that_grows_while_it_is_stored_is_kept_and_marked(run, tmp_path):
    source = made(tmp_path / "train.log", large("a"))
    with run.held_up():
        run.files.upload("logs/train", File(source))
        with source.open("ab") as file:
            file.write(b"more")
    found = run.file("logs/train")
    if "changed" in found:
        assert run.content("logs/train") == large("a") + b"more"
        assert found["size"] == LARGE + 4
    else:  # a file system that clones
        assert run.content("logs/train") == large("a")
    assert run.troubles == []


def test_many_members_of_a_file_set(run, tmp_path):
    names = [f"{number}.txt" for number in range(250)]
    members = {name: made(tmp_path / name, name.encode()) for name in names}
    run.files.upload_members("set", members)
    assert [len(op["members"]) for op in run.ops()] == [100, 100, 50]
    assert len(run.blobs()) == 250


def test_many_files_on_another_file_system_do_not_use_up_the_descriptors(run, other_device):
    shards = other_device / "a.ckpt"
    shards.mkdir()
    for number in range(200):
        made(shards / str(number), b"%d" % number)
    with run.held_up():
        before = len(list(Path("/proc/self/fd").iterdir()))
        run.files.keep("model/a", shards)
        assert len(list(Path("/proc/self/fd").iterdir())) - before <= 70
        shutil.rmtree(shards)
    assert len(run.file("model/a")["members"]) == 200
    assert run.file("model/a")["sha256"] in run.blobs()


def test_put_stores_before_it_returns(run, tmp_path):
    (tmp_path / "d").mkdir()
    source = made(tmp_path / "d" / "a", large("a"))
    with run.held_up():
        file = run.files.put(File(source))
        whole = run.files.put(File(tmp_path / "d"))
        assert {file["sha256"], whole["sha256"]} <= run.blobs()
        assert whole["members"] == {"a": [LARGE, file["sha256"]]}
        assert run.files.put(File.from_content(b"x", "png"))["ext"] == "png"


def test_pruning_removes_contents_that_no_other_record_has(run, tmp_path):
    source = made(tmp_path / "a.ckpt", large("a"))
    run.files.keep("model/a", source)
    run.files.keep("model/best", source)
    run.files.flush(60)
    for path, left in (("model/a", 1), ("model/best", 0)):
        run.writer.append_op({"op": "delete", "paths": [path]})
        run.files.prune(path)
        run.files.flush(60)
        assert len(run.blobs()) == left
    with run.held_up():  # before it is stored
        run.files.keep("model/b", made(tmp_path / "b.ckpt", large("b")))
        run.files.prune("model/b")
    assert run.blobs() == set()
    assert run.staged() == []


def test_pruning_leaves_contents_of_series_texts_and_other_processes(run, tmp_path, folder):
    for name in ("point", "text", "other", "free"):
        run.files.keep(f"model/{name}", made(tmp_path / name, name.encode()))
    point = run.files.put(File.from_content("point"))
    run.writer.append_op({"op": "file_point", "path": "images", "step": 0, "file": point})
    text = run.files.put_text("text")
    run.writer.append_op({"op": "assign", "atoms": {"t": ["text", text]}})
    digest = run.file("model/other")["sha256"]
    file = {"name": "x", "ext": "", "size": 5, "sha256": digest}
    JournalBuilder("another").op("file", path="model/other", file=file).save(folder)
    shard = made(tmp_path / "shard", large("m"))
    run.files.keep("model/shard", shard)
    run.files.upload_members("set", {"shard": shard})
    run.files.flush(60)
    member = run.member("set", "shard")
    for name in ("point", "text", "other", "free", "shard"):
        run.files.prune(f"model/{name}")
    run.files.flush(60)
    assert {point["sha256"], text["sha256"], digest, member["sha256"]} == run.blobs()


@pytest.fixture
def no_room():
    """A disk on which no file can grow beyond one mebibyte, until it is called."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before)
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_run_folder_that_cannot_be_written_raises_nothing(tmp_path):
    ops, troubles = [], []
    folder = RunFolder(made(tmp_path / "root", b"not a folder"), "p", "0123456789abcdef")
    files = BlobWriter(folder, ops.append, lambda *given: troubles.append(given))
    files.keep("a", made(tmp_path / "small", b"s"))
    source = made(tmp_path / "large", large("a"))
    files.keep("b", source)
    assert files.put(File(source))["lost"] == "not stored"
    assert not files.flush(60)
    files.close(1)
    assert [(op["op"], op["path"]) for op in ops] == [("own", "a"), ("own", "b"), ("digest", "a")]
    assert ops[-1]["file"]["lost"] == "not stored"
    assert sorted(kind for kind, _ in troubles) == ["not stored"] * 3 + ["not stored yet"] * 2


def test_a_writer_that_was_stopped_records_nothing_more(run, tmp_path):
    with run.held_up():
        run.files.keep("model/a", made(tmp_path / "a.ckpt", large("a")))
        run.files.close(0.0)
        count = len(run.ops())
    assert len(run.ops()) == count
    assert len(run.staged()) == 1


def test_contents_that_the_disk_refused_are_as_private_as_their_source(run, tmp_path, request):
    for name, mode in (("secret", 0o600), ("again", 0o644)):
        made(tmp_path / name, b"s" * 2_000_000).chmod(mode)
    make_room = request.getfixturevalue("no_room")
    for name in ("secret", "again"):
        run.files.upload(name, File(tmp_path / name))
    assert run.blobs() == set()
    make_room()
    assert run.files.flush(60)
    (blob,) = run.folder.blobs_dir.iterdir()
    assert blob.stat().st_mode & 0o777 == 0o600


def test_staged_contents_stay_until_the_journal_took_their_record(folder, tmp_path):
    source = made(tmp_path / "a", large("a"))
    ops, takes = [], []

    def record(op):
        if op["op"] == "digest" and not takes:
            return False
        ops.append(op)
        return True

    files = BlobWriter(folder, record, lambda *_: None)
    files.keep("model/a", source)
    assert not files.flush(60)
    assert [path.name for path in folder.staging_dir.iterdir()] == [ops[0]["file"]["staged"]]
    takes.append(True)
    assert files.flush(60)
    assert [op["op"] for op in ops] == ["own", "digest"]
    files.close(1)
    assert not folder.staging_dir.exists()
    files = BlobWriter(folder, lambda op: op["op"] == "own", lambda *_: None)
    files.keep("model/b", source)
    files.close(60)  # the run ends before that: whoever completes it finds the bytes
    (staged,) = folder.staging_dir.iterdir()
    assert staged.read_bytes() == large("a")


@pytest.fixture
def time_limit():
    """A handler of SIGUSR1 that raises, as a time limit does."""

    def limit(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGUSR1, limit)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("time_limit")
@pytest.mark.parametrize("way", ["content", "small", "now", "copied"])
def test_a_time_limit_that_ends_in_the_middle_of_a_file_is_no_trouble_with_the_disk(
    run, tmp_path, monkeypatch, way
):
    """An error that a signal handler raises goes on, although TimeoutError is an OSError."""

    def interrupted(*_):
        monkeypatch.undo()
        signal.raise_signal(signal.SIGUSR1)

    small, source = made(tmp_path / "small", b"small"), made(tmp_path / "large", large("a"))
    run.files._sources.note_rewritten(str(source))
    files = {
        "content": lambda: run.files.upload("a", File.from_content("x")),
        "small": lambda: run.files.keep("a", small),
        "now": lambda: run.files.put(File(source)),
        "copied": lambda: run.files.keep("a", source),
    }
    monkeypatch.setattr(os, "write", own(interrupted, os.write))
    with pytest.raises(TimeoutError):
        files[way]()
    assert run.ops() == []
    assert run.troubles == []
    assert run.staged() == []


def test_a_forked_child_leaves_the_jobs_to_its_parent(run, tmp_path):
    first, second = (made(tmp_path / letter, large(letter)) for letter in "ab")
    with run.held_up():
        run.files.keep("model/a", first)
        child = os.fork()
        if not child:
            code = 1
            try:
                assert run.files.flush(10)
                run.files.keep("model/b", second)
                assert run.files.flush(60)
                run.files.close(10)
                run.writer.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert run.content("model/a") == large("a")
    assert run.content("model/b") == large("b")
