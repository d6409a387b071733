"""Disks that are full, taken away, closed to us, or somebody else's, under a real run."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import pytest
from journals import journals
from recording import NOTHING, QUIET

from seamark import init_run
from seamark.types import File, Histogram

NOBODY = 65534


class SmallDisk:
    """A file system of half a megabyte in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(path)]
        self.mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0

    def fill(self) -> None:
        fd = os.open(self.path / "ballast", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for size in (4096, 1):
            try:
                while os.write(fd, bytes(size)):
                    pass
            except OSError:
                continue
        os.close(fd)

    def free(self) -> None:
        (self.path / "ballast").unlink()

    def close(self) -> None:
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.path)], check=True)


class FileLimit:
    """No file of this process may grow: what a full disk is where nothing may be mounted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self._before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8, self._before[1]))

    def free(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._before)

    close = free


@pytest.fixture
def disk(tmp_path):
    """A disk that can be filled; where mounting is refused, a limit on files."""
    made: SmallDisk | FileLimit = SmallDisk(tmp_path / "disk")
    if not made.mounted:
        made = FileLimit(tmp_path / "limited")
    yield made
    made.close()


def points(run, path):
    reader = init_run(run.project, root=run.root, with_id=run.id, mode="read-only")
    return reader[path].fetch_points().step.tolist()


def told(run):
    """Return what the run's journals tell of losses: the last count of each, added up."""
    found: dict[str, int] = {}
    for journal in journals(run):
        counts = [
            frame.record for frame in journal.frames if frame.kind in (10, 11) and frame.payload
        ]
        assert journal.rest == b""
        for reason, count in (counts[-1]["dropped"] if counts else {}).items():
            found[reason] = found.get(reason, 0) + count
    return found


def record_while_it_fills(run, disk):
    """Record 400 rows; for the 200 in the middle, with much else, the disk is full."""
    for step in range(100):
        run.log_metrics({"a": 0.5, "b": 1.5}, step)
    disk.fill()
    for step in range(100, 300):
        run.log_metrics({"a": 0.5, "b": 1.5}, step)
        run["text"].append(f"line {step}")
        run["c"].extend([1.0, 2.0])
    run["value"] = 1
    disk.free()
    for step in range(300, 400):
        run.log_metrics({"a": 0.5, "b": 1.5}, step)
    run["value"] = 2


def test_disk_full_and_free_again(disk, monkeypatch, caplog):
    """Training goes on through a full disk, and what it recorded meanwhile is there afterwards."""
    monkeypatch.setattr("seamark.journal.stream._REOPEN_S", 0.0)
    with init_run("p", root=disk.path / "root", **QUIET) as run:
        record_while_it_fills(run, disk)
    assert points(run, "a") == points(run, "b") == list(range(400))
    assert len(run.session.recorded.view().texts("text")) == 200
    assert points(run, "c") == list(range(400))
    assert told(run) == {}
    assert run["value"].fetch() == 2
    assert run["sys/state"].fetch() == "completed"
    assert len([one for one in caplog.records if "cannot be written" in one.getMessage()]) == 1


def test_disk_full_for_long(disk, monkeypatch, caplog):
    """What has no room in memory is lost, said once, and counted to the last value."""
    monkeypatch.setattr("seamark.journal.stream._REOPEN_S", 0.0)
    monkeypatch.setattr("seamark.journal.segment.MAX_RECORDS", 50)
    with init_run("p", root=disk.path / "root", **QUIET) as run:
        record_while_it_fills(run, disk)
    kept = points(run, "a")
    assert kept == points(run, "b")
    assert kept[:100] == list(range(100))
    assert kept[-100:] == list(range(300, 400))
    lost_steps = 200 - (len(kept) - 200)
    assert lost_steps > 100
    # Two values a row, a text and a column of two a step, and what was assigned.
    texts = len(run.session.recorded.view().texts("text"))
    columns = len(points(run, "c"))
    assert told(run)["disk"] == 2 * lost_steps + (200 - texts) + (400 - columns) + 1
    assert run["value"].fetch() == 2
    assert run["sys/state"].fetch() == "completed"
    assert len([one for one in caplog.records if "are being lost" in one.getMessage()]) == 1


