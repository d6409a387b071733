"""NVIDIA's GPUs, through NVML (the package ``nvidia-ml-py``).

Numbers are NVML's, by which ``nvidia-smi`` calls them: in the order of the PCI bus. CUDA has the
same order where ``CUDA_DEVICE_ORDER=PCI_BUS_ID``, and where all GPUs of the machine are alike;
else it puts the fastest first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from seamark.capture.hardware.readings import GIB

__all__ = ["NvidiaGpus"]

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
