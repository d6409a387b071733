"""One training is one run under every launcher, with what the loggers beside it were told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from launching import MODERN, Launch
from reading import PREFIX, Recorded, calls, csv_rows, headers, plain, runs, told_rows

SCRIPTED = ("fit_test", "two_fits", "folds", "two_loggers")
FORKED = ("two_fits", "two_loggers")
SPAWNED = ("two_loggers",)  # each stage costs two processes that import torch
TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
ELSEWHERE = {"TEST_HOST": "lightning.pytorch"}
LAUNCHES = {
    "ddp": Launch("ddp", "DDPStrategy", scenarios=SCRIPTED),
    "ddp_spawn": Launch(
        "ddp_spawn", "DDPStrategy" if MODERN else "DDPSpawnStrategy", scenarios=SPAWNED
    ),
}
if MODERN:
    LAUNCHES |= {
        "ddp_fork": Launch("ddp_fork", "DDPStrategy", scenarios=FORKED, env=ELSEWHERE),
        "ddp_notebook": Launch("ddp_notebook", "DDPStrategy", scenarios=("two_loggers",)),
        "torchrun": Launch(
            "ddp",
            "DDPStrategy",
            (*TORCHRUN, "--standalone", "--nproc-per-node=2"),
            scenarios=("fit_test", "two_loggers"),
            env=ELSEWHERE,
        ),
        "two_nodes": Launch(
            "ddp",
            "DDPStrategy",
            (
                *TORCHRUN,
                "--nnodes=2",
                "--nproc-per-node=1",
                "--node-rank={agent}",
                "--master-addr=127.0.0.1",
                "--master-port={port}",
            ),
            agents=2,
            scenarios=("two_loggers",),
            env={"TEST_DEVICES": "1", "TEST_NODES": "2"},
        ),
    }
else:
    LAUNCHES["dp"] = Launch("dp", "DataParallelStrategy", scenarios=SCRIPTED)

# Launched as others are; what differs is Lightning's own.
MARKS = {"ddp_notebook": pytest.mark.thorough, "two_nodes": pytest.mark.thorough}
HOROVODRUN = (str(Path(sys.executable).with_name("horovodrun")), "-np", "2", "--gloo")
HOROVOD = Launch("horovod", "HorovodStrategy", (*HOROVODRUN, sys.executable), scenarios=SCRIPTED)

pytestmark = pytest.mark.launches


def each(scenario):
    """Parametrize over the launches that train this scenario."""
    found = [name for name, launch in LAUNCHES.items() if scenario in launch.scenarios]
    return pytest.mark.parametrize("name", marked(found))


def marked(names):
    """Return the parameters for these launches and Horovod's."""
    found = [pytest.param(name, marks=MARKS.get(name, ())) for name in names]
    return [*found, pytest.param("horovod", marks=pytest.mark.horovod)]


@pytest.fixture
def folder(launched, name):
    return launched(name, HOROVOD if name == "horovod" else LAUNCHES[name])


def check(recorded, beside, namespace=PREFIX):
    """Compare a run with what the two other loggers were told on rank 0."""
    rows = plain(recorded.rows(namespace))
    assert rows
    assert rows == plain(told_rows(beside))
    assert rows == plain(csv_rows(beside))
    params = calls(beside, "log_hyperparams")[-1]["params"]
    found = recorded.below(f"{namespace}hyperparams/")
    assert {name: one.value for name, one in found.items()} == params
    checkpoints = recorded.checkpoints(namespace)
    assert checkpoints
    assert len(set(checkpoints)) == len(checkpoints)
    assert all(path.is_file() for path in checkpoints)
    best = calls(beside, "after_save_checkpoint")[-1]["best"]
    assert recorded.value(f"{namespace}model/best_model_path") == best
    assert recorded.value("sys/state") == "completed"
    assert set(recorded.below("monitoring/seamark/")) <= {"changes"}  # nothing was dropped


def check_rank_zero(folder, project, run_count=1):
    """Nothing but the journals of rank 0 is in the project."""
    found = runs(folder, project)
    assert len(found) == run_count
    assert {one["rank"] for one in headers(folder, project)} == {0}


def check_user_code(recorded, rank=0):
    """What a module says to ``logger.experiment`` without asking for its rank."""
    assert set(recorded.run["own/rank"].fetch_points().value) == {rank}
    assert recorded.value("own/text") == f"rank {rank}"
    assert recorded.value("own/sets") == {f"rank {rank}"}


@each("fit_test")
def test_fit_then_test(folder):
    """Two stages of one Trainer, whose module holds the logger."""
    check_rank_zero(folder, "fit_test")
    recorded = Recorded(folder, "fit_test")
    check(recorded, folder / "fit_test")
    check_user_code(recorded)
    assert recorded.value("before") == "any Trainer"
    assert set(recorded.run["kept/rank"].fetch_points().value) == {0}
    assert recorded.value("sys/name") == "a fit"
    assert recorded.value("sys/tags") == {"x"}
    assert len(recorded.checkpoints()) == 3  # the two best and the last


