"""The clock on one engine: times its events, handlers, batches and steps while it runs.

An engine calls its own ``_fire_event`` for every event. While it runs, the instance has a
``_fire_event`` of ours in its place; however the run ends, that is taken away again. The table of
handlers is only read. Where the engine's method is one that we know, ours does what it does, and
looks at the clock around each handler; where it is not, ours calls it, and times the event as a
whole.
"""

from __future__ import annotations

import logging
import weakref
from inspect import signature
from time import perf_counter_ns
from typing import Any, Final, Protocol

from ignite.engine import Engine, Events

from seamark.ignite._gpu import GpuTimes
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

__all__ = ["EngineClock", "Listener", "clock_of"]

log = logging.getLogger("seamark")

_NEVER: Final = 1 << 62
_ASKS: Final = frozenset({OTHER, FETCH, STEP, EPOCH, EPOCH_END})

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


class Listener(Protocol):
    """What a profiler is to the clock of an engine.

    Attributes:
        wants_handlers: Whether each handler is to be timed.
        due_ns: When it next wants to be told of an iteration, by ``time.perf_counter_ns``.
    """

    wants_handlers: bool
    due_ns: int

    def opened(self, times: RunTimes) -> None:
        """Hear of a run that begins."""

    def iterated(self, times: RunTimes, now_ns: int, iteration: int) -> None:
        """Hear, not before ``due_ns``, that an iteration is over."""

    def over(self, times: RunTimes) -> None:
        """Hear that a run is over, or just about to be."""


_clocks: weakref.WeakKeyDictionary[Engine, EngineClock] = weakref.WeakKeyDictionary()


def clock_of(engine: Engine) -> EngineClock:
    """Return the clock on an engine; there is one, however many profilers listen to it."""
    found = _clocks.get(engine)
    if found is None:
        found = _clocks[engine] = EngineClock(engine)
    return found


