"""Identity of the launcher's job to which this process belongs, and its number of restarts."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from typing import Final

from seamark.process.liveness import process_start
from seamark.process.rank import number

__all__ = ["job_key", "restart_count", "same_job"]

_PART: Final = ";"
_COUNTS: Final = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
"""Variables with the number of restarts, of torchrun and of SLURM."""


def job_key(environment: Mapping[str, str] | None = None) -> str | None:
    """Return a key that does not change when a launcher restarts this job; None without a launcher.

    Up to two parts, joined by ``;``: ``slurm:<job>`` or ``slurm:<array job>_<task>``, and
    ``torchelastic:<run id>:<host>:<pid>:<start>`` of the agent that watches this worker (its
    parent). A job may have both, and either may restart it: compare with `same_job`.

    Args:
        environment: Used instead of ``os.environ``.
    """
    env = os.environ if environment is None else environment
    return _PART.join(_job_parts(env)) or None


def _job_parts(env: Mapping[str, str]) -> Iterator[str]:
    array, task = env.get("SLURM_ARRAY_JOB_ID"), env.get("SLURM_ARRAY_TASK_ID")
    if array and task:
        yield f"slurm:{array}_{task}"
    elif job := env.get("SLURM_JOB_ID"):
        yield f"slurm:{job}"
    if run := env.get("TORCHELASTIC_RUN_ID"):
        agent = os.getppid()
        yield f"torchelastic:{run}:{socket.gethostname()}:{agent}:{process_start(agent)}"


def restart_count(environment: Mapping[str, str] | None = None) -> int:
    """Return how often a launcher restarted this job.

    The larger one of torchrun's and SLURM's counts; 0 without them.

    Args:
        environment: Used instead of ``os.environ``.
    """
    env = os.environ if environment is None else environment
    return max([number(env, name) or 0 for name in _COUNTS if name in env], default=0)


def same_job(recorded: str | None, environment: Mapping[str, str] | None = None) -> bool:
    """Return whether this process is a restart of the job that had the key ``recorded``.

    True only after a restart, and only if the part of the key that belongs to the launcher is
    equal: a job that SLURM requeued has a new torchrun agent, one that torchrun restarted has the
    same of both.

    Args:
        recorded: What `job_key` returned then.
        environment: Used instead of ``os.environ``.
    """
    env = os.environ if environment is None else environment
    by_torchrun, by_slurm = (number(env, name) or 0 for name in _COUNTS)
    then = set((recorded or "").split(_PART))
    now = list(_job_parts(env))
    if by_torchrun:
        return bool(now) and then == set(now)
    restarted = [part for part in now if part.startswith("slurm:")]
    return by_slurm > 0 and bool(restarted) and then.issuperset(restarted)