@each("two_fits")
def test_two_fits(folder):
    """A second Trainer goes on with the run."""
    check_rank_zero(folder, "two_fits")
    check(Recorded(folder, "two_fits"), folder / "two_fits")


@each("folds")
def test_folds_with_a_logger_each(folder):
    found = set()
    for fold in range(2):
        project = f"folds-{fold}"
        check_rank_zero(folder, project)
        check(Recorded(folder, project), folder / project)
        found.update(runs(folder, project))
    assert len(found) == 2


@each("two_loggers")
@pytest.mark.thorough
def test_two_loggers_side_by_side(folder):
    """Each has its run, and all of the training in it."""
    check_rank_zero(folder, "two_loggers", run_count=2)
    prefixes = set()
    for run in runs(folder, "two_loggers"):
        recorded = Recorded(folder, "two_loggers", run)
        prefix = "other/" if recorded.below("other/") else PREFIX
        prefixes.add(prefix)
        check(recorded, folder / "two_loggers", prefix)
        check_user_code(recorded)
        assert recorded.value("sys/tags") == {"x"}
        if prefix == PREFIX:  # the one that the module holds
            assert set(recorded.run["kept/rank"].fetch_points().value) == {0}
            assert recorded.value("before") == "any Trainer"
    assert prefixes == {"other/", PREFIX}
    said = (folder / "versions").read_text().split()
    assert sorted(said) == runs(folder, "two_loggers")  # also where children recorded them


@each("two_loggers")
def test_every_rank_records(folder, name):
    """One run, agreed on by ranks of which each has minted an id; no rank says what another did."""
    ranks = (0, 1) if name != "dp" else (0,)
    assert {(one["rank"], one["owner"]) for one in headers(folder, "all_ranks")} == {
        (rank, rank == 0) for rank in ranks
    }
    recorded = Recorded(folder, "all_ranks")
    beside = folder / "two_loggers"
    check(recorded, beside)
    assert recorded.value("own/text") == "rank 0"
    assert recorded.value("own/sets") == {"rank 0"}
    steps = [0, 1, 2, 3] if name == "dp" else [0, 1]
    for rank in ranks:
        space = f"ranks/{rank}/" if rank else ""
        rows = plain(recorded.rows(f"{PREFIX}{space}"))
        assert rows == plain(told_rows(beside, rank))
        assert set(recorded.run[f"{space}own/rank"].fetch_points().value) == {rank}
        for kind in ("step", "own"):
            times = recorded.run[f"{space}profiling/{kind}_time_s"].fetch_points()
            assert list(times.step) == steps
            assert all(times.value > 0)
    for space in ("ranks/1/", f"{PREFIX}ranks/1/"):
        assert all(one.family == "float_series" for one in recorded.below(space).values())
    assert not recorded.below(f"{PREFIX}ranks/0/")


FACTS = {
    "ddp": {"launcher": "lightning", "world_size": 2, "nodes": 1, "devices": 2},
    "dp": {"launcher": None, "world_size": 1, "nodes": 1, "devices": 2},
    "torchrun": {"launcher": "torchrun", "world_size": 2, "nodes": 1, "devices": 2},
    "two_nodes": {"launcher": "torchrun", "world_size": 2, "nodes": 2, "devices": 1},
    "horovod": {"launcher": "horovod", "world_size": 2, "nodes": 1, "devices": 2},
}


@each("two_loggers")
def test_facts(folder, name):
    """How a training was distributed is told once, whatever the prefix."""
    launch = HOROVOD if name == "horovod" else LAUNCHES[name]
    expected = {
        "strategy": launch.becomes,
        "accelerator": "cpu",
        "precision": "32-true" if MODERN else "32",
        "batch_size": 2,
        "accumulate_grad_batches": 1,
        "effective_batch_size": 2 if name == "dp" else 4,
    } | FACTS.get(name, FACTS["ddp"])
    expected = {fact: value for fact, value in expected.items() if value is not None}
    for run in runs(folder, "two_loggers"):
        found = Recorded(folder, "two_loggers", run).below("distributed/")
        assert {fact: one.value for fact, one in found.items()} == expected


@pytest.mark.parametrize("name", marked(LAUNCHES))
def test_other_ranks_trained(folder, name):
    """The other rank was there, and had other numbers; under dp there is one process."""
    beside = folder / "two_loggers"
    others = sorted(path.name for path in beside.glob("calls-*.jsonl"))
    if name == "dp":
        assert others == ["calls-0.jsonl"]
        return
    assert others == ["calls-0.jsonl", "calls-1.jsonl"]
    zero, one = (told_rows(beside, rank) for rank in (0, 1))
    assert plain(zero) != plain(one)
