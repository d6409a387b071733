"""CPU time and memory of a process and all of its descendants."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

__all__ = ["children_of", "usage"]


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
    for each in _tree(psutil, pid):
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


def _tree(psutil: Any, pid: int) -> list[int]:
    """Return the ids of a process and of all below it."""
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

    Costs a small file for each thread; looking through ``/proc`` costs one for each process of the
    host.

    Args:
        pid: Of the process.
        proc: Where the kernel tells of processes.

    Returns:
        None where it tells nothing of the process, or does not list children.
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
