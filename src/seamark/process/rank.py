"""Rank and job of this process, as launchers announce them.

Nothing is cached between calls and nothing is imported: with several launchers the rank is not
known when a logger is constructed, or when it is unpickled in a worker. (Frequent callers may cache
a rank for as long as the check of `lasting` returns true.) The first available source in this
table is used:

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

Number 7 cannot be exact on further nodes without LOCAL_WORLD_SIZE. It distinguishes rank 0 from the
others, which determines the process that records; numbers 1 and 6 are exact once training starts.
"""

from __future__ import annotations

import os
import socket
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from seamark.process.interrupts import let_pass
from seamark.process.liveness import process_start

__all__ = [
    "Rank",
    "alone",
    "broadcast_from_rank_zero",
    "connected",
    "current_rank",
    "job_key",
    "lasting",
    "local_rank",
    "restart_count",
    "same_job",
]


_TORCHRUN: Final = (("torchrun", "RANK", "WORLD_SIZE"), ("horovod", "HOROVOD_RANK", "HOROVOD_SIZE"))
_STARTED: Final = (("horovod", "HOROVOD_RANK", "HOROVOD_SIZE"), ("env", "RANK", "WORLD_SIZE"))
_MPI: Final = (
    ("openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("openmpi", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("mvapich", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("mpich", "PMI_RANK", "PMI_SIZE"),
    ("jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
)
_RANK_ZERO_MODULES: Final = (
    "lightning_utilities.core.rank_zero",
    "lightning_fabric.utilities.rank_zero",
    "lightning_lite.utilities.rank_zero",
    "pytorch_lightning.utilities.rank_zero",
)
_AT_START: Final = frozenset(
    {"RANK", "HOROVOD_RANK", "SLURM_PROCID", *(rank for _, rank, _ in _MPI)}
)
"""Variables that do not change during the life of a process, except for a RANK set by the user."""
_LOCAL: Final = (
    "LOCAL_RANK",
    "HOROVOD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "JSM_NAMESPACE_LOCAL_RANK",
    "SLURM_LOCALID",
)
_INTERACTIVE: Final = frozenset({"bash", "interactive"})
_VARIABLES: Final = _AT_START | {"NODE_RANK", "LOCAL_RANK"}
_LIBRARIES: Final = frozenset({"torch.distributed", "horovod.torch", *_RANK_ZERO_MODULES})


@dataclass(frozen=True, slots=True)
class Rank:
    """Position of this process among those that train together.

    Attributes:
        rank: 0-based, over all nodes.
        world_size: Number of processes that train together, or None if that is not known (yet).
        launcher: ``"torchrun"``, ``"horovod"``, ``"lightning"``, ``"slurm"``, ``"openmpi"``,
            ``"mpich"``, ``"mvapich"``, ``"jsrun"``, ``"env"`` (RANK is set otherwise), or None for
            a single process.
        source: Such as ``"HOROVOD_RANK"`` or ``"torch.distributed"``; ``"none"`` if there is none.
    """

    rank: int
    world_size: int | None
    launcher: str | None
    source: str


_ALONE: Final = Rank(0, None, None, "none")


def current_rank(environment: Mapping[str, str] | None = None) -> Rank:
    """Return the rank of this process by the table at the top of this module. Never raises."""
    env = os.environ if environment is None else environment
    if _LIBRARIES.isdisjoint(sys.modules) and _VARIABLES.isdisjoint(env):
        return _ALONE
    launched = (
        _from_variables(env, _TORCHRUN if "TORCHELASTIC_RUN_ID" in env else _STARTED)
        or _rank_zero_only(env)
        or _lightning(env)
        or _from_variables(env, _MPI)
        or _slurm(env)
        or _ALONE
    )
    group = _process_group()
    if group is not None:
        return Rank(*group, launched.launcher, "torch.distributed")
    horovod = _horovod()
    if horovod is not None:
        return Rank(*horovod, "horovod", "horovod.torch")
    return launched


def local_rank(environment: Mapping[str, str] | None = None) -> int | None:
    """Return this process's 0-based number on its host by its launcher; None without one."""
    env = os.environ if environment is None else environment
    return next((found for name in _LOCAL if (found := number(env, name)) is not None), None)


# --------------------------------------------------------------------- libraries that are loaded
# already


def _process_group() -> tuple[int, int] | None:
    module: Any = sys.modules.get("torch.distributed")
    try:
        if module is not None and module.is_available() and module.is_initialized():
            return int(module.get_rank()), int(module.get_world_size())
    except Exception as error:  # noqa: BLE001 - half imported, or being torn down
        let_pass(error)
    return None


def _horovod() -> tuple[int, int] | None:
    module: Any = sys.modules.get("horovod.torch")
    try:
        if module is not None and module.is_initialized():
            return int(module.rank()), int(module.size())
    except Exception as error:  # noqa: BLE001 - horovod.torch.mpi_ops raises before init
        let_pass(error)
    return None


def _rank_zero_only(env: Mapping[str, str]) -> Rank | None:
    """Return the rank that Lightning has; before it knows its rank, that is 0 too."""
    for name in _RANK_ZERO_MODULES:
        function = getattr(sys.modules.get(name), "rank_zero_only", None)
        rank = getattr(function, "rank", None)
        if isinstance(rank, int) and rank > 0:
            return Rank(rank, number(env, "WORLD_SIZE"), "lightning", "rank_zero_only.rank")
    return None


def connected() -> bool:
    """Return whether the ranks can talk to each other yet."""
    return _process_group() is not None or _horovod() is not None


def lasting(rank: Rank) -> Callable[[], bool] | None:
    """Return a quick check that the last result of `current_rank` still holds, or None.

    For ranks above 0, which record nothing and are not to pay for asking at every step. A process
    group and Horovod are the last word until they are left or initialised again; what a launcher
    gave a process at its start holds until there is a group. A fork makes the check worthless.
    """
    if rank.source == "torch.distributed":
        return _while_same_group()
    if rank.source == "horovod.torch":
        return _while_same_horovod(rank.rank)
    if rank.source in _AT_START:
        return _while_alone(rank.source if rank.launcher == "env" else None)
    return None


def _while_same_group() -> Callable[[], bool] | None:
    try:
        member: Any = sys.modules["torch.distributed"].GroupMember
        # Weakly: a group that is left must not be kept from closing its connections.
        group = weakref.ref(member.WORLD)
    except Exception as error:  # noqa: BLE001 - a group of a kind of its own
        let_pass(error)
        return None
    return lambda: member.WORLD is group()


def _while_same_horovod(rank: int) -> Callable[[], bool]:
    module: Any = sys.modules["horovod.torch"]

    def same() -> bool:
        try:
            return bool(module.rank() == rank)
        except Exception as error:  # noqa: BLE001 - shut down, perhaps to be initialised again
            let_pass(error)
            return False

    return same


def _while_alone(variable: str | None) -> Callable[[], bool]:
    """Check that no process group was joined and the variables are unchanged."""
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
        except Exception as error:  # noqa: BLE001 - half imported, or built without
            let_pass(error)
            return False
        return variable is None or environment.get(variable) == value

    return same


alone: Final = _while_alone(None)
"""Return whether the ranks are certainly not connected yet; nearly free."""


def broadcast_from_rank_zero(text: str) -> str | None:
    """Return rank 0's text on every rank, all of which call this; None where there are no others.

    It goes over torch's process group if one is initialised, else over Horovod. A group that moves
    tensors between GPUs only is left alone: which device this process will use may not be settled
    yet, so a group for the CPU is made for the moment. Raises RuntimeError if the group fails.
    """
    group = _process_group()
    if group is not None:
        return _broadcast_by_torch(text) if group[1] > 1 else None
    horovod = _horovod()
    if horovod is None or horovod[1] == 1:
        return None
    module: Any = sys.modules["horovod.torch"]
    return str(module.broadcast_object(text, root_rank=0, name="seamark"))


def _broadcast_by_torch(text: str) -> str:
    module: Any = sys.modules["torch.distributed"]
    backend = str(module.get_backend()).lower()
    side = None
    has_gloo = getattr(module, "is_gloo_available", bool)  # not in old releases
    if "gloo" not in backend and backend != "mpi" and has_gloo():
        side = module.new_group(backend="gloo")
    try:
        said = [text]
        module.broadcast_object_list(said, src=0, group=side)
    finally:
        if side is not None:
            module.destroy_process_group(side)
    return str(said[0])


# --------------------------------------------------------------------- variables


def number(env: Mapping[str, str], name: str) -> int | None:
    """Return a variable as an int of at least 0, or None."""
    text = env.get(name, "").strip()
    return int(text) if text.isascii() and text.isdigit() else None


def _from_variables(
    env: Mapping[str, str], launchers: Iterable[tuple[str, str, str]]
) -> Rank | None:
    for launcher, rank, size in launchers:
        if (found := number(env, rank)) is not None:
            return Rank(found, number(env, size), launcher, rank)
    return None


def _lightning(env: Mapping[str, str]) -> Rank | None:
    node, local = number(env, "NODE_RANK"), number(env, "LOCAL_RANK")
    if node is None and local is None:
        return None
    rank = (node or 0) * (number(env, "LOCAL_WORLD_SIZE") or 1) + (local or 0)
    return Rank(rank, number(env, "WORLD_SIZE"), "lightning", "NODE_RANK, LOCAL_RANK")


def _slurm(env: Mapping[str, str]) -> Rank | None:
    """Return the task's rank in a step that ``srun`` started; a shell is not a training."""
    tasks = number(env, "SLURM_STEP_NUM_TASKS") or number(env, "SLURM_NTASKS")
    if tasks is None or tasks == 1 or env.get("SLURM_JOB_NAME") in _INTERACTIVE:
        return None
    rank = number(env, "SLURM_PROCID")
    return None if rank is None else Rank(rank, tasks, "slurm", "SLURM_PROCID")


_PART: Final = ";"
_COUNTS: Final = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
"""Environment variables of torchrun and SLURM with the number of restarts."""


def job_key(environment: Mapping[str, str] | None = None) -> str | None:
    """Return a key that does not change when a launcher restarts this job; None without a launcher.

    Up to two parts, joined by ``;``: ``slurm:<job>`` or ``slurm:<array job>_<task>``, and
    ``torchelastic:<run id>:<host>:<pid>:<start>`` of the agent that watches this worker (its
    parent). A job may have both, and either may restart it: compare with `same_job`.
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
    """Return how often torchrun or SLURM (the larger count) restarted this job, or 0."""
    env = os.environ if environment is None else environment
    return max([number(env, name) or 0 for name in _COUNTS if name in env], default=0)


def same_job(recorded: str | None, environment: Mapping[str, str] | None = None) -> bool:
    """Return whether this process is a restart of the job whose `job_key` was ``recorded``.

    True only after a restart, and only if the part of the key that belongs to the launcher is
    equal: a job that SLURM requeued has a new torchrun agent, one that torchrun restarted has the
    same of both.
    """
    env = os.environ if environment is None else environment
    by_torchrun, by_slurm = (number(env, name) or 0 for name in _COUNTS)
    then = set((recorded or "").split(_PART))
    now = list(_job_parts(env))
    if by_torchrun:
        return bool(now) and then == set(now)
    restarted = [part for part in now if part.startswith("slurm:")]
    return by_slurm > 0 and bool(restarted) and then.issuperset(restarted)
