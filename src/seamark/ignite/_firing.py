"""What happens at each event of an engine that is timed: the engine's own work, and the clock.

This is the hot path: an iteration fires four events, and each of their handlers is timed here.
"""

from __future__ import annotations

import logging
import weakref
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from ignite.engine import Engine

from seamark.ignite._times import (
    DATAFLOW,
    EMPTY_ROW,
    EPOCH,
    EPOCH_END,
    FETCH,
    FETCHED,
    OTHER,
    PROCESSING,
    STEP,
    STEPPED,
    EventTimes,
    HandlerTimes,
    RunTimes,
)
from seamark.timing import FLUSH_AT, POSITION_SHIFT

if TYPE_CHECKING:
    from seamark.ignite._gpu import GpuTimes

__all__ = ["NEVER", "Firing"]

log = logging.getLogger("seamark")

NEVER: Final = 1 << 62
_ASKS: Final = frozenset({OTHER, FETCH, EPOCH, EPOCH_END})

# What Engine._fire_event of 0.4.13 up to 0.5.5 is made of. One that uses anything else is unknown.
_KNOWN_NAMES: Final = frozenset(
    {
        "RuntimeError", "_event_handlers", "debug", "epoch", "isinstance", "iteration",
        "last_event_name", "logger", "ref", "state", "tuple", "update", "weakref",
    }
)  # fmt: skip
_ENGINE_FIRE: Final = Engine._fire_event  # noqa: SLF001 - what the engine calls for every event
_ENGINE_NAMES: Final = frozenset(_ENGINE_FIRE.__code__.co_names)
_FIRE_IS_KNOWN: Final = _ENGINE_NAMES <= _KNOWN_NAMES
_WEAK_ENGINE: Final = "weakref" in _ENGINE_NAMES  # handlers hold a weak reference, as from 0.5 on


def _arguments(engine: Any, args: Any, given: Any) -> Any:
    """Return with what a handler is called: the engine if it asked for it, the event's, its own."""
    first = args[0]
    if _WEAK_ENGINE:
        if not isinstance(first, weakref.ref):
            return given + args
        engine = first()
        if engine is None:
            msg = "Engine reference not resolved. Cannot execute event handler."
            raise RuntimeError(msg)
    elif first is not engine:
        return given + args
    return (engine, *given, *args[1:])


