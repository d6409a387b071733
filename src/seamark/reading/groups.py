"""Groups of runs: statistics of their numbers and of their drawn series."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from seamark.errors import RunNotFoundError
from seamark.reading.curves import Drawing, Look, RunCurve
from seamark.reading.points import pandas
from seamark.reading.text import value_text
from seamark.values.arrays import Floats, Ints, check_lengths

if TYPE_CHECKING:
    import pandas as pd

    from seamark.reading.points import Attempt
    from seamark.reading.reader import Reader
    from seamark.reading.tables import RunsTable


SIZE = ":n"
"""Sort key for the number of runs of a group; never the name of a column."""
Ref = tuple[str, str]
"""Project and id of a run."""
Statistic = Literal["mean", "median", "min", "max"]
"""Statistic of a column by which groups are sorted."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Statistics of the finite values of several runs in one column.

    Attributes:
        n: Number of runs with a finite number.
        odd: Number of runs with another value: NaN, an infinity, a text, an int too large.
        mean: Mean of the finite numbers; None if there are none.
        std: Sample standard deviation (n - 1) of the finite numbers; None if ``n`` is less than 2.
        min: Smallest finite number; None if there are none.
        max: Greatest finite number; None if there are none.
        median: Median of the finite numbers, the mean of the two middle ones if ``n`` is even; None
            if there are none.
        distinct: Number of different values of all kinds; 1 and 1.0 are equal.
        same: Common value as text, if all runs that have a value have the same one and it is not a
            number; else None.
    """

    n: int
    odd: int
    mean: float | None
    std: float | None
    min: float | None
    max: float | None
    median: float | None = None
    distinct: int = 0
    same: str | None = None


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Group of runs with equal values in the grouping columns.

    Attributes:
        by: Common values by column; None where the runs have no value.
        refs: (project, run id) of the runs, in selection order.
        values: Statistics of the runs' values, by column.
    """

    by: Mapping[str, Any]
    refs: list[Ref]
    values: Mapping[str, Spread]

    @property
    def n(self) -> int:
        """Number of runs in the group."""
        return len(self.refs)


class RunGroups(Sequence[RunGroup]):
    """Groups of runs, in the order of their first runs.

    Attributes:
        total: Number of groups, ignoring limit and offset.
    """

    def __init__(self, groups: list[RunGroup], total: int | None = None) -> None:
        self.groups = groups
        self.total = len(groups) if total is None else total

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, at: Any) -> Any:
        return self.groups[at]

    def __repr__(self) -> str:
        return f"<RunGroups: {len(self)} of {self.total} groups>"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a dict for each group: values by column, ``n``, ``ids``, ``PATH:mean`` etc."""
        found = []
        for group in self:
            row: dict[str, Any] = {**group.by, "n": group.n, "ids": [run for _, run in group.refs]}
            for path, one in group.values.items():  # noqa: PD011 - no data frame
                for name in ("n", "odd", "mean", "median", "std", "min", "max"):
                    row[f"{path}:{name}"] = getattr(one, name)
            found.append(row)
        return found

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a data frame.

        Raises:
            MissingExtraError: If pandas is not installed.
        """
        made: pd.DataFrame = pandas().DataFrame(self.to_rows())
        return made


def group_table(table: RunsTable, by: Sequence[str], columns: Sequence[str]) -> list[RunGroup]:
    """Return the rows of a table grouped by equal values in the columns ``by``.

    An int equals a float of the same value, NaN equals NaN, true is not 1, and runs without a value
    form a group. A missing column counts as empty in each row.
    """
    keys = [table[path] if path in table else [None] * len(table) for path in by]
    values = {path: table[path] for path in columns if path in table}
    rows: dict[Any, list[int]] = {}
    for at, key in enumerate(zip(*keys, strict=True)):
        rows.setdefault(tuple(map(_equality_key, key)), []).append(at)
    return [
        RunGroup(
            {path: column[some[0]] for path, column in zip(by, keys, strict=True)},
            [table.refs[at] for at in some],
            {path: spread_of([column[at] for at in some]) for path, column in values.items()},
        )
        for some in rows.values()
    ]


