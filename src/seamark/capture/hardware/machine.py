"""Facts and metrics of the machine or container in which a process runs.

Limits and usage come from Linux control groups (version 2) at their usual mount point. All parent
groups limit the process too: the lowest limit counts, with the usage of its group.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import logging
import os
import platform
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil
import pynvml

from seamark.capture.environment import read_text
from seamark.capture.hardware.gpus import GIB, MIB, AmdGpus, Gpus, NvidiaGpus
from seamark.process import fork
from seamark.process.liveness import group_paths

_CPU_NAME: Final = re.compile(r"^(?:model name|Model|cpu model)[ \t]*:(.*\S.*)$", re.MULTILINE)
# Maximum time to wait for a driver that another run uses, in seconds; opening it may take several.
# After the first timeout there is no more waiting.
_DRIVER_TIMEOUT_S: Final = 10.0
# Held during queries to a driver, so that a hanging driver blocks only one thread of the process.
# By pid, because in a forked child the parent's lock may be held.
_driver_locks: Final[defaultdict[int, threading.Lock]] = defaultdict(threading.Lock)


class CpuLimit(NamedTuple):
    """Limit on the CPU cores that a control group may use."""

    cores: float
    group: Path

    def used_s(self) -> float | None:
        """Return the CPU time used, in seconds."""
        count = _field(self.group / "cpu.stat", "usage_usec")
        return None if count is None else count / 1e6


class MemoryLimit(NamedTuple):
    """Limit on the memory that a control group may use, in bytes."""

    size: int
    group: Path

    def used(self) -> int | None:
        """Return the bytes used, without inactive file pages, which the kernel reclaims first."""
        size = _field(self.group / "memory.current", "")
        unused = _field(self.group / "memory.stat", "inactive_file") or 0
        return None if size is None else max(0, size - unused)


def limits(root: Path = Path("/")) -> tuple[CpuLimit | None, MemoryLimit | None]:
    """Return the lowest limits of CPU time and of memory; None if there is no limit.

    Considers the control group (version 2) of this process and its parents. In most containers, the
    path in ``/proc`` is that of the host, and the mounted folder is the group itself.
    """
    top = root / "sys/fs/cgroup"
    paths = group_paths(read_text(root / "proc/self/cgroup"))
    if not paths or not (top / paths[0]).is_dir():
        paths = [""]
    cpu, memory = [], []
    for each in map(top.joinpath, paths):
        if found := re.fullmatch(
            r"([1-9][0-9]{0,15}) ([1-9][0-9]{0,15})", read_text(each / "cpu.max").strip()
        ):
            cpu.append(CpuLimit(int(found[1]) / int(found[2]), each))
        if size := _field(each / "memory.max", ""):
            memory.append(MemoryLimit(size, each))
    return min(cpu, default=None), min(memory, default=None)


def _field(path: Path, name: str) -> int | None:
    """Return the number after a name at the start of a line; an empty name reads the whole file."""
    found = re.search(rf"^{name}[ \t]*([0-9]{{1,18}})$", read_text(path), re.MULTILINE)
    return int(found[1]) if found else None


log = logging.getLogger("seamark")


@dataclass(slots=True)
class Reading:
    """Metrics of a machine at one moment, by the name under which they are recorded.

    Metrics of the host are those of the container, if there is one. Metrics of the process include
    its child processes.

    Attributes:
        at: Time in seconds of a monotonic clock.
        present: Current values, in the recorded unit.
        counted: Increasing counters, in the recorded unit times seconds; their rates are recorded.
        gpus: Metrics of each GPU by its number.
    """

    at: float
    present: dict[str, float] = field(default_factory=dict)
    counted: dict[str, float] = field(default_factory=dict)
    gpus: dict[int, dict[str, float]] = field(default_factory=dict)


class Machine:
    """Reader of facts and metrics; for use by one thread. GPUs are opened on first use.

    Unavailable values are left out. Each call may take long. ``proc`` and ``sys`` are below
    ``root``.
    """

    def __init__(self, root: Path = Path("/"), clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._gpus: Gpus | None = None
        self._driver_timeout_s = _DRIVER_TIMEOUT_S
        self._memory_limit: MemoryLimit | None = None
        cpu, memory = limits(root)
        self._cores, self._busy_s = _usable_cores(cpu)
        if memory is not None and memory.size < psutil.virtual_memory().total:
            self._memory_limit = memory

    def facts(self) -> Iterator[dict[str, Any]]:
        """Yield constant facts: first those known immediately, then those of drivers; in GiB."""
        yield self._host_facts()
        with self._locked_gpus() as gpus:
            yield dict(gpus.facts)

    def read(self, place: Path | None = None) -> Reading:
        """Return the current metrics; ``place`` selects the disk for the free space."""
        found = Reading(self._clock())
        parts = (self._cpu, self._memory, self._disk, self._network, self._processes)
        for read in (*parts, self._read_gpus):
            try:
                read(found)
            except Exception:
                log.debug("seamark: a metric of the hardware is not available", exc_info=True)
        if place is not None:
            with contextlib.suppress(OSError):
                found.present["disk_free"] = psutil.disk_usage(str(place)).free / GIB
        return found

    def close(self) -> None:
        """Close the drivers; the next call reopens them."""
        gpus, self._gpus = self._gpus, None
        if gpus is not None:
            gpus.close()

    # ---------------------------------------------------------------- opening

    @contextlib.contextmanager
    def _locked_gpus(self) -> Iterator[Gpus]:
        """Yield the GPUs; no GPUs after another run blocked the driver for too long."""
        driver = _driver_locks[os.getpid()]
        if not driver.acquire(timeout=self._driver_timeout_s):
            self._driver_timeout_s = 0.0
            yield Gpus()
            return
        try:
            if self._gpus is None:
                self._gpus = _open_gpus()
            yield self._gpus
        finally:
            driver.release()

    # ---------------------------------------------------------------- facts

    def _host_facts(self) -> dict[str, Any]:
        found: dict[str, Any] = {"cpu": self._cpu_name(), "cpu_count": psutil.cpu_count() or 1}
        if cores := psutil.cpu_count(logical=False):
            found["cpu_cores"] = cores
        found["cpu_usable"] = self._cores
        found["memory"] = psutil.virtual_memory().total / GIB
        if self._memory_limit is not None:
            found["memory_limit"] = self._memory_limit.size / GIB
        return found

    def _cpu_name(self) -> str:
        if found := _CPU_NAME.search(read_text(self._root / "proc/cpuinfo")):
            return " ".join(found[1].split())
        return platform.machine() or "unknown"

    # ---------------------------------------------------------------- current metrics

    def _cpu(self, found: Reading) -> None:
        """Add the busy time of the usable cores, in percent times seconds."""
        if (busy := self._busy_s()) is not None:
            found.counted["cpu"] = 100 * busy / self._cores

    def _memory(self, found: Reading) -> None:
        if self._memory_limit is not None:
            used = self._memory_limit.used()
        else:
            memory = psutil.virtual_memory()
            used = memory.total - memory.available
        if used is not None:
            found.present["memory"] = used / GIB

    def _disk(self, found: Reading) -> None:
        if (disk := psutil.disk_io_counters(nowrap=False)) is not None:
            found.counted["disk_read_rate"] = disk.read_bytes / MIB
            found.counted["disk_write_rate"] = disk.write_bytes / MIB

    def _network(self, found: Reading) -> None:
        """Add the traffic of network cards, or if none is visible, of all interfaces but loopback.

        Bridges and bonds would count the traffic of a card twice.
        """
        each = psutil.net_io_counters(pernic=True, nowrap=False)
        known = self._root / "sys/class/net"
        cards = [name for name in each if (known / name / "device").exists()]
        outside = cards or [name for name in each if not name.startswith("lo")]
        received = sum(each[name].bytes_recv for name in outside)
        sent = sum(each[name].bytes_sent for name in outside)
        found.counted["network_receive_rate"] = received / MIB
        found.counted["network_send_rate"] = sent / MIB

    def _processes(self, found: Reading) -> None:
        seconds, memory = usage()
        found.counted["process_cores"] = seconds
        found.present["process_memory"] = memory / GIB

    def _read_gpus(self, found: Reading) -> None:
        with self._locked_gpus() as gpus:
            found.gpus = gpus.read()


def _open_gpus() -> Gpus:
    nvidia = NvidiaGpus(pynvml)
    if nvidia.numbers:
        return nvidia
    try:
        with fork.delay_forks():
            import amdsmi
        amd = AmdGpus(amdsmi)
    except Exception:  # noqa: BLE001 - amdsmi loads a library, which may be missing or another release
        return nvidia
    if not amd.numbers:
        return nvidia
    nvidia.close()
    return amd


def _usable_cores(limit: CpuLimit | None) -> tuple[float, Callable[[], float | None]]:
    """Return the number of CPUs that this process may use, and a function for their busy time."""
    count = psutil.cpu_count() or 1
    affinity = getattr(os, "sched_getaffinity", None)
    allowed = frozenset[int](affinity(0) if affinity is not None else ())
    if not 0 < len(allowed) < count:
        allowed = frozenset(range(count))
    if limit is not None and limit.cores < len(allowed) and limit.used_s() is not None:
        return limit.cores, limit.used_s
    return float(len(allowed)), functools.partial(_busy_time, allowed)


def _busy_time(cores: frozenset[int]) -> float:
    each = psutil.cpu_times(percpu=True)
    return sum(_busy_seconds(times) for at, times in enumerate(each) if at in cores)


def _busy_seconds(times: Any) -> float:
    """Return the busy time of cores, in seconds; the user time already includes that of guests."""
    idle = times.idle + getattr(times, "iowait", 0.0)
    twice = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return float(sum(times) - idle - twice)


def usage() -> tuple[float, int]:
    """Return the CPU time (seconds) and memory (bytes) of this process and its descendants.

    The time includes that of children that ended. Memory is resident memory. Shareable memory
    (files, and shared memory in which loaders pass batches) is counted once, with the largest
    amount of one process. Pages shared since a fork are counted in each process: the kernel's more
    exact value (PSS) is computed page by page and would block the process.
    """
    seconds, private, shared = 0.0, 0, 0
    for pid in _process_tree():
        try:
            process = psutil.Process(pid)
            times, memory = process.cpu_times(), process.memory_info()
        except (psutil.Error, OSError):  # ended meanwhile
            continue
        seconds += times.user + times.system
        seconds += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
        common = getattr(memory, "shared", 0)
        private += max(0, memory.rss - common)
        shared = max(shared, common)
    # The kernel counts hundredths of seconds. The last digit of their sum in floats depends on the
    # order, so that an unchanged time could seem to decrease.
    return round(seconds, 6), private + shared


def _process_tree() -> list[int]:
    """Return the pids of this process and its descendants.

    The kernel lists the children of each thread; psutil would examine every process of the host.
    """
    found = [os.getpid()]
    if not Path(f"/proc/{found[0]}/task/{found[0]}/children").exists():
        return found + [each.pid for each in psutil.Process().children(recursive=True)]
    for parent in found:  # grows during the loop
        for children in glob.glob(f"/proc/{parent}/task/*/children"):  # noqa: PTH207 - names are faster
            found += map(int, read_text(Path(children)).split())
    return found
