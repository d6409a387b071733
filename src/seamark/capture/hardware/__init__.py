"""Metrics of the machine while a run is recorded: CPU, memory, disk, network, GPUs.

One daemon thread of the process (`sampler`) reads the metrics every few seconds (`machine`, which
uses `cgroup`, `processes`, `nvidia` and `amd`), and each run that is being recorded gets a row of
them (`part`). None of this happens on the training's thread: a driver may take seconds to answer,
or hang.
"""

from __future__ import annotations

from seamark.capture.hardware.part import Hardware

__all__ = ["Hardware"]
