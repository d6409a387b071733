"""Times of the runs of an engine by phase, event and handler."""

from __future__ import annotations

import copy
import struct
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import torch
from ignite.engine import Events

from seamark.profiling import LOCK, Breakdown, Durations

_PARTS: Final = {
    "processing": "processing (the step itself)",
    "dataflow": "dataflow (waiting for data)",
    "event": "the handlers of {name}",
    "handler": "the handler {name} on {event}",
}

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
        spent_ns: Time of the handlers called since the last occurrence of the event.
        handlers: Times of each handler, by unique name.
        names: Names of the handlers as shown by Ignite.
    """

    def __init__(self, event: Any) -> None:
        super().__init__("event", str(getattr(event, "name", event)))
        self.key, self.spent_ns = event, 0
        self.handlers: dict[str, Durations] = {}
        self.names: list[str] = []

    def of_handler(self, name: str, own_name: str) -> Durations:
        with LOCK:
            if name not in self.handlers:
                self.handlers[name] = Durations("handler", name, self.name)
                self.names.append(own_name)
            return self.handlers[name]

    def happened(self, at: int) -> None:
        self.waiting.extend((at, self.spent_ns))
        self.spent_ns = 0


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
        steps: Pending values of each iteration: position, times of wait and step (-1 for none),
            position of the previous iteration, and times of the handlers of `FREQUENT`, the last of
            which belongs to the previous iteration.
        events: Times of the handlers of each event.
        epochs: Number of started epochs, including one that was joined midway.
        epochs_ns: Duration of these epochs so far, without pauses.
        events_elsewhere: Number of events fired by other threads, which are not timed.
    """

    def __init__(self, state: Any = None, gpu: GpuTimes | None = None) -> None:
        self.steps: list[int] = []
        self.processing = Durations("processing", "processing")
        self.dataflow = Durations("dataflow", "dataflow")
        self.events = {event: EventTimes(event) for event in Events}
        self.gpu = gpu
        self.began = state is not None
        self.max_epochs: int | None = getattr(state, "max_epochs", None)
        self.events_elsewhere = self.epochs = self.epochs_ns = 0

    def of_event(self, event: Any) -> EventTimes:
        with LOCK:
            return self.events.setdefault(event, EventTimes(event))

    def flush(self) -> None:
        """Add the pending durations."""
        with LOCK:
            taken = self.steps[:]
            del self.steps[: len(taken)]
            # Twice as fast as making an array from a list.
            rows = np.ndarray((len(taken) // 8, 8), np.int64, struct.pack(f"{len(taken)}q", *taken))
            at, waited, took, stepped_at, *spent = rows.T
            self.dataflow.add(at[waited >= 0], waited[waited >= 0])
            self.processing.add(at[took >= 0], took[took >= 0])
            for each, places, spent_ns in zip(
                FREQUENT, (at, at, at, stepped_at), spent, strict=True
            ):
                happened = (places > 0) & (spent_ns >= 0)
                self.events[each].add(places[happened], spent_ns[happened])
        for event in list(self.events.values()):
            for one in (event, *list(event.handlers.values())):
                one.flush()

    def now(self, add_rest: Callable[[RunTimes], None] | None = None) -> RunTimes:
        """Return a copy, with the times that a function adds, after waiting for the device."""
        self.flush()  # copying number by number is slow
        with LOCK:
            found = copy.deepcopy(self)
        if add_rest is not None:
            add_rest(found)
        found.flush()
        return found

    # ------------------------------------------------------------ results

    def phases(self) -> list[Durations]:
        """Return processing and dataflow by the wall clock and, if requested, by the GPU's."""
        found = [self.processing, self.dataflow]
        return found if self.gpu is None else [*found, self.gpu]

    def handlers(self) -> list[Durations]:
        events = list(self.events.values())
        return [one for event in events for one in list(event.handlers.values())]

    def breakdown(self, sources: Iterable[Durations]) -> Breakdown:
        """Return the parts of a mean epoch: the time of each source by the wall clock."""
        parts = [
            (_PARTS[one.kind].format(name=one.name, event=one.event), one.in_epochs_ns)
            for one in sources
            if one.clock == "wall"
        ]
        epochs = max(1, self.epochs)
        in_seconds = tuple((name, ns / 1e9 / epochs) for name, ns in parts if ns > 0)
        whole_ns = max(self.epochs_ns, sum(ns for _, ns in parts))  # a step may be unfinished
        return Breakdown(in_seconds, whole_ns / 1e9 / epochs, epochs)
