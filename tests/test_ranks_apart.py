"""Ranks that do not share a root: rank 0 decides what is gone on with, or all of them raise.

Real processes with a process group, each with a root of its own.
"""

from __future__ import annotations

import itertools
import json
import textwrap
from pathlib import Path

import pytest
from forking import forking_torch
from journals import headers
from recording import QUIET

from seamark import init_run

pytest.importorskip("torch")

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
def begin(**given):
    return init_run("p", root=root, **{QUIET!r}, **given)
"""


@pytest.fixture(scope="module")
def forks():
    with forking_torch() as found:
        yield found


def on_ranks(forks, tmp_path, code, meet="meet", **more):
    """Run a script on two ranks; return what each printed, as JSON."""
    ended = forks.run(
        HEAD + textwrap.dedent(code),
        *(str(tmp_path), str(tmp_path / meet)),
        environments=[{"RANK": str(rank), "WORLD_SIZE": "2", **more} for rank in range(2)],
    )
    assert [each.code for each in ended] == [0, 0], [each.stderr for each in ended]
    return [json.loads(each.stdout) for each in ended]


def attempts(tmp_path, rank, run):
    found = init_run("p", root=tmp_path / f"root{rank}", with_id=run, mode="read-only")
    return sorted(header["attempt"] for header in headers(found))


RAISES = """
    join()
    said = []
    for place, ranks, given in {cases!r}:
        try:
            init_run("p", root=f"{{place}}/root{{rank}}", ranks=ranks, **{quiet!r}, **given)
            said.append("began")
        except SeamarkError as error:
            said.append(type(error).__name__)
        dist.barrier()
    print(json.dumps(said))
    dist.destroy_process_group()
"""


@pytest.mark.once
def test_a_run_that_has_to_be_there_is_looked_for_by_rank_0(forks, tmp_path):
    """A rank that does not see it goes on with rank 0; and none begins if that does not."""
    cases: list[tuple[str, str, dict[str, str]]] = []
    for ranks, name, there in itertools.product(
        ["zero", "all"], ["custom_run_id", "with_id"], [True, False]
    ):
        place = tmp_path / f"{ranks} {name} {there}"
        # Where it is not there for rank 0, another one is no help.
        with init_run(
            "p", root=place / ("root0" if there else "root1"), **QUIET, custom_run_id="one"
        ) as run:
            run["x"] = 1
        given = {
            "custom_run_id": {"custom_run_id": "one", "resume": "must"},
            "with_id": {"with_id": run.id if there else "abcdefgh01234567"},
        }
        cases.append((str(place), ranks, given[name]))
    ours, its = on_ranks(forks, tmp_path, RAISES.format(cases=cases, quiet=QUIET))
    assert ours == ["began", "RunNotFoundError"] * 4
    assert its == ["began"] * 4 + ["began", "RunNotFoundError"] * 2
    for place, ranks, given in cases:
        assert Path(place, "root1").exists() == (ranks == "all" or place.endswith("False")), given


@pytest.mark.once
def test_a_restarted_job_is_one_attempt_on_all_ranks(forks, tmp_path):
    """Whatever each sees of earlier attempts on its own disk."""
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
        dist.destroy_process_group()
    """
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "train"}
    run, other = on_ranks(forks, tmp_path, code, **job)
    assert run == other
    assert attempts(tmp_path, 0, run) == [0, 1, 2]
    assert attempts(tmp_path, 1, run) == [2]


GOES_ON = """
    join()
    run = begin(ranks="all", **json.loads(sys.argv[3]))
    state = json.loads(os.environ["STATE"])
    try:
        found = run.resumed(state) if state else run
        found.log_metrics({"loss": rank}, 1)
        said = found.id, found.checkpoint_state()
        found.stop()
    except SeamarkError as error:
        said = type(error).__name__, None
    dist.barrier()
    print(json.dumps(said))
    dist.destroy_process_group()
"""


def went_on(forks, tmp_path, state, meet, **given):
    code = GOES_ON.replace("sys.argv[3]", repr(json.dumps(given)))
    return on_ranks(forks, tmp_path, code, meet, STATE=json.dumps(state))


@pytest.mark.parametrize("given", [{}, {"custom_run_id": "one"}], ids=["new", "given"])
@pytest.mark.once
@pytest.mark.thorough
def test_rank_0_decides_what_a_checkpoint_is_of(forks, tmp_path, given):
    """All go over to its run, or begin it, as one attempt, though rank 1 has never seen it."""
    (run, state), (other, _) = went_on(forks, tmp_path, None, "first", **given)
    assert run == other
    for meet in ("second", "third"):
        again = went_on(forks, tmp_path, state, meet, **given)
        assert [found for found, _ in again] == [run, run]
        if meet == "second":
            (tmp_path / "root1").rename(tmp_path / "gone")
    zero = attempts(tmp_path, 0, run)
    assert zero[-1] == attempts(tmp_path, 1, run)[-1] == 2
    assert given or (zero, attempts(tmp_path, 1, run)) == ([0, 1, 2], [2])


@pytest.mark.once
@pytest.mark.thorough
def test_a_checkpoint_whose_run_rank_0_does_not_see(forks, tmp_path):
    """It is a new run on all ranks, or an error on all."""
    (run, state), _ = went_on(forks, tmp_path, None, "first")
    (tmp_path / "root0").rename(tmp_path / "gone")
    (new, _), (other, _) = went_on(forks, tmp_path, state, "second")
    assert new == other != run


@pytest.mark.once
def test_a_hand_made_checkpoint_holds_what_each_rank_recorded_before(forks, tmp_path):
    """Rank 0 saves while rank 1 is behind; each calls ``checkpoint_state`` at the same place."""
    code = """
        run = begin(ranks="all", custom_run_id="one")
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
        dist.destroy_process_group()
    """
    state, _ = on_ranks(forks, tmp_path, "root = sys.argv[1] + '/root0'" + textwrap.dedent(code))
    with init_run("p", root=tmp_path / "root0", custom_run_id="one", **QUIET) as run:
        run.resumed(state).log_metrics({"loss": 9}, 3)
    read = init_run("p", root=tmp_path / "root0", custom_run_id="one", mode="read-only")
    assert read["loss"].fetch_points().value.tolist() == [0, 1, 2, 9]
    assert read["ranks/1/loss"].fetch_points().value.tolist() == [0, 1, 2]
