"""Metrics of the machine while a run is recorded: CPU, memory, disk, network, GPUs.

One daemon thread of the process (`Sampler`) reads the metrics every few seconds (`machine`, which
uses `cgroup` and `gpus`), and each run that is being recorded gets a row of them (`Hardware`). None
of this happens on the training's thread: a driver may take seconds to answer, or hang.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from seamark.process import fork
from seamark.process.rank import current_rank, local_rank

if TYPE_CHECKING:
    from seamark.capture.hardware.machine import Machine, Reading, Values
    from seamark.capture.part import Recorder

__all__ = [
    "BEGIN_S",
    "EVERY_S",
    "FIRST_S",
    "LAST_S",
    "Hardware",
    "Listener",
    "Sampler",
    "of_process",
]

log = logging.getLogger("seamark")

_GRACE_S: Final = 0.2
"""The longest time that the end of a run waits for the last sample, in seconds."""
_LIMITS: Final = {"cpu": 100.0}


BEGIN_S: Final = 0.5
"""Nothing is looked at before, in seconds: not for a script that only adds a tag, and not while a
training that has just begun imports modules and forks its workers."""
EVERY_S: Final = 10.0
"""A sample is taken at this interval, in seconds."""
FIRST_S: Final = 2.0
"""The first one comes so long after the start, in seconds: rates need some time to be of."""
LAST_S: Final = 1.0
"""There is a last one at the end, if so much time has passed since the one before, in seconds."""
_TOGETHER_S: Final = 1.0
"""Who would be due so soon after another gets the same reading, in seconds."""


class Listener(Protocol):
    """Somebody for whom samples are taken; all but `ended` and `close` is called on the thread.

    Attributes:
        ended: Gets one item when the last sample was given: whether the thread ends now.
    """

    ended: queue.SimpleQueue[bool]

    def begin(self, machine: Machine) -> bool:
        """Take note of facts; return whether samples are wanted."""

    def take(self, reading: Reading, machine: Machine) -> None:
        """Take a reading: the first is where rates begin, each further one is recorded."""

    def close(self, timeout_s: float) -> None:
        """Take nothing any more from now on."""


class _Waiting:
    """A listener, and when it comes next.

    Attributes:
        listener: Who it is.
        since: When it was added, in seconds.
        due: When it begins, or gets the next reading.
        last: When it had the last one; None before it has begun.
    """

    __slots__ = ("due", "last", "listener", "since")

    def __init__(self, listener: Listener, now: float) -> None:
        self.listener = listener
        self.since = now
        self.due = now + BEGIN_S
        self.last: float | None = None


def _machine() -> Machine:
    with fork.held_off():
        from seamark.capture.hardware.machine import Machine
    return Machine()


class Sampler:
    """Takes samples on a thread that is there as long as somebody listens.

    Args:
        machine: What is asked; belongs to the thread.
        clock: Seconds that never step.
        commands: What the thread waits at.
    """

    def __init__(
        self,
        machine: Callable[[], Machine] = _machine,
        clock: Callable[[], float] = time.monotonic,
        commands: queue.SimpleQueue[tuple[Listener, bool]] | None = None,
    ) -> None:
        self._make = machine
        self._clock = clock
        self._commands = queue.SimpleQueue() if commands is None else commands
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None

    def add(self, listener: Listener) -> None:
        """Take samples for somebody from now on."""
        with self._lock:
            self._commands.put((listener, True))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self.serve, name="seamark-hardware", daemon=True
                )
                try:
                    self._thread.start()
                except RuntimeError:  # no more threads, or the interpreter is ending
                    self._thread = None
                    raise

    def remove(self, listener: Listener, timeout_s: float) -> None:
        """Give somebody the last sample, and end the thread if nobody else listens.

        Args:
            listener: Who was added; gets nothing any more when this returns.
            timeout_s: How long to wait for both, in seconds.
        """
        until = self._clock() + timeout_s
        with self._lock:
            if (thread := self._thread) is not None:
                self._commands.put((listener, False))
        if thread is None:
            listener.close(0)
            return
        try:
            ends = listener.ended.get(timeout=timeout_s)
        except queue.Empty:  # it hangs
            ends = False
        listener.close(max(0.0, until - self._clock()))
        if ends:
            thread.join(max(0.0, until - self._clock()))

    def begin_child(self) -> None:
        """Begin anew in a forked child, which has no such thread and nobody who listens."""
        self._commands = queue.SimpleQueue()
        self._lock = threading.RLock()
        self._thread = None

    # ---------------------------------------------------------------- on the thread

    def serve(self) -> None:
        """Do what the thread does, until nobody listens any more."""
        machine: Machine | None = None
        waiting: dict[Listener, _Waiting] = {}
        while True:
            if not waiting and self._commands.empty():
                if machine is not None:
                    machine.close()
                if self._stop_if_idle():
                    return
            until = min((one.due for one in waiting.values()), default=self._clock())
            try:
                listener, comes = self._commands.get(timeout=max(0.0, until - self._clock()))
            except queue.Empty:
                machine = machine or self._make()  # not before somebody begins
                self._sample(machine, waiting)
                continue
            if comes:
                waiting[listener] = _Waiting(listener, self._clock())
            else:
                self._end(machine, waiting, listener)

    def _stop_if_idle(self) -> bool:
        with self._lock:
            if not self._commands.empty():
                return False
            self._thread = None
            return True

    def _sample(self, machine: Machine, waiting: dict[Listener, _Waiting]) -> None:
        """Do what is due."""
        now = self._clock()
        for one in [each for each in waiting.values() if each.last is None and each.due <= now]:
            if _quiet(lambda one=one: one.listener.begin(machine)):  # type: ignore[misc]
                self._give(machine, [one])
                one.due = max(one.since + FIRST_S, self._clock() + LAST_S)
            else:
                del waiting[one.listener]
        begun = [one for one in waiting.values() if one.last is not None]
        if any(one.due <= now for one in begun):
            self._give(machine, [one for one in begun if one.due <= now + _TOGETHER_S])

    def _give(self, machine: Machine, due: list[_Waiting]) -> None:
        now = self._clock()
        try:
            reading = machine.read()
        except Exception:
            log.debug("seamark: the hardware could not be read", exc_info=True)
            reading = None
        for one in due:
            one.last, one.due = now, now + EVERY_S
            if reading is not None:
                _quiet(lambda one=one: one.listener.take(reading, machine))  # type: ignore[misc]

    def _end(
        self, machine: Machine | None, waiting: dict[Listener, _Waiting], listener: Listener
    ) -> None:
        one = waiting.pop(listener, None)
        if machine and one and one.last is not None and self._clock() - one.last >= LAST_S:
            self._give(machine, [one])
        listener.ended.put(not waiting and self._commands.empty())


def _quiet(call: Callable[[], object]) -> object:
    try:
        return call()
    except Exception:
        log.debug("seamark: hardware could not be recorded", exc_info=True)
        return None


of_process: Final = Sampler()
"""That of this process."""
fork.register(of_process.begin_child)


class Hardware:
    """Records facts of the machine once, and its numbers as long as the run is being recorded.

    Args:
        run: Where they are recorded.
        namespace: Path below which they stand, such as ``monitoring/<writer>``.
        facts: Whether facts are recorded.
        metrics: Whether numbers are.
        sampler: What takes the samples.
    """

    def __init__(
        self,
        run: Recorder,
        namespace: str,
        *,
        facts: bool = True,
        metrics: bool = True,
        sampler: Sampler = of_process,
    ) -> None:
        self._run = run
        self._namespace = namespace
        self._facts = facts
        self._metrics = metrics
        self._sampler = sampler
        self._recording: _Recording | None = None

    def start(self) -> None:
        """Begin to take samples; does nothing where that has begun, or nothing is left to do."""
        if self._recording is not None or not (self._facts or self._metrics):
            return
        rank = current_rank().rank
        recording = _Recording(
            self._run,
            self._namespace,
            facts=self._facts,
            metrics=self._metrics,
            host=not rank or not local_rank(),
            rank=rank,
        )
        self._sampler.add(recording)
        self._recording, self._facts = recording, False

    def stop(self, timeout_s: float) -> None:
        """Record the last sample, and end.

        Args:
            timeout_s: The longest time to wait, in seconds; a hardware that does not answer gets a
                fifth of a second of it at most.
        """
        recording, self._recording = self._recording, None
        if recording is not None:
            self._sampler.remove(recording, min(timeout_s, _GRACE_S))


class _Recording:
    """Recording of the machine from one start to one stop, called by the sampler.

    It is a `seamark.capture.hardware.Listener`.

    Args:
        run: Run to record into.
        namespace: Path below which everything is recorded.
        facts: Whether facts are recorded.
        metrics: Whether metrics are recorded.
        host: Whether this process records what all processes of the host have in common.
        rank: Rank of this process, 0-based; a rank above 0 records only its own GPUs where they
            are known.
    """

    def __init__(
        self,
        run: Recorder,
        namespace: str,
        *,
        facts: bool,
        metrics: bool,
        host: bool,
        rank: int,
    ) -> None:
        self.ended: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._run = run
        self._namespace = namespace
        self._facts = facts
        self._metrics = metrics
        self._host = host
        self._rank = rank
        self._before: Reading | None = None
        self._lock = threading.RLock()
        self._closed = False

    def begin(self, machine: Machine) -> bool:
        """Record the facts; return whether samples are wanted."""
        for facts in machine.facts() if self._facts else ():
            self._record(self._run.assign_quietly, "environment/", facts)
        return self._metrics and not self._closed

    def take(self, reading: Reading, machine: Machine) -> None:
        """Record what was so between the reading before and this one; nothing for the first."""
        before, self._before = self._before, reading
        if before is None:
            return
        seconds = reading.at - before.at
        found = between(before.process, reading.process, seconds, _LIMITS)
        if self._host:
            found.update(between(before.host, reading.host, seconds, _LIMITS))
            if (place := self._run.place) is not None and (free := machine.free(place)) is not None:
                found["disk_free"] = free
        found.update(self._of_gpus(reading, machine))
        if found:
            self._record(self._run.append_numbers, "", found)

    def _of_gpus(self, reading: Reading, machine: Machine) -> dict[str, float]:
        """Return the numbers of GPUs, named ``gpu_<number>`` where there are several."""
        numbers = machine.gpu_numbers
        wanted = frozenset(numbers)
        if self._rank and len(numbers) > 1:
            wanted = machine.own_gpus() or wanted
        return {
            f"{name}_{number}" if len(numbers) > 1 else name: value
            for number, said in reading.gpus.items()
            if number in wanted
            for name, value in said.items()
        }

    def _record(self, record: Any, below: str, values: dict[str, Any]) -> None:
        with self._lock:
            if not self._closed and values:
                record({f"{self._namespace}/{below}{name}": one for name, one in values.items()})

    def close(self, timeout_s: float) -> None:
        """Record nothing any more from now on.

        Args:
            timeout_s: How long to wait for what is just being recorded, in seconds.
        """
        waited = self._lock.acquire(timeout=timeout_s)
        self._closed = True
        if waited:
            self._lock.release()


def between(
    before: Values, after: Values, seconds: float, limits: Mapping[str, float]
) -> dict[str, float]:
    """Return what is recorded of the time between two readings.

    A rate is left out where its counter is new, or fell, as that of processes may that are gone.

    Args:
        before: The earlier ones.
        after: The later ones.
        seconds: How long the time between them was.
        limits: By name, what a rate cannot be above: two clocks never agree to the last digit.
    """
    found = dict(after.present)
    for name, count in after.counted.items():
        if seconds > 0 and name in before.counted and count >= before.counted[name]:
            rate = (count - before.counted[name]) / seconds
            found[name] = min(rate, limits.get(name, rate))
    return found
