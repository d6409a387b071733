"""GPUs of NVIDIA and AMD, read through NVML and amdsmi."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["GIB", "MIB", "AmdGpus", "NvidiaGpus"]

MIB: Final = 2**20
GIB: Final = 2**30

_LOST: Final = ("NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_GPU_NOT_FOUND", "NVML_ERROR_UNINITIALIZED")
_NEVER_HERE: Final = (
    "NVML_ERROR_NOT_SUPPORTED",
    "NVML_ERROR_NO_PERMISSION",
    "NVML_ERROR_FUNCTION_NOT_FOUND",
    "NVML_ERROR_DEPRECATED",
)


@dataclass(slots=True)
class _Gpu:
    """Device with its name, its memory in GiB, and the queries that it supports."""

    handle: Any
    name: str
    memory: float | None
    asked: dict[str, Callable[[Any], float]] = field(default_factory=dict)


class NvidiaGpus:
    """The GPUs that this process may use.

    Opening may take seconds, each question too; none raises.

    Args:
        environment: Names what may be used, as CUDA reads it (``CUDA_VISIBLE_DEVICES``).

    Attributes:
        facts: What they and their driver are, by name.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self._nvml: Any = None
        self._gpus: dict[int, _Gpu] = {}
        self.facts: dict[str, Any] = {}

    def open(self, nvml: Any) -> None:
        """Find the devices; there are none without a driver, its library or the permission.

        Args:
            nvml: The module ``pynvml``.
        """
        try:
            nvml.nvmlInit()
        except Exception:  # noqa: BLE001 - see above; old releases of the package raise others
            return
        self._nvml = nvml
        for number, handle in self._visible():
            used = handle if (part := self._part_of(handle)) is None else part
            name = str(self._ask(nvml.nvmlDeviceGetName, used) or "NVIDIA GPU")
            memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, used)
            size = None if memory is None else memory.total / GIB
            self._gpus[number] = _Gpu(used, name, size, self._questions())
        self._learn()

    @property
    def numbers(self) -> list[int]:
        """The numbers of the devices."""
        return list(self._gpus)

    def read(self) -> dict[int, dict[str, float]]:
        """Return what each device does, by its number; what it does not say is left out."""
        return {number: self._read(gpu) for number, gpu in self._gpus.items()}

    def used_by(self, pid: int) -> frozenset[int]:
        """Return the devices on which a process computes, as far as the driver tells.

        In a container it names processes as the host does, so that none is found.
        """
        found = []
        for number, gpu in self._gpus.items():
            running = self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses, gpu.handle)
            if any(one.pid == pid for one in running or ()):
                found.append(number)
        return frozenset(found)

    def close(self) -> None:
        """Let go of the driver."""
        if self._nvml is not None:
            self._ask(self._nvml.nvmlShutdown)
        self._nvml, self._gpus = None, {}

    # ---------------------------------------------------------------- which

    def _visible(self) -> list[tuple[int, Any]]:
        """Return number and handle of each device that CUDA would use, up to the first it cannot.

        An index, the beginning of a UUID (``GPU-...``), or the name of a part of a device
        (``MIG-...``).
        """
        nvml = self._nvml
        count = self._ask(nvml.nvmlDeviceGetCount) or 0
        handles = {at: self._ask(nvml.nvmlDeviceGetHandleByIndex, at) for at in range(count)}
        there = {at: handle for at, handle in handles.items() if handle is not None}
        named = self._environment.get("CUDA_VISIBLE_DEVICES")
        if named is None:
            return list(there.items())
        found: dict[int, Any] = {}
        for word in map(str.strip, named.split(",")):
            one = self._named(word, there)
            if one is None:
                break
            found.setdefault(*one)
        return list(found.items())

    def _named(self, word: str, there: Mapping[int, Any]) -> tuple[int, Any] | None:
        if word.isascii() and word.isdigit():
            number = int(word)
            return (number, there[number]) if number in there else None
        if word.startswith("GPU-"):
            alike = [
                (number, handle)
                for number, handle in there.items()
                if str(self._ask(self._nvml.nvmlDeviceGetUUID, handle) or "").startswith(word)
            ]
            return alike[0] if len(alike) == 1 else None
        if word.startswith("MIG-"):
            part = self._ask(self._nvml.nvmlDeviceGetHandleByUUID, word)
            if part is None:
                return None
            whole = self._ask(self._nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, part)
            index = None if whole is None else self._ask(self._nvml.nvmlDeviceGetIndex, whole)
            return index or 0, part
        return None

    def _part_of(self, handle: Any) -> Any:
        """Return the first part of a device that is divided (MIG), which CUDA takes then."""
        nvml = self._nvml
        mode = self._ask(nvml.nvmlDeviceGetMigMode, handle)
        if not mode or mode[0] != 1:
            return None
        for at in range(self._ask(nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
            part = self._ask(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, at)
            if part is not None:
                return part
        return None

    def _learn(self) -> None:
        nvml = self._nvml
        driver = self._ask(nvml.nvmlSystemGetDriverVersion)
        cuda = self._ask(nvml.nvmlSystemGetCudaDriverVersion)
        if driver is not None:
            self.facts["driver"] = str(driver)
        if cuda is not None:
            self.facts["cuda_driver"] = f"{cuda // 1000}.{cuda % 1000 // 10}"
        if self._gpus:
            names = dict.fromkeys(gpu.name for gpu in self._gpus.values())
            sizes = [gpu.memory for gpu in self._gpus.values() if gpu.memory is not None]
            self.facts["gpu"] = ", ".join(names)
            self.facts["gpu_count"] = len(self._gpus)
            if sizes:
                self.facts["gpu_memory"] = min(sizes)

    # ---------------------------------------------------------------- what they do

    def _questions(self) -> dict[str, Callable[[Any], float]]:
        nvml = self._nvml
        return {
            "gpu": lambda handle: float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
            "gpu_memory": lambda handle: nvml.nvmlDeviceGetMemoryInfo(handle).used / GIB,
            "gpu_power": lambda handle: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            "gpu_temperature": lambda handle: float(
                nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
            ),
        }

    def _read(self, gpu: _Gpu) -> dict[str, float]:
        found = {}
        for name, ask in list(gpu.asked.items()):
            try:
                found[name] = ask(gpu.handle)
            except Exception as error:  # noqa: BLE001 - the package's own, of every release
                if self._is(error, _LOST):
                    gpu.asked.clear()
                    break
                if self._is(error, _NEVER_HERE):
                    del gpu.asked[name]
        return found

    def _is(self, error: Exception, names: tuple[str, ...]) -> bool:
        code = getattr(error, "value", None)
        return code is not None and code in {getattr(self._nvml, name, None) for name in names}

    @staticmethod
    def _ask(question: Callable[..., Any], *about: Any) -> Any:
        """Return an answer, texts as such; None if there is none."""
        try:
            said = question(*about)
        except Exception:  # noqa: BLE001 - see `_read`
            return None
        return said.decode(errors="replace") if isinstance(said, bytes) else said


_VISIBLE: Final = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


class AmdGpus:
    """The GPUs that this process may use; as `seamark.capture.hardware.gpus.NvidiaGpus`.

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
