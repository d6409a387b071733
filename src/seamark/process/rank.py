"""Rank and job of this process, as launchers announce them.

Results are not cached and no library is imported: with several launchers the rank is unknown when a
logger is constructed or unpickled in a worker. Frequent callers may cache a rank while the check of
`lasting` returns true. The first available source in this table is used:

==  ===========================================  =========  =====================================
no  source                                       launcher   when it is available
==  ===========================================  =========  =====================================
1   ``torch.distributed``, an initialised        as below   from ``init_process_group`` on; in
    process group                                           Lightning before any call of a logger
2   ``horovod.torch``, initialised               horovod    from ``hvd.init()`` on, also under
                                                            ``mpirun``
3   TORCHELASTIC_RUN_ID with RANK, WORLD_SIZE    torchrun   from the start of each worker
4   HOROVOD_RANK, HOROVOD_SIZE                   horovod    from the start of each worker;
                                                            Lightning's own rank is 0 in all of
                                                            them until a Trainer is made
5   RANK, WORLD_SIZE                             env        DeepSpeed, accelerate, Kubernetes
6   ``rank_zero_only.rank``, above 0             lightning  ``ddp_spawn``, ``ddp_fork``: from the
                                                            start of training in the worker (1.9
                                                            sets no variables there at all)
7   NODE_RANK, LOCAL_RANK, LOCAL_WORLD_SIZE,     lightning  its script launcher: from the start
    WORLD_SIZE                                              for ranks above 0; rank 0 is the
                                                            process that was there before, which
                                                            has no variable until ``fit``
8   OMPI_COMM_WORLD_RANK, PMIX_RANK              openmpi    from the start
    MV2_COMM_WORLD_RANK                          mvapich
    PMI_RANK (MPICH, Intel MPI)                  mpich
    JSM_NAMESPACE_RANK                           jsrun
9   SLURM_PROCID with SLURM_STEP_NUM_TASKS or    slurm      from the start, in steps of several
    SLURM_NTASKS above 1                                    tasks that ``srun`` started; not in an
                                                            interactive shell (a job named
                                                            ``bash`` or ``interactive``)
10  none of these                                none       rank 0
==  ===========================================  =========  =====================================

Number 7 is not exact on other nodes without LOCAL_WORLD_SIZE. It still distinguishes rank 0, which
records, from the others. Numbers 1 and 6 are exact once training starts.
"""

from __future__ import annotations

import os
import socket
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from seamark.process.interrupts import let_pass, quietly
from seamark.process.liveness import process_start

