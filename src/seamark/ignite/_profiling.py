"""What both time profilers for Ignite share: engines, runs, statistics, files and records."""

from __future__ import annotations

import os
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from ignite.engine import Engine

from seamark.errors import ArgumentError, MissingExtraError
from seamark.handler import Handler
from seamark.ignite._clock import clock_of
from seamark.ignite._target import series_target_of
from seamark.timing import (
    Breakdown,
    Source,
    TimesInRun,
    TimeStat,
    largest_cost,
    position_parts,
    table,
    time_stats,
    write_long,
)

if TYPE_CHECKING:
    from seamark.ignite._times import RunTimes

__all__ = ["EngineProfiler", "index_of", "seconds_of"]

_NEVER: Final = 1 << 62
_KEPT_RUNS: Final = 32
_ROWS_OF_OLD_RUNS: Final = 4096
_SUMMARY_EVERY_NS: Final = 10_000_000_000
_ONCE_A_RUN: Final = frozenset({"STARTED", "COMPLETED"})
_ONCE_AN_EPOCH: Final = frozenset({"EPOCH_STARTED", "EPOCH_COMPLETED"})


class _NoPandasError(MissingExtraError, RuntimeError):
    """Pandas is missing: releases of Ignite raise the one or the other."""


def index_of(source: Source, at: int) -> int:
    """Return the 0-based position of a duration: of the iteration, or of the epoch."""
    event = source.event or source.name
    epoch, iteration = position_parts(at)
    if event in _ONCE_A_RUN:
        return 0
    return max(0, (epoch if event in _ONCE_AN_EPOCH else iteration) - 1)


class _Attached:
    """One engine that a profiler is attached to, and the times of its runs."""

    def __init__(self, profiler: EngineProfiler, engine: Engine) -> None:
        self._profiler = profiler
        self._ref = weakref.ref(engine)
        self._started = 0
        self._summed_up_ns = -_SUMMARY_EVERY_NS
        self.runs: OrderedDict[int, RunTimes] = OrderedDict()
        self.record: TimesInRun | None = None
        self.wants_handlers = profiler.wants_handlers
        self.due_ns = _NEVER

    def is_of(self, engine: Engine) -> bool:
        """Tell whether this is about an engine."""
        return self._ref() is engine

    def record_in(self, run: Any, namespace: str) -> None:
        """Record into a run from now on."""
        self.record = TimesInRun(run, namespace)
        self.due_ns = 0

    def listen(self) -> None:
        """Hear of the engine's runs."""
        if (engine := self._ref()) is not None:
            clock_of(engine).listen(self, gpu=self._profiler.cuda == "events")

    def leave(self) -> None:
        """Hear of them no longer."""
        if (engine := self._ref()) is not None:
            clock_of(engine).leave_alone(self)

    def latest(self) -> RunTimes | None:
        """Return the times of the latest run, as of now."""
        times = next(reversed(self.runs.values()), None)
        engine = self._ref()
        if times is not None and engine is not None and clock_of(engine).times is times:
            times.look(engine)
        return times

    def opened(self, times: RunTimes) -> None:
        """Keep a run that begins, and less of those before."""
        if (before := next(reversed(self.runs.values()), None)) is not None:
            before.thin(_ROWS_OF_OLD_RUNS)
        self.runs[self._started] = times
        self._started += 1
        if len(self.runs) > _KEPT_RUNS:
            self.runs.popitem(last=False)

    def iterated(self, times: RunTimes, now_ns: int, iteration: int) -> None:
        """Record a row of means."""
        if self.record is not None:
            self.record.row(now_ns, self._profiler.sources(times), iteration)
            self.due_ns = self.record.due_ns

    def over(self, times: RunTimes) -> None:
        """Record the summary; an evaluator that runs every minute need not do so each time."""
        now = perf_counter_ns()
        if self.record is None or now - self._summed_up_ns < _SUMMARY_EVERY_NS:
            return
        self._summed_up_ns = now
        iteration = position_parts(times.rows.running(1).last_at)[1]
        self.record.row(now, self._profiler.sources(times), iteration)
        self.record.summary(
            time_stats(self._profiler.sources(times)), self._profiler.breakdown(times)
        )


