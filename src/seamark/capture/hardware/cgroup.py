"""Limits and usage of a container, a job or a slice: Linux control groups, version 1 and 2.

A process is in a group of each hierarchy, and every group above it limits it too: the tightest
limit is the one that counts, and what is used is what the group of that limit uses. What is seen of
a hierarchy may begin in its middle, as in most containers: ``/proc/self/mountinfo`` says where.
Sources: cgroups(7), and the kernel's ``admin-guide/cgroup-v1`` and ``admin-guide/cgroup-v2``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Cgroup", "CpuLimit", "MemoryLimit"]

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