@pytest.mark.parametrize("there", ["the root", "nothing"])
def test_disk_full_from_the_start(disk, monkeypatch, there):
    """A run that cannot even begin begins when it can, with all that it was told before."""
    monkeypatch.setattr("seamark.journal.stream._REOPEN_S", 0.0)
    if there == "the root":
        (disk.path / "root").mkdir()
    disk.fill()
    facts: Any = QUIET | {"capture": NOTHING | {"host": True}}
    run = init_run(
        "p", root=disk.path / "root", name="early", tags=["t"], params={"lr": 0.1}, **facts
    )
    for step in range(10):
        run.log_metrics({"a": 0.5}, step)
        run["hist"].append(Histogram(edges=[0, 1, 2], counts=[step, 1]), step=step)
    disk.free()
    for step in range(10, 20):
        run.log_metrics({"a": 0.5}, step)
    writer = run.writer
    run.stop()
    assert points(run, "a") == list(range(20))
    assert len(run.session.recorded.view().histograms("hist")) == 10
    assert run["sys/name"].fetch() == "early"
    assert run["sys/tags"].fetch() == {"t"}
    assert run["parameters/lr"].fetch() == 0.1
    assert run[f"monitoring/{writer}/pid"].fetch() == os.getpid()
    assert run["sys/state"].fetch() == "completed"
    assert told(run) == {}
    assert len(run.folder.journals()) == 1


def test_disk_full_to_the_end(disk):
    """`stop` raises nothing and does not wait where nothing can be written any more."""
    run = init_run("p", root=disk.path / "root", **QUIET)
    for step in range(10):
        run.log_metrics({"a": 0.5}, step)
    disk.fill()
    for step in range(10, 20):
        run.log_metrics({"a": 0.5, "b": 0.5}, step)
    run.stop()
    disk.free()
    assert points(run, "a")[:10] == list(range(10))


def test_disk_free_again_just_before_the_end(disk):
    """The last words are tried at once: the run is completed, and whole."""
    run = init_run("p", root=disk.path / "root", **QUIET)
    disk.fill()
    for step in range(500):
        run.log_metrics({"a": 0.5}, step)
    disk.free()
    run.stop()
    assert run["sys/state"].fetch() == "completed"
    assert points(run, "a") == list(range(500))
    assert told(run) == {}


def test_files_on_a_full_disk(disk, caplog, monkeypatch, tmp_path):
    """What was uploaded meanwhile is warned about and there afterwards, bytes and record."""
    monkeypatch.setattr("seamark.journal.stream._REOPEN_S", 0.0)
    (tmp_path / "member.txt").write_text("member " * 2000)
    image = File.from_content(b"image" * 2000, extension="png")
    with init_run("p", root=disk.path / "root", **QUIET) as run:
        run.log_metrics({"a": 0.5}, 0)
        disk.fill()
        run["model"].upload(File.from_content("model" * 2000))
        run["set"].upload_files(str(tmp_path / "member.txt"))
        run["images"].append(image, step=7, description="seventh")
        run["tracked"].track_files(str(tmp_path / "member.txt"))
        run["gone"].upload(File.from_content("gone" * 2000))
        del run["gone"]
        run.wait()
        reader = init_run("p", root=run.root, with_id=run.id, mode="read-only")
        assert not reader.exists("images")  # no point before its bytes
        disk.free()
    assert run.session.recorder.writer.dropped == {}
    assert [one for one in caplog.records if "not stored yet" in one.getMessage()]
    back = tmp_path / "back"
    run["model"].download(back)
    assert back.read_text() == "model" * 2000
    run["images"].download_last(tmp_path / "images")
    assert (tmp_path / "images").exists()
    assert [point.step for point in run.session.recorded.view().files("images")] == [7]
    (member,) = run["set"].list_fileset_files()
    assert member["size"] == 14000
    assert "tracked" in run.get_structure()
    assert not run.exists("gone")
    digests = {"model" * 2000, "member " * 2000, "image" * 2000}
    wanted = {hashlib.sha256(text.encode()).hexdigest() for text in digests}
    assert {path.name for path in run.folder.blobs_dir.iterdir()} == wanted
    assert not list(run.folder.staging_dir.glob("*"))


