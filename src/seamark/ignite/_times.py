"""What the runs of an engine took: by iteration, by event and by handler."""

from __future__ import annotations

import copy
import logging
import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from ignite.engine import Engine, EventEnum, Events

from seamark.timing import MISSING, Breakdown, Samples, Source

if TYPE_CHECKING:
    from seamark.ignite._gpu import GpuTimes

__all__ = [
    "ALL_HANDLERS",
    "DATAFLOW",
    "EMPTY_ROW",
    "EPOCH",
    "EPOCH_END",
    "FETCH",
    "FETCHED",
    "OTHER",
    "PROCESSING",
    "STEP",
    "STEPPED",
    "EventTimes",
    "HandlerTimes",
    "RunTimes",
]

log = logging.getLogger("seamark")

ALL_HANDLERS: Final = "(all handlers)"
"""Name of what is timed where handlers cannot be told apart."""

OTHER, FETCH, FETCHED, STEP, STEPPED, EPOCH, EPOCH_END = range(7)
"""Codes of events; those from `FETCH` to `STEPPED` make up an iteration."""

_CODES: Final[dict[Any, int]] = {
    Events.GET_BATCH_STARTED: FETCH,
    Events.GET_BATCH_COMPLETED: FETCHED,
    Events.ITERATION_STARTED: STEP,
    Events.ITERATION_COMPLETED: STEPPED,
    Events.EPOCH_STARTED: EPOCH,
    Events.EPOCH_COMPLETED: EPOCH_END,
}

DATAFLOW, PROCESSING = 1, 2
"""Where they stand in a row: position, dataflow, processing, then the events by code."""

EMPTY_ROW: Final = [MISSING] * 6
"""A row without its position."""

# Before these something is to be done: a run opens, a summary is written, a run pauses.
_SELDOM: Final = frozenset({"STARTED", "COMPLETED", "INTERRUPT"})
_Key = tuple[str, str, str]
_FILTER_CELLS: Final = ("event_filter", "event_name", "handler", "self")
_adding: Final = threading.Lock()  # whoever reads results adds handlers too, maybe on a thread


def _handler_name(handler: Any) -> str:
    """Return the name of a handler as Ignite shows it; of a filtered one, what is behind."""
    try:
        parent = getattr(handler, "_parent", None)
        found = parent() if isinstance(parent, weakref.ref) else None
        handler = handler if found is None else found
        return str(getattr(handler, "__qualname__", type(handler).__name__))
    except Exception:  # noqa: BLE001 - a __getattr__ of somebody's
        return type(handler).__name__


def _key(source: Source) -> _Key:
    return source.kind, source.event, source.name


class HandlerTimes:
    """What one handler of one event took."""

    __slots__ = (
        "condition",
        "entry",
        "event_name",
        "function",
        "name",
        "of",
        "own_name",
        "samples",
        "take_row",
    )

    def __init__(self, entry: Any, own_name: str, name: str) -> None:
        self.own_name = own_name
        self.name = name
        self.samples = Samples()
        self.take_row = self.samples.waiting.extend
        self.take(entry)

    def __getstate__(self) -> tuple[str, str, Samples]:
        """Travel without the handler itself."""
        return self.own_name, self.name, self.samples

    def __setstate__(self, state: tuple[str, str, Samples]) -> None:
        """Be the same times elsewhere."""
        self.own_name, self.name, self.samples = state
        self.take_row = self.samples.waiting.extend
        self.release()

    def take(self, entry: Any) -> None:
        """Be the times of this entry of the engine's table."""
        self.entry = entry  # kept while the run lasts, so that its id stays its own
        self.function = entry[0]
        self.condition: Any = None
        self.event_name: Any = None
        self.of: Any = None
        try:
            self._look_behind_filter()
        except Exception:  # noqa: BLE001 - then every call counts
            log.debug("seamark: no filter found on %s", self.name)

    def _look_behind_filter(self) -> None:
        """Find the filter of ``Events.X(every=...)``: a call that it stops is no call."""
        code = getattr(self.function, "__code__", None)
        if hasattr(self.function, "_parent") and getattr(code, "co_freevars", ()) == _FILTER_CELLS:
            found = [cell.cell_contents for cell in self.function.__closure__]
            self.condition, self.event_name, self.function, self.of = found

    def release(self) -> None:
        """Forget the handler itself, which may hold a model."""
        self.entry = self.function = self.condition = self.event_name = self.of = None


class EventTimes:
    """What the handlers of one event took, together and each."""

    __slots__ = ("by_entry", "code", "event", "handlers", "name", "nested_ns", "samples")

    def __init__(self, event: Any, samples: Samples) -> None:
        self.event = event
        self.name = str(getattr(event, "name", event))
        self.code = _CODES.get(event, OTHER)
        self.samples = samples
        self.nested_ns = 0
        self.handlers: list[HandlerTimes] = []
        self.by_entry: dict[int, HandlerTimes] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Travel without what the ids of this process find."""
        return {name: getattr(self, name) for name in self.__slots__} | {"by_entry": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Be the same times elsewhere."""
        for name, value in state.items():
            setattr(self, name, value)

    @property
    def names(self) -> list[str]:
        """Names of the handlers, as Ignite shows them."""
        return [one.own_name for one in self.handlers]

    def add(self, entry: Any, table: Sequence[Any]) -> HandlerTimes:
        """Return the times of a handler that is new in the table.

        It goes on with those of one of the same name that is no longer there: what is added and
        removed again at every iteration must not need memory each time.
        """
        with _adding:
            if (found := self.by_entry.get(id(entry))) is not None:
                return found
            name = _handler_name(entry[0])
            alike = [one for one in self.handlers if one.own_name == name]
            present = {id(other) for other in table}
            for found in alike:
                if id(found.entry) not in present:
                    self.by_entry.pop(id(found.entry), None)
                    found.take(entry)
                    break
            else:
                number = f" #{len(alike) + 1}" if alike else ""
                found = HandlerTimes(entry, name, name + number)
                self.handlers.append(found)
            self.by_entry[id(entry)] = found
            return found

    def source(self) -> Source:
        """Return all handlers of the event together."""
        column = self.code + 1 if FETCH <= self.code <= STEPPED else 0
        return Source("event", self.name, self.samples, column, nested_ns=self.nested_ns)


