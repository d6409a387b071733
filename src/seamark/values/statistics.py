"""Statistics of many observations in constant memory, with exact sums."""

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
from seamark.values.aggregates import (
    Keep,
    Last,
    Ring,
    checked_count,
    checked_float,
    checked_mapping,
)

SCALE: Final = 1074
"""Binary exponent of the unit of exact sums, which is 2 ** -SCALE."""


def scaled_sum(values: Sequence[float]) -> int:
    """Return the exact sum of finite floats, in units of 2 ** -1074.

    ``fsum`` returns the correctly rounded sum; the remainder is summed again until it is 0.
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
    """Return a finite float exactly, in units of 2 ** -1074."""
    mantissa, exponent = math.frexp(value)
    shift = exponent - 53 + SCALE
    whole = int(mantissa * (1 << 53))
    return whole << shift if shift >= 0 else whole >> -shift  # subnormal: no bits are lost


_BLOCK: Final = 1024
"""Number of observations that are collected before they are added, to limit rounding."""
_SUM_PARTS: Final = 3
_LARGEST: Final = sys.float_info.max
_SCALED_LARGEST: Final = scaled(_LARGEST)
_HEXADECIMAL: Final = re.compile("-?0x[0-9a-f]{1,600}")
_REPORTED: Final = (
    *("mean", "std", "var", "min", "max", "sum", "count", "first", "last"),
    *("skipped", "not_finite"),
)
_ARRAY_LENGTH: Final = 13


@dataclass(frozen=True, slots=True)
class Moments:
    """Moments of finite observations; immutable, so that threads never see a partial update.

    ``total`` is the exact sum, in units of 2 ** -1074; ``squares`` is the rounded sum of squared
    distances from the mean, and ``rest`` its rounding error.
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
        """Mean; NaN without observations."""
        return self.total / (self.count << SCALE) if self.count else math.nan

    @property
    def var(self) -> float:
        """Sample variance, with divisor ``count - 1``; 0 for fewer than two observations."""
        return (self.squares + self.rest) / (self.count - 1) if self.count > 1 else 0.0

    @property
    def std(self) -> float:
        """Standard deviation, the root of the variance."""
        return math.sqrt(self.var)

    @classmethod
    def of(cls, values: list[float]) -> Moments:
        """Return the moments of finite floats."""
        count, total = len(values), scaled_sum(values)
        mean = total / (count << SCALE)
        apart = [value - mean for value in values]
        squares = _sum_with_error([each * each for each in apart])[0]
        if math.isfinite(squares):
            # The mean is rounded: correct for the sum of the distances, which should be 0.
            drift = math.fsum(apart)
            squares = max(0.0, squares - drift * drift / count)
        return cls(count, total, squares, 0.0, min(values), max(values), values[0], values[-1])

    def with_(self, later: Moments) -> Moments:
        """Return the combined moments of these and later observations.

        The distance of the means is computed from exact sums, and only positive terms are added to
        the squares, so that rounding errors do not grow with the number or size of observations.
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
        squares, rest = _sum_with_error(
            (self.squares, self.rest, later.squares, later.rest, between)
        )
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


def _sum_with_error(parts: Sequence[float]) -> tuple[float, float]:
    try:
        whole = math.fsum(parts)
        return whole, (math.fsum((*parts, -whole)) if math.isfinite(whole) else 0.0)
    except (OverflowError, ValueError):
        return math.inf, 0.0


class Statistics(Keep):
    """Count, mean, spread, extremes, first and last of observations that are not stored.

    The sum is exact and the others have float precision, over any number of observations. NaN and
    infinities are counted separately. It may be used from several threads.

    Args:
        skip: Number of first observations to leave out, such as those of a warm-up.

    Raises:
        ArgumentError: If ``skip`` is not a whole number of at least 0.
    """

    kind: ClassVar[str] = "statistics"

    __slots__ = ("_busy", "_lock", "_moments", "_not_finite", "_skipped", "_waiting", "skip")

    def __init__(self, skip: int = 0) -> None:
        self.skip = checked_count("skip", skip)
        self._waiting: list[float] = []
        self._moments = Moments()
        self._skipped = self._not_finite = 0
        self._lock = threading.RLock()
        self._busy = False

    def fresh(self) -> Statistics:
        """Return empty statistics with the same ``skip``."""
        return type(self)(self.skip)

    def resumed(self) -> Statistics:
        """Return empty statistics that leave out only the first observations still to come."""
        found = self.fresh()
        found.skip = max(0, self.skip - self.skipped)
        return found

    # ---------------------------------------------------------------- adding

    def update(self, value: float) -> None:
        """Add an observation.

        Args:
            value: A number, or an equivalent such as a tensor of one element.

        Raises:
            ValueKindError: If it is not a number.
        """
        waiting = self._waiting
        waiting.append(value if type(value) is float else to_float(value))
        if len(waiting) >= _BLOCK:
            self._add_waiting()

    def merge(self, other: Keep) -> None:
        """Append the observations of another object to those of this one.

        Raises:
            ArgumentError: If the other object is not `Statistics`.
        """
        if not isinstance(other, Statistics):
            raise argument_error(other, "merge", "Statistics")
        moments = other._add_waiting()  # noqa: SLF001 - of its own class
        with self._lock:
            self._moments = self._add_waiting().with_(moments)
            self._skipped += other.skipped
            self._not_finite += other.not_finite

    def _add_waiting(self) -> Moments:
        with self._lock:
            # A signal handler that interrupts this block in the same thread does not add them.
            if self._waiting and not self._busy:
                self._busy = True
                try:
                    # Other threads may append meanwhile, each with a single call in C.
                    taken = self._waiting[:]
                    del self._waiting[: len(taken)]
                    self._add_block(taken)
                finally:
                    self._busy = False
            return self._moments

    def _add_block(self, taken: list[float]) -> None:
        if (left_out := min(self.skip - self._skipped, len(taken))) > 0:
            self._skipped += left_out
            taken = taken[left_out:]
        if not taken:
            return
        try:
            later = Moments.of(taken)
        except (OverflowError, ValueError):  # some are not finite
            sound = [value for value in taken if math.isfinite(value)]
            self._not_finite += len(taken) - len(sound)
            later = Moments.of(sound) if sound else Moments()
        self._moments = self._moments.with_(later)

    # ---------------------------------------------------------------- results

    @property
    def count(self) -> int:
        """Number of finite observations, without skipped ones."""
        return self._add_waiting().count

    @property
    def sum(self) -> float:
        """Sum, correctly rounded; 0 without observations."""
        return _rounded(self._add_waiting().total)

    @property
    def mean(self) -> float:
        """Mean; NaN without observations."""
        return self._add_waiting().mean

    @property
    def var(self) -> float:
        """Sample variance, with divisor ``count - 1``; 0 for fewer than two observations."""
        return self._add_waiting().var

    @property
    def std(self) -> float:
        """Standard deviation, the root of the variance."""
        return self._add_waiting().std

    @property
    def min(self) -> float:
        """Smallest observation; NaN without observations."""
        return self._add_waiting().min

    @property
    def max(self) -> float:
        """Largest observation; NaN without observations."""
        return self._add_waiting().max

    @property
    def first(self) -> float:
        """First observation that was not skipped; NaN without observations."""
        return self._add_waiting().first

    @property
    def last(self) -> float:
        """Last observation; NaN without observations."""
        return self._add_waiting().last

    @property
    def skipped(self) -> int:
        """Number of skipped observations at the beginning."""
        self._add_waiting()
        return self._skipped

    @property
    def not_finite(self) -> int:
        """Number of NaN and infinite observations, which `count` and the moments leave out."""
        self._add_waiting()
        return self._not_finite

    def __repr__(self) -> str:
        """Return a text with the main statistics."""
        found = self._add_waiting()
        if not found.count:
            return "<Statistics of nothing>"
        return f"<Statistics: mean {self.mean:.6g}, std {self.std:.6g}, count {found.count:,}>"

    # ---------------------------------------------------------------- export

    def to_dict(self) -> dict[str, Any]:
        """Return all statistics by name."""
        return {name: getattr(self, name) for name in _REPORTED}

    def state_dict(self) -> dict[str, Any]:
        """Return the state as numbers and lists for JSON, for `from_dict`."""
        with self._lock:
            found = self._add_waiting()
            counts = {"skip": self.skip, "skipped": self._skipped, "not_finite": self._not_finite}
        ends = (found.min, found.max, found.first, found.last)
        return {
            "count": found.count,
            # A sum beyond the largest float is written as an integer.
            "sum": hex(found.total) if abs(found.total) >= _SCALED_LARGEST else _parts(found.total),
            "squares": [_plain(found.squares), found.rest],
            **dict(zip(("min", "max", "first", "last"), map(_plain, ends), strict=True)),
            **{name: count for name, count in counts.items() if count},
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Statistics:
        """Return the statistics with a state from `state_dict`.

        Raises:
            ArgumentError: If the state is invalid.
        """
        checked = checked_mapping(cls, state)
        found = cls(checked_count("skip", checked.get("skip", 0)))
        found._skipped = checked_count("skipped", checked.get("skipped", 0))
        found._not_finite = checked_count("not_finite", checked.get("not_finite", 0))
        count = checked_count("count", checked.get("count"))
        if count:
            squares, rest = _list(checked, "squares", 2, odd=True)
            if math.isnan(squares) or squares < 0:
                raise argument_error(squares, "squares", "a number of at least 0")
            ends = [
                checked_float(name, checked.get(name)) for name in ("min", "max", "first", "last")
            ]
            found._moments = Moments(count, _sum_of(checked), squares, rest, *ends)
        return found

    def to_array(self) -> array[float]:
        """Return the state as 13 floats, for shared memory: ``shared[:] = stat.to_array()``.

        The sum is then represented by three floats, with a precision of 159 bits. A sum beyond the
        largest float is lost.
        """
        with self._lock:
            found = self._add_waiting()
            counts = (self.skip, self._skipped, self._not_finite)
        total = [*_parts(found.total, _SUM_PARTS), 0.0, 0.0, 0.0][:_SUM_PARTS]
        moments = (found.squares, found.rest, found.min, found.max, found.first, found.last)
        return array("d", (found.count, *total, *moments, *counts))

    @classmethod
    def from_array(cls, numbers: Iterable[float]) -> Statistics:
        """Return the statistics that `to_array` packed.

        Args:
            numbers: The 13 floats, in any iterable.

        Raises:
            ArgumentError: If there are not 13 floats, or the state is invalid.
        """
        given = [float(number) for number in numbers]
        if len(given) != _ARRAY_LENGTH:
            raise ArgumentError(f"from_array: expected {_ARRAY_LENGTH} numbers, got {len(given)}")
        (count, *total), moments, counts = given[:4], given[4:10], given[10:]
        names = ("squares", "rest", "min", "max", "first", "last")
        named = dict(zip(names, moments, strict=True))
        state = {
            **dict(zip(("skip", "skipped", "not_finite"), map(_whole_number, counts), strict=True)),
            **named,
            "count": _whole_number(count),
            "sum": total,
            "squares": [named["squares"], named["rest"]],
        }
        return cls.from_dict(state)

    def __reduce__(self) -> Any:
        """Pickle and copy by the state."""
        return type(self).from_dict, (self.state_dict(),)


def _whole_number(number: float) -> int:
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


def _sum_of(state: Mapping[str, Any]) -> int:
    given = state.get("sum")
    if isinstance(given, str) and _HEXADECIMAL.fullmatch(given):
        return int(given, 16)
    return sum(map(scaled, _list(state, "sum", None)))


def _list(
    state: Mapping[str, Any], name: str, length: int | None, *, odd: bool = False
) -> list[float]:
    given = state.get(name)
    if not isinstance(given, list | tuple) or len(given) > _LONGEST:
        raise argument_error(given, name, "a list of numbers")
    if length is not None and len(given) != length:
        raise ArgumentError(f"{name}: expected {length} numbers, got {len(given)}")
    return [checked_float(name, each, odd=odd) for each in given]


_LONGEST: Final = 64
"""Maximum number of floats in the representation of a sum; each holds 53 of its bits."""
_KINDS: Final[dict[str, Any]] = {one.kind: one for one in (Statistics, Last, Ring)}


def load_aggregate(kind: object, state: object) -> Keep:
    """Return the aggregate of a record (kind and ``state_dict``); else raise ArgumentError."""
    made = _KINDS.get(kind) if isinstance(kind, str) else None
    if made is None:
        raise argument_error(kind, "kind", f"one of {', '.join(_KINDS)}")
    found: Keep = made.from_dict(state)
    return found
