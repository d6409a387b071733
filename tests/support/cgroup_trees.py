"""What Linux says of control groups in several places, as files below a root: recorded answers.

Ids are shortened, and what nobody reads is left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

GIB: Final = 2**30
NO_LIMIT_1: Final = 9223372036854771712
"""What version 1 writes where there is no limit."""

Tree = dict[str, str]

DOCKER_V2: Final[Tree] = {
    # docker run --cpus 1.5 --memory 2g, with a namespace of groups of its own
    "proc/self/cgroup": "0::/\n",
    "sys/fs/cgroup/memory.max": f"{2 * GIB}\n",
    "sys/fs/cgroup/memory.current": f"{GIB + 300_000_000}\n",
    "sys/fs/cgroup/memory.stat": f"anon {GIB}\nfile 300000000\ninactive_file 250000000\n",
    "sys/fs/cgroup/cpu.max": "150000 100000\n",
    "sys/fs/cgroup/cpu.stat": "usage_usec 61500000\nuser_usec 60000000\nsystem_usec 1500000\n",
}

DOCKER_V1: Final[Tree] = {
    # docker run --cpus 2 --memory 4g: the path is the host's, what is mounted begins at it
    "proc/self/cgroup": (
        "12:memory:/docker/4f1e\n5:cpu,cpuacct:/docker/4f1e\n1:name=systemd:/docker/4f1e\n"
    ),
    "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{4 * GIB}\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{3 * GIB}\n",
    "sys/fs/cgroup/memory/memory.stat": f"cache {GIB}\ntotal_inactive_file {GIB}\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "200000\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/cpu,cpuacct/cpuacct.usage": "90000000000\n",
}

DOCKER_V1_FREE: Final[Tree] = {
    # docker run without limits
    **DOCKER_V1,
    "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{NO_LIMIT_1}\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
}

_POD = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7c1.slice"

KUBERNETES_V2: Final[Tree] = {
    # A container without limits of its own in a pod that has some, seen with the host's groups
    "proc/self/cgroup": f"0::{_POD}/cri-containerd-91a.scope\n",
    f"sys/fs/cgroup{_POD}/cri-containerd-91a.scope/memory.max": "max\n",
    f"sys/fs/cgroup{_POD}/cri-containerd-91a.scope/memory.current": f"{5 * GIB}\n",
    f"sys/fs/cgroup{_POD}/cri-containerd-91a.scope/memory.stat": "inactive_file 0\n",
    f"sys/fs/cgroup{_POD}/cri-containerd-91a.scope/cpu.max": "max 100000\n",
    f"sys/fs/cgroup{_POD}/cri-containerd-91a.scope/cpu.stat": "usage_usec 7000000\n",
    f"sys/fs/cgroup{_POD}/memory.max": f"{8 * GIB}\n",
    f"sys/fs/cgroup{_POD}/memory.current": f"{6 * GIB}\n",
    f"sys/fs/cgroup{_POD}/memory.stat": f"inactive_file {GIB}\n",
    f"sys/fs/cgroup{_POD}/cpu.max": "400000 100000\n",
    f"sys/fs/cgroup{_POD}/cpu.stat": "usage_usec 8000000\n",
    "sys/fs/cgroup/kubepods.slice/memory.max": f"{60 * GIB}\n",
    "sys/fs/cgroup/kubepods.slice/memory.current": f"{40 * GIB}\n",
    "sys/fs/cgroup/kubepods.slice/cpu.max": "max 100000\n",
}

SLURM_V1: Final[Tree] = {
    # sbatch --mem=32G, ConstrainRAMSpace=yes: the job is limited, its steps and tasks are not
    "proc/self/cgroup": (
        "9:memory:/slurm/uid_1000/job_77/step_0/task_0\n"
        "4:cpuset:/slurm/uid_1000/job_77/step_0\n"
        "3:cpu,cpuacct:/\n"
    ),
    "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{NO_LIMIT_1}\n",
    "sys/fs/cgroup/memory/slurm/uid_1000/memory.limit_in_bytes": f"{NO_LIMIT_1}\n",
    "sys/fs/cgroup/memory/slurm/uid_1000/job_77/memory.limit_in_bytes": f"{32 * GIB}\n",
    "sys/fs/cgroup/memory/slurm/uid_1000/job_77/memory.usage_in_bytes": f"{20 * GIB}\n",
    "sys/fs/cgroup/memory/slurm/uid_1000/job_77/memory.stat": "total_inactive_file 0\n",
    "sys/fs/cgroup/memory/slurm/uid_1000/job_77/step_0/memory.limit_in_bytes": f"{NO_LIMIT_1}\n",
    "sys/fs/cgroup/memory/slurm/uid_1000/job_77/step_0/task_0/memory.limit_in_bytes": (
        f"{NO_LIMIT_1}\n"
    ),
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
}

HYBRID: Final[Tree] = {
    # A host with version 1 for controllers and version 2 for systemd alone; no limits
    "proc/self/cgroup": "4:memory:/\n1:name=systemd:/user.slice\n0::/user.slice\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{NO_LIMIT_1}\n",
    "sys/fs/cgroup/unified/user.slice/cgroup.procs": "1\n",
}


def write_tree(tree: Tree, root: Path) -> Path:
    """Write the files of a tree below a root, and return that."""
    for name, text in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root
