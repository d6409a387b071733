"""Workers that call `init_run` before anything names their rank: one run, that of rank 0.

Real process groups (gloo) in workers of ``torch.multiprocessing`` and of ``fork``.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from forking import Ended, forking_torch
from recording import QUIET

from seamark import init_run

pytest.importorskip("torch")

HEAD = f"""
import os, sys, threading
import torch.distributed as dist
import torch.multiprocessing as mp
from seamark import init_run
from seamark.types import File

def begin(**given):
    return init_run("p", root=sys.argv[1], **{QUIET!r}, **given)

def join(rank):
    meet = "file://" + sys.argv[1] + "-meet"
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=2)
    dist.barrier()  # else one may be gone before the other is connected with it

def main(work):
    if __name__ == "__main__":
        mp.start_processes(work, nprocs=2, start_method=sys.argv[2])
"""


@pytest.fixture(scope="module")
def forks():
    with forking_torch() as found:
        yield found


def worked(forks, tmp_path, code):
    """Run a script whose workers are forked."""
    words = [str(tmp_path / "root"), "fork"]
    (done,) = forks.run(HEAD + textwrap.dedent(code), *words, environments=[{}])
    assert done.code == 0, done.stderr
    return done


def worked_spawning(tmp_path, code):
    """Run a script whose workers are spawned: they import it, so that it is a file."""
    script = tmp_path / "script.py"
    script.write_text(HEAD + textwrap.dedent(code))
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "root"), "spawn"],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return Ended(done.stdout, done.stderr, done.returncode)


def runs(root):
    """Return the runs, that of rank 0 first."""
    names = sorted(one.name for one in (root / "p").iterdir())
    found = [init_run("p", root=root, with_id=name, mode="read-only") for name in names]
    return sorted(found, key=lambda run: run["x"].fetch())


@pytest.mark.once
def test_a_worker_that_learns_late_that_it_is_another_rank_stops_recording(forks, tmp_path):
    """At a heartbeat, or when it stops; it says so once, keeps what it has, and is silent then."""
    done = worked(
        forks,
        tmp_path,
        """
        def work(rank):
            run = begin()
            run["x"] = rank
            run.log_metrics({"loss": rank}, 0)
            join(rank)
            run.session.recorder.writer.keep(heartbeat=True)
            for each in threading.enumerate():
                if each.name == "seamark-late":
                    each.join()
            assert run.session.recording == (rank == 0)
            run["later"] = 1
            run["texts"].append("later")
            run.log_metrics({"loss": rank}, 1)
            run.stop()
            dist.destroy_process_group()
            assert not rank or run["later"].fetch() is None
        main(work)
        """,
    )
    zero, other = runs(tmp_path / "root")
    assert (zero["sys/state"].fetch(), zero["later"].fetch()) == ("completed", 1)
    assert other["sys/state"].fetch() == "interrupted"
    assert not other.exists("later")
    assert not other.exists("texts")
    assert [len(run["loss"].fetch_values()) for run in (zero, other)] == [2, 1]
    assert done.stderr.count("turned out to be rank 1") == 1
    assert other["sys/id"].fetch() in done.stderr


@pytest.mark.parametrize("method", ["spawn", "fork"])
@pytest.mark.once
@pytest.mark.thorough
def test_a_worker_that_begins_after_the_group_is_the_rank_that_it_is(forks, tmp_path, method):
    """Nothing to take back, and nothing to warn of."""
    code = """
    def work(rank):
        join(rank)
        run = begin()
        run["x"] = rank
        run.log_metrics({"loss": rank}, 0)
        run.stop()
        dist.destroy_process_group()
    main(work)
    """
    done = worked(forks, tmp_path, code) if method == "fork" else worked_spawning(tmp_path, code)
    (run,) = runs(tmp_path / "root")
    assert (run["x"].fetch(), run["loss"].fetch()) == (0, 0)
    assert "turned out" not in done.stderr


@pytest.mark.once
def test_a_run_that_both_name_keeps_the_state_of_rank_0(forks, tmp_path):
    """With a custom_run_id both begin the same run, and what both recorded stays."""
    worked(
        forks,
        tmp_path,
        """
        def work(rank):
            run = begin(custom_run_id="one")
            run["x"] = 0
            run[f"early/{rank}"] = rank
            join(rank)
            if rank:
                run.stop()
            dist.barrier()
            run.stop()
            dist.destroy_process_group()
        main(work)
        """,
    )
    (run,) = runs(tmp_path / "root")
    assert (run["early/0"].fetch(), run["early/1"].fetch()) == (0, 1)
    assert run["sys/state"].fetch() == "completed"


@pytest.mark.once
def test_all_ranks_that_begin_too_early_are_told(forks, tmp_path):
    """With ``ranks="all"`` nothing can be put right: the way to do it is said once."""
    done = worked(
        forks,
        tmp_path,
        """
        def work(rank):
            run = begin(ranks="all")
            join(rank)
            run["x"] = rank
            run.log_metrics({"loss": rank}, 0)
            run.log_metrics({"loss": rank}, 1)
            run.stop()
            dist.destroy_process_group()
        main(work)
        """,
    )
    assert len(runs(tmp_path / "root")) == 2
    assert done.stderr.count("With ranks='all' call init_run() after init_process_group()") == 1
