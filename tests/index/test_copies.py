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
def test_a_copy_beside_a_journal_changes_nothing(builder, folder, index, name):
    """What editors, rsync -b and synchronisers leave is no second journal."""
    journal = builder()
    for step in range(50):
        journal.row({"loss": float(step)}, step)
    path = journal.save(folder)
    shutil.copy(path, path.with_name(name.format(path.name)))
    assert steps(index, folder) == list(range(50))
    assert look(index, folder).attribute("loss").value.count == 50
    for step in range(50, 60):
        journal.row({"loss": float(step)}, step)
    journal.save(folder)  # it grows beside its copy
    assert steps(index, folder) == list(range(60))
    assert look(index, folder).attribute("monitoring/seamark/conflicts") is None


@pytest.mark.parametrize("longer", ["the journal", "its copy"])
def test_the_longer_of_two_is_read(builder, folder, index, longer):
    """Whichever name it has."""
    journal = builder().row({"loss": 1.0}, 0)
    cut = journal.offset
    path = journal.row({"loss": 2.0}, 1).row({"loss": 3.0}, 2).save(folder)
    copy = path.with_name(path.name + ".bak")
    shutil.copy(path, copy)
    os.truncate(copy if longer == "the journal" else path, cut)
    assert steps(index, folder) == [0, 1, 2]


def test_a_copy_that_arrives_later_changes_nothing(builder, folder, index):
    """Also when it is taken away again."""
    path = builder().row({"loss": 1.0}, 0).row({"loss": 2.0}, 1).save(folder)
    assert steps(index, folder) == [0, 1]
    copy = path.with_name(path.name + "~")
    shutil.copy(path, copy)
    assert steps(index, folder) == [0, 1]
    copy.unlink()
    assert steps(index, folder) == [0, 1]


def test_of_two_the_one_that_is_damaged_later_is_not_read(builder, folder, index):
    """As many bytes in the same file: what it is worth is asked again."""
    journal = builder()
    for step in range(50):
        journal.row({"loss": float(step)}, step)
    path = journal.close().save(folder)
    shutil.copy(path, path.with_name(path.name + "~"))
    assert steps(index, folder) == list(range(50))
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(bytes(400))
    assert steps(index, folder) == list(range(50))


def test_two_that_went_different_ways_are_told(builder, folder, index):
    """A cloned machine: the longer one is read, the other is named."""
    journal = builder().row({"loss": 1.0}, 0)
    start, t = journal.data, journal.t
    path = journal.row({"loss": 2.0}, 1).row({"loss": 3.0}, 2).save(folder)
    other = path.with_name(path.name + ".clone")
    journal.data, journal.t = start, t + 1000
    other.write_bytes(journal.row({"loss": 9.0}, 1).data)
    found = look(index, folder)
    assert found.points("loss").value.tolist() == [1, 2, 3]
    conflicts = found.attribute("monitoring/seamark/conflicts").value
    assert conflicts == {f"journal/{other.name}": [path.name]}


def test_a_renamed_journal_is_still_the_same(builder, folder, index):
    """Nothing is folded twice, nothing is lost."""
    path = builder().row({"loss": 1.0}, 0).row({"loss": 2.0}, 1).save(folder)
    assert steps(index, folder) == [0, 1]
    path.rename(path.with_name(path.name + ".old"))
    assert steps(index, folder) == [0, 1]


def damaged(journal, folder):
    """Save a closed journal with one bad byte in the middle."""
    path = journal.save(folder)
    data = bytearray(journal.data)
    data[journal.ends[len(journal.ends) // 2] + 40] ^= 1
    path.write_bytes(data)
    return path


@pytest.fixture
def long(builder):
    journal = builder()
    for step in range(600):
        journal.row({"loss": float(step)}, step)
    return journal.close()


@pytest.mark.parametrize("way", ["replaced", "in place", "with its old time"])
def test_a_repaired_journal_is_whole_again(long, folder, index, way):
    """Same size, good bytes: whoever repairs it, and however."""
    path = damaged(long, folder)
    assert len(steps(index, folder)) == 599
    before = path.stat()
    if way == "in place":
        path.write_bytes(long.data)
    else:
        fresh = path.with_name(".new")
        fresh.write_bytes(long.data)
        if way == "with its old time":
            os.utime(fresh, ns=(before.st_atime_ns, before.st_mtime_ns))
        fresh.rename(path)
        if way == "with its old time":
            parent = path.parent.stat()
            os.utime(path.parent, ns=(parent.st_atime_ns, parent.st_mtime_ns))
    assert len(steps(index, folder)) == 600
    assert look(index, folder).attribute("monitoring/seamark/gaps") is None
    index.refresh()
    assert len(index.view(folder.project, folder.run).points("loss")) == 600


def test_damage_in_what_was_folded_is_shown(long, folder, index):
    """A bad sector may come later: what cannot be read any more is not shown as if it could."""
    path = long.save(folder)
    assert len(steps(index, folder)) == 600
    damaged(long, folder)
    assert path.stat().st_size == len(long.data)
    assert len(steps(index, folder)) == 599
    assert look(index, folder).attribute("monitoring/seamark/gaps") is not None


def test_a_synchronised_journal_is_not_folded_anew(long, folder, index, monkeypatch):
    """rsync gives a file a new inode each time: its bytes decide, and they are the same."""
    path = long.save(folder)
    assert len(steps(index, folder)) == 600
    fresh = path.with_name(".new")
    fresh.write_bytes(long.data)
    fresh.rename(path)
    with index.store.database.reading() as connection:
        before = connection.exec_driver_sql("SELECT version FROM run").scalar_one()
    assert len(steps(index, folder)) == 600
    with index.store.database.reading() as connection:
        assert connection.exec_driver_sql("SELECT version FROM run").scalar_one() == before


def test_the_cache_is_private(folder, builder, monkeypatch, tmp_path):
    """The values of a root that only its owner reads lie in no file that others can read."""
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


def fsck(folder, *words):
    """Run the command; return what it found, as (problem, place)."""
    ran = CliRunner().invoke(app, ["fsck", "--json", *words, "--root", str(folder.root)])
    return [(one["problem"], one["where"]) for one in json.loads(ran.stdout)["findings"]]


def test_fsck_compares_what_was_read_before(long, folder, index):
    """Damage that changed neither size nor times is found, and not shown as if it were good."""
    path = long.save(folder)
    assert len(steps(index, folder)) == 600
    before = path.stat()
    damaged(long, folder)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    problems = fsck(folder)
    assert ("gap", path.name) in problems
    assert len(steps(index, folder)) == 599
    assert ("changed", path.name) not in fsck(folder)


def test_fsck_names_a_file_that_went_another_way(builder, folder):
    """And says nothing of a true copy."""
    journal = builder().row({"loss": 1.0}, 0)
    start, t = journal.data, journal.t
    path = journal.row({"loss": 2.0}, 1).row({"loss": 3.0}, 2).close().save(folder)
    shutil.copy(path, path.with_name(path.name + ".bak"))
    assert fsck(folder) == []
    journal.data, journal.t = start, t + 1000
    path.with_name(path.name + ".clone").write_bytes(journal.row({"loss": 9.0}, 1).close().data)
    assert fsck(folder) == [("diverged", path.name + ".clone")]
