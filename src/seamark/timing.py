"""Where time goes: statistics of durations, and the table, line and picture made of them.

Knows no framework. An adapter appends durations to `Samples` (that is all it does while training
runs) and describes them with `Source`; statistics, files and series come from there. Durations are
nanoseconds while they are collected and seconds in everything that people read.

A position says when a duration was taken: epoch and iteration as the host counts them.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
import textwrap
import threading
import warnings
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ArgumentError, MissingExtraError
from seamark.paths import check_path, join_path

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

__all__ = [
    "FLUSH_AT",
    "LONG_COLUMNS",
    "MISSING",
    "POSITION_SHIFT",
    "SAMPLE_LIMIT",
    "Breakdown",
    "Samples",
    "Source",
    "TimeStat",
    "TimesInRun",
    "largest_cost",
    "path_part",
    "picture",
    "position",
    "position_parts",
    "summary_csv",
    "table",
    "time_stats",
    "write_long",
]

SAMPLE_LIMIT: Final = 65_536
"""So many rows are kept as they are; of more, an evenly thinned sample."""

LONG_COLUMNS: Final = ("kind", "event", "name", "clock", "epoch", "iteration", "seconds")
"""Columns of the long layout: one row for each duration."""

FLUSH_AT: Final = 4096
"""So many rows wait, at most about, until statistics take them in."""

MISSING: Final = -1
"""Stands in a column of `Samples` where a row has no duration."""

POSITION_SHIFT: Final = 36
"""Bits of the iteration in a `position`; the epoch stands above them."""

_ITERATION_MASK: Final = (1 << POSITION_SHIFT) - 1
_SERIES_POINTS: Final = 1_000
_PICTURE_PARTS: Final = 9
_LABEL: Final = 90
_NOT_IN_A_PATH: Final = re.compile(r"[/%\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def position(epoch: int, iteration: int) -> int:
    """Return epoch and iteration as one integer, which sorts as they do.

    Args:
        epoch: 0 or more.
        iteration: 0 or more, below 2**36.
    """
    return (epoch << POSITION_SHIFT) + iteration


def position_parts(at: int) -> tuple[int, int]:
    """Return the epoch and the iteration of a `position`."""
    return at >> POSITION_SHIFT, at & _ITERATION_MASK


# ---------------------------------------------------------------- collecting


class _Running:
    """Exact statistics of one column, taken in block by block."""

    __slots__ = ("count", "last_at", "max", "max_at", "mean", "min", "min_at", "squares", "total")

    def __init__(self) -> None:
        self.count = self.total = 0
        self.min = self.max = self.min_at = self.max_at = self.last_at = 0
        self.mean = self.squares = 0.0  # squares: of the distances from the mean

    def add(self, values: Integers, at: Integers) -> None:
        size = len(values)
        if not size:
            return
        low, high = int(values.argmin()), int(values.argmax())
        if not self.count or values[low] < self.min:
            self.min, self.min_at = int(values[low]), int(at[low])
        if not self.count or values[high] > self.max:
            self.max, self.max_at = int(values[high]), int(at[high])
        self.last_at = int(at[-1])
        total = int(values.sum())
        mean = total / size
        apart = mean - self.mean
        both = self.count + size
        self.squares += float(((values - mean) ** 2).sum()) + apart**2 * self.count * size / both
        self.count, self.total = both, self.total + total
        self.mean = self.total / both

    @property
    def deviation(self) -> float:
        """Standard deviation of a sample, 0 for fewer than two values."""
        return math.sqrt(self.squares / (self.count - 1)) if self.count > 1 else 0.0


class Samples:
    """Rows of durations in nanoseconds, each with its position; statistics are exact.

    A row is taken with ``waiting.extend((at, duration, ...))``: a `position`, then one duration for
    each column, `MISSING` where there is none. That is all that happens while training runs, until
    somebody calls `flush`. All rows up to `SAMPLE_LIMIT` are kept; after that one of every two,
    four, and so on: not always the first, so that what comes back in a rhythm (steps that end an
    accumulation of gradients, say) is kept as often as it is there.

    Args:
        width: How many columns.

    Attributes:
        waiting: Rows that wait for `flush`, one after the other.
        nested_ns: How much of the first column's total belongs to something timed elsewhere.
    """

    __slots__ = (
        "_blocks",
        "_every",
        "_kept",
        "_lock",
        "_running",
        "_seen",
        "_width",
        "nested_ns",
        "waiting",
    )

    def __init__(self, width: int = 1) -> None:
        self.waiting: list[int] = []  # extending an array takes four times as long
        self.nested_ns = 0
        self._width = 1 + width
        self._running = tuple(_Running() for _ in range(width))
        self._blocks: list[Integers] = []
        self._kept = self._seen = 0
        self._every = 1
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        """Travel without the lock."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Be the same samples elsewhere."""
        for name, value in state.items():
            setattr(self, name, value)
        self._lock = threading.RLock()

    def flush(self) -> None:
        """Take waiting rows into the statistics; may be called from any thread."""
        if not self.waiting:
            return
        import numpy as np

        with self._lock:
            # A row is appended by one call in C, so that no thread sees half of it.
            taken = self.waiting[:]
            del self.waiting[: len(taken)]
            block = np.frombuffer(array("q", taken), dtype=np.int64).reshape(-1, self._width).T
            for column, running in zip(block[1:], self._running, strict=True):
                there = column >= 0
                if there.all():
                    running.add(column, block[0])
                else:
                    running.add(column[there], block[0][there])
            kept = block
            if self._every > 1:  # of all rows ever, one of each `_every`
                stretch, inside = np.divmod(np.arange(block.shape[1]) + self._seen, self._every)
                kept = block[:, inside == _irregular(stretch, self._every)]
            self._seen += block.shape[1]
            self._blocks.append(kept.copy())
            self._kept += kept.shape[1]
            self._halve(SAMPLE_LIMIT)

    def thin(self, limit: int) -> None:
        """Keep at most so many rows from now on; the statistics stay exact."""
        with self._lock:
            self.rows()
            self._halve(limit)

    def _halve(self, limit: int) -> None:
        import numpy as np

        while self._kept > limit:
            whole = np.concatenate(self._blocks, axis=1)
            first = np.arange(0, whole.shape[1], 2)
            chosen = np.minimum(first + _irregular(first >> 1, 2), whole.shape[1] - 1)
            self._blocks = [whole[:, chosen]]
            self._every *= 2
            self._kept = self._blocks[0].shape[1]

    def rows(self) -> Integers:
        """Return the kept rows, oldest first, shape ``(1 + columns, N)``; positions come first."""
        import numpy as np

        with self._lock:
            self.flush()
            if len(self._blocks) != 1:
                empty = np.empty((self._width, 0), dtype=np.int64)
                self._blocks = [np.concatenate([empty, *self._blocks], axis=1)]
            return self._blocks[0]

    def running(self, column: int = 0) -> _Running:
        """Return the exact statistics of one column, up to date."""
        self.flush()
        return self._running[column]


