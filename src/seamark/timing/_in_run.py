"""Times in a run: series while training runs, then a summary."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from seamark.errors import ArgumentError, MissingExtraError
from seamark.paths import check_path, join_path
from seamark.timing._breakdown import Breakdown, largest_cost, picture
from seamark.timing._samples import ITERATION_MASK, Samples, Source
from seamark.timing._statistics import TimeStat, summary_csv

__all__ = ["TimesInRun"]

_SERIES_POINTS: Final = 1_000


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
                    iterations = positions[::every] & ITERATION_MASK
                    self._run[join_path(self._namespace, one.series)].extend(
                        (durations[::every] / 1e9).tolist(), steps=iterations.tolist()
                    )
            except Exception as error:  # noqa: BLE001 - training goes on
                self._lost(error)
        return last

    def summary(self, stats: Sequence[TimeStat], breakdown: Breakdown) -> None:
        """Record the table as a file, the largest cost as a line, and the picture if possible.

        Rank 0 alone does: a run keeps values and files of no other, and to draw takes time.
        """
        from seamark.types import File

        if not getattr(self._root, "speaks_for_all", True):
            return
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
        try:
            self._root.drop("profiling", warn=f"times could not be recorded: {error!r:.300}")
        except Exception:  # noqa: BLE001
            logging.getLogger("seamark").debug("seamark: times could not be recorded: %r", error)
