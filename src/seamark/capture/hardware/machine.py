"""Facts and metrics of the machine, or of the container, that a process runs in.

Limits and usage come from Linux control groups, version 1 and 2. A process is in a group of each
hierarchy, and every group above it limits it too: the tightest limit is the one that counts, and
what is used is what the group of that limit uses. What is seen of a hierarchy may begin in its
middle, as in most containers: ``/proc/self/mountinfo`` says where. Sources: cgroups(7), and the
kernel's ``admin-guide/cgroup-v1`` and ``admin-guide/cgroup-v2``.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import os
import platform
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from seamark.capture.hardware.gpus import GIB, MIB, AmdGpus, Gpus, NvidiaGpus
from seamark.process import fork

__all__ = ["Cgroup", "CpuLimit", "Machine", "MemoryLimit", "Reading", "Values", "usage"]


_V2: Final = 2
# Version 1 writes "no limit" as the largest number of pages, in bytes.
_NO_LIMIT: Final = 1 << 60
_OCTAL: Final = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class CpuLimit:
    """CPUs that a group may use, and a function that returns the CPU time used, in seconds."""

    cores: float
    used_s: Callable[[], float | None]


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """Bytes that a group may use, and a function that returns the bytes used.

    Not counted is what the kernel would give back first: files that were read and are not used.
    """

    size: int
    used: Callable[[], int | None]


@dataclass(frozen=True, slots=True)
class _Mount:
    """A hierarchy of groups, or a part of one, as it is seen here."""

    version: int
    controllers: frozenset[str]
    root: str
    at: Path


class Cgroup:
    """The groups of this process, told by what is below ``root``."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._mounts = list(_mounts(root))
        self._paths = dict(_paths(root))

    def cpu_limit(self) -> CpuLimit | None:
        """Return the tightest limit of CPU time; None if there is none."""
        found: list[CpuLimit] = []
        for version, group in self._groups("cpu"):
            limit = _quota_2(group) if version == _V2 else _quota_1(group)
            if limit is not None:
                found.append(CpuLimit(limit, self._cpu_used(version, group)))
        return min(found, key=lambda one: one.cores, default=None)

    def memory_limit(self) -> MemoryLimit | None:
        """Return the tightest limit of memory; None if there is none."""
        found: list[MemoryLimit] = []
        for version, group in self._groups("memory"):
            name = "memory.max" if version == _V2 else "memory.limit_in_bytes"
            size = _number(group / name)
            if size is not None and 0 < size < _NO_LIMIT:
                found.append(MemoryLimit(size, functools.partial(_memory_used, version, group)))
        return min(found, key=lambda one: one.size, default=None)

    def _groups(self, controller: str) -> list[tuple[int, Path]]:
        """Return (version, folder) of the group of this process and of all above it."""
        chosen = self._mount(controller)
        if chosen is None:
            return []
        inside = self._inside(controller, chosen)
        folders = [chosen.at.joinpath(*inside[:end]) for end in range(len(inside), -1, -1)]
        return [(chosen.version, folder) for folder in folders if folder.is_dir()]

    def _mount(self, controller: str) -> _Mount | None:
        """Return the hierarchy that has a controller: of both versions, where it is mounted."""
        first = [one for one in self._mounts if controller in one.controllers]
        second = [one for one in self._mounts if one.version == _V2]
        return next(iter(first + second), None)

    def _inside(self, controller: str, mount: _Mount) -> list[str]:
        """Return the names of the groups from the mount point to the group of this process."""
        path = self._paths.get(controller if mount.version == 1 else "", "/")
        root = mount.root.rstrip("/")
        if not f"{path}/".startswith(f"{root}/"):
            return []  # the group lies beside what is seen, which then stands for it
        return [part for part in path[len(root) :].split("/") if part not in ("", "..")]

    def _cpu_used(self, version: int, group: Path) -> Callable[[], float | None]:
        if version == _V2:
            return lambda: _scaled(_field(group / "cpu.stat", "usage_usec"), 1e6)
        cpu, times = self._mount("cpu"), self._mount("cpuacct")
        if cpu is None or times is None or times.version == _V2:
            return lambda: None
        inside = self._inside("cpuacct", times)[: len(group.parts) - len(cpu.at.parts)]
        where = times.at.joinpath(*inside) / "cpuacct.usage"
        return lambda: _scaled(_number(where), 1e9)


