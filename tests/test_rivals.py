"""Two processes that record one run at once are told, both of them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest

import seamark
from seamark.journal.folder import RunFolder
from seamark.journal.writer import JournalWriter
from seamark.run.rivals import Rivals

pytestmark = pytest.mark.once

PROGRAM = """
import logging, os, sys
import seamark

logging.basicConfig(format="%(message)s", stream=sys.stderr, level="WARNING")
quiet = dict.fromkeys(["capture_git", "capture_packages", "capture_signals"], False)
run = seamark.init_run(custom_run_id="one", **quiet)
run.recorder.number_after(None)  # until it is known what the run held
run.log_metrics({"loss": 1.0})  # whoever trains owns it
print(os.getpid(), flush=True)
for line in sys.stdin:
    run.recorder.writer.keep(heartbeat=True)  # what the sync thread does every 30 s
    print("kept", flush=True)
"""


def started(**environment):
    """Start a process that opens the run and waits; it is nobody's parent or child but ours."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    process.pid_told = int(process.stdout.readline())
    return process


def beat(process):
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "kept\n"


def ended(process):
    """End a process; return what it said on stderr."""
    error = process.communicate(timeout=240)[1]
    assert process.returncode == 0, error
    return error


@pytest.mark.once
def test_both_are_told_once():
    """The second at its start, the first at a heartbeat; each hears of the other's pid."""
    first = started()
    second = started()
    for _ in range(2):
        beat(first)
        beat(second)
    told, told_second = ended(first), ended(second)
    assert told.count("two processes record run") == 1
    assert f"pid {second.pid_told} on " in told
    assert told_second.count("two processes record run") == 1
    assert f"pid {first.pid_told} on " in told_second


@pytest.mark.once
@pytest.mark.thorough
def test_one_after_the_other():
    """Is no reason to warn, neither where the first one ended nor where it was killed."""
    ended(started())
    assert "two processes" not in ended(started())
    killed = started()
    killed.kill()
    killed.communicate()
    assert "two processes" not in ended(started())


def test_ranks_of_one_job():
    """Know of each other."""
    job = {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "2"}
    first = started(**job, RANK="0")
    second = started(**job, RANK="1")
    beat(first)
    assert "two processes" not in ended(first) + ended(second)


def test_children_and_parents(caplog):
    """A process that this one starts is meant to record, and so is the one that started it."""
    with seamark.init_run(custom_run_id="one", capture_packages=False) as run:
        child = started()
        run.recorder.writer.keep(heartbeat=True)
        assert "two processes" not in caplog.text + ended(child)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_copies_of_a_run(caplog):
    """A pickled run in a forked child is this run."""
    with seamark.init_run(custom_run_id="one", capture_packages=False) as run:
        copy = pickle.dumps(run)
        (read, write), (hold, let_go) = os.pipe(), os.pipe()
        if (pid := os.fork()) == 0:
            status = 1
            try:
                inner = pickle.loads(copy)
                inner.log_metrics({"a": 1.0}, step=1)
                os.write(write, b"x")
                os.read(hold, 1)
                status = 0
            finally:
                os._exit(status)
        os.read(read, 1)
        run.recorder.writer.keep(heartbeat=True)
        os.write(let_go, b"x")
        assert os.waitpid(pid, 0)[1] == 0
    assert "two processes" not in caplog.text


def test_whoever_only_adds_something(caplog):
    """Is no owner, and nobody's rival."""
    first = started()
    with seamark.init_run(custom_run_id="one", owner=False) as run:
        run["note"] = 1
        beat(first)
    assert "two processes" not in caplog.text + ended(first)


def test_a_journal_that_begins_at_the_same_moment(tmp_path, caplog):
    """It has no header at the first look; the next one finds it."""
    folder = RunFolder(tmp_path, "p", "run")
    header = {"owner": True, "lineage": "another", "host": "elsewhere"}
    other = JournalWriter(folder, lambda: header)
    other.append_point("a", 1.0, 0.0)
    (journal,) = folder.journals()
    begun = journal.path.read_bytes()
    journal.path.write_bytes(b"")
    rivals = Rivals(folder, "mine")
    rivals.look()
    assert "two processes" not in caplog.text
    journal.path.write_bytes(begun)
    for _ in range(2):
        rivals.look()
        assert caplog.text.count("two processes record run") == 1
    other.close()
