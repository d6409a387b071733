"""Runs grouped by their values, and statistics of the numbers of each group."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seamark.reading.points import pandas

if TYPE_CHECKING:
    import pandas as pd

    from seamark.reading.tables import RunsTable

__all__ = ["SIZE", "RunGroup", "RunGroups", "Spread", "group_table", "in_order", "spread_of"]

SIZE = ":n"
"""Orders groups by how many runs they have; no column is called so."""

Ref = tuple[str, str]
"""Project and id of a run."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Statistics of the finite values that several runs show in one column.

    Attributes:
        n: Number of runs that show a finite number.
        odd: Number of runs that show something else: NaN, an infinity, an int that no float equals,
            a text.
        mean: Of the finite numbers; None without one.
        std: Sample standard deviation (n - 1); None if ``n`` is less than 2.
        min: Smallest finite number; None without one.
        max: Greatest finite number; None without one.
    """

    n: int
    odd: int
    mean: float | None
    std: float | None
    min: float | None
    max: float | None


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Runs with the same values in the grouping columns.

    Attributes:
        by: The common values, by column; None where the runs have no value.
        refs: (project, run id) of the runs, in the order in which they were selected.
        values: Summaries of their numbers, by column.
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
        total: How many groups there are, regardless of limit and offset.
    """

    def __init__(self, groups: list[RunGroup], total: int | None = None) -> None:
        self.groups = groups
        self.total = len(groups) if total is None else total

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, at: Any) -> Any:
        return self.groups[at]

    def __iter__(self) -> Iterator[RunGroup]:
        return iter(self.groups)

    def __repr__(self) -> str:
        return f"<RunGroups: {len(self)} of {self.total} groups>"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a dict for each group: values by column, ``n``, ``ids``, ``PATH:mean`` etc."""
        found = []
        for group in self:
            row: dict[str, Any] = {**group.by, "n": group.n, "ids": [run for _, run in group.refs]}
            for path, one in group.values.items():  # noqa: PD011 - no data frame
                for name in ("n", "odd", "mean", "std", "min", "max"):
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
    """Return the rows of a table in groups that show the same in the columns ``by``.

    A number is the same whether it is an int or a float, NaN is one value, true is not 1, and runs
    that show nothing are a group of their own. A missing column is empty in each row.
    """
    keys = [table[path] if path in table else [None] * len(table) for path in by]
    values = {path: table[path] for path in columns if path in table}
    rows: dict[Any, list[int]] = {}
    for at, key in enumerate(zip(*keys, strict=True)):
        rows.setdefault(tuple(map(_same, key)), []).append(at)
    return [
        RunGroup(
            {path: column[some[0]] for path, column in zip(by, keys, strict=True)},
            [table.refs[at] for at in some],
            {path: spread_of([column[at] for at in some]) for path, column in values.items()},
        )
        for some in rows.values()
    ]


def in_order(groups: Sequence[RunGroup], column: str, *, ascending: bool) -> list[RunGroup]:
    """Return groups sorted by a column, or by `SIZE`, their number of runs; stable.

    Values of ``by`` are compared, of other columns means. Numbers come before texts; groups without
    a value are last in either direction.
    """
    keys = [_place(group, column) for group in groups]
    there = [at for at, key in enumerate(keys) if key is not None]
    there.sort(key=lambda at: keys[at], reverse=not ascending)
    gone = [at for at, key in enumerate(keys) if key is None]
    return [groups[at] for at in there + gone]


def _place(group: RunGroup, column: str) -> Any:
    if column == SIZE:
        return 0, group.n
    if column in group.by:
        value = group.by[column]
    else:
        spread = group.values.get(column)  # noqa: PD011 - no data frame
        value = None if spread is None else spread.mean
    if value is None or value != value:  # noqa: PLR0124 - NaN is not itself
        return None
    if isinstance(value, int | float):  # true and false, too
        return 0, value
    return 1, [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]


def _same(value: Any) -> Any:
    if type(value) in (int, float):
        return "number", "nan" if value != value else value  # noqa: PLR0124 - NaN is not itself
    return type(value).__name__, repr(value)


def spread_of(values: Sequence[Any]) -> Spread:
    """Return statistics of the finite numbers among some values; None stands for no value.

    The result does not depend on their order, and no intermediate sum overflows. The deviation is
    that of the distances to the smallest, which rounding leaves as they are where values are near
    each other: equal ones have none.
    """
    numbers = [
        float(one)
        for one in values
        if type(one) in (int, float) and abs(one) <= sys.float_info.max  # which NaN is not
    ]
    odd = sum(one is not None for one in values) - len(numbers)
    if not numbers:
        return Spread(0, odd, None, None, None, None)
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
        std = _large(math.sqrt(squares / (len(small) - 1)), exponent)
    return Spread(
        len(numbers), odd, min(max(math.ldexp(mean, exponent), low), high), std, low, high
    )


def _large(value: float, exponent: int) -> float:
    # A power of two times one of the largest floats may overflow.
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.inf
