"""State of one attribute during folding: one register for each family.

An attribute is identified by run, path and family. A register reaches the same state for any order
and repetition of operations, except that each point of a series is counted once. Table B of
``docs/reference/journal.md`` has the rules.

Sums are exact: every finite float64 is a multiple of 2 ** -1074, so a sum is an int in that unit.
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final

from seamark.reading.attributes import SeriesSummary, SeriesTail
from seamark.values.aggregates import Keep
from seamark.values.arrays import Floats, Ints
from seamark.values.statistics import SCALE, Statistics, load_aggregate, scaled, scaled_sum

__all__ = [
    "FAMILIES",
    "NEVER",
    "SCALE",
    "AtomState",
    "FamilyState",
    "FileSetState",
    "FileState",
    "FloatSeriesState",
    "Key",
    "MapState",
    "RecordState",
    "SeriesState",
    "SetState",
    "StatisticState",
    "exact_sum",
    "scaled_sum",
    "to_json",
]


_MIN_BINNED: Final = 512
"""Number of values below which `scaled_sum` is at least as fast."""
_BLOCK_VALUES: Final = 1 << 15
"""Number of values processed in one step, so that intermediate results stay in the core's cache."""
_LOW_BITS: Final = 26
_UPPER_MASK: Final = (1 << 64) - (1 << _LOW_BITS)
"""Mask of the upper half of a float64: the sign, the exponent and 27 of 53 bits of the mantissa."""
_MAX_EXACT_TERMS: Final = 1 << _LOW_BITS
"""Number of halves (27 or 26 bits) with one exponent whose float64 sum is exact (53 bits)."""
_BINS: Final = 1 << 12
"""Number of combinations of sign and exponent of float64."""
_SUM_LIMIT: Final = 2.0**972
"""Limit of values below which their sums cannot overflow."""
_SHIFT: Final = 1024
"""Power of two by which larger numbers are scaled down."""


def exact_sum(values: Floats) -> int:
    """Return the exact sum of finite float64 (N,), in units of 2 ** -1074."""
    if len(values) < _MIN_BINNED:
        return scaled_sum(values.tolist())
    if max(values.max(), -values.min()) < _SUM_LIMIT:
        parts = (
            values[start : start + _MAX_EXACT_TERMS]
            for start in range(0, len(values), _MAX_EXACT_TERMS)
        )
        return sum(map(_binned_sum, parts))
    import numpy as np

    huge = np.abs(values) >= _SUM_LIMIT
    return exact_sum(values[~huge]) + (exact_sum(np.ldexp(values[huge], -_SHIFT)) << _SHIFT)


def _binned_sum(values: Floats) -> int:
    # Numbers with the same sign and exponent are added in one bin, upper and lower halves
    # separately. The halves are small multiples of one power of two, so their float sums are exact.
    import numpy as np

    bins = np.zeros((2, _BINS))
    for start in range(0, len(values), _BLOCK_VALUES):
        block = values[start : start + _BLOCK_VALUES]
        bits = block.view(np.uint64)
        exponents = (bits >> 52).view(np.int64)
        upper = (bits & _UPPER_MASK).view(np.float64)
        bins[0] += np.bincount(exponents, upper, _BINS)
        bins[1] += np.bincount(exponents, block - upper, _BINS)
    return sum(map(scaled, bins[bins != 0].tolist()))


Key = tuple[int, bytes, int]
"""Order of operations: time (ns since the Unix epoch), uid of the journal, index in the frame."""
NEVER: Final[Key] = (-(1 << 64), b"", -1)
"""Key smaller than the key of any operation."""
_MAX_LIST_POINTS: Final = 32
"""Number of points up to which lists are faster than arrays."""
Pack = Callable[[Key], list[int]]
"""Function that converts a key to time, number of the journal and index, for storage."""
Unpack = Callable[[Sequence[int]], Key]
"""Inverse of `Pack`."""
to_json: Final = json.JSONEncoder(separators=(",", ":")).encode
"""JSON encoder: ASCII, so that lone surrogates stay escaped; NaN and infinities as in Python."""


