"""The clock on one engine: times the engine's runs, and tells its listeners.

An engine calls its own ``_fire_event`` for every event. While it runs, the instance has a
``_fire_event`` of ours in its place; however the run ends, that is taken away again. The table of
handlers is only read. Where the engine's method is one that we know, ours does what it does, and
looks at the clock around each handler (`Firing`); where it is not, ours calls it, and times the
event as a whole.

Between runs a wrapped ``run`` stays on the instance, since an exception fires no event, and a
``__getstate__``, so that a copy of the engine is a plain engine and not another name of this one.
"""

from __future__ import annotations

import weakref
from inspect import signature
from time import perf_counter_ns
from typing import Any, Protocol

from ignite.engine import Engine, Events

from seamark.ignite._firing import NEVER, Firing
from seamark.ignite._gpu import GpuTimes
from seamark.ignite._times import EventTimes, RunTimes
from seamark.timing import FLUSH_AT, position

__all__ = ["EngineClock", "Listener", "clock_of"]


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
        """Hear of a run that begins, or of one that goes on and was heard of before."""

    def iterated(self, times: RunTimes, now_ns: int, iteration: int) -> None:
        """Hear, not before ``due_ns``, that an iteration is over."""

    def over(self, times: RunTimes) -> None:
        """Hear that a run is over, or just about to be."""

    def left(self, times: RunTimes) -> None:
        """Keep these numbers of a run instead of the run's own, which goes on for others."""


_clocks: weakref.WeakKeyDictionary[Engine, EngineClock] = weakref.WeakKeyDictionary()


def clock_of(engine: Engine) -> EngineClock:
    """Return the clock on an engine; there is one, however many profilers listen to it."""
    found = _clocks.get(engine)
    if found is None:
        found = _clocks[engine] = EngineClock(engine)
    return found


def _nowhere(row: Any) -> None:
    """Take the row of a run whose books are closed."""