def in_order(
    groups: Sequence[RunGroup], column: str, *, ascending: bool, statistic: Statistic = "mean"
) -> list[RunGroup]:
    """Return groups sorted by a column, or by number of runs (`SIZE`); the sort is stable.

    Columns of ``by`` are compared by value, other columns by a statistic. Numbers come before
    texts. Groups without a value are last in either direction.
    """
    keys = [_sort_key(group, column, statistic) for group in groups]
    there = [at for at, key in enumerate(keys) if key is not None]
    there.sort(key=lambda at: keys[at], reverse=not ascending)
    gone = [at for at, key in enumerate(keys) if key is None]
    return [groups[at] for at in there + gone]


def _sort_key(group: RunGroup, column: str, statistic: Statistic) -> Any:
    if column == SIZE:
        return 0, group.n
    if column in group.by:
        value = group.by[column]
    else:
        spread = group.values.get(column)  # noqa: PD011 - no data frame
        value = None if spread is None else getattr(spread, statistic)
        if value is None and spread is not None:
            value = spread.same
    if value is None or value != value:  # noqa: PLR0124 - NaN is not itself
        return None
    if isinstance(value, int | float):  # includes bool
        return 0, value
    return 1, [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]


def _equality_key(value: Any) -> Any:
    if type(value) in (int, float):
        return "number", "nan" if value != value else value  # noqa: PLR0124 - NaN is not itself
    return type(value).__name__, repr(value)


def spread_of(values: Sequence[Any]) -> Spread:
    """Return statistics of the finite numbers among values; None means no value.

    The result does not depend on the order, and no intermediate sum overflows. The deviation is
    computed from the distances to the smallest value, which are exact for values near each other;
    equal values have a deviation of exactly 0.
    """
    numbers = [
        float(one)
        for one in values
        if type(one) in (int, float) and abs(one) <= sys.float_info.max  # false for NaN
    ]
    odd = sum(one is not None for one in values) - len(numbers)
    distinct = len({_equality_key(one) for one in values if one is not None})
    if not numbers:
        same = next((one for one in values if one is not None), None) if distinct == 1 else None
        text = None if same is None or type(same) is float else value_text(same, exact=True)
        return Spread(0, odd, None, None, None, None, None, distinct, text)
    low, high = min(numbers), max(numbers)
    _, exponent = math.frexp(max(-low, high))
    small = [math.ldexp(one, -exponent) for one in numbers]
    mean = math.fsum(small) / len(small)
    std = None
    if len(small) > 1:
        least = min(small)
        apart = [one - least for one in small]
        middle = math.fsum(apart) / len(apart)
        squares = math.fsum((one - middle) ** 2 for one in apart)
        std = _scale_up(math.sqrt(squares / (len(small) - 1)), exponent)
    return Spread(
        n=len(numbers),
        odd=odd,
        mean=min(max(math.ldexp(mean, exponent), low), high),
        std=std,
        min=low,
        max=high,
        median=_median(sorted(numbers)),
        distinct=distinct,
    )


def _median(ordered: Sequence[float]) -> float:
    one, other = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    middle = (one + other) / 2
    return middle if math.isfinite(middle) else one / 2 + other / 2


def _scale_up(value: float, exponent: int) -> float:
    # A power of two times one of the largest floats may overflow.
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.inf


Key = tuple[str, str, str]
"""Project, run id and path of a series."""
_SINGLE_WIDTH: Final = math.ulp(0.0)
"""Width of parts that hold a single x."""


