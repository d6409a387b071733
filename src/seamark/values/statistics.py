"""Statistics of many observations in little memory, with exact sums."""

from __future__ import annotations

import math
import re
import sys
import threading
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from seamark.errors import ArgumentError
from seamark.values._numbers import argument_error, to_float
from seamark.values.aggregates import Keep, Last, Ring, a_count, a_float, a_mapping

__all__ = ["SCALE", "Moments", "Statistics", "load_aggregate", "scaled", "scaled_sum"]


SCALE: Final = 1074
"""Binary exponent of the unit: the unit is 2 ** -SCALE."""


def scaled_sum(values: Sequence[float]) -> int:
    """Return the exact sum of finite floats, in units of 2 ** -1074.

    ``fsum`` gives the sum rounded once; what it left out is summed again until nothing is left.
    """
    if len(values) == 1:
        return scaled(values[0])
    rest = list(values)
    total = 0
    try:
        while part := math.fsum(rest):
            total += scaled(part)
            rest.append(-part)
    except OverflowError:
        return sum(map(scaled, values))
    return total


def scaled(value: float) -> int:
    """Return a finite float in units of 2 ** -1074, exactly."""
    mantissa, exponent = math.frexp(value)
    shift = exponent - 53 + SCALE
    whole = int(mantissa * (1 << 53))
    return (
        whole << shift if shift >= 0 else whole >> -shift
    )  # a subnormal number: the bits shifted out are zero


_BLOCK: Final = 1024
"""Number of observations that are collected before they are added, which limits rounding."""
_SUM_PARTS: Final = 3
_LARGEST: Final = sys.float_info.max
_BEYOND: Final = scaled(_LARGEST)
_HEXADECIMAL: Final = re.compile("-?0x[0-9a-f]{1,600}")
_SHOWN: Final = (
    *("mean", "std", "var", "min", "max", "sum", "count", "first", "last"),
    *("skipped", "not_finite"),
)
_LENGTH: Final = 13


@dataclass(frozen=True, slots=True)
class Moments:
    """Moments of finite observations; immutable, so that no thread sees a partial update.

    ``total`` is their exact sum, in units of 2 ** -1074; ``squares`` the sum of the squared
    distances from the mean, rounded, and ``rest`` the rounding error of that.
    """

    count: int = 0
    total: int = 0
    squares: float = 0.0
    rest: float = 0.0
    min: float = math.nan
    max: float = math.nan
    first: float = math.nan
    last: float = math.nan

    @property
    def mean(self) -> float:
        """Their mean; NaN without any."""
        return self.total / (self.count << SCALE) if self.count else math.nan

    @property
    def var(self) -> float:
        """Their variance as of a sample, divided by ``count - 1``; 0 for fewer than two."""
        return (self.squares + self.rest) / (self.count - 1) if self.count > 1 else 0.0

    @property
    def std(self) -> float:
        """The root of the variance."""
        return math.sqrt(self.var)

    @classmethod
    def of(cls, values: list[float]) -> Moments:
        """Return those of some finite floats."""
        count, total = len(values), scaled_sum(values)
        mean = total / (count << SCALE)
        apart = [value - mean for value in values]
        squares = _added([each * each for each in apart])[0]
        if math.isfinite(squares):
            # The mean is rounded: what the distances then add up to is taken out again.
            drift = math.fsum(apart)
            squares = max(0.0, squares - drift * drift / count)
        return cls(count, total, squares, 0.0, min(values), max(values), values[0], values[-1])

    def with_(self, later: Moments) -> Moments:
        """Return those of these observations and of later ones.

        The distance of both means is that of exact sums, and all that is added to the squares is
        positive: neither the number of observations nor their size makes rounding matter.
        """
        if not later.count or not self.count:
            return later if later.count else self
        count = self.count + later.count
        try:
            apart = later.total * self.count - self.total * later.count
            distance = apart / ((self.count * later.count) << SCALE)
            between = distance * distance * (self.count * later.count / count)
        except OverflowError:
            between = math.inf
        squares, rest = _added((self.squares, self.rest, later.squares, later.rest, between))
        return Moments(
            count,
            self.total + later.total,
            squares,
            rest,
            min(self.min, later.min),
            max(self.max, later.max),
            self.first,
            later.last,
        )


def _added(parts: Sequence[float]) -> tuple[float, float]:
    try:
        whole = math.fsum(parts)
        return whole, (math.fsum((*parts, -whole)) if math.isfinite(whole) else 0.0)
    except (OverflowError, ValueError):
        return math.inf, 0.0


