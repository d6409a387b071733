"""The clock on one engine: writes down what the engine does, and tells its listeners.

As Ignite's own profilers do, it wraps the entries of the engine's table of handlers. Each event
begins with a probe, which is the first of its handlers. Probes and handlers only write to the tape
of the run; `seamark.ignite._times` makes durations of it.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import defaultdict
from collections.abc import Iterable
from threading import get_ident
from time import perf_counter_ns
from types import CellType, FunctionType
from typing import Any, Final, NamedTuple, Protocol

import torch
from ignite.engine import Engine, Events

from seamark.ignite._gpu import GpuTimes
from seamark.ignite._times import (
    AT,
    EPOCH_END,
    FETCH,
    FETCHED,
    INSIDE,
    INTERRUPT,
    OTHER,
    STEP,
    STEPPED,
    RunTimes,
    code_of,
    kind_of,
)
from seamark.process.interrupts import let_pass, quietly
from seamark.profiling import POSITION_SHIFT, position

__all__ = ["NEVER", "EngineClock", "Listener", "clock_of"]

log = logging.getLogger("seamark")

NEVER: Final = 1 << 62
_FULL: Final = 1 << 16
"""So many numbers are on the tape, at most about, until they are taken in."""


class Listener(Protocol):
    """The part of a profiler that the clock of an engine talks to.

    Attributes:
        wants_gpu: Whether steps are to be timed on the GPU too.
        due_ns: When it next wants to be told of an iteration, by ``time.perf_counter_ns``.
    """

    wants_gpu: bool
    due_ns: int

    def opened(self, times: RunTimes) -> None:
        """Hear of a run that begins."""

    def iterated(self, now_ns: int, iteration: int) -> None:
        """Hear, not before ``due_ns``, that an iteration is over."""

    def over(self, times: RunTimes) -> None:
        """Hear that a run is over; these are its numbers from now on."""


def clock_of(engine: Engine) -> EngineClock:
    """Return the clock on an engine; there is one, however many profilers listen to it."""
    table = getattr(engine, "_event_handlers", None)
    return table.clock if isinstance(table, _Table) else EngineClock(engine)


class _Ours(NamedTuple):
    """The mark of a function of ours in the table: of a probe, without a handler, or a handler's.

    Attributes:
        number: Number of the handler; 0 for a probe.
        handler: The function of the entry that stood there.
    """

    number: int = 0
    handler: Any = None


def _mark_of(function: Any) -> _Ours | None:
    return vars(function).get("_seamark") if type(function) is FunctionType else None


def _attached_handler(function: Any) -> Any:
    """Return the handler that the user attached, which may be behind an event's filter."""
    with quietly():  # it has no filter, or a __getattr__ of somebody's
        found = function._parent()  # noqa: SLF001 - as Ignite itself asks
        return function if found is None else found
    return function


def _behind_filter(function: Any, handler: Any, timed: Any) -> Any:
    """Return a copy of the function that Ignite puts around a handler with a filter.

    Where the original calls the handler, the copy calls the timed one. None where the handler is
    not found in the closure: then filter and handler are timed together.
    """
    if function is handler or not isinstance(function, FunctionType):
        return None
    cells = function.__closure__ or ()
    found = tuple(CellType(timed) if cell.cell_contents is handler else cell for cell in cells)
    if all(new is old for new, old in zip(found, cells, strict=True)):
        return None
    return FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, found
    )


def _name_of(handler: Any) -> str:
    """Return the name of a handler as Ignite shows it."""
    with quietly():  # a __getattr__ of somebody's
        return str(getattr(handler, "__qualname__", type(handler).__name__))
    return type(handler).__name__


class _Entries(list[Any]):
    """Handlers of an event: a probe, and behind it handlers, each timed as soon as it is there.

    Ignite appends to this list, and replaces it to remove handlers.
    """

    def __init__(self, clock: EngineClock, event: Any, entries: Iterable[Any] = ()) -> None:
        super().__init__()
        self._clock = clock
        self._event = event
        self._probe: Any = (clock.probe(event), (), {})
        self._is_last = int(kind_of(event) in (FETCH, STEP))
        # An empty list for EXCEPTION_RAISED would keep exceptions from the caller. Of a batch that
        # came, the next step tells.
        if event not in (Events.EXCEPTION_RAISED, Events.GET_BATCH_COMPLETED):
            super().append(self._probe)
        for entry in entries:
            self.append(entry)

    def append(self, entry: Any) -> None:
        """Time a handler that is added."""
        function, *given = entry
        mark = _mark_of(function)
        if mark is None:
            used = {found.number for one, *_ in self if (found := _mark_of(one))}
            with quietly():  # then it is called as it is
                function = self._clock.timed(self._event, function, used)
        elif not mark.number:
            return  # each list has its own
        if not self and self._event == Events.EXCEPTION_RAISED:
            super().append(self._probe)
        self.insert(len(self) - self._is_last, (function, *given))


