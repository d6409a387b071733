"""The machine on which a run was trained and what it did meanwhile, in words.

What stands at these paths may have been written by anybody: what is no number of a sensible size is
passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from seamark.reading.words import human_number, plural, shorten

if TYPE_CHECKING:
    from seamark.reading.attributes import Attribute, SeriesSummary
    from seamark.reading.ranks import RankStatus

__all__ = ["machine_lines", "machine_now"]

_SPACE: Final = "monitoring"
_FACTS: Final = "environment"
_LONGEST_NAME: Final = 60
_TIMES: Final = "\N{MULTIPLICATION SIGN}"
_NUMBERS: Final = ("cpu", "memory", "process_memory", "gpu", "gpu_memory")
_AMOUNTS: Final = frozenset({"memory", "memory_limit", "process_memory", "gpu_memory"})
_LEAST: Final = 0.001
_MOST_GIB: Final = 2.0**20
_MOST_DEVICES: Final = 100_000
_MOST_PERCENT: Final = 100.5
"""What no machine exceeds: CPUs and GPUs, GiB of one host, how busy something can be (rounded)."""
_DIGITS: Final = 4


@dataclass(slots=True)
class _Machine:
    """Facts and series that one process recorded of its machine, by name and number of the GPU."""

    facts: dict[str, object] = field(default_factory=dict)
    series: dict[str, dict[str, SeriesSummary]] = field(default_factory=dict)

    def number(self, name: str) -> float | None:
        value = self.facts.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        most = _MOST_GIB if name in _AMOUNTS else _MOST_DEVICES
        return float(value) if _LEAST <= value <= most else None

    def text(self, name: str) -> str:
        return shorten(" ".join(str(self.facts.get(name) or "").split()), _LONGEST_NAME)

    @property
    def memory(self) -> float | None:
        """Memory that the process may use, in GiB; None if unknown."""
        return self.number("memory_limit") or self.number("memory")


def machine_lines(
    attributes: Iterable[Attribute], ranks: Sequence[RankStatus]
) -> Iterator[tuple[str, str]]:
    """Yield label and text of what is shown of the machine of rank 0, and how busy it was.

    Args:
        attributes: Of the run, those below ``monitoring`` at least.
        ranks: How each rank is doing.
    """
    machines = _machines(attributes)
    machine = _of_zero(machines, ranks)
    if what := _describe_hardware(machine):
        yield "machine", what
    if load := _load(machine, now=False):
        measured = sum(bool(one.series) for one in machines.values())
        more = f"; {plural(measured - 1, 'more process', 'more processes')}" if measured > 1 else ""
        yield "load", load + more


def machine_now(attributes: Iterable[Attribute], ranks: Sequence[RankStatus]) -> str:
    """Return how busy the machine of rank 0 is at present; empty if that is not recorded."""
    return _load(_of_zero(_machines(attributes), ranks), now=True)


def _machines(attributes: Iterable[Attribute]) -> Mapping[str, _Machine]:
    """Return what each process recorded, by the name of its namespace."""
    found: dict[str, _Machine] = {}
    for one in attributes:
        parts = one.path.split("/")
        if parts[0] != _SPACE:
            continue
        if one.family == "atom" and len(parts) == 4 and parts[2] == _FACTS:  # noqa: PLR2004
            found.setdefault(parts[1], _Machine()).facts[parts[3]] = one.value
        elif one.family == "float_series" and len(parts) == 3 and one.value.count:  # noqa: PLR2004
            name, _, number = parts[2].rpartition("_")
            if not (number.isascii() and number.isdecimal() and len(number) <= _DIGITS):
                name, number = parts[2], ""
            if name in _NUMBERS:
                series = found.setdefault(parts[1], _Machine()).series
                series.setdefault(name, {})[number] = one.value
    return found


def _of_zero(machines: Mapping[str, _Machine], ranks: Sequence[RankStatus]) -> _Machine:
    """Return that of the newest process of rank 0; that of any where its name tells nothing."""
    writers = [writer for one in ranks if not one.rank for writer in one.writers]
    known = {writer for one in ranks for writer in one.writers}
    order = [*writers, *(name for name in machines if name not in known)]
    return next((machines[name] for name in order if name in machines), _Machine())


def _describe_hardware(machine: _Machine) -> str:
    """Return what a machine is: ``"8 of 64 CPUs (AMD EPYC), 16 of 64 GiB, NVIDIA H100"``."""
    words = []
    count, usable = machine.number("cpu_count"), machine.number("cpu_usable")
    if count is not None:
        part = f"{human_number(usable, 3)} of " if usable is not None and usable < count else ""
        name = machine.text("cpu")
        words.append(f"{part}{plural(int(count), 'CPU')}" + (f" ({name})" if name else ""))
    whole, limit = machine.number("memory"), machine.number("memory_limit")
    if whole is not None:
        words.append(_amount(limit, whole) if limit is not None else f"{_short(whole)} GiB")
    gpus = machine.number("gpu_count")
    if gpus is not None and machine.text("gpu"):
        words.append((f"{gpus:.0f} {_TIMES} " if gpus > 1 else "") + machine.text("gpu"))
    return ", ".join(words)


def _load(machine: _Machine, *, now: bool) -> str:
    """Return how busy a machine was on average and at most, or is now."""
    mean, most = ("last", "last") if now else ("mean", "max")
    average, up_to = ("", "") if now else (" on average", "up to ")
    words = []
    if cpu := _each(machine, "cpu", mean):
        words.append(f"CPU {_percent(cpu)}{average}")
    if memory := _each(machine, "memory", most):
        words.append(f"memory {up_to}{_amount(memory[0], machine.memory)}")
    elif own := _each(machine, "process_memory", most):
        words.append(f"memory of its processes {up_to}{_short(own[0])} GiB")
    busy, used = _each(machine, "gpu", mean), _each(machine, "gpu_memory", most)
    count = len(busy or used)
    name = f"{count} GPUs " if count > 1 else "GPU "
    if busy:  # from the least to the most busy one
        words.append(f"{name}{_percent(busy)}{average}")
        name = ""
    if used:
        words.append(f"{name}{up_to}{_amount(max(used), machine.number('gpu_memory'))}")
    return ", ".join(words)


def _each(machine: _Machine, name: str, what: str) -> list[float]:
    """Return one number of each series of a name, as far as it is one."""
    found = [getattr(one, what) for one in machine.series.get(name, {}).values()]
    most = _MOST_GIB if name in _AMOUNTS else _MOST_PERCENT
    return [value for value in found if 0 <= value <= most]


def _percent(values: Sequence[float]) -> str:
    low, high = f"{min(values):.0f}", f"{max(values):.0f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def _amount(used: float, whole: float | None) -> str:
    return f"{_short(used)} of {_short(whole)} GiB" if whole is not None else f"{_short(used)} GiB"


def _short(gib: float) -> str:
    """Return an amount of GiB with three digits at most, but all before the point."""
    if gib < _LEAST:
        return "0"
    return f"{gib:,.0f}" if gib >= 100 else f"{gib:.3g}"  # noqa: PLR2004
