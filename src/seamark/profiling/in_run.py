"""Times in a run: series while training runs, then a summary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from seamark.errors import ArgumentError, MissingExtraError
from seamark.paths import check_path, join_path
from seamark.process.interrupts import quietly
from seamark.profiling.breakdown import Breakdown, largest_cost, picture
from seamark.profiling.samples import ITERATION_MASK, Source
from seamark.profiling.statistics import TimeStat, summary_csv

__all__ = ["TimesInRun"]

_SERIES_POINTS: Final = 1_000


class _Told(NamedTuple):
    """The part of a source that has been recorded."""

    how_many: int = 0
    total: int = 0
    last_at: int = -1


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
        if not hasattr(type(self._run), "get_root_object"):
            msg = (
                "run: expected a Run or a namespace of one, or a logger that has one, "
                f"got {type(run).__name__}: {run!r:.80}"
            )
            raise ArgumentError(msg)
        self._namespace = check_path(namespace) if namespace != "" else ""
        self._interval_ns = round(interval_s * 1e9)
        self.due_ns = 0
        self._told: dict[str, _Told] = {}
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
    def recording(self) -> bool:
        """True if the run takes records; a run that was stopped does not, which is no loss."""
        return bool(self._session.recording)

    @property
    def place(self) -> tuple[object, str]:
        """The place of the records, to be compared with other places of this process."""
        return id(self._session), join_path(getattr(self._run, "path", ""), self._namespace)

    def at_end(self, call: Callable[[], None]) -> None:
        """Call something when the run is about to end, once for each run."""
        if self._ends_with is not self._session:
            self._ends_with = self._session
            self._session.before_end(call)

    def skip(self, sources: Iterable[Source]) -> None:
        """Leave what was timed so far out of what is recorded."""
        for _ in self._news(sources):
            pass

    def restart(self) -> None:
        """Expect other durations of the same things, of which nothing has been recorded."""
        self._told = {}

    def _news(self, sources: Iterable[Source]) -> Iterator[tuple[Source, _Told, _Told]]:
        """Yield each source with how far it had been recorded, and how far it is there now."""
        for one in sources:
            found = one.samples.running()
            before = self._told.get(one.series, _Told())
            now = self._told[one.series] = _Told(found.count, found.total, found.last_at)
            yield one, before, now

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
        with quietly(self._lost):  # stands in the training loop
            means: dict[str, float] = {}
            for one, before, now in self._news(sources):
                count, spent_ns = now.how_many - before.how_many, now.total - before.total
                if count and now.total:  # without handlers it takes no time
                    means[join_path(self._namespace, one.series)] = spent_ns / count / 1e9
            if means:
                self._run.log_metrics(means, step)

    def points(self, sources: Iterable[Source]) -> None:
        """Record kept durations that are new as series, at most 1,000 each, evenly thinned.

        Args:
            sources: What to record.
        """
        for one, before, now in self._news(sources):
            with quietly(self._lost):
                positions, durations = one.samples.rows()
                new = (positions > before.last_at) & bool(now.total)
                positions, durations = positions[new], durations[new]
                if every := -(-len(positions) // _SERIES_POINTS):
                    iterations = positions[::every] & ITERATION_MASK
                    self._run[join_path(self._namespace, one.series)].extend(
                        (durations[::every] / 1e9).tolist(), steps=iterations.tolist()
                    )

    def summary(self, stats: Sequence[TimeStat], breakdown: Breakdown) -> None:
        """Record the table as a file, the largest cost as a line, and the picture if possible.

        Rank 0 alone does: a run keeps values and files of no other, and to draw takes time.
        """
        from seamark.types import File

        if not self._session.speaks_for_all:
            return
        with quietly(self._lost), quietly(only=MissingExtraError):  # that is for the picture
            at = self._run[self._namespace]
            at["summary"].upload(File.from_content(summary_csv(stats), extension="csv"))
            at["largest_cost"].assign(largest_cost(breakdown))
            if breakdown.whole_s > 0:
                at["picture"].upload(File.from_content(picture(breakdown), extension="png"))

    def _lost(self, error: Exception) -> None:
        self._session.drop("profiling", warn=f"times could not be recorded: {error!r:.300}")
