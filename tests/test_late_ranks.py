"""Workers that call `init_run` before anything names their rank: one run, that of rank 0.

Real process groups (gloo) in workers of ``torch.multiprocessing``.
"""

from __future__ import annotations

import textwrap

import pytest
from recording import QUIET

from seamark import init_run

HEAD = f"""
import os, sys, threading
import torch.distributed as dist
import torch.multiprocessing as mp
from seamark import init_run

def begin(**given):
    return init_run("p", root=sys.argv[1], **{QUIET!r}, **given)

def join(rank):
    meet = "file://" + sys.argv[1] + "-meet"
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=2)
    dist.barrier()  # else one may be gone before the other is connected with it
"""
TAIL = """
if __name__ == "__main__":
    mp.start_processes(work, nprocs=2, start_method="fork")
"""


@pytest.fixture
def worked(torch_forks, tmp_path):
    """Do some work in two forked workers; return the runs, that of rank 0 first, and stderr."""

    def worked(code):
        root = tmp_path / "root"
        (done,) = torch_forks.run(HEAD + textwrap.dedent(code) + TAIL, str(root), environments=[{}])
        assert done.code == 0, done.stderr
        names = sorted(one.name for one in (root / "p").iterdir())
        found = [init_run("p", root=root, with_id=name, mode="read-only") for name in names]
        return sorted(found, key=lambda run: run["x"].fetch()), done.stderr

    return worked


@pytest.mark.once
def test_a_worker_that_learns_late_that_it_is_another_rank_stops_recording(worked):
    """At a heartbeat, or when it stops; it says so once, keeps what it has, and is silent then."""
    (zero, other), said = worked(
        """
        def work(rank):
            run = begin()
            run["x"] = rank
            run.log_metrics({"loss": rank}, 0)
            join(rank)
            run.session.recorder.writer._upkeep.keep(heartbeat=True)
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
        """
    )
    assert (zero["sys/state"].fetch(), zero["later"].fetch()) == ("completed", 1)
    assert other["sys/state"].fetch() == "interrupted"
    assert not other.exists("later")
    assert not other.exists("texts")
    assert [len(run["loss"].fetch_values()) for run in (zero, other)] == [2, 1]
    assert said.count("turned out to be rank 1") == 1
    assert other["sys/id"].fetch() in said


@pytest.mark.once
def test_all_ranks_that_begin_too_early_are_told(worked):
    """With ``ranks="all"`` nothing can be put right: the way to do it is said once."""
    runs, said = worked(
        """
        def work(rank):
            run = begin(ranks="all")
            join(rank)
            run["x"] = rank
            run.log_metrics({"loss": rank}, 0)
            run.log_metrics({"loss": rank}, 1)
            run.stop()
            dist.destroy_process_group()
        """
    )
    assert len(runs) == 2
    assert said.count("With ranks='all' call init_run() after init_process_group()") == 1