class Statistics(Keep):
    """Count, mean, spread, extremes, first and last of observations, of which none is kept.

    The sum is exact and the rest as exact as floats are, over any number of observations. NaN and
    infinities are counted apart. May be used from several threads.

    Args:
        skip: Leave out the first so many observations, as those of a warm-up.

    Raises:
        ArgumentError: If ``skip`` is no number from 0 on.
    """

    kind: ClassVar[str] = "statistics"

    __slots__ = ("_busy", "_lock", "_moments", "_not_finite", "_skipped", "_waiting", "skip")

    def __init__(self, skip: int = 0) -> None:
        self.skip = a_count("skip", skip)
        self._waiting: list[float] = []
        self._moments = Moments()
        self._skipped = self._not_finite = 0
        self._lock = threading.RLock()
        self._busy = False

    def fresh(self) -> Statistics:
        """Return one of the same kind that has seen nothing."""
        return type(self)(self.skip)

    def resumed(self) -> Statistics:
        """Return empty statistics that still leave out the rest of the first observations."""
        found = self.fresh()
        found.skip = max(0, self.skip - self.skipped)
        return found

    # ---------------------------------------------------------------- taking in

    def update(self, value: float) -> None:
        """Take in one observation.

        Args:
            value: A number, or what stands for one, such as a tensor of one element.

        Raises:
            ValueKindError: If it is none.
        """
        waiting = self._waiting
        waiting.append(value if type(value) is float else to_float(value))
        if len(waiting) >= _BLOCK:
            self._settle()

    def merge(self, other: Keep) -> None:
        """Merge the observations of another object, as if they came after those of this one.

        Raises:
            ArgumentError: If it is of another kind.
        """
        if not isinstance(other, Statistics):
            raise argument_error(other, "merge", "Statistics")
        moments = other._settle()  # noqa: SLF001 - of its own class
        with self._lock:
            self._moments = self._settle().with_(moments)
            self._skipped += other.skipped
            self._not_finite += other.not_finite

    def _settle(self) -> Moments:
        with self._lock:
            # A signal handler that interrupts this very thread in here goes without what waits.
            if self._waiting and not self._busy:
                self._busy = True
                try:
                    # Threads may append meanwhile, each by one call in C.
                    taken = self._waiting[:]
                    del self._waiting[: len(taken)]
                    self._take(taken)
                finally:
                    self._busy = False
            return self._moments

    def _take(self, taken: list[float]) -> None:
        if (left_out := min(self.skip - self._skipped, len(taken))) > 0:
            self._skipped += left_out
            taken = taken[left_out:]
        if not taken:
            return
        try:
            later = Moments.of(taken)
        except (OverflowError, ValueError):  # something that is not finite is among them
            sound = [value for value in taken if math.isfinite(value)]
            self._not_finite += len(taken) - len(sound)
            later = Moments.of(sound) if sound else Moments()
        self._moments = self._moments.with_(later)

    # ---------------------------------------------------------------- what they come to

    @property
    def count(self) -> int:
        """Number of finite observations, without those that were left out."""
        return self._settle().count

    @property
    def sum(self) -> float:
        """Their sum, exact but for one rounding; 0 without any."""
        return _rounded(self._settle().total)

    @property
    def mean(self) -> float:
        """Their mean; NaN without any."""
        return self._settle().mean

    @property
    def var(self) -> float:
        """Their variance as of a sample, divided by ``count - 1``; 0 for fewer than two."""
        return self._settle().var

    @property
    def std(self) -> float:
        """The root of the variance."""
        return self._settle().std

    @property
    def min(self) -> float:
        """The smallest; NaN without any."""
        return self._settle().min

    @property
    def max(self) -> float:
        """The largest; NaN without any."""
        return self._settle().max

    @property
    def first(self) -> float:
        """The first that was not left out; NaN without any."""
        return self._settle().first

    @property
    def last(self) -> float:
        """The last; NaN without any."""
        return self._settle().last

    @property
    def skipped(self) -> int:
        """Number of observations left out at the beginning."""
        self._settle()
        return self._skipped

    @property
    def not_finite(self) -> int:
        """Number of NaN and infinite observations, which `count` and the moments leave out."""
        self._settle()
        return self._not_finite

    def __repr__(self) -> str:
        """Return the main statistics."""
        found = self._settle()
        if not found.count:
            return "<Statistics of nothing>"
        return f"<Statistics: mean {self.mean:.6g}, std {self.std:.6g}, count {found.count:,}>"

    # ---------------------------------------------------------------- elsewhere

    def to_dict(self) -> dict[str, Any]:
        """Return all statistics by name."""
        return {name: getattr(self, name) for name in _SHOWN}

    def state_dict(self) -> dict[str, Any]:
        """Return all of it as numbers and lists that JSON can hold; see `from_dict`."""
        with self._lock:
            found = self._settle()
            counts = {"skip": self.skip, "skipped": self._skipped, "not_finite": self._not_finite}
        ends = (found.min, found.max, found.first, found.last)
        return {
            "count": found.count,
            # A sum that is no float any more, though all that is in it is: as a whole number.
            "sum": hex(found.total) if abs(found.total) >= _BEYOND else _parts(found.total),
            "squares": [_plain(found.squares), found.rest],
            **dict(zip(("min", "max", "first", "last"), map(_plain, ends), strict=True)),
            **{name: count for name, count in counts.items() if count},
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Statistics:
        """Return the aggregate that has a state from `state_dict`.

        Raises:
            ArgumentError: If it is no such state.
        """
        told = a_mapping(cls, state)
        found = cls(a_count("skip", told.get("skip", 0)))
        found._skipped = a_count("skipped", told.get("skipped", 0))
        found._not_finite = a_count("not_finite", told.get("not_finite", 0))
        count = a_count("count", told.get("count"))
        if count:
            squares, rest = _list(told, "squares", 2, odd=True)
            if math.isnan(squares) or squares < 0:
                raise argument_error(squares, "squares", "a number from 0 on")
            ends = [a_float(name, told.get(name)) for name in ("min", "max", "first", "last")]
            found._moments = Moments(count, _sum_of(told), squares, rest, *ends)
        return found

    def to_array(self) -> array[float]:
        """Return all of it as 13 floats, for shared memory: ``shared[:] = stat.to_array()``.

        The sum is then that of three floats, with 159 bits instead of all, and beyond
        the largest float it is lost.
        """
        with self._lock:
            found = self._settle()
            counts = (self.skip, self._skipped, self._not_finite)
        total = [*_parts(found.total, _SUM_PARTS), 0.0, 0.0, 0.0][:_SUM_PARTS]
        moments = (found.squares, found.rest, found.min, found.max, found.first, found.last)
        return array("d", (found.count, *total, *moments, *counts))

    @classmethod
    def from_array(cls, numbers: Iterable[float]) -> Statistics:
        """Return the statistics that `to_array` packed.

        Args:
            numbers: The 13 floats, in whatever holds them.

        Raises:
            ArgumentError: If there are not so many.
        """
        given = [float(number) for number in numbers]
        if len(given) != _LENGTH:
            msg = f"from_array: expected {_LENGTH} numbers, got {len(given)}"
            raise ArgumentError(msg)
        (count, *total), moments, counts = given[:4], given[4:10], given[10:]
        names = ("squares", "rest", "min", "max", "first", "last")
        told = dict(zip(names, moments, strict=True))
        state = {
            **dict(zip(("skip", "skipped", "not_finite"), map(_whole, counts), strict=True)),
            **told,
            "count": _whole(count),
            "sum": total,
            "squares": [told["squares"], told["rest"]],
        }
        return cls.from_dict(state)

    def __reduce__(self) -> Any:
        """Travel, and be copied, as numbers."""
        return type(self).from_dict, (self.state_dict(),)


def _whole(number: float) -> int:
    if not number.is_integer():
        raise argument_error(number, "from_array", "a whole number of observations")
    return int(number)


def _rounded(total: int) -> float:
    try:
        return total / (1 << SCALE)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _parts(total: int, most: int | None = None) -> list[float]:
    found: list[float] = []
    while total and (most is None or len(found) < most):
        part = max(-_LARGEST, min(_LARGEST, _rounded(total)))
        found.append(part)
        total -= scaled(part)
    return found


def _plain(number: float) -> float | str | None:
    return number if math.isfinite(number) else None if math.isnan(number) else str(number)


def _sum_of(told: Mapping[str, Any]) -> int:
    given = told.get("sum")
    if isinstance(given, str) and _HEXADECIMAL.fullmatch(given):
        return int(given, 16)
    return sum(map(scaled, _list(told, "sum", None)))


def _list(
    told: Mapping[str, Any], name: str, length: int | None, *, odd: bool = False
) -> list[float]:
    given = told.get(name)
    if not isinstance(given, list | tuple) or len(given) > _LONGEST:
        raise argument_error(given, name, "a list of numbers")
    if length is not None and len(given) != length:
        msg = f"{name}: expected {length} numbers, got {len(given)}"
        raise ArgumentError(msg)
    return [a_float(name, each, odd=odd) for each in given]


_LONGEST: Final = 64
"""Maximum number of floats that represent any sum of float64 values; each has 53 of its bits."""
_KINDS: Final[dict[str, Any]] = {one.kind: one for one in (Statistics, Last, Ring)}


def load_aggregate(kind: object, state: object) -> Keep:
    """Return the aggregate in a record (kind and ``state_dict``); invalid: ArgumentError."""
    made = _KINDS.get(kind) if isinstance(kind, str) else None
    if made is None:
        raise argument_error(kind, "kind", f"one of {', '.join(_KINDS)}")
    found: Keep = made.from_dict(state)
    return found
