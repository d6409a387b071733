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
from collections.abc import Iterator, Sequence
from inspect import signature
from time import perf_counter_ns
from typing import Any, Final, Protocol

from ignite.engine import Engine, EventEnum, Events

from seamark.ignite._gpu import GpuTimes
from seamark.timing import FLUSH_AT, MISSING, POSITION_SHIFT, Breakdown, Samples, Source

__all__ = ["ALL_HANDLERS", "EngineClock", "Listener", "RunTimes", "clock_of", "handler_name"]

log = logging.getLogger("seamark")

ALL_HANDLERS: Final = "(all handlers)"
"""Name of what is timed where handlers cannot be told apart."""

_OTHER, _FETCH, _FETCHED, _STEP, _STEPPED, _EPOCH, _EPOCH_END = range(7)
_CODES: Final[dict[Any, int]] = {
    Events.GET_BATCH_STARTED: _FETCH,
    Events.GET_BATCH_COMPLETED: _FETCHED,
    Events.ITERATION_STARTED: _STEP,
    Events.ITERATION_COMPLETED: _STEPPED,
    Events.EPOCH_STARTED: _EPOCH,
    Events.EPOCH_COMPLETED: _EPOCH_END,
}
# A row of an iteration: position, dataflow, processing, then the events of codes 1 to 4.
_DATAFLOW, _PROCESSING = 1, 2
_EMPTY: Final = [MISSING] * 6
_NEVER: Final = 1 << 62
# Before these something is to be done: a run opens, a summary is written, a run pauses.
_SELDOM: Final = frozenset({"STARTED", "COMPLETED", "INTERRUPT"})
_OUTSIDE_EPOCHS: Final = frozenset({"STARTED", "COMPLETED"})

# What Engine._fire_event of 0.4.13 up to 0.5.5 is made of. One that uses anything else is unknown.
_KNOWN_NAMES: Final = frozenset(
    "RuntimeError _event_handlers debug epoch isinstance iteration last_event_name logger ref state"
    " tuple update weakref".split()
)
_ENGINE_FIRE: Final = Engine._fire_event  # noqa: SLF001 - what the engine calls for every event
_ENGINE_NAMES: Final = frozenset(_ENGINE_FIRE.__code__.co_names)
_FIRE_IS_KNOWN: Final = _ENGINE_NAMES <= _KNOWN_NAMES
_WEAK_ENGINE: Final = "weakref" in _ENGINE_NAMES  # handlers hold a weak reference, as from 0.5 on
_FILTER_CELLS: Final = ("event_filter", "event_name", "handler", "self")


def handler_name(handler: Any) -> str:
    """Return the name of a handler as Ignite shows it; of a filtered one, what is behind."""
    try:
        parent = getattr(handler, "_parent", None)
        found = parent() if isinstance(parent, weakref.ref) else None
        handler = handler if found is None else found
        return str(getattr(handler, "__qualname__", type(handler).__name__))
    except Exception:  # noqa: BLE001 - a __getattr__ of somebody's
        return type(handler).__name__


def _arguments(engine: Engine, args: Any, given: Any) -> Any:
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


