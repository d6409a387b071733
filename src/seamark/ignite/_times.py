"""What the runs of an engine took, by iteration, by event and by handler: numbers only."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from ignite.engine import Events

from seamark.profiling import MISSING, Breakdown, Samples, Source

if TYPE_CHECKING:
    from seamark.ignite._gpu import GpuTimes

__all__ = [
    "ASIDE",
    "EMPTY_ROW",
    "END",
    "EPOCH",
    "EPOCH_END",
    "FETCH",
    "FETCHED",
    "STEP",
    "STEPPED",
    "EventTimes",
    "HandlerTimes",
    "RunTimes",
]

OTHER, FETCH, FETCHED, STEP, STEPPED, EPOCH, EPOCH_END, END, ASIDE = range(9)
"""Codes of events; those from `FETCH` to `STEPPED` make up an iteration.

`ASIDE` are those that the engine fires while it waits for a batch or is about to take a step, and
that are no part of either.
"""

_CODES: Final[dict[Any, int]] = {
    "GET_BATCH_STARTED": FETCH,
    "GET_BATCH_COMPLETED": FETCHED,
    "ITERATION_STARTED": STEP,
    "ITERATION_COMPLETED": STEPPED,
    "EPOCH_STARTED": EPOCH,
    "EPOCH_COMPLETED": EPOCH_END,
    "TERMINATE": END,
    "COMPLETED": END,
    "DATALOADER_STOP_ITERATION": ASIDE,
    "INTERRUPT": ASIDE,
}

_ASKS: Final = frozenset({OTHER, FETCH, EPOCH, EPOCH_END, END})

EMPTY_ROW: Final = [MISSING] * 6
"""A row without its position: dataflow, processing, then the events of an iteration by code."""


class HandlerTimes:
    """What one handler of one event took.

    Attributes:
        own_name: As Ignite shows it.
        name: The same, with a number where several handlers of the event are called so.
        outside_ns: Time of its own that is no epoch's.
    """

    __slots__ = ("name", "outside_ns", "own_name", "samples")

    def __init__(self, own_name: str, name: str) -> None:
        self.own_name = own_name
        self.name = name
        self.samples = Samples()
        self.outside_ns = 0


class EventTimes:
    """What the handlers of one event took, together and each.

    Attributes:
        asks: Whether to find out, when it is fired, if somebody listens to the engine's messages.
        in_row: Whether it is one of the four of an iteration.
        is_quick: Whether nothing but a phase may begin with it.
        ends: The phase that ends with it, by the code of the event before, else 0.
        nested_ns: How much of it belongs to events that they fired.
        outside_ns: Time of their own that is no epoch's.
    """

    __slots__ = (
        "asks",
        "code",
        "ends",
        "event",
        "handlers",
        "in_row",
        "is_quick",
        "name",
        "nested_ns",
        "outside_ns",
        "samples",
    )

    def __init__(self, event: Any, rows: Samples) -> None:
        self.event = event
        self.name = str(getattr(event, "name", event))
        self.code = _CODES.get(self.name, OTHER) if isinstance(event, Events) else OTHER
        self.asks = self.code in _ASKS
        self.in_row = FETCH <= self.code <= STEPPED
        self.is_quick = self.code in (FETCH, FETCHED)
        self.ends = self.code - 1 if self.code in (FETCHED, STEPPED) else 0
        self.samples = rows if self.in_row else Samples()
        self.nested_ns = self.outside_ns = 0
        self.handlers: list[HandlerTimes] = []

    @property
    def names(self) -> list[str]:
        """Names of the handlers, as Ignite shows them."""
        return [one.own_name for one in self.handlers]

    def source(self) -> Source:
        """Return all handlers of the event together."""
        column = self.code + 1 if self.in_row else 0
        return Source("event", self.name, self.samples, column, nested_ns=self.nested_ns)

    def handler_sources(self) -> list[Source]:
        """Return each handler."""
        return [
            Source("handler", one.name, one.samples, event=self.name) for one in list(self.handlers)
        ]


class RunTimes:
    """What one run of one engine took, so far.

    Args:
        engine: Which begins to run; None for a run that never was.
        gpu: Times between CUDA events, if asked for.

    Attributes:
        rows: A row for each iteration: dataflow, processing, and the handlers of the four events of
            an iteration.
        nested_ns: How much of dataflow and processing belongs to events that were fired meanwhile.
        events: What the handlers of each event took, in the engine's order of events.
        gpu: Times between CUDA events, if asked for.
        by_handler: Whether each handler is timed, rather than all of an event together.
        began: Whether there was a run at all.
        max_epochs: As the engine had it at the start.
        epoch_start_ns: When the epoch began that goes on; 0 outside of epochs.
        paused_ns: When the run was interrupted; 0 while it is not.
    """

    def __init__(self, engine: Any = None, gpu: GpuTimes | None = None) -> None:
        self.rows = Samples(len(EMPTY_ROW))
        self.nested_ns = [0, 0]
        self.events: dict[Any, EventTimes] = {}
        self.gpu = gpu
        self.by_handler = False
        self.began = engine is not None
        self.max_epochs: int | None = getattr(getattr(engine, "state", None), "max_epochs", None)
        self.epoch_start_ns = self.paused_ns = 0
        self._epochs = self._epochs_ns = 0
        for event in getattr(engine, "_allowed_events", Events):
            self.times_of(event)

    def __getstate__(self) -> dict[str, Any]:
        """Travel as numbers, with what the device has still to tell."""
        if self.gpu is not None:
            self.gpu.collected()
        return self.__dict__

    def times_of(self, event: Any) -> EventTimes:
        """Return the times of an event."""
        found = self.events.get(event)
        if found is None:
            found = self.events[event] = EventTimes(event, self.rows)
        return found

    def end_epoch(self, now: int) -> None:
        """Count an epoch that began, if one did."""
        if self.epoch_start_ns:
            self._epochs_ns += now - self.epoch_start_ns
            self._epochs += 1
            self.epoch_start_ns = 0

    def apart(self, now: int) -> RunTimes:
        """Return the numbers as they are now, apart from a run that goes on."""
        found = copy.deepcopy(self)
        found.end_epoch(self.paused_ns or now)
        found.paused_ns = 0
        return found

    def thin(self, limit: int) -> None:
        """Keep fewer rows: a later run has begun."""
        for samples in self.all_samples():
            samples.thin(limit)

    def all_samples(self) -> Iterator[Samples]:
        """Yield everything that collects."""
        yield self.rows
        for event in list(self.events.values()):
            if event.samples is not self.rows:
                yield event.samples
            for handler in list(event.handlers):
                yield handler.samples

    def flush(self) -> None:
        """Take what waits into the statistics."""
        for samples in self.all_samples():
            samples.flush()

    # ------------------------------------------------------------ as sources

    def phases(self) -> list[Source]:
        """Return processing and dataflow, on the wall clock and, if asked for, on the GPU's."""
        found = [
            Source(name, name, self.rows, column, nested_ns=self.nested_ns[column])
            for name, column in (("processing", 1), ("dataflow", 0))
        ]
        if self.gpu is not None:
            gpu = self.gpu.collected()
            found.append(Source("processing", "processing", gpu, clock="cuda"))
        return found

    def handler_sources(self) -> list[Source]:
        """Return each handler of each event, or all of an event where they were timed together."""
        events = list(self.events.values())
        if self.by_handler:
            return [source for event in events for source in event.handler_sources()]
        return [
            Source("handler", "(all handlers)", one.samples, one.column, one.name, "wall", nested)
            for one, nested in [(each.source(), each.nested_ns) for each in events if each.names]
        ]

    def breakdown(self, *, by_handler: bool) -> Breakdown:
        """Return what the time of an epoch is made of."""
        whole, epochs = self._epochs_ns, self._epochs
        if self.epoch_start_ns:
            whole += (self.paused_ns or perf_counter_ns()) - self.epoch_start_ns
            epochs += 1
        epochs = max(1, epochs)
        processing, dataflow = self.phases()[:2]
        parts = [
            ("processing (the step itself)", processing.own_ns),
            ("dataflow (waiting for data)", dataflow.own_ns),
        ]
        for event in list(self.events.values()):
            if by_handler and self.by_handler:
                parts += [
                    (f"the handler {source.name} on {event.name}", source.own_ns - one.outside_ns)
                    for source, one in zip(event.handler_sources(), event.handlers, strict=False)
                ]
            else:
                own_ns = event.source().own_ns - event.outside_ns
                parts.append((f"the handlers of {event.name}", own_ns))
        first, others = parts[:2], [part for part in parts[2:] if part[1] > 0]
        in_seconds = tuple((what, ns / 1e9 / epochs) for what, ns in first + others)
        return Breakdown(in_seconds, whole / 1e9 / epochs, epochs)
