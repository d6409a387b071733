"""Time profilers for Ignite: what they report is Ignite's, how they measure is not.

Changing the import is all it takes::

    from seamark.ignite import BasicTimeProfiler, HandlersTimeProfiler

They replace no handler, need no length of the data, measure handlers that are added while the
engine runs, and keep the times of each run of each engine. The engine behaves as it does without
them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from ignite.engine import Events

from seamark.ignite._profiling import EngineProfiler, index_of, seconds_of
from seamark.ignite._times import ALL_HANDLERS, RunTimes
from seamark.printing import show
from seamark.timing import Source, position_parts

__all__ = ["BasicTimeProfiler", "HandlersTimeProfiler"]


class _Total(float):
    """A number that answers as Ignite's tensor with one element does."""

    __slots__ = ()

    def item(self) -> float:
        """Return the number."""
        return float(self)


class BasicTimeProfiler(EngineProfiler):
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
        """Return name, times and names of handlers of each event that Ignite reports, or custom."""
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
        show(text)
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
        return torch.zeros(1) if times is None else torch.tensor(seconds_of(times.phases()[phase]))

    @property
    def event_handlers_times(self) -> dict[Any, torch.Tensor]:
        """Seconds of all handlers together each time an event happened, by event."""
        times = self._times()
        events = [] if times is None else list(times.events.values())
        return {
            one.event: torch.tensor(seconds_of(one.source()))
            for one in events
            if one.event not in self.events_to_ignore
        }

    @property
    def event_handlers_names(self) -> dict[Any, list[str]]:
        """Names of the handlers of each event."""
        times = self._times()
        events = [] if times is None else list(times.events.values())
        return {
            one.event: list(one.names) for one in events if one.event not in self.events_to_ignore
        }

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
            ("min/index", (found.min / 1e9, index_of(source, found.min_at))),
            ("max/index", (found.max / 1e9, index_of(source, found.max_at))),
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
    whole = {name: next(iter(seconds_of(by_name[name])), None) for name in ("STARTED", "COMPLETED")}
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


class HandlersTimeProfiler(EngineProfiler):
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
            Source(
                "handler", ALL_HANDLERS, one.samples, one.column, one.name, "wall", one.nested_ns
            )
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
        heads = [
            "Handler",
            "Event Name",
            "Total(s)",
            "Min(s)/IDX",
            "Max(s)/IDX",
            "Mean(s)",
            "Std(s)",
        ]
        *handlers, total, processing, dataflow = results
        widths = [max(len(str(row[at])) for row in [*results, heads]) + 4 for at in (0, 1)]
        rule = "  ".join("-" * width for width in [*widths, *[14] * 5]) + "  "

        def line(row: Sequence[Any]) -> str:
            cells = [
                "{}/{}".format(*cell) if isinstance(cell, tuple) else str(cell) for cell in row
            ]
            names = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
            return "  ".join([*names, *(cell.rjust(14) for cell in cells[2:])]) + "  "

        lines = ["", rule, line(heads), rule, *map(line, handlers), rule, line(total), rule]
        for name, _, spent, least, most, mean, deviation in (processing, dataflow):
            if isinstance(spent, str):
                lines.append(f"{name} was {spent}")
                continue
            unit = "" if isinstance(deviation, str) else "s"
            lines.append(
                f"{name} took total {spent}s [min/index: {least[0]}s/{least[1]}, "
                f"max/index: {most[0]}s/{most[1]}, mean: {mean}s, std: {deviation}{unit}]"
            )
        show("\n".join(lines))

    def _columns(self, times: RunTimes | None) -> Mapping[str, Any]:
        found: dict[str, list[float]] = {"processing_stats": [], "dataflow_stats": []}
        if times is not None:
            processing, dataflow = times.phases()[:2]
            found = {
                "processing_stats": seconds_of(processing),
                "dataflow_stats": seconds_of(dataflow),
                **{f"{one.name} ({one.event})": seconds_of(one) for one in self._handlers(times)},
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
        return [] if times is None else seconds_of(times.phases()[0])

    @property
    def dataflow_times(self) -> list[float]:
        """Seconds of each batch of the latest run."""
        times = self._times()
        return [] if times is None else seconds_of(times.phases()[1])

    @property
    def event_handlers_times(self) -> dict[Any, dict[str, list[float]]]:
        """Seconds of each call, by event and by name of the handler."""
        times = self._times()
        events = [] if times is None else list(times.events.values())
        return {
            one.event: {
                handler.name: seconds_of(Source("handler", handler.name, handler.samples))
                for handler in list(one.handlers)
            }
            for one in events
        }

    @property
    def event_handlers_names(self) -> dict[Any, list[str]]:
        """Names of the handlers of each event."""
        times = self._times()
        return (
            {} if times is None else {one.event: list(one.names) for one in times.events.values()}
        )


def _cells(source: Source | None) -> list[Any]:
    found = None if source is None else source.samples.running(source.column)
    if source is None or found is None or not found.count:
        return ["not triggered", ("None", "None"), ("None", "None"), "None", "None"]
    return [
        round(found.total / 1e9, 5),
        (round(found.min / 1e9, 5), index_of(source, found.min_at)),
        (round(found.max / 1e9, 5), index_of(source, found.max_at)),
        round(found.mean / 1e9, 5),
        round(found.deviation / 1e9, 5) if found.count > 1 else "None",
    ]
