"""Many readers beside a trainer; an index that is damaged, of the future, or gone; damaged runs."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from recording import QUIET

from seamark import init_project, init_run


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


def overwrite_middle(path):
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(os.urandom(path.stat().st_size - 8192))


def remove(path):
    for part in path.parent.iterdir():
        part.unlink()


def other_tables(path):
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE journal (something TEXT)")


def future(path):
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        rows = database.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall()
        for (table,) in rows:
            columns = [column[1] for column in database.execute(f"PRAGMA table_info({table})")]
            if "version" in columns:
                database.execute(f"UPDATE {table} SET version = 999")
            else:
                database.execute(f"ALTER TABLE {table} ADD COLUMN from_the_future")


def folder_instead(path):
    remove(path)
    path.mkdir()


HARMS = {
    "rubbish": lambda path: path.write_bytes(os.urandom(path.stat().st_size)),
    "overwritten": overwrite_middle,
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2 + 100),
    "empty": lambda path: path.write_bytes(b""),
    "removed": remove,
    "other tables": other_tables,
    "future": future,
    "folder": folder_instead,
}


@pytest.mark.parametrize("harm", HARMS)
def test_damaged_index_or_one_of_the_future_costs_nothing(run, harm):
    """It is a cache: everything is read, and no error is shown."""
    path = index_file()
    for extra in ("-wal", "-shm", "-journal"):
        Path(f"{path}{extra}").unlink(missing_ok=True)
    HARMS[harm](path)
    check(run)
    check(run)
    assert len(run.folder.journals()) == 1


def test_reader_reads_on_while_the_index_is_removed(run):
    reader = init_run("p", root=run.root, with_id=run.id, mode="read-only")
    assert reader["note"].fetch() == "hello"
    shutil.rmtree(index_file().parent)
    with init_run("p", root=run.root, with_id=run.id, owner=False) as more:
        more["later"] = 5
    assert reader["later"].fetch() == 5
    assert reader["m3"].fetch_points().value.tolist()[:3] == [3, 4, 5]


def test_odd_files_among_journals_raise_nothing(run):
    path = run.folder.journals()[0].path
    data = path.read_bytes()
    path.write_bytes(os.urandom(32) + data[32:])  # another file header
    (path.parent / "other-1-aa").write_bytes(b"")
    (path.parent / f"other-1-aa.{'0' * 32}").write_bytes(os.urandom(100_000))
    (path.parent / "notes.txt").write_text("somebody's notes" * 20)
    (path.parent / "folder").mkdir()
    for size, rows in ((len(data), 1500), (len(data) // 2, 600)):
        os.truncate(path, size)
        reader = init_run("p", root=run.root, with_id=run.id, mode="read-only")
        values = reader["m3"].fetch_points().value.tolist()
        assert values[:rows] == [step + 3 for step in range(rows)]
        assert (len(values) == 1500) == (size == len(data))
        reader.get_structure()
        init_project("p", root=run.root).fetch_runs_table().to_rows()