class HandlerTimes:
    """What one handler of one event took."""

    __slots__ = ("condition", "entry", "event_name", "function", "name", "of", "samples", "take_row")

    def __init__(self, entry: Any, name: str) -> None:
        self.name = name
        self.samples = Samples()
        self.take_row = self.samples.waiting.extend
        self.take(entry)

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

    __slots__ = ("by_entry", "code", "event", "handlers", "name", "names", "nested_ns", "samples")

    def __init__(self, event: Any, samples: Samples) -> None:
        self.event = event
        self.name = str(getattr(event, "name", event))
        self.code = _CODES.get(event, _OTHER)
        self.samples = samples
        self.nested_ns = 0
        self.names: list[str] = []
        self.handlers: list[HandlerTimes] = []
        self.by_entry: dict[int, HandlerTimes] = {}

    def add(self, entry: Any, table: Sequence[Any]) -> HandlerTimes:
        """Return the times of a handler that is new in the table.

        It goes on with those of one of the same name that is no longer there: what is added and
        removed again at every iteration must not need memory each time.
        """
        name = handler_name(entry[0])
        alike = [one for one, known in zip(self.handlers, self.names, strict=True) if known == name]
        present = {id(other) for other in table}
        for found in alike:
            if id(found.entry) not in present:
                self.by_entry.pop(id(found.entry), None)
                found.take(entry)
                break
        else:
            found = HandlerTimes(entry, f"{name} #{len(alike) + 1}" if alike else name)
            self.names.append(name)
            self.handlers.append(found)
        self.by_entry[id(entry)] = found
        return found

    def source(self) -> Source:
        """Return all handlers of the event together."""
        column = self.code + 1 if _FETCH <= self.code <= _STEPPED else 0
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
        self.rows = Samples(len(_EMPTY))
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
        for event in engine._allowed_events:  # noqa: SLF001
            self.times_of(event)
        self.look(engine)

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
            one_row = _CODES.get(event, _OTHER) in (_FETCH, _FETCHED, _STEP, _STEPPED)
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

    def release(self) -> None:
        """Forget the handlers themselves; the run is over."""
        for event in self.events.values():
            event.by_entry = {}
            for handler in event.handlers:
                handler.release()

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
        for one in self.handler_sources() if by_handler else self.event_sources():
            if (one.event or one.name) not in _OUTSIDE_EPOCHS and one.own_ns:
                what = (
                    f"the handler {one.name} on {one.event}" if by_handler
                    else f"the handlers of {one.name}"
                )  # fmt: skip
                parts.append((what, one.own_ns))
        in_seconds = tuple((what, ns / 1e9 / epochs) for what, ns in parts)
        return Breakdown(in_seconds, whole / 1e9 / epochs, epochs)


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
        self._broken = False
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
        self._row = [0, *_EMPTY]

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
                engine.run = before
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
        self._run = engine.run = run  # type: ignore[method-assign]

    def _arm(self, engine: Engine) -> None:
        before = engine.__dict__.get("_fire_event")
        if self._fire is not None and before is not None:
            return  # somebody has put something around ours, and calls it
        self._before = before
        if before is None:
            # Through the class, so that the engine is not kept alive by its own attribute.
            cls, ref = type(engine), self._ref
            self._inner = lambda *args, **kwargs: cls._fire_event(ref(), *args, **kwargs)  # noqa: SLF001
        else:
            self._inner = before
        known = before is None and type(engine)._fire_event is _ENGINE_FIRE and _FIRE_IS_KNOWN  # noqa: SLF001
        wanted = any(one.wants_handlers for one in self.listeners)
        self._handle = self._handle_each if wanted else self._handle_all
        self._fire = self._fire_known if known else self._fire_unknown
        engine._fire_event = self._fire  # noqa: SLF001

    def _disarm(self, engine: Engine) -> None:
        if self._fire is None or engine.__dict__.get("_fire_event") is not self._fire:
            return
        if self._before is None:
            del engine.__dict__["_fire_event"]
        else:
            engine._fire_event = self._before  # noqa: SLF001
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
            if not self._depth:
                if event_name == Events.STARTED:
                    self._open(engine)
                elif not self._by_id:
                    if event_name not in list(Events):
                        return None  # fired by a person, outside of a run
                    if self.times is not None and self.times.interrupted:
                        self._resume(engine, self.times)
                    else:
                        self._open(engine)  # attached in the middle of a run
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
        logger = engine.logger
        # Half of the time of the engine's own method goes into this message, which nobody sees.
        if type(logger) is not logging.Logger or logger.isEnabledFor(logging.DEBUG):
            state = engine.state
            logger.debug(f"{state.epoch} | {state.iteration}, Firing handlers for event {event_name}")  # noqa: G004 - word for word
        engine.last_event_name = event_name
        handlers = engine._event_handlers[event_name]  # noqa: SLF001
        outer = self._inside
        start = perf_counter_ns()
        self._enter(times, start, outer)
        self._inside = 0
        if not handlers:
            self._leave(times, start, perf_counter_ns(), outer)
            return
        self._depth += 1
        try:
            self._handle(times, handlers, event_args, event_kwargs)
        finally:
            self._depth -= 1
            self._leave(times, start, perf_counter_ns(), outer)

    def _handle_all(self, times: EventTimes, handlers: Any, given: Any, named: Any) -> None:
        """Call the handlers of an event."""
        engine = self.engine
        for func, args, kwargs in handlers:
            if named:
                kwargs.update(named)
            func(*(_arguments(engine, args, given) if args else given), **kwargs)

    def _handle_each(self, times: EventTimes, handlers: Any, given: Any, named: Any) -> None:
        """Call the handlers of an event, and time each.

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

    def _nest(self, times: EventTimes, one: HandlerTimes) -> None:
        """Note that part of a handler's time is that of an event which it fired."""
        one.samples.nested_ns += self._inside
        times.nested_ns += self._inside
        self._inside = 0

    def _enter(self, times: EventTimes, start: int, outer: int) -> None:
        """Begin an event; a batch or a step may end with it.

        The events of an iteration come here four times in each: the order of the cases matters.
        """
        if self._depth:
            return
        code = times.code
        row = self._row
        try:
            if code == _STEPPED:
                if self._phase == _STEP:
                    row[_PROCESSING] = start - self._mark
                    self._phase = 0
                    if outer:
                        self.times.processing_nested_ns += outer  # type: ignore[union-attr]
                    if self._gpu is not None:
                        self._gpu.end(row[0])
            elif code == _STEP:
                state = self.engine.state
                row[0] = (state.epoch << POSITION_SHIFT) + state.iteration
            elif code == _FETCHED:
                if self._phase == _FETCH:
                    row[_DATAFLOW] = start - self._mark
                    self._phase = 0
                    if outer:
                        self.times.dataflow_nested_ns += outer  # type: ignore[union-attr]
            elif code == _FETCH:
                if self._phase or row[_STEP + 2] >= 0:
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
        if code == _EPOCH and run is not None:
            run.end_epoch(start)  # where EPOCH_COMPLETED was skipped
            run.epoch_start_ns = start

    def _leave(self, times: EventTimes, start: int, end: int, outer: int) -> None:
        """End an event; a batch or a step may begin with it."""
        code = times.code
        try:
            if self._inside:
                times.nested_ns += self._inside
            if self._depth or code == _OTHER or code > _STEPPED:
                self._leave_other(times, end - start, end)
                self._inside = outer + end - start
                return
            self._inside = 0
            row = self._row
            row[code + 2] = end - start
            if code == _STEPPED:
                self._take_row(row)
                self._row = [row[0], *_EMPTY]
                self._left -= 1
                if self._left < 0 or end >= self._due_ns:
                    self._pause_for(end)
            elif code != _FETCHED:
                self._mark = end
                self._phase = code
                if code == _STEP and self._gpu is not None:
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
            row = [self._row[0], *_EMPTY]
            row[times.code + 2] = took
        samples.waiting.extend(row)
        if times.code == _EPOCH_END and not self._depth:
            run.end_epoch(end)
        if times.name == "COMPLETED" and not self._depth and not self._running:
            self._disarm(self.engine)  # attached in the middle of a run, which does not tell its end
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
            self._row = [row[0], *_EMPTY]

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
