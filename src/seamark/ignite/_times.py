"""Times of the runs of an engine by phase, event and handler."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import torch
from ignite.engine import Events

from seamark.profiling import LOCK, Breakdown, Durations

_UNREAD: Final = 1024
FREQUENT: Final = (
    Events.GET_BATCH_STARTED,
    Events.GET_BATCH_COMPLETED,
    Events.ITERATION_STARTED,
    Events.ITERATION_COMPLETED,
)
"""Events of each iteration, in order."""


class EventTimes(Durations):
    """Times of all handlers of an event for each occurrence, and of each handler.

    Attributes:
        key: The event.
        label: Description as a part of an epoch.
        ahead: 1 for the events of a step whose position is known only after their handlers ran.
        spent_ns: Time of the handlers called since the last occurrence of the event.
        handlers: Times of each handler, by unique name.
    """

    def __init__(self, event: Any) -> None:
        super().__init__("event", str(getattr(event, "name", event)))
        self.key, self.ahead = event, int(event in FREQUENT[:3])
        self.label = f"the handlers of {self.name}"

    def clear(self) -> None:
        super().clear()
        self.spent_ns = 0
        self.handlers: dict[str, HandlerTimes] = {}

    @property
    def names(self) -> list[str]:
        """Names of the handlers as shown by Ignite."""
        return [one.own_name for one in list(self.handlers.values())]

    def of_handler(self, name: str, own_name: str) -> HandlerTimes:
        with LOCK:
            return self.handlers.setdefault(name, HandlerTimes(self, name, own_name))

    def happened(self, at: int) -> None:
        self.waiting.extend((at, self.spent_ns))
        self.spent_ns = 0


class HandlerTimes(Durations):
    """Times of a handler, whose name is unique among those of its event.

    Attributes:
        of_event: Times of its event.
        own_name: Name as shown by Ignite.
    """

    def __init__(self, of_event: EventTimes, name: str, own_name: str) -> None:
        super().__init__("handler", name, of_event.name)
        self.of_event, self.own_name = of_event, own_name
        self.label = f"the handler {name} on {of_event.name}"


class GpuTimes(Durations):
    """Device time of each step, between two CUDA events on the current stream.

    Each step reads the pairs of events that the device has passed, so that the training does not
    wait for the device. Only results wait for the rest.
    """

    def __init__(self) -> None:
        super().__init__("processing", "processing", clock="cuda")
        self._unread: deque[tuple[Any, Any, int]] = deque()
        self._start: Any = None

    def __getstate__(self) -> dict[str, Any]:
        # Return the state without device objects, after waiting for the device.
        self.read()
        return {**self.__dict__, "_unread": deque(), "_start": None}

    def begin(self) -> None:
        self._start = _device_event()

    def end(self, at: int) -> None:
        if self._start is not None:
            self._unread.append((self._start, _device_event(), at))
            self._start = None
            self.read(_UNREAD)

    def read(self, limit: int = 0) -> None:
        """Read events that the device has passed; wait if more than ``limit`` pairs are unread."""
        with LOCK:
            while self._unread and (len(self._unread) > limit or self._unread[0][1].query()):
                start, end, at = self._unread.popleft()
                end.synchronize()
                self.waiting.extend((at, round(start.elapsed_time(end) * 1e6)))


def _device_event() -> Any:
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


class RunTimes:
    """Times of a run of an engine so far: steps (`processing`), waits for batches, and events.

    Attributes:
        at: Position of the latest step.
        events: Times of the handlers of each event.
        began: Whether a run was measured.
        epochs: Number of started epochs, including one that was joined midway.
        epochs_ns: Duration of these epochs so far, without pauses.
        events_elsewhere: Number of events fired by other threads, which are not timed.
    """

    def __init__(self) -> None:
        self.processing = Durations("processing", "processing")
        self.dataflow = Durations("dataflow", "dataflow")
        self.events = {event: EventTimes(event) for event in Events}
        self.restart(None, None, ())

    def restart(self, state: Any, gpu: GpuTimes | None, handlers: Sequence[HandlerTimes]) -> None:
        """Clear all times for the next run, which has the given handlers."""
        with LOCK:
            self.gpu, self.began = gpu, state is not None
            self.max_epochs: int | None = getattr(state, "max_epochs", None)
            self.at = self.events_elsewhere = self.epochs_ns = self.epochs = 0
            for one in (self.processing, self.dataflow, *self.events.values(), *handlers):
                one.clear()
            for handler in handlers:
                handler.of_event.handlers[handler.name] = handler

    def of_event(self, event: Any) -> EventTimes:
        with LOCK:
            return self.events.setdefault(event, EventTimes(event))

    def flush(self) -> None:
        """Add the pending durations."""
        for one in (*self.sources(by_handler=True), *list(self.events.values())):
            one.flush()

    def settle(self) -> None:
        """Add the times of handlers of an event or step that may never end."""
        for one in list(self.events.values()):
            if one.spent_ns:
                one.happened(self.at + one.ahead)

    def now(self) -> RunTimes:
        """Return a complete copy, after waiting for the device."""
        self.flush()  # copying number by number is slow
        with LOCK:
            found = copy.deepcopy(self)
        found.settle()
        return found

    # ------------------------------------------------------------ results

    def phases(self) -> list[Durations]:
        """Return processing and dataflow by the wall clock and, if requested, by the GPU's."""
        found = [self.processing, self.dataflow]
        return found if self.gpu is None else [*found, self.gpu]

    def handlers(self) -> list[HandlerTimes]:
        events = list(self.events.values())
        return [one for event in events for one in list(event.handlers.values())]

    def parts(self, *, by_handler: bool) -> list[Any]:
        """Return the handlers, or the events that happened or have handlers."""
        if by_handler:
            return self.handlers()
        events = list(self.events.values())
        return [one for one in events if one.handlers or one.moments.count]

    def sources(self, *, by_handler: bool) -> list[Durations]:
        return self.phases() + self.parts(by_handler=by_handler)

    def breakdown(self, *, by_handler: bool) -> Breakdown:
        parts = [
            ("processing (the step itself)", self.processing.own_ns),
            ("dataflow (waiting for data)", self.dataflow.own_ns),
        ]
        found = self.parts(by_handler=by_handler)
        parts += [(one.label, one.own_ns - one.outside_ns) for one in found]
        epochs = max(1, self.epochs)
        in_seconds = tuple((name, ns / 1e9 / epochs) for name, ns in parts if ns > 0)
        whole_ns = max(self.epochs_ns, sum(ns for _, ns in parts))  # a step may be unfinished
        return Breakdown(in_seconds, whole_ns / 1e9 / epochs, epochs)
