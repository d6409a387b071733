"""Refreshing again and again: what changed is always seen, and what rests costs one question."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

import seamark
from seamark.index import looks
from seamark.index.index import Index

LATER_NS = 3600 * 10**9


@pytest.fixture
def root(tmp_path):
    return tmp_path / "root"


@pytest.fixture
def index(root):
    """An index an hour later: what was written before has long been at rest."""
    with Index.open(root, now_ns=lambda: time.time_ns() + LATER_NS) as index:
        yield index


WRITES = """
import json, sys, seamark
off = {"capture": {"git": False, "packages": False}}
for line in sys.stdin:
    root, name, value = json.loads(line)
    with seamark.init_run(root=root, custom_run_id=name, **off) as run:
        run["value"] = value
    print("written", flush=True)
"""


@pytest.fixture(scope="module")
def writer():
    """Another process, which records what it is told."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        yield process


@pytest.fixture
def write(root, writer):
    """Return a function that logs one value to a run, in another process."""

    def write(name, value):
        print(json.dumps([str(root), name, value]), file=writer.stdin, flush=True)
        assert writer.stdout.readline() == "written\n"

    return write


def values(index):
    found = [index.view(*ref).attribute("value") for ref in index.runs()]
    return sorted(one.value for one in found if one is not None)


@pytest.fixture
def looked(index, write):
    """Return a function that leaves one run at rest, just looked at in vain."""

    def looked():
        write("old", 1)
        index.refresh()
        index.refresh()
        assert values(index) == [1]

    return looked


def test_a_new_run_is_seen_at_once(index, write, looked):
    """However short ago the last look was, a run that appears is in the next table."""
    looked()
    write("new", 2)
    index.refresh()
    assert values(index) == [1, 2]


def test_a_first_run_of_a_new_project_is_seen_at_once(index, root, looked):
    """Also where the folder was there before, without being a run."""
    looked()
    made = root / "other" / "made"
    (made / "files").mkdir(parents=True)
    index.refresh()
    index.refresh()
    run = next(path for path in (root / "default").iterdir() if path.is_dir())
    shutil.copytree(run / "journal", made / "journal")
    index.refresh()
    assert ("other", "made") in index.runs()


@pytest.mark.once
def test_a_run_that_rests_is_seen_at_once_when_somebody_goes_on(index, write, looked):
    """What another process recorded before the call is in the table, however often one asks."""
    looked()
    for value in (2, 3, 4):
        write("old", value)
        index.refresh()
        assert values(index) == [value]


def test_what_this_process_writes_is_seen_at_once(index, root, looked, capsys):
    """Who writes and reads in one process sees what it wrote, also in a run that was at rest."""
    looked()
    off = {"capture": {"git": False, "packages": False}}
    run = seamark.init_run(root=root, custom_run_id="old", **off)
    run["value"] = 5
    index.refresh()
    assert values(index) == [5]
    run["value"] = 6
    index.refresh()
    assert values(index) == [6]
    run.stop()
    index.refresh()
    [ref] = index.runs()
    assert index.view(*ref).attribute("sys/state").value == "completed"


def test_a_run_that_rests_costs_one_question(index, root, write, looked, monkeypatch):
    """One look at its folder: nothing is opened, listed or asked of the journals in it."""
    write("second", 2)
    looked_at: list[str] = []
    index.refresh()
    index.refresh()
    real = os.stat

    def counting(path, **options):
        looked_at.append(str(path))
        return real(path, **options)

    monkeypatch.setattr(looks.os, "stat", counting)
    index.refresh()
    journals = [path for path in looked_at if path.endswith("/journal")]
    of_projects = [path for path in journals if path.endswith("/.project/journal")]
    assert len(of_projects) == 1  # what a project says of itself is inherited by its runs
    assert len(journals) - len(of_projects) == len(index.runs()) == 1
    assert not [path for path in looked_at if "/journal/" in path]


def test_a_folder_that_changed_just_now_is_listed_until_it_rests(root, write):
    """Its time may stay the same when it changes again, so its time alone is not trusted."""
    write("one", 1)
    [journals] = root.glob("default/*/journal")
    changed = journals.stat().st_mtime_ns
    with Index.open(root, now_ns=lambda: changed + 1) as index:
        index.refresh()
        [known] = index._file.looks.runs.values()
        assert known.listed == 0
        index.refresh()
        assert values(index) == [1]
    with Index.open(root, now_ns=lambda: changed + LATER_NS) as index:
        index.refresh()
        [known] = index._file.looks.runs.values()
        assert known.listed > 0


def test_a_run_that_disappears_is_gone_from_the_next_table(index, root, looked):
    """Also for another process that has the same index open."""
    looked()
    with Index.open(root) as other:
        other.refresh()
        shutil.rmtree(root / "default")
        index.refresh()
        assert index.runs() == other.runs() == []
        other.refresh()
        assert other.runs() == []


def test_a_file_that_goes_away_meanwhile_hides_no_other(tmp_path, monkeypatch):
    """The rest of the folder is read now, not the next time."""
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(name)
    found = looks.regular_files

    def vanishing(fd):
        entries = found(fd)
        (tmp_path / "b").unlink()
        return entries

    monkeypatch.setattr(looks, "regular_files", vanishing)
    assert list(looks.listing(str(tmp_path), 0)[1]) == ["a", "c"]
