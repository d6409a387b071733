"""Both time profilers: what they report, print and write is Ignite's."""

from __future__ import annotations

import sys
import textwrap
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import torch
from ignite.engine import Events

from seamark.ignite._profiling import EngineProfiler
from seamark.ignite._times import IGNORED
from seamark.pictures.printing import MOST_COLUMNS, columns_of, show, without_middle
from seamark.profiling import aligned, position_parts

if TYPE_CHECKING:
    from seamark.ignite._times import EventTimes, RunTimes
    from seamark.profiling import Durations

__all__ = ["BasicTimeProfiler", "HandlersTimeProfiler"]

_TOP: Final = 15
"""So many rows are printed, those with most time; what is recorded and returned has all."""

_ONCE_A_RUN: Final = frozenset({"STARTED", "COMPLETED"})
_ONCE_AN_EPOCH: Final = frozenset({"EPOCH_STARTED", "EPOCH_COMPLETED"})
_RULE: Final = " ----------------------------------------------------"
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
    """

    _by_handler: ClassVar[bool] = False
    events_to_ignore: ClassVar[list[Any]] = [event for event in Events if event.name in IGNORED]

    def _reported(self) -> list[EventTimes]:
        """Return the times of each event that Ignite reports, and of custom ones."""
        events = self._times().events.values()
        return [one for one in events if one.key not in self.events_to_ignore]

    def get_results(self) -> dict[str, dict[str, Any]]:
        """Return aggregated times of the latest run of the first engine, in seconds.

        The index beside a minimum or maximum is the 0-based position of its iteration, for events
        of an epoch that of the epoch.

        Returns:
            ``processing_stats``, ``dataflow_stats``, ``event_handlers_stats`` (by event, and
            ``total_time``) and ``event_handlers_names``; with ``cuda="events"`` also
            ``cuda_processing_stats``.
        """
        processing, dataflow, *device = self._times().phases()
        events = {one.name.replace(".", "_"): one for one in self._reported()}
        stats: dict[str, Any] = {name: _basic(one) for name, one in events.items()}
        stats["total_time"] = _Total(sum(one.own_ns for one in events.values()) / 1e9)
        return OrderedDict(
            processing_stats=_basic(processing),
            dataflow_stats=_basic(dataflow),
            event_handlers_stats=stats,
            event_handlers_names={f"{name}_names": one.names for name, one in events.items()},
            **({"cuda_processing_stats": _basic(device[0])} if device else {}),
        )

    @staticmethod
    def print_results(results: Mapping[str, Any]) -> str:
        """Print results, and return what was printed: of more events the 15 with most time.

        It is as wide as the terminal, and 100 columns where there is none; `table` has everything.

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
        largest = sorted(events, key=lambda name: -_spent_of(stats[name]["total"]))[:_TOP]
        columns = columns_of(sys.stdout)
        lines = [
            *("", _RULE, "| Time profiling stats (in seconds):                 |", _RULE),
            "total  |  min/index  |  max/index  |  mean  |  std",
            *("", "Processing function:", _basic_line(results["processing_stats"])),
        ]
        if device := results.get("cuda_processing_stats"):
            lines += ["", "Processing function on the GPU (CUDA events):", _basic_line(device)]
        lines += [
            *("", "Dataflow:", _basic_line(results["dataflow_stats"])),
            *("", "Event handlers:", f"{stats['total_time']:.5f}", ""),
        ]
        for name in events:
            if name in largest:
                head = f"- Events.{name}: {list(names.get(f'{name}_names', []))}"
                lines += [without_middle(head, columns), _basic_line(stats[name]), ""]
        lines += [f"{_more_of(len(events))}\n"] if len(events) > _TOP else []
        text = "\n".join(lines)
        show(text)
        return text

    def _columns(self, times: RunTimes) -> dict[str, Any]:
        """Return columns with one number for each iteration that ran; 0 where there is no time."""
        events = {one.name: one for one in times.events.values()}
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

    # ------------------------------------------------------------ attributes that Ignite's has

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
        """Seconds of all handlers together each time an event happened, by event."""
        return {one.key: torch.tensor(_seconds_of(one)) for one in self._reported()}

    @property
    def event_handlers_names(self) -> dict[Any, list[str]]:
        """Names of the handlers of each event."""
        return {one.key: one.names for one in self._reported()}

    @property
    def max_epochs(self) -> int | None:
        """The number of epochs that the engine was to run."""
        return self._times().max_epochs

    @property
    def total_num_iters(self) -> int:
        """The number of iterations of the latest run."""
        return self._times().processing.moments.count


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


