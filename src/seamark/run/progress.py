"""Progress of the loops of a training: ``for epoch in run.progress(...)``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from seamark.errors import ArgumentError
from seamark.pictures.printing import show
from seamark.process.interrupts import quietly
from seamark.reading.facts import PROGRESS, Loop, progress_words
from seamark.values import shown

if TYPE_CHECKING:
    from seamark.run.recorder import Recorder

__all__ = ["Loops", "Progress"]

T = TypeVar("T")

_EVERY_S: Final = 1.0


class Progress(Generic[T]):
    """A loop that says how far it is; made by `seamark.Run.progress`.

    Attributes:
        name: Name of the loop.
        total: Number of rounds; None if that is not known.
        start: Number of rounds that were done before.
        done: Number of rounds that are done, those before included.
    """

    def __init__(
        self, loops: Loops, iterable: Iterable[T], name: str, total: int | None, start: int
    ) -> None:
        self._loops, self._iterable = loops, iterable
        self.name, self.total, self.start = name, total, start
        self.done = start
        self._began: float | None = None
        self._ended: float | None = None

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
            msg = f"progress {self.name!r}: how many rounds it makes is not known: give total="
            raise TypeError(msg)
        return max(0, self.total - self.start)

    @property
    def elapsed_s(self) -> float:
        """Elapsed time in seconds; 0 before the first round."""
        if self._began is None:
            return 0.0
        return (perf_counter() if self._ended is None else self._ended) - self._began

    @property
    def remaining_s(self) -> float | None:
        """Estimated remaining time in seconds, inner loops included; None if unknown.

        What was done before a resume says nothing about the pace.
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
        """Print how far this loop and those around it are, with a message behind it."""
        words = progress_words(self._loops.states(self))
        show(f"{words}  {message}" if message else words)

    def part(self) -> float:
        """Return which part of it is done, from 0 to 1; 0 if that is not known."""
        if not self.total:
            return 0.0
        return min(1.0, (self.done + self._loops.part_inside(self)) / self.total)

    def as_loop(self) -> Loop:
        """Return how far it is now."""
        return Loop(self.name, self.done, self.total, self.elapsed_s, self.remaining_s)


class Loops:
    """The loops that a run is in, the outer ones first."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._inside: list[Progress[Any]] = []
        self.due = 0.0

    def progress(
        self, iterable: Iterable[T], name: str, total: int | None = None, start: int = 0
    ) -> Progress[T]:
        """Return a loop; see `seamark.Run.progress`."""
        if not isinstance(name, str) or not name.strip():
            msg = f"name: expected what the loop is called, such as 'epoch', got {shown(name)}"
            raise ArgumentError(msg)
        if isinstance(iterable, str) or not hasattr(type(iterable), "__iter__"):
            msg = f"progress: expected something to iterate over, got {shown(iterable)}"
            raise ArgumentError(msg)
        for what, given in (("total", total), ("start", start)):
            if (what == "start" or given is not None) and (type(given) is not int or given < 0):
                msg = f"{what}: expected a whole number from 0 on, got {shown(given)}"
                raise ArgumentError(msg)
        if total is None:
            with quietly():  # a loader of an iterable data set has a length that raises
                total = start + len(iterable)  # type: ignore[arg-type]
        return Progress(self, iterable, name, total, start)

    def begin(self, loop: Progress[Any]) -> None:
        """Enter a loop."""
        self._inside.append(loop)
        self.record()

    def end(self, loop: Progress[Any]) -> None:
        """Leave a loop, and those inside of it that were left before they ended."""
        if loop in self._inside:
            if loop is self._inside[0]:
                self.record()
            del self._inside[self._inside.index(loop) :]

    def part_inside(self, loop: Progress[Any]) -> float:
        """Return which part is done of the loop that is directly inside of another one."""
        inside = self._inside
        at = inside.index(loop) + 1 if loop in inside else len(inside)
        return inside[at].part() if at < len(inside) else 0.0

    def states(self, loop: Progress[Any]) -> list[Loop]:
        """Return how far a loop and those around it are."""
        inside = self._inside
        around = inside[: inside.index(loop)] if loop in inside else []
        return [each.as_loop() for each in (*around, loop)]

    def record(self) -> None:
        """Record how far all loops are, if that was not done just now. Never raises."""
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