def _irregular(numbers: Integers, size: int) -> Integers:
    """Return a number below ``size``, a power of two, for each; the golden ratio spreads them."""
    import numpy as np

    spread = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (spread >> np.uint64(64 - (size.bit_length() - 1))).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Source:
    """One column of `Samples`, with what people call it.

    Attributes:
        kind: ``"processing"``, ``"dataflow"``, ``"event"``, ``"handler"`` or ``"action"``.
        name: Name of the handler, event or action.
        samples: Where its durations are.
        column: Which column of them.
        event: Name of the event that a handler belongs to, else empty.
        clock: ``"wall"``, or ``"cuda"`` for times between CUDA events.
        nested_ns: How much of the total belongs to something timed elsewhere, if not what the
            samples say.
    """

    kind: str
    name: str
    samples: Samples
    column: int = 0
    event: str = ""
    clock: str = "wall"
    nested_ns: int | None = None

    @property
    def own_ns(self) -> int:
        """Total without what is timed elsewhere, in nanoseconds."""
        nested = self.samples.nested_ns if self.nested_ns is None else self.nested_ns
        return max(0, self.samples.running(self.column).total - nested)

    @property
    def series(self) -> str:
        """Path of its series below a namespace."""
        parts = [self.event, self.name] if self.event else [self.name]
        unit = "_s" if self.clock == "wall" else f"_{self.clock}_s"
        return "/".join(path_part(part) for part in parts) + unit

    def durations(self) -> tuple[Integers, Integers]:
        """Return the kept positions and durations in nanoseconds."""
        rows = self.samples.rows()
        values = rows[1 + self.column]
        there = values >= 0
        return rows[0][there], values[there]


