"""Aggregates that replace the points of a fast series, and validation of their stored states."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from seamark.values._numbers import argument_error, to_float

MOST_KEPT: Final = 1_000
"""Maximum number of observations in a `Ring`: all of them are written once per second."""
_COUNTS: Final = 1 << 63
_NOT_FINITE: Final = ("nan", "inf", "-inf")


class Keep:
    """Base class of aggregates of observations: `Statistics`, `Last` and `Ring`."""

    __slots__ = ()

    kind: ClassVar[str]
    """Name of the kind in records."""

    @abstractmethod
    def fresh(self) -> Keep:
        """Return an empty aggregate of the same kind."""

    def resumed(self) -> Keep:
        """Return an empty aggregate that continues this one in the same process."""
        return self.fresh()

    @abstractmethod
    def update(self, value: float) -> None:
        """Add an observation; raise ValueKindError if it is not a number."""

    @abstractmethod
    def merge(self, other: Keep) -> None:
        """Append another aggregate's observations; raise ArgumentError if its kind differs."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return the state as numbers, texts and lists for JSON."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the main statistics by name; NaN without observations."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of observations."""

    @property
    @abstractmethod
    def last(self) -> float:
        """Last observation; NaN without observations."""


class Ring(Keep):
    """Aggregate that keeps a fixed number of last observations.

    Args:
        size: Maximum number of observations to keep, from 1 to 1,000.

    Raises:
        ArgumentError: If the size is not a whole number from 1 to 1,000.
    """

    kind: ClassVar[str] = "ring"

    __slots__ = ("_count", "_kept", "size")

    def __init__(self, size: int) -> None:
        if isinstance(size, bool) or not isinstance(size, int) or not 0 < size <= MOST_KEPT:
            raise argument_error(size, "size", f"a whole number from 1 to {MOST_KEPT}")
        self.size = size
        self._kept: deque[float] = deque(maxlen=size)
        self._count = 0

    def fresh(self) -> Ring:
        """Return an empty aggregate of the same size."""
        return type(self)(self.size)

    def update(self, value: float) -> None:
        """Add an observation.

        Raises:
            ValueKindError: If it is not a number.
        """
        self._kept.append(to_float(value))
        self._count += 1

    def merge(self, other: Keep) -> None:
        """Append the observations of another aggregate of this kind.

        Raises:
            ArgumentError: If the other aggregate is of a different kind.
        """
        if not isinstance(other, Ring) or other.kind != self.kind:
            raise argument_error(other, "merge", type(self).__name__)
        self._kept.extend(other.values)
        self._count += other.count

    @property
    def values(self) -> list[float]:
        """The last `size` observations, the oldest first."""
        while True:
            try:
                return list(self._kept)
            except RuntimeError:  # another thread has added an observation meanwhile
                continue

    @property
    def count(self) -> int:
        """Number of all observations, including those no longer kept."""
        return self._count

    @property
    def last(self) -> float:
        """Last observation; NaN without observations."""
        return self._kept[-1] if self._kept else math.nan

    def __repr__(self) -> str:
        """Return the class name and the number of observations."""
        return f"<Ring of {self.size:,}: last {self.last!r}, count {self._count:,}>"

    def to_dict(self) -> dict[str, Any]:
        """Return the kept observations and the number of all observations."""
        return {"values": self.values, "last": self.last, "count": self._count}

    def state_dict(self) -> dict[str, Any]:
        """Return the state as numbers, texts and lists for JSON, for `from_dict`."""
        return {"size": self.size, "count": self._count, "values": list(map(_plain, self.values))}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Ring:
        """Return the aggregate with a state from `state_dict`.

        Raises:
            ArgumentError: If the state is invalid.
        """
        checked = checked_mapping(cls, state)
        found, values = cls(checked.get("size", 0)), checked.get("values")
        if not isinstance(values, list | tuple) or len(values) > found.size:
            raise argument_error(values, "values", f"at most {found.size} numbers")
        found._kept.extend(checked_float("values", each, odd=True) for each in values)
        found._count = checked_count("count", checked.get("count"))
        return found


class Last(Ring):
    """Aggregate that keeps the last observation only."""

    kind: ClassVar[str] = "last"

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(1)

    def fresh(self) -> Last:
        """Return an empty aggregate."""
        return type(self)()

    def __repr__(self) -> str:
        """Return the class name and the last observation."""
        return f"<Last: {self.last!r}, count {self.count:,}>"

    def to_dict(self) -> dict[str, Any]:
        """Return the last observation and the number of observations."""
        return {"last": self.last, "count": self.count}

    def state_dict(self) -> dict[str, Any]:
        """Return the state as numbers and texts for JSON."""
        return {"count": self.count, "last": _plain(self.last) if self.count else None}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Last:
        """Return the aggregate with a state from `state_dict`.

        Raises:
            ArgumentError: If the state is invalid.
        """
        found, checked = cls(), checked_mapping(cls, state)
        found._count = checked_count("count", checked.get("count"))
        if found._count:
            found._kept.append(checked_float("last", checked.get("last"), odd=True))
        return found


# ---------------------------------------------------------------------- validation


def _plain(number: float) -> float | str:
    return number if math.isfinite(number) else str(number)


def checked_mapping(kind: type, state: object) -> Mapping[str, Any]:
    """Return the state of an aggregate; raise ArgumentError if it is not a mapping."""
    if not isinstance(state, Mapping):
        raise argument_error(state, f"{kind.__name__}.from_dict", "what state_dict() returned")
    return state


def checked_count(name: str, given: object) -> int:
    """Return a number of observations; raise ArgumentError if it is not a 63-bit int."""
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < _COUNTS:
        raise argument_error(given, name, "a whole number of at least 0")
    return given


def checked_float(name: str, given: object, *, odd: bool = False) -> float:
    """Return a float of a state, with ``odd`` also NaN or infinity; else raise ArgumentError."""
    if odd and isinstance(given, str) and given in _NOT_FINITE:
        return float(given)
    if isinstance(given, float | int) and not isinstance(given, bool):
        try:
            found = float(given)
        except OverflowError:
            found = math.inf
        if odd or math.isfinite(found):
            return found
    raise argument_error(given, name, f"a{'' if odd else ' finite'} number")
