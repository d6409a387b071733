"""What a run records of its machine: when, what, under which names, and what it never holds up."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from cgroup_trees import DOCKER_V2, GIB, write_tree

from seamark.capture.hardware import BEGIN_S, EVERY_S, FIRST_S, Hardware, Sampler, between
from seamark.capture.hardware.machine import Machine, Reading, Values, usage

MIB = 2**20


class Clock:
    """Seconds that pass when somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Commands:
    """Commands that come at given times; between them the clock goes on to what is waited for."""

    def __init__(self, clock, *planned) -> None:
        self._clock = clock
        self._planned = sorted(planned, key=lambda one: one[0])

    def empty(self) -> bool:
        return not self._planned

    def get(self, timeout):
        if self._planned and self._planned[0][0] <= self._clock.now + timeout:
            at, *command = self._planned.pop(0)
            self._clock.now = max(at, self._clock.now)
            return tuple(command)
        if not timeout and self._planned:  # nobody listens, and somebody will
            self._clock.now = self._planned[0][0]
        self._clock.now += timeout
        raise queue.Empty


class Steady(Machine):
    """A machine that does the same all the time, as its clock goes."""

    gpus: tuple[int, ...] = ()
    own: frozenset[int] = frozenset()

    def __init__(self, clock) -> None:
        super().__init__(clock=clock)
        self.clock = clock
        self.reads: list[float] = []
        self.closed = 0

    def facts(self):
        yield {"cpu": "A CPU", "memory": 64.0}
        yield {"gpu_count": len(self.gpus)}

    def read(self) -> Reading:
        self.reads.append(self.clock.now)
        found = Reading(self.clock.now)
        found.host = Values({"memory": 12.0}, {"cpu": 40 * self.clock.now})
        found.process = Values({"process_memory": 3.0}, {"process_cores": 1.5 * self.clock.now})
        found.gpus = {number: {"gpu": 90.0 + number, "gpu_power": 300.0} for number in self.gpus}
        return found

    @property
    def gpu_numbers(self):
        return list(self.gpus)

    def own_gpus(self):
        return self.own

    def free(self, place):
        return 72.0

    def close(self) -> None:
        self.closed += 1


class Recorded:
    """The part of a run that captures write to, in memory, with the time of each record."""

    place = os.curdir

    def __init__(self, clock=None) -> None:
        self.clock = clock
        self.facts: dict[str, object] = {}
        self.rows: list[tuple[float, dict[str, float]]] = []

    def assign_quietly(self, atoms) -> None:
        self.facts.update(atoms)

    def append_numbers(self, numbers) -> None:
        self.rows.append((self.clock.now if self.clock else 0.0, dict(numbers)))


class Held:
    """Takes what would be added to a sampler."""

    def add(self, listener) -> None:
        self.listener = listener


def listener_of(run, **given):
    held = Held()
    Hardware(run, "m", sampler=held, **given).start()
    return held.listener


@pytest.fixture
def clock() -> Clock:
    return Clock()


def serve(clock, *planned):
    """Run a sampler to its end; return its machine."""
    machine = Steady(clock)
    Sampler(lambda: machine, clock, Commands(clock, *planned)).serve()
    return machine


# ------------------------------------------------------------------ when


def test_samples_come_soon_then_at_an_interval_and_at_the_end(clock):
    """The first one after two seconds, of what was since half a second; the last is of the rest."""
    run = Recorded(clock)
    one = listener_of(run)
    machine = serve(clock, (0, one, True), (27.5, one, False))
    assert (BEGIN_S, FIRST_S, EVERY_S) == (0.5, 2.0, 10.0)
    assert [at for at, _ in run.rows] == [2.0, 12.0, 22.0, 27.5]
    assert machine.reads == [0.5, 2.0, 12.0, 22.0, 27.5]
    assert machine.closed
    assert one.ended.get_nowait() is True


@pytest.mark.parametrize(("end", "rows"), [(0.4, 0), (1.4, 0), (1.5, 1), (2.5, 1), (3.0, 2)])
def test_the_last_sample_is_of_a_second_at_least(clock, end, rows):
    """A rate of less says nothing; a run that was shorter has no sample."""
    run = Recorded(clock)
    one = listener_of(run)
    serve(clock, (0, one, True), (end, one, False))
    assert len(run.rows) == rows