# ---------------------------------------------------------------- statistics


@dataclass(frozen=True, slots=True)
class TimeStat:
    """How long one thing took: numbers only, times in seconds.

    Without a single duration, ``count`` is 0 and every other number is 0 as well.

    Attributes:
        kind: ``"processing"``, ``"dataflow"``, ``"event"``, ``"handler"`` or ``"action"``.
        name: Name of the handler, event or action.
        event: Name of the event that a handler belongs to, else empty.
        clock: ``"wall"``, or ``"cuda"`` for times between CUDA events.
        count: How often.
        total_s: Sum, what happened inside included.
        self_s: Sum without what is timed elsewhere, such as the handlers of an event that this
            handler fires.
        min_s: Shortest.
        max_s: Longest.
        mean_s: Mean.
        std_s: Standard deviation of a sample (divided by count - 1); 0 for a single duration.
        p50_s: Median; like the other percentiles of the kept rows, that is exact up to
            `SAMPLE_LIMIT` durations.
        p95_s: 95th percentile.
        p99_s: 99th percentile.
        min_epoch: Epoch of the shortest, as the host counts; of several, the first.
        min_iteration: Iteration of the shortest, as the host counts.
        max_epoch: Epoch of the longest.
        max_iteration: Iteration of the longest.

    .. versionadded:: 0.1.0
    """

    kind: str
    name: str
    event: str
    clock: str
    count: int
    total_s: float
    self_s: float
    min_s: float
    max_s: float
    mean_s: float
    std_s: float
    p50_s: float
    p95_s: float
    p99_s: float
    min_epoch: int
    min_iteration: int
    max_epoch: int
    max_iteration: int


def time_stats(sources: Iterable[Source]) -> list[TimeStat]:
    """Return the statistics of each source, in their order."""
    return [_time_stat(source) for source in sources]


def _time_stat(source: Source) -> TimeStat:
    import numpy as np

    found = source.samples.running(source.column)
    middle = high = highest = 0.0
    if found.count:
        kept = source.durations()[1]
        if not len(kept):  # a column so rare that thinning left none
            kept = np.array([found.min, round(found.mean), found.max])
        middle, high, highest = (np.percentile(kept, (50, 95, 99)) / 1e9).tolist()
    min_epoch, min_iteration = position_parts(found.min_at)
    max_epoch, max_iteration = position_parts(found.max_at)
    return TimeStat(
        kind=source.kind,
        name=source.name,
        event=source.event,
        clock=source.clock,
        count=found.count,
        total_s=found.total / 1e9,
        self_s=source.own_ns / 1e9,
        min_s=found.min / 1e9,
        max_s=found.max / 1e9,
        mean_s=found.mean / 1e9,
        std_s=found.deviation / 1e9,
        p50_s=middle,
        p95_s=high,
        p99_s=highest,
        min_epoch=min_epoch,
        min_iteration=min_iteration,
        max_epoch=max_epoch,
        max_iteration=max_iteration,
    )


# ---------------------------------------------------------------- what people read

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
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if at < 2 else cell.rjust(width)  # noqa: PLR2004 - the two names
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]]) + "\n"


