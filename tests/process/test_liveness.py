"""Identity and life of processes, and reasons why one ended without a record of its end."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from seamark.process.liveness import (
    Crash,
    Evidence,
    boot_id,
    memory_groups,
    process_alive,
    process_facts,
    process_start,
)

FIRST = 0xEFFFFFFC
S = 10**9
NOW = 1_790_000_000 * S
UP = 50_000.0  # seconds since boot at NOW
GROUPS = "docker/4f5c/init"


@pytest.fixture
def header(monkeypatch):
    """The header of a process that was here and is gone, with pids as the kernel's log has them."""
    monkeypatch.setattr("seamark.process.liveness.pid_namespace", lambda: FIRST)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        start = process_start(process.pid)
    found = process_facts()
    assert found["pid_namespace"] == FIRST
    return {**found, "pid": process.pid, "start": start}


@pytest.fixture
def crash(tmp_path, header, monkeypatch):
    """Return what is found of the process; it recorded last ten seconds ago."""
    monkeypatch.setattr("seamark.process.liveness.time.clock_gettime", lambda _: UP)
    header["start"] = int(UP - 100) * 100

    def ask(*, silent_s=10, **more):
        evidence = Evidence(tmp_path, NOW)
        return evidence.crash({**header, **more}, NOW - int(silent_s * S))

    return ask


def kernel_log(root, *lines, facility=0):
    """Write a log as /dev/kmsg gives it; times are seconds before now."""
    (root / "dev").mkdir(exist_ok=True)
    text = "".join(
        f"{facility * 8 + 3},{at},{int((UP - ago) * 1e6)},-;{line}\n SUBSYSTEM=memory\n"
        for at, (ago, line) in enumerate(lines)
    )
    (root / "dev/kmsg").write_text(text)


def group(root, path, kills, *, version=2):
    """Make a control group, or let it count anew; return what a process notes of it."""
    folder = root / "sys/fs/cgroup" / path
    folder.mkdir(parents=True, exist_ok=True)
    if version == 2:
        events = f"low 0\nhigh 12\nmax 40\noom 3\noom_kill {kills}\noom_group_kill 0\n"
        (folder / "memory.events").write_text(events)
    else:
        text = f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n"
        (folder / "memory.oom_control").write_text(text)
    return [path, folder.stat().st_ino, kills]


MEMCG = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
    "oom_memcg=/job,task_memcg=/job,task=python,pid={pid},uid=0"
)
KILLED = (
    "Memory cgroup out of memory: Killed process {pid} (python) total-vm:75260kB, "
    "anon-rss:64256kB, file-rss:6360kB, shmem-rss:0kB, UID:0 pgtables:188kB oom_score_adj:0"
)
OLD = "Killed process {pid} (python) total-vm:75260kB, anon-rss:64256kB, file-rss:6360kB"
SEGFAULT = "python[{pid}]: segfault at 0 ip 00007f6a2c sp 00007ffd1 error 4 in libfoo.so[7f6a+10]"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        *((line, "out of memory") for line in (MEMCG, KILLED, OLD)),
        (SEGFAULT, "segmentation fault"),
        (KILLED.replace("{pid}", "{other}"), "process gone"),
        # The name that somebody gave a process says nothing.
        ("[usb 1-1: Killed process {pid} (python)?", "process gone"),
        (KILLED.replace("{pid} (python)", "{other} (Killed process {pid} (x)"), "process gone"),
    ],
)
def test_kernel_log_says_why_this_process_and_no_other_was_killed(
    tmp_path, header, crash, line, reason
):
    other = (30, "usb 1-1: new high-speed USB device number 5")
    text = line.format(pid=header["pid"], other=header["pid"] + 1)
    kernel_log(tmp_path, other, (9, text), other)
    assert crash().reason == reason


