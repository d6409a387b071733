"""The clock on one engine: times the engine's runs, and tells its listeners.

An engine calls its own ``_fire_event`` for every event. While somebody listens, the instance has a
``_fire_event`` of ours in its place. The table of handlers is only read. Where the engine's method
is known to the letter, ours does what it does, and looks at the clock around each handler; where it
is not, ours calls it, and times the event as a whole.

Around the engine's ``_internal_run`` (around ``run`` where that is not known) ours hears when a
run ends, since an exception fires no event, and when it goes on after an interruption. A
``__getstate__`` lets a copy of the engine be a plain engine and not another name of this one.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from inspect import signature
from threading import get_ident
from time import perf_counter_ns
from types import FunctionType
from typing import Any, Final, Protocol

from ignite.engine import Engine, EventEnum, Events

from seamark.ignite._gpu import GpuTimes
from seamark.ignite._known import FILTER, RUN, STRONG_FIRE, WEAK_FIRE, source_of
from seamark.ignite._times import (
    ASIDE,
    EMPTY_ROW,
    END,
    EPOCH,
    EPOCH_END,
    FETCH,
    STEP,
    STEPPED,
    EventTimes,
    HandlerTimes,
    RunTimes,
)
from seamark.process.interrupts import let_pass
from seamark.profiling import FLUSH_AT, POSITION_SHIFT, position_parts

__all__ = ["NEVER", "EngineClock", "Listener", "clock_of"]

log = logging.getLogger("seamark")

NEVER: Final = 1 << 62
_FILTER_CELLS: Final = ("event_filter", "event_name", "handler", "self")


class Listener(Protocol):
    """What a profiler is to the clock of an engine.

    Attributes:
        wants_handlers: Whether each handler is to be timed.
        wants_gpu: Whether steps are to be timed on the GPU too.
        due_ns: When it next wants to be told of an iteration, by ``time.perf_counter_ns``.
    """

    wants_handlers: bool
    wants_gpu: bool
    due_ns: int

    def opened(self, times: RunTimes) -> None:
        """Hear of a run that begins, or goes on."""

    def iterated(self, times: RunTimes, now_ns: int, iteration: int) -> None:
        """Hear, not before ``due_ns``, that an iteration is over."""

    def over(self, times: RunTimes) -> None:
        """Hear that a run is over, or just about to be; these are its numbers from now on."""


_clocks: weakref.WeakKeyDictionary[Engine, weakref.ref[EngineClock]] = weakref.WeakKeyDictionary()


def clock_of(engine: Engine) -> EngineClock:
    """Return the clock on an engine; there is one, however many profilers listen to it."""
    found = _clocks.get(engine)
    clock = None if found is None else found()
    if clock is None:
        clock = EngineClock(engine)
        _clocks[engine] = weakref.ref(clock)  # the engine keeps it, so that both can go
    return clock


class _Track:
    """Where a thread is in a run.

    Attributes:
        run: The run.
        depth: How many events are being handled, one inside the other.
        inside_ns: Time of the events that were fired inside of the current handler or phase.
        phase: `FETCH` while the engine waits for a batch, `STEP` during a step, `END` at the end.
        mark: When the phase began.
        row: Position and times of the current iteration.
        take: Takes the row when the iteration is over.
    """

    __slots__ = ("depth", "inside_ns", "mark", "phase", "row", "run", "take")

    def __init__(self, run: RunTimes, depth: int = 0) -> None:
        self.run = run
        self.depth = depth
        self.inside_ns = self.mark = self.phase = 0
        self.row = [0, *EMPTY_ROW]
        self.take: Callable[[list[int]], None] = run.rows.waiting.extend


class _Call:
    """A handler of the engine's table, and where its times go.

    Attributes:
        entry: Kept, so that its id stays its own.
        condition: The filter of ``Events.X(every=...)``: a call that it stops is no call.
    """

    __slots__ = ("condition", "entry", "event", "event_name", "function", "of", "take", "times")

    def __init__(self, event: EventTimes, entry: Any, times: HandlerTimes) -> None:
        self.event = event
        self.entry = entry
        self.times = times
        self.take = times.samples.waiting.extend
        self.function: Any = entry[0]
        self.condition = self.event_name = self.of = None
        code = self.function.__code__ if isinstance(self.function, FunctionType) else None
        if code is not None and code in _filters() and code.co_freevars == _FILTER_CELLS:
            cells = [cell.cell_contents for cell in self.function.__closure__ or ()]
            self.condition, self.event_name, self.function, self.of = cells


def _filters() -> tuple[Any, ...]:
    """Return the code that Ignite puts around a handler that has a filter, if it is known."""
    wrapper: Any = getattr(Engine, "_handler_wrapper", None)
    return wrapper.__code__.co_consts if source_of(wrapper) in FILTER else ()


def _name_of(handler: Any) -> str:
    """Return the name of a handler as Ignite shows it; of a filtered one, what is behind."""
    try:
        parent = getattr(handler, "_parent", None)
        found = parent() if isinstance(parent, weakref.ref) else None
        handler = handler if found is None else found
        return str(getattr(handler, "__qualname__", type(handler).__name__))
    except Exception as error:  # noqa: BLE001 - a __getattr__ of somebody's
        let_pass(error)
        return type(handler).__name__


class EngineClock:
    """Times an engine, and tells its listeners; see the module."""

    def __init__(self, engine: Engine) -> None:
        self._ref = weakref.ref(engine)
        self.listeners: list[Listener] = []
        self.run: RunTimes | None = None
        self._track = _Track(RunTimes())
        self._others: dict[int, _Track] = {}
        self._thread = 0
        self._events: dict[int, EventTimes] = {}  # by the id of the event
        self._calls: dict[int, _Call] = {}  # by the id of the entry
        self._adding = threading.Lock()  # whoever reads results adds handlers too
        self._ours: dict[str, Any] = {}
        self._before: dict[str, Any] = {}
        self._inner: Any = None
        self._fire: Any = None
        self._handle: Any = self._handle_all
        self._debug = self._broken = self._joining = self._weak = False
        self._due_ns = NEVER
        self._left = FLUSH_AT

    # ------------------------------------------------------------ on and off the engine

    def listen(self, listener: Listener) -> None:
        """Tell somebody from now on; in the middle of a run, of the rest of it."""
        engine = self._ref()
        if engine is None:
            return
        if listener not in self.listeners:
            self.listeners.append(listener)
            if self.run is not None:
                listener.opened(self.run)
        if "__getstate__" not in self._ours:
            self._put_on(engine)
        self._joining = engine.last_event_name not in (None, Events.COMPLETED)
        self._refresh()

    def leave_alone(self, listener: Listener) -> None:
        """Tell somebody no longer; without listeners, nothing of ours stays on the engine."""
        if listener not in self.listeners:
            return
        if len(self.listeners) == 1:
            self._finish()
        elif self.run is not None:
            listener.over(self.run.apart(perf_counter_ns()))
        self.listeners.remove(listener)
        engine = self._ref()
        if not self.listeners and engine is not None:
            self._take_off(engine)

    def _put_on(self, engine: Engine) -> None:
        cls = type(engine)
        fire = getattr(cls, "_fire_event", None)
        if fire is None:
            log.warning("seamark: this release of Ignite fires events in a way that is not known")
            return
        ours = {"__getstate__": self._state_of_a_copy}
        if "_fire_event" not in self._ours:
            source = "" if "_fire_event" in engine.__dict__ else source_of(fire)
            self._weak = source in WEAK_FIRE
            self._fire = self._fire_known if source in WEAK_FIRE | STRONG_FIRE else self._fire_whole
            self._inner = self._plain(engine, "_fire_event")
            ours["_fire_event"] = self._fire
        known = source_of(getattr(cls, "_internal_run", None)) in RUN
        for name in ("_internal_run", "_internal_run_legacy") if known else ("run",):
            if name not in self._ours and hasattr(cls, name):
                ours[name] = self._heard(engine, name)
        for name, one in ours.items():
            self._before[name] = engine.__dict__.get(name)
            self._ours[name] = engine.__dict__[name] = one

    def _take_off(self, engine: Engine) -> None:
        for name, one in list(self._ours.items()):
            if engine.__dict__.get(name) is one:  # else somebody put something around ours
                del self._ours[name]
                if (before := self._before.pop(name)) is None:
                    del engine.__dict__[name]
                else:
                    engine.__dict__[name] = before

    def _plain(self, engine: Engine, name: str) -> Any:
        """Return a method as it was before, by which the engine is not kept alive."""
        if (before := engine.__dict__.get(name)) is not None:
            return before
        ref, plain = self._ref, getattr(type(engine), name)
        return lambda *args, **kwargs: plain(ref(), *args, **kwargs)

    def _heard(self, engine: Engine, name: str) -> Any:
        """Return what runs the engine by its own method, and tells us when."""
        plain = self._plain(engine, name)

        def run(*args: Any, **kwargs: Any) -> Any:
            before = self._begins()
            try:
                return plain(*args, **kwargs)
            finally:
                self._ended(before)

        run.__doc__ = getattr(type(engine), name).__doc__
        run.__signature__ = signature(getattr(engine, name))  # type: ignore[attr-defined]
        return run

    def _state_of_a_copy(self) -> Any:
        """Return what a copy or a pickle of the engine is made of: nothing of ours."""
        engine: Any = self._ref()
        plain = getattr(type(engine), "__getstate__", None)
        state = engine.__dict__ if plain is None else plain(engine)
        if not isinstance(state, dict):
            return state
        ours = [name for name, one in self._ours.items() if state.get(name) is one]
        found = {**state, **{name: self._before[name] for name in ours}}
        return {name: one for name, one in found.items() if name not in ours or one is not None}

    def _refresh(self) -> None:
        """Do what the listeners want now."""
        each = any(one.wants_handlers for one in self.listeners)
        self._handle = self._handle_each if each else self._handle_all
        if self.run is not None and each and self._fire == self._fire_known:
            self.run.by_handler = True
        self._due_ns = min((one.due_ns for one in self.listeners), default=NEVER)

    # ------------------------------------------------------------ runs

    def _begins(self) -> RunTimes | None:
        """Hear that a run begins or goes on; return the one that goes on around it."""
        if self.run is not None and self.run.paused_ns:
            self._resume(self.run)
            return None
        return self.run

    def _ended(self, around: RunTimes | None) -> None:
        """Hear that the run is over, however it ended, or interrupted."""
        self._joining = False
        if self.run is not around and self.run is not None and not self.run.paused_ns:
            self._finish()

    def _open(self, engine: Engine) -> None:
        self._finish()
        gpu = GpuTimes.make() if any(one.wants_gpu for one in self.listeners) else None
        run = self.run = RunTimes(engine, gpu)
        run.times_of(Events.ITERATION_STARTED).is_quick = gpu is None
        self._track = _Track(run)
        self._track.row[0] = _position(engine)
        self._others = {}
        self._thread = get_ident()
        self._broken = False
        self.look()
        for one in self.listeners:
            one.opened(run)
        self._refresh()

    def _finish(self) -> None:
        """Close the books of the run, if one is open."""
        run = self.run
        if run is None:
            return
        try:
            if not run.paused_ns:
                self.look()
            self._write_row(self._track)
            self._track.take = _nowhere  # a handler may have us close them, and is timed itself
            run.end_epoch(run.paused_ns or perf_counter_ns())
            run.paused_ns = 0
            self.run = None
            self._release()
            run.flush()
            for one in self.listeners:
                one.over(run)
        except Exception as error:  # noqa: BLE001 - training comes first
            self.run = None
            self._release()
            self._fail(error)

    def _release(self) -> None:
        """Forget the handlers, which may hold the engine or a model."""
        self._events = {}
        self._calls = {}

    def _pause(self, run: RunTimes, now: int) -> None:
        run.paused_ns = now
        self._release()

    def _resume(self, run: RunTimes) -> None:
        """Go on after an interruption, the time of which counts nowhere."""
        pause, run.paused_ns = perf_counter_ns() - run.paused_ns, 0
        self._thread = get_ident()
        self._track.mark += pause
        if run.epoch_start_ns:
            run.epoch_start_ns += pause

    def look(self) -> None:
        """Take in handlers that were added since."""
        run, engine = self.run, self._ref()
        if run is None or run.paused_ns or engine is None:
            return
        for event, entries in list(getattr(engine, "_event_handlers", {}).items()):
            times = run.times_of(event)
            for entry in list(entries):
                self._calls.get(id(entry)) or self._call(times, entry, entries)

    def _call(self, event: EventTimes, entry: Any, table: Any) -> _Call:
        """Return where the times of a handler go that is new in the table.

        It goes on with those of one of the same name that is no longer there: what is added and
        removed again at every iteration must not need memory each time.
        """
        with self._adding:
            if (found := self._calls.get(id(entry))) is not None:
                return found
            present = {id(one) for one in table}
            of_event = [(key, one) for key, one in self._calls.items() if one.event is event]
            for key, _ in of_event:
                if key not in present:
                    del self._calls[key]
            taken = {id(one.times) for key, one in of_event if key in present}
            name = _name_of(entry[0])
            alike = [one for one in event.handlers if one.own_name == name]
            times = next((one for one in alike if id(one) not in taken), None)
            if times is None:
                times = HandlerTimes(name, f"{name} #{len(alike) + 1}" if alike else name)
                event.handlers.append(times)
            found = self._calls[id(entry)] = _Call(event, entry, times)
            return found

    def _fail(self, error: Exception) -> None:
        """Measure nothing more in this run, and say so once.

        Raises:
            Exception: The error, if a signal handler raised it.
        """
        let_pass(error)
        if not self._broken:
            self._broken = True
            self._events = {}
            log.warning("seamark: the time profiler stops measuring this run: %r", error)

    # ------------------------------------------------------------ events that are not found by id

    def _find(self, event_name: Any) -> EventTimes | None:
        """Return the times of an event; None if nobody measures it."""
        engine = self._ref()
        if engine is None or not self.listeners:
            return None
        try:
            if event_name == Events.STARTED and self._is_start(engine):
                self._open(engine)
            elif self._broken or (self.run is None and not self._join(engine, event_name)):
                return None
            assert self.run is not None  # noqa: S101 - opened, or joined
            event = self.run.times_of(event_name)
            if self.run.paused_ns and event.code:
                self._track.phase = 0  # nobody heard how long the pause was
                self._resume(self.run)
            if event.name == "COMPLETED" and self._is_outermost():
                self._complete(self.run)
            elif isinstance(event_name, EventEnum) and event.name not in ("STARTED", "COMPLETED"):
                self._events[id(event_name)] = event
        except Exception as error:  # noqa: BLE001
            self._fail(error)
            return None
        return event

    def _is_outermost(self) -> bool:
        return get_ident() == self._thread and not self._track.depth

    def _is_start(self, engine: Engine) -> bool:
        """Tell a run that begins, maybe in a handler of COMPLETED, from an event fired by hand."""
        state: Any = engine.state
        begins = self._track.phase == END or not (state.epoch or state.iteration)
        return self.run is None or begins or self._is_outermost()

    def _join(self, engine: Engine, event_name: Any) -> bool:
        """Begin in the middle of a run, if it is one."""
        if not self._joining or event_name not in list(Events):
            return False
        self._open(engine)
        assert self.run is not None  # noqa: S101
        if event_name == Events.GET_BATCH_COMPLETED:
            self._track.row[0] += 1
        code = self.run.times_of(event_name).code
        if FETCH <= code <= EPOCH_END and code != EPOCH:
            self.run.epoch_start_ns = perf_counter_ns()
        return True

    def _complete(self, run: RunTimes) -> None:
        """Have the summary be there for handlers of COMPLETED, which may end what it goes into."""
        self._write_row(self._track)
        run.end_epoch(perf_counter_ns())
        self._track.phase = END
        self._track.row[0] = _position(self._ref())
        for one in self.listeners:
            one.over(run)

    # ------------------------------------------------------------ every event: the hot path

    def _fire_whole(self, event_name: Any, *event_args: Any, **event_kwargs: Any) -> None:
        """Fire an event by the engine's own method, which may do more than we know."""
        event = self._events.get(id(event_name)) or self._find(event_name)
        if event is None:
            self._inner(event_name, *event_args, **event_kwargs)
            return
        engine = self._ref()
        track = self._track if get_ident() == self._thread else self._elsewhere()
        depth, outer = track.depth, track.inside_ns
        start = self._enter(event, track, engine)
        track.depth, track.inside_ns = depth + 1, 0
        try:
            self._inner(event_name, *event_args, **event_kwargs)
        finally:
            end = perf_counter_ns()
            track.depth = depth
            self._leave(event, track, start, end, outer)

    def _fire_known(self, event_name: Any, *event_args: Any, **event_kwargs: Any) -> None:
        """Fire an event as the engine's own method does, and look at the clock on the way."""
        event = self._events.get(id(event_name)) or self._find(event_name)
        if event is None:
            self._inner(event_name, *event_args, **event_kwargs)
            return
        engine: Any = self._ref()
        # Half of the time of the engine's own method goes into a message that nobody sees. Whether
        # somebody does is asked once in an iteration.
        if event.asks:
            logger = engine.logger
            self._debug = type(logger) is not logging.Logger or logger.isEnabledFor(logging.DEBUG)
        if self._debug:
            state = engine.state
            text = f"{state.epoch} | {state.iteration}, Firing handlers for event {event_name}"
            engine.logger.debug(text)
        engine.last_event_name = event_name
        handlers = engine._event_handlers[event_name]  # noqa: SLF001
        track = self._track if get_ident() == self._thread else self._elsewhere()
        depth, outer = track.depth, track.inside_ns
        start = self._enter(event, track, engine)
        track.inside_ns = 0
        if not handlers:  # nobody there: no time
            if event.is_quick and not depth:  # as `_leave` does, without a call
                track.row[event.code + 2] = 0
                if not event.ends:
                    track.mark = start
                    track.phase = event.code
            else:
                self._leave(event, track, start, start, outer)
            return
        track.depth = depth + 1
        try:
            end = self._handle(event, track, handlers, event_args, event_kwargs)
        except BaseException:
            end = perf_counter_ns()
            raise
        finally:
            track.depth = depth
            self._leave(event, track, start, end, outer)

    def _arguments(self, args: Any, given: Any) -> Any:
        """Return with what a handler is called: engine if it asked for it, event's, its own.

        Raises:
            RuntimeError: If the engine is gone, as Ignite does.
        """
        first = args[0]
        if self._weak:
            if not isinstance(first, weakref.ref):
                return given + args
            engine = first()
            if engine is None:
                msg = "Engine reference not resolved. Cannot execute event handler."
                raise RuntimeError(msg)
            return (engine, *given, *args[1:])
        return (first, *given, *args[1:]) if first == self._ref() else given + args

    def _handle_all(
        self, _event: EventTimes, _track: _Track, handlers: Any, given: Any, named: Any
    ) -> int:
        """Call the handlers of an event, and return when that was done."""
        for func, args, kwargs in handlers:
            if named:
                kwargs.update(named)
            func(*(self._arguments(args, given) if args else given), **kwargs)
        return perf_counter_ns()

    def _handle_each(
        self, event: EventTimes, track: _Track, handlers: Any, given: Any, named: Any
    ) -> int:
        """Call the handlers of an event, time each, and return when that was done.

        One look at the clock ends a handler and begins the next: a second one costs more than all
        that lies between.
        """
        at, calls, outside = track.row[0], self._calls, not track.run.epoch_start_ns
        found: _Call | None = None
        start = perf_counter_ns()
        try:
            for entry in handlers:
                func, args, kwargs = entry
                if named:
                    kwargs.update(named)
                one = calls.get(id(entry)) or self._new(event, entry, handlers)
                if one.condition is not None:
                    of: Any = one.of
                    if not one.condition(of, of.state.get_event_attrib_value(one.event_name)):
                        start = perf_counter_ns()
                        continue
                    func = one.function
                found = one
                if args:
                    func(*self._arguments(args, given), **kwargs)
                else:
                    func(*given, **kwargs)
                now = perf_counter_ns()
                one.take((at, now - start))
                if track.inside_ns or outside:
                    self._own(event, track, one.times, now - start)
                start = now
                found = None
        except BaseException:
            if found is not None:
                took = perf_counter_ns() - start
                found.take((at, took))
                self._own(event, track, found.times, took)
            raise
        return start

    def _own(self, event: EventTimes, track: _Track, one: HandlerTimes, took: int) -> None:
        """Note what part of a handler's time is that of events which it fired, and no epoch's."""
        inside, track.inside_ns = track.inside_ns, 0
        one.samples.nested_ns += inside
        event.nested_ns += inside
        if not track.run.epoch_start_ns:
            one.outside_ns += took - inside
            event.outside_ns -= inside

    def _new(self, event: EventTimes, entry: Any, handlers: Any) -> _Call:
        try:
            return self._call(event, entry, handlers)
        except Exception as error:  # noqa: BLE001 - training comes first
            self._fail(error)
            return _Call(event, entry, HandlerTimes("?", "?"))

    def _elsewhere(self) -> _Track:
        """Return the track of a thread other than the engine's, which is in no phase of its own."""
        found = self._others.get(get_ident())
        if found is None:
            found = self._others[get_ident()] = _Track(self._track.run, depth=1)
        found.row = self._track.row
        return found

    def _enter(  # noqa: C901 - taken apart, it would cost a call each time
        self, event: EventTimes, track: _Track, engine: Any
    ) -> int:
        """Begin an event, and return when its handlers begin; a batch or a step may end with it.

        The events of an iteration come here four times in each: the order of the cases matters.
        """
        code = event.code
        if track.depth or not code:
            return perf_counter_ns()
        row = track.row
        try:
            if event.ends:
                now = perf_counter_ns()
                if track.phase == event.ends:
                    track.phase = 0
                    row[code >> 1] = now - track.mark
                    if track.inside_ns:
                        track.run.nested_ns[(code >> 1) - 1] += track.inside_ns
                    if code == STEPPED and track.run.gpu is not None:
                        track.run.gpu.end(row[0])
                return now
            if code == STEP:
                state = engine.state
                row[0] = (state.epoch << POSITION_SHIFT) + state.iteration
            elif code == FETCH:
                if row[FETCH + 2] >= 0 or row[STEP + 2] >= 0:
                    self._write_row(track)  # an iteration that broke off
                state = engine.state
                track.row[0] = (state.epoch << POSITION_SHIFT) + state.iteration + 1
            elif code != ASIDE:
                self._write_row(track)
                track.row[0] = _position(engine)
                if code != EPOCH_END:
                    track.run.end_epoch(perf_counter_ns())
                if code == EPOCH:
                    track.run.epoch_start_ns = perf_counter_ns()
        except Exception as error:  # noqa: BLE001
            self._fail(error)
        return perf_counter_ns()

    def _leave(self, event: EventTimes, track: _Track, start: int, end: int, outer: int) -> None:
        """End an event; a batch or a step may begin with it."""
        code = event.code
        try:
            if inside := track.inside_ns:
                event.nested_ns += inside
            if track.depth or not event.in_row:
                track.inside_ns = outer
                self._leave_other(event, track, end - start, inside, end)
                return
            track.inside_ns = 0
            row = track.row
            row[code + 2] = end - start
            if code == STEPPED:
                track.take(row)
                track.row = [row[0], *EMPTY_ROW]
                self._left -= 1
                if self._left < 0 or end >= self._due_ns:
                    self._between(track.run, end, position_parts(row[0])[1])
            elif not event.ends:
                track.mark = end
                track.phase = code
                if code == STEP and track.run.gpu is not None:
                    track.run.gpu.begin()
        except Exception as error:  # noqa: BLE001
            self._fail(error)

    def _leave_other(
        self, event: EventTimes, track: _Track, took: int, inside: int, end: int
    ) -> None:
        """End an event that is none of the four of an iteration, or was fired by a handler."""
        run, samples, code = track.run, event.samples, event.code
        row = [track.row[0], took]
        if samples is run.rows:
            row = [track.row[0], *EMPTY_ROW]
            row[code + 2] = took
        samples.waiting.extend(row)
        if not run.epoch_start_ns:
            event.outside_ns += took - inside
        self._left -= 1
        if self._left < -FLUSH_AT:  # thousands of events in one iteration
            self._left = FLUSH_AT
            run.flush()
        if code != ASIDE or track.depth:
            track.inside_ns += took
        else:
            track.mark += took
            if event.name == "INTERRUPT" and getattr(self._ref(), "should_interrupt", True):
                self._pause(run, end)
        if track.depth:
            return
        if code == EPOCH_END:
            run.end_epoch(end)
        elif event.name == "COMPLETED" and self.run is run:
            self._finish()

    def _between(self, run: RunTimes, now: int, iteration: int) -> None:
        """Take in what waits between two iterations, and tell whoever wants to know."""
        if self._left < 0:
            self._left = FLUSH_AT
            run.flush()
        for one in self.listeners:
            if now >= one.due_ns:
                one.iterated(run, now, iteration)
        self._refresh()

    def _write_row(self, track: _Track) -> None:
        """Write the row of an iteration that broke off, if there is anything in it."""
        row = track.row
        track.phase = 0
        if max(row[1:]) >= 0:
            track.take(row)
            track.row = [row[0], *EMPTY_ROW]


def _position(engine: Any) -> int:
    state = engine.state
    return (state.epoch << POSITION_SHIFT) + state.iteration  # type: ignore[no-any-return]


def _nowhere(row: Any) -> None:
    """Take the row of a run whose books are closed."""
