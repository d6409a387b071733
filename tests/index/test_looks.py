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


@pytest.mark.once
def test_new_runs_projects_and_values_are_seen_at_once(index, root, write, looked):
    """However short ago the last look was, and however often one asks."""
    looked()
    for value in (2, 3, 4):
        write("old", value)
        index.refresh()
        assert values(index) == [value]
    write("new", 5)
    index.refresh()
    assert values(index) == [4, 5]
    made = root / "other" / "made"  # a folder that was there before it became a run
    (made / "files").mkdir(parents=True)
    index.refresh()
    index.refresh()
    run = next(path for path in (root / "default").iterdir() if path.is_dir())
    shutil.copytree(run / "journal", made / "journal")
    index.refresh()
    assert ("other", "made") in index.runs()


def test_values_of_this_process_are_seen_at_once(index, root, looked):
    looked()
    off = {"capture": {"git": False, "packages": False}}
    with seamark.init_run(root=root, custom_run_id="old", **off) as run:
        for value in (5, 6):
            run["value"] = value
            index.refresh()
            assert values(index) == [value]
    index.refresh()
    [ref] = index.runs()
    assert index.view(*ref).attribute("sys/state").value == "completed"


def test_unchanged_run_costs_one_stat(index, root, write, looked, monkeypatch):
    """Nothing is opened, listed or asked of the journals in it."""
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


def test_folder_that_has_just_changed_is_listed_again(root, write):
    """Its time may stay the same when it changes again, so its time alone is not trusted."""
    write("one", 1)
    [journals] = root.glob("default/*/journal")
    changed = journals.stat().st_mtime_ns
    for now, is_at_rest in ((changed + 1, False), (changed + LATER_NS, True)):
        with Index.open(root, now_ns=lambda now=now: now) as index:
            index.refresh()
            [known] = index._file.looks.runs.values()
            assert (known.listed > 0) is is_at_rest
            index.refresh()
            assert values(index) == [1]


def test_removed_run_is_gone_from_the_next_table_of_every_process(index, root, looked):
    looked()
    with Index.open(root) as other:
        other.refresh()
        shutil.rmtree(root / "default")
        index.refresh()
        assert index.runs() == other.runs() == []
        other.refresh()
        assert other.runs() == []


def test_vanishing_file_hides_no_other(tmp_path, monkeypatch):
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(name)
    found = looks.regular_files

    def vanishing(fd):
        entries = found(fd)
        (tmp_path / "b").unlink()
        return entries

    monkeypatch.setattr(looks, "regular_files", vanishing)
    assert list(looks.listing(str(tmp_path), 0)[1]) == ["a", "c"]
