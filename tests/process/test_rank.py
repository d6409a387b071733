"""The rank of a process is what its launcher says, at the moment of asking."""

from __future__ import annotations

import os
import re
import sys
import types
from pathlib import Path

import pytest

from seamark.process.rank import Rank, current_rank, job_key, lasting, same_job

NONE = Rank(0, None, None, "none")
OPENMPI = {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "6"}
NODES = {"NODE_RANK": "1", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "8"}
OF_NODES = ("lightning", "NODE_RANK, LOCAL_RANK")
TORCHRUN = {"TORCHELASTIC_RUN_ID": "r", "RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}
SRUN = {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "train", "SLURM_NTASKS": "4", "SLURM_PROCID": "2"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, NONE),
        (TORCHRUN, Rank(3, 8, "torchrun", "RANK")),
        ({"RANK": "1", "WORLD_SIZE": "2"}, Rank(1, 2, "env", "RANK")),
        ({"HOROVOD_RANK": "1", "HOROVOD_SIZE": "2"}, Rank(1, 2, "horovod", "HOROVOD_RANK")),
        # Lightning's script launcher: what rank 1 has at construction
        ({"LOCAL_RANK": "1", "NODE_RANK": "0", "WORLD_SIZE": "2"}, Rank(1, 2, *OF_NODES)),
        # ... and the first process of the second node: not 0 is what matters
        ({"NODE_RANK": "1", "MASTER_ADDR": "a"}, Rank(1, None, *OF_NODES)),
        (NODES, Rank(6, 8, *OF_NODES)),
        (OPENMPI, Rank(5, 6, "openmpi", "OMPI_COMM_WORLD_RANK")),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, Rank(1, 2, "mpich", "PMI_RANK")),
        ({"MV2_COMM_WORLD_RANK": "1"}, Rank(1, None, "mvapich", "MV2_COMM_WORLD_RANK")),
        ({"JSM_NAMESPACE_RANK": "1"}, Rank(1, None, "jsrun", "JSM_NAMESPACE_RANK")),
        (SRUN, Rank(2, 4, "slurm", "SLURM_PROCID")),
        ({**SRUN, "SLURM_STEP_NUM_TASKS": "3"}, Rank(2, 3, "slurm", "SLURM_PROCID")),
        ({**SRUN, "SLURM_JOB_NAME": "bash"}, NONE),
        ({**SRUN, "SLURM_NTASKS": "1", "SLURM_PROCID": "0"}, NONE),
        ({**SRUN, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}, NONE),
        ({"SLURM_PROCID": "1"}, NONE),
        # torchrun, Lightning or Horovod inside of a SLURM step know better than SLURM
        ({**SRUN, **TORCHRUN}, Rank(3, 8, "torchrun", "RANK")),
        ({**SRUN, "LOCAL_RANK": "0"}, Rank(0, None, *OF_NODES)),
        ({**SRUN, "PMI_RANK": "2", "PMI_SIZE": "4"}, Rank(2, 4, "mpich", "PMI_RANK")),
        # nonsense is as good as nothing
        ({"RANK": "", "LOCAL_RANK": "x", "HOROVOD_RANK": "-1", "PMI_RANK": "²"}, NONE),
    ],
)
def test_rank_is_that_of_the_variables_of_each_launcher(environment, expected):
    """The table in the module's docstring, row by row."""
    assert current_rank(environment) == expected


def test_each_variable_of_a_rank_is_documented():
    """In the table in the module's docstring, and on the page about distributed trainings."""
    module = sys.modules[Rank.__module__]
    page = Path(__file__).parents[2] / "docs" / "howto" / "distributed.md"
    for text in (module.__doc__ or "", page.read_text("utf-8")):
        missing = {name for name in module._VARIABLES if not re.search(rf"\b{name}\b", text)}
        assert missing == set()


def put_module(monkeypatch, name, **members):
    module = types.ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)


def test_initialised_process_group_or_horovod_is_asked_itself(monkeypatch):
    """The launcher is still told by its variables; Horovod has none under mpirun."""
    group = {"is_available": lambda: True, "get_rank": lambda: 5, "get_world_size": lambda: 8}
    put_module(monkeypatch, "torch.distributed", **group, is_initialized=lambda: True)
    assert current_rank({}) == Rank(5, 8, None, "torch.distributed")
    assert current_rank(TORCHRUN) == Rank(5, 8, "torchrun", "torch.distributed")
    put_module(monkeypatch, "torch.distributed", **group, is_initialized=lambda: False)
    assert current_rank(TORCHRUN) == Rank(3, 8, "torchrun", "RANK")
    put_module(monkeypatch, "torch.distributed")
    assert current_rank({}) == NONE
    horovod = {"is_initialized": lambda: True, "rank": lambda: 1, "size": lambda: 2}
    put_module(monkeypatch, "horovod.torch", **horovod)
    assert current_rank({}) == Rank(1, 2, "horovod", "horovod.torch")


def test_rank_of_horovod_is_checked_without_asking_for_every_source(monkeypatch):
    """A silent rank checks it at every step: with the variables it would take 20 times as long."""
    ranks = [1, 1, 2]
    horovod = {"is_initialized": lambda: True, "rank": lambda: ranks.pop(0), "size": lambda: 3}
    put_module(monkeypatch, "horovod.torch", **horovod)
    holds = lasting(current_rank({}))
    assert holds is not None
    assert [holds(), holds(), holds()] == [True, False, False]  # then it raises: it was shut down


def test_rank_of_rank_zero_only_counts_unless_it_is_zero(monkeypatch):
    """Zero is also what it says before it was told; under Horovod it says so in every process."""
    function = types.SimpleNamespace(rank=0)
    module = "lightning_utilities.core.rank_zero"
    put_module(monkeypatch, module, rank_zero_only=function)
    assert current_rank({"HOROVOD_RANK": "1"}).rank == 1
    assert current_rank({"LOCAL_RANK": "1"}).rank == 1
    assert current_rank({}) == NONE
    function.rank = 2
    assert current_rank({}) == Rank(2, None, "lightning", "rank_zero_only.rank")
    put_module(monkeypatch, module, rank_zero_only=lambda: None)
    assert current_rank({}) == NONE


def test_job_is_named_by_what_outlives_its_processes():
    assert job_key({}) is None
    assert job_key({"SLURM_JOB_ID": "7"}) == "slurm:7"
    array = {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2"}
    assert job_key(array) == "slurm:7_2"
    elastic = job_key({"TORCHELASTIC_RUN_ID": "r"})
    assert re.fullmatch(rf"torchelastic:r:.*:{os.getppid()}:\d+", elastic or "")
    assert job_key({"TORCHELASTIC_RUN_ID": "r", "SLURM_JOB_ID": "7"}) == f"slurm:7;{elastic}"


def test_worker_that_torchrun_restarted_has_the_same_agent():
    both = {"SLURM_JOB_ID": "7", "TORCHELASTIC_RUN_ID": "r"}
    key = job_key(both)
    other_agent = f"slurm:7;torchelastic:r:host:{os.getppid()}:1"
    elastic = {**both, "TORCHELASTIC_RESTART_COUNT": "1"}
    assert same_job(key, elastic)
    assert not same_job(other_agent, elastic)
    requeued = {**both, "SLURM_RESTART_COUNT": "1"}
    assert same_job(other_agent, requeued)
