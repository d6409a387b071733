"""What a run records of its machine: when, what, under which names, and what it never holds up."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from cgroup_trees import DOCKER_V2, GIB, write_tree

from seamark.capture.hardware import BEGIN_S, EVERY_S, FIRST_S, Hardware, between
from seamark.capture.hardware.machine import Machine, Reading, _open_gpus, usage


class Clock:
    """Seconds that pass when somebody waits, up to the end of a run."""

    now = 0.0

    def __init__(self, end: float) -> None:
        self.end = end

    def __call__(self) -> float:
        return self.now

    def get(self, timeout: float) -> None:
        self.now = min(self.now + timeout, self.end)
        if self.now < self.end:
            raise queue.Empty


class Steady(Machine):
    """A machine that does the same all the time, as its clock goes."""

    gpus: tuple[int, ...] = ()

    def __init__(self, clock) -> None:
        super().__init__(clock=clock)
        self.clock = clock
        self.reads: list[float] = []
        self.closed = 0

    def facts(self):
        yield {"cpu": "A CPU", "memory": 64.0}
        yield {"gpu_count": len(self.gpus)}

    def read(self, place=None) -> Reading:
        self.reads.append(self.clock.now)
        found = Reading(self.clock.now)
        found.present = {"memory": 12.0, "process_memory": 3.0, "disk_free": 72.0}
        found.counted = {"cpu": 40 * self.clock.now, "process_cores": 1.5 * self.clock.now}
        found.gpus = {number: {"gpu": 90.0 + number, "gpu_power": 300.0} for number in self.gpus}
        return found

    def close(self) -> None:
        self.closed += 1


class Recorded:
    """The part of a run that captures write to, in memory, with the time of each record."""

    place = os.curdir
    machine: Steady | None = None

    def __init__(self, clock=lambda: 0.0) -> None:
        self.clock = clock
        self.facts: dict[str, object] = {}
        self.rows: list[tuple[float, dict[str, float]]] = []

    def assign_quietly(self, atoms) -> None:
        self.facts.update(atoms)

    def append_numbers(self, numbers) -> None:
        self.rows.append((self.clock(), dict(numbers)))


def sample(end, *, machine=Steady, run=Recorded, **given):
    """Sample a machine to the end of a run; return the run."""
    clock = Clock(end)
    recorded = run(clock)

    def made():
        recorded.machine = machine(clock)
        return recorded.machine

    hardware = Hardware(recorded, "m", machine=made, clock=clock, **given)
    hardware._ended = clock
    hardware.sample(clock)
    return recorded


def with_gpus(*numbers):
    return type("WithGpus", (Steady,), {"gpus": numbers})


@pytest.mark.parametrize(
    ("end", "rows"),
    [
        *((0.4, []), (1.4, []), (1.5, [1.5]), (2.5, [2.0]), (3.0, [2.0, 3.0])),
        (27.5, [2.0, 12.0, 22.0, 27.5]),
    ],
)
def test_samples_come_soon_then_at_an_interval_and_at_the_end(end, rows):
    run = sample(end)
    assert (BEGIN_S, FIRST_S, EVERY_S) == (0.5, 2.0, 10.0)
    assert [at for at, _ in run.rows] == rows
    if end > BEGIN_S:
        assert (run.machine.reads, run.machine.closed) == ([0.5, *rows], 1)
    else:
        assert run.machine is None


@pytest.mark.parametrize("name", ["__init__", "facts", "close"])
def test_machine_that_fails_raises_nothing(name, monkeypatch):
    monkeypatch.setattr(Steady, name, lambda *_: 1 / 0)
    sample(3.0)


def test_failure_of_the_machine_or_the_run_costs_one_sample():
    class Failing(Steady):
        def read(self, place=None):
            if self.clock.now == 2.0:
                raise OSError
            return super().read()

    class Full(Recorded):
        def append_numbers(self, numbers) -> None:
            if self.clock() == 12.0:
                raise OSError
            super().append_numbers(numbers)

    run = sample(22.5, machine=Failing, run=Full)
    assert [at for at, _ in run.rows] == [22.0]
    assert run.rows[0][1]["m/cpu"] == pytest.approx(40)


def test_rates_are_those_of_the_time_between_two_samples():
    run = sample(23)
    expected = {
        "m/cpu": pytest.approx(40.0),
        "m/memory": 12.0,
        "m/disk_free": 72.0,
        "m/process_cores": pytest.approx(1.5),
        "m/process_memory": 3.0,
    }
    assert [row for _, row in run.rows] == [expected] * 4
    assert len({tuple(row) for _, row in run.rows}) == 1
    facts = {"cpu": "A CPU", "memory": 64.0, "gpu_count": 0}
    assert run.facts == {f"m/environment/{name}": value for name, value in facts.items()}


def test_rates_that_cannot_be_computed_are_left_out():
    before = Reading(0.0, {}, {"a": 10.0, "b": 5.0})
    after = Reading(10.0, {"memory": 1.0}, {"a": 4.0, "b": 25.0, "c": 1.0})
    assert between(before, after) == {"memory": 1.0, "b": 2.0}
    after.at = 0.0
    assert between(before, after) == {"memory": 1.0}
    before, after = Reading(0.0, {}, {"cpu": 0.0}), Reading(1.0, {}, {"cpu": 101.0})
    assert between(before, after) == {"cpu": 100.0}


def test_one_gpu_has_no_number_and_several_have_that_of_nvidia_smi():
    for gpus, names in [
        ((3,), {"m/gpu", "m/gpu_power"}),
        ((1, 2), {"m/gpu_1", "m/gpu_2", "m/gpu_power_1", "m/gpu_power_2"}),
    ]:
        run = sample(3, machine=with_gpus(*gpus))
        assert {name for name in run.rows[0][1] if "gpu" in name} == names


@pytest.mark.parametrize(
    ("environment", "host", "gpus"),
    [
        ({"RANK": "0", "LOCAL_RANK": "0"}, True, {"gpu_0", "gpu_1"}),
        ({"RANK": "1", "LOCAL_RANK": "1"}, False, {"gpu_1"}),
        ({"RANK": "3", "LOCAL_RANK": "3"}, False, {"gpu_0", "gpu_1"}),
        ({"RANK": "8", "LOCAL_RANK": "0"}, True, {"gpu_0"}),
        ({"RANK": "1"}, True, {"gpu_0", "gpu_1"}),
    ],
    ids=["rank 0", "its gpu", "more ranks than gpus", "next host", "one on each host"],
)
def test_first_rank_of_a_host_records_the_host_and_each_rank_itself(
    environment, host, gpus, monkeypatch
):
    for name, value in {"WORLD_SIZE": "16", **environment}.items():
        monkeypatch.setenv(name, value)
    run = sample(3, machine=with_gpus(0, 1))
    names = {name.removeprefix("m/") for name in run.rows[0][1]}
    assert ("cpu" in names, "memory" in names, "disk_free" in names) == (host, host, host)
    assert {"process_cores", "process_memory"} <= names
    assert {name for name in names if name.startswith("gpu_") and "power" not in name} == gpus


@pytest.mark.parametrize(("facts", "metrics"), [(True, False), (False, True)])
def test_facts_and_numbers_have_switches_of_their_own(facts, metrics):
    run = sample(5, facts=facts, metrics=metrics)
    assert (bool(run.facts), bool(run.rows)) == (facts, metrics)


def test_numbers_are_near_to_those_of_the_kernel():
    machine = Machine()
    facts = {name: value for part in machine.facts() for name, value in part.items()}
    reading = machine.read()
    assert facts["memory"] == pytest.approx(psutil.virtual_memory().total / GIB)
    assert facts["cpu_count"] == os.cpu_count()
    assert 0 < facts["cpu_usable"] <= os.cpu_count()
    assert 0 < reading.present["memory"] < facts["memory"]
    with Path("/proc/self/status").open(encoding="ascii") as status:
        (resident,) = (line.split()[1] for line in status if line.startswith("VmRSS"))
    seconds, memory = usage()
    assert memory >= int(resident) * 1024 * 0.5
    assert seconds >= sum(os.times()[:2]) * 0.5
    rates = {"disk_read_rate", "disk_write_rate", "network_receive_rate", "network_send_rate"}
    assert set(reading.counted) == {"process_cores", "cpu", *rates}
    assert "disk_free" not in reading.present
    free = machine.read(Path("/")).present["disk_free"]
    assert free == pytest.approx(psutil.disk_usage("/").free / GIB, rel=0.1)
    assert "disk_free" not in machine.read(Path("/no/such/place")).present


def test_percent_and_memory_are_those_of_the_container(tmp_path, monkeypatch):
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    machine = Machine(write_tree(DOCKER_V2, tmp_path))
    facts = next(machine.facts())
    assert (facts["cpu_usable"], facts["memory_limit"]) == (1.5, 2.0)
    before = machine.read()
    assert before.present["memory"] == pytest.approx((GIB + 50_000_000) / GIB)
    write_tree({"sys/fs/cgroup/cpu.stat": f"usage_usec {61_500_000 + 7_500_000}\n"}, tmp_path)
    after = machine.read()
    before.at, after.at = -10.0, 0.0
    assert between(before, after)["cpu"] == pytest.approx(50)


def test_percent_is_of_the_cores_that_may_be_used(monkeypatch):

    class Times(tuple):
        __slots__ = ()
        idle = property(lambda self: self[1])

    times = [Times(each) for each in ((10.0, 90.0), (80.0, 20.0), (60.0, 40.0))]
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 3)
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu=False: times)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 2})
    assert Machine().read().counted["cpu"] == pytest.approx(100 * 140 / 2)


def test_children_and_their_children_are_counted():
    code = """
