"""Refreshing right after a look that found nothing: what is seen all the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

import seamark
from seamark.journal import segment
from seamark.local.index import Index
from seamark.store import glance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

REST_NS = 3600 * 10**9


class Clock:
    """Stands in for the module `time`, standing still until it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(glance, "time", clock)
    return clock


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def index(root: Path) -> Iterator[Index]:
    with Index.open(root) as index:
        yield index


@pytest.fixture
def write(root: Path) -> Callable[[str, int], None]:
    """Return a function that logs one value to a run, in another process."""
    code = """
import sys, seamark
root, name, value = sys.argv[1:]
off = dict.fromkeys(["capture_git", "capture_packages"], False)
with seamark.init_run(root=root, custom_run_id=name, **off) as run:
    run["value"] = int(value)
"""

    def write(name: str, value: int) -> None:
        subprocess.run([sys.executable, "-c", code, str(root), name, str(value)], check=True)

    return write


def values(index: Index) -> list[int]:
    found = [index.view(*ref).attribute("value") for ref in index.runs()]
    return sorted(one.value for one in found if one is not None)


def rest(root: Path) -> None:
    """Make everything look as if nothing had changed for an hour."""
    then = time.time_ns() - REST_NS
    for path in sorted(root.rglob("*"), reverse=True):
        os.utime(path, ns=(then, then))
    os.utime(root, ns=(then, then))


@pytest.fixture
def looked(
    index: Index, root: Path, write: Callable[[str, int], None], clock: Clock
) -> Callable[[], None]:
    """Return a function that leaves one run at rest, just looked at in vain."""

    def looked() -> None:
        write("old", 1)
        rest(root)
        index.refresh()
        index.refresh()
        assert values(index) == [1]

    return looked


def test_a_new_run_is_seen_at_once(
    index: Index, write: Callable[[str, int], None], looked: Callable[[], None]
) -> None:
    """However short ago the last look was, a run that appears is in the next table."""
    looked()
    write("new", 2)
    index.refresh()
    assert values(index) == [1, 2]


def test_a_first_run_of_a_new_project_is_seen_at_once(
    index: Index, root: Path, looked: Callable[[], None]
) -> None:
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


def test_a_run_that_changed_lately_is_seen_at_once(
    index: Index, write: Callable[[str, int], None], looked: Callable[[], None]
) -> None:
    """A run that is being written to is asked about every time."""
    looked()
    write("new", 2)
    index.refresh()
    index.refresh()
    write("new", 3)
    index.refresh()
    assert values(index) == [1, 3]


def test_a_run_at_rest_is_seen_half_a_second_later(
    index: Index, write: Callable[[str, int], None], looked: Callable[[], None], clock: Clock
) -> None:
    """What another process does to a run at rest is missed for half a second at most."""
    looked()
    write("old", 4)
    clock.now += glance.GLANCE_S
    index.refresh()
    assert values(index) == [4]


def test_what_this_process_writes_is_seen_at_once(
    index: Index, root: Path, looked: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Who writes and reads in one process sees what it wrote, also in a run that was at rest."""
    looked()
    off = dict.fromkeys(["capture_git", "capture_packages"], False)
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


def test_nothing_is_asked_about_runs_at_rest(
    index: Index, looked: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The point of it: no question to the file system for a run that was looked at just now."""
    # Journals that other tests left open in this process would count as being written to.
    monkeypatch.setattr(segment, "_opened", segment.Opened(0, 0))
    looked()
    asked: list[str] = []
    monkeypatch.setattr(index, "_changed", lambda _project, name, _known: asked.append(name))
    index.refresh()
    assert asked == []
