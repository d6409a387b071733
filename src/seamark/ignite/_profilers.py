"""Time profilers for Ignite: what they report is Ignite's, how they measure is not.

Changing the import is all it takes::

    from seamark.ignite import BasicTimeProfiler, HandlersTimeProfiler

They replace no handler, need no length of the data, measure handlers that are added while the
engine runs, and keep the times of each run of each engine. The engine behaves as it does without
them.
"""

from __future__ import annotations

import os
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any, ClassVar, Final, Literal

import torch
from ignite.engine import Engine, Events

from seamark.errors import ArgumentError, MissingExtraError
from seamark.ignite._clock import ALL_HANDLERS, RunTimes, clock_of
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

__all__ = ["BasicTimeProfiler", "HandlersTimeProfiler"]

_NEVER: Final = 1 << 62
_KEPT_RUNS: Final = 32
_ROWS_OF_OLD_RUNS: Final = 4096
_SUMMARY_EVERY_NS: Final = 10_000_000_000
_ONCE_A_RUN: Final = frozenset({"STARTED", "COMPLETED"})
_ONCE_AN_EPOCH: Final = frozenset({"EPOCH_STARTED", "EPOCH_COMPLETED"})


class _NoPandasError(MissingExtraError, RuntimeError):
    """Pandas is missing: a RuntimeError in some releases of Ignite, a ModuleNotFoundError in others."""


class _Total(float):
    """A number that answers as Ignite's tensor with one element does."""

    __slots__ = ()

    def item(self) -> float:
        """Return the number."""
        return float(self)


def _index(source: Source, at: int) -> int:
    """Return the 0-based position of a duration: of the iteration, or of the epoch."""
    event = source.event or source.name
    epoch, iteration = position_parts(at)
    if event in _ONCE_A_RUN:
        return 0
    return max(0, (epoch if event in _ONCE_AN_EPOCH else iteration) - 1)


class _Attached:
    """One engine that a profiler is attached to, and the times of its runs."""

    def __init__(self, profiler: _TimeProfiler, engine: Engine) -> None:
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


class _TimeProfiler:
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
            layout: ``"wide"`` has Ignite's columns; ``"long"`` has a row for each duration, with its
                epoch and iteration, and needs no pandas.

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
    return run if experiment is None else experiment


def _seconds(source: Source) -> list[float]:
    return [ns / 1e9 for ns in source.durations()[1].tolist()]