def summary_csv(stats: Iterable[TimeStat]) -> str:
    """Return statistics as CSV text, one line for each; the columns are those of `TimeStat`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(field.name for field in fields(TimeStat))
    writer.writerows(astuple(one) for one in stats)
    return out.getvalue()


def write_long(sources: Iterable[Source], path: str | os.PathLike[str]) -> None:
    """Write one row for each kept duration: `LONG_COLUMNS`.

    Raises:
        OSError: If the file cannot be written.
    """
    with Path(path).open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(LONG_COLUMNS)
        for one in sources:
            positions, durations = one.durations()
            epochs, iterations = position_parts(positions)  # type: ignore[arg-type]
            named = (one.kind, one.event, one.name, one.clock)
            writer.writerows(
                (*named, epoch, iteration, f"{ns / 1e9:.9f}")
                for epoch, iteration, ns in zip(
                    epochs.tolist(),  # type: ignore[attr-defined]
                    iterations.tolist(),  # type: ignore[attr-defined]
                    durations.tolist(),
                    strict=True,
                )
            )


@dataclass(frozen=True, slots=True)
class Breakdown:
    """What the time of a mean epoch is made of.

    Attributes:
        parts: What a part is, in plain words, and its seconds an epoch; no moment is in two of
            them. What they leave of the whole is the framework's own work.
        whole_s: Seconds of an epoch.
        epochs: So many epochs the mean is of.
        of: What the whole is, in plain words.
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
    """Return a PNG: one stacked bar of a mean epoch, with the largest cost named below.

    Raises:
        MissingExtraError: If the extra ``plot`` is not installed.
    """
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
        shown = name if len(name) <= _LABEL else f"{name[: _LABEL // 2]}…{name[-_LABEL // 2 :]}"
        label = f" {shown}: {_seconds(seconds)}, {share:.1f} %"  # a leading "_" would hide it
        plot.barh([0], [seconds], left=left, color=f"C{at}", label=label, height=0.6)
        left += seconds
    plot.set_yticks([])
    plot.set_ylim(-0.5, 0.5)
    texts = [
        plot.set_title(title or f"Where the time of {breakdown.of} goes"),
        plot.set_xlabel(
            "seconds\n"
            + textwrap.fill(largest_cost(breakdown).replace(" %", "\u00a0%"), _LABEL + 10)
        ),
    ]
    if parts:
        legend = figure.legend(loc="outside lower center", fontsize="small", ncols=1)
        texts += legend.get_texts()
    for text in texts:
        text.set_parse_math(False)  # a "$" in a name is a dollar
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name may hold what the font has not
        figure.savefig(out, format="png")
    return out.getvalue()


# ---------------------------------------------------------------- in a run


def path_part(name: str) -> str:
    """Return a name as one part of a path: ``/``, ``%`` and control characters percent-encoded."""
    return _NOT_IN_A_PATH.sub(_percent, name) or "%00"


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found.group().encode("utf-8", "surrogatepass"))


