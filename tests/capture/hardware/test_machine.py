"""Limits of containers, jobs and slices, from trees of files as several places have them."""

from __future__ import annotations

import pytest
from cgroup_trees import DOCKER_V2, GIB, KUBERNETES_V2, write_tree

from seamark.capture.hardware.machine import limits

POD = next(name for name in KUBERNETES_V2 if name.endswith("pod7c1.slice/memory.max"))
DOCKER = ((1.5, 61.5), (2 * GIB, GIB + 50_000_000))
UNUSED = [name for name in DOCKER_V2 if name.endswith(("memory.current", "cpu.stat"))]


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        (DOCKER_V2, DOCKER),
        ({**DOCKER_V2, "proc/self/cgroup": "0::/docker/4f1e\n"}, DOCKER),
        ({**DOCKER_V2, "proc/self/cgroup": "0::/../../x\n"}, DOCKER),
        (KUBERNETES_V2, ((4.0, 8.0), (8 * GIB, 5 * GIB))),
        ({**KUBERNETES_V2, POD: f"{100 * GIB}\n"}, ((4.0, 8.0), (60 * GIB, 40 * GIB))),
        ({**DOCKER_V2, **dict.fromkeys(UNUSED, "")}, ((1.5, None), (2 * GIB, None))),
        ({}, (None, None)),
    ],
    ids=["docker", "path of the host", "a path upwards", "pod", "outer", "use unknown", "none"],
)
def test_the_tightest_limit_counts_and_what_its_group_uses(tree, told, tmp_path):
    """From the group of the process up to what is mounted; without files the kernel gives back."""
    cpu, memory = limits(write_tree(tree, tmp_path))
    assert (cpu and (cpu.cores, cpu.used_s()), memory and (memory.size, memory.used())) == told


@pytest.mark.parametrize("odd", ["", "-5", "0 0", "many", "9" * 40, "1 2 3", "150000 0"])
def test_what_makes_no_sense_is_no_limit(odd, tmp_path):
    tree = {**DOCKER_V2, "sys/fs/cgroup/memory.max": odd, "sys/fs/cgroup/cpu.max": odd}
    assert limits(write_tree(tree, tmp_path)) == (None, None)


def test_a_folder_in_the_place_of_a_file_is_no_limit(tmp_path):
    """As unreadable as a file gets, for root too; nothing raises."""
    (tmp_path / "sys/fs/cgroup/memory.max").mkdir(parents=True)
    tree = {name: text for name, text in DOCKER_V2.items() if not name.endswith("memory.max")}
    assert limits(write_tree(tree, tmp_path))[1] is None
