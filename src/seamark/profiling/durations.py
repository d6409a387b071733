"""Durations collected during training, their tables, and their series in a run."""

from __future__ import annotations

import csv
import io
import os
import re
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, Final, TextIO

from seamark.errors import ArgumentError, MissingExtraError
from seamark.paths import check_path, join_path
from seamark.pictures.printing import without_middle
from seamark.process.interrupts import quietly
from seamark.reading.text import seconds_text
from seamark.values._parameters import percent_encoded
from seamark.values.arrays import Bools, Ints
from seamark.values.statistics import SCALE, Moments

SAMPLE_LIMIT: Final = 65_536
"""Number of durations kept; if there are more, an even sample."""
POSITION_SHIFT: Final = 36
"""Number of bits of the iteration in a `position`; the epoch occupies the bits above."""
LOCK: Final = threading.RLock()
"""Lock held while durations are added. It belongs to the module, so that durations can be pickled.
"""
_NOT_IN_A_PATH: Final = re.compile(r"[/%\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_GOLDEN: Final = 0x9E3779B97F4A7C15  # 2 ** 64 divided by the golden ratio


def position(epoch: int, iteration: int) -> int:
    """Return epoch and iteration (below 2**36) as one integer with the same order."""
    return (epoch << POSITION_SHIFT) + iteration


def position_parts(at: int) -> tuple[int, int]:
    """Return the epoch and the iteration of a `position`."""
    return at >> POSITION_SHIFT, at & ((1 << POSITION_SHIFT) - 1)


@dataclass(frozen=True, slots=True)
class TimeStat:
    """Statistics of one timed item, in seconds.

    Without durations all numbers are 0.

    Attributes:
        kind: ``"processing"``, ``"dataflow"``, ``"event"``, ``"handler"`` or ``"action"``.
        name: Name of the handler, event or action.
        event: Name of a handler's event, else empty.
        clock: ``"wall"``, or ``"cuda"`` for times between CUDA events.
        count: Number of durations.
        total_s: Sum, including nested items.
        self_s: Sum without separately timed nested items, such as the handlers of an event fired by
            this handler.
        min_s: Minimum.
        max_s: Maximum.
        mean_s: Mean.
        std_s: Standard deviation of a sample (divided by count - 1); 0 for a single duration.
        p50_s: Median. Like the other percentiles, it is computed from the kept rows and exact up to
            `SAMPLE_LIMIT` durations (8,192 for an action of Lightning).
        p95_s: 95th percentile.
        p99_s: 99th percentile.
        min_epoch: Epoch of the first minimum, as counted by the framework.
        min_iteration: Iteration of the minimum, likewise.
        max_epoch: Epoch of the maximum.
        max_iteration: Iteration of the maximum.
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


class Durations:
    """Durations of one timed item in nanoseconds, each with its position; statistics are exact.

    During training, ``waiting.extend((at, duration))`` is enough; `moments` and `rows` add them.
    All durations up to a limit are kept; beyond it one of two, four, and so on, at irregular
    distances, so that events of every n-th iteration are sampled fairly. ``kind``, ``name``,
    ``event`` and ``clock`` are those of `TimeStat`.

    Attributes:
        waiting: Pending positions and durations, alternating.
        nested_ns: Part of the total that is also timed elsewhere.
        outside_ns: Part of the rest that is not within an epoch.
        min_at: Position of the first minimum.
    """

    def __init__(
        self, kind: str, name: str, event: str = "", clock: str = "wall", limit: int = SAMPLE_LIMIT
    ) -> None:
        self.kind, self.name, self.event, self.clock = kind, name, event, clock
        self.waiting: list[int] = []  # extending an array is four times slower
        self.nested_ns = self.outside_ns = 0
        self.min_at = self.max_at = self.last_at = 0
        self._limit = limit
        self._moments = Moments()
        self._blocks: list[Ints] = []
        self._kept = 0
        self._every = 1

    def flush(self) -> None:
        """Add the pending durations; may be called from any thread."""
        if not self.waiting:
            return
        import numpy as np

        with LOCK:
            # One call in C appends a pair, so that no thread sees half of it.
            taken = self.waiting[:]
            del self.waiting[: len(taken)]
            self.add(*np.array(taken, dtype=np.int64).reshape(-1, 2).T)

    def add(self, at: Ints, durations: Ints) -> None:
        """Add durations in nanoseconds and their positions, both of shape ``(N,)``."""
        import numpy as np

        if not (size := len(durations)):
            return
        with LOCK:
            before = self._moments
            low, high = int(durations.argmin()), int(durations.argmax())
            if not before.count or durations[low] < before.min:
                self.min_at = int(at[low])
            if not before.count or durations[high] > before.max:
                self.max_at = int(at[high])
            self.last_at = int(at[-1])
            total = int(durations.sum())
            apart = durations - total / size
            ends = map(float, (durations[low], durations[high], durations[0], durations[-1]))
            added = Moments(size, total << SCALE, float(apart @ apart), 0.0, *ends)
            self._moments = before.with_(added)
            numbers = np.arange(before.count, before.count + size)
            self._keep(np.stack([numbers, at, durations]))

    def _keep(self, block: Ints) -> None:
        import numpy as np

        if self._every > 1:
            block = block[:, _is_in_sample(block[0], self._every)]
        self._blocks.append(block)
        self._kept += block.shape[1]
        while self._kept > self._limit:
            self._every *= 2
            whole = np.concatenate(self._blocks, axis=1)
            self._blocks = [whole[:, _is_in_sample(whole[0], self._every)]]
            self._kept = self._blocks[0].shape[1]

    def rows(self) -> Ints:
        """Return 0-based numbers, positions and kept durations, oldest first, shape ``(3, N)``."""
        import numpy as np

        with LOCK:
            self.flush()
            if len(self._blocks) != 1:
                empty = np.empty((3, 0), dtype=np.int64)
                self._blocks = [np.concatenate([empty, *self._blocks], axis=1)]
            return self._blocks[0]

    @property
    def moments(self) -> Moments:
        """Statistics of all durations, in nanoseconds."""
        self.flush()
        return self._moments

    @property
    def total_ns(self) -> int:
        """Sum of all durations."""
        return self.moments.total >> SCALE

    @property
    def own_ns(self) -> int:
        """Sum without times that are also counted elsewhere."""
        return max(0, self.total_ns - self.nested_ns)

    @property
    def in_epochs_ns(self) -> int:
        """Part of `own_ns` within epochs."""
        return self.own_ns - self.outside_ns

    @property
    def series(self) -> str:
        """Path of its series below a namespace."""
        parts = [self.event, self.name] if self.event else [self.name]
        unit = "_s" if self.clock == "wall" else f"_{self.clock}_s"
        return "/".join(path_part(part) for part in parts) + unit

    def stat(self) -> TimeStat:
        """Return the statistics in seconds."""
        import numpy as np

        found = self.moments
        kept = self.rows()[2] if found.count else [0]
        p50_s, p95_s, p99_s = (np.percentile(kept, (50, 95, 99)) / 1e9).tolist()
        min_epoch, min_iteration = position_parts(self.min_at)
        max_epoch, max_iteration = position_parts(self.max_at)
        return TimeStat(
            kind=self.kind,
            name=self.name,
            event=self.event,
            clock=self.clock,
            count=found.count,
            total_s=self.total_ns / 1e9,
            self_s=self.own_ns / 1e9,
            min_s=found.min / 1e9 if found.count else 0.0,
            max_s=found.max / 1e9 if found.count else 0.0,
            mean_s=found.mean / 1e9 if found.count else 0.0,
            std_s=found.std / 1e9,
            p50_s=p50_s,
            p95_s=p95_s,
            p99_s=p99_s,
            min_epoch=min_epoch,
            min_iteration=min_iteration,
            max_epoch=max_epoch,
            max_iteration=max_iteration,
        )


def _is_in_sample(numbers: Ints, every: int) -> Bools:
    import numpy as np

    return numbers.astype(np.uint64) * np.uint64(_GOLDEN) <= np.uint64(2**64 // every - 1)


def path_part(name: str) -> str:
    """Return a name as one part of a path: ``/``, ``%`` and control characters percent-encoded."""
    return _NOT_IN_A_PATH.sub(percent_encoded, name) or "%00"


_PICTURE_PARTS: Final = 9
_LABEL: Final = 60


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Parts of the duration of a mean epoch, the mean of `epochs`.

    ``parts`` maps descriptions to seconds per epoch, without overlap. The remainder is the
    framework's own work. ``of`` describes the whole.
    """

    parts: tuple[tuple[str, float], ...]
    whole_s: float
    epochs: int
    of: str = "an epoch"

    def ranked(self) -> list[tuple[str, float]]:
        """Return all parts, including the remainder, largest first."""
        rest = self.whole_s - sum(seconds for _, seconds in self.parts)
        found = [*self.parts, ("everything else (the framework itself)", max(0.0, rest))]
        return sorted(found, key=lambda part: -part[1])


def largest_cost(breakdown: Breakdown) -> str:
    """Return a line that names the largest cost of an epoch."""
    if breakdown.whole_s <= 0:
        return "Nothing has been timed yet."
    name, seconds = breakdown.ranked()[0]
    share = 100 * seconds / breakdown.whole_s
    of = breakdown.of if breakdown.epochs == 1 else f"{breakdown.of} (mean of {breakdown.epochs})"
    return (
        f"The largest cost is {name}: {seconds_text(seconds)} of the "
        f"{seconds_text(breakdown.whole_s)} of {of}, {share:.0f} %."
    )


def picture(breakdown: Breakdown) -> bytes:
    """Return a PNG with a bar for each part of a mean epoch, and the largest cost below."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f'plots need the package {error.name}: pip install "seamark[plot]"', name=error.name
        ) from error
    parts = [part for part in breakdown.ranked() if part[1] > 0]
    if len(parts) > _PICTURE_PARTS:
        small = parts[_PICTURE_PARTS - 1 :]
        more = (f"{len(small)} smaller costs", sum(seconds for _, seconds in small))
        parts = [*parts[: _PICTURE_PARTS - 1], more]
    figure = Figure(figsize=(9, 1.5 + 0.35 * len(parts)), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    bars = axes.barh(range(len(parts)), [seconds for _, seconds in parts])
    shares = [(seconds_text(seconds), 100 * seconds / breakdown.whole_s) for _, seconds in parts]
    axes.bar_label(bars, [f"{time}, {share:.1f} %" for time, share in shares], padding=3)
    axes.margins(x=0.4)
    axes.invert_yaxis()
    # A "$" in a name is a dollar.
    names = [without_middle(name, _LABEL) for name, _ in parts]
    axes.set_yticks(range(len(parts)), names, parse_math=False)
    axes.set_xlabel("seconds")
    axes.set_title(f"Where the time of {breakdown.of} goes")
    line = textwrap.fill(largest_cost(breakdown).replace(" %", "\u00a0%"), 120)
    figure.supxlabel(line, fontsize="medium", parse_math=False)
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the font may lack characters of a name
        figure.savefig(out, format="png")
    return out.getvalue()


LONG_COLUMNS: Final = ("kind", "event", "name", "clock", "epoch", "iteration", "seconds")
"""Columns of the long layout: one row for each duration."""
_HEAD: Final = (
    "what", "event", "count", "total s", "self s", "mean s", "std s",
    "p50 s", "p95 s", "p99 s", "min s (epoch/iteration)", "max s (epoch/iteration)",
)  # fmt: skip


def table(stats: Iterable[TimeStat]) -> str:
    """Return statistics as a table for a terminal, one line each, with a final line break."""
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
    """Return a line for each row: two columns of names, followed by columns of numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        names = [cell.ljust(width) for cell, width in zip(row[:2], widths, strict=False)]
        numbers = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        lines.append("  ".join([*names, *numbers]).rstrip())
    return lines


def summary_csv(stats: Iterable[TimeStat]) -> str:
    """Return statistics as CSV, one line each, with the columns of `TimeStat`."""
    out = io.StringIO()
    write_csv(out, [field.name for field in fields(TimeStat)], map(astuple, stats))
    return out.getvalue()


def write_long(sources: Iterable[Durations], path: str | os.PathLike[str]) -> None:
    """Write one row for each kept duration: `LONG_COLUMNS`."""
    rows = (
        (one.kind, one.event, one.name, one.clock, *position_parts(at), f"{ns / 1e9:.9f}")
        for one in sources
        for _, at, ns in one.rows().T.tolist()
    )
    with Path(path).open("w", encoding="utf-8", newline="") as out:
        write_csv(out, LONG_COLUMNS, rows)


def write_csv(out: TextIO, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write rows as CSV below the names of their columns."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)


_INTERVAL_NS: Final = 10**9


class TimesInRun:
    """Record times below a namespace of a run: series during training, then a summary.

    During training, at most one row of means (over the durations since the last row) is recorded
    per second, the next one at `due_ns` (by ``time.perf_counter_ns``). The run may be a namespace,
    or a logger with a run or namespace as its ``experiment``, which is read each time because
    loading a checkpoint may replace it. Nothing raises after construction.
    """

    def __init__(self, run: Any, namespace: str = "profiling", kind: str = "") -> None:
        self._given = run
        if not hasattr(type(self._run), "get_root_object"):
            raise ArgumentError(
                "run: expected a Run or a namespace of one, or a logger that has one, "
                f"got {type(run).__name__}: {run!r:.80}"
            )
        self._namespace = join_path(check_path(namespace) if namespace != "" else "", kind)
        self.due_ns = 0
        self._recorded: dict[str, Moments] = {}

    @property
    def _run(self) -> Any:
        is_run = hasattr(type(self._given), "get_root_object")
        found: Any = self._given if is_run else getattr(self._given, "experiment", None)
        if not (base := getattr(found, "path", "")):
            return found
        root = found.get_root_object()
        return root[root.session.series_base(base)]

    @property
    def _session(self) -> Any:
        return self._run.get_root_object().session

    def skip(self, sources: Iterable[Durations]) -> None:
        """Skip the durations up to now."""
        self._recorded.update((one.series, one.moments) for one in sources)

    def restart(self) -> None:
        """Restart with new durations of the same items."""
        self._recorded.clear()

    def before_end(self, call: Callable[[], None]) -> None:
        """Call a function before the run next rests or stops."""
        self._session.before_end(call)

    def row(self, now_ns: int, sources: Iterable[Durations], step: float) -> None:
        """Record the means since the last row, in seconds, at one step."""
        self.due_ns = now_ns + _INTERVAL_NS
        if not self._session.recording:  # the run was stopped, which is not a loss
            return
        with quietly(self._lost):  # called in the training loop
            means: dict[str, float] = {}
            for one in sources:
                before, now = self._recorded.get(one.series, Moments()), one.moments
                self._recorded[one.series] = now
                count, spent_ns = now.count - before.count, (now.total - before.total) >> SCALE
                if count and now.total:  # without handlers it has no duration
                    means[join_path(self._namespace, one.series)] = spent_ns / count / 1e9
            if means:
                self._run.log_metrics(means, step)

    def summary(self, sources: Iterable[Durations], breakdown: Breakdown) -> None:
        """Record table, cost and picture on rank 0: only its files are stored in a run."""
        from seamark.types import File

        if not (self._session.recording and self._session.speaks_for_all):
            return
        with quietly(self._lost), quietly(only=MissingExtraError):  # needed only for the picture
            at = self._run[self._namespace]
            table = summary_csv(one.stat() for one in sources)
            at["summary"].upload(File.from_content(table, extension="csv"))
            at["largest_cost"].assign(largest_cost(breakdown))
            if breakdown.whole_s > 0:
                at["picture"].upload(File.from_content(picture(breakdown), extension="png"))

    def _lost(self, error: Exception) -> None:
        self._session.drop("profiling", warn=f"times could not be recorded: {error!r:.300}")
