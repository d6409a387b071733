"""The points of a document, checked column by column; what is wrong is named by its place in it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ArgumentError
from seamark.values import shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Columns", "columns_of", "floats_of", "inside", "refused", "time_of_text"]

_ODD: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_TIME: Final = (
    r"(?:1678|1679|16[89]\d|1[7-9]\d\d|2[01]\d\d|22[0-5]\d|226[01])-\d\d-\d\d"
    r"T\d\d:\d\d:\d\d(?:\.\d{1,9})?Z"
)
"""What fits into 64 bits of nanoseconds."""
_ONE_TIME: Final = re.compile(_TIME)
_TIMES: Final = re.compile(f"(?:{_TIME}\n)*")
_ATTEMPTS: Final = 1 << 31
_MOST_ATTEMPTS: Final = 1000
"""Each attempt is a journal of its own."""


def inside(where: str, key: str | int) -> str:
    """Return the name of a place in a document: ``series['loss'].value[3]``."""
    if isinstance(key, int):
        return f"{where}[{key}]"
    if key.isidentifier():
        return f"{where}.{key}" if where else key
    return f"{where}[{key!r:.200}]"


def refused(where: str, expected: str, got: object) -> ArgumentError:
    """Return the error that says what is wrong where."""
    return ArgumentError(f"{where or 'the document'}: expected {expected}, got {shown(got)}")


@dataclass(frozen=True, slots=True)
class Columns:
    """Points of one series.

    Attributes:
        step: float64 (N,).
        value: float64 (N,) or a list.
        time_ns: int64 (N,), nanoseconds since the Unix epoch.
        attempt: int64 (N,), -1 for none.
    """

    step: NDArray[np.float64]
    value: Any
    time_ns: NDArray[np.int64]
    attempt: NDArray[np.int64]

    def parts(self) -> Iterator[tuple[int, NDArray[np.intp]]]:
        """Yield attempts and which points they wrote.

        Written in this order, points of one step keep the order that they have here.
        """
        import numpy as np

        if not len(self.step):
            return
        same = self.step[1:] == self.step[:-1]
        back = same & (self.attempt[1:] < self.attempt[:-1])
        turns = np.concatenate([[0], np.cumsum(back)])
        starts = np.maximum.accumulate(np.where(np.concatenate([[True], ~same]), turns, 0))
        turns = turns - starts
        for turn in np.unique(turns).tolist():
            for attempt in np.unique(self.attempt[turns == turn]).tolist():
                yield attempt, np.flatnonzero((turns == turn) & (self.attempt == attempt))


def columns_of(given: Any, where: str, check: Callable[[list[Any], str], Any]) -> Columns:
    """Return the points of a series.

    Args:
        given: Its part of a document.
        where: The place of that.
        check: Returns the values, given them and their place.

    Raises:
        ArgumentError: If something is not what a document holds.
    """
    import numpy as np

    if not isinstance(given, Mapping):
        raise refused(where, "an object with step, value, time and attempt", given)
    columns = {}
    for name in ("step", "value", "time", "attempt"):
        found = given.get(name)
        if not isinstance(found, list):
            raise refused(inside(where, name), "a list", found)
        columns[name] = found
        if len(found) != len(columns["step"]):
            count = len(columns["step"])
            msg = f"{inside(where, name)}: expected {count:,} as step has, got {len(found):,}"
            raise ArgumentError(msg)
    steps = floats_of(columns["step"], inside(where, "step"))
    if not np.isfinite(steps).all():
        at = int(np.flatnonzero(~np.isfinite(steps))[0])
        raise refused(inside(inside(where, "step"), at), "a finite number", columns["step"][at])
    return Columns(
        steps,
        check(columns["value"], inside(where, "value")),
        _times_of(columns["time"], inside(where, "time")),
        _attempts_of(columns["attempt"], inside(where, "attempt")),
    )


def floats_of(given: list[Any], where: str) -> NDArray[np.float64]:
    """Return numbers, of which those that JSON cannot hold are texts.

    Raises:
        ArgumentError: If one is none.
    """
    import numpy as np

    kinds = set(map(type, given))
    if not kinds <= {int, float}:
        given = [_float_of(each, where, at) for at, each in enumerate(given)]
    try:
        return np.asarray(given, np.float64)
    except OverflowError:
        at = next(at for at, each in enumerate(given) if type(each) is int and _is_long(each))
        raise refused(inside(where, at), "a number that fits into 64 bits", given[at]) from None


def _float_of(given: Any, where: str, at: int) -> float:
    if isinstance(given, str) and given in _ODD:
        return _ODD[given]
    if type(given) not in (int, float):
        raise refused(inside(where, at), "a number, 'nan', 'inf' or '-inf'", given)
    return given  # type: ignore[no-any-return]


def _is_long(number: int) -> bool:
    try:
        float(number)
    except OverflowError:
        return True
    return False


def _attempts_of(given: list[Any], where: str) -> NDArray[np.int64]:
    import numpy as np

    if set(map(type, given)) - {int} or any(not -1 <= each < _ATTEMPTS for each in set(given)):
        for at, each in enumerate(given):
            if type(each) is not int or not -1 <= each < _ATTEMPTS:
                raise refused(inside(where, at), "the number of an attempt, or -1", each)
    if len(set(given)) > _MOST_ATTEMPTS:
        msg = f"{where}: expected at most {_MOST_ATTEMPTS} attempts, got {len(set(given)):,}"
        raise ArgumentError(msg)
    return np.asarray(given, np.int64)


def _times_of(given: list[Any], where: str) -> NDArray[np.int64]:
    import numpy as np

    if not given:
        return np.zeros(0, np.int64)
    try:
        joined = "\n".join(given) + "\n"
        if _TIMES.fullmatch(joined):
            texts = joined.replace("Z", "").split("\n")[:-1]
            return np.array(texts, "datetime64[ns]").view(np.int64)
    except (TypeError, ValueError):
        pass
    one_by_one = [time_of_text(each, inside(where, at)) for at, each in enumerate(given)]
    return np.asarray(one_by_one, np.int64)


def time_of_text(given: Any, where: str) -> int:
    """Return a time, ISO 8601 in UTC with up to nine digits, in ns since the Unix epoch.

    Raises:
        ArgumentError: If it is none.
    """
    import numpy as np

    if isinstance(given, str) and _ONE_TIME.fullmatch(given):
        try:
            return int(np.datetime64(given[:-1], "ns").astype(np.int64))
        except ValueError:
            pass
    raise refused(where, "a time such as '2025-01-31T12:00:00.000000000Z'", given)
