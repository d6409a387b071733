"""Numbers of one moment, and what follows from two of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = ["GIB", "MIB", "Reading", "Values", "between"]

MIB: Final = 2**20
GIB: Final = 2**30


@dataclass(slots=True)
class Values:
    """Numbers that belong together, by the name under which they are recorded.

    Attributes:
        present: What was so at the moment, in the unit in which it is recorded.
        counted: What counts up for ever, in that unit times seconds: its rate is recorded.
    """

    present: dict[str, float] = field(default_factory=dict)
    counted: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Reading:
    """Metrics of a machine at one moment.

    Attributes:
        at: Time of the reading, in seconds on a clock that never steps.
        host: Metrics of the whole machine, or of the container.
        process: Metrics of this process and of those that it started.
        gpus: Metrics of each GPU that this process may use, by the number of the GPU.
    """

    at: float
    host: Values = field(default_factory=Values)
    process: Values = field(default_factory=Values)
    gpus: dict[int, dict[str, float]] = field(default_factory=dict)


def between(
    before: Values, after: Values, seconds: float, limits: Mapping[str, float]
) -> dict[str, float]:
    """Return what is recorded of the time between two readings.

    A rate is left out where its counter is new, or fell, as that of processes may that are gone.

    Args:
        before: The earlier ones.
        after: The later ones.
        seconds: How long the time between them was.
        limits: By name, what a rate cannot be above: two clocks never agree to the last digit.
    """
    found = dict(after.present)
    for name, count in after.counted.items():
        if seconds > 0 and name in before.counted and count >= before.counted[name]:
            rate = (count - before.counted[name]) / seconds
            found[name] = min(rate, limits.get(name, rate))
    return found
