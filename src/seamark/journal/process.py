"""What tells one process from another: boot id, start time, and whether it still lives."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seamark.journal.folder import host_name

__all__ = ["boot_id", "process_alive", "process_start"]


def boot_id() -> str | None:
    """Return the id that the kernel drew when this host booted; None where there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None


def process_start(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if it is gone.

    Source: proc(5), field 22 of ``/proc/<pid>/stat``; a zombie counts as gone.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()  # the name may hold spaces and brackets
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def process_alive(header: Mapping[str, Any]) -> bool | None:
    """Tell whether the process that wrote a journal still lives.

    Args:
        header: The journal's HEADER record.

    Returns:
        True or False on the same boot of the same host (pid and start time must both match, as pids
        are used again); None where that cannot be told from here.
    """
    boot, start, pid = header.get("boot"), header.get("start"), header.get("pid")
    if boot is None or start is None or not isinstance(pid, int) or boot != boot_id():
        return None
    if header.get("host") != host_name() or not os.path.isdir("/proc/self"):  # noqa: PTH112 - hot for many runs
        return None
    return bool(process_start(pid) == start)