class EngineProfiler:
    """What both profilers share: engines, runs, statistics, files and records."""

    wants_handlers: ClassVar[bool]
    _kind: ClassVar[str]

    def __init__(self, *, cuda: Literal["off", "events"] = "off") -> None:
        if cuda not in ("off", "events"):
            msg = f"{type(self).__name__}: cuda: expected 'off' or 'events', got {cuda!r}"
            raise ArgumentError(msg)
        self.cuda = cuda
        self._engines: list[_Attached] = []

    # ------------------------------------------------------------ engines

    def attach(self, engine: Engine, run: Any = None, *, namespace: str = "profiling") -> None:
        """Measure the runs of an engine, also if it is running; attaching twice changes nothing.

        Args:
            engine: The engine.
            run: A ``Run``, a namespace of one or a ``SeamarkLogger``, to record times into while
                the engine runs: a row of means every second at most, and a summary at the end.
            namespace: Where in the run. A second engine has its own namespace there.

        Raises:
            TypeError: If ``engine`` is none.
            ArgumentError: If ``run`` cannot be recorded into.
        """
        if not isinstance(engine, Engine):
            msg = f"Argument engine should be ignite.engine.Engine, but given {type(engine)}"
            raise TypeError(msg)
        found = next((one for one in self._engines if one.is_of(engine)), None)
        if found is None:
            found = _Attached(self, engine)
            self._engines.append(found)
        if run is not None:
            found.record_in(_run_of(run), self._namespace(namespace, self._engines.index(found)))
        found.listen()

    def detach(self, engine: Engine | None = None) -> None:
        """Measure an engine no longer; what was measured stays. Detaching twice is harmless.

        Args:
            engine: The engine; all of them if left out.
        """
        for one in self._engines:
            if engine is None or one.is_of(engine):
                one.leave()

    def _namespace(self, namespace: str, number: int) -> str:
        own = f"{namespace}/{self._kind}"
        return own if not number else f"{own}/engine_{number + 1}"

    # ------------------------------------------------------------ results

    def sources(self, times: RunTimes) -> list[Source]:
        """Return what the statistics are of."""
        raise NotImplementedError

    def breakdown(self, times: RunTimes) -> Breakdown:
        """Return what the time of an epoch is made of."""
        return times.breakdown(by_handler=self.wants_handlers)

    def _times(self, run: int = -1, engine: Engine | None = None) -> RunTimes | None:
        """Return the times of a run, None if there was none yet.

        Raises:
            ArgumentError: If the engine is not attached, or the run does not exist.
        """
        found = self._engines[0] if self._engines else None
        if engine is not None:
            found = next((one for one in self._engines if one.is_of(engine)), None)
            if found is None:
                msg = f"engine: expected one that the profiler is attached to, got {engine!r:.80}"
                raise ArgumentError(msg)
        if run == -1:
            return None if found is None else found.latest()
        runs = {} if found is None else found.runs
        number = run if run >= 0 or not runs else next(reversed(runs)) + 1 + run
        if number not in runs:
            kept = f"{min(runs)} to {max(runs)}" if runs else "none"
            msg = f"run: expected the number of a run that is kept ({kept}), got {run}"
            raise ArgumentError(msg)
        return runs[number]

    def stats(self, run: int = -1, engine: Engine | None = None) -> list[TimeStat]:
        """Return numbers of one run of one engine, at any moment.

        Args:
            run: Number of the run, 0-based, or counted from the end. The latest 32 are kept.
            engine: The engine, by default the first that the profiler was attached to.

        Returns:
            One entry for each thing that is timed; none before the first run.

        Raises:
            ArgumentError: If the engine is not attached, or the run does not exist.

        .. versionadded:: 0.1.0
        """
        times = self._times(run, engine)
        return [] if times is None else time_stats(self.sources(times))

    def largest_cost(self, run: int = -1, engine: Engine | None = None) -> str:
        """Return one line that names the largest cost of an epoch in plain words.

        Raises:
            ArgumentError: If the engine is not attached, or the run does not exist.
        """
        times = self._times(run, engine)
        return largest_cost(Breakdown((), 0.0, 0) if times is None else self.breakdown(times))

    def table(self, run: int = -1, engine: Engine | None = None) -> str:
        """Return `stats` as a table, with the largest cost below.

        Raises:
            ArgumentError: If the engine is not attached, or the run does not exist.
        """
        return table(self.stats(run, engine)) + self.largest_cost(run, engine) + "\n"

    def to_run(self, run: Any, namespace: str = "profiling") -> None:
        """Record the latest run of each engine: times as series, summary, largest cost, picture.

        Series that were recorded while the engine ran are not recorded again.

        Args:
            run: A ``Run``, a namespace of one or a ``SeamarkLogger``.
            namespace: Where in it.

        Raises:
            ArgumentError: If ``run`` cannot be recorded into.
        """
        run = _run_of(run)
        for number, one in enumerate(self._engines):
            record = TimesInRun(run, self._namespace(namespace, number))
            if (times := one.latest()) is None:
                continue
            if one.record is None or not one.record.has_rows_in(record):
                record.points(self.sources(times))
            record.summary(time_stats(self.sources(times)), self.breakdown(times))

    def write_results(
        self, output_path: str | os.PathLike[str], layout: Literal["wide", "long"] = "wide"
    ) -> None:
        """Write the durations of the latest run to a CSV file.

        Args:
            output_path: The file.
            layout: ``"wide"`` has Ignite's columns; ``"long"`` has a row for each duration, with
                its epoch and iteration, and needs no pandas.

        Raises:
            ArgumentError: If the layout is another one.
            MissingExtraError: If pandas is missing; that is a RuntimeError as well.
            OSError: If the file cannot be written.
        """
        if layout not in ("wide", "long"):
            msg = f"layout: expected 'wide' or 'long', got {layout!r}"
            raise ArgumentError(msg)
        times = self._times()
        if layout == "long":
            write_long([] if times is None else self.sources(times), output_path)
            return
        try:
            import pandas as pd
        except ImportError as error:
            msg = 'Need pandas to write results as files: pip install "seamark[pandas]"'
            raise _NoPandasError(msg, name="pandas") from error
        pd.DataFrame(self._columns(times)).to_csv(output_path, index=False)

    def _columns(self, times: RunTimes | None) -> Mapping[str, Any]:
        raise NotImplementedError


def _run_of(run: Any) -> Any:
    """Return what to record into, which a logger has as its experiment."""
    experiment = None if hasattr(run, "get_root_object") else getattr(run, "experiment", None)
    found = run if experiment is None else experiment
    if isinstance(found, Handler):
        root, place = series_target_of(found, "the profiler")
        return root[place]
    return found


def seconds_of(source: Source) -> list[float]:
    """Return the kept durations in seconds."""
    return [ns / 1e9 for ns in source.durations()[1].tolist()]