class Firing:
    """Fires the events of one engine and looks at the clock on the way.

    Attributes:
        engine: The engine, only while it runs, so that nobody keeps it alive.
        times: What the run took so far; None if there is none.
    """

    def __init__(self) -> None:
        self.engine: Any = None
        self.times: RunTimes | None = None
        self._inner: Any = None
        self._handle: Any = None
        self._broken = self._debug = False
        self._by_id: dict[int, EventTimes] = {}
        self._gpu: GpuTimes | None = None
        self._take_row: Any = None
        self._due_ns = NEVER
        self._left = FLUSH_AT
        self._depth = 0
        self._reset()

    def _reset(self) -> None:
        """Be outside of every phase and row."""
        self._inside = self._mark = self._phase = 0
        self._row = [0, *EMPTY_ROW]

    @staticmethod
    def _is_known(engine: Engine) -> bool:
        """Tell whether the class of an engine fires events in the way that we know."""
        return type(engine)._fire_event is _ENGINE_FIRE and _FIRE_IS_KNOWN  # noqa: SLF001

    # ------------------------------------------------------------ what the clock of an engine adds

    def _seldom(self, event_name: Any) -> EventTimes | None:
        """Find the times of an event that is not found by its id; None if nobody measures."""
        raise NotImplementedError

    def _left_seldom(self, times: EventTimes, end: int) -> None:
        """Hear that an event other than those of an iteration is over, outside of handlers."""
        raise NotImplementedError

    def _pause_for(self, now: int) -> None:
        """Do between two iterations what is due."""
        raise NotImplementedError

    def _fail(self, error: Exception) -> None:
        """Measure nothing more in this run, and say so once."""
        if not self._broken:
            self._broken = True
            self._by_id = {}
            log.warning("seamark: the time profiler stops measuring this run: %r", error)

    # ------------------------------------------------------------ every event

    def _fire_unknown(self, event_name: Any, *event_args: Any, **event_kwargs: Any) -> None:
        """Fire an event by the engine's own method, which does more than we know."""
        times = self._by_id.get(id(event_name)) or self._seldom(event_name)
        if times is None:
            self._inner(event_name, *event_args, **event_kwargs)
            return
        outer = self._inside
        start = perf_counter_ns()
        self._enter(times, start, outer)
        self._depth += 1
        self._inside = 0
        try:
            self._inner(event_name, *event_args, **event_kwargs)
        finally:
            self._depth -= 1
            self._leave(times, start, perf_counter_ns(), outer)

    def _fire_known(self, event_name: Any, *event_args: Any, **event_kwargs: Any) -> None:
        """Fire an event as the engine's own method does, and look at the clock on the way."""
        times = self._by_id.get(id(event_name)) or self._seldom(event_name)
        if times is None:
            self._inner(event_name, *event_args, **event_kwargs)
            return
        engine = self.engine
        # Half of the time of the engine's own method goes into a message that nobody sees. Whether
        # somebody does is asked once in an iteration.
        if times.code in _ASKS:
            logger = engine.logger
            self._debug = type(logger) is not logging.Logger or logger.isEnabledFor(logging.DEBUG)
        if self._debug:
            state = engine.state
            text = f"{state.epoch} | {state.iteration}, Firing handlers for event {event_name}"
            engine.logger.debug(text)
        engine.last_event_name = event_name
        handlers = engine._event_handlers[event_name]  # noqa: SLF001
        outer = self._inside
        start = perf_counter_ns()
        self._enter(times, start, outer)
        self._inside = 0
        if not handlers:
            self._leave(times, start, start, outer)  # nobody there: no time
            return
        self._depth += 1
        try:
            end = self._handle(times, handlers, event_args, event_kwargs)
        except BaseException:
            end = perf_counter_ns()
            raise
        finally:
            self._depth -= 1
            self._leave(times, start, end, outer)

    def _handle_all(self, times: EventTimes, handlers: Any, given: Any, named: Any) -> int:
        """Call the handlers of an event, and return when that was done."""
        engine = self.engine
        for func, args, kwargs in handlers:
            if named:
                kwargs.update(named)
            func(*(_arguments(engine, args, given) if args else given), **kwargs)
        return perf_counter_ns()

    def _handle_each(self, times: EventTimes, handlers: Any, given: Any, named: Any) -> int:
        """Call the handlers of an event, time each, and return when that was done.

        One look at the clock ends a handler and begins the next: a second one costs more than all
        that lies between.
        """
        engine, at, by_entry = self.engine, self._row[0], times.by_entry
        found: HandlerTimes | None = None
        start = perf_counter_ns()
        try:
            for entry in handlers:
                func, args, kwargs = entry
                if named:
                    kwargs.update(named)
                one = by_entry.get(id(entry)) or self._new(times, entry, handlers)
                if one.condition is not None:
                    of = one.of
                    if not one.condition(of, of.state.get_event_attrib_value(one.event_name)):
                        start = perf_counter_ns()
                        continue
                    func = one.function
                found = one
                if args:
                    func(*_arguments(engine, args, given), **kwargs)
                else:
                    func(*given, **kwargs)
                now = perf_counter_ns()
                one.take_row((at, now - start))
                start = now
                if self._inside:
                    self._nest(times, one)
                found = None
        except BaseException:
            if found is not None:
                found.take_row((at, perf_counter_ns() - start))
                self._nest(times, found)
            raise
        return start

    def _new(self, times: EventTimes, entry: Any, handlers: Any) -> HandlerTimes:
        """Return the times of a handler that was not there before."""
        try:
            return times.add(entry, handlers)
        except Exception as error:  # noqa: BLE001 - training comes first
            self._fail(error)
            return HandlerTimes(entry, "?", "?")

    def _nest(self, times: EventTimes, one: HandlerTimes) -> None:
        """Note that part of a handler's time is that of an event which it fired."""
        one.samples.nested_ns += self._inside
        times.nested_ns += self._inside
        self._inside = 0

    def _enter(  # noqa: C901, PLR0912 - taken apart, it would cost a call each time
        self, times: EventTimes, start: int, outer: int
    ) -> None:
        """Begin an event; a batch or a step may end with it.

        The events of an iteration come here four times in each: the order of the cases matters.
        """
        if self._depth:
            return
        code = times.code
        row = self._row
        try:
            if code == STEPPED:
                if self._phase == STEP:
                    row[PROCESSING] = start - self._mark
                    self._phase = 0
                    if outer:
                        self.times.processing_nested_ns += outer  # type: ignore[union-attr]
                    if self._gpu is not None:
                        self._gpu.end(row[0])
            elif code == STEP:
                state = self.engine.state
                row[0] = (state.epoch << POSITION_SHIFT) + state.iteration
            elif code == FETCHED:
                if self._phase == FETCH:
                    row[DATAFLOW] = start - self._mark
                    self._phase = 0
                    if outer:
                        self.times.dataflow_nested_ns += outer  # type: ignore[union-attr]
            elif code == FETCH:
                if self._phase or row[STEP + 2] >= 0:
                    self._write_row()  # an iteration that broke off
                state = self.engine.state
                self._row[0] = (state.epoch << POSITION_SHIFT) + state.iteration + 1
            elif code or not self._phase:  # else the step fires it, or the batch is not there yet
                self._place(times, start)
        except Exception as error:  # noqa: BLE001
            self._fail(error)

    def _place(self, times: EventTimes, start: int) -> None:
        """Begin an event outside of iterations."""
        state, run = self.engine.state, self.times
        self._write_row()
        self._row[0] = (state.epoch << POSITION_SHIFT) + state.iteration
        if run is None:
            return
        if times.code == EPOCH:
            run.end_epoch(start)  # where EPOCH_COMPLETED was skipped
            run.epoch_start_ns = start
        elif not run.epoch_start_ns and self.engine._event_handlers.get(times.event):  # noqa: SLF001
            run.leave_epochs()

    def _leave(self, times: EventTimes, start: int, end: int, outer: int) -> None:
        """End an event; a batch or a step may begin with it."""
        code = times.code
        try:
            if self._inside:
                times.nested_ns += self._inside
            if self._depth or code == OTHER or code > STEPPED:
                self._leave_other(times, end - start, end)
                self._inside = outer + end - start
                return
            self._inside = 0
            row = self._row
            row[code + 2] = end - start
            if code == STEPPED:
                self._take_row(row)
                self._row = [row[0], *EMPTY_ROW]
                self._left -= 1
                if self._left < 0 or end >= self._due_ns:
                    self._pause_for(end)
            elif code != FETCHED:
                self._mark = end
                self._phase = code
                if code == STEP and self._gpu is not None:
                    self._gpu.begin()
        except Exception as error:  # noqa: BLE001
            self._fail(error)

    def _leave_other(self, times: EventTimes, took: int, end: int) -> None:
        """End an event that is none of the four of an iteration, or was fired by a handler."""
        run = self.times
        if run is None:  # closed from inside
            return
        samples = times.samples
        row = [self._row[0], took]
        if samples is run.rows:
            row = [self._row[0], *EMPTY_ROW]
            row[times.code + 2] = took
        samples.waiting.extend(row)
        if not self._depth:
            if not run.epoch_start_ns:
                run.back()
            if times.code == EPOCH_END:
                run.end_epoch(end)
            self._left_seldom(times, end)
        self._left -= 1
        if self._left < -FLUSH_AT:  # thousands of events in one iteration
            self._left = FLUSH_AT
            run.flush()

    def _write_row(self) -> None:
        """Write the row of an iteration that broke off, if there is anything in it."""
        row = self._row
        self._phase = 0
        if max(row[1:]) >= 0:
            self._take_row(row)
            self._row = [row[0], *EMPTY_ROW]
