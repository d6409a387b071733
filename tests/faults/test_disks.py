"""Disks that are full, taken away, closed to us, or somebody else's; an index that is damaged."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import resource
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from humble import humbly
from journals import journals
from recording import NOTHING, QUIET

from seamark import init_project, init_run
from seamark.types import File, Histogram

NOBODY = 65534


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(path)]
        self.mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0

    def fill(self) -> None:
        with (self.path / "ballast").open("ab", buffering=0) as file:
            for size in (4096, 1):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)):
                        pass

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


@pytest.fixture
def eager(monkeypatch):
    """Have a disk that was full tried again at every record."""
    monkeypatch.setattr("seamark.journal.stream._REOPEN_S", 0.0)


@pytest.fixture
def begin(disk):
    def begin():
        run = init_run("p", root=disk.path / "root", **QUIET)
        run.log_metrics({"a": 0.5}, 0)
        return run

    return begin


def points(run, path):
    reader = init_run(run.project, root=run.root, with_id=run.id, mode="read-only")
    return reader[path].fetch_points().step.tolist()


def told(run):
    """Return what the run's journals tell of losses: the last count of each, added up."""
    found: Counter[str] = Counter()
    for journal in journals(run):
        assert journal.rest == b""
        ends = [one.record for one in journal.frames if one.kind in (10, 11) and one.payload]
        found.update(ends[-1]["dropped"] if ends else {})
    return found


def record_while_it_fills(run, disk):
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


def test_disk_that_is_full_for_a_while_costs_no_record(disk, eager, caplog):
    with init_run("p", root=disk.path / "root", **QUIET) as run:
        record_while_it_fills(run, disk)
    assert points(run, "a") == points(run, "b") == points(run, "c") == list(range(400))
    assert len(run.session.recorded.view().texts("text")) == 200
    assert told(run) == {}
    assert (run["value"].fetch(), run["sys/state"].fetch()) == (2, "completed")
    assert len([one for one in caplog.records if "cannot be written" in one.getMessage()]) == 1


def test_disk_that_is_full_for_long_loses_what_is_counted(disk, eager, monkeypatch, caplog):
    """What has no room in memory: said once, and counted to the last value."""
    monkeypatch.setattr("seamark.journal.segment.MAX_RECORDS", 50)
    with init_run("p", root=disk.path / "root", **QUIET) as run:
        record_while_it_fills(run, disk)
    kept = points(run, "a")
    assert kept == points(run, "b")
    assert (kept[:100], kept[-100:]) == ([*range(100)], [*range(300, 400)])
    lost_steps = 400 - len(kept)
    assert lost_steps > 100
    # Two values a row, a text and a column of two a step, and what was assigned.
    texts = len(run.session.recorded.view().texts("text"))
    columns = len(points(run, "c"))
    assert told(run)["disk"] == 2 * lost_steps + (200 - texts) + (400 - columns) + 1
    assert (run["value"].fetch(), run["sys/state"].fetch()) == (2, "completed")
    assert len([one for one in caplog.records if "are being lost" in one.getMessage()]) == 1


def test_run_that_begins_on_a_full_disk_is_recorded_once_there_is_room(disk, eager):
    disk.fill()
    facts: Any = QUIET | {"capture": NOTHING | {"host": True}}
    facts |= {"name": "early", "tags": ["t"], "params": {"lr": 0.1}}
    run = init_run("p", root=disk.path / "root", **facts)
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
    wanted = {
        "sys/name": "early",
        "sys/tags": {"t"},
        "parameters/lr": 0.1,
        f"monitoring/{writer}/pid": os.getpid(),
        "sys/state": "completed",
    }
    assert {path: run[path].fetch() for path in wanted} == wanted
    assert (told(run), len(run.folder.journals())) == ({}, 1)


