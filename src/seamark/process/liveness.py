"""Identity and liveness of processes, and reasons for ends without a record.

Only known reasons are reported. The kernel's log names the killed process. The counter of its
control group (a container, a job, a service) only shows that a process of the group was killed for
lack of memory, so this reason is reported as likely. Both are available for a limited time and only
on that host: otherwise the reason is a missing process or a lost heartbeat.
"""

from __future__ import annotations

import functools
import getpass
import os
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from seamark.process.interrupts import let_pass, quietly


def host_name() -> str:
    """Return the name of this host as a valid file name, never empty."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname())[:60].strip(".-_")
    return name or "host"


def user_name() -> str | None:
    """Return the login name of the user of this process, or None."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError) as error:  # user id without a name, as in containers
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
    """Return whether the writer of a journal is still running, by its HEADER record.

    Pid and start time must both match on the same boot of the same host, because pids are reused.
    The result is None if unknown: in another container, whose pids are different, or if ``/proc``
    hides the processes of other users. The process is first asked for by a signal, which is fast
    for thousands of ended processes.
    """
    boot, start, pid = header.get("boot"), header.get("start"), header.get("pid")
    if boot is None or start is None or not isinstance(pid, int) or boot != boot_id():
        return None
    if header.get("host") != host_name() or not os.path.isdir("/proc/self"):  # noqa: PTH112 - hot for many runs
        return None
    namespace = header.get("pid_namespace")
    if namespace is not None and namespace != pid_namespace():
        return None
    if not _exists(pid):
        return False
    found = process_start(pid)
    if found is None and _exists(pid) and not os.path.exists(f"/proc/{pid}/stat"):  # noqa: PTH110 - otherwise it is a zombie
        return None
    return bool(found == start)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)  # signal 0 only checks the process
    except (ProcessLookupError, OverflowError) as error:
        let_pass(error)
        return False
    except OSError as error:  # process of another user
        let_pass(error)
    return True


def pid_namespace() -> int | None:
    """Return the inode of this process's pid namespace, or None (not on Linux)."""
    return _namespace_of(os.getpid())


@functools.lru_cache(maxsize=1)
def _namespace_of(_own_pid: int) -> int | None:
    # A process never changes its namespace, but a forked child may have another one.
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError as error:
        let_pass(error)
        return None


