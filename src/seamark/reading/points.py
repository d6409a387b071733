"""Points of series, and their data frames."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, overload

from msgspec import Meta

from seamark.errors import MissingExtraError, MissingFieldError
from seamark.reading.html import html_or_text, rows_of, text
from seamark.reading.text import plural
from seamark.values._numbers import argument_error
from seamark.values.arrays import Floats, Ints, check_lengths

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


def pandas() -> Any:
    """Import and return pandas; raises `MissingExtraError`."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            'to_pandas() needs pandas; install it with: pip install "seamark[pandas]"',
            name="pandas",
        ) from error
    return pd


Attempt = Annotated[int, Meta(ge=0, lt=10**9)] | Literal["latest", "all", "replaced"]
"""Attempts to read: those that led to the latest state, all, or all up to a number.

``"replaced"`` selects the points in ``"all"`` that are not in ``"latest"``: those after the
checkpoint from which a later attempt resumed.
"""
_COLUMNS: Final = {"step": "step", "value": "value", "time": "time_ns", "attempt": "attempt"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Points of a float series as NumPy arrays, ordered by (step, order of writing).

    ``points[0]`` is a row, ``points[:10]`` are the first points, ``points["value"]`` is a column,
    and iterating gives the rows.

    Attributes:
        step: float64 (N,).
        value: float64 (N,).
        time_ns: int64 (N,); time given by the caller, else time of recording, nanoseconds since the
            Unix epoch.
        attempt: int64 (N,); attempt that wrote the point, -1 if the writer belongs to none.
    """

    step: Floats
    value: Floats
    time_ns: Ints
    attempt: Ints

    def __post_init__(self) -> None:
        check_lengths(self.step, self.value, self.time_ns, self.attempt)

    def __len__(self) -> int:
        return len(self.step)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.to_rows())

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> Points: ...
    @overload
    def __getitem__(self, at: str) -> np.ndarray[Any, Any]: ...
    def __getitem__(self, at: int | slice | str) -> dict[str, Any] | Points | np.ndarray[Any, Any]:
        """Return a point as a row (0-based; negative from the end), a slice of points, or a column.

        The column ``"time"`` is in nanoseconds since the Unix epoch.

        Raises:
            IndexError: If there is no such point.
            MissingFieldError: If there is no such column.
            TypeError: If the index is not a number, a slice or a name.
        """
        if isinstance(at, str):
            if at not in _COLUMNS:
                raise MissingFieldError(
                    f"points have no column {at!r:.200}; there are: {', '.join(_COLUMNS)}"
                )
            column: np.ndarray[Any, Any] = getattr(self, _COLUMNS[at])
            return column
        if not isinstance(at, slice):
            place = number_of(at, len(self))
            return self[place : place + 1].to_rows()[0]
        return Points(self.step[at], self.value[at], self.time_ns[at], self.attempt[at])

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a dict for each point: ``step``, ``value``, ``time`` and ``attempt``.

        Times are aware datetimes in UTC, to the microsecond.
        """
        columns = (self.step, self.value, self.time_ns, self.attempt)
        return [
            {"step": step, "value": value, "time": time_of(t_ns), "attempt": attempt}
            for step, value, t_ns, attempt in zip(*(c.tolist() for c in columns), strict=True)
        ]

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame: ``step``, ``value``, ``time`` (UTC, nanoseconds) and ``attempt``.

        Raises:
            MissingExtraError: If pandas is not installed.
        """
        frame = pandas()
        made: pd.DataFrame = frame.DataFrame(
            {
                "step": self.step,
                "value": self.value,
                "time": frame.DatetimeIndex(self.time_ns.view("M8[ns]"), tz="UTC"),
                "attempt": self.attempt,
            }
        )
        return made

    def __repr__(self) -> str:
        steps = f", steps {self.step[0]:g} to {self.step[-1]:g}" if len(self) else ""
        return f"<Points: {len(self)}{steps}>"

    def _repr_html_(self) -> str:
        return html_or_text(self._page, self.__repr__)

    def _page(self) -> str:
        def row(at: int) -> list[str]:
            time = time_of(int(self.time_ns[at]))
            numbers = (float(self.step[at]), float(self.value[at]), time, int(self.attempt[at]))
            return [text(one) for one in numbers]

        header = ("step", "value", "time", "attempt")
        return rows_of(plural(len(self), "point"), header, len(self), row)

    @classmethod
    def none(cls) -> Points:
        """Return no points."""
        import numpy as np

        return cls(np.empty(0), np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class TextPoint:
    """Point of a string series; ``attempt`` is -1 if the point belongs to none.

    ``time_ns`` is in nanoseconds since the Unix epoch. A text too long for a journal is represented
    by the record of its blob: ``{"sha256": ..., "size": ...}``.
    """

    step: float
    text: str | dict[str, Any]
    time_ns: int
    attempt: int


@dataclass(frozen=True, slots=True)
class FilePoint:
    """Point of a file series: the record of a file, with its given name and description."""

    step: float
    file: dict[str, Any]
    time_ns: int
    attempt: int
    name: str | None
    description: str | None


@dataclass(frozen=True, slots=True)
class HistogramPoint:
    """Point of a histogram series: n + 1 edges and n counts."""

    step: float
    edges: list[float]
    counts: list[float]
    time_ns: int
    attempt: int


class TextPage(NamedTuple):
    """Points of string series from a section of one journal, in the order of writing.

    Attributes:
        points: Time of the record (nanoseconds since the Unix epoch), path, and text or its blob.
        end: Offset of the next page, in bytes.
        more: Whether there is a next page now.
    """

    points: list[tuple[int, str, Any]]
    end: int
    more: bool


def number_of(at: object, count: int) -> int:
    """Return a row index, negative ones resolved; raises IndexError or TypeError."""
    try:
        place = operator.index(at)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"expected a row number, a slice or a column name, got {at!r:.80}"
        ) from None
    if not -count <= place < count:
        raise IndexError(f"row {place} of {count} rows")
    return place % count


def time_of(t_ns: int) -> datetime:
    """Return ns since the Unix epoch as a datetime in UTC; the epoch if out of range."""
    try:
        return _EPOCH + timedelta(microseconds=t_ns // 1000)
    except OverflowError:
        return _EPOCH


def check_attempt(attempt: object) -> int | str:
    """Return ``attempt`` if it is an `Attempt`; raise `ArgumentError` otherwise."""
    if attempt in ("latest", "all", "replaced") or (
        isinstance(attempt, int) and not isinstance(attempt, bool) and attempt >= 0
    ):
        return attempt
    raise argument_error(
        attempt, "attempt", "'latest', 'all', 'replaced' or the number of an attempt (0-based)"
    )