class TimesInRun:
    """Records times below a namespace of a run: series while training runs, then a summary.

    While training runs, one row of means (over the durations since the last row) is recorded every
    ``interval_s`` seconds at most. Nothing here raises, after construction.

    Args:
        run: A ``Run``, a namespace of one such as ``run["folds/1"]``, or a logger with one of these
            as its ``experiment``, which is asked each time: a checkpoint that is loaded may have it
            go over to another run.
        namespace: Where to write below it.
        interval_s: Shortest time between two rows.

    Raises:
        ArgumentError: If ``run`` is none of these.
        PathError: If the namespace breaks the grammar of paths.
    """

    def __init__(self, run: Any, namespace: str = "profiling", *, interval_s: float = 1.0) -> None:
        self._given = run
        found = self._run
        if not callable(getattr(found, "log_metrics", None)) or not hasattr(found, "__getitem__"):
            msg = (
                "run: expected a Run or a namespace of one, or a logger that has one, "
                f"got {type(run).__name__}: {run!r:.80}"
            )
            raise ArgumentError(msg)
        self._namespace = check_path(namespace) if namespace != "" else ""
        self._interval_ns = round(interval_s * 1e9)
        self.due_ns = 0
        self._told: dict[tuple[int, int], tuple[Samples, int, int]] = {}
        self._rows = 0
        self._ends_with: Any = None

    @property
    def _run(self) -> Any:
        is_run = hasattr(type(self._given), "get_root_object")
        found = self._given if is_run else getattr(self._given, "experiment", self._given)
        if not (base := getattr(found, "path", "")):
            return found
        root = found.get_root_object()
        return root[root.series_base(base)]

    @property
    def _root(self) -> Any:
        run = self._run
        return run.get_root_object() if hasattr(run, "get_root_object") else run

    @property
    def recording(self) -> bool:
        """Whether the run takes records: not once somebody has stopped it, which is no loss."""
        return bool(getattr(self._root, "recording", True))

    @property
    def place(self) -> tuple[object, str]:
        """Where it records, to be compared with other places of this process."""
        return id(self._root), join_path(str(getattr(self._run, "path", "")), self._namespace)

    def has_rows_in(self, other: TimesInRun) -> bool:
        """Tell whether rows were recorded where the other one would record."""
        return bool(self._rows) and self.place == other.place

    def at_end(self, call: Callable[[], None]) -> None:
        """Have something called when the run is about to end, if that was not asked before."""
        root = self._root
        if self._ends_with is not root and hasattr(root, "before_end"):
            self._ends_with = root
            root.before_end(call)

    def records_in(self, run: Any) -> bool:
        """Tell whether this is what was given to record into."""
        return self._given is run

    def skip(self, sources: Iterable[Source]) -> None:
        """Leave what was timed so far out of the rows to come."""
        for one in sources:
            found = one.samples.running(one.column)
            self._told[id(one.samples), one.column] = one.samples, found.count, found.total

    def row(self, now_ns: int, sources: Iterable[Source], step: float) -> None:
        """Record the means since the last row, in seconds, at one step.

        Args:
            now_ns: ``time.perf_counter_ns()``; the next row is due at ``due_ns``.
            sources: What to record.
            step: At which step.
        """
        self.due_ns = now_ns + self._interval_ns
        if not self.recording:
            return
        try:
            means: dict[str, float] = {}
            told: dict[tuple[int, int], tuple[Samples, int, int]] = {}
            for one in sources:
                found = one.samples.running(one.column)
                key = (id(one.samples), one.column)
                _, count, total = self._told.get(key, (None, 0, 0))
                if found.count > count and found.total:  # an event without handlers takes no time
                    path = join_path(self._namespace, one.series)
                    means[path] = (found.total - total) / (found.count - count) / 1e9
                # Kept, so that the id stays its own; what is no source any more is let go.
                told[key] = one.samples, found.count, found.total
            self._told = told
            if means:
                self._rows += 1
                self._run.log_metrics(means, step)
        except Exception as error:  # noqa: BLE001 - stands in the training loop
            self._lost(error)

    def points(self, sources: Iterable[Source], after: int = -1) -> int:
        """Record kept durations as series, at most 1,000 points each, evenly thinned.

        Args:
            sources: What to record.
            after: Only durations after this position.

        Returns:
            The position of the last duration.
        """
        last = after
        for one in sources:
            try:
                positions, durations = one.durations()
                if len(positions):
                    last = max(last, int(positions.max()))
                new = (positions > after) & bool(one.samples.running(one.column).total)
                positions, durations = positions[new], durations[new]
                if every := -(-len(positions) // _SERIES_POINTS):
                    iterations = positions[::every] & _ITERATION_MASK
                    self._run[join_path(self._namespace, one.series)].extend(
                        (durations[::every] / 1e9).tolist(), steps=iterations.tolist()
                    )
            except Exception as error:  # noqa: BLE001 - training goes on
                self._lost(error)
        return last

    def summary(self, stats: Sequence[TimeStat], breakdown: Breakdown) -> None:
        """Record the table as a file, the largest cost as a line, and the picture if possible."""
        from seamark.types import File

        try:
            at = self._run[self._namespace]
            at["summary"].upload(File.from_content(summary_csv(stats), extension="csv"))
            at["largest_cost"].assign(largest_cost(breakdown))
            if breakdown.whole_s > 0:
                at["picture"].upload(File.from_content(picture(breakdown), extension="png"))
        except MissingExtraError:
            pass  # the picture is what the extra is for
        except Exception as error:  # noqa: BLE001 - training goes on
            self._lost(error)

    def _lost(self, error: Exception) -> None:
        import logging

        try:
            self._root.drop("profiling", warn=f"times could not be recorded: {error!r:.300}")
        except Exception:  # noqa: BLE001
            logging.getLogger("seamark").debug("seamark: times could not be recorded: %r", error)
