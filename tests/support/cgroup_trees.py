"""What Linux says of control groups in several places, as files below a root: recorded answers.

Ids are shortened, and what nobody reads is left out.
"""

from __future__ import annotations

GIB = 2**30

DOCKER_V2 = {
    # docker run --cpus 1.5 --memory 2g, with a namespace of groups of its own
    "proc/self/cgroup": "0::/\n",
    "sys/fs/cgroup/memory.max": f"{2 * GIB}\n",
    "sys/fs/cgroup/memory.current": f"{GIB + 300_000_000}\n",
    "sys/fs/cgroup/memory.stat": f"anon {GIB}\nfile 300000000\ninactive_file 250000000\n",
    "sys/fs/cgroup/cpu.max": "150000 100000\n",
    "sys/fs/cgroup/cpu.stat": "usage_usec 61500000\nuser_usec 60000000\nsystem_usec 1500000\n",
}

_POD = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7c1.slice"

KUBERNETES_V2 = {
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


def write_tree(tree, root):
    for name, text in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root
