"""Engines that profilers are attached to: the clock on an engine, and the times of its runs.

As Ignite's own profilers do, it wraps the entries of the engine's table of handlers. Each event
begins with a probe, which is the first of its handlers. Probes and handlers only write to the tape
of the run; `seamark.ignite._times` makes durations of it.
"""

from __future__ import annotations

import itertools
import logging
import math
import threading
import weakref
from collections import defaultdict
from collections.abc import Iterable
from threading import get_ident
from time import perf_counter_ns
from types import CellType, FunctionType
from typing import Any, Final, NamedTuple

import torch
from ignite.engine import Engine, Events

from seamark.ignite._times import (
    AT,
    CODES,
    END,
    EPOCH_END,
    FETCH,
    FETCHED,
    INSIDE,
    INTERRUPT,
    START,
    STEP,
    STEPPED,
    GpuTimes,
    RunTimes,
)
from seamark.process.interrupts import let_pass, quietly
from seamark.profiling import POSITION_SHIFT, TimesInRun, position, position_parts

__all__ = ["KEPT_RUNS", "AttachedEngine"]

log = logging.getLogger("seamark")

_FULL: Final = 1 << 16
"""Length of the tape, at most about, at which it is taken in."""

KEPT_RUNS: Final = 32
_SUMMARY_EVERY_NS: Final = 10_000_000_000


class _Mark(NamedTuple):
    # A probe has no code. `name` is different from those of other handlers of the event, `own_name`
    # is as Ignite shows it; `handler` is the function of the entry that stood there.

    code: int = 0
    name: str = ""
    own_name: str = ""
    handler: Any = None


def _mark_of(function: Any) -> _Mark | None:
    return vars(function).get("_seamark") if type(function) is FunctionType else None


def _attached_handler(function: Any) -> Any:
    """Return the handler that the user attached, which may be behind an event's filter."""
    with quietly():  # it has no filter, or a __getattr__ of somebody's
        found = function._parent()  # noqa: SLF001 - as Ignite itself asks
        return function if found is None else found
    return function


def _behind_filter(function: Any, handler: Any, timed: Any) -> Any:
    # Where the original calls the handler, the copy calls the timed one. None where the handler is
    # not found in the closure: then filter and handler are timed together.
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
    with quietly():  # a __getattr__ of somebody's
        return str(getattr(handler, "__qualname__", type(handler).__name__))
    return type(handler).__name__


class _Entries(list[Any]):
    # Handlers of an event: a probe, and behind it handlers, each timed as soon as it is there.
    # Ignite appends to this list, and replaces it to remove handlers.

    def __init__(self, clock: EngineClock, event: Any, entries: Iterable[Any] = ()) -> None:
        super().__init__()
        self._clock = clock
        self._event = event
        self._is_last = int(event in (Events.GET_BATCH_STARTED, Events.ITERATION_STARTED))
        if event != Events.GET_BATCH_COMPLETED:  # of a batch that came, the next step tells
            super().append((clock.probe(event), (), {}))
        for entry in entries:
            self.append(entry)

    def append(self, entry: Any) -> None:
        function, *given = entry
        mark = _mark_of(function)
        if mark is None:
            with quietly():  # then it is called as it is
                function = self._clock.timed(self._event, function, self.marks())
        elif not mark.code:
            return  # each list has its own
        self.insert(len(self) - self._is_last, (function, *given))

    def marks(self) -> list[_Mark]:
        found = (_mark_of(function) for function, *_ in self)
        return [mark for mark in found if mark is not None and mark.code]


class _Table(defaultdict[Any, Any]):
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
        found = defaultdict(list)
        for event, entries in self.items():
            for function, *given in entries:
                mark = _mark_of(function)
                if mark is None or mark.code:
                    found[event].append((mark.handler if mark else function, *given))
        return found

    def __reduce__(self) -> Any:
        # Leave a copy of the engine without a clock.
        return defaultdict, (list, dict(self.plain()))