def curves_of_runs(
    refs: Iterable[tuple[str, str]],
    reader_of: Callable[[str, str], Reader],
    paths: Sequence[str],
    look: Look,
    attempt: Attempt = "latest",
    since: Mapping[Key, str] | None = None,
) -> list[RunCurve]:
    """Return drawings of series of runs; see `seamark.reading.catalog.Catalog.curves`."""
    found: list[RunCurve] = []
    for ref in dict.fromkeys(refs):
        with contextlib.suppress(RunNotFoundError):
            reader = reader_of(*ref)
            for path in dict.fromkeys(paths):
                cursor = (since or {}).get((*ref, path), "")
                drawing = reader.drawing(path, look, attempt, cursor)
                if len(drawing.curve) or drawing.left_out or drawing.kept:
                    found.append(RunCurve(*ref, path, drawing))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class GroupCurve:
    """Statistics of one series over several runs, for each part.

    Each run contributes one value to a part: the mean of its finite values there. With a smoothed
    line, it is the mean of the line over the run's own parts there, which may be finer. A run
    without a finite value in a part is not counted there.

    Attributes:
        path: Path of the series.
        by: Common values of the runs, by column.
        runs: (project, run id) of the runs with this series.
        width: Power of two, the width of a part in x or in log2 x; 0.0 if each is a single x.
        x: Middle of each part, or its single x, float64 (N,).
        n: Number of contributing runs, int64 (N,), never 0.
        mean: Mean over the runs, float64 (N,).
        std: Sample standard deviation over the runs (n - 1), float64 (N,); NaN where n is 1.
        min: Smallest value of the runs, float64 (N,).
        max: Greatest value of the runs, float64 (N,).
        median: Median over the runs, the mean of the two middle values where n is even, float64
            (N,).
    """

    path: str
    by: Mapping[str, Any]
    runs: list[tuple[str, str]]
    width: float
    x: Floats
    n: Ints
    mean: Floats
    std: Floats
    min: Floats
    max: Floats
    median: Floats

    def __post_init__(self) -> None:
        check_lengths(self.x, self.n, self.mean, self.std, self.min, self.max, self.median)

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        return f"<GroupCurve: {self.path} of {len(self.runs)} runs, {len(self)} parts>"


def group_curves(
    draw: Callable[[Sequence[tuple[str, str]], Sequence[str], Look], Sequence[RunCurve]],
    groups: Sequence[tuple[Mapping[str, Any], Sequence[tuple[str, str]]]],
    paths: Sequence[str],
    look: Look,
) -> list[GroupCurve]:
    """Return statistics of series over groups of runs; groups without points are left out.

    All parts are on one grid: widths are powers of two and begin at 0, so that a wider part
    consists of complete narrower ones.
    """
    found = []
    refs = list(dict.fromkeys(ref for _, some in groups for ref in some))
    curves: dict[str, dict[tuple[str, str], Drawing]] = {path: {} for path in paths}
    for one in draw(refs, paths, look):
        curves[one.path][one.project, one.run] = one.drawing
    for path, drawings in curves.items():
        for by, some in groups:
            own = {ref: drawings[ref] for ref in some if ref in drawings}
            made = _align_to_grid(list(own.values()), look)
            if made is not None:
                width, keys, rows = made
                x = _part_middles(keys, width, log=look.log_x)
                found.append(GroupCurve(path, by, list(own), width, x, **_statistics(rows)))
    return found


def _align_to_grid(own: Sequence[Drawing], look: Look) -> tuple[float, Floats, Floats] | None:
    """Return width, part numbers (or x) and values of each run (runs, N); None without values."""
    import numpy as np

    width = max((one.curve.width for one in own), default=0.0)
    width = 0.0 if width <= _SINGLE_WIDTH else width
    while True:
        keys = [_part_numbers(one, width, log=look.log_x) for one in own]
        every = np.unique(np.concatenate(keys)) if keys else np.empty(0)
        if not len(every):
            return None
        limit = look.points // 2 if width else look.points
        if len(every) <= limit or math.isinf(width):
            break
        width = width * 2 if width else _sufficient_width(every, limit, log=look.log_x)
    rows = np.array([_means_on_grid(one, at, every) for one, at in zip(own, keys, strict=True)])
    kept = np.isfinite(rows).any(axis=0)
    return (width, every[kept], rows[:, kept]) if kept.any() else None