@dataclass(slots=True, eq=False)
class FamilyState:
    """State of one family at one path; ``key`` is the greatest key of its operations."""

    family: str
    key: Key = NEVER

    @abstractmethod
    def visible(self, after: Key) -> Any:
        """Return the shown value; parts of it with a key up to ``after`` are deleted."""

    @abstractmethod
    def dump(self, pack: Pack) -> str | None:
        """Return the state without ``key`` as text."""

    @abstractmethod
    def load(self, text: str, unpack: Unpack) -> None:
        """Restore the state from the result of `dump`."""


@dataclass(slots=True, eq=False)
class AtomState(FamilyState):
    """Value and type of the operation with the greatest key; `fold` assigns all three."""

    type: str = "null"
    value: Any = None

    def visible(self, after: Key) -> Any:
        """See `FamilyState.visible`."""
        return self.value


@dataclass(slots=True, eq=False)
class RecordState(FamilyState):
    """Artifact: the record with the greatest key."""

    record: dict[str, Any] = field(default_factory=dict)

    def assign(self, key: Key, record: dict[str, Any]) -> None:
        """Apply an assignment."""
        if key > self.key:
            self.key, self.record = key, record

    def visible(self, after: Key) -> dict[str, Any]:
        """See `FamilyState.visible`."""
        return self.record

    def dump(self, pack: Pack) -> str | None:
        """See `FamilyState.dump`."""
        return to_json(self.record)

    def load(self, text: str, unpack: Unpack) -> None:
        """See `FamilyState.load`."""
        self.record = json.loads(text)


@dataclass(slots=True, eq=False)
class FileState(RecordState):
    """File whose record is completed by the digest with the same token, whenever it arrives.

    The key of a digest is not compared with other uploads. A slow old upload therefore does not
    replace a newer one, and a digest that follows a delete does not restore the file.
    """

    token: str | None = None
    digests: dict[str, tuple[Key, dict[str, Any]]] = field(default_factory=dict)

    def upload(self, key: Key, record: dict[str, Any], token: str | None) -> None:
        """Apply the record of a file, complete or not."""
        lost = token
        if key > self.key:
            lost, self.token = self.token, token
            self.key, self.record = key, record
        if lost is not None and lost != self.token:
            self.digests.pop(lost, None)

    def digest(self, key: Key, token: str, record: dict[str, Any]) -> None:
        """Apply the digest that completes the upload with this token."""
        if key > self.digests.get(token, (NEVER,))[0]:
            self.digests[token] = (key, record)

    def visible(self, after: Key) -> dict[str, Any]:
        """Return the record, completed if its digest is known, otherwise marked as pending."""
        if self.token is not None and self.token in self.digests:
            done = {key: value for key, value in self.record.items() if key != "staged"}
            return {**done, **self.digests[self.token][1]}
        if "sha256" in self.record or "ref" in self.record or "members" in self.record:
            return self.record
        return {**self.record, "pending": True}

    def dump(self, pack: Pack) -> str | None:
        """See `FamilyState.dump`."""
        digests = {token: [pack(key), record] for token, (key, record) in self.digests.items()}
        return to_json([self.record, self.token, digests])

    def load(self, text: str, unpack: Unpack) -> None:
        """See `FamilyState.load`."""
        self.record, self.token, digests = json.loads(text)
        self.digests = {token: (unpack(key), record) for token, (key, record) in digests.items()}


@dataclass(slots=True, eq=False)
class MapState(FamilyState):
    """Values by name; the last operation on each name is valid.

    Entries with a key smaller than ``base`` are hidden.
    """

    base: Key = NEVER
    entries: dict[str, tuple[Key, Any]] = field(default_factory=dict)

    def put(self, key: Key, name: str, value: Any) -> None:
        """Assign the value of a name."""
        if key > self.entries.get(name, (NEVER,))[0]:
            self.entries[name] = (key, value)
        self.key = max(self.key, key)

    def dump(self, pack: Pack) -> str | None:
        """See `FamilyState.dump`."""
        entries = {name: [pack(key), value] for name, (key, value) in self.entries.items()}
        return to_json([pack(self.base), entries])

    def load(self, text: str, unpack: Unpack) -> None:
        """See `FamilyState.load`."""
        base, entries = json.loads(text)
        self.base = unpack(base)
        self.entries = {name: (unpack(key), value) for name, (key, value) in entries.items()}


