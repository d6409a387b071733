"""Tables of times, by phase and by name."""

from __future__ import annotations

import csv
import io
import os
import textwrap
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Final

from seamark.errors import MissingExtraError
from seamark.pictures.printing import without_middle
from seamark.profiling.durations import Durations, TimeStat, position_parts

__all__ = [
    "LONG_COLUMNS",
    "Breakdown",
    "aligned",
    "largest_cost",
    "picture",
    "summary_csv",
    "table",
    "write_long",
]


_PICTURE_PARTS: Final = 9
_LABEL: Final = 90


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The parts of the time of a mean epoch, which is the mean of `epochs`.

    ``parts`` are named in plain words, with seconds an epoch; no moment is in two of them. What
    they leave of the whole is the framework's own work. ``of`` names the whole in plain words.
    """

    parts: tuple[tuple[str, float], ...]
    whole_s: float
    epochs: int
    of: str = "an epoch"

    def ranked(self) -> list[tuple[str, float]]:
        """Return all parts, the rest included, the largest first."""
        rest = self.whole_s - sum(seconds for _, seconds in self.parts)
        found = [*self.parts, ("everything else (the framework itself)", max(0.0, rest))]
        return sorted(found, key=lambda part: -part[1])


def largest_cost(breakdown: Breakdown) -> str:
    """Return one line that names the largest cost of an epoch in plain words."""
    if breakdown.whole_s <= 0:
        return "Nothing has been timed yet."
    name, seconds = breakdown.ranked()[0]
    share = 100 * seconds / breakdown.whole_s
    of = breakdown.of if breakdown.epochs == 1 else f"{breakdown.of} (mean of {breakdown.epochs})"
    return (
        f"The largest cost is {name}: {_seconds(seconds)} of the "
        f"{_seconds(breakdown.whole_s)} of {of}, {share:.0f} %."
    )


def _seconds(value: float) -> str:
    for factor, unit in ((1, "s"), (1e3, "ms")):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}" if value < 1000 else f"{value:.0f} s"  # noqa: PLR2004
    return f"{value * 1e6:.3g} us"  # a person prints it, maybe where there is no "µ"


def picture(breakdown: Breakdown, title: str | None = None) -> bytes:
    """Return a PNG: one stacked bar of a mean epoch, with the largest cost named below."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        msg = f'the picture needs the package {error.name}: pip install "seamark[plot]"'
        raise MissingExtraError(msg, name=error.name) from error
    parts = [part for part in breakdown.ranked() if part[1] > 0]
    if len(parts) > _PICTURE_PARTS:
        small = parts[_PICTURE_PARTS - 1 :]
        more = (f"{len(small)} smaller costs", sum(seconds for _, seconds in small))
        parts = [*parts[: _PICTURE_PARTS - 1], more]
    figure = Figure(figsize=(9, 3.2 + 0.2 * len(parts)), dpi=150, layout="constrained")
    plot = figure.add_subplot()
    left = 0.0
    for at, (name, seconds) in enumerate(parts):
        share = 100 * seconds / breakdown.whole_s
        # A leading "_" would hide it.
        label = f" {without_middle(name, _LABEL)}: {_seconds(seconds)}, {share:.1f} %"
        plot.barh([0], [seconds], left=left, color=f"C{at}", label=label, height=0.6)
        left += seconds
    plot.set_yticks([])
    plot.set_ylim(-0.5, 0.5)
    line = textwrap.fill(largest_cost(breakdown).replace(" %", "\u00a0%"), _LABEL + 10)
    plot.set_title(title or f"Where the time of {breakdown.of} goes", parse_math=False)
    plot.set_xlabel(f"seconds\n{line}", parse_math=False)
    legend = figure.legend(loc="outside lower center", fontsize="small", ncols=1)
    for text in legend.get_texts():
        text.set_parse_math(False)  # a "$" in a name is a dollar
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name may hold what the font has not
        figure.savefig(out, format="png")
    return out.getvalue()


LONG_COLUMNS: Final = ("kind", "event", "name", "clock", "epoch", "iteration", "seconds")
"""Columns of the long layout: one row for each duration."""
_HEAD: Final = (
    "what", "event", "count", "total s", "self s", "mean s", "std s",
    "p50 s", "p95 s", "p99 s", "min s (epoch/iteration)", "max s (epoch/iteration)",
)  # fmt: skip


def table(stats: Iterable[TimeStat]) -> str:
    """Return statistics as a table for a terminal, one line for each, ended by a line break."""
    rows = [list(_HEAD)]
    for one in stats:
        name = one.name if one.clock == "wall" else f"{one.name} ({one.clock})"
        times = (one.total_s, one.self_s, one.mean_s, one.std_s, one.p50_s, one.p95_s, one.p99_s)
        least = f"{one.min_s:.6f} ({one.min_epoch}/{one.min_iteration})"
        most = f"{one.max_s:.6f} ({one.max_epoch}/{one.max_iteration})"
        shown = [*(f"{time:.6f}" for time in times), least, most] if one.count else ["-"] * 9
        rows.append([name, one.event, str(one.count), *shown])
    head, *lines = aligned(rows)
    return "\n".join([head, "-" * max(map(len, [head, *lines])), *lines, ""])


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each row: two columns of names, then columns of numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        names = [cell.ljust(width) for cell, width in zip(row[:2], widths, strict=False)]
        numbers = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        lines.append("  ".join([*names, *numbers]).rstrip())
    return lines


def summary_csv(stats: Iterable[TimeStat]) -> str:
    """Return statistics as CSV text, one line for each; the columns are those of `TimeStat`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(field.name for field in fields(TimeStat))
    writer.writerows(astuple(one) for one in stats)
    return out.getvalue()


def write_long(sources: Iterable[Durations], path: str | os.PathLike[str]) -> None:
    """Write one row for each kept duration: `LONG_COLUMNS`."""
    with Path(path).open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(LONG_COLUMNS)
        for one in sources:
            _, positions, durations = one.rows().tolist()
            for at, ns in zip(positions, durations, strict=True):
                named = (one.kind, one.event, one.name, one.clock)
                writer.writerow((*named, *position_parts(at), f"{ns / 1e9:.9f}"))
