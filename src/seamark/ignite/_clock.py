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
from typing import Any, Final

import torch
from ignite.engine import Engine, Events

from seamark.ignite._times import FREQUENT, GpuTimes, RunTimes
from seamark.process.interrupts import let_pass, quietly
from seamark.profiling import LOCK, POSITION_SHIFT, position

log = logging.getLogger("seamark")

_FULL: Final = 1 << 19
_FLUSH_EVERY_NS: Final = 1_000_000_000
_BEFORE_STEP: Final = frozenset(FREQUENT[:3])
"""Events of a step whose position is known only after their handlers ran."""
_OUTSIDE_EPOCHS: Final = frozenset(
    {Events.EPOCH_STARTED, Events.TERMINATE, Events.COMPLETED, Events.INTERRUPT}
)
_CORE: Final = _OUTSIDE_EPOCHS | set(FREQUENT) | {Events.EPOCH_COMPLETED}
"""Events that the engine fires in a run that has started."""


class _Mark:
    """Times to which a function in the table adds during the current run.

    ``function`` is the original entry; None for a probe. ``name`` is unique among the handlers of
    the event; ``own_name`` is the name shown by Ignite.
    """

    __slots__ = ("add", "event", "event_times", "function", "name", "own_name", "times")

    def __init__(
        self, event: Any, function: Any = None, name: str = "", own_name: str = ""
    ) -> None:
        self.event, self.function, self.name, self.own_name = event, function, name, own_name
        self.times: Any = None
        self.event_times: Any = None
        self.add: Any = None

    def bind(self, run: RunTimes) -> None:
        self.event_times = run.of_event(self.event)
        if self.function is not None:
            self.times = self.event_times.of_handler(self.name, self.own_name)
            self.add = self.times.waiting.extend


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
                function = self._clock.timed(self._event, function, self.names())
        elif mark.function is None:
            return  # every list has its own probes
        self.insert(len(self) - self._last, (function, *given))

    def names(self) -> set[str]:
        return {mark.name for function, *_ in self if (mark := _mark_of(function)) is not None}


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

    def marked(self) -> list[tuple[Any, Any, Any]]:
        """Yield each entry with its event and its mark, if any."""
        entries = [(event, entry) for event, found in list(self.items()) for entry in found]
        return [(event, entry, _mark_of(entry[0])) for event, entry in entries]

    def plain(self) -> Any:
        found = defaultdict(list)
        for event, (function, *given), mark in self.marked():
            if mark is None or mark.function is not None:
                found[event].append((mark.function if mark else function, *given))
        return found

    def __reduce__(self) -> Any:
        # A copy of the engine has no clock.
        return defaultdict, (list, dict(self.plain()))