class BasicTimeProfiler(_TimeProfiler):
    """Times the handlers of each event together, data loading and data processing.

    Takes the place of ``ignite.handlers.BasicTimeProfiler``, and says more with `stats`.

    Args:
        cuda: ``"events"`` also times each step on the GPU, between two CUDA events, without
            waiting for it while the engine runs.

    Raises:
        ArgumentError: If ``cuda`` is something else.

    Example:
        ::

            profiler = BasicTimeProfiler()
            profiler.attach(trainer, run=run)
            trainer.run(loader, max_epochs=3)
            profiler.print_results(profiler.get_results())
            profiler.write_results("times.csv")

    .. versionadded:: 0.1.0
    """

    wants_handlers: ClassVar[bool] = False
    _kind: ClassVar[str] = "events"
    events_to_ignore: ClassVar[list[Any]] = [
        event
        for event in Events
        if event.name
        in {
            "EXCEPTION_RAISED",
            "TERMINATE",
            "TERMINATE_SINGLE_EPOCH",
            "DATALOADER_STOP_ITERATION",
            "INTERRUPT",
        }
    ]

    def sources(self, times: RunTimes) -> list[Source]:
        """Return processing, dataflow, and each event that happened or has handlers."""
        events = list(times.events.values())
        shown = [
            one.source()
            for one in events
            if one.event not in self.events_to_ignore
            or one.names
            or one.source().samples.running(one.source().column).count
        ]
        return times.phases() + shown

    def _known(self, times: RunTimes | None) -> list[tuple[str, Source | None, list[str]]]:
        """Return (name, times, names of handlers) of each event that Ignite reports, and custom ones."""
        if times is None:
            return [(e.name, None, []) for e in Events if e not in self.events_to_ignore]
        shown = [one for one in times.events.values() if one.event not in self.events_to_ignore]
        return [(one.name.replace(".", "_"), one.source(), one.names) for one in shown]

    def get_results(self) -> dict[str, dict[str, Any]]:
        """Return aggregated times of the latest run of the first engine, in seconds.

        The index beside a minimum or maximum is the 0-based position of its iteration, for events
        of an epoch that of the epoch.

        Returns:
            ``processing_stats``, ``dataflow_stats``, ``event_handlers_stats`` (by event, and
            ``total_time``) and ``event_handlers_names``; with ``cuda="events"`` also
            ``cuda_processing_stats``.
        """
        times = self._times()
        phases = [] if times is None else times.phases()
        known = self._known(times)
        handlers: dict[str, Any] = {name: _basic(source) for name, source, _ in known}
        handlers["total_time"] = _Total(
            sum(source.own_ns for _, source, _ in known if source is not None) / 1e9
        )
        found: dict[str, dict[str, Any]] = OrderedDict(
            processing_stats=_basic(phases[0] if phases else None),
            dataflow_stats=_basic(phases[1] if phases else None),
            event_handlers_stats=handlers,
            event_handlers_names={f"{name}_names": list(names) for name, _, names in known},
        )
        for source in phases[2:]:
            found["cuda_processing_stats"] = _basic(source)
        return found

    @staticmethod
    def print_results(results: Mapping[str, Any]) -> str:
        """Print results, and return what was printed.

        Args:
            results: What `get_results` returned.
        """
        stats, names = results["event_handlers_stats"], results["event_handlers_names"]
        first = [
            "STARTED", "EPOCH_STARTED", "GET_BATCH_STARTED", "GET_BATCH_COMPLETED",
            "ITERATION_STARTED", "ITERATION_COMPLETED", "EPOCH_COMPLETED", "COMPLETED",
        ]  # fmt: skip
        events = [name for name in first if name in stats]
        events += [name for name in stats if name not in first and name != "total_time"]
        sections = [
            ("Processing function:", _basic_line(results["processing_stats"])),
            ("Dataflow:", _basic_line(results["dataflow_stats"])),
        ]
        if "cuda_processing_stats" in results:
            line = _basic_line(results["cuda_processing_stats"])
            sections.insert(1, ("Processing function on the GPU (CUDA events):", line))
        sections.append(("Event handlers:", f"{stats['total_time']:.5f}"))
        for name in events:
            head = f"- Events.{name}: {names.get(f'{name}_names', [])}"
            sections.append((head, _basic_line(stats[name])))
        rule = " ----------------------------------------------------"
        lines = [
            "",
            rule,
            "| Time profiling stats (in seconds):                 |",
            rule,
            "total  |  min/index  |  max/index  |  mean  |  std",
            "",
            *(f"{head}\n{line}\n" for head, line in sections),
        ]
        text = "\n".join(lines)
        print(text)  # noqa: T201 - what it is for
        return text

    def _columns(self, times: RunTimes | None) -> Mapping[str, Any]:
        names = [
            "epoch", "iteration", "processing_stats", "dataflow_stats", "Event_STARTED",
            "Event_COMPLETED", "Event_EPOCH_STARTED", "Event_EPOCH_COMPLETED",
            "Event_ITERATION_STARTED", "Event_ITERATION_COMPLETED", "Event_GET_BATCH_STARTED",
            "Event_GET_BATCH_COMPLETED",
        ]  # fmt: skip
        rows = [] if times is None else _wide_rows(times)
        return {name: [row[at] for row in rows] for at, name in enumerate(names)}

    # ------------------------------------------------------------ attributes that Ignite's has

    @property
    def processing_times(self) -> torch.Tensor:
        """Seconds of each step of the latest run, shape ``(N,)``."""
        return self._tensor(0)

    @property
    def dataflow_times(self) -> torch.Tensor:
        """Seconds of each batch of the latest run, shape ``(N,)``."""
        return self._tensor(1)

    def _tensor(self, phase: int) -> torch.Tensor:
        times = self._times()
        return torch.zeros(1) if times is None else torch.tensor(_seconds(times.phases()[phase]))

    @property
    def event_handlers_times(self) -> dict[Any, torch.Tensor]:
        """Seconds of all handlers together each time an event happened, by event."""
        times = self._times()
        events = [] if times is None else list(times.events.values())
        return {
            one.event: torch.tensor(_seconds(one.source()))
            for one in events
            if one.event not in self.events_to_ignore
        }

    @property
    def event_handlers_names(self) -> dict[Any, list[str]]:
        """Names of the handlers of each event."""
        times = self._times()
        events = [] if times is None else list(times.events.values())
        return {one.event: list(one.names) for one in events if one.event not in self.events_to_ignore}

    @property
    def max_epochs(self) -> int | None:
        """How many epochs the engine was to run."""
        times = self._times()
        return None if times is None else times.max_epochs

    @property
    def total_num_iters(self) -> int:
        """How many iterations the latest run had."""
        times = self._times()
        return 0 if times is None else times.rows.running(1).count