_TORCHRUN: Final = (("torchrun", "RANK", "WORLD_SIZE"), ("horovod", "HOROVOD_RANK", "HOROVOD_SIZE"))
_ENVIRONMENT: Final = (("horovod", "HOROVOD_RANK", "HOROVOD_SIZE"), ("env", "RANK", "WORLD_SIZE"))
_MPI: Final = (
    ("openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("openmpi", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("mvapich", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("mpich", "PMI_RANK", "PMI_SIZE"),
    ("jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
)
_RANK_ZERO_MODULE: Final = "lightning_utilities.core.rank_zero"
"""Module with the ``rank_zero_only`` of Lightning 1.9 and later."""
_CONSTANT_VARIABLES: Final = frozenset(
    {"RANK", "HOROVOD_RANK", "SLURM_PROCID", *(rank for _, rank, _ in _MPI)}
)
"""Variables that do not change during the life of a process, except for a RANK set by the user."""
_LOCAL_RANKS: Final = (
    "LOCAL_RANK",
    "HOROVOD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "JSM_NAMESPACE_LOCAL_RANK",
    "SLURM_LOCALID",
)
_INTERACTIVE: Final = frozenset({"bash", "interactive"})
_VARIABLES: Final = _CONSTANT_VARIABLES | {"NODE_RANK", "LOCAL_RANK"}
_LIBRARIES: Final = frozenset({"torch.distributed", "horovod.torch", _RANK_ZERO_MODULE})


@dataclass(frozen=True, slots=True)
class Rank:
    """Position of this process among the processes of a training.

    Attributes:
        rank: 0-based number over all nodes.
        world_size: Number of processes of the training, or None if unknown.
        launcher: ``"torchrun"``, ``"horovod"``, ``"lightning"``, ``"slurm"``, ``"openmpi"``,
            ``"mpich"``, ``"mvapich"``, ``"jsrun"``, ``"env"`` (RANK is set otherwise), or None for
            a single process.
        source: Source of the rank, such as ``"HOROVOD_RANK"`` or ``"torch.distributed"``, or
            ``"none"``.
    """

    rank: int
    world_size: int | None
    launcher: str | None
    source: str


_SINGLE: Final = Rank(0, None, None, "none")


def current_rank(env: Mapping[str, str] = os.environ) -> Rank:
    """Return the rank of this process by the table at the top of this module. Never raises."""
    if _LIBRARIES.isdisjoint(sys.modules) and _VARIABLES.isdisjoint(env):
        return _SINGLE
    launched = (
        _rank_from_variables(env, _TORCHRUN if "TORCHELASTIC_RUN_ID" in env else _ENVIRONMENT)
        or _lightning_worker_rank(env)
        or _lightning_variables_rank(env)
        or _rank_from_variables(env, _MPI)
        or _slurm_rank(env)
        or _SINGLE
    )
    group = _torch_rank()
    if group is not None:
        return Rank(*group, launched.launcher, "torch.distributed")
    horovod = _horovod_rank()
    if horovod is not None:
        return Rank(*horovod, "horovod", "horovod.torch")
    return launched


def local_rank(env: Mapping[str, str] = os.environ) -> int | None:
    """Return the launcher's 0-based number of this process on its host; None without a launcher."""
    return next((found for name in _LOCAL_RANKS if (found := number(env, name)) is not None), None)


# --------------------------------------------------------------------- imported libraries


def _torch_rank() -> tuple[int, int] | None:
    module: Any = sys.modules.get("torch.distributed")
    with quietly():  # partially imported, or being torn down
        if module is not None and module.is_available() and module.is_initialized():
            return int(module.get_rank()), int(module.get_world_size())
    return None


def _horovod_rank() -> tuple[int, int] | None:
    module: Any = sys.modules.get("horovod.torch")
    with quietly():  # horovod.torch.mpi_ops raises before init
        if module is not None and module.is_initialized():
            return int(module.rank()), int(module.size())
    return None


def _lightning_worker_rank(env: Mapping[str, str]) -> Rank | None:
    """Return Lightning's rank if it is above 0; it is 0 until Lightning determines it."""
    function = getattr(sys.modules.get(_RANK_ZERO_MODULE), "rank_zero_only", None)
    rank = getattr(function, "rank", None)
    if not isinstance(rank, int) or rank <= 0:
        return None
    return Rank(rank, number(env, "WORLD_SIZE"), "lightning", "rank_zero_only.rank")


def connected() -> bool:
    """Return whether the ranks can communicate yet."""
    return _torch_rank() is not None or _horovod_rank() is not None


def lasting(rank: Rank) -> Callable[[], bool] | None:
    """Return a quick check that the last result of `current_rank` still holds, or None.

    This is for ranks above 0, which record nothing, so that `current_rank` is not called at every
    step. Ranks of a process group and of Horovod hold until it is destroyed or initialised again.
    Variables set by the launcher hold until there is a group. The check is invalid after a fork.
    """
    if rank.source == "torch.distributed":
        return _same_group_check()
    if rank.source == "horovod.torch":
        return _same_horovod_check(rank.rank)
    if rank.source in _CONSTANT_VARIABLES:
        return _no_group_check(rank.source if rank.launcher == "env" else None)
    return None


def _same_group_check() -> Callable[[], bool] | None:
    with quietly():  # a group of another type
        member: Any = sys.modules["torch.distributed"].GroupMember
        # A weak reference, so that a destroyed group can close its connections.
        group = weakref.ref(member.WORLD)
        return lambda: member.WORLD is group()
    return None


def _same_horovod_check(rank: int) -> Callable[[], bool]:
    module: Any = sys.modules["horovod.torch"]

    def same() -> bool:
        with quietly():  # shut down, and perhaps initialised again later
            return bool(module.rank() == rank)
        return False

    return same


def _no_group_check(variable: str | None) -> Callable[[], bool]:
    """Return a check that no process group exists and the variable is unchanged."""
    modules, environment = sys.modules, os.environ
    value = None if variable is None else environment.get(variable)

    def same() -> bool:
        torch: Any = modules.get("torch.distributed")
        horovod: Any = modules.get("horovod.torch")
        try:
            if torch is not None and torch.GroupMember.WORLD is not None:
                return False
            if horovod is not None and horovod.is_initialized():
                return False
        except Exception as error:  # noqa: BLE001 - partially imported, or built without support
            let_pass(error)
            return False
        return variable is None or environment.get(variable) == value

    return same


alone: Final = _no_group_check(None)
"""Return whether the ranks are certainly not connected yet; very fast."""


def broadcast_from_rank_zero(text: str) -> str | None:
    """Return rank 0's text on every rank; None for a single process. All ranks must call this.

    Uses torch's process group if it is initialised, otherwise Horovod. For a group that supports
    only GPU tensors, a temporary CPU group is created, because the device of this process may not
    be selected yet. Raises RuntimeError if the group fails.
    """
    group = _torch_rank()
    if group is not None:
        return _broadcast_by_torch(text) if group[1] > 1 else None
    horovod = _horovod_rank()
    if horovod is None or horovod[1] == 1:
        return None
    module: Any = sys.modules["horovod.torch"]
    return str(module.broadcast_object(text, root_rank=0, name="seamark"))


def _broadcast_by_torch(text: str) -> str:
    module: Any = sys.modules["torch.distributed"]
    backend = str(module.get_backend()).lower()
    side = None
    has_gloo = getattr(module, "is_gloo_available", bool)  # missing in old releases
    if "gloo" not in backend and backend != "mpi" and has_gloo():
        side = module.new_group(backend="gloo")
    try:
        texts = [text]
        module.broadcast_object_list(texts, src=0, group=side)
    finally:
        if side is not None:
            module.destroy_process_group(side)
    return str(texts[0])


# --------------------------------------------------------------------- variables


def number(env: Mapping[str, str], name: str) -> int | None:
    """Return a variable as a non-negative int, or None."""
    text = env.get(name, "").strip()
    return int(text) if text.isascii() and text.isdigit() else None


def _rank_from_variables(
    env: Mapping[str, str], launchers: Iterable[tuple[str, str, str]]
) -> Rank | None:
    for launcher, rank, size in launchers:
        if (found := number(env, rank)) is not None:
            return Rank(found, number(env, size), launcher, rank)
    return None


def _lightning_variables_rank(env: Mapping[str, str]) -> Rank | None:
    node, local = number(env, "NODE_RANK"), number(env, "LOCAL_RANK")
    if node is None and local is None:
        return None
    rank = (node or 0) * (number(env, "LOCAL_WORLD_SIZE") or 1) + (local or 0)
    return Rank(rank, number(env, "WORLD_SIZE"), "lightning", "NODE_RANK, LOCAL_RANK")


def _slurm_rank(env: Mapping[str, str]) -> Rank | None:
    """Return the task's rank in a step started by ``srun``; None in an interactive shell."""
    tasks = number(env, "SLURM_STEP_NUM_TASKS") or number(env, "SLURM_NTASKS")
    if tasks is None or tasks == 1 or env.get("SLURM_JOB_NAME") in _INTERACTIVE:
        return None
    rank = number(env, "SLURM_PROCID")
    return None if rank is None else Rank(rank, tasks, "slurm", "SLURM_PROCID")


_PART_SEPARATOR: Final = ";"
_RESTART_COUNTS: Final = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
"""Environment variables with the number of restarts by torchrun and SLURM."""


def job_key(env: Mapping[str, str] = os.environ) -> str | None:
    """Return a key that stays the same when a launcher restarts this job; None without a launcher.

    The key has up to two parts, joined by ``;``: ``slurm:<job>`` or ``slurm:<array job>_<task>``,
    and ``torchelastic:<run id>:<host>:<pid>:<start>`` of the agent of this worker (its parent). A
    job may have both, and be restarted by either: compare keys with `same_job`.
    """
    return _PART_SEPARATOR.join(_job_parts(env)) or None


def _job_parts(env: Mapping[str, str]) -> Iterator[str]:
    array, task = env.get("SLURM_ARRAY_JOB_ID"), env.get("SLURM_ARRAY_TASK_ID")
    if array and task:
        yield f"slurm:{array}_{task}"
    elif job := env.get("SLURM_JOB_ID"):
        yield f"slurm:{job}"
    if run := env.get("TORCHELASTIC_RUN_ID"):
        agent = os.getppid()
        yield f"torchelastic:{run}:{socket.gethostname()}:{agent}:{process_start(agent)}"


def restart_count(env: Mapping[str, str] = os.environ) -> int:
    """Return the number of restarts of this job by torchrun or SLURM, whichever is larger."""
    return max([number(env, name) or 0 for name in _RESTART_COUNTS if name in env], default=0)


def same_job(recorded: str | None, env: Mapping[str, str] = os.environ) -> bool:
    """Return whether this process is a restart of the job with the `job_key` ``recorded``.

    True only after a restart, and only if the part of the restarting launcher is equal: a job that
    was requeued by SLURM has a new torchrun agent, while a restart by torchrun changes neither
    part.
    """
    by_torchrun, by_slurm = (number(env, name) or 0 for name in _RESTART_COUNTS)
    then = set((recorded or "").split(_PART_SEPARATOR))
    now = list(_job_parts(env))
    if by_torchrun:
        return bool(now) and then == set(now)
    restarted = [part for part in now if part.startswith("slurm:")]
    return by_slurm > 0 and bool(restarted) and then.issuperset(restarted)
