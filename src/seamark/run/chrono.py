"""Timers of blocks of code, and progress of loops."""

from __future__ import annotations

import inspect
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ContextDecorator
from dataclasses import asdict
from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from seamark.errors import ArgumentError
from seamark.options.checks import check_keep
from seamark.paths import MAX_PATH_BYTES, check_path
from seamark.pictures.printing import show
from seamark.process import fork
from seamark.process.interrupts import quietly
from seamark.reading.facts import PROGRESS, Loop, progress_words
from seamark.values._numbers import argument_error
from seamark.values.statistics import Statistics

if TYPE_CHECKING:
    from types import TracebackType

    from seamark.run.aggregation import Cell
    from seamark.run.lifecycle import Lifecycle
    from seamark.run.recorder import Recorder
    from seamark.values.aggregates import Keep


log = logging.getLogger("seamark")
F = TypeVar("F", bound=Callable[..., Any])
NAMESPACE: Final = "chronos"
_CUDA: Final = ("off", "events", "synchronize")
_WAITING: Final = 1024
_LONGEST: Final = MAX_PATH_BYTES // 2
_Frame = tuple["Chrono", str, int, Any]
"""An active block of a thread: its timer, the path of its time, ``perf_counter_ns()`` at its start,
and its CUDA event or ``"synchronize"`` (None: the device is not involved)."""


class _Blocks(threading.local):
    def __init__(self) -> None:
        self.frames: list[_Frame] = []


class Chrono(ContextDecorator):
    """Timer of blocks of code and functions; made by `seamark.Run.chrono`.

    Use it in a ``with`` statement, any number of times and in any number of threads, or as a
    decorator.
    """

    def __init__(
        self,
        chronos: Chronos,
        name: str,
        keep: Keep,
        on_start: Callable[[], object] | None,
        on_end: Callable[[], object] | None,
        cuda: str,
    ) -> None:
        self._chronos = chronos
        self.name = name
        self._keep = keep
        self._on_start = on_start
        self._on_end = on_end
        self._cuda = cuda
        self._asks = on_start is not None or cuda != "off"
        self._path = f"{NAMESPACE}/{name}"
        self._blocks = chronos.blocks

    def __repr__(self) -> str:
        return f"<Chrono {self.name!r}>"

    def __enter__(self) -> Chrono:  # noqa: PYI034 - typing.Self is of Python 3.11
        event = self._start_clock() if self._asks else None
        frames = self._blocks.frames
        path = _path_in(frames, self) if frames else self._path
        frames.append((self, path, perf_counter_ns(), event))
        return self

    def _start_clock(self) -> Any:
        if self._on_start is not None:
            self._on_start()
        return None if self._cuda == "off" else self._chronos.start_event(self._cuda)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._on_end is not None:
                self._on_end()
        finally:
            frames = self._blocks.frames
            at = len(frames) - 1
            while at >= 0 and frames[at][0] is not self:  # generators end in another order
                at -= 1
            if at >= 0:  # otherwise it began in another thread
                frame = frames.pop(at)
                if frame[3] is None or not self._chronos.end_event(frame, self._keep):
                    now_ns = perf_counter_ns()
                    spent = (now_ns - frame[2]) / 1e9
                    self._chronos.record_time(frame[1], self._keep, spent, now_ns)

    def __call__(self, function: F) -> F:
        """Return a timed function; reject coroutine functions and generator functions."""
        if not callable(function):
            raise argument_error(function, "chrono", "a function to decorate")
        if (
            inspect.iscoroutinefunction(function)
            or inspect.isgeneratorfunction(function)
            or inspect.isasyncgenfunction(function)
        ):
            name = getattr(function, "__qualname__", repr(function))
            raise ArgumentError(
                f"chrono: {name} does not run when it is called, but when it is awaited or "
                "iterated over; use `with run.chrono(...)` inside"
            )

        return super().__call__(function)


def _path_in(frames: list[_Frame], chrono: Chrono) -> str:
    """Return the path of a block within others; a block within itself keeps its path."""
    name, outer = chrono.name, frames[-1][1]
    for around, path, _, _ in frames:
        if around.name == name:
            return path
    return f"{outer}/{name}" if len(outer) < _LONGEST else outer