def _basic(source: Source | None) -> OrderedDict[str, Any]:
    found = None if source is None else source.samples.running(source.column)
    if source is None or found is None or not found.count:
        return OrderedDict(total="not yet triggered")
    return OrderedDict(
        [
            ("total", found.total / 1e9),
            ("min/index", (found.min / 1e9, _index(source, found.min_at))),
            ("max/index", (found.max / 1e9, _index(source, found.max_at))),
            ("mean", found.mean / 1e9),
            ("std", found.deviation / 1e9),
        ]
    )


def _basic_line(stats: Mapping[str, Any]) -> str:
    def cell(value: Any) -> str:
        if isinstance(value, str):
            return value
        return f"{value[0]:.5f}/{value[1]}" if isinstance(value, tuple) else f"{value:.5f}"

    return " | ".join(map(cell, stats.values()))


def _wide_rows(times: RunTimes) -> list[list[Any]]:
    """Return one row for each iteration that ran; None where there is no time."""
    by_name = {one.name: one.source() for one in list(times.events.values())}
    rows = times.rows.rows().T.tolist()
    whole = {name: next(iter(_seconds(by_name[name])), None) for name in ("STARTED", "COMPLETED")}
    by_epoch: dict[str, dict[int, float]] = {}
    for name in ("EPOCH_STARTED", "EPOCH_COMPLETED"):
        positions, durations = by_name[name].durations()
        pairs = zip(positions.tolist(), durations.tolist(), strict=True)
        by_epoch[name] = {position_parts(at)[0]: ns / 1e9 for at, ns in pairs}
    found: list[list[Any]] = []
    last = None
    for at, dataflow, processing, fetch, fetched, step, stepped in rows:
        if at == last or max(processing, step) < 0:  # fired by hand, or nothing came
            continue
        last = at
        epoch, iteration = position_parts(at)
        timed = [ns / 1e9 if ns >= 0 else None for ns in (processing, dataflow)]
        events = [ns / 1e9 if ns >= 0 else None for ns in (step, stepped, fetch, fetched)]
        whole_run = [whole["STARTED"], whole["COMPLETED"]]
        whole_epoch = [by_epoch[name].get(epoch) for name in ("EPOCH_STARTED", "EPOCH_COMPLETED")]
        found.append([epoch, iteration, *timed, *whole_run, *whole_epoch, *events])
    return found


