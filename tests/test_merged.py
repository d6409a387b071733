"""Folders of two machines that recorded the same projects, merged as the page about claims says."""

from __future__ import annotations

import shutil

import pytest
from crew import crews

PROJECT = "team/x"
TODO = "parameters/todo = true"


@pytest.fixture(scope="module")
def hosts():
    with crews("ada", "bob") as found:
        yield found


@pytest.fixture
def sides(hosts, tmp_path):
    """A worker on each machine, and its root."""
    found = []
    for number, crew in enumerate(hosts):
        root, cache = tmp_path / f"root{number}", tmp_path / f"cache{number}"
        root.mkdir()
        cache.mkdir()
        found.append((crew.hire(root, cache), root))
    return found


def send(source, target, *, append=False):
    """Copy files that differ, like ``rsync -a --checksum``; or what is new, like ``--append``."""
    for mine in sorted(source.rglob("*")):
        theirs = target / mine.relative_to(source)
        if mine.is_dir():
            theirs.mkdir(parents=True, exist_ok=True)
        elif append and theirs.exists():
            with theirs.open("ab") as file:
                file.write(mine.read_bytes()[theirs.stat().st_size :])
        elif not theirs.exists() or mine.read_bytes() != theirs.read_bytes():
            copy = theirs.with_name(f".{theirs.name}.copy")
            shutil.copy2(mine, copy)
            copy.replace(theirs)


def merge(one, other):
    send(one, other, append=True)
    send(other, one, append=True)
    send(one, other)


@pytest.mark.once
@pytest.mark.parametrize("released", [False, True])
def test_one_of_two_machines_that_claimed_a_run_has_it(sides, released):
    (one, root), (other, there) = sides
    run = one.do("begin", 0, PROJECT, {"params": {"todo": True}})
    one.do("stop", 0)
    merge(root, there)
    for worker in (one, other):
        assert worker.do("claim", 1, PROJECT, TODO, None) == run
    if released:
        assert other.do("release", 1) is True
    merge(root, there)
    for worker in (one, other):
        assert worker.do("claim", 2, PROJECT, TODO, None) is None
    assert [worker.do("release", 1) for worker in (one, other)] == [True, False]
    merge(root, there)
    assert other.do("claim", 2, PROJECT, TODO, None) == run


@pytest.mark.once
def test_a_folder_is_merged_both_ways_while_it_is_recorded(sides):
    """An older copy that comes back takes nothing from who records."""
    (one, root), (other, there) = sides
    run = one.do("begin", 0, PROJECT, {})
    for step in range(5):
        one.do("row", 0, {"loss": float(step)}, float(step))
        send(root, there)
        one.do("row", 0, {"loss": step + 0.5}, step + 0.5)
        send(there, root)
    one.do("stop", 0)
    merge(root, there)
    for worker in (one, other):
        told = worker.do("read_at", PROJECT, run)
        assert told["series"]["loss"]["step"] == [step / 2 for step in range(10)]
