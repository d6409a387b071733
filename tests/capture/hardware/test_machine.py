"""Limits of containers, jobs and slices, from trees of files as several places have them."""

from __future__ import annotations

import os
import sys
import types

import pytest
from cgroup_trees import DOCKER_V2, GIB, KUBERNETES_V2, write_tree

from seamark.capture.hardware import machine
from seamark.capture.hardware.gpus import Gpus
from seamark.capture.hardware.machine import Machine, limits

POD = next(name for name in KUBERNETES_V2 if name.endswith("pod7c1.slice/memory.max"))
DOCKER = ((1.5, 61.5), (2 * GIB, GIB + 50_000_000))
OTHER = {
    "proc/self/cgroup": "0::/system.slice/docker-4f1e.scope\n",
    "sys/fs/cgroup/system.slice/memory.max": f"{GIB}\n",
}
UNUSED = [name for name in DOCKER_V2 if name.endswith(("memory.current", "cpu.stat"))]


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        (DOCKER_V2, DOCKER),
        ({**DOCKER_V2, "proc/self/cgroup": "0::/docker/4f1e\n"}, DOCKER),
        ({**DOCKER_V2, "proc/self/cgroup": "0::/../../x\n"}, DOCKER),
        ({**DOCKER_V2, **OTHER}, DOCKER),
        (KUBERNETES_V2, ((4.0, 8.0), (8 * GIB, 5 * GIB))),
        ({**KUBERNETES_V2, POD: f"{100 * GIB}\n"}, ((4.0, 8.0), (60 * GIB, 40 * GIB))),
        ({**DOCKER_V2, **dict.fromkeys(UNUSED, "")}, ((1.5, None), (2 * GIB, None))),
        ({}, (None, None)),
    ],
    ids=[
        "docker",
        "path of the host",
        "a path upwards",
        "a path of the same name",
        "pod",
        "outer",
        "use unknown",
        "none",
    ],
)
def test_tightest_limit_and_use_of_its_group_count(tree, told, tmp_path):
    """From the group of the process up to what is mounted; without files the kernel gives back."""
    cpu, memory = limits(write_tree(tree, tmp_path))
    assert (cpu and (cpu.cores, cpu.used_s()), memory and (memory.size, memory.used())) == told


@pytest.mark.parametrize(
    "odd", ["", "-5", "0 0", "many", "9" * 40, "1 2 3", "150000 0", "a folder"]
)
def test_nonsense_and_unreadable_files_are_no_limit(odd, tmp_path):
    files = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/cpu.max")
    write_tree({name: text for name, text in DOCKER_V2.items() if name not in files}, tmp_path)
    for name in files:
        if odd == "a folder":  # as unreadable as a file gets, for root too
            (tmp_path / name).mkdir()
        else:
            (tmp_path / name).write_text(odd)
    assert limits(tmp_path) == (None, None)


class Held:
    """Lock of a driver that another run asks for some time, in seconds."""

    def __init__(self, held_s):
        self.held_s = held_s
        self.waits = []

    def acquire(self, timeout):
        self.waits.append(timeout)
        return timeout > self.held_s

    def release(self):
        pass


def opened_gpus():
    found = Gpus()
    found.facts["gpu"] = "one"
    return found


def test_driver_that_another_run_opens_is_waited_for_once(monkeypatch):
    monkeypatch.setattr(machine, "_open_gpus", opened_gpus)
    monkeypatch.setitem(machine._driver_locks, os.getpid(), Held(5))
    assert list(Machine().facts())[1] == {"gpu": "one"}
    hung = Held(float("inf"))
    monkeypatch.setitem(machine._driver_locks, os.getpid(), hung)
    waiting = Machine()
    assert list(waiting.facts())[1] == {}
    assert waiting.read().gpus == waiting.read().gpus == {}
    assert hung.waits[1:] == [0, 0]


def test_forked_child_does_not_wait_for_the_driver_of_its_parent(monkeypatch):
    monkeypatch.setattr(machine, "_open_gpus", opened_gpus)
    with machine._driver_locks[os.getpid()]:
        child = os.fork()
        if not child:
            code = 1
            try:
                assert list(Machine().facts())[1] == {"gpu": "one"}
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0


AMDSMI = """
class AmdSmiTemperatureType:
    EDGE, HOTSPOT = 0, 1

class AmdSmiTemperatureMetric:
    CURRENT = 0

opened = []
amdsmi_init = lambda: opened.append(True)
amdsmi_shut_down = opened.clear
amdsmi_get_processor_handles = lambda: ["first", "second"]
amdsmi_get_gpu_asic_info = lambda handle: {"market_name": "AMD Instinct MI300X"}
amdsmi_get_gpu_driver_info = lambda handle: {"driver_name": "amdgpu", "driver_version": "6.8.5"}
amdsmi_get_gpu_vram_usage = lambda handle: {"vram_total": 196592, "vram_used": 2048}

def amdsmi_get_gpu_activity(handle):
    if handle == "second":
        raise RuntimeError("AMDSMI_STATUS_NOT_SUPPORTED")
    return {"gfx_activity": 87, "umc_activity": 10, "mm_activity": "N/A"}

def amdsmi_get_power_info(handle):
    assert opened
    return {"current_socket_power": "N/A", "average_socket_power": 512}

def amdsmi_get_temp_metric(handle, kind, metric):
    if kind == AmdSmiTemperatureType.EDGE:
        raise RuntimeError("AMDSMI_STATUS_NOT_SUPPORTED")
    return 66
"""


@pytest.mark.parametrize(
    ("visible", "numbers"), [(None, [0, 1]), ("1", [1]), ("", []), ("GPU-1", [0, 1])]
)
def test_gpus_of_amd_are_asked_where_rocm_has_its_module(monkeypatch, visible, numbers):
    """A module that answers what its documents say; no real one was seen.

    It does not count who has opened it: another run that ends takes nothing away.
    """
    smi = types.ModuleType("amdsmi")
    exec(AMDSMI, vars(smi))
    monkeypatch.setitem(sys.modules, "amdsmi", smi)
    monkeypatch.setattr(machine, "pynvml", types.ModuleType("pynvml"))
    monkeypatch.delenv("ROCR_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("HIP_VISIBLE_DEVICES", visible)
    asked, other = Machine(), Machine()
    _, facts = asked.facts()
    other.read()
    other.close()
    both = {"gpu_memory": 2.0, "gpu_power": 512.0, "gpu_temperature": 66.0}
    expected = {0: {"gpu": 87.0, **both}, 1: both}
    assert asked.read().gpus == {number: expected[number] for number in numbers}
    if numbers:
        assert facts == {
            "gpu": "AMD Instinct MI300X",
            "gpu_count": len(numbers),
            "gpu_memory": pytest.approx(191.98, abs=0.01),
            "driver": "6.8.5",
        }