class EngineClock:
    """Clock that times the events of an engine for the attached profilers.

    Attributes:
        times: Times of the current run; an unstarted one while nothing is timed.
        thread: The thread that runs the engine; 0 while nothing is timed.
        at: Position of the latest step.
        handlers_ns: Time of all handlers so far, with nested ones counted once.
        lap_ns: Time from which the duration of the epoch is still to be added; 0 outside epochs.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = weakref.ref(engine)
        self._listeners: list[Any] = []  # of `seamark.ignite._profilers.EngineProfiler`
        self.times = RunTimes()
        *self._before, self._stepped = map(self.times.of_event, FREQUENT)
        self.state: Any = None
        self.thread = self.at = self.handlers_ns = self.lap_ns = 0
        # Start of the current wait or step; -1 for an interrupted step.
        self._wait_ns = self._step_ns = 0
        self._waited_ns = -1
        self._handlers_before_ns = self._stepped_at = self._due_ns = 0
        # Whether the next event shows which thread runs the engine.
        self._awaits_engine = engine.last_event_name not in (None, Events.COMPLETED)
        self._paused_in_epoch = False
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
        self._due_ns = 0
        if listener not in self._listeners:
            self._listeners.append(listener)
            if self.times.began:
                listener.begin(self.times)

    def remove(self, listener: Any) -> None:
        """Remove a listener; without listeners the engine is restored."""
        if listener in self._listeners:
            if self.times.began:
                listener.end(self.times.now(self.add_rest))
            self._listeners.remove(listener)
        engine: Any = self._engine()
        if not self._listeners:
            self.times, self.thread = RunTimes(), 0
            engine._event_handlers = engine._event_handlers.plain()  # noqa: SLF001

    # ------------------------------------------------------------ functions for the table

    def timed(self, event: Any, function: Any, taken: set[str]) -> Any:
        """Return a handler that adds up its durations."""
        filtered = vars(function).get("_parent") if type(function) is FunctionType else None
        handler = function if filtered is None else filtered()
        own_name = _name_of(handler)
        numbered = (f"{own_name} #{number}" for number in itertools.count(2))
        name = next(one for one in itertools.chain([own_name], numbered) if one not in taken)
        mark = _Mark(event, function, name, own_name)
        mark.bind(self.times)
        found = _behind_filter(function, handler, self._timed(mark, handler))
        found = self._timed(mark, function) if found is None else found
        found._parent = lambda: handler  # noqa: SLF001 - so Ignite finds and removes it
        found._seamark = mark  # noqa: SLF001 - a mark of our own
        found.__qualname__ = own_name
        return found

    def _timed(self, mark: _Mark, handler: Any) -> Any:
        ahead, is_frequent = int(mark.event in _BEFORE_STEP), mark.event in FREQUENT

        def timed(*args: Any, **kwargs: Any) -> Any:
            if get_ident() != self.thread and not self._admits_handler(mark.event):
                return handler(*args, **kwargs)
            before_ns, start_ns = self.handlers_ns, perf_counter_ns()
            try:
                return handler(*args, **kwargs) if kwargs else handler(*args)
            finally:
                took_ns = perf_counter_ns() - start_ns
                inside_ns = self.handlers_ns - before_ns
                self.handlers_ns = before_ns + took_ns
                at = self.at + ahead if is_frequent else self._position()
                mark.add((at, took_ns))
                mark.event_times.spent_ns += took_ns
                if inside_ns:
                    mark.times.nested_ns += inside_ns
                    mark.event_times.nested_ns += inside_ns
                if not self.lap_ns:
                    mark.times.outside_ns += took_ns - inside_ns
                    mark.event_times.outside_ns += took_ns - inside_ns

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
            Events.GET_BATCH_COMPLETED: None,  # reported with the step
            Events.ITERATION_STARTED: self._begin_step,
            Events.ITERATION_COMPLETED: None,  # until the next step or the end of the epoch
            Events.EPOCH_COMPLETED: self._end_epoch,
            Events.INTERRUPT: self._pause,
        }.get(event, _nothing)
        before = [] if first is None else [self._probe(event, first, is_last=False)]
        return before, [] if last is None else [self._probe(event, last, is_last=True)]

    def _probe(self, event: Any, act: Any, *, is_last: bool) -> Any:
        mark = _Mark(event)
        mark.bind(self.times)
        has_row = is_last and event not in FREQUENT

        def probe(*_args: Any, **_kwargs: Any) -> None:
            now_ns = perf_counter_ns()
            try:
                if get_ident() != self.thread and not self._admit(event, counts=is_last):
                    return
                if has_row:
                    mark.event_times.happened(self._position())
                act(now_ns)
            except Exception as error:  # noqa: BLE001 - training comes first
                self._fail(error)

        made: Any = probe
        made._seamark = mark  # noqa: SLF001 - a mark of our own
        return made

    def _position(self) -> int:
        with quietly():  # users may assign anything to a state
            return position(self.state.epoch, self.state.iteration)
        return self.at

    def _admits_handler(self, event: Any) -> bool:
        with quietly(self._fail):
            return self._admit(event, counts=False)
        return False

    # ------------------------------------------------------------ the phases of a run

    def _open(self, now_ns: int) -> None:
        self._end_run(now_ns)
        engine: Any = self._engine()
        self.state = engine.state
        has_gpu = any(one.cuda == "events" for one in self._listeners) and torch.cuda.is_available()
        self.times = RunTimes(self.state, GpuTimes() if has_gpu else None)
        for _, _, mark in engine._event_handlers.marked():  # noqa: SLF001
            if mark is not None:
                mark.bind(self.times)
        self.at = position(self.state.epoch, self.state.iteration)
        *self._before, self._stepped = map(self.times.of_event, FREQUENT)
        self.lap_ns = self._wait_ns = self._step_ns = self._stepped_at = 0
        self._waited_ns = -1
        self.thread, self._awaits_engine = get_ident(), False
        for one in self._listeners:
            one.begin(self.times)

    def _begin_epoch(self, now_ns: int) -> None:
        self._end_epoch(now_ns)
        self.at, self.lap_ns = position(self.state.epoch, self.state.iteration), now_ns
        self.times.epochs += 1

    def _end_epoch(self, now_ns: int) -> None:
        self._stop_clock(now_ns)
        self.times.steps.extend(self._rest())
        for one in (*self._before, self._stepped):
            one.spent_ns = 0
        self._waited_ns = -1
        self._wait_ns = self._step_ns = self._stepped_at = 0

    def _stop_clock(self, now_ns: int) -> None:
        if self._wait_ns and self.state.batch is not None:
            self._end_wait(now_ns)
        if self.lap_ns:
            self.times.epochs_ns += now_ns - self.lap_ns
        self.lap_ns = 0

    def _rest(self) -> tuple[int, ...]:
        """Return the rows of an interrupted step and of the one before."""
        came = self._waited_ns >= 0
        happened = (came or self._wait_ns, came, self._step_ns)
        pairs = zip(self._before, happened, strict=True)
        spent_ns = [one.spent_ns if yes or one.spent_ns else -1 for one, yes in pairs]
        at = self.at if self._step_ns else self.at + 1
        return at, self._waited_ns, -1, self._stepped_at, *spent_ns, self._stepped.spent_ns

    def add_rest(self, times: RunTimes) -> None:
        """Add pending times of a step or event, which may never end, to a copy."""
        times.steps.extend(self._rest())
        for one in times.events.values():
            if one.spent_ns and one.key not in FREQUENT:
                one.happened(self._position())

    def _begin_wait(self, _now_ns: int) -> None:
        self._handlers_before_ns = self.handlers_ns
        self._wait_ns = perf_counter_ns()  # earlier times do not belong to it

    def _end_wait(self, now_ns: int) -> None:
        handlers_ns = self.handlers_ns - self._handlers_before_ns
        self._waited_ns, self._wait_ns = now_ns - self._wait_ns - handlers_ns, 0

    def _begin_step(self, now_ns: int) -> None:
        if self._wait_ns:
            self._end_wait(now_ns)
        state = self.state
        self.at = (state.epoch << POSITION_SHIFT) + state.iteration
        if self.times.gpu is not None:
            self.times.gpu.begin()
        self._handlers_before_ns = self.handlers_ns
        self._step_ns = perf_counter_ns()

    def _end_step(self, now_ns: int) -> None:
        times, at, began_ns, stepped = self.times, self.at, self._step_ns, self._stepped
        took_ns = now_ns - began_ns if began_ns > 0 else -1
        fetch, fetched, step = self._before
        spent_ns = fetch.spent_ns, fetched.spent_ns, step.spent_ns, stepped.spent_ns
        times.steps.extend((at, self._waited_ns, took_ns, self._stepped_at, *spent_ns))
        fetch.spent_ns = fetched.spent_ns = step.spent_ns = stepped.spent_ns = 0
        if self.handlers_ns != self._handlers_before_ns and began_ns > 0:
            times.processing.nested_ns += self.handlers_ns - self._handlers_before_ns
        if self.lap_ns:
            times.epochs_ns += now_ns - self.lap_ns
        self._waited_ns, self._step_ns, self._stepped_at, self.lap_ns = -1, 0, at, now_ns
        if times.gpu is not None:
            times.gpu.end(at)
        if now_ns >= self._due_ns or len(times.steps) > _FULL:
            self._report(now_ns)

    def _report(self, now_ns: int) -> None:
        self._due_ns = now_ns + _FLUSH_EVERY_NS
        self.times.flush()
        for one in self._listeners:
            one.end_iteration(now_ns, self.state.iteration)

    def _pause(self, now_ns: int) -> None:
        # No event marks the continuation of a wait or step: it has no time, unless its batch
        # arrived. The handlers of the step before are complete: the run may never go on.
        ended_ns, self._stepped.spent_ns = self._stepped.spent_ns, 0
        self.times.steps.extend((0, -1, -1, self._stepped_at, -1, -1, -1, ended_ns))
        self._stepped_at = 0
        self._paused_in_epoch = bool(self.lap_ns)
        self._stop_clock(now_ns)
        self._wait_ns = 0
        self._step_ns = -1 if self._step_ns else 0
        self.thread, self._awaits_engine = 0, True

    def _end_run(self, now_ns: int) -> None:
        """Notify the listeners before the last handlers, which may end the recorded run."""
        if self.times.began:
            self._end_epoch(now_ns)
            for one in self._listeners:
                one.end(self.times)

    def _admit(self, event: Any, *, counts: bool) -> bool:
        """Return whether to time an event fired by a thread that has not run the engine so far."""
        if event == Events.STARTED:
            return True
        if self._awaits_engine and (self.times.began or event in _CORE):
            now_ns = perf_counter_ns()
            in_epoch = self._paused_in_epoch
            if not self.times.began:
                self._open(now_ns)
                self.at -= event == Events.ITERATION_STARTED  # already counted
                in_epoch = event not in _OUTSIDE_EPOCHS
                self.times.epochs = int(in_epoch)
            if in_epoch:
                self.lap_ns = now_ns
            self.thread, self._awaits_engine = get_ident(), False
            return True
        if not self.times.began:
            return False
        with LOCK:
            self.times.events_elsewhere += counts
            is_first, self._has_warned = not self._has_warned, True
        if is_first:
            log.warning(
                "seamark: a thread other than the engine's fires events: they are counted, but "
                "their handlers are not timed"
            )
        return False

    def _fail(self, error: Exception) -> None:
        """Stop measuring in this run, and warn once."""
        let_pass(error)
        self.times, self.thread, self._awaits_engine = RunTimes(), 0, False
        log.warning("seamark: the time profiler stops measuring this run: %r", error)