@dataclass(slots=True, eq=False)
class SetState(MapState):
    """Set of strings: true for an added element; an assignment clears the set."""

    def assign(self, key: Key) -> None:
        """Clear the set as of ``key``; elements added with this key or a greater one stay."""
        self.base = max(self.base, key)
        self.key = max(self.key, key)

    def visible(self, after: Key) -> set[str]:
        """Return the elements that are newer than ``after``."""
        base, entries = self.base, self.entries.items()
        return {name for name, (key, there) in entries if there and key >= base and key > after}


@dataclass(slots=True, eq=False)
class FileSetState(MapState):
    """Records of files by name; None for a removed file."""

    def visible(self, after: Key) -> dict[str, dict[str, Any]]:
        """Return the files that are newer than ``after``, by name."""
        return {
            name: record
            for name, (key, record) in sorted(self.entries.items())
            if record is not None and key > after
        }


@dataclass(slots=True, eq=False)
class SeriesState(FamilyState):
    """Summary of a series in the order (step, key): count, first and last step, last value.

    The last value of a histogram series is a list of edges, counts and the time of the point.
    ``low`` and ``high`` are the smallest and greatest key of the counted points. A delete below
    ``low`` has no effect, one from ``high`` on empties the series, and one in between requires
    reading the journals again.
    """

    low: Key | None = None
    high: Key = NEVER
    count: int = 0
    first_step: float = math.nan
    last_step: float = math.nan
    last_key: Key = NEVER
    last: Any = None

    def put(self, key: Key, step: float, value: Any) -> None:
        """Count one point that is visible and not counted yet."""
        self._extend_keys(key, key)
        self._update_last(key, step, value)
        if not self.count or step < self.first_step:
            self.first_step = step
        self.count += 1

    def _extend_keys(self, low: Key, high: Key) -> None:
        if self.low is None or low < self.low:
            self.low = low
        self.high = max(self.high, high)

    def _update_last(self, key: Key, step: float, value: Any) -> None:
        if not self.count or (step, key) > (self.last_step, self.last_key):
            self.last_step, self.last_key, self.last = step, key, value

    def visible(self, after: Key) -> SeriesSummary | SeriesTail:
        """Return the summary for a runs table."""
        last = self.last[:2] if isinstance(self.last, list) else self.last  # without the time
        return SeriesTail(last, self.count, self.first_step, self.last_step)

    def dump(self, pack: Pack) -> str | None:
        """See `FamilyState.dump`."""
        return None if self.low is None else f"{self._dump_numbers(pack)}\n{to_json(self.last)}"

    def _dump_numbers(self, pack: Pack) -> str:
        # Faster than JSON, because there are many series.
        assert self.low is not None  # noqa: S101 - asked by the callers
        keys = (*pack(self.low), *pack(self.high), *pack(self.last_key))
        return f"{' '.join(map(str, keys))} {self.count} {self.first_step!r} {self.last_step!r}"

    def load(self, text: str, unpack: Unpack) -> None:
        """See `FamilyState.load`."""
        numbers, _, last = text.partition("\n")
        self._load_numbers(numbers.split(), unpack)
        self.last = json.loads(last)

    def _load_numbers(self, words: list[str], unpack: Unpack) -> None:
        keys = list(map(int, words[:9]))
        self.low, self.high, self.last_key = unpack(keys[:3]), unpack(keys[3:6]), unpack(keys[6:])
        self.count, self.first_step, self.last_step = (
            int(words[9]),
            float(words[10]),
            float(words[11]),
        )