class _Table(defaultdict[Any, Any]):
    """The table of handlers of an engine with a clock."""

    def __init__(self, clock: EngineClock, plain: Any) -> None:
        super().__init__(list)
        self.clock = clock
        events = [event for event in Events if event != Events.EXCEPTION_RAISED]
        for event in dict.fromkeys([*events, *plain]):
            self[event] = plain.get(event, ())

    def __missing__(self, event: Any) -> Any:
        self[event] = ()
        return self[event]

    def __setitem__(self, event: Any, entries: Any) -> None:
        super().__setitem__(event, _Entries(self.clock, event, entries))

    def plain(self) -> Any:
        """Return the table as it is without a clock."""
        found = defaultdict(list)
        for event, entries in self.items():
            for function, *given in entries:
                mark = _mark_of(function)
                if mark is None or mark.number:
                    found[event].append((mark.handler if mark else function, *given))
        return found

    def __reduce__(self) -> Any:
        """Leave a copy of the engine without a clock."""
        return defaultdict, (list, dict(self.plain()))


class EngineClock:
    """Writes down what an engine does, and tells its listeners; see the module.

    Attributes:
        run: The run that goes on, if any.
        thread: The thread that runs the engine; 0 while nothing is written.
        tape: The tape of the run.
        state: The state of the engine that runs.
        gpu: Times steps on the GPU, if asked for.
        due_ns: When a listener next wants to be told of an iteration.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = weakref.ref(engine)
        self._listeners: list[Listener] = []
        self.run: RunTimes | None = None
        self.thread = self.due_ns = 0
        self.tape: list[int] = []
        self.state: Any = None
        self.gpu: GpuTimes | None = None
        self._events: list[Any] = list(Events)
        self._handlers: list[tuple[int, str]] = []
        self._joins = self._warned_of_threads = False
        self._counting = threading.Lock()

    # ------------------------------------------------------------ on and off the engine

    def listen(self, listener: Listener) -> None:
        """Tell somebody from now on; in the middle of a run, of the rest of it."""
        engine: Any = self._engine()
        if engine is None or listener in self._listeners:
            return
        if not hasattr(engine, "_event_handlers"):
            log.warning("seamark: this release of Ignite keeps handlers in a way that is not known")
            return
        self._listeners.append(listener)
        self.due_ns = 0
        if self.run is not None:
            listener.opened(self.run)
        if len(self._listeners) == 1:
            self._joins = engine.last_event_name not in (None, Events.COMPLETED)
            engine._event_handlers = _Table(self, engine._event_handlers)  # noqa: SLF001

    def leave_alone(self, listener: Listener) -> None:
        """Tell somebody no longer; without listeners, nothing of ours stays on the engine."""
        if listener not in self._listeners:
            return
        if len(self._listeners) == 1:
            self._finish()
        elif self.run is not None:
            listener.over(self.run.now())
        self._listeners.remove(listener)
        engine: Any = self._engine()
        if not self._listeners and engine is not None:
            engine._event_handlers = engine._event_handlers.plain()  # noqa: SLF001

    def _index_of(self, event: Any) -> int:
        if event not in self._events:
            self._events.append(event)
            if self.run is not None:
                self.run.add_event(event)
        return self._events.index(event)

    # ------------------------------------------------------------ functions for the table

    def timed(self, event: Any, function: Any, used: set[int]) -> Any:
        """Return a handler that writes down when it begins and ends.

        Args:
            event: The event.
            function: The handler, with Ignite's filter around it if there is one.
            used: Numbers of the handlers that the event has; one that is free is taken again for
                a handler with the same name.
        """
        handler = _attached_handler(function)
        index, name = self._index_of(event), _name_of(handler)
        free = (
            number
            for number, known in enumerate(self._handlers, start=1)
            if known == (index, name) and number not in used
        )
        number = next(free, 0)
        if not number:
            self._handlers.append((index, name))
            number = len(self._handlers)
        if self.run is not None:
            self.run.add_handler(number, index, name)
        timed = self._timed(number, function)
        filtered = _behind_filter(function, handler, self._timed(number, handler))
        found: Any = timed if filtered is None else filtered
        found._parent = lambda: handler  # noqa: SLF001 - so Ignite finds and removes it
        found._seamark = _Ours(number, function)  # noqa: SLF001 - a mark of our own
        found.__qualname__ = name
        return found

    def _timed(self, number: int, handler: Any) -> Any:
        def timed(*args: Any, **kwargs: Any) -> Any:
            if get_ident() != self.thread:
                return handler(*args, **kwargs)
            tape = self.tape
            size = len(tape)
            start_ns = perf_counter_ns()
            try:
                return handler(*args, **kwargs) if kwargs else handler(*args)
            finally:
                took_ns = perf_counter_ns() - start_ns
                inside = len(tape) - size
                # Faster than to extend by a pair, and no signal is handled between the two.
                tape.append(number)
                tape.append(took_ns)
                if inside:
                    tape.extend((INSIDE, inside))

        return timed

    def probe(self, event: Any) -> Any:
        """Return a handler that writes down that an event is fired.

        It is the first one, and the last one where a wait for a batch or a step begins.
        """
        code, kind = code_of(self._index_of(event)), kind_of(event)
        make = self._frequent_probe if kind in (FETCH, STEP, STEPPED) else self._seldom_probe
        found = make(code, kind, event)
        found._seamark = _Ours()  # noqa: SLF001 - a mark of our own
        return found

    def _frequent_probe(self, code: int, kind: int, _event: Any) -> Any:
        is_step, is_stepped = kind == STEP, kind == STEPPED

        def probe(*_args: Any, **_kwargs: Any) -> None:
            now_ns = perf_counter_ns()
            try:
                if get_ident() == self.thread or self._admit(kind):
                    tape = self.tape
                    if is_stepped:
                        tape.append(code)
                        tape.append(now_ns)
                        if now_ns >= self.due_ns or len(tape) > _FULL or self.gpu is not None:
                            self._end_step(now_ns)
                        return
                    if is_step:
                        state = self.state
                        tape.append(AT)
                        tape.append((state.epoch << POSITION_SHIFT) + state.iteration)
                        if self.gpu is not None:
                            self.gpu.begin()
                    tape.append(code)
                    tape.append(perf_counter_ns())  # all of this is no part of what begins
            except Exception as error:  # noqa: BLE001 - training comes first
                self._fail(error)

        return probe

    def _seldom_probe(self, code: int, kind: int, event: Any) -> Any:
        def probe(*_args: Any, **_kwargs: Any) -> None:
            now_ns = perf_counter_ns()
            try:
                if event == Events.STARTED:
                    self._open(self._engine())
                elif get_ident() != self.thread and not self._admit(kind):
                    return
                run, tape, state = self.run, self.tape, self.state
                assert run is not None  # noqa: S101 - it is written to
                if kind == INTERRUPT and state.batch is not None and run.latest_kind() == FETCH:
                    # The batch that was waited for came: no step tells so any more.
                    tape.extend((code_of(self._index_of(Events.GET_BATCH_COMPLETED)), now_ns))
                tape.extend((AT, position(state.epoch, state.iteration), code, now_ns))
                if event == Events.COMPLETED:
                    # Before its handlers, which may end the run that times are recorded in.
                    for one in self._listeners:
                        one.over(run)
            except Exception as error:  # noqa: BLE001 - training comes first
                self._fail(error)

        return probe

    # ------------------------------------------------------------ runs

    def _open(self, engine: Any, kind: int = OTHER) -> None:
        """Begin a run; with an event in the middle of it, if one is given."""
        self._finish()
        is_timed = any(one.wants_gpu for one in self._listeners) and torch.cuda.is_available()
        self.gpu = GpuTimes() if is_timed else None
        in_epoch = kind in (FETCH, FETCHED, STEP, STEPPED, EPOCH_END)
        run = RunTimes(self._events, engine.state, self.gpu, in_epoch=in_epoch)
        for entries in list(engine._event_handlers.values()):  # noqa: SLF001
            for function, *_ in entries:
                if (mark := _mark_of(function)) is not None and mark.number:
                    run.add_handler(mark.number, *self._handlers[mark.number - 1])
        self.run, self.tape, self.state = run, run.tape, engine.state
        self.thread, self._joins = get_ident(), False
        for one in self._listeners:
            one.opened(run)

    def _admit(self, kind: int) -> bool:
        """Tell whether to write down an event of a thread that did not run the engine so far."""
        run = self.run
        if run is None:
            if self._joins and kind != OTHER:
                self._open(self._engine(), kind)
            return self.run is not None
        if run.latest_kind() == INTERRUPT:
            self.thread = get_ident()
            return True
        with self._counting:
            run.events_elsewhere += 1
            is_first, self._warned_of_threads = not self._warned_of_threads, True
        if is_first:
            log.warning(
                "seamark: another thread than the engine's fires events: they are counted, and "
                "their handlers are not timed"
            )
        return False

    def _end_step(self, now_ns: int) -> None:
        """Do what is not done at each step, and tell whoever wants to know that one is over."""
        run, state = self.run, self.state
        assert run is not None  # noqa: S101 - it is written to
        if self.gpu is not None:
            self.gpu.end(position(state.epoch, state.iteration))
        if now_ns < self.due_ns and len(self.tape) <= _FULL:
            return
        run.fold()
        for one in self._listeners:
            if now_ns >= one.due_ns:
                one.iterated(now_ns, state.iteration)
        self.due_ns = min(one.due_ns for one in self._listeners)

    def _finish(self) -> None:
        """Close the books of the run, if one is open."""
        run, self.run, self.thread = self.run, None, 0
        if run is not None:
            for one in self._listeners:
                one.over(run)

    def _fail(self, error: Exception) -> None:
        """Measure nothing more in this run, and say so once.

        Raises:
            Exception: The error, if a signal handler raised it.
        """
        let_pass(error)
        self.run, self.thread, self._joins = None, 0, False
        log.warning("seamark: the time profiler stops measuring this run: %r", error)