def _scaled(count: int | None, per: float) -> float | None:
    return None if count is None else count / per


def _memory_used(version: int, group: Path) -> int | None:
    name, unused = (
        ("memory.current", "inactive_file")
        if version == _V2
        else ("memory.usage_in_bytes", "total_inactive_file")
    )
    size = _number(group / name)
    return None if size is None else max(0, size - (_field(group / "memory.stat", unused) or 0))


def _quota_2(group: Path) -> float | None:
    quota, _, period = _text(group / "cpu.max").partition(" ")
    return _cores(_int(quota), _int(period or "100000"))


def _quota_1(group: Path) -> float | None:
    return _cores(_number(group / "cpu.cfs_quota_us"), _number(group / "cpu.cfs_period_us"))


def _cores(quota: int | None, period: int | None) -> float | None:
    return quota / period if quota and period and quota > 0 and period > 0 else None


def _mounts(root: Path) -> list[_Mount]:
    # See ``/proc/self/mountinfo`` in proc(5).
    found = []
    for line in _text(root / "proc/self/mountinfo").splitlines():
        words, _, kind = line.partition(" - ")
        fields, of_kind = words.split(" "), kind.split(" ")
        if len(fields) < 5 or len(of_kind) < 3 or of_kind[0] not in ("cgroup", "cgroup2"):  # noqa: PLR2004
            continue
        mounted = root / _plain(fields[4]).lstrip("/")
        version = 1 if of_kind[0] == "cgroup" else 2
        controllers = frozenset(of_kind[2].split(",")) if version == 1 else frozenset[str]()
        found.append(_Mount(version, controllers, _plain(fields[3]), mounted))
    return found


def _paths(root: Path) -> list[tuple[str, str]]:
    """Return the group of this process by controller; by the empty name that of version 2."""
    found = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        found += [(each, path) for each in controllers.split(",")]
    return found