class EngineClock(Firing):
    """Times an engine, and tells its listeners; see the module."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._ref = weakref.ref(engine)
        self.listeners: list[Listener] = []
        self._running = 0
        self._paused_at = 0
        self._run: Any = None
        self._fire: Any = None
        self._before: Any = None
        self._state: Any = None
        self._failing: Any = None

    def is_running(self, times: RunTimes) -> bool:
        """Tell whether these are the times of a run that goes on right now."""
        return times is self.times and not times.interrupted

    # ------------------------------------------------------------ on and off the engine

    def listen(self, listener: Listener) -> None:
        """Tell somebody from now on; in the middle of a run, of the rest of it."""
        engine = self._ref()
        if engine is None:
            return
        if listener not in self.listeners:
            self.listeners.append(listener)
            if self.times is not None:
                listener.opened(self.times)
        if self._run is None:
            self._wrap_run(engine)
        self._disarm(engine)
        self._arm(engine)
        if not self._running:
            self._watch_exceptions(engine)
        self._refresh_due()

    def leave_alone(self, listener: Listener) -> None:
        """Tell somebody no longer; without listeners, nothing of ours stays on the engine."""
        engine = self._ref()
        times = self.times
        if listener in self.listeners and times is not None:
            if len(self.listeners) > 1:
                listener.left(times.frozen())
            else:
                self._finish(times, self._paused_at or perf_counter_ns())
        if listener in self.listeners:
            self.listeners.remove(listener)
        if self.listeners or engine is None:
            return
        self._disarm(engine)
        if self._run is not None and engine.__dict__.get("run") is self._run:
            _put_back(engine, "run", getattr(self._run, "before", None))
            self._run = None
        if self._state is not None and engine.__dict__.get("__getstate__") is self._state:
            del engine.__dict__["__getstate__"]
        self._state = None

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
        if "__getstate__" not in engine.__dict__:
            self._state = engine.__dict__["__getstate__"] = self._state_of_a_copy

    def _state_of_a_copy(self) -> Any:
        """Return what a copy or a pickle of the engine is made of: nothing of ours."""
        engine: Any = self._ref()
        plain = getattr(type(engine), "__getstate__", None)
        state = engine.__dict__ if plain is None else plain(engine)
        if not isinstance(state, dict):
            return state
        ours = {"run": self._run, "_fire_event": self._fire, "_handle_exception": self._failing}
        before = {"run": getattr(self._run, "before", None), "_fire_event": self._before}
        found = {}
        for name, value in state.items():
            if name == "__getstate__" or (value is ours.get(name) and value is not None):
                value = before.get(name)  # noqa: PLW2901
                if value is None:
                    continue
            found[name] = value
        return found

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
        wanted = any(one.wants_handlers for one in self.listeners)
        self._handle = self._handle_each if wanted else self._handle_all
        known = before is None and self._is_known(engine)
        self._fire = self._fire_known if known else self._fire_unknown
        engine.__dict__["_fire_event"] = self._fire

    def _disarm(self, engine: Engine) -> None:
        if self._failing is not None:
            if engine.__dict__.get("_handle_exception") is self._failing:
                del engine.__dict__["_handle_exception"]
            self._failing = None
        if self._fire is None or engine.__dict__.get("_fire_event") is not self._fire:
            return
        _put_back(engine, "_fire_event", self._before)
        self._fire = None

    # ------------------------------------------------------------ runs

    def begin(self, engine: Engine) -> None:
        """A run begins, or goes on after an interruption."""
        self._running += 1
        if self._running == 1:
            self._broken = False
            self._depth = 0
            self._disarm(engine)  # what is wanted may have changed since
            self._arm(engine)

    def end(self, engine: Engine) -> None:
        """The run is over, however it ended, or interrupted."""
        self._running -= 1
        if not self._running:
            self._end(engine, perf_counter_ns())

    def _end(self, engine: Engine, now: int) -> None:
        self._disarm(engine)
        try:
            self._close(now)
        except Exception as error:  # noqa: BLE001 - training comes first
            self._fail(error)
        self.engine = None

    def _close(self, now: int) -> None:
        times = self.times
        if times is None:
            return
        if not times.interrupted:
            self._finish(times, now)
            return
        if not self._paused_at:
            self._paused_at = now
        self._by_id = {}
        times.release()

    def _finish(self, times: RunTimes, now: int) -> None:
        """Close the books of a run."""
        times.interrupted = False
        self._write_row()
        times.end_epoch(now)
        self._reset()
        self._take_row = _nowhere  # a handler may have us close them, and is timed itself
        self._by_id = {}
        self._paused_at = 0
        self.times = None
        if self.engine is not None:
            times.look(self.engine)
        times.flush()
        for one in self.listeners:
            one.over(times)
        times.release()

    def _open(self, engine: Engine) -> None:
        if self.times is not None:
            self._finish(self.times, self._paused_at or perf_counter_ns())
        self._reset()
        self.engine = engine
        wants_gpu = any(one.wants_gpu for one in self.listeners)
        times = RunTimes(engine, GpuTimes.make() if wants_gpu else None)
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
        self._paused_at = 0
        times.interrupted = False
        self.engine = engine
        self._by_id = times.by_id
        self._mark += pause
        if times.epoch_start_ns:
            times.epoch_start_ns += pause

    def _seldom(self, event_name: Any) -> EventTimes | None:
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
            return
        self._open(engine)
        if event_name == Events.STARTED:
            return
        # From the middle of a run on, maybe of an iteration.
        state = engine.state
        coming = event_name == Events.GET_BATCH_COMPLETED
        self._row[0] = position(state.epoch, state.iteration + coming)

    # ------------------------------------------------------------ the end of a run without our run

    def _watch_exceptions(self, engine: Engine) -> None:
        """Hear of an exception in a run that may be going on, called before our ``run``."""
        if "_handle_exception" in engine.__dict__:
            return
        ref, plain, clock = self._ref, type(engine)._handle_exception, self  # noqa: SLF001

        def handle_exception(error: BaseException) -> None:
            engine: Any = ref()
            try:
                plain(engine, error)
            except BaseException:
                clock._end(engine, perf_counter_ns())
                raise

        self._failing = engine.__dict__["_handle_exception"] = handle_exception

    def _left_seldom(self, times: EventTimes, end: int) -> None:
        if self._running or self.engine is None:
            return
        skips = getattr(self.engine, "should_terminate", False) == "skip_completed"
        if times.name in ("COMPLETED", "INTERRUPT") or (times.name == "TERMINATE" and skips):
            self._end(self.engine, end)

    # ------------------------------------------------------------ between iterations

    def _refresh_due(self) -> None:
        self._due_ns = min((one.due_ns for one in self.listeners), default=NEVER)

    def _pause_for(self, now: int) -> None:
        """Take in what waits, and tell whoever wants to know."""
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


def _put_back(engine: Engine, name: str, before: Any) -> None:
    """Let an engine have again what was there before us."""
    if before is None:
        del engine.__dict__[name]
    else:
        engine.__dict__[name] = before
