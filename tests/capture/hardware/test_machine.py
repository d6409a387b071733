"""Limits of containers, jobs and slices, from trees of files as several places have them."""

from __future__ import annotations

import pytest
from cgroup_trees import (
    DOCKER_V1,
    DOCKER_V1_FREE,
    DOCKER_V2,
    GIB,
    HYBRID,
    KUBERNETES_V2,
    SLURM_V1,
    write_tree,
)

from seamark.capture.hardware.machine import Cgroup

BESIDE = {**DOCKER_V1, "proc/self/cgroup": "12:memory:/one/x\n5:cpu,cpuacct:/one/x\n"}
"""The group of the process is not below the mounted one, whose limits are taken."""


def told(tree, root):
    """Return cores and time of the CPU limit, and size and use of the one of memory."""
    groups = Cgroup(write_tree(tree, root))
    cpu, memory = groups.cpu_limit(), groups.memory_limit()
    return (
        None if cpu is None else (cpu.cores, cpu.used_s()),
        None if memory is None else (memory.size, memory.used()),
    )


@pytest.mark.parametrize(
    ("tree", "cpu", "memory"),
    [
        (DOCKER_V2, (1.5, 61.5), (2 * GIB, GIB + 50_000_000)),
        (DOCKER_V1, (2.0, 90.0), (4 * GIB, 2 * GIB)),
        (BESIDE, (2.0, 90.0), (4 * GIB, 2 * GIB)),
        (DOCKER_V1_FREE, None, None),
        (KUBERNETES_V2, (4.0, 8.0), (8 * GIB, 5 * GIB)),
        (SLURM_V1, None, (32 * GIB, 20 * GIB)),
        (HYBRID, None, None),
        ({}, None, None),
    ],
    ids=[
        "docker 2",
        "docker 1",
        "beside",
        "no limit",
        "pod",
        "slurm",
        "hybrid",
        "no groups",
    ],
)
def test_the_tightest_limit_counts_and_what_its_group_uses(tree, cpu, memory, tmp_path):
    """From the group of the process up to what is mounted; without files the kernel gives back."""
    assert told(tree, tmp_path) == (cpu, memory)


def test_controllers_may_be_told_in_another_order_than_they_are_mounted(tmp_path):
    """As older kernels do; beside the mounted folder lie links of single names."""
    tree = {**DOCKER_V1, "proc/self/cgroup": "12:memory:/\n5:cpuacct,cpu:/\n"}
    told(tree, tmp_path)
    (tmp_path / "sys/fs/cgroup/cpu").symlink_to("cpu,cpuacct")
    assert Cgroup(tmp_path).cpu_limit().cores == 2.0


def test_an_outer_limit_that_is_tighter_counts(tmp_path):
    """A container may promise itself more than its pod has."""
    pod = next(name for name in KUBERNETES_V2 if name.endswith("pod7c1.slice/memory.max"))
    tree = {**KUBERNETES_V2, pod: f"{100 * GIB}\n"}
    assert told(tree, tmp_path)[1] == (60 * GIB, 40 * GIB)


@pytest.mark.parametrize("odd", ["", "-5", "0 0", "many", "9" * 40, "1 2 3", "150000 0"])
def test_what_makes_no_sense_is_no_limit(odd, tmp_path):
    tree = {**DOCKER_V2, "sys/fs/cgroup/memory.max": odd, "sys/fs/cgroup/cpu.max": odd}
    assert told(tree, tmp_path) == (None, None)


def test_a_group_whose_use_is_not_told_still_has_its_limit(tmp_path):
    tree = {
        name: text
        for name, text in DOCKER_V2.items()
        if not name.endswith(("memory.current", "cpu.stat"))
    }
    assert told(tree, tmp_path) == ((1.5, None), (2 * GIB, None))


def test_a_folder_in_the_place_of_a_file_is_no_limit(tmp_path):
    """As unreadable as a file gets, for root too; nothing raises."""
    (tmp_path / "sys/fs/cgroup/memory.max").mkdir(parents=True)
    tree = {name: text for name, text in DOCKER_V2.items() if not name.endswith("memory.max")}
    assert told(tree, tmp_path)[1] is None
