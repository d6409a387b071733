"""Files that are copies, repaired or damaged: every point is read once, and the good bytes win."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from click.testing import CliRunner
from command import app

from seamark import init_run
from seamark.index.index import Index

pytestmark = pytest.mark.once


@pytest.fixture
def index(folder):
    with Index.open(folder.root) as index:
        yield index


def look(index, folder):
    index.refresh(folder.project, folder.run)
    return index.view(folder.project, folder.run)


def steps(index, folder, path="loss"):
    return look(index, folder).points(path).step.tolist()


@pytest.mark.parametrize("name", ["{}~", "{}.sync-conflict-20261121-120000-ABCDEF"])
def test_copy_beside_a_journal_changes_nothing(builder, folder, index, name):
    """What editors, rsync -b and synchronisers leave is no second journal."""
    journal = builder()
    for step in range(50):
        journal.row({"loss": float(step)}, step)
    path = journal.save(folder)
    assert steps(index, folder) == list(range(50))
    copy = path.with_name(name.format(path.name))
    shutil.copy(path, copy)
    assert steps(index, folder) == list(range(50))
    assert look(index, folder).attribute("loss").value.count == 50
    for step in range(50, 60):
        journal.row({"loss": float(step)}, step)
    journal.save(folder)  # it grows beside its copy
    assert steps(index, folder) == list(range(60))
    assert look(index, folder).attribute("monitoring/seamark/conflicts") is None
    copy.unlink()
    assert steps(index, folder) == list(range(60))
    path.rename(path.with_name(path.name + ".old"))
    assert steps(index, folder) == list(range(60))


@pytest.mark.parametrize("longer", ["the journal", "its copy"])
def test_longer_of_a_journal_and_its_copy_is_read(builder, folder, index, longer):
    journal = builder().row({"loss": 1.0}, 0)
    cut = journal.offset
    path = journal.row({"loss": 2.0}, 1).row({"loss": 3.0}, 2).save(folder)
    copy = path.with_name(path.name + ".bak")
    shutil.copy(path, copy)
    os.truncate(copy if longer == "the journal" else path, cut)
    assert steps(index, folder) == [0, 1, 2]


def test_copy_is_read_where_the_journal_is_damaged_later(long, folder, index):
    path = long.save(folder)
    shutil.copy(path, path.with_name(path.name + "~"))
    assert steps(index, folder) == list(range(600))
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(bytes(400))
    assert steps(index, folder) == list(range(600))


def test_diverged_copy_is_named_and_the_longer_one_read(builder, folder, index):
    """A cloned machine; of a true copy fsck says nothing."""
    journal = builder().row({"loss": 1.0}, 0)
    start, t = journal.data, journal.t
    path = journal.row({"loss": 2.0}, 1).row({"loss": 3.0}, 2).close().save(folder)
    shutil.copy(path, path.with_name(path.name + ".bak"))
    assert fsck(folder) == []
    other = path.with_name(path.name + ".clone")
    journal.data, journal.t = start, t + 1000
    other.write_bytes(journal.row({"loss": 9.0}, 1).close().data)
    found = look(index, folder)
    assert found.points("loss").value.tolist() == [1, 2, 3]
    conflicts = found.attribute("monitoring/seamark/conflicts").value
    assert conflicts == {f"journal/{other.name}": [path.name]}
    assert fsck(folder) == [("diverged", other.name)]


def damaged(journal, folder):
    """Save a closed journal with one bad byte in the middle."""
    path = journal.save(folder)
    data = bytearray(journal.data)
    data[journal.ends[len(journal.ends) // 2] + 40] ^= 1
    path.write_bytes(data)
    return path


def replace(path, data):
    """Put another file in the place of one, as rsync does."""
    fresh = path.with_name(".new")
    fresh.write_bytes(data)
    fresh.rename(path)


@pytest.fixture
def long(builder):
    journal = builder()
    for step in range(600):
        journal.row({"loss": float(step)}, step)
    return journal.close()


@pytest.mark.parametrize("way", ["replaced", "in place", "with its old time"])
def test_repaired_journal_is_read_completely(long, folder, index, way):
    path = damaged(long, folder)
    assert len(steps(index, folder)) == 599
    before = path.stat()
    if way == "in place":
        path.write_bytes(long.data)
    else:
        replace(path, long.data)
    if way == "with its old time":
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert len(steps(index, folder)) == 600
    assert look(index, folder).attribute("monitoring/seamark/gaps") is None
    index.refresh()
    assert len(index.view(folder.project, folder.run).points("loss")) == 600


@pytest.mark.parametrize("with_fsck", [False, True])
def test_damage_of_what_was_read_before_is_found(long, folder, index, with_fsck):
    """By its time when it is read again, and by fsck even if neither size nor time changed."""
    path = long.save(folder)
    assert len(steps(index, folder)) == 600
    before = path.stat()
    damaged(long, folder)
    assert path.stat().st_size == len(long.data)
    if with_fsck:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert ("gap", path.name) in fsck(folder)
    assert len(steps(index, folder)) == 599
    assert look(index, folder).attribute("monitoring/seamark/gaps") is not None
    assert ("changed", path.name) not in fsck(folder)


def test_cache_is_readable_by_its_owner_only(folder, builder, monkeypatch, tmp_path):
    builder().assign(secret=1).save(folder)
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    old = os.umask(0)
    try:
        with init_run(
            folder.project, root=folder.root, with_id=folder.run, mode="read-only"
        ) as run:
            assert run["secret"].fetch() == 1
            files = [*(cache / "seamark").iterdir(), cache / "seamark"]
            assert len(files) > 1
            assert [oct(one.stat().st_mode & 0o077) for one in files] == ["0o0"] * len(files)
    finally:
        os.umask(old)


def fsck(folder):
    """Run the command; return what it found, as (problem, place)."""
    ran = CliRunner().invoke(app, ["fsck", "--json", "--root", str(folder.root)])
    return [(one["problem"], one["where"]) for one in json.loads(ran.stdout)["findings"]]