class Chronos:
    """The timers of a run."""

    def __init__(self, recorder: Recorder, lifecycle: Lifecycle) -> None:
        self._recorder, self._lifecycle, self._kept = recorder, lifecycle, recorder.kept
        self._usual: dict[str, Chrono] = {}
        self.blocks = _Blocks()
        self._asked = False
        self._torch: Any = None
        self._waiting: deque[tuple[Any, Any, str, Keep]] = deque()
        """Times between CUDA events, read after the device has passed them."""
        fork.register(self.after_fork)

    def after_fork(self) -> None:
        """Reset pending times in a forked child."""
        self._waiting.clear()

    def chrono(
        self,
        name: str,
        keep: Keep | None = None,
        on_start: Callable[[], object] | None = None,
        on_end: Callable[[], object] | None = None,
        cuda: str = "off",
    ) -> Chrono:
        """Return the timer of blocks under a name; see `seamark.Run.chrono`."""
        plain = keep is None and on_start is None and on_end is None and cuda == "off"
        if plain and name.__class__ is str and (found := self._usual.get(name)) is not None:
            return found
        checked = check_path(name)
        if cuda not in _CUDA:
            raise argument_error(cuda, "cuda", f"one of {', '.join(map(repr, _CUDA))}")
        for what, call in (("on_start", on_start), ("on_end", on_end)):
            if call is not None and not callable(call):
                raise argument_error(call, what, "a function without arguments")
        kept = Statistics() if keep is None else check_keep("keep", keep)
        if cuda != "off" and self._find_device():
            self._lifecycle.on(rest=self._collect, stop=self._collect)
        made = Chrono(self, checked, kept, on_start, on_end, cuda if self._torch else "off")
        if plain:
            self._usual[checked] = made
        return made

    def record_time(self, path: str, keep: Keep, seconds: float, now_ns: int | None = None) -> None:
        """Record the duration of a block in seconds. Never raises."""
        kept = self._kept
        cell = kept.cells.get(path) or self._begin(path, keep)
        if cell is None:
            return
        cell.update(seconds)
        if (now_ns or perf_counter_ns()) >= kept.due_ns:
            kept.write()

    def _begin(self, path: str, keep: Keep) -> Cell | None:
        recorder = self._recorder

        with recorder.guard("chrono", "durations could not be recorded"):
            if recorder.recording and (writer := recorder.to_write()) is not None:
                return recorder.kept.keep(writer, check_path(path), keep)
        return None

    # ---------------------------------------------------------------- times of a CUDA device

    def _find_device(self) -> bool:
        torch = sys.modules.get("torch")  # if torch was never imported, nothing runs on a device
        if self._asked and (self._torch is not None or torch is None):
            return False
        with quietly():
            if torch is not None and torch.cuda.is_available():
                self._torch = torch
        if self._torch is None and not self._asked:
            log.warning(
                "seamark: there is no CUDA device: chrono(cuda=...) measures wall time only"
            )
        self._asked = True
        return self._torch is not None

    def start_event(self, how: str) -> Any:
        """Begin a block on the device: return its event, or wait for the device. Never raises."""
        with quietly(self._lost):
            if how == "events":
                return self._event()
            self._torch.cuda.synchronize()
            return how
        return None

    def _event(self) -> Any:
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def end_event(self, frame: _Frame, keep: Keep) -> bool:
        """Mark the end of a block; return whether its time is the device's. Never raises."""
        with quietly(self._lost):
            if frame[3] == "synchronize":
                self._torch.cuda.synchronize()
                return False
            self._waiting.append((frame[3], self._event(), frame[1], keep))
            while self._waiting and (len(self._waiting) > _WAITING or self._waiting[0][1].query()):
                self._take()
            return True
        return False

    def _take(self) -> None:
        start, end, path, keep = self._waiting.popleft()
        end.synchronize()
        self.record_time(path, keep, start.elapsed_time(end) / 1e3)

    def _collect(self) -> None:
        while self._waiting:
            self._take()

    @staticmethod
    def _lost(error: Exception) -> None:
        log.warning("seamark: a CUDA time could not be read: %r", error)


T = TypeVar("T")
_EVERY_S: Final = 1.0


