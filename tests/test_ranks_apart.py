"""Ranks that do not share a root: rank 0 decides what is gone on with, or all of them raise.

Real processes with a process group, each with a root of its own.
"""

from __future__ import annotations

import itertools
import json
import textwrap
from pathlib import Path

import pytest
from journals import headers
from recording import QUIET

from seamark import init_run

HEAD = f"""
import json, os, sys
import torch.distributed as dist
from seamark import init_run
from seamark.errors import SeamarkError
rank = int(os.environ["RANK"])
root = f"{{sys.argv[1]}}/root{{rank}}"
def join():
    dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
    dist.barrier()  # else one may be gone before the other is connected with it
def begin(root=root, **given):
    return init_run("p", root=root, **{QUIET!r}, **given)
"""


@pytest.fixture
def on_ranks(torch_forks, tmp_path):
    meetings = itertools.count()

    def on_ranks(code, **more):
        ended = torch_forks.run(
            HEAD + textwrap.dedent(code) + "dist.destroy_process_group()\n",
            *(str(tmp_path), str(tmp_path / f"meet{next(meetings)}")),
            environments=[{"RANK": str(rank), "WORLD_SIZE": "2", **more} for rank in range(2)],
        )
        assert [each.code for each in ended] == [0, 0], [each.stderr for each in ended]
        return [json.loads(each.stdout) for each in ended]

    return on_ranks


def attempts(tmp_path, rank, run):
    found = init_run("p", root=tmp_path / f"root{rank}", with_id=run, mode="read-only")
    return sorted(header["attempt"] for header in headers(found))


@pytest.mark.once
def test_a_run_that_has_to_be_there_is_looked_for_by_rank_0(on_ranks, tmp_path):
    """A rank that does not see it goes on with rank 0; and none begins if that does not."""
    cases: list[tuple[str, str, dict[str, str]]] = []
    for ranks, name, there in itertools.product(
        ["zero", "all"], ["custom_run_id", "with_id"], [True, False]
    ):
        place = tmp_path / f"{ranks} {name} {there}"
        root = place / ("root0" if there else "root1")  # at another rank it is no help
        with init_run("p", root=root, **QUIET, custom_run_id="one") as run:
            run["x"] = 1
        given = {
            "custom_run_id": {"custom_run_id": "one", "resume": "must"},
            "with_id": {"with_id": run.id if there else "abcdefgh01234567"},
        }
        cases.append((str(place), ranks, given[name]))
    code = """
        join()
        said = []
        for place, ranks, given in json.loads(os.environ["CASES"]):
            try:
                begin(f"{place}/root{rank}", ranks=ranks, **given)
                said.append("began")
            except SeamarkError as error:
                said.append(type(error).__name__)
            dist.barrier()
        print(json.dumps(said))
    """
    ours, its = on_ranks(code, CASES=json.dumps(cases))
    assert ours == ["began", "RunNotFoundError"] * 4
    assert its == ["began"] * 4 + ["began", "RunNotFoundError"] * 2
    for place, ranks, given in cases:
        assert Path(place, "root1").exists() == (ranks == "all" or place.endswith("False")), given


@pytest.mark.once
def test_a_restarted_job_is_one_attempt_on_all_ranks(on_ranks, tmp_path):
    code = """
        join()
        for restarts in range(3):
            os.environ["SLURM_RESTART_COUNT"] = str(restarts)
            if restarts == 2 and rank == 1:  # it comes back on a node with an empty disk
                os.rename(root, root + "-gone")
            run = begin(ranks="all", custom_run_id="one")
            run.log_metrics({"loss": rank}, 0)
            run.stop()
            dist.barrier()
        print(json.dumps(run.id))
    """
    run, other = on_ranks(code, SLURM_JOB_ID="7", SLURM_JOB_NAME="train")
    assert run == other
    assert attempts(tmp_path, 0, run) == [0, 1, 2]
    assert attempts(tmp_path, 1, run) == [2]


GOES_ON = """
    join()
    run = begin(ranks="all")
    state = json.loads(os.environ["STATE"])
    found = run.resumed(state) if state else run
    found.log_metrics({"loss": rank}, 1)
    print(json.dumps([found.id, found.checkpoint_state()]))
    found.stop()
    dist.barrier()
"""


@pytest.mark.once
@pytest.mark.thorough
def test_rank_0_decides_what_a_checkpoint_is_of(on_ranks, tmp_path):
    """All go over to its run as one attempt, though rank 1 has never seen it.

    Where rank 0 does not see the run, all begin a new one.
    """

    def went_on(state):
        return on_ranks(GOES_ON, STATE=json.dumps(state))

    (run, state), (other, _) = went_on(None)
    assert run == other
    assert [found for found, _ in went_on(state)] == [run, run]
    (tmp_path / "root1").rename(tmp_path / "gone1")
    assert [found for found, _ in went_on(state)] == [run, run]
    assert (attempts(tmp_path, 0, run), attempts(tmp_path, 1, run)) == ([0, 1, 2], [2])
    (tmp_path / "root0").rename(tmp_path / "gone0")
    (new, _), (other, _) = went_on(state)
    assert new == other != run


@pytest.mark.once
def test_a_hand_made_checkpoint_holds_what_each_rank_recorded_before(on_ranks, tmp_path):
    """Rank 0 saves while rank 1 is behind; each calls ``checkpoint_state`` at the same place."""
    code = """
        run = begin(sys.argv[1] + "/root0", ranks="all", custom_run_id="one")
        join()
        state = None
        for step in range(4):
            if step == 2 and rank == 1:  # behind: rank 0 has saved, and gone on
                dist.barrier()
            run.log_metrics({"loss": step}, step)
            if step == 2:
                state = run.checkpoint_state()
                if rank == 0:
                    run.log_metrics({"loss": 3}, 3)
                    dist.barrier()
                    break
        run.stop()
        print(json.dumps(state))
    """
    state, _ = on_ranks(code)
    with init_run("p", root=tmp_path / "root0", custom_run_id="one", **QUIET) as run:
        run.resumed(state).log_metrics({"loss": 9}, 3)
    read = init_run("p", root=tmp_path / "root0", custom_run_id="one", mode="read-only")
    assert read["loss"].fetch_points().value.tolist() == [0, 1, 2, 9]
    assert read["ranks/1/loss"].fetch_points().value.tolist() == [0, 1, 2]
