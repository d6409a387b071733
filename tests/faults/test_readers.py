"""Many readers beside a trainer; an index that is damaged, of the future, or gone; damaged runs."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from journals import Journal, journal_files
from recording import QUIET

from seamark import init_project, init_run

# -------------------------------------------------------------------- the index


@pytest.fixture
def run(tmp_path):
    """A run that was recorded, and read once, so that it is in the index."""
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
    """Assert that everything is read back, by a process that knows nothing yet."""
    reader = init_run("p", root=run.root, with_id=run.id, mode="read-only")
    assert reader["note"].fetch() == "hello"
    assert reader["m3"].fetch_points().value.tolist() == [step + 3 for step in range(1500)]
    project = init_project("p", root=run.root)
    (row,) = project.fetch_runs_table().to_rows()
    assert row["sys/id"] == run.id
    for one in (reader, project):
        one.session.recorded.close()


def rubbish(path):
    path.write_bytes(os.urandom(path.stat().st_size))


def overwrite_middle(path):
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(os.urandom(path.stat().st_size - 8192))


def cut(path):
    os.truncate(path, path.stat().st_size // 2 + 100)


def empty(path):
    path.write_bytes(b"")


def remove(path):
    for part in path.parent.iterdir():
        part.unlink()


def other_tables(path):
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE journal (something TEXT)")
    database.close()


def future(path):
    with sqlite3.connect(path) as database:
        tables = [
            name
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        for table in tables:
            columns = [column[1] for column in database.execute(f"PRAGMA table_info({table})")]
            if "version" in columns:
                database.execute(f"UPDATE {table} SET version = 999")
            else:
                database.execute(f"ALTER TABLE {table} ADD COLUMN from_the_future")
    database.close()


def folder_instead(path):
    remove(path)
    path.mkdir()


@pytest.mark.parametrize(
    "harm",
    [rubbish, overwrite_middle, cut, empty, remove, other_tables, future, folder_instead],
    ids=lambda harm: harm.__name__,
)
def test_an_index_that_is_damaged_or_of_the_future(run, harm):
    """The index is a cache: whatever became of it, everything is read, and no error is shown."""
    path = index_file()
    for extra in ("-wal", "-shm", "-journal"):
        Path(f"{path}{extra}").unlink(missing_ok=True)
    harm(path)
    check(run)
    check(run)
    assert len(run.folder.journals()) == 1


def test_an_index_that_goes_away_under_a_reader(run):
    """A reader that is open while the cache is cleared reads on."""
    reader = init_run("p", root=run.root, with_id=run.id, mode="read-only")
    assert reader["note"].fetch() == "hello"
    shutil.rmtree(index_file().parent)
    with init_run("p", root=run.root, with_id=run.id, owner=False) as more:
        more["later"] = 5
    assert reader["later"].fetch() == 5
    assert reader["m3"].fetch_points().value.tolist()[:3] == [3, 4, 5]


# -------------------------------------------------------------------- damaged runs


@pytest.mark.once
def test_a_damaged_journal_is_read_around(run, monkeypatch):
    """One flipped bit costs one row; the gap is shown to who reads and by ``fsck``."""
    path = journal_files(run)[0]
    data = bytearray(path.read_bytes())
    hit = Journal(path).frames[900]
    data[hit.offset + 40] ^= 4
    path.write_bytes(data)
    remove(index_file())
    reader = init_run("p", root=run.root, with_id=run.id, mode="read-only")
    values = reader["m3"].fetch_points().step.tolist()
    assert len(values) == 1499
    assert reader["note"].fetch() == "hello"
    assert reader["monitoring/seamark/gaps"].fetch()
    done = subprocess.run(
        [sys.executable, "-m", "seamark", "fsck", "--root", str(run.root)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 1, done.stderr
    assert f"{hit.offset:,}" in done.stdout


@pytest.mark.parametrize("what", ["cut", "header", "empty", "noise", "foreign"])
def test_whatever_lies_in_a_journal_folder(run, what):
    """Reading never raises on content: what can be read is, beside what cannot."""
    path = run.folder.journals()[0].path
    data = path.read_bytes()
    if what == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif what == "header":
        path.write_bytes(os.urandom(32) + data[32:])
    elif what == "empty":
        (path.parent / "other-1-aa").write_bytes(b"")
    elif what == "noise":
        (path.parent / f"other-1-aa.{'0' * 32}").write_bytes(os.urandom(100_000))
    else:
        (path.parent / "notes.txt").write_text("somebody's notes" * 20)
        (path.parent / "folder").mkdir()
    reader = init_run("p", root=run.root, with_id=run.id, mode="read-only")
    points = reader["m3"].fetch_points()
    assert points.value.tolist()[:600] == [step + 3 for step in range(600)]
    assert (len(points.step) == 1500) == (what != "cut")
    reader.get_structure()
    init_project("p", root=run.root).fetch_runs_table().to_rows()
