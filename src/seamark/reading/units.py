"""In which units the machine is measured: one place for everybody who shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

__all__ = ["FACT_UNITS", "UNITS", "is_measured", "shared_unit", "unit_of"]

_SPACE: Final = "monitoring"
_FACTS: Final = "environment"
_LEAST: Final = 2
UNITS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("cpu", "gpu"), "%"),
    **dict.fromkeys(("memory", "process_memory", "gpu_memory", "disk_free"), "GiB"),
    **dict.fromkeys(("disk_read_rate", "disk_write_rate"), "MiB/s"),
    **dict.fromkeys(("network_receive_rate", "network_send_rate"), "MiB/s"),
    "gpu_power": "W",
    "gpu_temperature": "°C",
    "process_cores": "cores",
}
"""Units of series by the last part of their paths, without the number of a device."""
FACT_UNITS: Final[Mapping[str, str]] = dict.fromkeys(
    ("memory", "memory_limit", "gpu_memory"), "GiB"
)
"""Units of facts about a machine."""


def is_measured(path: str) -> bool:
    """Return whether a path lies where what is measured of machines is kept."""
    return path.partition("/")[0] == _SPACE


def unit_of(path: str) -> str:
    """Return the unit of a series or a fact of a machine, such as ``"GiB"``; empty if unknown."""
    parts = path.split("/")
    if not is_measured(path) or len(parts) < _LEAST:
        return ""
    name, _, number = parts[-1].rpartition("_")
    if not (number.isascii() and number.isdecimal()):
        name = parts[-1]
    return (FACT_UNITS if parts[-2] == _FACTS else UNITS).get(name, "")


def shared_unit(paths: Iterable[str]) -> str:
    """Return the unit that all of these are in; empty if they are in several, or in none."""
    units = {unit_of(path) for path in paths}
    return units.pop() if len(units) == 1 else ""