def test_kernel_log_is_not_believed_about_a_reused_pid_or_another_namespace(
    tmp_path, header, crash, monkeypatch
):
    line = KILLED.format(pid=header["pid"])
    kernel_log(tmp_path, (9, line), facility=1)  # not of the kernel
    assert crash().reason == "process gone"
    kernel_log(tmp_path, (40_000, line))  # before the process began
    assert crash().reason == "process gone"
    kernel_log(tmp_path, (10, line))  # long after it fell silent
    assert crash(silent_s=3000).reason == "process gone"
    assert crash().reason == "out of memory"
    # The log has the pids of the host: the same number is another process in a container.
    monkeypatch.setattr("seamark.process.liveness.pid_namespace", lambda: FIRST - 5)
    assert crash(pid_namespace=FIRST - 5).reason == "process gone"


@pytest.mark.parametrize("version", [1, 2])
def test_counter_of_the_group_that_rose_makes_lack_of_memory_likely(tmp_path, crash, version):
    noted = group(tmp_path, GROUPS, 2, version=version)
    assert crash(cgroup=[noted]).reason == "process gone"
    group(tmp_path, GROUPS, 3, version=version)
    found = crash(cgroup=[noted])
    assert (found.reason, found.detail) == ("likely out of memory", "")
    path, inode, _ = noted  # a container that is started again counts from 0
    assert crash(cgroup=[[path, inode + 1, 0]]).reason == "process gone"


@pytest.mark.parametrize("key", ["pid", "start", "boot", "host", "pid_namespace", "cgroup"])
def test_malformed_header_raises_nothing(tmp_path, crash, key):
    group(tmp_path, "docker", 7)
    groups = [[["../../../etc", 1, 0]], [["/etc", 1, 0]], [[None, None, None]], [[]]]
    for value in (None, "", -1, 1e308, [], {}, True, 10**30, *groups, [["docker", "x", "y"]]):
        assert isinstance(crash(**{key: value}), Crash)


def test_restart_of_the_host_is_the_reason_where_boots_are_known(tmp_path, crash):
    (tmp_path / "proc").mkdir()
    stat = tmp_path / "proc/stat"
    stat.write_text(f"cpu  1 2 3\nbtime {NOW // S - 300}\nprocesses 5\n")
    assert crash(boot="another", silent_s=1000).reason == "host rebooted"
    # Since before: another machine has this name.
    assert crash(boot="another", silent_s=100).reason == "heartbeat lost"
    stat.unlink()
    assert crash(boot="another", silent_s=1000).reason == "heartbeat lost"
    for unknown in ({"host": "elsewhere"}, {"boot": None}):
        assert crash(**unknown).reason == "heartbeat lost"


def test_process_that_is_hidden_or_in_another_container_may_live(header, monkeypatch):
    """As those of other users where /proc is mounted with hidepid: nothing is said of them."""

    def kill(pid, signal):
        raise PermissionError(pid, signal)

    assert process_alive(header) is False
    assert process_alive({**header, "pid_namespace": FIRST - 7}) is None
    assert process_alive({**header, "pid_namespace": None}) is False
    monkeypatch.setattr("os.kill", kill)
    assert process_alive(header) is None
    assert Evidence().crash({**process_facts(), "pid": header["pid"]}, 0).reason == "heartbeat lost"


def test_memory_groups_of_a_process_are_its_own_and_those_above(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    own = tmp_path / "proc/self/cgroup"
    own.write_text("0::/docker/4f5c/init\n")
    wanted = [group(tmp_path, GROUPS, 1), group(tmp_path, "docker/4f5c", 2)]
    assert memory_groups(tmp_path) == wanted
    own.write_text("9:name=systemd:/x\n4:cpu,memory:/job/3\n0::/docker/4f5c/init\n")
    assert memory_groups(tmp_path) == []
    wanted = [group(tmp_path, f"memory/{path}".rstrip("/"), 0, version=1) for path in ("job/3", "")]
    assert memory_groups(tmp_path) == wanted
    own.write_text("0::/../other\n")
    assert memory_groups(tmp_path) == []
    own.unlink()
    assert memory_groups(tmp_path) == []


def test_process_is_known_by_its_start_and_its_boot():
    own = process_start(os.getpid())
    assert own == process_start(os.getpid())
    code = (
        "import os; from seamark.process import liveness as l; print(l.process_start(os.getpid()))"
    )
    later = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert own is not None
    assert int(later.stdout) > own
    assert process_start(2**22 + 1) is None
    assert boot_id() == boot_id()
    assert len(boot_id() or "") == 36
