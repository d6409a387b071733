"""The profiler that times the handlers of each event together; what it reports is Ignite's."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import torch
from ignite.engine import Events

from seamark.ignite._profiling import TOP, EngineProfiler, index_of, more_of, seconds_of, spent_of
from seamark.ignite._times import IGNORED
from seamark.pictures.printing import columns_of, show, without_middle
from seamark.profiling import position_parts

if TYPE_CHECKING:
    from seamark.ignite._times import EventTimes, RunTimes
    from seamark.profiling import Durations

__all__ = ["BasicTimeProfiler"]


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
        largest = sorted(events, key=lambda name: -spent_of(stats[name]["total"]))[:TOP]
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
        lines += [f"{more_of(len(events))}\n"] if len(events) > TOP else []
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
            by_index = {index_of(source, at): ns / 1e9 for _, at, ns in source.rows().T.tolist()}
            found[name] = [by_index.get(index_of(source, at), 0.0) for at in ran]
        return found

    # ------------------------------------------------------------ attributes that Ignite's has

    @property
    def processing_times(self) -> torch.Tensor:
        """Seconds of each step of the latest run, shape ``(N,)``."""
        return torch.tensor(seconds_of(self._times().processing) or [0.0])

    @property
    def dataflow_times(self) -> torch.Tensor:
        """Seconds of each batch of the latest run, shape ``(N,)``."""
        return torch.tensor(seconds_of(self._times().dataflow) or [0.0])

    @property
    def event_handlers_times(self) -> dict[Any, torch.Tensor]:
        """Seconds of all handlers together each time an event happened, by event."""
        return {one.key: torch.tensor(seconds_of(one)) for one in self._reported()}

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
            ("min/index", (found.min / 1e9, index_of(source, source.min_at))),
            ("max/index", (found.max / 1e9, index_of(source, source.max_at))),
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
