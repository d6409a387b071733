"""Identity of processes, by boot id and start time, and whether they are still alive."""

from __future__ import annotations

import functools
import getpass
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seamark.process.interrupts import let_pass, quietly

__all__ = [
    "boot_id",
    "host_name",
    "pid_namespace",
    "process_alive",
    "process_facts",
    "process_start",
    "user_name",
]


def host_name() -> str:
    """Return this host's name as a valid file name; never empty."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname())[:60].strip(".-_")
    return name or "host"


def user_name() -> str | None:
    """Return the login name of the user who runs this process, or None if there is no name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError) as error:  # a container's user id without a name
        let_pass(error)
        return None


def process_facts() -> dict[str, Any]:
    """Return the facts about this process for the HEADER of a journal."""
    pid = os.getpid()
    return {
        "user": user_name(),
        "host": host_name(),
        "boot": boot_id(),
        "pid": pid,
        "start": process_start(pid),
        "pid_namespace": pid_namespace(),
    }


def process_alive(header: Mapping[str, Any]) -> bool | None:
    """Return whether the process that wrote a journal still lives, by its HEADER record.

    Pid and start time must both match, as pids are used again, on the same boot of the same host;
    None where that is not known here, as in another container, where pids stand for other
    processes.
    """
    boot, start, pid = header.get("boot"), header.get("start"), header.get("pid")
    if boot is None or start is None or not isinstance(pid, int) or boot != boot_id():
        return None
    if header.get("host") != host_name() or not os.path.isdir("/proc/self"):  # noqa: PTH112 - hot for many runs
        return None
    namespace = header.get("pid_namespace")
    if namespace is not None and namespace != pid_namespace():
        return None
    return bool(process_start(pid) == start)


def pid_namespace() -> int | None:
    """Return the inode of the namespace in which this process's pid counts, or None (not Linux)."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116 - hot for many runs
    except OSError as error:
        let_pass(error)
        return None


@functools.cache
def boot_id() -> str | None:
    """Return the id that the kernel drew when this host booted, or None (not Linux)."""
    with quietly(only=OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return None


def process_start(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if it is gone or unknown.

    Source: proc(5), field 22 of ``/proc/<pid>/stat``; a zombie counts as gone.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError as error:
        let_pass(error)
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()  # the name may hold spaces and brackets
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