class HandlersTimeProfiler(_TimeProfiler):
    """Times each handler of each event, custom ones too, data loading and data processing.

    Takes the place of ``ignite.handlers.HandlersTimeProfiler``, and says more with `stats`. A call
    that an event's filter (``every=``, ``once=``, ...) stops is no call.

    Args:
        cuda: As in `BasicTimeProfiler`.

    Raises:
        ArgumentError: If ``cuda`` is something else.

    .. versionadded:: 0.1.0
    """

    wants_handlers: ClassVar[bool] = True
    _kind: ClassVar[str] = "handlers"
    EVENT_FILTER_THESHOLD_TIME: ClassVar[float] = 0.0001
    """Seconds; kept because Ignite has it, and without effect: filters are looked at themselves."""

    def sources(self, times: RunTimes) -> list[Source]:
        """Return processing, dataflow and each handler."""
        return times.phases() + self._handlers(times)

    def _handlers(self, times: RunTimes) -> list[Source]:
        if times.by_handler:
            return times.handler_sources()
        # On an engine with a ``_fire_event`` of its own, handlers cannot be told apart.
        return [
            Source("handler", ALL_HANDLERS, one.samples, one.column, one.name, "wall", one.nested_ns)
            for one in [event.source() for event in list(times.events.values()) if event.names]
        ]

    def get_results(self) -> list[list[Any]]:
        """Return aggregated times of the latest run of the first engine, in seconds.

        Returns:
            A row for each handler: name, event, total, (minimum, index), (maximum, index), mean,
            standard deviation; then three rows for all handlers, processing and dataflow. The index
            is the 0-based position of the iteration, for events of an epoch that of the epoch.
        """
        times = self._times()
        handlers = [] if times is None else self._handlers(times)
        phases = [] if times is None else times.phases()
        rows = [[one.name, one.event, *_cells(one)] for one in handlers]
        rows += [["Processing on the GPU", "CUDA events", *_cells(one)] for one in phases[2:]]
        total = round(sum(one.own_ns for one in handlers) / 1e9, 5)
        rows.append(["Total", "", total, "", "", "", ""])
        for at, name in enumerate(("Processing", "Dataflow")):
            rows.append([name, "None", *_cells(phases[at] if phases else None)])
        return rows

    @staticmethod
    def print_results(results: Sequence[Sequence[Any]]) -> None:
        """Print results, as often as wanted.

        Args:
            results: What `get_results` returned; not changed.
        """
        heads = ["Handler", "Event Name", "Total(s)", "Min(s)/IDX", "Max(s)/IDX", "Mean(s)", "Std(s)"]
        *handlers, total, processing, dataflow = results
        widths = [max(len(str(row[at])) for row in [*results, heads]) + 4 for at in (0, 1)]
        rule = "  ".join("-" * width for width in [*widths, *[14] * 5]) + "  "

        def line(row: Sequence[Any]) -> str:
            cells = ["{}/{}".format(*cell) if isinstance(cell, tuple) else str(cell) for cell in row]
            names = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
            return "  ".join([*names, *(cell.rjust(14) for cell in cells[2:])]) + "  "

        lines = ["", rule, line(heads), rule, *map(line, handlers), rule, line(total), rule]
        for name, _, spent, least, most, mean, deviation in (processing, dataflow):
            if isinstance(spent, str):
                lines.append(f"{name} was {spent}")
                continue
            lines.append(
                f"{name} took total {spent}s [min/index: {least[0]}s/{least[1]}, "
                f"max/index: {most[0]}s/{most[1]}, mean: {mean}s, std: {deviation if isinstance(deviation, str) else f'{deviation}s'}]"
            )
        print("\n".join(lines))  # noqa: T201 - what it is for

    def _columns(self, times: RunTimes | None) -> Mapping[str, Any]:
        found: dict[str, list[float]] = {"processing_stats": [], "dataflow_stats": []}
        if times is not None:
            processing, dataflow = times.phases()[:2]
            found = {
                "processing_stats": _seconds(processing),
                "dataflow_stats": _seconds(dataflow),
                **{f"{one.name} ({one.event})": _seconds(one) for one in self._handlers(times)},
            }
        size = max(map(len, found.values()))
        numbers: Iterable[Any] = list(range(1, size + 1))
        return {"#": numbers} | {
            name: values + [None] * (size - len(values)) for name, values in found.items()
        }

    # ------------------------------------------------------------ attributes that Ignite's has

    @property
    def processing_times(self) -> list[float]:
        """Seconds of each step of the latest run."""
        times = self._times()
        return [] if times is None else _seconds(times.phases()[0])

    @property
    def dataflow_times(self) -> list[float]:
        """Seconds of each batch of the latest run."""
        times = self._times()
        return [] if times is None else _seconds(times.phases()[1])

    @property
    def event_handlers_times(self) -> dict[Any, dict[str, list[float]]]:
        """Seconds of each call, by event and by name of the handler."""
        times = self._times()
        events = [] if times is None else list(times.events.values())
        return {
            one.event: {
                handler.name: _seconds(Source("handler", handler.name, handler.samples))
                for handler in list(one.handlers)
            }
            for one in events
        }

    @property
    def event_handlers_names(self) -> dict[Any, list[str]]:
        """Names of the handlers of each event."""
        times = self._times()
        return {} if times is None else {one.event: list(one.names) for one in times.events.values()}


def _cells(source: Source | None) -> list[Any]:
    found = None if source is None else source.samples.running(source.column)
    if source is None or found is None or not found.count:
        return ["not triggered", ("None", "None"), ("None", "None"), "None", "None"]
    return [
        round(found.total / 1e9, 5),
        (round(found.min / 1e9, 5), _index(source, found.min_at)),
        (round(found.max / 1e9, 5), _index(source, found.max_at)),
        round(found.mean / 1e9, 5),
        round(found.deviation / 1e9, 5) if found.count > 1 else "None",
    ]