def test_all_runs_of_a_process_share_readings(clock):
    """Who would be due within a second of another one is told then."""
    first, second = Recorded(clock), Recorded(clock)
    one, two = listener_of(first), listener_of(second)
    machine = serve(clock, (0, one, True), (0.25, two, True), (30, one, False), (31.25, two, False))
    assert [at for at, _ in first.rows] == [2.0, 12.0, 22.0, 30.0]
    assert [at for at, _ in second.rows] == [2.0, 12.0, 22.0, 31.25]
    assert machine.reads == [0.5, 0.75, 2.0, 12.0, 22.0, 30.0, 31.25]
    assert [one.ended.get_nowait(), two.ended.get_nowait()] == [False, True]


def test_a_run_that_cannot_record_takes_nothing_from_others(clock):
    """Nor from the thread."""

    class Broken(Recorded):
        def append_numbers(self, numbers) -> None:
            raise OSError

    broken, run = listener_of(Broken(clock)), Recorded(clock)
    one = listener_of(run)
    serve(clock, (0, broken, True), (0, one, True), (13, broken, False), (15, one, False))
    assert [at for at, _ in run.rows] == [2.0, 12.0, 15.0]


def test_a_machine_that_cannot_be_read_is_asked_again(clock):
    """A sample is missing then, and nothing else."""

    class Failing(Steady):
        def read(self):
            if self.clock.now == 2.0:
                raise OSError
            return super().read()

    run, machine = Recorded(clock), Failing(clock)
    one = listener_of(run)
    Sampler(lambda: machine, clock, Commands(clock, (0, one, True), (12.5, one, False))).serve()
    assert [at for at, _ in run.rows] == [12.0]
    assert run.rows[0][1]["m/cpu"] == pytest.approx(40)


# ------------------------------------------------------------------ what, and under which names


def test_rates_are_those_of_the_time_between_two_samples(clock):
    """Each run's own; the names are the same in every row, which keeps rows small."""
    run = Recorded(clock)
    one = listener_of(run)
    serve(clock, (0, one, True), (23, one, False))
    expected = {
        "m/cpu": pytest.approx(40.0),
        "m/memory": 12.0,
        "m/disk_free": 72.0,
        "m/process_cores": pytest.approx(1.5),
        "m/process_memory": 3.0,
    }
    assert [row for _, row in run.rows] == [expected] * 4
    assert len({tuple(row) for _, row in run.rows}) == 1
    assert run.facts == {
        "m/environment/cpu": "A CPU",
        "m/environment/memory": 64.0,
        "m/environment/gpu_count": 0,
    }


def test_what_cannot_be_said_this_time_is_left_out():
    """A counter that fell, one that is new, no time in between; never a made-up number."""
    before = Values({}, {"a": 10.0, "b": 5.0})
    after = Values({"memory": 1.0}, {"a": 4.0, "b": 25.0, "c": 1.0})
    assert between(before, after, 10.0, {}) == {"memory": 1.0, "b": 2.0}
    assert between(before, after, 10.0, {"b": 1.5}) == {"memory": 1.0, "b": 1.5}
    assert between(before, after, 0.0, {}) == {"memory": 1.0}


def test_one_gpu_has_no_number_and_several_have_theirs(clock):
    """As Neptune names them; the number is that of nvidia-smi."""
    for gpus, names in [
        ((3,), {"m/gpu", "m/gpu_power"}),
        ((1, 2), {"m/gpu_1", "m/gpu_2", "m/gpu_power_1", "m/gpu_power_2"}),
    ]:
        run, machine = Recorded(clock), Steady(clock)
        machine.gpus = gpus
        one, begun = listener_of(run), clock.now
        commands = Commands(clock, (begun, one, True), (begun + 3, one, False))
        Sampler(lambda machine=machine: machine, clock, commands).serve()
        assert {name for name in run.rows[0][1] if "gpu" in name} == names


