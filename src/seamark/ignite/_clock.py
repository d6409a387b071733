"""The clock on one engine: times what the engine does, and tells its listeners.

As Ignite's own profilers do, it wraps the entries of the engine's table of handlers. Each event
begins or ends with a probe, which is the first or the last of its handlers. What probes and
handlers find goes to the `RunTimes` of the run.
"""

from __future__ import annotations

import copy
import logging
import threading
import weakref
from collections import defaultdict
from collections.abc import Iterable
from threading import get_ident
from time import perf_counter_ns
from types import CellType, FunctionType
from typing import Any, Final, Protocol

from ignite.engine import Engine, Events

from seamark.ignite._gpu import GpuTimes
from seamark.ignite._times import END, FETCH, INTERRUPT, OTHER, STEP, STEPPED, RunTimes
from seamark.process.interrupts import let_pass, quietly
from seamark.profiling import FLUSH_AT, position_parts

__all__ = ["NEVER", "EngineClock", "Listener", "clock_of"]

log = logging.getLogger("seamark")

NEVER: Final = 1 << 62
_FULL: Final = 2 * FLUSH_AT  # numbers; two are a step


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


class _Mark:
    """The mark of a function of ours in the table: of a probe, or of a handler that is timed.

    Attributes:
        handler: The function of the entry that stood there; None for a probe.
        name: Name of the handler.
        times: Where its times go in this run.
    """

    def __init__(self, handler: Any = None, name: str = "") -> None:
        self.handler = handler
        self.name = name
        self.times: Any = None


def _mark_of(function: Any) -> _Mark | None:
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
    behind = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, found
    )
    behind.__dict__.update(function.__dict__)
    return behind


def _name_of(handler: Any) -> str:
    """Return the name of a handler as Ignite shows it."""
    with quietly():  # a __getattr__ of somebody's
        return str(getattr(handler, "__qualname__", type(handler).__name__))
    return type(handler).__name__


class _Entries(list[Any]):
    """Handlers of an event: a probe, and handlers, each timed as soon as it is there.

    Ignite appends to this list, and replaces it to remove handlers.
    """

    def __init__(self, clock: EngineClock, event: Any, entries: Iterable[Any] = ()) -> None:
        super().__init__()
        self._clock = clock
        self._event = event
        self._is_last = int(event in (Events.GET_BATCH_STARTED, Events.ITERATION_STARTED))
        if event != Events.GET_BATCH_COMPLETED:  # of a batch that came, the next step tells
            super().append((clock.probe(event), (), {}))
        self.begin(clock.run)
        for entry in entries:
            self.append(entry)

    def append(self, entry: Any) -> None:
        """Time a handler that is added."""
        function, *given = entry
        mark = _mark_of(function)
        if mark is not None and mark.handler is None:
            return  # each list has its own probe
        if mark is None:
            with quietly():  # then it is called as it is
                function, mark = self._clock.timed(function)
                self._place(mark, self._clock.run)
        self.insert(len(self) - self._is_last, (function, *given))

    def begin(self, run: RunTimes) -> None:
        """Add times to a run that begins."""
        for mark in self._marks():
            self._place(mark, run)

    def _marks(self) -> list[_Mark]:
        return [mark for function, *_ in self if (mark := _mark_of(function))]

    def _place(self, mark: _Mark, run: RunTimes) -> None:
        event = run.event(self._event)
        used = [one.times for one in self._marks()]
        mark.times = event if mark.handler is None else event.handler(mark.name, used)


class _Table(defaultdict[Any, Any]):
    """The table of handlers of an engine with a clock."""

    def __init__(self, clock: EngineClock, plain: Any) -> None:
        super().__init__(list)
        self.clock = clock
        # An empty list for EXCEPTION_RAISED would keep exceptions from the caller.
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
                if mark is None or mark.handler is not None:
                    found[event].append((mark.handler if mark else function, *given))
        return found

    def __reduce__(self) -> Any:
        """Leave a copy of the engine without a clock."""
        return defaultdict, (list, dict(self.plain()))


