"""The index is a cache: it keeps up, heals itself, shares, and never lies in the root."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from seamark.errors import ArgumentError, JournalError, RunNotFoundError
from seamark.index import copies
from seamark.index.index import Index
from seamark.journal.reader import SETTLE_NS
from seamark.store import database, ingest


@pytest.fixture
def open_index(folder):
    """Open indexes of the root and close them at the end."""
    opened = []

    def open_one(root=folder.root, **options):
        opened.append(Index.open(root, **options))
        return opened[-1]

    yield open_one
    for index in opened:
        index.close()


def rows(index, sql):
    """Ask the tables themselves."""
    with index.store.database.reading() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(sql)]


def value(index, folder, path):
    found = index.view(folder.project, folder.run).attribute(path)
    return None if found is None else found.value


def read(index, folder, *paths):
    """Return the values of an index that is brought up to date; of a path that is not, None."""
    index.refresh()
    return [value(index, folder, path) for path in paths]


def test_index_is_in_the_cache_and_never_in_the_root(builder, folder, open_index, monkeypatch):
    builder().assign(a=1).save(folder)
    before = sorted(folder.root.rglob("*"))
    index = open_index()
    assert read(index, folder, "a") == [1]
    assert index.file.parent == Path(os.environ["XDG_CACHE_HOME"], "seamark")
    assert sorted(folder.root.rglob("*")) == before
    monkeypatch.setenv("SEAMARK_INDEX", str(folder.root / "cache"))
    with pytest.raises(ArgumentError, match="SEAMARK_INDEX: expected a path outside the root"):
        Index.open(folder.root)


@pytest.mark.parametrize("name", ["index.db", "folder"])
def test_variable_names_the_file_or_folder_of_the_index(
    builder, folder, open_index, monkeypatch, tmp_path, name
):
    monkeypatch.setenv("SEAMARK_INDEX", str(tmp_path / name))
    builder().assign(a=1).save(folder)
    index = open_index()
    index.refresh()
    assert tmp_path / name in (index.file, index.file.parent)
    assert index.file.exists()
    other = open_index(tmp_path / "other")  # of another root, perhaps in the same file
    other.refresh()
    assert other.runs() == []


def test_index_is_in_memory_where_nothing_can_be_written(
    builder, folder, open_index, monkeypatch, tmp_path
):
    builder().assign(a=1).save(folder)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SEAMARK_INDEX", str(tmp_path / "file" / "below"))
    index = open_index()
    assert (read(index, folder, "a"), index.file) == ([1], None)


def test_files_of_other_versions_are_removed_after_30_days(folder, open_index):
    mine = open_index().file
    same = f"same.{mine.suffixes[0][1:]}.db"
    days = {mine.name: 31, same: 31, "new.v1.db": 29, "old.v1.db": 31, "old.v1.db-wal": 31}
    for name, one in days.items():
        mine.with_name(name).touch()
        os.utime(mine.with_name(name), (0, time.time() - one * 24 * 3600))
    open_index(folder.path)
    found = {path.name for path in mine.parent.iterdir()}
    assert days.keys() - found == {"old.v1.db", "old.v1.db-wal"}


def test_replaced_shortened_and_removed_journals_take_their_values_along(
    builder, folder, open_index
):
    builder("one").assign(a=7, old=1).row({"loss": 9.0}, 0).save(folder)
    index = open_index()
    assert read(index, folder, "a", "old") == [7, 1]
    one, two = builder("one").assign(a=1).assign(b=2), builder("two").assign(c=3)
    one.row({"loss": 1.0}, 0).row({"loss": 2.0}, 1).save(folder)
    path = two.save(folder)
    assert read(index, folder, *"abc", "old") == [1, 2, 3, None]
    assert value(index, folder, "loss").max == 2.0
    one.save(folder, one.ends[1])
    assert read(index, folder, *"abc", "loss") == [1, None, 3, None]
    path.unlink()
    assert read(index, folder, *"abc") == [1, None, None]


def test_removed_run_is_gone_and_returns_with_its_folder(builder, folder, open_index):
    builder().assign(a=1).row({"m": 1.0}, 0).op("add", path="t", values=["x"]).save(folder)
    index, other = open_index(), open_index()
    for one in (index, other):
        one.refresh()
    shutil.move(folder.path, folder.root / "elsewhere")
    index.refresh()
    assert index.runs("team") == other.runs() == []
    other.refresh()
    assert other.runs() == []
    tables = ("run", "journal", "journal_path", "attribute", "series", "element", "local_look")
    assert [rows(index, f"SELECT count(*) FROM {table}") for table in tables] == [[(0,)]] * 7
    shutil.move(folder.root / "elsewhere", folder.path)
    index.refresh(folder.project, folder.run)
    assert index.runs() == [(folder.project, folder.run)]


def _read_one(index, folder):
    return index.fresh_view(folder.project, folder.run).attribute("a").value


def _read_all(index, folder):
    return read(index, folder, "a")[0]


def _later():
    """A clock for which no change of a folder is recent."""
    return time.time_ns() + 3600 * 10**9


@pytest.mark.parametrize("read", [_read_one, _read_all])
def test_run_that_another_process_forgot_is_folded_again(builder, folder, open_index, read):
    builder().assign(a=1).save(folder)
    index, other = open_index(now_ns=_later), open_index()
    assert (_read_one(index, folder), read(index, folder)) == (1, 1)
    shutil.move(folder.path, folder.root / "elsewhere")
    other.refresh()
    shutil.move(folder.root / "elsewhere", folder.path)
    assert [read(index, folder) for _ in range(2)] == [1, 1]


def test_journal_that_could_not_be_opened_is_read_later(builder, folder, open_index, monkeypatch):
    builder("one").assign(a=1).save(folder)
    path = builder("two").assign(b=2).save(folder)
    real = copies.open_journal

    def failing(where, name):
        if name == path.name:
            raise JournalError(24, "Too many open files")
        return real(where, name)

    index = open_index()
    with monkeypatch.context() as patch:
        patch.setattr(copies, "open_journal", failing)
        assert read(index, folder, "a", "b") == [1, None]
    assert read(index, folder, "a", "b") == [1, 2]
    assert index.view(folder.project, folder.run).journals()[1].errors == 0


def test_records_of_a_newer_version_stop_the_fold_and_are_shown(builder, folder, open_index):
    journal = builder().assign(a=1).unknown(skippable=False).assign(a=2)
    journal.save(folder)
    found = read(open_index(), folder, "a", "monitoring/seamark/newer")
    assert found == [1, [journal.writer]]


def test_damage_becomes_a_gap_after_90_seconds(builder, folder, open_index):
    """Bad bytes may still turn good on a network file system."""
    clock = [time.time_ns() + 10**9]
    journal = builder(t=clock[0] - 10**9).assign(a=1).assign(b=2).assign(c=3)
    data = bytearray(journal.data)
    data[journal.ends[1] + 30] ^= 1
    journal.save(folder).write_bytes(data)
    index = open_index(now_ns=lambda: clock[0])
    assert read(index, folder, *"abc") == [1, None, None]
    clock[0] += SETTLE_NS + 10**10
    gap = [journal.ends[1], journal.ends[2] - journal.ends[1]]
    found = read(index, folder, *"abc", "monitoring/seamark/gaps")
    assert found == [1, None, 3, {journal.writer: [gap]}]


def test_index_of_another_version_is_replaced_and_rebuild_folds_all(builder, folder, open_index):
    builder().assign(a=1).save(folder)
    index = open_index()
    index.refresh()
    with index.store.database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM attribute")
    assert value(index, folder, "a") is None
    index.rebuild()
    assert value(index, folder, "a") == 1
    index.close()
    with contextlib.closing(sqlite3.connect(index.file)) as connection, connection:
        connection.execute("UPDATE meta SET value = '999' WHERE key = 'schema'")
        connection.execute("DROP TABLE attribute")
        connection.execute("CREATE TABLE future (x)")
    index = open_index()
    assert read(index, folder, "a") == [1]
    assert ("future",) not in rows(index, "SELECT name FROM sqlite_master")


def test_new_records_are_read_while_another_process_locks_the_index(
    builder, folder, open_index, monkeypatch
):
    monkeypatch.setattr(database, "BUSY_S", 0.1)
    journal = builder().assign(a=1)
    journal.save(folder)
    index = open_index()
    index.refresh()
    journal.assign(a=2).row({"m": 1.0}, 0).save(folder)
    with contextlib.closing(sqlite3.connect(index.file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        index.refresh(folder.project, folder.run)
        assert value(index, folder, "a") == 2
        assert len(index.view(folder.project, folder.run).points("m")) == 1
        other.execute("ROLLBACK")
    assert index.file is None
    index = open_index()
    assert rows(index, "SELECT count(*) FROM attribute") == [(1,)]
    index.refresh(folder.project, folder.run)
    assert rows(index, "SELECT count(*) FROM attribute") == [(2,)]


def test_child_forked_during_a_fold_does_not_keep_the_lock(builder, folder, open_index):
    builder().assign(a=1).save(folder)
    index, children = open_index(), []

    def fork(done, total):
        if not children:
            children.append(os.fork())
            if not children[0]:
                signal.pause()
                os._exit(0)

    try:
        index.refresh(progress=fork)
        builder("more").assign(b=1).save(folder)
        assert read(index, folder, "b") == [1]
    finally:
        os.kill(children[0], signal.SIGKILL)
        os.waitpid(children[0], 0)


def test_overtaken_fold_counts_no_frame_twice(builder, folder, open_index, monkeypatch):
    """Offsets are compared when they are set, for where locks do not work."""
    journal = builder().row({"m": 1.0}, 0)
    journal.save(folder)
    index, other = open_index(), open_index()
    index.refresh()
    journal.row({"m": 2.0}, 1).save(folder)
    saving, asked = copies.Saving, []

    def overtaken(folding, owner):
        if folding.store is index.store:
            asked.append(folding)
            other.refresh()
        return saving(folding, owner)

    monkeypatch.setattr(copies, "Saving", overtaken)
    (found,) = read(index, folder, "m")
    assert asked
    assert (found.count, found.mean) == (2, 1.5)


@pytest.fixture
def fold_a_part(builder, folder, open_index, monkeypatch):
    """Save a journal of 20 parts; return a function that folds a part and is killed then."""
    monkeypatch.setattr(ingest, "_SAVE_BYTES", 0)
    monkeypatch.setattr(ingest, "BLOCK_BYTES", 4096)
    journal, save = builder(), ingest.Folding.save
    for step in range(2000):
        journal.row({"m": 1.0}, step)
    journal.save(folder)

    class Killed(BaseException):
        pass

    def save_and_die(self):
        save(self)
        raise Killed

    def fold():
        with monkeypatch.context() as patched, contextlib.suppress(Killed):
            patched.setattr(ingest.Folding, "save", save_and_die)
            open_index().refresh(folder.project, folder.run)

    return fold


@pytest.mark.parametrize("alone", [True, False])
def test_rest_of_a_killed_fold_is_done_by_others(folder, open_index, fold_a_part, alone):
    fold_a_part()
    index = open_index()
    index.refresh(*((folder.project, folder.run) if alone else ()))
    view = index.view(folder.project, folder.run)
    assert view.attribute("m").value.count == len(view.points("m")) == 2000


def test_fold_that_is_overtaken_at_every_part_is_complete(
    folder, open_index, monkeypatch, fold_a_part
):
    index, save, overtaken = open_index(), ingest.Folding.save, []

    def be_overtaken(self):
        if self.store is index.store:
            overtaken.append(self)
            fold_a_part()
        save(self)

    monkeypatch.setattr(ingest.Folding, "save", be_overtaken)
    index.refresh(folder.project, folder.run)
    view = index.view(folder.project, folder.run)
    assert len(overtaken) > 5
    assert view.attribute("m").value.count == len(view.points("m")) == 2000


def test_threads_share_an_index(builder, folder, open_index):
    builder().row({"m": 1.0}, 0).save(folder)
    index = open_index()

    def read(_):
        for _ in range(20):
            index.refresh()
            assert len(index.view(folder.project, folder.run).points("m")) == 1

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(read, range(4))) == [None] * 4


@pytest.fixture
def long(builder, folder):
    """A closed journal with 5,000 points that need all their digits."""
    journal = builder()
    for step in range(5000):
        journal.row({"m": float(step) ** 0.5}, step)
    journal.close().save(folder)


def test_child_forked_while_a_thread_reads_can_read(builder, folder, open_index):
    builder().assign(a=1).save(folder)
    index, reads, forked = open_index(), threading.Event(), threading.Event()

    def read_long():
        with index._updater.lock:
            reads.set()
            forked.wait(30)

    thread = threading.Thread(target=read_long)
    thread.start()
    reads.wait(30)
    pid = os.fork()
    if not pid:
        signal.alarm(100)  # far more than it needs
        try:
            index.refresh()
            os._exit(0 if value(index, folder, "a") == 1 else 1)
        finally:
            os._exit(2)
    forked.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_series_are_fresh_copies(builder, folder, open_index):
    builder().row({"m": 1.0}, 0).row({"m": 2.0}, 1).save(folder)
    index = open_index()
    index.refresh()
    for _ in range(3):
        table = index.series([(folder.project, folder.run)], ["m"])
        assert table.to_numpy()["value"].tolist() == [1.0, 2.0]
        for column in ("step", "value", "time_ns", "attempt"):
            getattr(table.parts[0][2], column)[:] = -1  # changes no later answer


def test_times_owner_and_state_are_derived_from_frames_of_owners(builder, folder, open_index):
    journal = builder(t=10**18, user="ada").op("state", state="running")
    journal.wait(2 * 10**9).op("state", state="completed").save(folder)
    builder("late", t=10**18 + 10**10, owner=False).assign(tagged=1).save(folder)
    index = open_index()
    index.refresh()
    attributes = index.view(folder.project, folder.run).attributes("sys")
    found = {one.path.removeprefix("sys/"): one.value for one in attributes}
    assert found.pop("running_time") == pytest.approx(2.0, abs=1e-6)
    times = ("creation_time", "start_time", "end_time", "modification_time")
    assert [round(found.pop(name).timestamp() - 10**9) for name in times] == [0, 0, 2, 10]
    assert found == {"id": folder.run, "owner": "ada", "state": "completed", "trashed": False}


def test_running_time_counts_parallel_ranks_once_and_no_pauses(builder, folder, open_index):
    for name, start, length in (("a", 0, 10), ("b", 2, 10), ("c", 100, 5)):
        journal = builder(name, t=10**18 + start * 10**9)
        journal.wait(length * 10**9).heartbeat().save(folder)
    (found,) = read(open_index(), folder, "sys/running_time")
    assert found == pytest.approx(17, abs=1e-3)


def test_damaged_points_in_the_index_are_folded_again(long, folder, open_index):
    """A database checks little of what it returns: wrong bytes never become wrong numbers."""
    index = open_index()
    index.refresh()
    whole = index.view(folder.project, folder.run).points("m")
    for column in ("data", "cells"):
        with index.store.database.writing() as connection:
            there = f"FROM chunk WHERE {column} IS NOT NULL"
            rows = connection.exec_driver_sql(f"SELECT rowid, {column} {there}").fetchall()
            for number, data in rows:
                wrong = bytearray(data)
                wrong[len(wrong) // 2] ^= 1
                change = f"UPDATE chunk SET {column} = ? WHERE rowid = ?"
                connection.exec_driver_sql(change, (bytes(wrong), number))
        assert rows
        view = index.view(folder.project, folder.run)
        assert view.curve("m", 100).max.max() == whole.value.max()
        assert (view.points("m").value == whole.value).all()


def test_damaged_index_is_replaced_within_a_snapshot(long, folder, open_index):
    """Later answers of the block are right, and its own error passes through."""
    index = open_index()
    index.refresh()
    with index.store.database.writing() as connection:
        connection.exec_driver_sql("UPDATE chunk SET data = CAST(substr(data, 1, 99) AS BLOB)")

    def read():
        with index.moment():
            view = index.view(folder.project, folder.run)
            assert view.attribute("m").value.count == 5000
            assert [len(view.points("m")) for _ in range(2)] == [5000, 5000]
            raise KeyError(folder.run)

    with pytest.raises(KeyError, match=folder.run):
        read()
    assert len(index.view(folder.project, folder.run).points("m")) == 5000


def test_folds_rebuilds_and_removals_of_another_process_are_seen(builder, folder, open_index):
    first, second = open_index(), open_index()
    journal = builder().assign(a=1)
    for number in range(2, 6):
        journal.save(folder)
        assert [_read_one(index, folder) for index in (first, second)] == [number - 1] * 2
        if number == 3:
            second.rebuild()
        journal.assign(a=number)
    shutil.rmtree(folder.path)
    second.refresh()
    for index in (second, first):
        with pytest.raises(RunNotFoundError):
            index.fresh_view(folder.project, folder.run)
    builder().assign(a=6).save(folder)
    assert [_read_one(index, folder) for index in (first, second)] == [6, 6]
