"""Clock on an engine, to which profilers are attached.

Like Ignite's own profilers, it wraps the entries of the engine's table of handlers. A probe follows
the handlers of each event, and precedes those of some events.
"""

from __future__ import annotations

import itertools
import logging
import weakref
from collections import defaultdict
from collections.abc import Iterable
from threading import get_ident
from time import perf_counter_ns
from types import CellType, FunctionType
from typing import Any, Final, NamedTuple

import torch
from ignite.engine import Engine, Events

from seamark.ignite._times import FREQUENT, GpuTimes, HandlerTimes, RunTimes
from seamark.process.interrupts import let_pass, quietly
from seamark.profiling import LOCK, POSITION_SHIFT, position

log = logging.getLogger("seamark")

_FULL: Final = 1 << 18
_FLUSH_EVERY_NS: Final = 1_000_000_000
_OUTSIDE_EPOCHS: Final = frozenset(
    {
        Events.STARTED,
        Events.EPOCH_STARTED,
        Events.TERMINATE,
        Events.COMPLETED,
        Events.INTERRUPT,
    }
)
"""Events that do not show that an epoch is running."""


class _Mark(NamedTuple):
    # The original entry of a timed function, and its times.

    function: Any
    times: HandlerTimes | None


_PROBE: Final = _Mark(None, None)


def _mark_of(function: Any) -> Any:
    return vars(function).get("_seamark") if type(function) is FunctionType else None


def _behind_filter(function: Any, handler: Any, timed: Any) -> Any:
    # The copy calls the timed handler instead of the original one. None if the handler is not found
    # in the closure: then filter and handler are timed together.
    if function is handler:
        return None
    cells = function.__closure__ or ()
    found = tuple(CellType(timed) if cell.cell_contents is handler else cell for cell in cells)
    if all(new is old for new, old in zip(found, cells, strict=True)):
        return None
    return FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, found
    )


def _nothing(_now_ns: int) -> None:
    pass


def _name_of(handler: Any) -> str:
    with quietly():  # a user's __getattr__ may raise
        return str(getattr(handler, "__qualname__", type(handler).__name__))
    return type(handler).__name__


class _Entries(list[Any]):
    # Handlers of an event, each timed as soon as it is added, and the probes around them. Ignite
    # appends to this list, and replaces it to remove handlers.

    def __init__(self, clock: EngineClock, event: Any, entries: Iterable[Any] = ()) -> None:
        first, last = clock.probes(event)
        super().__init__((probe, (), {}) for probe in [*first, *last])
        self._clock, self._event, self._last = clock, event, len(last)
        for entry in entries:
            self.append(entry)

    def append(self, entry: Any) -> None:
        function, *given = entry
        if (mark := _mark_of(function)) is None:
            with quietly():  # it is then called unchanged
                function = self._clock.timed(self._event, function, self.times())
        if mark is not _PROBE:  # every list has its own probes
            self.insert(len(self) - self._last, (function, *given))

    def times(self) -> list[HandlerTimes]:
        marks = [_mark_of(function) for function, *_ in self]
        return [mark.times for mark in marks if mark is not None and mark is not _PROBE]


class _Table(dict[Any, Any]):
    def __init__(self, clock: EngineClock, plain: Any) -> None:
        super().__init__()
        self.clock = clock
        # An empty list for EXCEPTION_RAISED would hide exceptions from the caller.
        events = [event for event in Events if event != Events.EXCEPTION_RAISED]
        for event in dict.fromkeys([*events, *plain]):
            self[event] = plain.get(event, ())

    def __missing__(self, event: Any) -> Any:
        self[event] = ()
        return self[event]

    def __setitem__(self, event: Any, entries: Any) -> None:
        super().__setitem__(event, _Entries(self.clock, event, entries))

    def plain(self) -> Any:
        found = defaultdict(list)
        for event, entries in list(self.items()):
            for function, *given in list(entries):
                if (mark := _mark_of(function)) is not _PROBE:
                    found[event].append((mark.function if mark else function, *given))
        return found

    def __reduce__(self) -> Any:
        # A copy of the engine has no clock.
        return defaultdict, (list, dict(self.plain()))