class EngineClock:
    """Times an engine, and tells its listeners; see the module."""

    def __init__(self, engine: Engine) -> None:
        self._ref = weakref.ref(engine)
        self.engine: Any = None  # only while it runs, so that nobody keeps it alive
        self.listeners: list[Listener] = []
        self.use_gpu = False
        self.times: RunTimes | None = None
        self._running = 0
        self._run: Any = None
        self._fire: Any = None
        self._inner: Any = None
        self._before: Any = None
        self._broken = self._debug = False
        self._by_id: dict[int, EventTimes] = {}
        self._reset()
        self._paused_at = 0
        self._gpu: GpuTimes | None = None
        self._take_row: Any = None
        self._handle: Any = None
        self._due_ns = _NEVER
        self._left = FLUSH_AT

    def _reset(self) -> None:
        """Be outside of every event, phase and row."""
        self._depth = self._inside = self._mark = self._phase = 0
        self._row = [0, *EMPTY_ROW]

    # ------------------------------------------------------------ on and off the engine

    def listen(self, listener: Listener, *, gpu: bool) -> None:
        """Tell somebody from now on; in the middle of a run, of the rest of it."""
        engine = self._ref()
        if engine is None:
            return
        self.use_gpu |= gpu
        if listener not in self.listeners:
            self.listeners.append(listener)
            if self._running and self.times is not None:
                listener.opened(self.times)
        if self._run is None:
            self._wrap_run(engine)
        self._disarm(engine)
        self._arm(engine)
        self._refresh_due()

    def leave_alone(self, listener: Listener) -> None:
        """Tell somebody no longer; without listeners, nothing of ours stays on the engine."""
        if listener in self.listeners:
            self.listeners.remove(listener)
        engine = self._ref()
        if self.listeners or engine is None:
            return
        self._disarm(engine)
        if engine.__dict__.get("run") is self._run and self._run is not None:
            before = self._run.before
            if before is None:
                del engine.run
            else:
                engine.__dict__["run"] = before
            self._run = None

    def _wrap_run(self, engine: Engine) -> None:
        """Have ``engine.run`` tell how it ends: an exception fires no event."""
        before = engine.__dict__.get("run")
        clock, ref, plain = self, self._ref, type(engine).run

        def run(*args: Any, **kwargs: Any) -> Any:
            engine = ref()
            call = before if before is not None else plain.__get__(engine)
            if not clock.listeners or engine is None:
                return call(*args, **kwargs)
            clock.begin(engine)
            try:
                return call(*args, **kwargs)
            finally:
                clock.end(engine)

        run.__doc__ = plain.__doc__
        run.__signature__ = signature(engine.run)  # type: ignore[attr-defined]
        run.before = before  # type: ignore[attr-defined]
        self._run = engine.__dict__["run"] = run

    def _arm(self, engine: Engine) -> None:
        before = engine.__dict__.get("_fire_event")
        if self._fire is not None and before is not None:
            return  # somebody has put something around ours, and calls it
        self._before = before
        if before is None:
            # Through the class, so that the engine is not kept alive by its own attribute.
            plain: Any = type(engine)._fire_event  # noqa: SLF001
            ref = self._ref
            self._inner = lambda *args, **kwargs: plain(ref(), *args, **kwargs)
        else:
            self._inner = before
        known = before is None and type(engine)._fire_event is _ENGINE_FIRE and _FIRE_IS_KNOWN  # noqa: SLF001
        wanted = any(one.wants_handlers for one in self.listeners)
        self._handle = self._handle_each if wanted else self._handle_all
        self._fire = self._fire_known if known else self._fire_unknown
        engine.__dict__["_fire_event"] = self._fire

    def _disarm(self, engine: Engine) -> None:
        if self._fire is None or engine.__dict__.get("_fire_event") is not self._fire:
            return
        if self._before is None:
            del engine.__dict__["_fire_event"]
        else:
            engine.__dict__["_fire_event"] = self._before
        self._fire = None

    def begin(self, engine: Engine) -> None:
        """A run begins, or goes on after an interruption."""
        self._running += 1
        if self._running == 1:
            self._broken = False
            self._disarm(engine)  # what is wanted may have changed since
            self._arm(engine)

    def end(self, engine: Engine) -> None:
        """The run is over, however it ended, or interrupted."""
        self._running -= 1
        if self._running:
            return
        self._disarm(engine)
        try:
            self._close(perf_counter_ns())
        except Exception as error:  # noqa: BLE001 - training comes first
            self._fail(error)
        self.engine = None

    # ------------------------------------------------------------ runs

    def _close(self, now: int) -> None:
        times = self.times
        if times is None:
            return
        if times.interrupted:
            self._paused_at = now
            self._by_id = {}
            self._depth = self._inside = 0
            return
        self._finish(times, now)

    def _finish(self, times: RunTimes, now: int) -> None:
        """Close the books of a run."""
        self._write_row()
        times.end_epoch(now)
        self._reset()
        self._by_id = {}
        self.times = None
        if self.engine is not None:
            times.look(self.engine)
        times.flush()
        for one in self.listeners:
            one.over(times)
        times.release()

    def _open(self, engine: Engine) -> None:
        if self.times is not None:
            self.times.interrupted = False
            self._finish(self.times, self._paused_at or perf_counter_ns())
        self._reset()
        self.engine = engine
        times = RunTimes(engine, GpuTimes.make() if self.use_gpu else None)
        self._by_id = times.by_id
        self.times = times
        times.by_handler = self._fire == self._fire_known and self._handle == self._handle_each
        self._gpu = times.gpu
        self._take_row = times.rows.waiting.extend
        for one in self.listeners:
            one.opened(times)
        self._refresh_due()

    def _resume(self, engine: Engine, times: RunTimes) -> None:
        """Go on after an interruption, the time of which counts nowhere."""
        pause = perf_counter_ns() - self._paused_at
        times.interrupted = False
        self.engine = engine
        self._by_id = times.by_id
        self._mark += pause
        if times.epoch_start_ns:
            times.epoch_start_ns += pause

    def _seldom(self, event_name: Any) -> EventTimes | None:
        """Find the times of an event that is not found by its id; None if nobody measures."""
        engine = self._ref()
        if self._broken or engine is None or not self.listeners:
            return None
        try:
            if not self._depth and (event_name == Events.STARTED or not self._by_id):
                self._open_or_resume(engine, event_name)
            if (times := self.times) is None or not self._by_id:
                return None
            if event_name == Events.COMPLETED and not self._depth:
                for one in self.listeners:
                    one.over(times)
            elif event_name == "INTERRUPT":
                times.interrupted = True
            return times.times_of(event_name)
        except Exception as error:  # noqa: BLE001
            self._fail(error)
            return None

    def _open_or_resume(self, engine: Engine, event_name: Any) -> None:
        if event_name not in list(Events):
            return  # fired by a person, outside of a run
        if event_name != Events.STARTED and self.times is not None and self.times.interrupted:
            self._resume(engine, self.times)
        else:
            self._open(engine)  # if this is not STARTED, from the middle of a run on

    def _fail(self, error: Exception) -> None:
        """Measure nothing more in this run, and say so once."""
        if not self._broken:
            self._broken = True
            self._by_id = {}
            log.warning("seamark: the time profiler stops measuring this run: %r", error)

    def _refresh_due(self) -> None:
        self._due_ns = min((one.due_ns for one in self.listeners), default=_NEVER)

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
        # somebody does is asked twice in an iteration.
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
                one = by_entry.get(id(entry)) or times.add(entry, handlers)
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
                self._place(code, start)
        except Exception as error:  # noqa: BLE001
            self._fail(error)

    def _place(self, code: int, start: int) -> None:
        """Begin an event outside of iterations."""
        state, run = self.engine.state, self.times
        self._write_row()
        self._row[0] = (state.epoch << POSITION_SHIFT) + state.iteration
        if code == EPOCH and run is not None:
            run.end_epoch(start)  # where EPOCH_COMPLETED was skipped
            run.epoch_start_ns = start

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
        if times.code == EPOCH_END and not self._depth:
            run.end_epoch(end)
        if times.name == "COMPLETED" and not self._depth and not self._running:
            self._disarm(
                self.engine
            )  # attached in the middle of a run, which does not tell its end
            self._close(end)
            return
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

    def _pause_for(self, now: int) -> None:
        """Between two iterations: take in what waits, and tell whoever wants to know."""
        run = self.times
        if run is None:
            return
        if self._left < 0:
            self._left = FLUSH_AT
            run.flush()
        if now >= self._due_ns:
            for one in self.listeners:
                if now >= one.due_ns:
                    one.iterated(run, now, self.engine.state.iteration)
            self._refresh_due()