def _plain(text: str) -> str:
    # Spaces and the like are written as octal numbers.
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), text)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _int(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?[0-9]{1,20}", text) else None


def _number(path: Path) -> int | None:
    return _int(_text(path))


def _field(path: Path, name: str) -> int | None:
    for line in _text(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return _int(value.strip())
    return None


log = logging.getLogger("seamark")


@dataclass(slots=True)
class Values:
    """Numbers that belong together, by the name under which they are recorded.

    Attributes:
        present: What was so at the moment, in the unit in which it is recorded.
        counted: What counts up for ever, in that unit times seconds: its rate is recorded.
    """

    present: dict[str, float] = field(default_factory=dict)
    counted: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Reading:
    """Metrics of a machine at one moment: in seconds on a clock that never steps.

    Those of the host are of the container, if there is one; those of the process include what it
    started; GPUs have the numbers that the driver gives them.
    """

    at: float
    host: Values = field(default_factory=Values)
    process: Values = field(default_factory=Values)
    gpus: dict[int, dict[str, float]] = field(default_factory=dict)


class Machine:
    """Reads facts and measurements; belongs to one thread, and is opened on first use.

    Nothing raises: what cannot be had is left out. Each question may take long. ``proc`` and
    ``sys`` are below ``root``.
    """

    def __init__(self, root: Path = Path("/"), clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._opened = False
        self._psutil: Any = None
        self._gpus: Gpus | None = None
        self._cpu_limit: CpuLimit | None = None
        self._memory_limit: MemoryLimit | None = None
        self._cores = 1.0
        self._allowed: frozenset[int] | None = None

    def facts(self) -> Iterator[dict[str, Any]]:
        """Yield what does not change: what is known at once, then what drivers say; GiB."""
        self._open()
        yield self._own_facts()
        yield dict(self._open_gpus().facts)

    def read(self) -> Reading:
        """Return the present measurements."""
        self._open()
        found = Reading(self._clock())
        parts = (self._cpu, self._memory, self._disk, self._network, self._processes)
        for read in (*parts, self._read_gpus):
            try:
                read(found)
            except Exception:
                log.debug("seamark: a part of the hardware is not known", exc_info=True)
        return found

    @property
    def gpu_numbers(self) -> list[int]:
        """The numbers of the GPUs that this process may use."""
        return self._open_gpus().numbers

    def own_gpus(self) -> frozenset[int]:
        """Return the numbers of the devices that this process uses, if known."""
        return self._open_gpus().used_by(os.getpid())

    def free(self, place: Path) -> float | None:
        """Return how much space is left on the disk of a folder, in GiB; None if unknown."""
        self._open()
        if self._psutil is not None:
            with contextlib.suppress(OSError):
                return float(self._psutil.disk_usage(str(place)).free / GIB)
        return None

    def close(self) -> None:
        """Close the drivers; the next call opens them again."""
        gpus, self._gpus = self._gpus, None
        if gpus is not None:
            gpus.close()

    # ---------------------------------------------------------------- opening

    def _open(self) -> None:
        if self._opened:
            return
        self._opened = True
        self._psutil = _imported("psutil")
        if self._psutil is None:
            return
        groups = Cgroup(self._root)
        self._find_cores(groups)
        limit = groups.memory_limit()
        if limit is not None and limit.size < self._psutil.virtual_memory().total:
            self._memory_limit = limit

    def _find_cores(self, groups: Cgroup) -> None:
        every = self._psutil.cpu_count() or 1
        self._cores = float(every)
        affinity = getattr(os, "sched_getaffinity", None)
        allowed = frozenset(affinity(0)) if affinity is not None else frozenset[int]()
        if 0 < len(allowed) < every:
            self._allowed, self._cores = allowed, float(len(allowed))
        limit = groups.cpu_limit()
        if limit is not None and limit.cores < self._cores and limit.used_s() is not None:
            self._cpu_limit, self._cores = limit, limit.cores

    def _open_gpus(self) -> Gpus:
        if self._gpus is None:
            nvidia = NvidiaGpus()
            self._gpus = nvidia
            if (nvml := _imported("pynvml")) is not None:
                nvidia.open(nvml)
            if not nvidia.numbers and (smi := _imported("amdsmi")) is not None:
                amd = AmdGpus(smi)
                if amd.numbers:
                    nvidia.close()
                    self._gpus = amd
        return self._gpus

    # ---------------------------------------------------------------- facts

    def _own_facts(self) -> dict[str, Any]:
        found: dict[str, Any] = {"cpu": self._cpu_name()}
        if self._psutil is None:
            return found
        found["cpu_count"] = self._psutil.cpu_count() or 1
        if cores := self._psutil.cpu_count(logical=False):
            found["cpu_cores"] = cores
        found["cpu_usable"] = self._cores
        found["memory"] = self._psutil.virtual_memory().total / GIB
        if self._memory_limit is not None:
            found["memory_limit"] = self._memory_limit.size / GIB
        return found

    def _cpu_name(self) -> str:
        text = ""
        with contextlib.suppress(OSError), (self._root / "proc/cpuinfo").open("rb") as file:
            text = file.read(1 << 14).decode(errors="replace")  # it goes on for each core
        for line in text.splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model", "cpu model") and value.strip():
                return " ".join(value.split())
        return platform.machine() or "unknown"

    # ---------------------------------------------------------------- metrics of the moment

    def _cpu(self, found: Reading) -> None:
        """Count the time that cores were busy, as percent of those that may be used."""
        if self._cpu_limit is not None:
            busy = self._cpu_limit.used_s()
        elif self._allowed is not None:
            each = self._psutil.cpu_times(percpu=True)
            busy = sum(_busy(times) for at, times in enumerate(each) if at in self._allowed)
        else:
            busy = _busy(self._psutil.cpu_times())
        if busy is not None:
            found.host.counted["cpu"] = 100 * busy / self._cores

    def _memory(self, found: Reading) -> None:
        if self._memory_limit is not None:
            used = self._memory_limit.used()
        else:
            memory = self._psutil.virtual_memory()
            used = memory.total - memory.available
        if used is not None:
            found.host.present["memory"] = used / GIB

    def _disk(self, found: Reading) -> None:
        if (disk := self._psutil.disk_io_counters(nowrap=False)) is not None:
            found.host.counted["disk_read_rate"] = disk.read_bytes / MIB
            found.host.counted["disk_write_rate"] = disk.write_bytes / MIB

    def _network(self, found: Reading) -> None:
        """Return the traffic of network cards, or if none is visible of all but the loopback.

        Bridges and bonds would count again what goes through a card.
        """
        each = self._psutil.net_io_counters(pernic=True, nowrap=False)
        known = self._root / "sys/class/net"
        cards = [name for name in each if (known / name / "device").exists()]
        outside = cards or [name for name in each if not name.startswith("lo")]
        received = sum(each[name].bytes_recv for name in outside)
        sent = sum(each[name].bytes_sent for name in outside)
        found.host.counted["network_receive_rate"] = received / MIB
        found.host.counted["network_send_rate"] = sent / MIB

    def _processes(self, found: Reading) -> None:
        seconds, memory = usage(self._psutil)
        found.process.counted["process_cores"] = seconds
        found.process.present["process_memory"] = memory / GIB

    def _read_gpus(self, found: Reading) -> None:
        found.gpus = self._open_gpus().read()


def _imported(name: str) -> Any:
    """Return an optional module, or None; amdsmi loads a library, which may not be there."""
    with fork.held_off():
        try:
            return importlib.import_module(name)
        except Exception:
            log.debug("seamark: %s cannot be imported", name, exc_info=True)
            return None


def _busy(times: Any) -> float:
    """Return how long cores worked, in seconds; a guest's time is the user's already."""
    idle = times.idle + getattr(times, "iowait", 0.0)
    twice = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return float(sum(times) - idle - twice)


def usage(psutil: Any) -> tuple[float, int]:
    """Return the CPU time and the memory of this process and all below it, in seconds and bytes.

    The time includes that of children that ended. Memory is what is resident; of what may be shared
    (files, shared memory, in which loaders hand batches over) only the largest share of one process
    is counted, once. Pages that a fork left in common are counted in each process: what the kernel
    knows better (PSS) it finds out page by page, and the process would stand still meanwhile.
    """
    seconds, private, shared = 0.0, 0, 0
    for pid in _tree(psutil, os.getpid()):
        try:
            process = psutil.Process(pid)
            times, memory = process.cpu_times(), process.memory_info()
        except (psutil.Error, OSError):  # gone meanwhile
            continue
        seconds += times.user + times.system
        seconds += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
        common = getattr(memory, "shared", 0)
        private += max(0, memory.rss - common)
        shared = max(shared, common)
    # The kernel counts in hundredths: their sum in floats depends on the order by a last digit, and
    # time that stood still would seem to go back.
    return round(seconds, 6), private + shared


def _tree(psutil: Any, pid: int) -> list[int]:
    found, below = [pid], children_of(pid)
    if below is None:  # a kernel that does not list them: every process of the host is looked at
        try:
            return [pid, *(each.pid for each in psutil.Process(pid).children(recursive=True))]
        except (psutil.Error, OSError):
            return found
    while below:
        found += below
        below = [each for child in below for each in children_of(child) or () if each not in found]
    return found


def children_of(pid: int, proc: Path = Path("/proc")) -> list[int] | None:
    """Return the ids of a process's children, as the kernel lists them for each of its threads.

    Costs a small file for each thread; psutil looks at every process of the host. None where the
    kernel does not list children.
    """
    folder, found, told = f"{proc}/{pid}/task", [], False
    try:
        threads = os.listdir(folder)  # noqa: PTH208 - names, not paths: there may be hundreds
    except OSError:
        return None
    for thread in threads:
        try:
            handle = os.open(f"{folder}/{thread}/children", os.O_RDONLY)
        except OSError:  # a thread that ended, or a kernel without such lists
            continue
        try:
            text = b"".join(iter(lambda: os.read(handle, 4096), b""))  # noqa: B023 - used at once
        except OSError:
            continue
        finally:
            os.close(handle)
        told = True
        found += [int(word) for word in text.split()]
    return found if told else None
