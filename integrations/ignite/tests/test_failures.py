"""A rank goes wrong while the other one waits for it: what the run says, and that all end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import seamark

pytestmark = pytest.mark.slow  # what becomes of the other ranks is up to the launcher

SCRIPT = str(Path(__file__).with_name("failing_ranks.py"))
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", SCRIPT]


def started(*command):
    return subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def the_run():
    (folder,) = Path(".seamark/p").iterdir()
    return seamark.init_run(project="p", with_id=folder.name, mode="read-only")


def sums(run, path):
    points = run[path].fetch_points()
    return list(zip(points.step.tolist(), points.value.tolist(), strict=True))


WAS = [(1, 2), (2, 2), (3, 2)]


def test_a_rank_that_is_killed_is_named():
    """Every step before is there, of both ranks; the other one ends as Ignite has it."""
    process = started(SCRIPT, "killed", "all", "spawned")
    said, _ = process.communicate(timeout=280)
    assert process.returncode == 1, said
    run = the_run()
    assert sums(run, "train/sum") == sums(run, "ranks/1/train/sum") == WAS
    by_rank = {one.rank: one for one in run.stragglers()}
    assert by_rank[1].state == "killed"
    assert by_rank[0].state in {"failed", "interrupted"}
    assert run["sys/state"].fetch() == by_rank[0].state


@pytest.mark.parametrize(
    ("ranks", "command"), [("zero", [SCRIPT]), ("all", TORCHRUN)], ids=["zero", "all"]
)
def test_a_rank_that_raises_is_named(ranks, command):
    """With ``ranks="all"``, with its error; else the run has what rank 0 saw of it."""
    spawned = ["spawned"] if command == [SCRIPT] else []
    process = started(*command, "raises", ranks, *spawned)
    said, _ = process.communicate(timeout=280)
    assert process.returncode == 1, said
    run = the_run()
    assert sums(run, "train/sum") == WAS
    assert run["sys/state"].fetch() in {"failed", "interrupted"}
    if ranks == "all":
        assert sums(run, "ranks/1/train/sum") == WAS
        by_rank = {one.rank: one for one in run.stragglers()}
        assert by_rank[1].state == "failed"
        assert "an odd batch" in by_rank[1].why
    else:
        assert not run.exists("ranks")


def test_a_training_that_hangs_ends_when_it_is_told_to():
    """Rank 0 waits in C code for rank 1, which sleeps; torchrun tells both, and waits for them.

    It would kill them 30 s later. They are gone before, and have said why.
    """
    process = started(*TORCHRUN, "hangs", "all")
    deadline = time.monotonic() + 240
    while not Path("hangs").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    time.sleep(1)  # rank 0 is on its way to wait
    os.kill(process.pid, signal.SIGTERM)
    said, _ = process.communicate(timeout=240)
    assert process.returncode != 0, said
    run = the_run()
    assert run["sys/state"].fetch() == "interrupted"
    by_rank = {one.rank: one for one in run.stragglers()}
    assert {one.state for one in by_rank.values()} == {"interrupted"}
    assert all("SIGTERM" in one.why for one in by_rank.values())