@functools.cache
def boot_id() -> str | None:
    """Return the kernel's random id of the current boot, or None (not on Linux)."""
    with quietly(only=OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return None


def process_start(pid: int) -> int | None:
    """Return the start time of a process, in clock ticks since boot; None if ended or unknown.

    Source: proc(5), field 22 of ``/proc/<pid>/stat``. A zombie counts as ended.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError as error:
        let_pass(error)
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()  # the name may contain spaces and parentheses
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


OUT_OF_MEMORY: Final = "out of memory"
LIKELY_OUT_OF_MEMORY: Final = "likely out of memory"
SEGMENTATION_FAULT: Final = "segmentation fault"
GONE: Final = "process gone"
REBOOTED: Final = "host rebooted"
LOST: Final = "heartbeat lost"
CRASH_REASONS: Final = (
    OUT_OF_MEMORY,
    LIKELY_OUT_OF_MEMORY,
    SEGMENTATION_FAULT,
    GONE,
    REBOOTED,
    LOST,
)
"""All crash reasons, as shown to users and used in queries."""
_GROUPS_FOLDER: Final = "sys/fs/cgroup"
_COUNTER_FILES: Final = ("memory.events", "memory.oom_control")
"""Files with the counter ``oom_kill <count>`` in versions 2 and 1 of control groups."""
_KILLS: Final = re.compile(rb"^oom_kill ([0-9]{1,18})$", re.MULTILINE)
_GROUP_V1: Final = re.compile(r"^\d+:(?:[^:\n]*,)?memory(?:,[^:\n]*)?:(.+)$", re.MULTILINE)
_GROUP_V2: Final = re.compile(r"^0:[^:\n]*:(.+)$", re.MULTILINE)
"""Control group of a process in version 2, in which all controllers share one tree."""
_MAX_GROUPS: Final = 4
_MAX_LOG_BYTES: Final = 1 << 24
_INITIAL_NAMESPACE: Final = 0xEFFFFFFC
"""Inode of the initial pid namespace, whose pids appear in the kernel's log."""
_GENERIC_HOST_NAMES: Final = frozenset({"host", "localhost", "localhost.localdomain"})
"""Host names that do not identify a machine."""
_TOLERANCE_S: Final = 60.0
_MAX_CLOCK_DRIFT: Final = 0.001
"""Tolerance for the kernel log's clock, which is not synchronized, unlike that of journals."""
_MAX_SILENCE_S: Final = 600.0
"""Time for which a process may be silent before the kernel kills it for lack of memory, in seconds.
"""
# The anchors prevent matches in the name of a process, which is untrusted.
_KILLED: Final = re.compile(r"^(?:[\w ]{1,40}: )?Killed process (\d+)[ ,]")
_OOM_KILL: Final = re.compile(r"^oom-kill:.*,pid=(\d+),uid=\d+$")
_FAULT: Final = re.compile(r"^.{1,32}\[(\d+)\]: segfault at ")
_BOOT_TIME: Final = re.compile(rb"^btime (\d+)$", re.MULTILINE)
_RECORD: Final = re.compile(r"^(\d+),\d+,(\d+),[^;]*;(.*)$")
_KERNEL_FACILITY: Final = 0
"""Log facility of the kernel."""


@dataclass(frozen=True, slots=True)
class Crash:
    """Reason why a process ended without a record of its end, or evidence that it did.

    ``reason`` is one of `CRASH_REASONS`. ``last_t`` is the time of the last record or heartbeat, in
    nanoseconds since the Unix epoch. ``detail`` is part of a sentence, or empty.
    """

    reason: str
    host: str | None
    pid: int | None
    last_t: int
    detail: str = ""


# --------------------------------------------------------------------- recorded by a process


def memory_groups(root: Path = Path("/")) -> list[list[Any]]:
    """Return the control groups of this process with a counter of kills for lack of memory.

    An entry is the path below ``/sys/fs/cgroup``, the inode and the current count. Entries are the
    process's group (or its nearest visible parent) and some of its parents; none without a counter.
    """
    with quietly(only=OSError):
        text = (root / "proc/self/cgroup").read_text("utf-8", "replace")
        counted = [(path, _kill_count(root / _GROUPS_FOLDER / path)) for path in group_paths(text)]
        return [[path, *count] for path, count in counted if count is not None][:_MAX_GROUPS]
    return []


def group_paths(text: str) -> list[str]:
    """Return the control group in ``/proc/self/cgroup`` and its parents, below the mount point.

    The group that limits memory is meant: that of version 1, if there is one. Empty if it is
    outside of this namespace. Source: cgroups(7), lines ``<hierarchy>:<controllers>:<path>``.
    """
    old = _GROUP_V1.search(text)
    found = old or _GROUP_V2.search(text)
    parts = [] if found is None else list(filter(None, found[1].split("/")))
    if found is None or ".." in parts:  # outside of this namespace
        return []
    base = () if old is None else ("memory",)
    return ["/".join((*base, *parts[:end])) for end in range(len(parts), -1, -1)]


def _kill_count(folder: Path) -> tuple[int, int] | None:
    for file in filter(Path.exists, map(folder.joinpath, _COUNTER_FILES)):
        try:
            if found := _KILLS.search(file.read_bytes()):
                return folder.stat().st_ino, int(found[1])
        except OSError as error:
            let_pass(error)
    return None


# --------------------------------------------------------------------- used by a reader


class Evidence:
    """Evidence on this host about the ends of processes; read once, on first use.

    Args:
        root: Root of the file system, instead of ``/``.
        now_ns: Time in nanoseconds since the Unix epoch; default: the clock.
        here: Whether evidence of this machine may be used. A server does not use it for received
            headers, which may name any host.
    """

    def __init__(
        self,
        root: Path = Path("/"),
        now_ns: int | None = None,
        *,
        here: bool = True,
    ) -> None:
        self.here = here
        self._root = root
        self._now_s = (time.time_ns() if now_ns is None else now_ns) / 1e9
        self._counts: dict[str, tuple[int, int] | None] = {}

    def alive(self, header: Mapping[str, Any]) -> bool | None:
        """Return whether a process is still running; None if unknown on this host."""
        if self.here:
            return process_alive(header)
        return False if header.get("ended_how") in CRASH_REASONS else None

    def crash(self, header: Mapping[str, Any], last_t: int) -> Crash:
        """Return the reason why the writer of a journal no longer records.

        Never raises, although the header is untrusted. ``last_t`` is the time of the last record or
        heartbeat, in nanoseconds since the Unix epoch.
        """
        host, pid = header.get("host"), header.get("pid")
        reason, detail = LOST, ""
        with quietly():
            reason, detail = self._reason(header, last_t)
        return Crash(
            reason,
            host if isinstance(host, str) else None,
            pid if isinstance(pid, int) else None,
            last_t,
            detail,
        )

    def _reason(self, header: Mapping[str, Any], last_t: int) -> tuple[str, str]:
        if not self.here:  # its own host may have recorded the reason
            how = header.get("ended_how")
            return (how if how in CRASH_REASONS else LOST), ""
        boot, boot_now = header.get("boot"), boot_id()
        if header.get("host") != host_name() or boot is None or boot_now is None:
            return LOST, ""
        if boot != boot_now:
            return (REBOOTED, "") if self._has_restarted_since(last_t) else (LOST, "")
        alive = process_alive(header)
        if alive is not False:
            return LOST, "its process is still alive" if alive else ""
        if (ended := self._reason_in_log(header, last_t)) is not None:
            return ended, ""
        return self._reason_in_groups(header.get("cgroup"))

    def _has_restarted_since(self, last_t: int) -> bool:
        booted_s = self._boot_time_s
        if booted_s is None or host_name() in _GENERIC_HOST_NAMES:
            return False
        return last_t / 1e9 < booted_s + _TOLERANCE_S

    @functools.cached_property
    def _boot_time_s(self) -> int | None:
        """Boot time of this host, in seconds since the Unix epoch. Source: proc(5), ``btime``."""
        with quietly(only=OSError):
            found = _BOOT_TIME.search((self._root / "proc/stat").read_bytes())
            return int(found[1]) if found else None
        return None

    # ---------------------------------------------------------------- the kernel's log

    def _reason_in_log(self, header: Mapping[str, Any], last_t: int) -> str | None:
        pid, start = header.get("pid"), header.get("start")
        # The log contains pids of the initial namespace, not those of a container.
        if not header.get("pid_namespace") == pid_namespace() == _INITIAL_NAMESPACE:
            return None
        if not isinstance(pid, int) or not isinstance(start, int):
            return None
        awake_s = time.clock_gettime(time.CLOCK_MONOTONIC)
        asleep_s = max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - awake_s)
        slack_s = _TOLERANCE_S + _MAX_CLOCK_DRIFT * awake_s
        start_s = start / os.sysconf("SC_CLK_TCK")
        silent_s = self._now_s - last_t / 1e9
        found = None
        for reason, at_s in self._logged_ends.get(pid, ()):
            since_s = awake_s - at_s
            if at_s + asleep_s + slack_s < start_s:
                continue  # an earlier process with this pid
            if since_s + asleep_s + slack_s + _MAX_SILENCE_S < silent_s:
                continue  # a later process
            found = reason
        return found

    @functools.cached_property
    def _logged_ends(self) -> dict[int, list[tuple[str, float]]]:
        """Logged ends of processes by pid: reason, and seconds since boot without sleep.

        Source: ``Documentation/ABI/testing/dev-kmsg``.
        """
        found: dict[int, list[tuple[str, float]]] = {}
        for line in _log_lines(self._root / "dev/kmsg"):
            match = _RECORD.match(line)
            if match is None or int(match[1]) >> 3 != _KERNEL_FACILITY:
                continue
            for pattern, reason in (
                (_KILLED, OUT_OF_MEMORY),
                (_OOM_KILL, OUT_OF_MEMORY),
                (_FAULT, SEGMENTATION_FAULT),
            ):
                if (named := pattern.match(match[3])) is not None:
                    found.setdefault(int(named[1]), []).append((reason, int(match[2]) / 1e6))
        return found

    # ---------------------------------------------------------------- control groups

    def _reason_in_groups(self, recorded: Any) -> tuple[str, str]:
        for at, one in enumerate(recorded if isinstance(recorded, list) else ()):
            path, inode, before = one
            if not isinstance(path, str) or ".." in path.split("/") or path.startswith("/"):
                break
            if path not in self._counts:
                self._counts[path] = _kill_count(self._root / _GROUPS_FOLDER / path)
            now = self._counts[path]
            if now is None or now[0] != inode:
                continue  # the group was removed; its parent counted its kills too
            if now[1] <= before:
                break
            if at == 0:
                return LIKELY_OUT_OF_MEMORY, ""
            return GONE, (
                "since it started, the kernel has killed a process of its job or container, or of "
                "a neighbouring one, because there was no memory left"
            )
        return GONE, ""


def _log_lines(path: Path) -> list[str]:
    parts: list[bytes] = []
    size = 0
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    # It may be readable only by root.
    with quietly(only=OSError), os.fdopen(os.open(path, flags), "rb", buffering=0) as log:
        while size < _MAX_LOG_BYTES:
            try:
                part = log.read(1 << 13)  # each read returns one record of at most this size
            except BrokenPipeError:  # a record was overwritten; read the following one
                continue
            if not part:  # None: end of the log
                break
            parts.append(part)
            size += len(part)
    return b"".join(parts).decode("utf-8", "replace").splitlines()
