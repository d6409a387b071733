"""GPUs of NVIDIA and AMD: what they are, and what they do.

Opening may take seconds, each question too; none raises, and what is not answered is left out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["GIB", "MIB", "AmdGpus", "Gpus", "NvidiaGpus"]

MIB: Final = 2**20
GIB: Final = 2**30


class Gpus:
    """The GPUs that this process may use; this class has none.

    Attributes:
        facts: What they and their driver are, by name; memory in GiB.
    """

    def __init__(self) -> None:
        self._handles: dict[int, Any] = {}
        self.facts: dict[str, Any] = {}

    @property
    def numbers(self) -> list[int]:
        """The numbers of the devices."""
        return list(self._handles)

    def read(self) -> dict[int, dict[str, float]]:
        """Return what each device does, by its number: percent, GiB, watts, degrees Celsius."""
        found: dict[int, dict[str, float]] = {}
        for number, handle in self._handles.items():
            said = self._read(handle)
            found[number] = {name: value for name, value in said.items() if value is not None}
        return found

    def close(self) -> None:
        """Let go of the driver."""

    def _read(self, handle: Any) -> dict[str, float | None]:
        raise NotImplementedError

    def _describe(self, names: list[str], sizes: list[float | None]) -> None:
        if names:
            self.facts["gpu"] = ", ".join(dict.fromkeys(names))
            self.facts["gpu_count"] = len(names)
        if known := [size for size in sizes if size is not None]:
            self.facts["gpu_memory"] = min(known)


class NvidiaGpus(Gpus):
    """GPUs of NVIDIA, through NVML (the package ``nvidia-ml-py``).

    Numbers are NVML's, by which ``nvidia-smi`` calls them: in the order of the PCI bus. CUDA has
    the same order where ``CUDA_DEVICE_ORDER=PCI_BUS_ID``, and where all GPUs of the machine are
    alike; else it puts the fastest first.
    """

    def __init__(self) -> None:
        super().__init__()
        self._nvml: Any = None

    def open(self, nvml: Any) -> None:
        """Find the devices; there are none without a driver, its library or the permission."""
        try:
            nvml.nvmlInit()
        except Exception:  # noqa: BLE001 - see above; old releases of the package raise others
            return
        self._nvml = nvml
        names, sizes = [], []
        self._handles = dict(self._visible())
        for handle in self._handles.values():
            names.append(str(self._ask("nvmlDeviceGetName", handle) or "NVIDIA GPU"))
            memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
            sizes.append(None if memory is None else memory.total / GIB)
        self._describe(names, sizes)
        if (driver := self._ask("nvmlSystemGetDriverVersion")) is not None:
            self.facts["driver"] = str(driver)
        if (cuda := self._ask("nvmlSystemGetCudaDriverVersion")) is not None:
            self.facts["cuda_driver"] = f"{cuda // 1000}.{cuda % 1000 // 10}"

    def close(self) -> None:
        """Let go of the driver."""
        if self._nvml is not None:
            self._ask("nvmlShutdown")
        self._nvml, self._handles = None, {}

    def _visible(self) -> list[tuple[int, Any]]:
        """Return number and handle of each device that CUDA would use, up to the first it cannot.

        ``CUDA_VISIBLE_DEVICES`` has indices, UUIDs (``GPU-...``), or names of parts of a device
        (``MIG-...``).
        """
        count = self._ask("nvmlDeviceGetCount") or 0
        there = {at: self._ask("nvmlDeviceGetHandleByIndex", at) for at in range(count)}
        named = os.environ.get("CUDA_VISIBLE_DEVICES")
        if named is None:
            return [(at, handle) for at, handle in there.items() if handle is not None]
        found: dict[int, Any] = {}
        for word in map(str.strip, named.split(",")):
            one = self._named(word, there)
            if one is None:
                break
            found.setdefault(*one)
        return list(found.items())

    def _named(self, word: str, there: Mapping[int, Any]) -> tuple[int, Any] | None:
        if word.isascii() and word.isdigit():
            handle = there.get(int(word))
            return None if handle is None else (int(word), handle)
        handle = self._ask("nvmlDeviceGetHandleByUUID", word)
        whole = handle
        if word.startswith("MIG-") and handle is not None:
            whole = self._ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)
        index = None if whole is None else self._ask("nvmlDeviceGetIndex", whole)
        return None if handle is None else (index or 0, handle)

    def _read(self, handle: Any) -> dict[str, float | None]:
        busy = self._ask("nvmlDeviceGetUtilizationRates", handle)
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
        milliwatts = self._ask("nvmlDeviceGetPowerUsage", handle)
        sensor = self._nvml.NVML_TEMPERATURE_GPU
        degrees = self._ask("nvmlDeviceGetTemperature", handle, sensor)
        return {
            "gpu": None if busy is None else float(busy.gpu),
            "gpu_memory": None if memory is None else memory.used / GIB,
            "gpu_power": None if milliwatts is None else milliwatts / 1000,
            "gpu_temperature": None if degrees is None else float(degrees),
        }

    def _ask(self, question: str, *about: Any) -> Any:
        try:
            said = getattr(self._nvml, question)(*about)
        except Exception:  # noqa: BLE001 - the package's own, of every release
            return None
        return said.decode(errors="replace") if isinstance(said, bytes) else said


class AmdGpus(Gpus):
    """GPUs of AMD, through ``amdsmi``, which ROCm brings.

    It stays open until the process ends: it does not count who has opened it, and closing it would
    take it from other runs, and from the training.
    """

    def __init__(self, smi: Any) -> None:
        super().__init__()
        self._smi = smi
        self._ask("amdsmi_init")
        every = list(self._ask("amdsmi_get_processor_handles") or ())
        self._handles = {at: every[at] for at in _visible(len(every))}
        handles = list(self._handles.values())
        kinds = [self._facts_of("amdsmi_get_gpu_asic_info", one) for one in handles]
        names = [str(one.get("market_name") or "AMD GPU") for one in kinds]
        self._describe(names, [self._memory(one, "vram_total") for one in handles])
        for one in handles[:1]:
            driver = self._facts_of("amdsmi_get_gpu_driver_info", one)
            if driver.get("driver_version"):
                self.facts["driver"] = str(driver["driver_version"])

    def _read(self, handle: Any) -> dict[str, float | None]:
        power = self._ask("amdsmi_get_power_info", handle)
        # Accelerators have no sensor at their edge.
        degrees = {sensor: self._temperature(handle, sensor) for sensor in ("HOTSPOT", "EDGE")}
        return {
            "gpu": _number(self._ask("amdsmi_get_gpu_activity", handle), "gfx_activity"),
            "gpu_memory": self._memory(handle, "vram_used"),
            "gpu_power": _number(power, "current_socket_power", "average_socket_power"),
            "gpu_temperature": _number(degrees, *degrees),
        }

    def _temperature(self, handle: Any, sensor: str) -> Any:
        kind = getattr(getattr(self._smi, "AmdSmiTemperatureType", None), sensor, None)
        now = getattr(getattr(self._smi, "AmdSmiTemperatureMetric", None), "CURRENT", None)
        return self._ask("amdsmi_get_temp_metric", handle, kind, now)

    def _facts_of(self, question: str, handle: Any) -> Mapping[str, Any]:
        said = self._ask(question, handle)
        return said if isinstance(said, Mapping) else {}

    def _memory(self, handle: Any, name: str) -> float | None:
        # It is told in MiB.
        size = _number(self._ask("amdsmi_get_gpu_vram_usage", handle), name)
        return None if size is None else size * MIB / GIB

    def _ask(self, question: str, *about: Any) -> Any:
        try:
            return getattr(self._smi, question)(*about)
        except Exception:  # noqa: BLE001 - no driver, not supported, or another release
            return None


def _visible(count: int) -> list[int]:
    """Return the visible indices; the second variable counts those that the first leaves.

    Other names than indices are not understood, and all devices are taken then.
    """
    found = list(range(count))
    for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        named = os.environ.get(name)
        words = [word.strip() for word in named.split(",")] if named else []
        if named is not None and all(word.isascii() and word.isdigit() for word in words):
            found = [found[at] for at in map(int, words) if at < len(found)]
    return found


def _number(said: Any, *names: str) -> float | None:
    """Return the first field that is a number; unknown values are ``"N/A"``."""
    for name in names:
        value = said.get(name) if isinstance(said, Mapping) else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None
