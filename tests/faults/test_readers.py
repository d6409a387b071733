"""An index that is damaged, replaced or gone."""

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


def other_tables(path):
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE journal (something TEXT)")


def folder_instead(path):
    path.unlink()
    path.mkdir()


HARMS = {
    "rubbish": lambda path: path.write_bytes(os.urandom(path.stat().st_size)),
    "overwritten": overwrite_middle,
    "other tables": other_tables,
    "folder": folder_instead,
}


@pytest.mark.parametrize("harm", HARMS)
def test_damaged_or_replaced_index_costs_nothing(run, harm):
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