class EngineClock:
    """Times what an engine does, and tells its listeners; see the module.

    Attributes:
        run: The times of the run that goes on; where none does, those of nothing.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = weakref.ref(engine)
        self._listeners: list[Listener] = []
        self._due_ns = 0
        self.run = RunTimes()
        self._state: Any = None
        self._joins = self._warned_of_threads = False
        self._counting = threading.Lock()

    # ------------------------------------------------------------ on and off the engine

    def listen(self, listener: Listener) -> None:
        """Tell somebody from now on; in the middle of a run, of the rest of it."""
        engine: Any = self._engine()
        if listener in self._listeners:
            return
        if not hasattr(engine, "_event_handlers"):
            log.warning("seamark: this release of Ignite keeps handlers in a way that is not known")
            return
        self._listeners.append(listener)
        self._due_ns = 0
        if self.run.began:
            listener.opened(self.run)
        if len(self._listeners) == 1:
            self._joins = engine.last_event_name not in (None, Events.COMPLETED)
            engine._event_handlers = _Table(self, engine._event_handlers)  # noqa: SLF001

    def stop_listening(self, listener: Listener) -> None:
        """Tell somebody no longer; without listeners, nothing of ours stays on the engine."""
        if listener not in self._listeners:
            return
        if len(self._listeners) == 1:
            self._finish()
        elif self.run.began:
            listener.over(copy.deepcopy(self.run))
        self._listeners.remove(listener)
        engine: Any = self._engine()
        if not self._listeners and engine is not None:
            engine._event_handlers = engine._event_handlers.plain()  # noqa: SLF001

    # ------------------------------------------------------------ functions for the table

    def timed(self, function: Any) -> tuple[Any, _Mark]:
        """Return a handler that is timed, and its mark.

        Args:
            function: The handler, with Ignite's filter around it if there is one.
        """
        handler = _attached_handler(function)
        mark = _Mark(function, _name_of(handler))
        filtered = _behind_filter(function, handler, self._timed(mark, handler))
        found: Any = filtered or self._timed(mark, function)
        found._parent = lambda: handler  # noqa: SLF001 - so Ignite finds and removes it
        found._seamark = mark  # noqa: SLF001 - a mark of our own
        found.__qualname__ = mark.name
        return found, mark

    def _timed(self, mark: _Mark, handler: Any) -> Any:
        def timed(*args: Any, **kwargs: Any) -> Any:
            run = self.run
            if get_ident() != run.thread:
                return handler(*args, **kwargs)
            times, before_ns, is_inner = mark.times, run.inside_ns, run.is_inside
            run.inside_ns, run.is_inside = 0, True
            start_ns = perf_counter_ns()
            try:
                return handler(*args, **kwargs) if kwargs else handler(*args)
            finally:
                took_ns = perf_counter_ns() - start_ns
                event, inside_ns = times.event, run.inside_ns
                run.inside_ns, run.is_inside = before_ns + took_ns, is_inner
                event.spent_ns += took_ns
                times.waiting.extend((run.at + event.is_early, took_ns))
                if inside_ns:
                    times.nest(inside_ns)
                if not run.in_epoch:
                    times.outside_ns += took_ns - inside_ns

        return timed

    def probe(self, event: Any) -> Any:
        """Return a handler that takes in that an event is fired.

        It is the first one, and the last one where a wait for a batch or a step begins.
        """
        mark, kind, is_start = _Mark(), self.run.event(event).kind, event == Events.STARTED
        is_last = kind in (FETCH, STEP)

        def probe(*_args: Any, **_kwargs: Any) -> None:
            now_ns = perf_counter_ns()
            try:
                if is_start:
                    self._open()
                if get_ident() != self.run.thread and not self._admit(kind):
                    return
                run = self.run
                if kind == END:
                    # Before its handlers, which may end the run that times are recorded in.
                    self._report_end()
                run.fire(mark.times, now_ns, self._state)
                if kind == STEPPED and (
                    now_ns >= self._due_ns or len(run.processing.waiting) > _FULL
                ):
                    self._end_step(now_ns)
                if is_last and not run.is_inside:  # no wait and no step pays for what was done here
                    run.last_ns = perf_counter_ns()
            except Exception as error:  # noqa: BLE001 - training comes first
                self._fail(error)

        probe._seamark = mark  # type: ignore[attr-defined] # noqa: SLF001
        return probe

    # ------------------------------------------------------------ runs

    def _open(self, kind: int = OTHER) -> None:
        """Begin a run; with an event in the middle of it, if one is given."""
        self._finish()
        engine: Any = self._engine()
        gpu = GpuTimes.make() if any(one.wants_gpu for one in self._listeners) else None
        self._state, self._joins = engine.state, False
        self.run = RunTimes(engine.state, gpu, kind)
        for entries in list(engine._event_handlers.values()):  # noqa: SLF001
            entries.begin(self.run)
        for one in self._listeners:
            one.opened(self.run)

    def _admit(self, kind: int) -> bool:
        """Tell whether to take in an event of a thread that did not run the engine so far."""
        run = self.run
        if not run.began:
            if self._joins and kind != OTHER:
                self._open(kind)
            return self.run.began
        if run.kind == INTERRUPT:
            run.thread = get_ident()
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
        """Make room, and tell whoever wants to know that a step is over."""
        run = self.run
        run.flush()
        for one in self._listeners:
            if now_ns >= one.due_ns:
                one.iterated(now_ns, position_parts(run.at)[1])
        self._due_ns = min(one.due_ns for one in self._listeners)

    def _finish(self) -> None:
        """Close the books of the run, if one is open."""
        if self.run.began:
            self._report_end()
            self.run = RunTimes()

    def _report_end(self) -> None:
        self.run.settle()
        for one in self._listeners:
            one.over(self.run)

    def _fail(self, error: Exception) -> None:
        """Measure nothing more in this run, and say so once.

        Raises:
            Exception: The error, if a signal handler raised it.
        """
        let_pass(error)
        self.run, self._joins = RunTimes(), False
        log.warning("seamark: the time profiler stops measuring this run: %r", error)
