"""What the machine does meanwhile: CPU, memory, disk, network, GPUs.

One daemon thread of the process asks every few seconds (`sampler`) what there is to be known
(`machine`, which asks `cgroup`, `processes`, `nvidia` and `amd`), and each run that is being
recorded gets a row of it (`part`). The training's thread does nothing of this: a driver may take
seconds to answer, or hang.
"""

from __future__ import annotations

from seamark.capture.hardware.part import Hardware

__all__ = ["Hardware"]