class EngineClock:
    """Clock that times the events of an engine for the attached profilers.

    Attributes:
        times: Times of the current or latest run.
        thread: The thread that runs the engine; 0 while nothing is timed.
        handlers_ns: Time of all handlers so far, with nested ones counted once.
        lap_ns: Time from which the duration of the epoch is still to be added; 0 outside epochs.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = weakref.ref(engine)
        self._listeners: list[Any] = []  # of `seamark.ignite._profilers.EngineProfiler`
        self.times = RunTimes()
        self._fetch, self._fetched, self._start, self._stepped = map(self.times.of_event, FREQUENT)
        self.state: Any = None
        self.thread = self.handlers_ns = self.lap_ns = 0
        self._wait_ns = self._step_ns = 0  # start of the current wait or step
        self._handlers_before_ns = self._due_ns = 0
        # Whether ITERATION_COMPLETED happened and is still to be added.
        self._has_stepped = False
        # Whether a run is measured, and whether its next event shows which thread runs it.
        self._is_open = self._awaits_engine = False
        self._has_warned = False
        engine._event_handlers = _Table(self, engine._event_handlers)  # noqa: SLF001

    # ------------------------------------------------------------ listeners

    @classmethod
    def of(cls, engine: Engine) -> EngineClock:
        """Return the clock on an engine, creating it if there is none."""
        found = getattr(engine._event_handlers, "clock", None)  # noqa: SLF001
        return cls(engine) if found is None else found

    def add(self, listener: Any) -> None:
        """Add a listener, also in the middle of a run."""
        if listener in self._listeners:
            return
        self._listeners.append(listener)
        engine: Any = self._engine()
        is_first = len(self._listeners) == 1
        if is_first and engine.last_event_name not in (None, Events.COMPLETED):
            self._restart()
            self._awaits_engine = True
        if self._is_open:
            listener.begin(self.times)

    def remove(self, listener: Any) -> None:
        """Remove a listener; without listeners the engine is restored."""
        if listener in self._listeners:
            if self._is_open:
                listener.end(self.times.now())
            self._listeners.remove(listener)
        engine: Any = self._engine()
        if not self._listeners:
            self._close()
            engine._event_handlers = engine._event_handlers.plain()  # noqa: SLF001

    def _close(self) -> None:
        self.thread, self._is_open, self._awaits_engine = 0, False, False

    # ------------------------------------------------------------ functions for the table

    def timed(self, event: Any, function: Any, others: list[HandlerTimes]) -> Any:
        """Return a handler that adds up its durations."""
        filtered = vars(function).get("_parent") if type(function) is FunctionType else None
        handler = function if filtered is None else filtered()
        own_name = _name_of(handler)
        taken = {one.name for one in others}
        numbered = (f"{own_name} #{number}" for number in itertools.count(2))
        name = next(one for one in itertools.chain([own_name], numbered) if one not in taken)
        times = self.times.of_event(event).of_handler(name, own_name)
        found = _behind_filter(function, handler, self._timed(times, handler))
        found = self._timed(times, function) if found is None else found
        found._parent = lambda: handler  # noqa: SLF001 - so Ignite finds and removes it
        found._seamark = _Mark(function, times)  # noqa: SLF001 - a mark of our own
        found.__qualname__ = own_name
        return found

    def _timed(self, own: HandlerTimes, handler: Any) -> Any:
        times, of_event, add = self.times, own.of_event, own.waiting.extend
        event, ahead, is_frequent = of_event.key, of_event.ahead, of_event.key in FREQUENT

        def timed(*args: Any, **kwargs: Any) -> Any:
            if get_ident() != self.thread and not self._admit(event, counts=False):
                return handler(*args, **kwargs)
            before_ns, start_ns = self.handlers_ns, perf_counter_ns()
            try:
                return handler(*args, **kwargs) if kwargs else handler(*args)
            finally:
                took_ns = perf_counter_ns() - start_ns
                inside_ns = self.handlers_ns - before_ns
                self.handlers_ns = before_ns + took_ns
                add((times.at + ahead if is_frequent else self._position(), took_ns))
                of_event.spent_ns += took_ns
                if inside_ns or not self.lap_ns:
                    outside_ns = 0 if self.lap_ns else took_ns - inside_ns
                    for one in (own, of_event):
                        one.nested_ns += inside_ns
                        one.outside_ns += outside_ns

        return timed

    def probes(self, event: Any) -> tuple[list[Any], list[Any]]:
        """Return the probes before and after the handlers of an event."""
        first = {
            Events.STARTED: self._open,
            Events.EPOCH_STARTED: self._begin_epoch,
            Events.ITERATION_COMPLETED: self._end_step,
            Events.TERMINATE: self._end_epoch,
            Events.COMPLETED: self._end_run,
        }.get(event)
        last = {
            Events.GET_BATCH_STARTED: self._begin_wait,
            Events.GET_BATCH_COMPLETED: None,  # until the step
            Events.ITERATION_STARTED: self._begin_step,
            Events.ITERATION_COMPLETED: None,  # until the next step or the end of the epoch
            Events.EPOCH_COMPLETED: self._end_epoch,
            Events.INTERRUPT: self._pause,
        }.get(event, _nothing)
        before = [] if first is None else [self._probe(event, first, is_last=False)]
        return before, [] if last is None else [self._probe(event, last, is_last=True)]

    def _probe(self, event: Any, act: Any, *, is_last: bool) -> Any:
        of_event = self.times.of_event(event)
        has_row = is_last and event not in FREQUENT

        def probe(*_args: Any, **_kwargs: Any) -> None:
            now_ns = perf_counter_ns()
            try:
                if get_ident() != self.thread and not self._admit(event, counts=is_last):
                    return
                if has_row:
                    of_event.happened(self._position())
                act(now_ns)
            except Exception as error:  # noqa: BLE001 - training comes first
                let_pass(error)
                self._close()
                log.warning("seamark: the time profiler stops measuring this run: %r", error)

        made: Any = probe
        made._seamark = _PROBE  # noqa: SLF001 - a mark of our own
        return made

    def _position(self) -> int:
        with quietly():  # users may assign anything to a state
            return position(self.state.epoch, self.state.iteration)
        return self.times.at

    def _admit(self, event: Any, *, counts: bool) -> bool:
        """Return whether to time an event fired by a thread that has not run the engine so far."""
        if self._awaits_engine:
            self.thread, self._awaits_engine = get_ident(), False
            if event not in _OUTSIDE_EPOCHS:
                self.lap_ns, self.times.epochs = perf_counter_ns(), max(1, self.times.epochs)
            return True
        if event == Events.STARTED or not self._is_open:
            return bool(event == Events.STARTED)
        with LOCK:
            self.times.events_elsewhere += counts
            is_first, self._has_warned = not self._has_warned, True
        if is_first:
            log.warning(
                "seamark: a thread other than the engine's fires events: they are counted, but "
                "their handlers are not timed"
            )
        return False

    # ------------------------------------------------------------ the phases of a run

    def _restart(self) -> None:
        engine: Any = self._engine()
        self.state = engine.state
        table = list(engine._event_handlers.values())  # noqa: SLF001
        has_gpu = any(one.cuda == "events" for one in self._listeners) and torch.cuda.is_available()
        handlers = [one for entries in table for one in entries.times()]
        self.times.restart(self.state, GpuTimes() if has_gpu else None, handlers)
        self.times.at = self._position()
        self.lap_ns = self._wait_ns = self._step_ns = 0
        self._has_stepped, self._is_open = False, True

    def _open(self, now_ns: int) -> None:
        self._end_run(now_ns)
        self._restart()
        self.thread = get_ident()
        for one in self._listeners:
            one.begin(self.times)

    def _begin_epoch(self, now_ns: int) -> None:
        self._end_epoch(now_ns)
        self.times.at, self.lap_ns = self._position(), now_ns
        self.times.epochs += 1

    def _end_epoch(self, now_ns: int) -> None:
        if self._wait_ns and self.state.batch is not None:
            self._end_wait(now_ns, self.times.at + 1)
        self._add_completed()
        self.times.settle()
        if self.lap_ns:
            self.times.epochs_ns += now_ns - self.lap_ns
        self.lap_ns = self._wait_ns = self._step_ns = 0

    def _add_completed(self) -> None:
        if self._has_stepped:
            self._has_stepped = False
            self._stepped.happened(self.times.at)

    def _begin_wait(self, _now_ns: int) -> None:
        self._add_completed()
        self._fetch.happened(self.times.at + 1)
        self._handlers_before_ns = self.handlers_ns
        self._wait_ns = perf_counter_ns()  # earlier times do not belong to it

    def _end_wait(self, now_ns: int, at: int) -> None:
        handlers_ns = self.handlers_ns - self._handlers_before_ns
        self.times.dataflow.waiting.extend((at, now_ns - self._wait_ns - handlers_ns))
        self._wait_ns = 0

    def _begin_step(self, now_ns: int) -> None:
        times, state = self.times, self.state
        times.at = at = (state.epoch << POSITION_SHIFT) + state.iteration
        if self._wait_ns:
            self._end_wait(now_ns, at)
        self._fetched.happened(at)
        self._start.happened(at)
        if times.gpu is not None:
            times.gpu.begin()
        self._handlers_before_ns = self.handlers_ns
        self._step_ns = perf_counter_ns()

    def _end_step(self, now_ns: int) -> None:
        times = self.times
        if self._step_ns:
            times.processing.waiting.extend((times.at, now_ns - self._step_ns))
            times.processing.nested_ns += self.handlers_ns - self._handlers_before_ns
        if self.lap_ns:
            times.epochs_ns += now_ns - self.lap_ns
        self._step_ns, self._has_stepped, self.lap_ns = 0, True, now_ns
        if times.gpu is not None:
            times.gpu.end(times.at)
        if now_ns >= self._due_ns or len(times.processing.waiting) > _FULL:
            self._due_ns = now_ns + _FLUSH_EVERY_NS
            times.flush()
            for one in self._listeners:
                one.end_iteration(now_ns, self.state.iteration)

    def _pause(self, now_ns: int) -> None:
        # No event marks the continuation of a wait or step: it has no time, unless its batch
        # arrived.
        self._end_epoch(now_ns)
        self.thread, self._awaits_engine = 0, True

    def _end_run(self, now_ns: int) -> None:
        """Notify the listeners before the last handlers, which may end the recorded run."""
        if self._is_open:
            self._end_epoch(now_ns)
            for one in self._listeners:
                one.end(self.times)
