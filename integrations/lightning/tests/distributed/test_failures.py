"""A rank that dies, raises or hangs: the run says so, and nothing of ours keeps anybody waiting."""

from __future__ import annotations

import signal
import sys
import time

import pytest
from launching import MODERN, Launch, Started
from reading import Recorded, headers, plain, states, told_rows

pytestmark = pytest.mark.launches

TORCHRUN = (
    sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
    "--shutdown-timeout=3",
)  # fmt: skip


def start(folder, strike, launcher=()):
    env = {"TEST_STRIKE": strike}
    launch = Launch("ddp", "DDPStrategy", launcher, scenarios=("struck",), env=env)
    return Started(folder, launch)


def end(started):
    """Wait for all processes of a training, of which none may be left; return the exit code."""
    (code,) = started.wait()
    left = started.alive()
    started.kill()
    assert code is not None, started.output.read_text()
    assert not left, "processes were left behind"
    return code


def ranks(recorded):
    return {one.rank: one for one in recorded.run.stragglers()}


def check_what_was_recorded(folder):
    """What the other logger was told before the end is there, of each rank that recorded it."""
    assert {one["rank"] for one in headers(folder, "zero")} == {0}
    told = plain(told_rows(folder / "struck"))
    for project in ("zero", "all"):
        assert plain(Recorded(folder, project).rows()) == told
    other = Recorded(folder, "all").rows("training/ranks/1/")
    assert plain(other) == plain(told_rows(folder / "struck", rank=1))
    assert len(other) >= 3


def test_rank_is_killed(tmp_path):
    """Rank 0 fails in its next exchange of gradients; the run names the other."""
    started = start(tmp_path, "killed 1")
    assert end(started) != 0
    check_what_was_recorded(tmp_path)
    # Lightning 2 looks every five seconds for children that died, and kills rank 0 if it finds one.
    assert Recorded(tmp_path, "zero").value("sys/state") in {"failed", "crashed"}
    every = Recorded(tmp_path, "all")
    found = ranks(every)
    assert found[1].state == "killed"
    assert found[0].state in {"failed", "killed"}
    assert next(iter(found)) == 1  # the slowest
    assert found[1].own_s > 0.3


def test_rank_zero_raises_while_others_wait(tmp_path):
    started = start(tmp_path, "raises 0", TORCHRUN if MODERN else ())
    assert end(started) != 0
    assert "ValueError: in training" in started.output.read_text()
    check_what_was_recorded(tmp_path)
    for project in ("zero", "all"):
        recorded = Recorded(tmp_path, project)
        assert recorded.value("sys/state") == "failed"
    zero = ranks(recorded)[0]
    assert zero.state == "failed"
    # 1.9 raises an exception of its own after it has killed the other ranks.
    assert zero.why.startswith("ValueError: in training" if MODERN else "DeadlockDetected")
    assert ranks(recorded)[1].state in {"failed", "interrupted", "killed"}


@pytest.mark.skipif(not MODERN, reason="what torchrun does is the same under 1.9")
@pytest.mark.thorough
def test_rank_hangs(tmp_path):
    """One sleeps, the other waits for it; torchrun sends SIGTERM to both, then SIGKILL."""
    started = start(tmp_path, "hangs 1", TORCHRUN)
    until = time.monotonic() + 100
    while not (tmp_path / "hangs").exists() and time.monotonic() < until:
        assert started.processes[0].poll() is None, started.output.read_text()
        time.sleep(0.05)
    every = Recorded(tmp_path, "all")
    assert {one.state for one in ranks(every).values()} == {"running"}
    started.processes[0].send_signal(signal.SIGTERM)
    assert end(started) != 0
    check_what_was_recorded(tmp_path)
    # Rank 0 waited in C++, where no signal handler of Python's is called. Rank 1 was told; in its
    # handler Lightning then waits for rank 0, which ends as soon as that is killed.
    found = ranks(Recorded(tmp_path, "all"))
    assert found[0].state == "killed"
    assert found[1].state in {"interrupted", "failed"}
    said = [op.get("signal") for op in states(tmp_path, "all", rank=1)]
    assert said[:2] == [None, "SIGTERM"]
    assert Recorded(tmp_path, "zero").value("sys/state") == "crashed"