def _means_on_grid(drawing: Drawing, keys: Floats, every: Floats) -> Floats:
    """Return the mean of the finite values in each part of a grid; NaN without any."""
    import numpy as np

    curve, smoothed = drawing.curve, drawing.mean
    value = curve.mean if smoothed is None else smoothed
    finite = curve.count - curve.nan_count - curve.inf_count
    weight = finite if smoothed is None else np.ones(len(value))
    there = np.isfinite(value)
    places, value, weight = np.searchsorted(every, keys[there]), value[there], weight[there]
    # Scaled distances to the smallest value: equal values have an exact mean, no sum overflows.
    largest = np.zeros(len(every))
    np.maximum.at(largest, places, np.abs(value))
    _, exponent = np.frexp(largest)
    value = np.ldexp(value, -exponent[places])
    least = np.full(len(every), np.inf)
    np.minimum.at(least, places, value)
    sums = np.bincount(places, weight * (value - least[places]), len(every))
    counts = np.bincount(places, weight, len(every))
    with np.errstate(invalid="ignore"):
        found: Floats = np.ldexp(least + sums / counts, exponent)
    return found


def _part_numbers(drawing: Drawing, width: float, *, log: bool) -> Floats:
    import numpy as np

    first = drawing.curve.first_step
    if not width:
        return first
    found: Floats = np.floor((np.log2(first) if log else first) / width)
    return found


def _sufficient_width(x: Floats, limit: int, *, log: bool) -> float:
    import numpy as np

    place = np.log2(x) if log else x
    half = place[-1] / 2 - place[0] / 2
    width = math.ldexp(1.0, math.frexp(half / max(limit, 1))[1])

    def parts(width: float) -> int:
        return len(np.unique(np.floor(place / width)))

    while parts(width) > limit and math.isfinite(width):
        width *= 2
    while width / 2 > _SINGLE_WIDTH and parts(width / 2) <= limit:
        width /= 2
    return width


def _part_middles(keys: Floats, width: float, *, log: bool) -> Floats:
    """Return the middle x of each part."""
    import numpy as np

    if not width:
        return keys
    with np.errstate(over="ignore"):
        x: Floats = (keys + 0.5) * width
        return np.exp2(x) if log else x


def _statistics(rows: Floats) -> dict[str, Any]:
    """Return statistics of the finite values of each column; each column has at least one."""
    # Numbers are scaled, because their squares may overflow.
    import numpy as np

    there = np.isfinite(rows)
    n = there.sum(axis=0)
    low = np.where(there, rows, np.inf).min(axis=0)
    high = np.where(there, rows, -np.inf).max(axis=0)
    _, exponent = np.frexp(np.maximum(np.abs(low), np.abs(high)))
    # From distances to the smallest value, which are 0 for equal values, however a mean is rounded.
    least = np.ldexp(low, -exponent)
    apart = np.where(there, np.ldexp(np.where(there, rows, 0.0), -exponent) - least, 0.0)
    middle = apart.sum(axis=0) / n
    squares = (np.where(there, apart - middle, 0.0) ** 2).sum(axis=0)
    std = np.sqrt(squares / np.maximum(n - 1, 1))
    ordered, at = np.sort(np.where(there, rows, np.inf), axis=0), np.arange(len(n))
    one, other = ordered[(n - 1) // 2, at], ordered[n // 2, at]
    with np.errstate(over="ignore"):
        return {
            "n": n.astype(np.int64),
            "mean": np.clip(np.ldexp(least + middle, exponent), low, high),
            "std": np.where(n > 1, np.ldexp(std, exponent), np.nan),
            "min": low,
            "max": high,
            "median": np.where(np.isfinite(one + other), (one + other) / 2, one / 2 + other / 2),
        }
