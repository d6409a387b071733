"""A job is what its launcher says outlives its processes, and only a restart is the same job."""

from __future__ import annotations

import os
import re

from seamark.process.job import job_key, restart_count, same_job


def test_a_job_is_named_by_what_outlives_its_processes():
    """SLURM's job, or task of an array; torchrun's run with the agent that watches."""
    assert job_key({}) is None
    assert job_key({"SLURM_JOB_ID": "7"}) == "slurm:7"
    array = {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2"}
    assert job_key(array) == "slurm:7_2"
    elastic = job_key({"TORCHELASTIC_RUN_ID": "r"})
    assert re.fullmatch(rf"torchelastic:r:.*:{os.getppid()}:\d+", elastic or "")
    assert job_key({"TORCHELASTIC_RUN_ID": "r", "SLURM_JOB_ID": "7"}) == f"slurm:7;{elastic}"


def test_only_a_restart_is_the_same_job():
    """Two runs of one script in one allocation are two runs."""
    job = {"SLURM_JOB_ID": "7"}
    key = job_key(job)
    assert restart_count(job) == 0
    assert not same_job(key, job)
    again = {**job, "SLURM_RESTART_COUNT": "1"}
    assert restart_count(again) == 1
    assert same_job(key, again)
    assert not same_job("slurm:8", again)
    assert not same_job(None, again)
    assert not same_job(key, {"SLURM_RESTART_COUNT": "1"})


def test_a_worker_that_torchrun_restarted_has_the_same_agent():
    """And one that SLURM requeued has another, under the same job."""
    both = {"SLURM_JOB_ID": "7", "TORCHELASTIC_RUN_ID": "r"}
    key = job_key(both)
    other_agent = f"slurm:7;torchelastic:r:host:{os.getppid()}:1"
    elastic = {**both, "TORCHELASTIC_RESTART_COUNT": "1"}
    assert same_job(key, elastic)
    assert not same_job(other_agent, elastic)
    requeued = {**both, "SLURM_RESTART_COUNT": "1"}
    assert same_job(other_agent, requeued)
