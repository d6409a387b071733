"""Refreshing again and again: what changed is always seen, and what rests costs one question."""

from __future__ import annotations

import itertools
import os
import shutil
import time

import pytest
from journal_builder import START

from seamark.index import statuses
from seamark.index.index import Index
from seamark.journal.folder import RunFolder

LATER_NS = 3600 * 10**9


@pytest.fixture
def root(folder):
    return folder.root


@pytest.fixture
def index(root):
    """An index an hour later: what was written before has long been at rest."""
    with Index.open(root, now_ns=lambda: time.time_ns() + LATER_NS) as index:
        yield index


@pytest.fixture
def write(builder, root):
    """Return a function that adds a closed journal with a value to a run."""
    numbers = itertools.count()

    def write(name, value):
        number = next(numbers)
        journal = builder(f"j{number}", t=START + number * 10**9).assign(value=value)
        journal.close().save(RunFolder(root, "p", name))

    return write


def values(index):
    found = [index.view(*ref).attribute("value") for ref in index.runs()]
    return sorted(one.value for one in found if one is not None)


def test_new_runs_projects_and_values_are_seen_at_once(index, root, write):
    """However short ago the last look was, and however often one asks."""
    for value in (1, 2, 3, 4):
        write("old", value)
        for _ in range(2):
            index.refresh()
            assert values(index) == [value]
    write("new", 5)
    index.refresh()
    assert values(index) == [4, 5]
    made = root / "other" / "made"  # a folder that was there before it became a run
    (made / "files").mkdir(parents=True)
    index.refresh()
    index.refresh()
    shutil.copytree(root / "p" / "new" / "journal", made / "journal")
    index.refresh()
    assert ("other", "made") in index.runs()


def test_folder_that_has_just_changed_is_listed_again(root, write):
    """Its time may stay the same when it changes again, so its time alone is not trusted."""
    write("one", 1)
    [journals] = root.glob("p/*/journal")
    changed = journals.stat().st_mtime_ns
    for now, is_at_rest in ((changed + 1, False), (changed + LATER_NS, True)):
        with Index.open(root, now_ns=lambda now=now: now) as index:
            index.refresh()
            [known] = index._file.statuses.runs.values()
            assert (known.listed > 0) is is_at_rest
            index.refresh()
            assert values(index) == [1]


def test_unchanged_run_costs_one_stat(index, write, monkeypatch):
    """Nothing is opened, listed or asked of the journals in it."""
    write("old", 1)
    looked_at: list[str] = []
    index.refresh()
    index.refresh()
    real = os.stat

    def counting(path, **options):
        looked_at.append(str(path))
        return real(path, **options)

    monkeypatch.setattr(statuses.os, "stat", counting)
    index.refresh()
    journals = [path for path in looked_at if path.endswith("/journal")]
    of_projects = [path for path in journals if path.endswith("/.project/journal")]
    assert len(of_projects) == 1  # what a project says of itself is inherited by its runs
    assert len(journals) - len(of_projects) == len(index.runs()) == 1
    assert not [path for path in looked_at if "/journal/" in path]
