"""Series of many runs as they are drawn, and statistics over groups; for all pictures."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from seamark.errors import RunNotFoundError
from seamark.reading.curves import Drawing, Look, RunCurve
from seamark.values.arrays import Floats, Ints, check_lengths

if TYPE_CHECKING:
    from seamark.reading.points import Attempt

__all__ = ["GroupCurve", "Key", "curves_of_runs", "group_curves"]

Key = tuple[str, str, str]
"""Project, run id and path of a series."""
_SINGLE: Final = math.ulp(0.0)
"""Parts of this width hold one x each."""


class _Draws(Protocol):
    """Part of `seamark.reading.reader.Reader` that drawing a series needs."""

    @property
    def project(self) -> str:
        """Project path."""

    @property
    def name(self) -> str:
        """Run id."""

    def drawing(
        self, path: str, look: Look | None = None, attempt: Attempt = "latest", since: str = ""
    ) -> Drawing:
        """Return a series as it is drawn."""


def curves_of_runs(
    refs: Iterable[tuple[str, str]],
    reader_of: Callable[[str, str], _Draws],
    paths: Sequence[str],
    look: Look,
    attempt: Attempt = "latest",
    since: Mapping[Key, str] | None = None,
) -> list[RunCurve]:
    """Return series of runs as they are drawn; see `seamark.reading.catalog.Catalog.curves`."""
    found: list[RunCurve] = []
    for ref in dict.fromkeys(refs):
        with contextlib.suppress(RunNotFoundError):
            found += _curves_of_run(reader_of(*ref), paths, look, attempt, since)
    return found


def _curves_of_run(
    reader: _Draws,
    paths: Sequence[str],
    look: Look,
    attempt: Attempt,
    since: Mapping[Key, str] | None,
) -> list[RunCurve]:
    found = []
    for path in dict.fromkeys(paths):
        key = (reader.project, reader.name, path)
        drawing = reader.drawing(path, look, attempt, (since or {}).get(key, ""))
        if len(drawing.curve) or drawing.left_out or drawing.kept:
            found.append(RunCurve(*key, drawing))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class GroupCurve:
    """Statistics of one series over several runs, part by part.

    Each run counts once in a part, with the mean of its finite values there, or with its smoothed
    line if one was asked for. A run without a finite value in a part does not count there.

    Attributes:
        path: Path of the series.
        by: Values that the runs have in common, by column.
        runs: (project, run id) of the runs that have the series.
        width: Width of a part, in units of x or of log2 x, a power of two; 0.0 if each part is one
            x.
        x: Middle of each part, or its one x, float64 (N,).
        n: Number of runs that count, int64 (N,), never 0.
        mean: Mean over the runs, float64 (N,).
        std: Sample standard deviation over the runs (n - 1), float64 (N,); NaN where n is 1.
        min: Smallest value of the runs, float64 (N,).
        max: Greatest value of the runs, float64 (N,).
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

    def __post_init__(self) -> None:
        check_lengths(self.x, self.n, self.mean, self.std, self.min, self.max)

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
    """Return statistics of series over groups of runs; a group without points is left out.

    All parts lie on one grid, as widths are powers of two and begin at 0: runs of which some need
    wider parts than others are drawn a second time by ``draw``, with the widest.
    """
    found = []
    refs = list(dict.fromkeys(ref for _, some in groups for ref in some))
    curves: dict[str, dict[tuple[str, str], Drawing]] = {path: {} for path in paths}
    for one in draw(refs, paths, look):
        curves[one.path][one.project, one.run] = one.drawing
    for path, drawings in curves.items():
        for by, some in groups:
            own = {ref: drawings[ref] for ref in some if ref in drawings}
            made = _on_one_grid(draw, own, path, look)
            if made is not None:
                width, keys, rows = made
                found.append(_summed(path, by, list(own), width, keys, rows, log=look.log_x))
    return found


