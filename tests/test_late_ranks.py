"""Workers that call `init_run` before anything names their rank: one run, that of rank 0.

Real process groups (gloo) in workers of ``torch.multiprocessing`` and of ``fork``.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from forking import Ended, Forks, forking_torch
from recording import QUIET

from seamark import Run, init_run

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
def forks() -> Iterator[Forks]:
    with forking_torch() as found:
        yield found


def worked(forks: Forks, tmp_path: Path, code: str) -> Ended:
    """Run a script whose workers are forked."""
    words = [str(tmp_path / "root"), "fork"]
    (done,) = forks.run(HEAD + textwrap.dedent(code), *words, environments=[{}])
    assert done.code == 0, done.stderr
    return done


def worked_spawning(tmp_path: Path, code: str) -> Ended:
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


def runs(root: Path) -> list[Run]:
    """Return the runs that are not in the trash."""
    names = sorted(one.name for one in (root / "p").iterdir())
    found = [init_run("p", root=root, with_id=name, mode="read-only") for name in names]
    return [run for run in found if not run["sys/trashed"].fetch()]


RECORDS = {
    "values": 'run["x"] = rank; run["tags"].add(f"rank {rank}")',
    "texts": 'run["x"].append(f"rank {rank}")',
    "files": 'run["x"].upload(File.from_content(f"rank {rank}"))',
    "points": 'run["x"].append(rank); run["x"].append(rank)',
    "columns": 'run["x"].extend([rank, rank])',
    "rows": 'run.log_metrics({"x": rank}, 0)',
    "deletes": 'run["early"].pop() if rank == 0 else None; run["x"] = rank',
    "nothing": 'rank or run.assign({"x": 0})',
}


@pytest.mark.once
def test_a_worker_that_learns_late_that_it_is_another_rank_takes_back_its_run(forks, tmp_path):
    """Whatever it records first; without a word of it, when it stops.

    One process imports torch, and its workers do all cases, one after the other.
    """
    worked(
        forks,
        tmp_path,
        f"""
        def work(rank, what):
            sys.argv[1] += "/" + what
            os.dup2(os.open(sys.argv[1] + ".err", os.O_CREAT | os.O_WRONLY | os.O_APPEND), 2)
            run = begin()
            run["early"] = 1
            join(rank)
            exec({RECORDS!r}[what], {{"run": run, "rank": rank, "File": File}})
            run.stop()
            dist.destroy_process_group()
            if rank:
                assert not run.recording
                run["later"] = 1  # silent for good
                run["later"].append(1)
                assert run["later"].fetch() is None

        os.mkdir(sys.argv[1])
        for what in {list(RECORDS)}:
            mp.start_processes(work, args=(what,), nprocs=2, start_method="fork")
        """,
    )
    for what in RECORDS:
        root = tmp_path / "root" / what
        (run,) = runs(root)
        assert run["sys/state"].fetch() == "completed", what
        assert run.exists("x"), what
        assert not run.exists("later"), what
        said = root.with_suffix(".err").read_text()
        assert run["sys/id"].fetch() in said, what
        assert said.count("turned out to be rank 1") == 1, what
        assert "the disk did not answer" not in said, what
        assert len(list((root / "p").iterdir())) == 2, what  # the other one is in the trash


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


@pytest.mark.parametrize("method", [pytest.param("spawn", marks=pytest.mark.thorough), "fork"])
@pytest.mark.once
def test_what_others_record_too_is_not_taken_from_them(forks, tmp_path, method):
    """With a custom_run_id both begin the same run: only what rank 1 wrote goes."""
    code = """
    def work(rank):
        run = begin(custom_run_id="one")
        run["early"] = rank
        join(rank)
        dist.barrier()
        if rank:
            run["x"] = rank
        dist.barrier()
        if rank == 0:
            run["x"] = rank
            print(len(run.folder.journals()), run["sys/trashed"].fetch())
        run.stop()
        dist.destroy_process_group()
    main(work)
    """
    done = worked(forks, tmp_path, code) if method == "fork" else worked_spawning(tmp_path, code)
    assert done.stdout == "1 False\n"
    (run,) = runs(tmp_path / "root")
    assert (run["x"].fetch(), run["early"].fetch()) == (0, 0)
    assert run["sys/state"].fetch() == "completed"


@pytest.mark.once
def test_a_rank_without_anything_to_record_is_found_at_a_heartbeat(forks, tmp_path):
    """The thread that forces a journal to disk looks as well."""
    worked(
        forks,
        tmp_path,
        """
        def work(rank):
            run = begin()
            join(rank)
            run.recorder.writer.keep(heartbeat=True)
            for each in threading.enumerate():
                if each.name == "seamark-late":
                    each.join()
            assert run.recording == (rank == 0)
            dist.destroy_process_group()
            run.stop()
        main(work)
        """,
    )
    assert len(runs(tmp_path / "root")) == 1


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


@pytest.mark.once
@pytest.mark.thorough
def test_who_has_points_keeps_them(forks, tmp_path):
    """A process that has trained by itself and joins others later loses nothing."""
    worked(
        forks,
        tmp_path,
        """
        def work(rank):
            run = begin()
            run.log_metrics({"loss": rank}, 0)
            join(rank)
            run["x"] = rank
            run.log_metrics({"loss": rank}, 1)
            run.stop()
            dist.destroy_process_group()
        main(work)
        """,
    )
    assert sorted(run["loss"].fetch() for run in runs(tmp_path / "root")) == [0, 1]