@pytest.mark.parametrize("free_again", [True, False])
def test_stop_on_a_disk_that_is_full_raises_nothing(disk, begin, free_again):
    """The last words are tried at once: a run is whole if there is room just before the end."""
    run = begin()
    for step in range(1, 500):
        if step == 10:
            disk.fill()
        run.log_metrics({"a": 0.5}, step)
    if free_again:
        disk.free()
    run.stop()
    if free_again:
        assert points(run, "a") == list(range(500))
        assert (run["sys/state"].fetch(), told(run)) == ("completed", {})
    else:
        disk.free()
        assert points(run, "a")[:10] == list(range(10))


def test_files_and_long_texts_on_a_full_disk_are_stored_later(
    disk, begin, eager, caplog, monkeypatch, tmp_path
):
    """Bytes and records, unless something else was assigned meanwhile."""
    monkeypatch.setattr("seamark.journal.format.LONG_TEXT", 10_000)
    monkeypatch.setattr("seamark.blobs.staging.SMALL", 50_000)
    monkeypatch.setattr("seamark.blobs.worker.RETRY_S", 0.001)
    (tmp_path / "member.txt").write_text("member " * 2000)
    large = os.urandom(100_000)
    (tmp_path / "a.ckpt").write_bytes(large)
    image = File.from_content(b"image" * 2000, extension="png")
    with begin() as run:
        disk.fill()
        run["model"].upload(File.from_content("model" * 2000))
        run["set"].upload_files(str(tmp_path / "member.txt"))
        run["images"].append(image, step=7, description="seventh")
        run["tracked"].track_files(str(tmp_path / "member.txt"))
        run["gone"].upload(File.from_content("gone" * 2000))
        del run["gone"]
        run.session.content.keep("kept/a", tmp_path / "a.ckpt")  # held by the file system
        (tmp_path / "a.ckpt").unlink()
        run["long"] = "x" * 20_000
        run["replaced"] = "y" * 20_000
        run["replaced"] = "short"
        run["log"].append("z" * 20_000, step=3)
        run["log"].append("short", step=4)
        run["cleared"].append("c" * 20_000)
        run["cleared"].clear()
        run.wait()
        reader = init_run("p", root=run.root, with_id=run.id, mode="read-only")
        assert not reader.exists("images")  # no point before its bytes
        disk.free()
        while not list(run.folder.blobs_dir.glob("*")):  # as soon as there is room
            os.sched_yield()
    assert run.session.recorder.writer.dropped == {}
    assert [one for one in caplog.records if "not stored yet" in one.getMessage()]
    contents = {"model": b"model" * 2000, "kept/a": large}
    assert {path: run[path].fetch_bytes() for path in contents} == contents
    recorded = run.session.recorded
    assert [point.step for point in recorded.view().files("images")] == [7]
    (member,) = run["set"].list_fileset_files()
    assert member["size"] == 14000
    assert "tracked" in run.get_structure()
    assert not run.exists("gone")
    assert (run["long"].fetch(), run["replaced"].fetch()) == ("x" * 20_000, "short")
    assert [recorded.whole(one.text) for one in recorded.view().texts("log")] == [
        "z" * 20_000,
        "short",
    ]
    assert not run.exists("cleared") or not recorded.view().texts("cleared")
    stored = [*contents.values(), b"member " * 2000, b"image" * 2000, b"x" * 20_000, b"z" * 20_000]
    wanted = {hashlib.sha256(one).hexdigest() for one in stored}
    dropped = {hashlib.sha256(one * 20_000).hexdigest() for one in (b"y", b"c")}
    found = {path.name for path in run.folder.blobs_dir.iterdir()}
    assert found - dropped == wanted
    assert not list(run.folder.staging_dir.glob("*"))


