"""What tells one process from another: boot id, start time, and whether it still lives."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from typing import Any

from seamark.journal.folder import host_name
from seamark.ranks import boot_id, process_start

__all__ = ["boot_id", "process_alive", "process_facts", "process_start", "user_name"]


def user_name() -> str | None:
    """Return the login name of whoever runs this process, or None if nobody has one for it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container's user id without a name
        return None


def process_facts() -> dict[str, Any]:
    """Return what the HEADER of a journal says of the process that writes it."""
    pid = os.getpid()
    return {
        "user": user_name(),
        "host": host_name(),
        "boot": boot_id(),
        "pid": pid,
        "start": process_start(pid),
    }


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