@pytest.mark.parametrize(
    ("environment", "own", "host", "gpus"),
    [
        ({"RANK": "0", "LOCAL_RANK": "0"}, {1}, True, {"gpu_0", "gpu_1"}),
        ({"RANK": "1", "LOCAL_RANK": "1"}, {1}, False, {"gpu_1"}),
        ({"RANK": "1", "LOCAL_RANK": "1"}, set(), False, {"gpu_0", "gpu_1"}),
        ({"RANK": "8", "LOCAL_RANK": "0"}, {0}, True, {"gpu_0"}),
        ({"RANK": "1"}, {0}, True, {"gpu_0"}),
    ],
    ids=["rank 0", "its gpu", "gpu unknown", "next host", "one on each host"],
)
def test_a_host_is_told_of_once_and_a_rank_tells_of_itself(
    environment, own, host, gpus, clock, monkeypatch
):
    """Where every rank records: each its processes, the first of a host what they share."""
    for name, value in {"WORLD_SIZE": "16", **environment}.items():
        monkeypatch.setenv(name, value)
    run, machine = Recorded(clock), Steady(clock)
    machine.gpus, machine.own = (0, 1), frozenset(own)
    one = listener_of(run)
    Sampler(lambda: machine, clock, Commands(clock, (0, one, True), (3, one, False))).serve()
    names = {name.removeprefix("m/") for name in run.rows[0][1]}
    assert ("cpu" in names, "memory" in names, "disk_free" in names) == (host, host, host)
    assert {"process_cores", "process_memory"} <= names
    assert {name for name in names if name.startswith("gpu_") and "power" not in name} == gpus


@pytest.mark.parametrize("facts", [True, False])
@pytest.mark.parametrize("metrics", [True, False])
def test_facts_and_numbers_have_switches_of_their_own(facts, metrics, clock):
    """Facts say where a run ran, and belong to ``capture={"host": ...}``."""
    run, held = Recorded(clock), Held()
    held.listener = None
    Hardware(run, "m", facts=facts, metrics=metrics, sampler=held).start()
    if held.listener is None:
        assert not facts
        assert not metrics
        return
    serve(clock, (0, held.listener, True), (5, held.listener, False))
    assert (bool(run.facts), bool(run.rows)) == (facts, metrics)


def test_facts_are_recorded_once(clock):
    """A run that goes on after a rest is on the same machine."""
    run, held = Recorded(clock), Held()
    held.remove = lambda *_: None
    hardware = Hardware(run, "m", sampler=held)
    for at in (0, 10):
        hardware.start()
        hardware.start()  # started already: nothing
        run.facts.clear()
        serve(clock, (at, held.listener, True), (at + 3, held.listener, False))
        hardware.stop(1)
        assert bool(run.facts) == (at == 0)


# ------------------------------------------------------------------ a real machine


def test_real_numbers_are_those_of_the_kernel():
    """Near to what /proc says at the same moment."""
    machine = Machine()
    facts = {name: value for part in machine.facts() for name, value in part.items()}
    reading = machine.read()
    assert facts["memory"] == pytest.approx(psutil.virtual_memory().total / GIB)
    assert facts["cpu_count"] == os.cpu_count()
    assert 0 < facts["cpu_usable"] <= os.cpu_count()
    assert 0 < reading.host.present["memory"] < facts["memory"]
    with Path("/proc/self/status").open(encoding="ascii") as status:
        (resident,) = (line.split()[1] for line in status if line.startswith("VmRSS"))
    seconds, memory = usage(psutil)
    assert memory >= int(resident) * 1024 * 0.5
    assert seconds >= sum(os.times()[:2]) * 0.5
    assert set(reading.host.counted) == {
        "cpu",
        "disk_read_rate",
        "disk_write_rate",
        "network_receive_rate",
        "network_send_rate",
    }
    assert machine.free("/") == pytest.approx(psutil.disk_usage("/").free / GIB, rel=0.1)
    assert machine.free("/no/such/place") is None


def test_percent_and_memory_are_those_of_the_container(tmp_path, monkeypatch):
    """Half of its one and a half cores is 50 %, whatever the host has."""
    machine = Machine(write_tree(DOCKER_V2, tmp_path))
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    facts = next(machine.facts())
    assert (facts["cpu_usable"], facts["memory_limit"]) == (1.5, 2.0)
    before = machine.read()
    assert before.host.present["memory"] == pytest.approx((GIB + 50_000_000) / GIB)
    stat = "usage_usec " + str(61_500_000 + 7_500_000) + "\n"
    write_tree({"sys/fs/cgroup/cpu.stat": stat}, tmp_path)
    found = between(before.host, machine.read().host, 10.0, {})
    assert found["cpu"] == pytest.approx(50)


def test_percent_is_of_the_cores_that_may_be_used(monkeypatch):
    """On a host of many jobs, what other cores do is not this run's."""

    class Times(tuple):
        __slots__ = ()
        idle = property(lambda self: self[1])

    times = [Times((10.0, 90.0)), Times((80.0, 20.0)), Times((60.0, 40.0))]
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 3)
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu=False: times)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 2})
    assert Machine().read().host.counted["cpu"] == pytest.approx(100 * 140 / 2)


