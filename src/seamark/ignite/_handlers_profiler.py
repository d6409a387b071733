"""The profiler that times each handler; what it reports is Ignite's."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from seamark.ignite._profiling import TOP, EngineProfiler, index_of, more_of, seconds_of, spent_of
from seamark.pictures.printing import MOST_COLUMNS, columns_of, show, without_middle
from seamark.profiling import aligned

if TYPE_CHECKING:
    from seamark.ignite._times import RunTimes
    from seamark.profiling import Durations

__all__ = ["HandlersTimeProfiler"]


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
        largest = sorted(handlers, key=lambda row: -spent_of(row[2]))[:TOP]
        columns = columns_of(sys.stdout)
        rows = _fitted([_HEADS, *largest, total], columns)
        rule = "-" * max(map(len, rows))
        lines = ["", rule, rows[0], rule, *rows[1:-1], rule, rows[-1], rule]
        if len(handlers) > TOP:
            lines.append(more_of(len(handlers)))
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
            "processing_stats": seconds_of(times.processing),
            "dataflow_stats": seconds_of(times.dataflow),
            **{f"{one.name} ({one.event})": seconds_of(one) for one in times.handlers()},
        }
        return {"#": range(1, 1 + max(map(len, found.values())))} | found

    # ------------------------------------------------------------ attributes that Ignite's has

    @property
    def processing_times(self) -> list[float]:
        """Seconds of each step of the latest run."""
        return seconds_of(self._times().processing)

    @property
    def dataflow_times(self) -> list[float]:
        """Seconds of each batch of the latest run."""
        return seconds_of(self._times().dataflow)

    @property
    def event_handlers_times(self) -> dict[Any, dict[str, list[float]]]:
        """Seconds of each call, by event and by name of the handler."""
        return {
            one.key: {source.name: seconds_of(source) for source in one.handlers.values()}
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
        (round(found.min / 1e9, 5), index_of(source, source.min_at)),
        (round(found.max / 1e9, 5), index_of(source, source.max_at)),
        round(found.mean / 1e9, 5),
        round(found.std / 1e9, 5) if found.count > 1 else "None",
    ]
