"""CPU time and memory of a process and all of its descendants."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

__all__ = ["usage"]


def usage(psutil: Any, pid: int) -> tuple[float, int]:
    """Return the CPU time and the memory of a process and all below it, in seconds and bytes.

    The time includes that of children that ended. Memory is what is resident; of what may be shared
    (files, shared memory, in which loaders hand batches over) only the largest share of one process
    is counted, once. Pages that a fork left in common are counted in each process: what the kernel
    knows better (PSS) it finds out page by page, and the process would stand still meanwhile.

    Args:
        psutil: The module.
        pid: Of the process at the top.
    """
    seconds, private, shared = 0.0, 0, 0
    if Path(f"/proc/{pid}/task/{pid}/children").exists():
        below = _descendants(pid)
    else:  # a kernel that does not list them: every process of the host is looked at
        below = [each.pid for each in psutil.Process(pid).children(recursive=True)]
    for each in [pid, *below]:
        try:
            process = psutil.Process(each)
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


def _descendants(pid: int) -> list[int]:
    """Return the ids of all below a process, as the kernel lists children for each thread.

    Costs a small file for each thread; psutil reads one for each process of the host.
    """
    found: list[int] = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # ended meanwhile
            for child in map(int, listed.read_bytes().split()):
                found += [child, *_descendants(child)]
    return found
