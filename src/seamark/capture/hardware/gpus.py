"""Facts and metrics of NVIDIA and AMD GPUs.

Opening and each query may take seconds. No query raises; values that are not available are left
out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

MIB: Final = 2**20
GIB: Final = 2**30


class Gpus:
    """GPUs that this process may use; this base class has none.

    Attributes:
        facts: Facts about the GPUs and their driver, by name; memory in GiB.
    """

    def __init__(self, library: Any = None) -> None:
        self._library = library
        self._handles: dict[int, Any] = {}
        self.facts: dict[str, Any] = {}

    @property
    def numbers(self) -> list[int]:
        """Numbers of the devices."""
        return list(self._handles)

    def read(self) -> dict[int, dict[str, float]]:
        """Return the metrics of each device by its number: percent, GiB, watts, degrees Celsius."""
        found: dict[int, dict[str, float]] = {}
        for number, handle in self._handles.items():
            result = self._read(handle)
            found[number] = {name: value for name, value in result.items() if value is not None}
        return found

    def close(self) -> None:
        """Let go of the driver."""

    def _read(self, handle: Any) -> dict[str, float | None]:
        raise NotImplementedError

    def _describe(self, names: list[str], sizes: list[float | None], driver: object) -> None:
        if names:
            self.facts["gpu"] = ", ".join(dict.fromkeys(names))
            self.facts["gpu_count"] = len(names)
        if known := [size for size in sizes if size is not None]:
            self.facts["gpu_memory"] = min(known)
        if driver:
            self.facts["driver"] = str(driver)

    def _query(self, function: str, *args: Any) -> Any:
        """Return the result of a function of the library, or None if it fails."""
        try:
            result = getattr(self._library, function)(*args)
        except Exception:  # noqa: BLE001 - no driver, not supported, or another release
            return None
        return result.decode(errors="replace") if isinstance(result, bytes) else result


class NvidiaGpus(Gpus):
    """GPUs of NVIDIA, through NVML (the package ``nvidia-ml-py``).

    Without a driver, its library or permission there are none. Devices have the numbers of NVML and
    ``nvidia-smi``, in the order of the PCI bus. CUDA uses the same order with
    ``CUDA_DEVICE_ORDER=PCI_BUS_ID`` or if all GPUs of the machine are identical; otherwise it puts
    the fastest first.
    """

    def __init__(self, nvml: Any) -> None:
        super().__init__(nvml)
        self._is_open = False
        try:
            nvml.nvmlInit()
        except Exception:  # noqa: BLE001 - the types differ between releases of the package
            return
        self._is_open = True
        self._handles = dict(self._visible())
        handles = self._handles.values()
        names = [str(self._query("nvmlDeviceGetName", one) or "NVIDIA GPU") for one in handles]
        sizes = [self._memory(one, "total") for one in handles]
        self._describe(names, sizes, self._query("nvmlSystemGetDriverVersion"))
        if (cuda := self._query("nvmlSystemGetCudaDriverVersion")) is not None:
            self.facts["cuda_driver"] = f"{cuda // 1000}.{cuda % 1000 // 10}"

    def close(self) -> None:
        """Let go of the driver."""
        if self._is_open:
            self._is_open, self._handles = False, {}
            self._query("nvmlShutdown")

    def _visible(self) -> list[tuple[int, Any]]:
        """Return number and handle of each device that CUDA would use, up to the first invalid one.

        ``CUDA_VISIBLE_DEVICES`` has indices, UUIDs (``GPU-...``), or names of parts of a device
        (``MIG-...``).
        """
        count = self._query("nvmlDeviceGetCount") or 0
        devices = {at: self._query("nvmlDeviceGetHandleByIndex", at) for at in range(count)}
        named = os.environ.get("CUDA_VISIBLE_DEVICES")
        if named is None:
            return [(at, handle) for at, handle in devices.items() if handle is not None]
        found: dict[int, Any] = {}
        for word in map(str.strip, named.split(",")):
            one = self._find_device(word, devices)
            if one is None:
                break
            found.setdefault(*one)
        return list(found.items())

    def _find_device(self, word: str, devices: Mapping[int, Any]) -> tuple[int, Any] | None:
        if word.isascii() and word.isdigit():
            handle = devices.get(int(word))
            return None if handle is None else (int(word), handle)
        handle = self._query("nvmlDeviceGetHandleByUUID", word)
        whole = handle
        if word.startswith("MIG-") and handle is not None:
            whole = self._query("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)
        index = None if whole is None else self._query("nvmlDeviceGetIndex", whole)
        return None if handle is None else (index or 0, handle)

    def _memory(self, handle: Any, name: str) -> float | None:
        memory = self._query("nvmlDeviceGetMemoryInfo", handle)
        return None if memory is None else getattr(memory, name) / GIB

    def _read(self, handle: Any) -> dict[str, float | None]:
        busy = self._query("nvmlDeviceGetUtilizationRates", handle)
        milliwatts = self._query("nvmlDeviceGetPowerUsage", handle)
        sensor = self._library.NVML_TEMPERATURE_GPU
        degrees = self._query("nvmlDeviceGetTemperature", handle, sensor)
        return {
            "gpu": None if busy is None else float(busy.gpu),
            "gpu_memory": self._memory(handle, "used"),
            "gpu_power": None if milliwatts is None else milliwatts / 1000,
            "gpu_temperature": None if degrees is None else float(degrees),
        }


class AmdGpus(Gpus):
    """GPUs of AMD, through the package ``amdsmi`` of ROCm.

    The library stays open until the process ends: it does not count its users, and closing it would
    close it for other runs and for the training.
    """

    def __init__(self, smi: Any) -> None:
        super().__init__(smi)
        self._query("amdsmi_init")
        every = list(self._query("amdsmi_get_processor_handles") or ())
        self._handles = {at: every[at] for at in _visible(len(every))}
        handles = self._handles.values()
        kinds = [self._query("amdsmi_get_gpu_asic_info", one) or {} for one in handles]
        drivers = [self._query("amdsmi_get_gpu_driver_info", one) or {} for one in handles]
        self._describe(
            [str(one.get("market_name") or "AMD GPU") for one in kinds],
            [self._memory(one, "vram_total") for one in handles],
            next((one.get("driver_version") for one in drivers), None),
        )

    def _read(self, handle: Any) -> dict[str, float | None]:
        power = self._query("amdsmi_get_power_info", handle)
        # Accelerators have no EDGE sensor.
        degrees = {sensor: self._temperature(handle, sensor) for sensor in ("HOTSPOT", "EDGE")}
        return {
            "gpu": _number(self._query("amdsmi_get_gpu_activity", handle), "gfx_activity"),
            "gpu_memory": self._memory(handle, "vram_used"),
            "gpu_power": _number(power, "current_socket_power", "average_socket_power"),
            "gpu_temperature": _number(degrees, *degrees),
        }

    def _temperature(self, handle: Any, sensor: str) -> Any:
        kind = getattr(getattr(self._library, "AmdSmiTemperatureType", None), sensor, None)
        now = getattr(getattr(self._library, "AmdSmiTemperatureMetric", None), "CURRENT", None)
        return self._query("amdsmi_get_temp_metric", handle, kind, now)

    def _memory(self, handle: Any, name: str) -> float | None:
        # The library returns MiB.
        size = _number(self._query("amdsmi_get_gpu_vram_usage", handle), name)
        return None if size is None else size * MIB / GIB


def _visible(count: int) -> list[int]:
    """Return the visible indices; the second variable selects from the result of the first.

    A variable that contains anything but indices is ignored.
    """
    found = list(range(count))
    for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        named = os.environ.get(name)
        words = [word.strip() for word in named.split(",")] if named else []
        if named is not None and all(word.isascii() and word.isdigit() for word in words):
            found = [found[at] for at in map(int, words) if at < len(found)]
    return found


def _number(result: Any, *names: str) -> float | None:
    """Return the first field that is a number, or None; unavailable values are ``"N/A"``."""
    for name in names:
        value = result.get(name) if isinstance(result, Mapping) else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None