class EngineClock:
    """Records the events of an engine for the profilers attached to it.

    Attributes:
        run: The run that goes on; one that never began while nothing is written.
        thread: The thread that runs the engine; 0 while nothing is written.
        due_ns: When something is to be done after an iteration, by ``time.perf_counter_ns``.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = weakref.ref(engine)
        self._listeners: list[AttachedEngine] = []
        self.run = RunTimes()
        self.thread = 0
        self.tape: list[int] = []
        self.state: Any = None
        self.due_ns: float = 0
        self._codes: dict[Any, int] = dict(CODES)
        self._may_join = engine.last_event_name not in (None, Events.COMPLETED)
        self._has_warned = False
        self._counting = threading.Lock()
        engine._event_handlers = _Table(self, engine._event_handlers)  # noqa: SLF001

    # ------------------------------------------------------------ listeners

    def add(self, listener: AttachedEngine) -> None:
        """Call a listener from now on; in the middle of a run, for the rest of it."""
        self.due_ns = 0
        if listener not in self._listeners:
            self._listeners.append(listener)
            if self.run.began:
                listener.begin(self.run)

    def remove(self, listener: AttachedEngine) -> None:
        """Call a listener no longer; without listeners, nothing of ours stays on the engine."""
        if listener not in self._listeners:
            return
        if self.run.began:
            listener.end(self.run.now())
        self._listeners.remove(listener)
        engine: Any = self._engine()
        if not self._listeners:
            self.run, self.thread = RunTimes(), 0
            engine._event_handlers = engine._event_handlers.plain()  # noqa: SLF001

    def _code_of(self, key: Any) -> int:
        return self._codes.setdefault(key, len(self._codes) + min(CODES.values()))

    # ------------------------------------------------------------ functions for the table

    def timed(self, event: Any, function: Any, others: Iterable[_Mark]) -> Any:
        """Return a handler that writes down when it begins and ends."""
        handler = _attached_handler(function)
        own_name, taken = _name_of(handler), {mark.name for mark in others}
        numbered = (f"{own_name} #{number}" for number in itertools.count(2))
        name = next(one for one in itertools.chain([own_name], numbered) if one not in taken)
        code = self._code_of((event, name))
        mark = _Mark(code, name, own_name, function)
        self._expect(event, [mark])
        timed = self._timed(code, function)
        filtered = _behind_filter(function, handler, self._timed(code, handler))
        found: Any = timed if filtered is None else filtered
        found._parent = lambda: handler  # noqa: SLF001 - so Ignite finds and removes it
        found._seamark = mark  # noqa: SLF001 - a mark of our own
        found.__qualname__ = own_name
        return found

    def _timed(self, code: int, handler: Any) -> Any:
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
                tape.append(code)
                tape.append(took_ns)
                if inside:
                    tape.extend((INSIDE, inside))

        return timed

    def probe(self, event: Any) -> Any:
        """Return a handler that writes down that an event is fired.

        It is the first one, and the last one where a wait for a batch or a step begins.
        """
        code = self._code_of(event)
        is_step, is_stepped, is_frequent = code == STEP, code == STEPPED, code in (FETCH, STEP)

        def probe(*_args: Any, **_kwargs: Any) -> None:
            now_ns = perf_counter_ns()
            try:
                if get_ident() != self.thread and not self._admit(code):
                    return
                tape = self.tape
                if is_stepped:
                    tape.append(code)
                    tape.append(now_ns)
                    if now_ns >= self.due_ns or len(tape) > _FULL:
                        self._end_step(now_ns)
                elif is_frequent:
                    if is_step:
                        state = self.state
                        tape.append(AT)
                        tape.append((state.epoch << POSITION_SHIFT) + state.iteration)
                        if self.run.gpu is not None:
                            self.run.gpu.begin()
                    tape.append(code)
                    tape.append(perf_counter_ns())  # all of this is no part of what begins
                else:
                    self._write_event(code, now_ns)
            except Exception as error:  # noqa: BLE001 - training comes first
                self._fail(error)

        self._expect(event, ())
        made: Any = probe
        made._seamark = _Mark()  # noqa: SLF001 - a mark of our own
        return made

    def _write_event(self, code: int, now_ns: int) -> None:
        if code == START:
            self._open(code)
        tape, state = self.tape, self.state
        if code == INTERRUPT and state.batch is not None and self.run.latest_code() == FETCH:
            # The batch that was waited for came: no step tells so any more.
            tape.extend((FETCHED, now_ns))
        tape.extend((AT, position(state.epoch, state.iteration), code, now_ns))
        if code == END:
            # Before its handlers, which may end the run that times are recorded in.
            for one in self._listeners:
                one.end(self.run)

    # ------------------------------------------------------------ runs

    def _expect(self, event: Any, marks: Iterable[_Mark]) -> None:
        times = self.run.expect_event(self._code_of(event), event)
        for mark in marks:
            self.run.expect_handler(mark.code, mark.name, mark.own_name, times)

    def _open(self, code: int) -> None:
        engine: Any = self._engine()
        if self.run.began:
            for one in self._listeners:
                one.end(self.run)
        has_gpu = any(one.cuda == "events" for one in self._listeners) and torch.cuda.is_available()
        in_epoch = code in (FETCH, FETCHED, STEP, STEPPED, EPOCH_END)
        self.run = RunTimes(engine.state, GpuTimes() if has_gpu else None, in_epoch=in_epoch)
        for event, entries in list(engine._event_handlers.items()):  # noqa: SLF001
            self._expect(event, entries.marks())
        self.tape, self.state = self.run.tape, engine.state
        self.thread, self._may_join = get_ident(), False
        for one in self._listeners:
            one.begin(self.run)

    def _admit(self, code: int) -> bool:
        """Return whether to write down an event of a thread that did not run the engine so far."""
        if code == START:
            return True
        if not self.run.began:
            if self._may_join and code <= INTERRUPT:
                self._open(code)
            return self.run.began
        if self.run.latest_code() == INTERRUPT:
            self.thread = get_ident()
            return True
        with self._counting:
            self.run.events_elsewhere += 1
            is_first, self._has_warned = not self._has_warned, True
        if is_first:
            log.warning(
                "seamark: another thread than the engine's fires events: they are counted, and "
                "their handlers are not timed"
            )
        return False

    def _end_step(self, now_ns: int) -> None:
        gpu, state = self.run.gpu, self.state
        if gpu is not None:
            gpu.end(position(state.epoch, state.iteration))
        due = [one for one in self._listeners if now_ns >= one.due_ns]
        if due or len(self.tape) > _FULL:
            self.run.fold()
        for one in due:
            one.end_iteration(now_ns, state.iteration)
        self.due_ns = min(one.due_ns for one in self._listeners) if gpu is None else 0

    def _fail(self, error: Exception) -> None:
        """Measure nothing more in this run, and say so once."""
        let_pass(error)
        self.run, self.thread, self._may_join = RunTimes(), 0, False
        log.warning("seamark: the time profiler stops measuring this run: %r", error)


def _clock_of(engine: Engine) -> EngineClock | None:
    return getattr(engine._event_handlers, "clock", None)  # noqa: SLF001


class AttachedEngine:
    """Engine that a profiler is attached to, with the times of its latest runs by number."""

    def __init__(self, engine: Engine, number: int, *, by_handler: bool, cuda: str) -> None:
        self._ref: weakref.ref[Engine] | None = weakref.ref(engine)
        self.number = number
        self.cuda = cuda
        self._by_handler = by_handler
        self.runs: dict[int, RunTimes] = {}
        self.record: TimesInRun | None = None
        self._records: dict[object, TimesInRun] = {}
        self._summed_up_ns = -_SUMMARY_EVERY_NS
        self._is_summed_up = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ref": None, "_records": {}, "record": None}

    @property
    def engine(self) -> Engine | None:
        return None if self._ref is None else self._ref()

    @property
    def due_ns(self) -> float:
        """When to call `end_iteration`, by ``time.perf_counter_ns``."""
        return math.inf if self.record is None else self.record.due_ns

    def listen(self, engine: Engine, record: TimesInRun | None) -> None:
        if record is not None:
            self.record = self._records.setdefault(record.place, record)
        (_clock_of(engine) or EngineClock(engine)).add(self)

    def detach(self) -> None:
        if (engine := self.engine) is not None and (clock := _clock_of(engine)) is not None:
            clock.remove(self)

    def begin(self, times: RunTimes) -> None:
        number = max(self.runs, default=-1) + 1
        self.runs[number] = times
        self.runs.pop(number - KEPT_RUNS, None)
        for one in self._records.values():
            one.restart()
        self._is_summed_up = False
        if self.record is not None:
            self.record.at_end(self._sum_up)  # an exception ends a run without an event

    def end_iteration(self, now_ns: int, iteration: int) -> None:
        if self.record is not None:
            times = self.runs[max(self.runs)]
            self.record.row(now_ns, times.sources(by_handler=self._by_handler), iteration)

    def end(self, times: RunTimes) -> None:
        """Record the summary; an evaluator that runs every minute need not do so each time."""
        self.runs[max(self.runs)] = times
        self._is_summed_up = False
        if perf_counter_ns() - self._summed_up_ns >= _SUMMARY_EVERY_NS:
            self._sum_up()

    def _sum_up(self) -> None:
        if self.record is not None and not self._is_summed_up:
            times = self.runs[max(self.runs)].now()
            self._is_summed_up = True
            self._summed_up_ns = perf_counter_ns()
            sources = times.sources(by_handler=self._by_handler)
            iteration = position_parts(times.processing.last_at)[1]
            self.record.row(self._summed_up_ns, sources, iteration)
            self.record.summary(sources, times.breakdown(by_handler=self._by_handler))

    def record_latest(self, record: TimesInRun) -> None:
        """Record the latest run now; values recorded before are not recorded again."""
        if self.runs:
            times = self.runs[max(self.runs)].now()
            record = self._records.setdefault(record.place, record)
            sources = times.sources(by_handler=self._by_handler)
            record.points(sources)
            record.summary(sources, times.breakdown(by_handler=self._by_handler))