import subprocess, sys
hold = "import sys; sys.stdin.read()"
inner = subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE)
data = bytearray(50 << 20)
print(inner.pid, flush=True)
sys.stdin.read()
inner.stdin.close()
inner.wait()  # its time passes to who waits for it, and would be lost otherwise
"""
    _, before = usage()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as child:
        inner = int(child.stdout.readline())
        below = psutil.Process().children(recursive=True)
        assert {child.pid, inner} <= {each.pid for each in below}
        seconds, memory = usage()
        child.stdin.close()
        child.wait()
    assert memory - before > 50 << 20
    assert usage()[0] >= seconds


def test_process_that_vanishes_is_left_out(monkeypatch):
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    monkeypatch.setattr(
        "seamark.capture.hardware.machine._process_tree", lambda: [gone.pid, os.getpid()]
    )
    assert usage()[1] > 1 << 20


def hardware_threads():
    return {one for one in threading.enumerate() if one.name == "seamark-hardware"}


class Told(Machine):
    """A machine that answers when it is told to, as a driver that hangs."""

    def __init__(self) -> None:
        super().__init__()
        self.let, self.asked = threading.Event(), threading.Event()

    def facts(self):
        self.asked.set()
        self.let.wait()
        yield {"told": 1}


def test_facts_are_recorded_once_and_the_thread_ends_with_the_run():
    run, machine = Recorded(), Told()
    machine.let.set()
    hardware = Hardware(run, "m", machine=lambda: machine)
    for facts in ({"m/environment/told": 1}, {}):
        run.facts.clear()
        others = hardware_threads()
        hardware.start()
        hardware.start()  # started already: nothing
        (thread,) = hardware_threads() - others
        assert thread.daemon
        assert machine.asked.wait(60)
        hardware.stop(60)
        hardware.stop(60)
        thread.join(60)
        assert run.facts == facts
    none = Hardware(run, "m", facts=False, metrics=False)
    others = hardware_threads()
    none.start()
    none.stop(60)
    assert hardware_threads() <= others


def test_machine_that_hangs_holds_nothing_up():
    run, machine = Recorded(), Told()
    hardware = Hardware(run, "m", machine=lambda: machine)
    others = hardware_threads()
    hardware.start()
    assert machine.asked.wait(60)
    (thread,) = hardware_threads() - others
    hardware.stop(0.01)  # does not return before something answers, or the time is over
    assert thread.is_alive()
    machine.let.set()
    thread.join(60)
    assert not thread.is_alive()
    assert (run.facts, run.rows) == ({}, [])


class Nvml:
    """A driver without visible devices."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., object]:
        return lambda *_: self.calls.append(name) or {"nvmlSystemGetDriverVersion": "595"}.get(name)


@pytest.mark.parametrize("amd", ["none", "odd", "some"])
def test_driver_without_visible_gpus_is_closed_too(monkeypatch, amd):
    """It is still recorded, unless there are GPUs of AMD, also if their library answers oddly."""
    nvml, smi = Nvml(), types.ModuleType("amdsmi")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    smi.amdsmi_get_processor_handles = lambda: [] if amd == "none" else ["one"]
    smi.amdsmi_get_gpu_asic_info = lambda _: "text" if amd == "odd" else {}
    monkeypatch.setattr("seamark.capture.hardware.machine.pynvml", nvml)
    monkeypatch.setitem(sys.modules, "amdsmi", smi)
    gpus = _open_gpus()
    assert gpus.facts.get("driver") == (None if amd == "some" else "595")
    for _ in range(2):
        gpus.close()
    assert nvml.calls.count("nvmlShutdown") == 1