def _basic_line(stats: Mapping[str, Any]) -> str:
    def cell(value: Any) -> str:
        if isinstance(value, str):
            return value
        return f"{value[0]:.5f}/{value[1]}" if isinstance(value, tuple) else f"{value:.5f}"

    return " | ".join(map(cell, stats.values()))


class HandlersTimeProfiler(EngineProfiler):
    """Times each handler of each event, custom ones too, data loading and data processing.

    Takes the place of ``ignite.handlers.HandlersTimeProfiler``, and says more with `stats`. A call
    that an event's filter (``every=``, ``once=``, ...) stops is no call.

    Args:
        cuda: As in `BasicTimeProfiler`.

    Raises:
        ArgumentError: If ``cuda`` is something else.
    """

    _by_handler: ClassVar[bool] = True
    EVENT_FILTER_THESHOLD_TIME: ClassVar[float] = 0.0001
    """Seconds; kept because Ignite has it, and without effect: filters are looked at themselves."""

    def get_results(self) -> list[list[Any]]:
        """Return aggregated times of the latest run of the first engine, in seconds.

        Returns:
            A row for each handler: name, event, total, (minimum, index), (maximum, index), mean,
            standard deviation; then three rows for all handlers, processing and dataflow. The index
            is the 0-based position of the iteration, for events of an epoch that of the epoch.
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
        """Print results, as often as wanted: of more handlers the 15 with most time.

        It is as wide as the terminal, and 100 columns where there is none; `table` has everything.

        Args:
            results: What `get_results` returned; not changed.
        """
        *handlers, total, processing, dataflow = results
        largest = sorted(handlers, key=lambda row: -_spent_of(row[2]))[:_TOP]
        columns = columns_of(sys.stdout)
        rows = _fitted([_HEADS, *largest, total], columns)
        rule = "-" * max(map(len, rows))
        lines = ["", rule, rows[0], rule, *rows[1:-1], rule, rows[-1], rule]
        if len(handlers) > _TOP:
            lines.append(_more_of(len(handlers)))
        for name, _, spent, least, most, mean, deviation in (processing, dataflow):
            if isinstance(spent, str):
                lines.append(f"{name} was {spent}")
                continue
            unit = "" if isinstance(deviation, str) else "s"
            line = (
                f"{name} took total {spent}s [min/index: {least[0]}s/{least[1]}, "
                f"max/index: {most[0]}s/{most[1]}, mean: {mean}s, std: {deviation}{unit}]"
            )
            lines += textwrap.wrap(line, columns)
        show("\n".join(lines))

    def _columns(self, times: RunTimes) -> dict[str, Any]:
        found: dict[str, Any] = {
            "processing_stats": _seconds_of(times.processing),
            "dataflow_stats": _seconds_of(times.dataflow),
            **{f"{one.name} ({one.event})": _seconds_of(one) for one in times.handlers()},
        }
        return {"#": range(1, 1 + max(map(len, found.values())))} | found

    # ------------------------------------------------------------ attributes that Ignite's has

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
            one.key: {source.name: _seconds_of(source) for source in one.handlers.values()}
            for one in self._times().events.values()
        }

    @property
    def event_handlers_names(self) -> dict[Any, list[str]]:
        """Names of the handlers of each event."""
        return {one.key: one.names for one in self._times().events.values()}


def _fitted(rows: Sequence[Sequence[Any]], width: int) -> list[str]:
    """Return lines of a width at most: names are cut, and a narrow terminal shows less numbers."""
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


def _more_of(count: int) -> str:
    """Return the line that says where the rows are that were not printed."""
    return f"and {count - _TOP} more: in table(), write_results() and the summary of the run"


def _index_of(source: Durations, at: int) -> int:
    """Return the 0-based position of a duration: of the iteration, or of the epoch."""
    event = source.event or source.name
    epoch, iteration = position_parts(at)
    if event in _ONCE_A_RUN:
        return 0
    return max(0, (epoch if event in _ONCE_AN_EPOCH else iteration) - 1)


def _spent_of(total: Any) -> float:
    """Return a total of the results, to sort by; where there is none, it is a text."""
    return -1.0 if isinstance(total, str) else float(total)


def _seconds_of(source: Durations) -> list[float]:
    """Return the kept durations in seconds."""
    return [ns / 1e9 for ns in source.rows()[2].tolist()]
