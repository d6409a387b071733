"""Tables of times: for terminals, and as CSV."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Final

from seamark.profiling.durations import Durations, TimeStat, position_parts

__all__ = ["LONG_COLUMNS", "aligned", "summary_csv", "table", "write_long"]

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
    """Write one row for each kept duration: `LONG_COLUMNS`.

    Raises:
        OSError: If the file cannot be written.
    """
    with Path(path).open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(LONG_COLUMNS)
        for one in sources:
            _, positions, durations = one.rows().tolist()
            for at, ns in zip(positions, durations, strict=True):
                named = (one.kind, one.event, one.name, one.clock)
                writer.writerow((*named, *position_parts(at), f"{ns / 1e9:.9f}"))
