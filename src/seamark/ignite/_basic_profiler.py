"""The profiler that times the handlers of each event together; what it reports is Ignite's."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from ignite.engine import Events

from seamark.ignite._profiling import EngineProfiler, index_of, seconds_of
from seamark.printing import show
from seamark.timing import Source, position_parts

if TYPE_CHECKING:
    from seamark.ignite._times import RunTimes

__all__ = ["BasicTimeProfiler"]


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
