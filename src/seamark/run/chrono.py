"""Timers of blocks of code: ``with run.chrono("batch_time"):``."""

from __future__ import annotations

import functools
import inspect
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, TypeVar

from seamark.errors import ArgumentError
from seamark.options.checks import check_keep
from seamark.paths import MAX_PATH_BYTES, check_path
from seamark.process import fork
from seamark.process.interrupts import quietly
from seamark.values import shown
from seamark.values.statistics import Statistics

if TYPE_CHECKING:
    from types import TracebackType

    from seamark.run.aggregation import Cell
    from seamark.run.lifecycle import Lifecycle
    from seamark.run.recorder import Recorder
    from seamark.values.aggregates import Keep

__all__ = ["Chrono", "Chronos"]

log = logging.getLogger("seamark")

F = TypeVar("F", bound=Callable[..., Any])

NAMESPACE: Final = "chronos"
_CUDA: Final = ("off", "events", "synchronize")
_WAITING: Final = 1024
_LONGEST: Final = MAX_PATH_BYTES // 2


_Frame = tuple["Chrono", str, int, Any]
"""A block that a thread is in: its timer, the path of its time, ``perf_counter_ns()`` at its start,
and its CUDA event or ``"synchronize"`` (None: the device was not asked)."""


class _Blocks(threading.local):
    def __init__(self) -> None:
        self.frames: list[_Frame] = []


class Chrono:
    """Times blocks of code and functions; made by `seamark.Run.chrono`.

    Use it in ``with``, as often and in as many threads as you like, or as a decorator.
    """

    __slots__ = (
        "_asks",
        "_blocks",
        "_chronos",
        "_cuda",
        "_keep",
        "_on_end",
        "_on_start",
        "_path",
        "name",
    )

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
        return None if self._cuda == "off" else self._chronos.device.start(self._cuda)

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
            if at >= 0:  # else it began in another thread
                frame = frames.pop(at)
                if frame[3] is None or not self._chronos.device.end(frame, self._keep):
                    now_ns = perf_counter_ns()
                    spent = (now_ns - frame[2]) / 1e9
                    self._chronos.record_time(frame[1], self._keep, spent, now_ns)

    def __call__(self, function: F) -> F:
        """Return a timed function; refuse one whose call only makes a coroutine or generator."""
        if not callable(function):
            msg = f"chrono: expected a function to decorate, got {shown(function)}"
            raise ArgumentError(msg)
        if (
            inspect.iscoroutinefunction(function)
            or inspect.isgeneratorfunction(function)
            or inspect.isasyncgenfunction(function)
        ):
            name = getattr(function, "__qualname__", repr(function))
            msg = (
                f"chrono: {name} does not run when it is called, but when it is awaited or "
                "iterated over; use `with run.chrono(...)` inside"
            )
            raise ArgumentError(msg)

        @functools.wraps(function)
        def timed(*given: Any, **named: Any) -> Any:
            with self:
                return function(*given, **named)

        return timed  # type: ignore[return-value]  # called like it


def _path_in(frames: list[_Frame], chrono: Chrono) -> str:
    """Return where a block is kept inside of others; one inside itself, where it is already."""
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
        self.device = _Device(self.record_time)
        fork.register(self.after_fork)

    def after_fork(self) -> None:
        """Reset pending times in a forked child."""
        self.device.waiting.clear()

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
            msg = f"cuda: expected one of {', '.join(map(repr, _CUDA))}, got {shown(cuda)}"
            raise ArgumentError(msg)
        for what, call in (("on_start", on_start), ("on_end", on_end)):
            if call is not None and not callable(call):
                msg = f"{what}: expected a function without arguments, got {shown(call)}"
                raise ArgumentError(msg)
        kept = Statistics() if keep is None else check_keep("keep", keep)
        if cuda != "off" and self.device.find():
            self._lifecycle.on(rest=self.device.collect, stop=self.device.collect)
        made = Chrono(self, checked, kept, on_start, on_end, cuda if self.device.torch else "off")
        if plain:
            self._usual[checked] = made
        return made

    def record_time(self, path: str, keep: Keep, seconds: float, now_ns: int | None = None) -> None:
        """Keep how long a block took, in seconds. Never raises."""
        kept = self._kept
        cell = kept.cells.get(path) or self._begin(path, keep)
        if cell is None:
            return
        cell.update(seconds)
        if (now_ns or perf_counter_ns()) >= kept.due_ns:
            kept.write()

    def _begin(self, path: str, keep: Keep) -> Cell | None:
        recorder = self._recorder

        def drop(error: Exception) -> None:
            recorder.drop("chrono", 1, f"how long things take is not kept: {error}")

        with quietly(drop):
            if recorder.recording and (writer := recorder.to_write()) is not None:
                return recorder.kept.keep(writer, check_path(path), keep)
        return None


class _Device:
    """Times between CUDA events, in seconds, read when the device has passed them."""

    def __init__(self, record_time: Callable[[str, Keep, float], None]) -> None:
        self._record_time = record_time
        self._asked = False
        self.torch: Any = None
        self.waiting: deque[tuple[Any, Any, str, Keep]] = deque()

    def find(self) -> bool:
        torch = sys.modules.get("torch")  # what was never imported has nothing on a device
        if self._asked and (self.torch is not None or torch is None):
            return False
        with quietly():
            if torch is not None and torch.cuda.is_available():
                self.torch = torch
        if self.torch is None and not self._asked:
            log.warning("seamark: there is no CUDA device: chrono(cuda=...) times the wall clock")
        self._asked = True
        return self.torch is not None

    def start(self, how: str) -> Any:
        """Begin a block on the device: return its event, or wait for the device; never raises."""
        with quietly(self._lost):
            if how == "events":
                return self._event()
            self.torch.cuda.synchronize()
            return how
        return None

    def _event(self) -> Any:
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def end(self, frame: _Frame, keep: Keep) -> bool:
        """Mark the end of a block; return whether its time is that of the device. Never raises."""
        with quietly(self._lost):
            if frame[3] == "synchronize":
                self.torch.cuda.synchronize()
                return False
            self.waiting.append((frame[3], self._event(), frame[1], keep))
            while self.waiting and (len(self.waiting) > _WAITING or self.waiting[0][1].query()):
                self._take()
            return True
        return False

    def _take(self) -> None:
        start, end, path, keep = self.waiting.popleft()
        end.synchronize()
        self._record_time(path, keep, start.elapsed_time(end) / 1e3)

    def collect(self) -> None:
        while self.waiting:
            self._take()

    @staticmethod
    def _lost(error: Exception) -> None:
        log.warning("seamark: a time of the CUDA device is lost: %r", error)
