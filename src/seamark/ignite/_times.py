"""Times of the runs of an engine, by phase, by event and by handler: numbers only.

While an engine runs, positions and durations are appended to `Samples`; statistics take them in
thousands at a time.
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from ignite.engine import Events

from seamark.profiling import Breakdown, Samples, Source, position

if TYPE_CHECKING:
    from seamark.ignite._gpu import GpuTimes

__all__ = ["EventTimes", "HandlerTimes", "RunTimes"]

OTHER, FETCH, FETCHED, STEP, STEPPED, EPOCH_END, EPOCH, OUTSIDE, END, INTERRUPT = range(10)
"""Kinds of events. Waits for batches and steps begin with the last handler of FETCH and STEP."""

_KINDS: Final[dict[str, int]] = {
    "GET_BATCH_STARTED": FETCH,
    "GET_BATCH_COMPLETED": FETCHED,
    "ITERATION_STARTED": STEP,
    "ITERATION_COMPLETED": STEPPED,
    "EPOCH_COMPLETED": EPOCH_END,
    "EPOCH_STARTED": EPOCH,
    "STARTED": OUTSIDE,
    "TERMINATE": OUTSIDE,
    "COMPLETED": END,
    "INTERRUPT": INTERRUPT,
}


class HandlerTimes:
    """Times of one handler of one event.

    Attributes:
        event: Of the event that it belongs to.
        own_name: As Ignite shows it.
        name: The same, with a number where several handlers of the event are called so.
        waiting: Positions and durations of `samples` that are in no statistics yet.
        outside_ns: Time of its own that belongs to no epoch.
    """

    def __init__(self, event: EventTimes, own_name: str) -> None:
        self.event = event
        self.own_name = own_name
        before = event.names.count(own_name)
        self.name = f"{own_name} #{before + 1}" if before else own_name
        self.samples = Samples()
        self.waiting = self.samples.waiting
        self.outside_ns = 0

    def source(self) -> Source:
        """Return the handler."""
        return Source("handler", self.name, self.samples, event=self.event.name)

    def nest(self, inside_ns: int) -> None:
        """Take in how much of a call belongs to handlers of events that it fired."""
        self.samples.nested_ns += inside_ns
        self.event.samples.nested_ns += inside_ns


class EventTimes:
    """Times of the handlers of one event, together and each.

    Attributes:
        is_early: 1 if it belongs to the next step, and is fired when its handlers are over.
        spent_ns: Time of handlers that is in no sample yet.
    """

    def __init__(self, event: Any) -> None:
        self.event = event
        self.name = str(getattr(event, "name", event))
        self.kind = _KINDS.get(event.name, OTHER) if isinstance(event, Events) else OTHER
        self.is_early = int(self.kind in (FETCH, FETCHED, STEP))
        self.samples = Samples()
        self.waiting = self.samples.waiting
        self.handlers: list[HandlerTimes] = []
        self.spent_ns = 0
        self._fired_at: int | None = None

    def handler(self, own_name: str, used: list[Any]) -> HandlerTimes:
        """Return the times of a handler; those of one that is gone if it had the same name.

        Args:
            own_name: As Ignite shows it.
            used: The times of the event's other handlers.
        """
        for one in self.handlers:
            if one.own_name == own_name and one not in used:
                return one
        self.handlers.append(HandlerTimes(self, own_name))
        return self.handlers[-1]

    def fire(self, at: int) -> None:
        """Take in that the event is fired, before its handlers; if it is early, after them."""
        if self.is_early:
            self.waiting.extend((at, self.spent_ns))
            self.spent_ns = 0
            return
        if self._fired_at is not None:
            self.waiting.extend((self._fired_at, self.spent_ns))
        self._fired_at, self.spent_ns = at, 0

    def close(self) -> None:
        """Take in the latest time that it was fired."""
        if self._fired_at is not None:
            self.waiting.extend((self._fired_at, self.spent_ns))
        self._fired_at, self.spent_ns = None, 0

    @property
    def names(self) -> list[str]:
        """Names of the handlers, as Ignite shows them."""
        return [one.own_name for one in self.handlers]

    def source(self) -> Source:
        """Return all handlers of the event together."""
        return Source("event", self.name, self.samples)

    def handler_sources(self) -> list[Source]:
        """Return each handler."""
        return [one.source() for one in list(self.handlers)]


class RunTimes:
    """Times of one run of one engine, so far.

    Args:
        state: The state of the engine that begins to run; None for a run that never was.
        gpu: Times between CUDA events, if asked for.
        kind: Kind of the event with which it begins.

    Attributes:
        thread: The thread that runs the engine; 0 for none.
        dataflow: The waits for batches.
        processing: The steps.
        gpu: Times between CUDA events, if asked for.
        began: Whether there was a run at all.
        max_epochs: As the engine had it at the start.
        events_elsewhere: The number of events that other threads fired; they are not timed.
        at: The position.
        kind: Kind of the latest event that the engine itself fired.
        last_ns: When that was.
        in_epoch: Whether an epoch goes on.
        inside_ns: Time of the handlers that have ended inside of the handler that is running, or
            since the latest event.
        is_inside: Whether a handler is running.
    """

    def __init__(self, state: Any = None, gpu: GpuTimes | None = None, kind: int = OTHER) -> None:
        self.thread = 0 if state is None else get_ident()
        self.dataflow, self.processing = Samples(), Samples()
        self._events = {event: EventTimes(event) for event in Events}
        self._fetched = self._events[Events.GET_BATCH_COMPLETED]
        self.gpu = gpu
        self.began = state is not None
        self.max_epochs: int | None = getattr(state, "max_epochs", None)
        self.at = 0 if state is None else position(state.epoch, state.iteration)
        self.in_epoch = FETCH <= kind <= EPOCH_END
        self.kind = OTHER
        self.inside_ns, self.is_inside = 0, False
        self.last_ns = self.events_elsewhere = self._epochs_ns = self._turned_ns = 0
        self._epochs = int(self.in_epoch)

    @property
    def events(self) -> list[EventTimes]:
        """Times of the handlers of each event."""
        return list(self._events.values())

    def event(self, event: Any) -> EventTimes:
        """Return the times of the handlers of an event."""
        if event not in self._events:
            self._events[event] = EventTimes(event)
        return self._events[event]

    def fire(self, event: EventTimes, now_ns: int, state: Any) -> None:
        """Take in an event: with one of the engine itself, a wait, a step or an epoch may end.

        Args:
            event: The event.
            now_ns: When it is fired.
            state: The state of the engine.
        """
        kind = event.kind
        if kind == STEP or kind > STEPPED:
            self.at = position(state.epoch, state.iteration)
        event.fire(self.at + 1 if kind == FETCH else self.at)
        if self.gpu is not None:
            if kind == STEP:
                self.gpu.begin()
            elif kind == STEPPED:
                self.gpu.end(self.at)
        if kind == OTHER or self.is_inside:  # a handler fires it
            return
        before, self.kind = self.kind, kind
        inside_ns, self.inside_ns = self.inside_ns, 0
        spent_ns, self.last_ns = now_ns - self.last_ns, now_ns
        if before == FETCH and (kind == STEP or (kind == INTERRUPT and state.batch is not None)):
            at = self.at + (kind == INTERRUPT)
            self.dataflow.waiting.extend((at, spent_ns - inside_ns))
            self._fetched.fire(at)
        elif before == STEP and kind == STEPPED:
            self.processing.waiting.extend((self.at, spent_ns))
            self.processing.nested_ns += inside_ns
        if kind > STEPPED or before > STEPPED or before == OTHER:
            self._turn(before, kind, now_ns, inside_ns)

    def _turn(self, before: int, kind: int, now_ns: int, inside_ns: int) -> None:
        """Take in the time since the latest event that was none of an iteration.

        Handlers of EPOCH_COMPLETED belong to the epoch; what is between them and the next event
        does not, nor does the pause after an interruption.
        """
        if self.in_epoch:
            is_pause = before in (OTHER, EPOCH_END, INTERRUPT)
            self._epochs_ns += inside_ns if is_pause else now_ns - self._turned_ns
        if before == EPOCH_END or EPOCH <= kind <= END:
            self.in_epoch = kind == EPOCH
            self._epochs += self.in_epoch
        self._turned_ns = now_ns

    def flush(self) -> None:
        """Take what waits into the statistics, so that memory is bounded."""
        samples = [self.dataflow, self.processing]
        for event in self.events:
            samples += [event.samples, *(one.samples for one in event.handlers)]
        for one in samples:
            one.flush()

    def settle(self) -> None:
        """Take in the latest time that each event was fired; no handler is running."""
        for event in self.events:
            event.close()

    def look(self) -> None:
        """Bring the numbers up to date, unless another thread is adding to them."""
        if self.kind == END or self.thread == get_ident():
            self.settle()

    # ------------------------------------------------------------ results

    def phases(self) -> list[Source]:
        """Return processing and dataflow, on the wall clock and, if asked for, on the GPU's."""
        found = [
            Source("processing", "processing", self.processing),
            Source("dataflow", "dataflow", self.dataflow),
        ]
        if self.gpu is not None:
            gpu = self.gpu.collected()
            found.append(Source("processing", "processing", gpu, clock="cuda"))
        return found

    def handler_sources(self) -> list[Source]:
        """Return each handler of each event."""
        return [one for event in self.events for one in event.handler_sources()]

    def breakdown(self, *, by_handler: bool) -> Breakdown:
        """Return the parts of the time of a mean epoch."""
        epochs = max(1, self._epochs)
        processing, dataflow = self.phases()[:2]
        parts = [
            ("processing (the step itself)", processing.own_ns),
            ("dataflow (waiting for data)", dataflow.own_ns),
        ]
        for event in self.events:
            handlers = [
                (one.name, one.source().own_ns - one.outside_ns) for one in list(event.handlers)
            ]
            if by_handler:
                parts += [(f"the handler {name} on {event.name}", ns) for name, ns in handlers]
            else:
                parts.append((f"the handlers of {event.name}", sum(ns for _, ns in handlers)))
        in_seconds = tuple((name, ns / 1e9 / epochs) for name, ns in parts if ns > 0)
        whole_ns = self._epochs_ns
        if self.in_epoch:
            whole_ns += self.last_ns - self._turned_ns + self.inside_ns
        return Breakdown(in_seconds, whole_ns / 1e9 / epochs, epochs)