def test_children_and_what_they_started_are_counted():
    """Data loaders too; their memory, and the time of those that ended."""
    hold = "import sys; sys.stdin.read()"
    code = (
        "import subprocess, sys\n"
        f"inner = subprocess.Popen([sys.executable, '-c', {hold!r}], stdin=subprocess.PIPE)\n"
        "data = bytearray(50 << 20)\n"
        "print(inner.pid, flush=True)\n"
        "sys.stdin.read()\n"
        "inner.stdin.close()\n"
        "inner.wait()\n"  # its time passes to who waits for it, and would be lost otherwise
    )
    _, before = usage(psutil)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        inner = int(child.stdout.readline())
        below = psutil.Process().children(recursive=True)
        assert {child.pid, inner} <= {each.pid for each in below}
        seconds, memory = usage(psutil)
        child.stdin.close()
        child.wait()
    assert memory - before > 50 * MIB
    assert usage(psutil)[0] >= seconds


def test_a_process_that_vanishes_is_left_out(monkeypatch):
    """Between listing and looking."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        gone = psutil.Process(child.pid)
        child.communicate(b"\n")
    monkeypatch.setattr("seamark.capture.hardware.machine._tree", lambda _: [gone.pid, os.getpid()])
    assert usage(psutil)[1] > MIB


# ------------------------------------------------------------------ the thread


def test_the_thread_is_one_and_gone_when_nobody_listens():
    """A daemon; the next run gets a new one."""
    sampler = Sampler()
    runs = [Hardware(Recorded(), "m", sampler=sampler) for _ in range(3)]
    for _ in range(2):
        others = set(threading.enumerate())  # of runs of other tests
        for one in runs:
            one.start()
        new = set(threading.enumerate()) - others
        named = [one for one in new if one.name == "seamark-hardware"]
        assert [one.daemon for one in named] == [True]
        for one in runs:
            one.stop(60)
            one.stop(60)
        named[0].join(60)
        assert sampler._thread is None or not sampler._thread.is_alive()


class Stuck(Machine):
    """A machine that answers when it is told to, as a driver that hangs."""

    made = 0

    def __init__(self, let) -> None:
        super().__init__()
        self.let = let
        self.asked = threading.Event()
        type(self).made += 1

    def facts(self):
        self.asked.set()
        self.let.wait()
        yield {"late": 1}


def test_a_machine_that_hangs_holds_nothing_up_and_is_not_asked_twice():
    """Stopping gives up, and what it says later is recorded nowhere."""
    let = threading.Event()
    machine = Stuck(let)
    sampler = Sampler(lambda: machine)
    first, second = Recorded(), Recorded()
    one = Hardware(first, "m", sampler=sampler)
    two = Hardware(second, "m", metrics=False, sampler=sampler)
    one.start()
    assert machine.asked.wait(60)
    thread = sampler._thread
    one.stop(0.01)  # does not return before something answers, or the time is over
    two.start()
    assert sampler._thread is thread
    assert thread.is_alive()
    let.set()
    two.stop(60)
    thread.join(60)
    assert not thread.is_alive()
    assert (first.facts, first.rows) == ({}, [])


def test_ctrl_c_after_a_sample_ends_the_process_as_ever(scripts):
    """By the signal: what is recorded at the end hides nothing of it."""
    code = """
        import os, signal, threading, seamark
        from seamark.capture import hardware
        from seamark.run.ending import Captured
        hardware.BEGIN_S = hardware.FIRST_S = hardware.LAST_S = 0.0
        recorded, append = threading.Event(), Captured.append_numbers
        def watched(self, numbers):
            append(self, numbers)
            recorded.set()
        Captured.append_numbers = watched
        run = seamark.init_run()
        run["loss"].append(1.0)
        assert recorded.wait(60)
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    """
    ended = scripts.run(code)
    assert ended.code == -signal.SIGINT
    assert scripts.recorded().states[-1]["state"] == "interrupted"


def test_a_script_that_ends_at_once_asks_nothing(scripts):
    """It loads neither psutil nor the driver's library, and no thread is left to wait for."""
    code = """
        import sys, threading, seamark
        run = seamark.init_run()
        run["a"] = 1
        run.stop()
        print([one.name for one in threading.enumerate()], {"psutil", "pynvml"} & set(sys.modules))
    """
    assert scripts.run(code).stdout == "['MainThread'] set()\n"
