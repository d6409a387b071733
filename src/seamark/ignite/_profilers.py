"""Time profilers with the reports of Ignite's own."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import weakref
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from time import perf_counter_ns
from typing import Any, ClassVar, Final, Literal

import ignite.handlers
import torch
from ignite.engine import Engine

from seamark.errors import ArgumentError
from seamark.ignite import _host
from seamark.ignite._clock import EngineClock
from seamark.ignite._times import EventTimes, RunTimes
from seamark.pictures.printing import MOST_COLUMNS, columns_of, show, without_middle
from seamark.profiling import (
    Breakdown,
    Durations,
    TimesInRun,
    TimeStat,
    aligned,
    largest_cost,
    position_parts,
    table,
    write_csv,
    write_long,
)

log = logging.getLogger("seamark")

_SUMMARY_EVERY_NS: Final = 10_000_000_000


class EngineProfiler(ABC):
    """Base of both profilers: engine, times of its latest run, files and records."""

    _kind: ClassVar[str]
    events_to_ignore: ClassVar[list[Any]] = []

    def __init__(self, *, cuda: Literal["off", "events"] = "off") -> None:
        if cuda not in ("off", "events"):
            raise ArgumentError(
                f"{type(self).__name__}: cuda: expected 'off' or 'events', got {cuda!r}"
            )
        if cuda == "events" and not torch.cuda.is_available():
            log.warning(
                'seamark: %s(cuda="events"): there is no CUDA device; only wall time is measured',
                type(self).__name__,
            )
        self.cuda = cuda
        self.times = RunTimes()
        self._engine: weakref.ref[Engine] | None = None
        self._record: TimesInRun | None = None
        self._summed_up_ns = -_SUMMARY_EVERY_NS
        self._is_summed_up = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_engine": None, "_record": None}

    # ------------------------------------------------------------ the engine

    def attach(self, engine: Engine, run: Any = None, *, namespace: str = "profiling") -> None:
        """Measure the runs of an engine, even if it is running; a repeated call has no effect.

        Args:
            engine: The engine; one for each profiler.
            run: A ``Run``, a namespace or a ``SeamarkLogger`` into which times are recorded: at
                most one row of means per second while the engine runs, and a summary at the end.
            namespace: Namespace in the run.

        Raises:
            TypeError: If ``engine`` is not an ``Engine``.
            ArgumentError: If ``run`` cannot be recorded into, or another engine is attached.
            PathError: If the namespace is not a valid path.
        """
        _host.check_engine(engine, "engine")
        if self._attached() not in (None, engine):
            raise ArgumentError(
                f"engine: {type(self).__name__} measures one engine; create another for {engine!r}"
            )
        if run is not None:
            self._record = TimesInRun(run, namespace, self._kind)
        self._engine = weakref.ref(engine)
        EngineClock.of(engine).add(self)

    def detach(self, engine: Engine | None = None) -> None:
        """Stop measuring the engine and keep the measurements. May be called repeatedly."""
        attached = self._attached()
        if attached is not None and engine in (None, attached):
            self._engine = None  # what is pending is added to the times that the clock hands over
            EngineClock.of(attached).remove(self)

    def _attached(self) -> Engine | None:
        return None if self._engine is None else self._engine()

    # ------------------------------------------------------------ called by the clock

    def begin(self, times: RunTimes) -> None:
        self.times = times
        if self._record is not None:
            self._record.restart()
        self._sum_up_at_end()  # an exception ends the engine's run without an event

    def end_iteration(self, now_ns: int, iteration: int) -> None:
        if self._record is not None and now_ns >= self._record.due_ns:
            self._record.row(now_ns, self._sources(self.times), iteration)
            self._sum_up_at_end()  # the recorded run may have rested, or be another one now

    def end(self, times: RunTimes) -> None:
        """Record the summary, but not every time for an engine that runs often."""
        self.times = times
        self._sum_up_at_end()
        if perf_counter_ns() - self._summed_up_ns >= _SUMMARY_EVERY_NS:
            self._sum_up()

    def _sum_up_at_end(self) -> None:
        self._is_summed_up = False
        if self._record is not None:
            self._record.before_end(self._sum_up)

    def _sum_up(self) -> None:
        if self._record is not None and not self._is_summed_up:
            times = self._times()
            self._is_summed_up = True
            self._summed_up_ns = perf_counter_ns()
            iteration = position_parts(times.processing.last_at)[1]
            self._record.row(self._summed_up_ns, self._sources(times), iteration)
            self._record.summary(self._sources(times), self._breakdown(times))

    @abstractmethod
    def _sources(self, times: RunTimes) -> list[Durations]:
        """Return the times that are reported: the phases, followed by events or handlers."""

    def _breakdown(self, times: RunTimes) -> Breakdown:
        return times.breakdown(self._sources(times))

    # ------------------------------------------------------------ results

    def _times(self) -> RunTimes:
        engine = self._attached()
        return self.times.now(None if engine is None else EngineClock.of(engine).add_rest)

    def _reported(self) -> list[EventTimes]:
        events = list(self._times().events.values())
        return [one for one in events if one.key not in self.events_to_ignore]

    @property
    def event_handlers_names(self) -> dict[Any, list[str]]:
        """Names of the handlers of each event."""
        return {one.key: one.names for one in self._reported()}

    def stats(self) -> list[TimeStat]:
        """Return statistics of the latest run, at any time.

        Returns:
            One entry for each timed item; empty before the first run.
        """
        times = self._times()
        return [one.stat() for one in self._sources(times)] if times.began else []

    def largest_cost(self) -> str:
        """Return a line that names the largest cost of an epoch."""
        return largest_cost(self._breakdown(self._times()))

    def table(self) -> str:
        """Return `stats` as a table, followed by the largest cost."""
        text = table(self.stats()) + self.largest_cost() + "\n"
        if count := self.times.events_elsewhere:
            text += f"{count} events of other threads were not timed.\n"
        return text

    def to_run(self, run: Any, namespace: str = "profiling") -> None:
        """Record the summary of the latest run, its largest cost and a picture.

        Series of times are recorded while the engine runs, by ``attach(engine, run=run)``.
        Arguments and errors are as in `attach`.
        """
        record = TimesInRun(run, namespace, self._kind)
        if (times := self._times()).began:
            record.summary(self._sources(times), self._breakdown(times))

    def write_results(
        self, output_path: str | os.PathLike[str], layout: Literal["wide", "long"] = "wide"
    ) -> None:
        """Write the durations of the latest run to a CSV file.

        Args:
            output_path: The file.
            layout: ``"wide"`` has Ignite's columns, with 0 for missing times as in Ignite's files;
                ``"long"`` has a row for each duration, with its epoch and iteration.

        Raises:
            ArgumentError: If the layout is unknown.
            TypeError: If ``output_path`` is not a path.
            OSError: If the file cannot be written.
        """
        if layout not in ("wide", "long"):
            raise ArgumentError(f"layout: expected 'wide' or 'long', got {layout!r}")
        times = self._times()
        if layout == "long":
            write_long(self._sources(times), output_path)
            return
        columns = self._columns(times)
        with Path(output_path).open("w", encoding="utf-8", newline="") as out:
            write_csv(out, columns, zip_longest(*columns.values(), fillvalue=0.0))

    @abstractmethod
    def _columns(self, times: RunTimes) -> dict[str, Any]:
        """Return the columns of the wide layout, padded with zeros."""


_PRINTED_ROWS: Final = 15
"""Number of rows printed, slowest first; recorded and returned results have all."""
_ONCE_A_RUN: Final = frozenset({"STARTED", "COMPLETED"})
_ONCE_AN_EPOCH: Final = frozenset({"EPOCH_STARTED", "EPOCH_COMPLETED"})
_IN_FILES: Final = (
    "STARTED",
    "COMPLETED",
    "EPOCH_STARTED",
    "EPOCH_COMPLETED",
    "ITERATION_STARTED",
    "ITERATION_COMPLETED",
    "GET_BATCH_STARTED",
    "GET_BATCH_COMPLETED",
)
_HEADS: Final = (
    "Handler",
    "Event Name",
    "Total(s)",
    "Min(s)/IDX",
    "Max(s)/IDX",
    "Mean(s)",
    "Std(s)",
)
_SHORT: Final = (0, 1, 2, 4, 5)


class BasicTimeProfiler(EngineProfiler):
    """Time the handlers of each event together, data loading and data processing.

    Replaces ``ignite.handlers.BasicTimeProfiler``; `stats` provides more.

    Args:
        cuda: ``"events"`` also times each step on the GPU between two CUDA events, without
            synchronizing while the engine runs.

    Raises:
        ArgumentError: If ``cuda`` has another value.

    Example:
        ::

            profiler = BasicTimeProfiler()
            profiler.attach(trainer, run=run)
            trainer.run(loader, max_epochs=3)
            profiler.print_results(profiler.get_results())
            profiler.write_results("times.csv")
    """

    _kind = "events"
    events_to_ignore: ClassVar[list[Any]] = ignite.handlers.BasicTimeProfiler.events_to_ignore

    def _sources(self, times: RunTimes) -> list[Durations]:
        # Events that Ignite's profilers ignore are left out unless they happened or have handlers.
        events = list(times.events.values())
        return times.phases() + [
            one
            for one in events
            if one.key not in self.events_to_ignore or one.names or one.moments.count
        ]

    def get_results(self) -> dict[str, dict[str, Any]]:
        """Return aggregated times of the latest run, in seconds.

        The index of a minimum or maximum is the 0-based position of its iteration, or of the epoch
        for events of an epoch.

        Returns:
            ``processing_stats``, ``dataflow_stats``, ``event_handlers_stats`` (by event, and
            ``total_time``) and ``event_handlers_names``; with ``cuda="events"`` also
            ``cuda_processing_stats``.
        """
        processing, dataflow, *device = self._times().phases()
        events = {one.name.replace(".", "_"): one for one in self._reported()}
        stats: dict[str, Any] = {name: _basic(one) for name, one in events.items()}
        total_ns = sum(one.own_ns for one in events.values())
        stats["total_time"] = torch.tensor(total_ns / 1e9, dtype=torch.float64)
        return OrderedDict(
            processing_stats=_basic(processing),
            dataflow_stats=_basic(dataflow),
            event_handlers_stats=stats,
            event_handlers_names={f"{name}_names": one.names for name, one in events.items()},
            **({"cuda_processing_stats": _basic(device[0])} if device else {}),
        )

    @staticmethod
    def print_results(results: dict[str, Any]) -> str:
        """Print the results and return the text: that of Ignite's own profiler with additions.

        It is as wide as the terminal, or 100 columns without one; `table` shows everything.
        """
        with contextlib.redirect_stdout(io.StringIO()):
            text: str = ignite.handlers.BasicTimeProfiler.print_results(results)
        lines, stats = text.splitlines(), results["event_handlers_stats"]
        for name, each in stats.items():
            names = results["event_handlers_names"].get(f"{name}_names")
            if names and f"- Events.{name}: " not in text:
                lines += ["", f"- Events.{name}: {names}", _basic_line(each)]
        if device := results.get("cuda_processing_stats"):
            lines += ["", "Processing function on the GPU (CUDA events):", _basic_line(device)]
        columns = columns_of(sys.stdout)
        text = "\n".join(without_middle(line, columns) for line in [*lines, ""])
        show(text)
        return text

    def _columns(self, times: RunTimes) -> dict[str, Any]:
        """Return columns with one number per iteration that ran; 0 for missing times."""
        events = {one.name: one for one in list(times.events.values())}
        stepped, waited, started = (
            set(one.rows()[1].tolist())
            for one in (times.processing, times.dataflow, events["ITERATION_STARTED"])
        )
        ran = sorted(stepped | (started & waited))
        found: dict[str, Any] = {
            "epoch": [position_parts(at)[0] for at in ran],
            "iteration": [position_parts(at)[1] for at in ran],
        }
        sources = {"processing_stats": times.processing, "dataflow_stats": times.dataflow}
        sources |= {f"Event_{name}": events[name] for name in _IN_FILES}
        for name, source in sources.items():
            by_index = {_index_of(source, at): ns / 1e9 for _, at, ns in source.rows().T.tolist()}
            found[name] = [by_index.get(_index_of(source, at), 0.0) for at in ran]
        return found

    # ------------------------------------------------------------ attributes of Ignite's profiler

    @property
    def processing_times(self) -> torch.Tensor:
        """Seconds of each step of the latest run, shape ``(N,)``."""
        return torch.tensor(_seconds_of(self._times().processing) or [0.0])

    @property
    def dataflow_times(self) -> torch.Tensor:
        """Seconds of each batch of the latest run, shape ``(N,)``."""
        return torch.tensor(_seconds_of(self._times().dataflow) or [0.0])

    @property
    def event_handlers_times(self) -> dict[Any, torch.Tensor]:
        """Seconds of all handlers together for each occurrence of an event, by event."""
        return {one.key: torch.tensor(_seconds_of(one)) for one in self._reported()}

    @property
    def max_epochs(self) -> int | None:
        """Number of epochs requested from the engine."""
        return self._times().max_epochs

    @property
    def total_num_iters(self) -> int:
        """Number of iterations of the latest run."""
        return self._times().processing.moments.count


def _basic_line(stats: dict[str, Any]) -> str:
    def cell(value: Any) -> str:
        if isinstance(value, str):
            return value
        return f"{value[0]:.5f}/{value[1]}" if isinstance(value, tuple) else f"{value:.5f}"

    return " | ".join(map(cell, stats.values()))


def _basic(source: Durations) -> OrderedDict[str, Any]:
    found = source.moments
    if not found.count:
        return OrderedDict(total="not yet triggered")
    return OrderedDict(
        [
            ("total", source.total_ns / 1e9),
            ("min/index", (found.min / 1e9, _index_of(source, source.min_at))),
            ("max/index", (found.max / 1e9, _index_of(source, source.max_at))),
            ("mean", found.mean / 1e9),
            ("std", found.std / 1e9),
        ]
    )


class HandlersTimeProfiler(EngineProfiler):
    """Time each handler of each event, including custom events, data loading and processing.

    Replaces ``ignite.handlers.HandlersTimeProfiler``; `stats` provides more. Calls suppressed by an
    event's filter (``every=``, ``once=``, ...) do not count. ``cuda`` is as in `BasicTimeProfiler`.
    """

    _kind = "handlers"
    EVENT_FILTER_THESHOLD_TIME: ClassVar[float] = 0.0001
    """Seconds. Kept for compatibility with Ignite and without effect: filters are evaluated
    directly."""

    def _sources(self, times: RunTimes) -> list[Durations]:
        return times.phases() + times.handlers()

    def get_results(self) -> list[list[Any]]:
        """Return aggregated times of the latest run, in seconds.

        Returns:
            A row for each handler: name, event, total, (minimum, index), (maximum, index), mean,
            standard deviation; then three rows for all handlers, processing and dataflow. The index
            is the 0-based position of the iteration, or of the epoch for events of an epoch.
        """
        times = self._times()
        handlers, (processing, dataflow, *device) = times.handlers(), times.phases()
        total = round(sum(one.own_ns for one in handlers) / 1e9, 5)
        return [
            *([one.name, one.event, *_cells(one)] for one in handlers),
            *(["Processing on the GPU", "CUDA events", *_cells(one)] for one in device),
            ["Total", "", total, "", "", "", ""],
            ["Processing", "None", *_cells(processing)],
            ["Dataflow", "None", *_cells(dataflow)],
        ]

    @staticmethod
    def print_results(results: Sequence[Sequence[Any]]) -> None:
        """Print results, of at most the 15 slowest handlers; may be called repeatedly.

        It is as wide as the terminal, or 100 columns without one; `table` shows everything.
        """
        *handlers, total, processing, dataflow = results
        largest = sorted(handlers, key=lambda row: -_spent_of(row[2]))[:_PRINTED_ROWS]
        columns = columns_of(sys.stdout)
        rows = _fitted([_HEADS, *largest, total, processing, dataflow], columns)
        rule = "-" * max(map(len, rows))
        lines = ["", rule, rows[0], rule, *rows[1:-3], rule, *rows[-3:], rule]
        if more := len(handlers) - len(largest):
            lines.append(f"and {more} more: in table(), write_results() and the summary of the run")
        show("\n".join(lines))

    def _columns(self, times: RunTimes) -> dict[str, Any]:
        found: dict[str, Any] = {
            "processing_stats": _seconds_of(times.processing),
            "dataflow_stats": _seconds_of(times.dataflow),
            **{f"{one.name} ({one.event})": _seconds_of(one) for one in times.handlers()},
        }
        return {"#": range(1, 1 + max(map(len, found.values())))} | found

    # ------------------------------------------------------------ attributes of Ignite's profiler

    @property
    def processing_times(self) -> list[float]:
        """Seconds of each step of the latest run."""
        return _seconds_of(self._times().processing)

    @property
    def dataflow_times(self) -> list[float]:
        """Seconds of each batch of the latest run."""
        return _seconds_of(self._times().dataflow)

    @property
    def event_handlers_times(self) -> dict[Any, dict[str, list[float]]]:
        """Seconds of each call, by event and by name of the handler."""
        return {
            one.key: {source.name: _seconds_of(source) for source in list(one.handlers.values())}
            for one in self._reported()
        }


def _fitted(rows: Sequence[Sequence[Any]], width: int) -> list[str]:
    shown = range(len(_HEADS)) if width >= MOST_COLUMNS else _SHORT
    texts = [
        ["{}/{}".format(*row[at]) if isinstance(row[at], tuple) else str(row[at]) for at in shown]
        for row in rows
    ]
    room = (
        width - sum(2 + max(map(len, column)) for column in list(zip(*texts, strict=True))[2:]) - 2
    )
    event_room = min(max(len(text[1]) for text in texts), room // 2)
    for text in texts:
        text[0] = without_middle(text[0], room - event_room)
        text[1] = without_middle(text[1], event_room)
    return aligned(texts)


def _cells(source: Durations) -> list[Any]:
    found = source.moments
    if not found.count:
        return ["not triggered", ("None", "None"), ("None", "None"), "None", "None"]
    return [
        round(source.total_ns / 1e9, 5),
        (round(found.min / 1e9, 5), _index_of(source, source.min_at)),
        (round(found.max / 1e9, 5), _index_of(source, source.max_at)),
        round(found.mean / 1e9, 5),
        round(found.std / 1e9, 5) if found.count > 1 else "None",
    ]


def _index_of(source: Durations, at: int) -> int:
    """Return the 0-based position of a duration: its iteration or its epoch."""
    event = source.event or source.name
    epoch, iteration = position_parts(at)
    if event in _ONCE_A_RUN:
        return 0
    return max(0, (epoch if event in _ONCE_AN_EPOCH else iteration) - 1)


def _spent_of(total: Any) -> float:
    return -1.0 if isinstance(total, str) else float(total)


def _seconds_of(source: Durations) -> list[float]:
    return [ns / 1e9 for ns in source.rows()[2].tolist()]
