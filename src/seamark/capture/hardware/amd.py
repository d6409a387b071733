"""AMD's GPUs, through ``amdsmi``, which ROCm brings; without it there are none."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from seamark.capture.hardware.readings import GIB, MIB

__all__ = ["AmdGpus"]

_VISIBLE: Final = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


class AmdGpus:
    """The GPUs that this process may use; as `seamark.capture.hardware.nvidia.NvidiaGpus`.

    Args:
        environment: Names what may be used, by index; other names are not understood, and all
            devices are taken then.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self._smi: Any = None
        self._handles: dict[int, Any] = {}
        self.facts: dict[str, Any] = {}

    def open(self, smi: Any) -> None:
        """Find the devices.

        Args:
            smi: The module ``amdsmi``.
        """
        try:
            smi.amdsmi_init()
            handles = list(smi.amdsmi_get_processor_handles())
        except Exception:  # noqa: BLE001 - no driver, no permission: there are none
            return
        self._smi = smi
        self._handles = {at: handles[at] for at in self._visible(len(handles))}
        if not self._handles:
            return
        about = [self._ask("amdsmi_get_gpu_asic_info", one) for one in self._handles.values()]
        names = [str(one.get("market_name") or "AMD GPU") for one in about]
        memory = [_number(self._memory(one), "vram_total") for one in self._handles.values()]
        sizes = [size * MIB / GIB for size in memory if size is not None]
        self.facts["gpu"] = ", ".join(dict.fromkeys(names))
        self.facts["gpu_count"] = len(names)
        if sizes:
            self.facts["gpu_memory"] = min(sizes)
        driver = self._ask("amdsmi_get_gpu_driver_info", next(iter(self._handles.values())))
        if driver.get("driver_version"):
            self.facts["driver"] = str(driver["driver_version"])

    @property
    def numbers(self) -> list[int]:
        """The numbers of the devices."""
        return list(self._handles)

    def read(self) -> dict[int, dict[str, float]]:
        """Return what each device does, by its number; what it does not say is left out."""
        return {number: self._read(handle) for number, handle in self._handles.items()}

    def used_by(self, pid: int) -> frozenset[int]:
        """Return none: which process is on which device is not asked."""
        return frozenset()

    def close(self) -> None:
        """Let go of the driver."""
        if self._smi is not None:
            with contextlib.suppress(Exception):  # nothing depends on it
                self._smi.amdsmi_shut_down()
        self._smi, self._handles = None, {}

    def _visible(self, count: int) -> list[int]:
        """Return the indices that both variables leave; the second counts what the first left."""
        found = list(range(count))
        for name in _VISIBLE:
            words = self._environment.get(name)
            if words is None or (words and not _is_list(words)):
                continue
            wanted = [int(word) for word in words.split(",")] if words else []
            found = [found[at] for at in wanted if at < len(found)]
        return found

    def _read(self, handle: Any) -> dict[str, float]:
        power = self._ask("amdsmi_get_power_info", handle)
        used = _number(self._memory(handle), "vram_used")
        said = {
            "gpu": _number(self._ask("amdsmi_get_gpu_activity", handle), "gfx_activity"),
            "gpu_memory": None if used is None else used * MIB / GIB,
            "gpu_power": _number(power, "current_socket_power", "average_socket_power"),
            "gpu_temperature": self._temperature(handle),
        }
        return {name: value for name, value in said.items() if value is not None}

    def _memory(self, handle: Any) -> Mapping[str, Any]:
        return self._ask("amdsmi_get_gpu_vram_usage", handle)

    def _temperature(self, handle: Any) -> float | None:
        """Return what the first sensor says that there is: accelerators have none at their edge."""
        said: dict[str, Any] = {}
        for sensor in ("HOTSPOT", "EDGE"):
            try:
                kind = getattr(self._smi.AmdSmiTemperatureType, sensor)
                now = self._smi.AmdSmiTemperatureMetric.CURRENT
                said[sensor] = self._smi.amdsmi_get_temp_metric(handle, kind, now)
            except Exception:  # noqa: BLE001 - this one is not there
                said[sensor] = None
        return _number(said, *said)

    def _ask(self, name: str, handle: Any) -> Mapping[str, Any]:
        """Return the answer to a question; nothing if there is none."""
        try:
            question: Callable[..., Any] = getattr(self._smi, name)
            said = question(handle)
        except Exception:  # noqa: BLE001 - not supported, not permitted, or another release
            return {}
        return said if isinstance(said, Mapping) else {}


def _is_list(words: str) -> bool:
    return all(word.strip().isascii() and word.strip().isdigit() for word in words.split(","))


def _number(said: Mapping[str, Any], *names: str) -> float | None:
    """Return the first of some fields that holds a number; what is not known is ``"N/A"``."""
    for name in names:
        value = said.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None
