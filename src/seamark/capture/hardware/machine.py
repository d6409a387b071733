"""Facts and current metrics of the machine, or of the container, that a process runs in."""

from __future__ import annotations

import logging
import os
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from seamark.capture.hardware.amd import AmdGpus
from seamark.capture.hardware.cgroup import Cgroup, CpuLimit, MemoryLimit
from seamark.capture.hardware.nvidia import NvidiaGpus
from seamark.capture.hardware.processes import usage
from seamark.capture.hardware.readings import GIB, MIB, Reading
from seamark.process import fork

__all__ = ["Machine"]

log = logging.getLogger("seamark")


class Machine:
    """Reads what there is to be read; belongs to one thread, and is opened when first asked.

    Nothing raises: what cannot be had is left out. Each question may take long.

    Args:
        root: Below which ``proc`` and ``sys`` are, for the limits of containers.
        clock: Seconds that never step.
    """

    def __init__(self, root: Path = Path("/"), clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._opened = False
        self._psutil: Any = None
        self._gpus: NvidiaGpus | AmdGpus | None = None
        self._cpu_limit: CpuLimit | None = None
        self._memory_limit: MemoryLimit | None = None
        self._cores = 1.0
        self._allowed: frozenset[int] | None = None

    def facts(self) -> Iterator[dict[str, Any]]:
        """Yield what does not change, by name: what is known at once, then what drivers say.

        Memory is in GiB.
        """
        self._open()
        yield self._own_facts()
        yield dict(self._open_gpus().facts)

    def read(self) -> Reading:
        """Return what is so now."""
        self._open()
        found = Reading(self._clock())
        for read in (self._cpu, self._memory, self._disk, self._network, self._processes):
            try:
                read(found)
            except Exception:
                log.debug("seamark: a part of the hardware is not known", exc_info=True)
        found.gpus = self._open_gpus().read()
        return found

    @property
    def gpu_numbers(self) -> list[int]:
        """The numbers of the GPUs that this process may use."""
        return self._open_gpus().numbers

    def own_gpus(self) -> frozenset[int]:
        """Return the numbers of those on which this process computes, as far as that is known."""
        return self._open_gpus().used_by(os.getpid())

    def free(self, place: Path) -> float | None:
        """Return how much space is left on the disk of a folder, in GiB; None if unknown."""
        self._open()
        try:
            return float(self._psutil.disk_usage(str(place)).free / GIB)
        except Exception:  # noqa: BLE001 - gone, or psutil is not there
            return None

    def close(self) -> None:
        """Let go of drivers; what is asked next opens them again."""
        gpus, self._gpus = self._gpus, None
        if gpus is not None:
            gpus.close()

    # ---------------------------------------------------------------- opening

    def _open(self) -> None:
        if self._opened:
            return
        self._opened = True
        with fork.held_off():
            try:
                import psutil
            except ImportError:
                log.debug("seamark: psutil cannot be imported", exc_info=True)
                return
        self._psutil = psutil
        groups = Cgroup(self._root)
        self._find_cores(groups)
        limit = groups.memory_limit()
        if limit is not None and limit.size < psutil.virtual_memory().total:
            self._memory_limit = limit

    def _find_cores(self, groups: Cgroup) -> None:
        """Find out on how many cores this process may run."""
        every = self._psutil.cpu_count() or 1
        self._cores = float(every)
        affinity = getattr(os, "sched_getaffinity", None)
        allowed = frozenset(affinity(0)) if affinity is not None else frozenset[int]()
        if 0 < len(allowed) < every:
            self._allowed, self._cores = allowed, float(len(allowed))
        limit = groups.cpu_limit()
        if limit is not None and limit.cores < self._cores and limit.used_s() is not None:
            self._cpu_limit, self._cores = limit, limit.cores

    def _open_gpus(self) -> NvidiaGpus | AmdGpus:
        if self._gpus is not None:
            return self._gpus
        nvidia = NvidiaGpus()
        with fork.held_off():
            try:
                import pynvml
            except ImportError:
                pynvml = None
        if pynvml is not None:
            nvidia.open(pynvml)
        self._gpus = nvidia
        if not nvidia.numbers and (amd := self._open_amd()) is not None:
            nvidia.close()
            self._gpus = amd
        return self._gpus

    @staticmethod
    def _open_amd() -> AmdGpus | None:
        with fork.held_off():
            try:
                import amdsmi
            except Exception:  # noqa: BLE001 - it loads a library of ROCm, which may not be there
                return None
        amd = AmdGpus()
        amd.open(amdsmi)
        return amd if amd.numbers else None

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
        """Return the name of the CPU's model, or its architecture where there is no name."""
        try:
            with (self._root / "proc/cpuinfo").open("rb") as file:
                text = file.read(1 << 14).decode(errors="replace")  # it goes on for each core
        except OSError:
            text = ""
        for line in text.splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model", "cpu model") and value.strip():
                return " ".join(value.split())
        return platform.machine() or "unknown"

    # ---------------------------------------------------------------- numbers of the moment

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
        """Count what went through network cards; where none is seen, all but the loopback.

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
        seconds, memory = usage(self._psutil, os.getpid())
        found.process.counted["process_cores"] = seconds
        found.process.present["process_memory"] = memory / GIB


def _busy(times: Any) -> float:
    """Return how long cores worked, in seconds; a guest's time is the user's already."""
    idle = times.idle + getattr(times, "iowait", 0.0)
    twice = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return float(sum(times) - idle - twice)