def test_files_that_no_disk_took_are_said_to_be_lost(disk, begin, eager, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("seamark.blobs.worker.MAX_BYTES", 400_000)
    run = begin()
    disk.fill()
    for path in ("late", "never"):
        run[path].upload(File.from_content(os.urandom(300_000)))
    run["images"].append(File.from_content(os.urandom(50_000)))
    monkeypatch.setattr("seamark.blobs.worker.put_bytes", refuse)
    disk.free()
    run.stop()
    for path in ("late", "never"):
        assert run.session.recorded.attribute(path).value["lost"] == "not stored"
    assert len(run.session.recorded.view().files("images")) == 1
    assert (told(run)["file"], run["sys/state"].fetch()) == (3, "completed")


def test_root_that_is_removed_while_training_comes_back(tmp_path):
    run = init_run("p", root=tmp_path / "root", **QUIET)
    for step in range(10):
        run.log_metrics({"a": 0.5}, step)
    run.root.rename(tmp_path / "gone")  # at once: a thread may be writing into it
    for step in range(10, 20):
        run.log_metrics({"a": 0.5}, step)
    run["value"] = 3
    run.stop()
    assert points(run, "a") == list(range(20))
    assert run["value"].fetch() == 3


@pytest.mark.once
@pytest.mark.parametrize("cache", ["cannot be written", "can be written"])
def test_read_only_root_of_another_user_is_read_and_not_changed(
    tmp_path, frames, monkeypatch, cache
):
    root, place = tmp_path / "root", tmp_path / "cache"
    with init_run("team/p", root=root, name="theirs", **QUIET) as run:
        for step in range(50):
            run.log_metrics({"a": 0.5 * step}, step)
        run["note"] = "hello"
    live = init_run("team/p", root=root, name="live", **QUIET)
    live.log_metrics({"a": 1.0}, 7)
    place.mkdir(mode=0o555 if cache == "cannot be written" else 0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(place))
    # The live one may write a heartbeat meanwhile.
    beating = {journal.path for journal in live.folder.journals()}

    def stats():
        return {
            path: path in beating or (path.stat().st_mtime_ns, path.stat().st_size)
            for path in root.rglob("*")
        }

    def look():
        reader = init_run("team/p", root=root, with_id=run.id, mode="read-only")
        assert (reader["note"].fetch(), reader["sys/state"].fetch()) == ("hello", "completed")
        assert reader["a"].fetch_points().value.tolist()[-1] == 24.5
        table = init_project("team/p", root=root).fetch_runs_table(columns=["sys/name"])
        assert sorted(table["sys/name"]) == ["live", "theirs"]

    for path in (root, *root.rglob("*")):
        if os.geteuid() == 0:
            os.chown(path, NOBODY, -1)
        path.chmod(0o555 if path.is_dir() else 0o444)
    before, said = stats(), frames(live)
    humbly(look)
    assert stats() == before
    assert frames(live) == said
    assert (list(place.iterdir()) == []) == (cache == "cannot be written")
    for path in (root, *root.rglob("*")):
        path.chmod(0o755)
    live.stop()


@pytest.fixture
def run(tmp_path):
    with init_run("p", root=tmp_path / "root", name="kept", **QUIET) as run:
        for step in range(1500):
            run.log_metrics({f"m{number}": step + number for number in range(10)}, step)
        run["note"] = "hello"
        run["sys/tags"].add("tag")
    check(run)
    return run


def index_file():
    (found,) = Path(os.environ["XDG_CACHE_HOME"]).glob("seamark/*.db")
    return found


def check(run):
    reader = init_run("p", root=run.root, with_id=run.id, mode="read-only")
    assert reader["note"].fetch() == "hello"
    assert reader["m3"].fetch_points().value.tolist() == [step + 3 for step in range(1500)]
    project = init_project("p", root=run.root)
    (row,) = project.fetch_runs_table().to_rows()
    assert row["sys/id"] == run.id
    for one in (reader, project):
        one.session.recorded.close()


def overwrite_middle(path):
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(os.urandom(path.stat().st_size - 8192))


HARMS = {
    "rubbish": lambda path: path.write_bytes(os.urandom(path.stat().st_size)),
    "overwritten": overwrite_middle,
}


@pytest.mark.parametrize("harm", HARMS)
def test_damaged_index_costs_nothing(run, harm):
    """It is a cache: everything is read, and no error is shown."""
    path = index_file()
    for extra in ("-wal", "-shm", "-journal"):
        Path(f"{path}{extra}").unlink(missing_ok=True)
    HARMS[harm](path)
    check(run)
    check(run)
    assert len(run.folder.journals()) == 1