class Progress(Generic[T]):
    """A loop that reports its progress; made by `seamark.Run.progress`.

    Attributes:
        name: Name of the loop.
        total: Number of rounds; None if unknown.
        start: Number of rounds done before this loop.
        done: Number of finished rounds, including those before.
    """

    def __init__(
        self, loops: Loops, iterable: Iterable[T], name: str, total: int | None, start: int
    ) -> None:
        self._loops, self._iterable = loops, iterable
        self.name, self.total, self.start = name, total, start
        self.done = start
        self._began = 0.0
        self._ended: float | None = 0.0

    def __iter__(self) -> Iterator[T]:
        loops = self._loops
        self.done, self._ended = self.start, None
        self._began = perf_counter()
        loops.begin(self)
        try:
            for each in self._iterable:
                yield each
                self.done += 1
                if perf_counter() >= loops.due:
                    loops.record()
        finally:
            self._ended = perf_counter()
            loops.end(self)

    def __len__(self) -> int:
        if self.total is None:
            raise TypeError(
                f"progress {self.name!r}: the number of iterations is unknown: give total="
            )
        return max(0, self.total - self.start)

    @property
    def elapsed_s(self) -> float:
        """Elapsed time in seconds; 0 before the first round."""
        return (perf_counter() if self._ended is None else self._ended) - self._began

    @property
    def remaining_s(self) -> float | None:
        """Estimated remaining time in seconds, inner loops included; None if unknown.

        Rounds before a resume do not count for the pace.
        """
        if self.total is None:
            return None
        done = self.done + self._loops.part_inside(self)
        pace = done - self.start
        left = max(0.0, self.total - done)
        if not left:
            return 0.0
        return self.elapsed_s * left / pace if pace > 0 else None

    def show(self, message: str = "") -> None:
        """Print the progress of this loop and the loops around it, followed by a message."""
        words = progress_words(self._loops.states(self))
        show(f"{words}  {message}" if message else words)

    def part(self) -> float:
        """Return the finished fraction, from 0 to 1; 0 if unknown."""
        if not self.total:
            return 0.0
        return min(1.0, (self.done + self._loops.part_inside(self)) / self.total)

    def as_loop(self) -> Loop:
        """Return its current progress."""
        return Loop(self.name, self.done, self.total, self.elapsed_s, self.remaining_s)


class Loops:
    """Active loops of a run, outer loops first."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._inside: list[Progress[Any]] = []
        self.due = 0.0

    def progress(
        self, iterable: Iterable[T], name: str, total: int | None = None, start: int = 0
    ) -> Progress[T]:
        """Return a loop; see `seamark.Run.progress`."""
        if not isinstance(name, str) or not name.strip():
            raise argument_error(name, "name", "the name of the loop, such as 'epoch'")
        if isinstance(iterable, str) or not hasattr(type(iterable), "__iter__"):
            raise argument_error(iterable, "progress", "an iterable")
        for what, given in (("total", total), ("start", start)):
            if (what == "start" or given is not None) and (type(given) is not int or given < 0):
                raise argument_error(given, what, "a whole number of at least 0")
        if total is None:
            with quietly():  # len() of a loader of an iterable data set raises
                total = start + len(iterable)  # type: ignore[arg-type]
        return Progress(self, iterable, name, total, start)

    def begin(self, loop: Progress[Any]) -> None:
        """Enter a loop."""
        self._inside.append(loop)
        self.record()

    def end(self, loop: Progress[Any]) -> None:
        """Leave a loop, and the unfinished loops inside it."""
        if loop in self._inside:
            if loop is self._inside[0]:
                self.record()
            del self._inside[self._inside.index(loop) :]

    def part_inside(self, loop: Progress[Any]) -> float:
        """Return the finished fraction of the loop directly inside another one."""
        inside = self._inside
        at = inside.index(loop) + 1 if loop in inside else len(inside)
        return inside[at].part() if at < len(inside) else 0.0

    def states(self, loop: Progress[Any]) -> list[Loop]:
        """Return the progress of a loop and of the loops around it."""
        inside = self._inside
        around = inside[: inside.index(loop)] if loop in inside else []
        return [each.as_loop() for each in (*around, loop)]

    def record(self) -> None:
        """Record the progress of all loops, unless that was done just now. Never raises."""
        now = perf_counter()
        is_first = len(self._inside) == 1
        if now < self.due and not is_first:
            return
        self.due = now + _EVERY_S
        if not self._recorder.speaks_for_all:
            return
        with quietly():
            self._recorder.to_write()
            told = [asdict(each.as_loop()) for each in self._inside]
            self._recorder.values.assign_quietly({PROGRESS: told})