@dataclass(slots=True, eq=False)
class FloatSeriesState(SeriesState):
    """Summary of a series of numbers. The sum is exact: the mean does not depend on the order."""

    family: str = "float_series"
    min: float = math.inf
    max: float = -math.inf
    total: int = 0
    nans: int = 0
    infinite: int = 0

    def extend(self, uid: bytes, t: Ints, step: Floats, value: Floats) -> None:
        """Count points of one journal in the order of writing; all points of a frame together.

        Steps are finite; ``t`` is in nanoseconds since the Unix epoch.
        """
        size = len(step)
        finite: Any
        if few := size <= _MAX_LIST_POINTS:  # arrays are slower for few points
            times, steps, values = t.tolist(), step.tolist(), value.tolist()
            low, high, least = min(times), max(times), min(steps)
            newest = size - 1 - steps[::-1].index(max(steps))
            all_sound = math.isfinite(sum(values))
            finite = values if all_sound else [one for one in values if math.isfinite(one)]
            nans = 0 if all_sound else sum(map(math.isnan, values))
        else:
            import numpy as np

            low, high, least = int(t.min()), int(t.max()), float(step.min())
            newest = size - 1 - int(step[::-1].argmax())
            sound = np.isfinite(value)
            all_sound = bool(sound.all())
            finite = value if all_sound else value[sound]
            nans = 0 if all_sound else int(np.isnan(value).sum())
        self._extend_keys((low, uid, 0), (high, uid, 0))
        self._update_last((int(t[newest]), uid, 0), float(step[newest]), float(value[newest]))
        if not self.count or least < self.first_step:
            self.first_step = least
        self.count += size
        self.nans += nans
        self.infinite += size - len(finite) - nans
        if len(finite):
            lowest, highest = (min(finite), max(finite)) if few else (finite.min(), finite.max())
            # + 0.0 turns -0.0 into 0.0, so that the order does not matter
            self.min = min(self.min, float(lowest) + 0.0)
            self.max = max(self.max, float(highest) + 0.0)
            self.total += scaled_sum(finite) if few else exact_sum(finite)

    @property
    def mean(self) -> float:
        """Mean of the finite values; NaN if there are none."""
        finite = self.count - self.nans - self.infinite
        return self.total / (finite << SCALE) if finite else math.nan

    def visible(self, after: Key = NEVER) -> SeriesSummary:
        """Return the summary for a runs table."""
        finite = self.count > self.nans + self.infinite
        return SeriesSummary(
            last=self.last if self.count else math.nan,
            min=self.min if finite else math.nan,
            max=self.max if finite else math.nan,
            mean=self.mean,
            count=self.count,
            nan_count=self.nans,
            inf_count=self.infinite,
            first_step=self.first_step,
            last_step=self.last_step,
        )

    def dump(self, pack: Pack) -> str | None:
        """See `FamilyState.dump`."""
        if self.low is None:
            return None
        zeros = max(
            0, (self.total & -self.total).bit_length() - 1
        )  # most bits of an exact sum are zeros
        values = f"{self.last!r} {self.min!r} {self.max!r}"
        counts = f"{self.nans} {self.infinite}"
        return f"{self._dump_numbers(pack)} {values} {self.total >> zeros:x} {zeros} {counts}"

    def load(self, text: str, unpack: Unpack) -> None:
        """See `FamilyState.load`."""
        words = text.split()
        self._load_numbers(words, unpack)
        self.last, self.min, self.max = float(words[12]), float(words[13]), float(words[14])
        self.total = int(words[15], 16) << int(words[16])
        self.nans, self.infinite = int(words[17]), int(words[18])


@dataclass(slots=True, eq=False)
class StatisticState(MapState):
    """Statistic of a high-rate series: newest kind and state of each part, merged when read.

    A part covers one process since it started or resumed from a checkpoint. Each state of a part
    includes the earlier ones.
    """

    def visible(self, after: Key) -> Keep:
        """Return the merge of the parts that are newer than ``after`` and of the newest kind."""
        entries = sorted(self.entries.values(), key=itemgetter(0))
        shown = [kind_and_state for key, kind_and_state in entries if key > after]
        if not shown:
            return Statistics()
        kind = shown[-1][0]
        found, *others = (load_aggregate(kind, state) for each, state in shown if each == kind)
        for one in others:
            found.merge(one)
        return found


FAMILIES: Final[dict[str, Callable[[str], FamilyState]]] = {
    "atom": AtomState,
    "file": FileState,
    "artifact": RecordState,
    "string_set": SetState,
    "file_set": FileSetState,
    "float_series": FloatSeriesState,
    "string_series": SeriesState,
    "file_series": SeriesState,
    "histogram_series": SeriesState,
    "statistic": StatisticState,
}
"""Constructor of the empty state of each family."""