class RunTimes:
    """What one run of one engine took, so far.

    Attributes:
        rows: A row for each iteration: dataflow, processing, and the handlers of the four events of
            an iteration.
        events: What the handlers of each event took, in the engine's order of events.
        gpu: Times between CUDA events, if asked for.
        by_handler: Whether each handler is timed, rather than all of an event together.
        max_epochs: As the engine had it at the start.
    """

    def __init__(self, engine: Engine, gpu: GpuTimes | None) -> None:
        self.rows = Samples(len(EMPTY_ROW))
        self.gpu = gpu
        self.events: dict[Any, EventTimes] = {}
        self.by_id: dict[int, EventTimes] = {}
        self.by_handler = False
        self.max_epochs = engine.state.max_epochs
        self.dataflow_nested_ns = self.processing_nested_ns = 0
        self.epochs = 0
        self.epochs_ns = 0
        self.epoch_start_ns = 0
        self.interrupted = False
        self._outside: Counter[_Key] = Counter()  # time of their own that is no epoch's
        self._before_outside: Counter[_Key] | None = None
        for event in engine._allowed_events:  # noqa: SLF001
            self.times_of(event)
        self.look(engine)

    def __getstate__(self) -> dict[str, Any]:
        """Travel as numbers, without the handlers and the device."""
        if self.gpu is not None:
            self.gpu.collected()
        return {**self.__dict__, "by_id": {}}

    def look(self, engine: Engine) -> None:
        """Take in handlers that were added since."""
        for event, entries in list(engine._event_handlers.items()):  # noqa: SLF001
            times = self.times_of(event)
            for entry in list(entries):
                if id(entry) not in times.by_entry:
                    times.add(entry, entries)

    def times_of(self, event: Any) -> EventTimes:
        """Return the times of an event, from now on also found by its id if it has but one."""
        found = self.events.get(event)
        if found is None:
            one_row = _CODES.get(event, OTHER) in (FETCH, FETCHED, STEP, STEPPED)
            found = self.events[event] = EventTimes(event, self.rows if one_row else Samples())
        if isinstance(event, EventEnum) and found.name not in _SELDOM:
            self.by_id[id(event)] = found
        return found

    def end_epoch(self, now: int) -> None:
        """Count an epoch that began, if one did."""
        if self.epoch_start_ns:
            self.epochs_ns += now - self.epoch_start_ns
            self.epochs += 1
            self.epoch_start_ns = 0

    def leave_epochs(self) -> None:
        """Count nothing to an epoch until `back`: an event that is outside of them begins."""
        self._before_outside = self._own_times() if self.epochs else Counter()

    def back(self) -> None:
        """Hear that such an event is over, with all events that its handlers fired."""
        self._outside, self._before_outside = self._outside_now(), None

    def _own_times(self) -> Counter[_Key]:
        sources = self.event_sources() + self.handler_sources()
        return Counter({_key(one): one.own_ns for one in sources})

    def _outside_now(self) -> Counter[_Key]:
        before = self._before_outside
        return self._outside if before is None else self._outside + (self._own_times() - before)

    def release(self) -> None:
        """Forget the handlers themselves; the run is over."""
        for event in self.events.values():
            event.by_entry = {}
            for handler in event.handlers:
                handler.release()

    def frozen(self) -> RunTimes:
        """Return the numbers as they are now, apart from a run that goes on."""
        return copy.deepcopy(self)

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
            Source("processing", "processing", self.rows, 1, nested_ns=self.processing_nested_ns),
            Source("dataflow", "dataflow", self.rows, 0, nested_ns=self.dataflow_nested_ns),
        ]
        if self.gpu is not None:
            gpu = self.gpu.collected()
            found.append(Source("processing", "processing", gpu, clock="cuda"))
        return found

    def event_sources(self) -> list[Source]:
        """Return each event: all its handlers together."""
        return [event.source() for event in list(self.events.values())]

    def handler_sources(self) -> list[Source]:
        """Return each handler of each event."""
        return [
            Source("handler", handler.name, handler.samples, event=event.name)
            for event in list(self.events.values())
            for handler in list(event.handlers)
        ]

    def breakdown(self, *, by_handler: bool) -> Breakdown:
        """Return what the time of an epoch is made of."""
        whole, epochs = self.epochs_ns, self.epochs
        if self.epoch_start_ns:
            whole, epochs = whole + perf_counter_ns() - self.epoch_start_ns, epochs + 1
        epochs = max(1, epochs)
        processing, dataflow = self.phases()[:2]
        parts = [
            ("processing (the step itself)", processing.own_ns),
            ("dataflow (waiting for data)", dataflow.own_ns),
        ]
        outside = self._outside_now()
        for one in self.handler_sources() if by_handler else self.event_sources():
            if (own_ns := one.own_ns - outside[_key(one)]) > 0:
                what = (
                    f"the handler {one.name} on {one.event}" if by_handler
                    else f"the handlers of {one.name}"
                )  # fmt: skip
                parts.append((what, own_ns))
        in_seconds = tuple((what, ns / 1e9 / epochs) for what, ns in parts)
        return Breakdown(in_seconds, whole / 1e9 / epochs, epochs)
