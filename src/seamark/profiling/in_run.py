"""Times in a run: series while training runs, then a summary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from seamark.errors import ArgumentError, MissingExtraError
from seamark.paths import check_path, join_path
from seamark.process.interrupts import quietly
from seamark.profiling.durations import (
    Breakdown,
    Durations,
    largest_cost,
    picture,
    position_parts,
    summary_csv,
)
from seamark.values.statistics import SCALE, Moments

__all__ = ["TimesInRun"]

_SERIES_POINTS: Final = 1_000
_INTERVAL_NS: Final = 10**9


class TimesInRun:
    """Records times below a namespace of a run: series while training runs, then a summary.

    While training runs, one row of means (over the durations since the last row) is recorded every
    second at most, next at `due_ns` (of ``time.perf_counter_ns``). The run may be a namespace, or a
    logger with one of these as its ``experiment``, which is asked each time: loading a checkpoint
    may replace it. Nothing here raises, after construction.
    """

    def __init__(self, run: Any, namespace: str = "profiling") -> None:
        self._given = run
        if not hasattr(type(self._run), "get_root_object"):
            msg = (
                "run: expected a Run or a namespace of one, or a logger that has one, "
                f"got {type(run).__name__}: {run!r:.80}"
            )
            raise ArgumentError(msg)
        self._namespace = check_path(namespace) if namespace != "" else ""
        self.due_ns = 0
        self._recorded: dict[str, Moments] = {}
        self._ends_with: Any = None

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

    @property
    def place(self) -> tuple[object, str]:
        """The place of the records, to be compared with other places of this process."""
        return id(self._session), join_path(getattr(self._run, "path", ""), self._namespace)

    def at_end(self, call: Callable[[], None]) -> None:
        """Call a function when the run is about to end, once for each run."""
        if self._ends_with is not self._session:
            self._ends_with = self._session
            self._session.before_end(call)

    def skip(self, sources: Iterable[Durations]) -> None:
        """Leave out the durations up to now."""
        self._recorded.update((one.series, one.moments) for one in sources)

    def restart(self) -> None:
        """Expect other durations of the same things."""
        self._recorded.clear()

    def _news(self, sources: Iterable[Durations]) -> Iterator[tuple[Durations, Moments, Moments]]:
        for one in sources:
            before = self._recorded.get(one.series, Moments())
            now = self._recorded[one.series] = one.moments
            yield one, before, now

    def row(self, now_ns: int, sources: Iterable[Durations], step: float) -> None:
        """Record the means since the last row, in seconds, at one step."""
        self.due_ns = now_ns + _INTERVAL_NS
        if not self._session.recording:  # a run that was stopped; that is no loss
            return
        with quietly(self._lost):  # stands in the training loop
            means: dict[str, float] = {}
            for one, before, now in self._news(sources):
                count, spent_ns = now.count - before.count, (now.total - before.total) >> SCALE
                if count and now.total:  # without handlers it takes no time
                    means[join_path(self._namespace, one.series)] = spent_ns / count / 1e9
            if means:
                self._run.log_metrics(means, step)

    def points(self, sources: Iterable[Durations]) -> None:
        """Record kept durations that are new as series, at most 1,000 each, evenly thinned."""
        for one, before, now in self._news(sources):
            with quietly(self._lost):
                rows = one.rows()
                _, positions, durations = rows[:, (rows[0] >= before.count) & bool(now.total)]
                if every := -(-len(positions) // _SERIES_POINTS):
                    iterations: Any = position_parts(positions[::every])[1]
                    self._run[join_path(self._namespace, one.series)].extend(
                        (durations[::every] / 1e9).tolist(), steps=iterations.tolist()
                    )

    def summary(self, sources: Iterable[Durations], breakdown: Breakdown) -> None:
        """Record table, cost and picture, on rank 0 alone: a run keeps files of no other rank."""
        from seamark.types import File

        if not (self._session.recording and self._session.speaks_for_all):
            return
        with quietly(self._lost), quietly(only=MissingExtraError):  # that is for the picture
            at = self._run[self._namespace]
            table = summary_csv(one.stat() for one in sources)
            at["summary"].upload(File.from_content(table, extension="csv"))
            at["largest_cost"].assign(largest_cost(breakdown))
            if breakdown.whole_s > 0:
                at["picture"].upload(File.from_content(picture(breakdown), extension="png"))

    def _lost(self, error: Exception) -> None:
        self._session.drop("profiling", warn=f"times could not be recorded: {error!r:.300}")