def test_a_checkpoint_kept_on_a_full_disk(disk, monkeypatch, tmp_path):
    """A large file is held by the file system, and recorded whole when there is room."""
    monkeypatch.setattr("seamark.journal.stream._REOPEN_S", 0.0)
    monkeypatch.setattr("seamark.blobs.take.SMALL", 1000)
    content = os.urandom(100_000)
    (tmp_path / "a.ckpt").write_bytes(content)
    with init_run("p", root=disk.path / "root", **QUIET) as run:
        run.log_metrics({"a": 0.5}, 0)
        disk.fill()
        run.session.content.keep("model/a", tmp_path / "a.ckpt")
        (tmp_path / "a.ckpt").unlink()
        run.wait()
        disk.free()
    assert run.session.recorder.writer.dropped == {}
    run["model/a"].download(tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content


def test_long_texts_on_a_full_disk(disk, monkeypatch):
    """A text that is a blob follows its bytes, unless something else was assigned meanwhile."""
    monkeypatch.setattr("seamark.journal.stream._REOPEN_S", 0.0)
    monkeypatch.setattr("seamark.journal.format.LONG_TEXT", 10_000)
    with init_run("p", root=disk.path / "root", **QUIET) as run:
        run.log_metrics({"a": 0.5}, 0)
        disk.fill()
        run["long"] = "x" * 20_000
        run["replaced"] = "y" * 20_000
        run["replaced"] = "short"
        run["log"].append("z" * 20_000, step=3)
        run["log"].append("short", step=4)
        run["cleared"].append("c" * 20_000)
        run["cleared"].clear()
        disk.free()
    assert run["long"].fetch() == "x" * 20_000
    assert run["replaced"].fetch() == "short"
    assert [
        run.session.recorded.whole(one.text) for one in run.session.recorded.view().texts("log")
    ] == [
        "z" * 20_000,
        "short",
    ]
    assert not run.exists("cleared") or not run.session.recorded.view().texts("cleared")
    assert run.session.recorder.writer.dropped == {}


def test_files_on_a_disk_that_stays_full(disk, monkeypatch, tmp_path):
    """Bytes that no disk took until the end are said to be lost, where a word still fits."""
    monkeypatch.setattr("seamark.journal.stream._REOPEN_S", 0.0)
    monkeypatch.setattr("seamark.blobs.worker.MAX_BYTES", 400_000)
    run = init_run("p", root=disk.path / "root", **QUIET)
    run.log_metrics({"a": 0.5}, 0)
    disk.fill()
    run["late"].upload(File.from_content(os.urandom(300_000)))
    run["never"].upload(File.from_content(os.urandom(300_000)))
    run["images"].append(File.from_content(os.urandom(50_000)))
    monkeypatch.setattr("seamark.blobs.worker.put_bytes", _refuse)
    disk.free()
    run.stop()
    for path in ("late", "never"):
        assert run.session.recorded.attribute(path).value["lost"] == "not stored"
    assert len(run.session.recorded.view().files("images")) == 1
    assert told(run)["file"] == 3
    assert run["sys/state"].fetch() == "completed"


def _refuse(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_files_follow_without_being_asked(disk, monkeypatch):
    """A run that goes on with other things has its files as soon as there is room."""
    monkeypatch.setattr("seamark.blobs.worker.RETRY_S", 0.001)
    run = init_run("p", root=disk.path / "root", **QUIET)
    run.log_metrics({"a": 0.5}, 0)
    disk.fill()
    run["model"].upload(File.from_content("model" * 2000))
    disk.free()
    while not list(run.folder.blobs_dir.glob("*")):
        os.sched_yield()
    run.stop()


def test_root_removed_while_training(tmp_path):
    """What this process recorded is whole again at the next round, or at the end."""
    run = init_run("p", root=tmp_path / "root", **QUIET)
    for step in range(10):
        run.log_metrics({"a": 0.5}, step)
    (tmp_path / "root").rename(tmp_path / "gone")  # at once: a thread may be writing into it
    for step in range(10, 20):
        run.log_metrics({"a": 0.5}, step)
    run["value"] = 3
    run.stop()
    assert points(run, "a") == list(range(20))
    assert run["value"].fetch() == 3


def test_run_purged_while_training(tmp_path):
    """A purged run stays away; its training is not disturbed."""
    run = init_run("p", root=tmp_path / "root", **QUIET)
    run.log_metrics({"a": 0.5}, 0)
    run.folder.purged_mark.parent.mkdir()
    run.folder.purged_mark.touch()
    run.folder.path.rename(tmp_path / "gone")
    for step in range(10):
        run.log_metrics({"a": 0.5}, step)
    run.stop()
    assert not run.folder.path.exists()


@pytest.fixture
def common():
    path = Path(tempfile.mkdtemp(prefix="seamark-common-"))
    path.chmod(0o755)
    yield path
    subprocess.run(["chmod", "-R", "u+rwX", str(path)], check=True)
    shutil.rmtree(path)


def as_nobody(code, *args, **environment):
    """Run code that calls ``drop()`` to become a user without rights; return what it printed.

    Modules are loaded before that: such a user may not read where Python is installed.
    """
    prelude = f"""
        import os, sys
        import seamark, seamark.capture, seamark.process.rank, seamark.blobs
        import seamark.registry.project
        from seamark.index.index import Index
        warm = seamark.init_run("p", mode="debug", capture=dict(git=False, packages=False))
        warm.log_metrics({{"a": 1.0}}, 0)
        warm["a"].fetch_points()
        seamark.init_project("p", root=warm.root).fetch_runs_table().to_rows()
        warm.stop()
        def drop():
            if os.geteuid() == 0:
                os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(prelude) + textwrap.dedent(code), *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.once
@pytest.mark.parametrize("cache", ["cannot be written", "can be written"])
def test_foreign_read_only_root(common, frames, cache):
    """A root that belongs to somebody else and may only be read is listed and read, unchanged."""
    with init_run("team/p", root=common / "root", name="theirs", **QUIET) as run:
        for step in range(50):
            run.log_metrics({"a": 0.5 * step}, step)
        run["note"] = "hello"
    live = init_run("team/p", root=common / "root", name="live", **QUIET)
    live.log_metrics({"a": 1.0}, 7)
    subprocess.run(["chmod", "-R", "a-w,a+rX", str(common / "root")], check=True)
    # The live one may write a heartbeat meanwhile.
    beating = {journal.path for journal in live.folder.journals()}
    before = sorted((path, path.stat()) for path in (common / "root").rglob("*"))
    said = frames(live)
    place = common / "cache"
    place.mkdir(mode=0o555 if cache == "cannot be written" else 0o777)
    place.chmod(0o555 if cache == "cannot be written" else 0o777)
    out = as_nobody(
        """
        import json
        from pathlib import Path
        os.environ["XDG_CACHE_HOME"] = sys.argv[2]
        drop()
        root, run = Path(sys.argv[1]), sys.argv[3]
        reader = seamark.init_run("team/p", root=root, with_id=run, mode="read-only")
        table = seamark.init_project("team/p", root=root).fetch_runs_table(columns=["sys/name"])
        print(json.dumps([
            reader["note"].fetch(),
            reader["a"].fetch_points().value.tolist()[-1],
            reader["sys/state"].fetch(),
            sorted(row["sys/name"] for row in table.to_rows()),
        ]))
        """,
        *(str(common / "root"), str(place), run.id),
    )
    assert json.loads(out) == ["hello", 24.5, "completed", ["live", "theirs"]]
    after = sorted((path, path.stat()) for path in (common / "root").rglob("*"))
    assert [path for path, _ in after] == [path for path, _ in before]
    assert [
        (path, stat.st_mtime_ns, stat.st_size) for path, stat in after if path not in beating
    ] == [(path, stat.st_mtime_ns, stat.st_size) for path, stat in before if path not in beating]
    assert frames(live) == said
    assert (list(place.iterdir()) == []) == (cache == "cannot be written")
    live.stop()


def test_one_journal_that_may_not_be_read(common):
    """What a colleague may read of a run is read, beside a journal that is closed to them."""
    with init_run("p", root=common / "root", **QUIET) as run:
        run.log_metrics({"a": 0.5}, 0)
        run["note"] = "hello"
    subprocess.run(["chmod", "-R", "a+rX", str(common / "root")], check=True)
    with init_run("p", root=common / "root", with_id=run.id, owner=False, **QUIET) as more:
        more.log_metrics({"b": 0.5}, 0)
    own = run.session.recorder.positions()
    (other,) = [one.path for one in run.folder.journals() if one.writer not in own]
    other.chmod(0)
    out = as_nobody(
        """
        drop()
        reader = seamark.init_run("p", root=sys.argv[1], with_id=sys.argv[2], mode="read-only")
        print(reader["note"].fetch(), reader["a"].fetch_points().value.tolist(), reader.exists("b"))
        """,
        *(str(common / "root"), run.id),
        XDG_CACHE_HOME=str(common / "cache"),
    )
    assert out.split() == ["hello", "[0.5]", "False"]


def test_root_closed_while_training(common):
    """Where no new journal may be made, what is recorded waits until one may be again."""
    (common / "root").mkdir()
    (common / "root").chmod(0o777)
    out = as_nobody(
        """
        import json
        from pathlib import Path
        from seamark.journal import stream, writer
        from seamark.journal.reader import JournalReader, decode_json
        writer.ROTATE_BYTES, stream._REOPEN_S = 1000, 0.0
        drop()
        run = seamark.init_run("p", root=sys.argv[1], capture=dict(git=False, packages=False))
        folders = [run.folder.journal_dir, run.folder.path]
        def close_root(mode):
            for folder in folders:
                folder.chmod(mode)
        for step in range(100):
            run.log_metrics({"a": 1.0, "b": 1.0}, step)
        close_root(0o555)
        # The journal is over its limit: the next record needs a new one.
        run.session.recorder.writer.keep()
        for step in range(100, 200):
            run.log_metrics({"a": 1.0, "b": 1.0}, step)
        close_root(0o755)
        for step in range(200, 300):
            run.log_metrics({"a": 1.0, "b": 1.0}, step)
        run.stop()
        lost = 0
        for journal in run.folder.journals():
            with JournalReader(journal.path) as reader:
                beats = [f.payload for f in reader.frames() if f.kind in (10, 11) and f.payload]
                told = [decode_json(payload) for payload in beats]
                lost += told[-1]["dropped"].get("disk", 0)
        print(json.dumps([run["a"].fetch_points().step.tolist(), lost]))
        """,
        str(common / "root"),
    )
    steps, lost = json.loads(out)
    assert steps == list(range(300))
    assert lost == 0