def _on_one_grid(
    draw: Callable[[Sequence[tuple[str, str]], Sequence[str], Look], Sequence[RunCurve]],
    own: dict[tuple[str, str], Drawing],
    path: str,
    look: Look,
) -> tuple[float, Floats, Floats] | None:
    """Return width, numbers of the parts (or their x), and the values of each run (runs, N)."""
    import numpy as np

    width = max((one.curve.width for one in own.values()), default=0.0)
    width = 0.0 if width <= _SINGLE else width
    while True:
        if width:
            left = [ref for ref, one in own.items() if one.curve.width != width]
            for one in draw(left, [path], replace(look, width=width)) if left else ():
                own[one.project, one.run] = one.drawing
            widest = max(one.curve.width for one in own.values())
            if widest > width:
                width = widest
                continue
        keys = [_keys(one, width, log=look.log_x) for one in own.values()]
        every = np.unique(np.concatenate(keys)) if keys else np.empty(0)
        if not len(every):
            return None
        limit = look.points // 2 if width else look.points
        if len(every) <= limit or math.isinf(width):
            break
        width = width * 2 if width else _wide_enough(every, limit, log=look.log_x)
    rows = np.full((len(own), len(every)), np.nan)
    for row, at, drawing in zip(rows, keys, own.values(), strict=True):
        value = drawing.curve.mean if drawing.mean is None else drawing.mean
        there = np.isfinite(value)
        places, value = np.searchsorted(every, at[there]), value[there]
        row[places] = value
        for place in np.unique(places[1:][places[1:] == places[:-1]]).tolist():
            row[place] = _mean(value[places == place].tolist())
    kept = np.isfinite(rows).any(axis=0)
    return (width, every[kept], rows[:, kept]) if kept.any() else None


def _mean(values: list[float]) -> float:
    # Of finite values, whose sum need not be finite.
    try:
        return math.fsum(values) / len(values)
    except OverflowError:
        return math.fsum(one * 2.0**-64 for one in values) / len(values) * 2.0**64


def _keys(drawing: Drawing, width: float, *, log: bool) -> Floats:
    import numpy as np

    first = drawing.curve.first_step
    if not width:
        return first
    found: Floats = np.floor((np.log2(first) if log else first) / width)
    return found


def _wide_enough(x: Floats, limit: int, *, log: bool) -> float:
    import numpy as np

    place = np.log2(x) if log else x
    half = place[-1] / 2 - place[0] / 2
    width = math.ldexp(1.0, math.frexp(half / max(limit, 1))[1])

    def parts(width: float) -> int:
        return len(np.unique(np.floor(place / width)))

    while parts(width) > limit and math.isfinite(width):
        width *= 2
    while width / 2 > _SINGLE and parts(width / 2) <= limit:
        width /= 2
    return width


def _summed(
    path: str,
    by: Mapping[str, Any],
    runs: list[tuple[str, str]],
    width: float,
    keys: Floats,
    rows: Floats,
    *,
    log: bool,
) -> GroupCurve:
    # Numbers are scaled, as their squares need not be finite.
    import numpy as np

    x = keys
    if width:
        with np.errstate(over="ignore"):
            x = (keys + 0.5) * width
            x = np.exp2(x) if log else x
    there = np.isfinite(rows)
    n = there.sum(axis=0)
    low = np.where(there, rows, np.inf).min(axis=0)
    high = np.where(there, rows, -np.inf).max(axis=0)
    _, exponent = np.frexp(np.maximum(np.abs(low), np.abs(high)))
    # Of distances to the smallest: equal values are none apart, however a mean is rounded.
    least = np.ldexp(low, -exponent)
    apart = np.where(there, np.ldexp(np.where(there, rows, 0.0), -exponent) - least, 0.0)
    middle = apart.sum(axis=0) / n
    mean = least + middle
    squares = (np.where(there, apart - middle, 0.0) ** 2).sum(axis=0)
    std = np.sqrt(squares / np.maximum(n - 1, 1))
    return GroupCurve(
        path=path,
        by=by,
        runs=runs,
        width=width,
        x=x,
        n=n.astype(np.int64),
        mean=np.clip(np.ldexp(mean, exponent), low, high),
        std=np.where(n > 1, np.ldexp(std, exponent), np.nan),
        min=low,
        max=high,
    )
