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
from typing import TYPE_CHECKING, Any, Final, TypeVar

from seamark.process import fork
from seamark.process.rank import current_rank, local_rank

if TYPE_CHECKING:
    from seamark.capture.hardware.machine import Machine, Reading, Values
    from seamark.capture.part import Recorder

__all__ = ["BEGIN_S", "EVERY_S", "FIRST_S", "LAST_S", "Hardware", "Sampler", "between"]

_T = TypeVar("_T")

log = logging.getLogger("seamark")

BEGIN_S: Final = 0.5
"""Nothing is looked at before, in seconds: not for a script that only adds a tag, and not while a
training that has just begun imports modules and forks its workers."""
EVERY_S: Final = 10.0
"""Interval of samples, in seconds."""
FIRST_S: Final = 2.0
"""Time from the start to the first sample, in seconds: rates need some time to be of."""
LAST_S: Final = 1.0
"""The least time from the sample before to the last one at the end, in seconds."""
# Who would be due so soon after another gets the same reading, in seconds.
_TOGETHER_S: Final = 1.0
# The longest time that the end of a run waits for the last sample, in seconds.
_GRACE_S: Final = 0.2
_LIMITS: Final = {"cpu": 100.0}


class Sampler:
    """The one thread of a process that reads the machine, for all runs that record it.

    The training's thread and this one talk through queues: they may be used in signal handlers,
    where a lock could be held by what was interrupted. A question may hang for ever, in a driver;
    then so does the thread, and nobody waits for it longer than he said, or starts another one.
    """

    def __init__(
        self,
        machine: Callable[[], Machine] | None = None,
        clock: Callable[[], float] = time.monotonic,
        commands: queue.SimpleQueue[tuple[_Recording, bool]] | None = None,
    ) -> None:
        self._make = machine or _machine
        self._clock = clock
        self._begin(commands or queue.SimpleQueue())
        fork.register(self._begin_child)

    def _begin(self, commands: queue.SimpleQueue[tuple[_Recording, bool]]) -> None:
        self._commands = commands
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None

    def _begin_child(self) -> None:
        # A forked child has no such thread and nobody who listens.
        self._begin(queue.SimpleQueue())

    def add(self, recording: _Recording) -> None:
        """Take samples for a run from now on."""
        with self._lock:
            self._commands.put((recording, True))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self.serve, name="seamark-hardware", daemon=True
                )
                try:
                    self._thread.start()
                except RuntimeError:  # no more threads, or the interpreter is ending
                    self._thread = None
                    raise

    def remove(self, recording: _Recording, timeout_s: float) -> None:
        """Give a run the last sample, and end the thread if it was the last run.

        Waits for both at most the given time; nothing is recorded any more when this returns.
        """
        until = self._clock() + timeout_s
        with self._lock:
            if (thread := self._thread) is not None:
                self._commands.put((recording, False))
        if thread is None:
            recording.close(0)
            return
        try:
            ends = recording.ended.get(timeout=timeout_s)
        except queue.Empty:  # it hangs
            ends = False
        recording.close(max(0.0, until - self._clock()))
        if ends:
            thread.join(max(0.0, until - self._clock()))

    # ---------------------------------------------------------------- on the thread

    def serve(self) -> None:
        """Do what the thread does, until no run is left."""
        machine: Machine | None = None
        served: list[_Recording] = []
        while True:
            if not served and self._commands.empty():
                if machine is not None:
                    machine.close()
                if self._stop_if_idle():
                    return
            until = min((one.due for one in served), default=self._clock())
            try:
                recording, comes = self._commands.get(timeout=max(0.0, until - self._clock()))
            except queue.Empty:
                machine = machine or self._make()  # not before somebody begins
                self._sample(machine, served)
                continue
            if comes:
                recording.since = self._clock()
                recording.due = recording.since + BEGIN_S
                served.append(recording)
            else:
                self._end(machine, served, recording)

    def _stop_if_idle(self) -> bool:
        with self._lock:
            if not self._commands.empty():
                return False
            self._thread = None
            return True

    def _sample(self, machine: Machine, served: list[_Recording]) -> None:
        now = self._clock()
        for one in [each for each in served if each.last is None and each.due <= now]:
            if _quiet(one.begin, machine):
                self._give(machine, [one])
                one.due = max(one.since + FIRST_S, self._clock() + LAST_S)
            else:
                served.remove(one)
        begun = [one for one in served if one.last is not None]
        if any(one.due <= now for one in begun):
            self._give(machine, [one for one in begun if one.due <= now + _TOGETHER_S])

    def _give(self, machine: Machine, due: list[_Recording]) -> None:
        now = self._clock()
        reading = _quiet(machine.read)
        for one in due:
            one.last, one.due = now, now + EVERY_S
            if reading is not None:
                _quiet(one.take, reading, machine)

    def _end(
        self, machine: Machine | None, served: list[_Recording], recording: _Recording
    ) -> None:
        if recording in served:
            served.remove(recording)
            last = recording.last
            if machine is not None and last is not None and self._clock() - last >= LAST_S:
                self._give(machine, [recording])
        recording.ended.put(not served and self._commands.empty())


def _quiet(call: Callable[..., _T], *given: Any) -> _T | None:
    try:
        return call(*given)
    except Exception:
        log.debug("seamark: hardware could not be recorded", exc_info=True)
        return None


def _machine() -> Machine:
    with fork.held_off():
        from seamark.capture.hardware.machine import Machine
    return Machine()


of_process: Final = Sampler()


class Hardware:
    """Records facts of the machine once, and its metrics as long as the run is being recorded."""

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
        recording = _Recording(self._run, self._namespace, facts=self._facts, metrics=self._metrics)
        self._sampler.add(recording)
        self._recording, self._facts = recording, False

    def stop(self, timeout_s: float) -> None:
        """Record the last sample, and end; hardware that does not answer gets 0.2 s at most."""
        recording, self._recording = self._recording, None
        if recording is not None:
            self._sampler.remove(recording, min(timeout_s, _GRACE_S))


class _Recording:
    """Recording of the machine from one start to one stop; all but `close` is called on the thread.

    Attributes:
        ended: Gets one item after the last sample: whether the thread ends now.
        since: When it was added, in seconds on the sampler's clock.
        due: When it begins, or gets the next reading.
        last: When it had the last one; None before it has begun.
    """

    def __init__(self, run: Recorder, namespace: str, *, facts: bool, metrics: bool) -> None:
        self.ended: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.since = self.due = 0.0
        self.last: float | None = None
        self._run = run
        self._namespace = namespace
        self._facts = facts
        self._metrics = metrics
        # A rank above 0 records only its own GPUs, and the first one of a host what is common.
        self._rank = current_rank().rank
        self._host = not self._rank or not local_rank()
        self._before: Reading | None = None
        self._lock = threading.RLock()
        self._closed = False

    def begin(self, machine: Machine) -> bool:
        """Record the facts; return whether samples are wanted."""
        for facts in machine.facts() if self._facts else ():
            self._record(self._run.assign_quietly, "environment/", facts)
        return self._metrics and not self._closed

    def take(self, reading: Reading, machine: Machine) -> None:
        """Record the values between the previous reading and this one; nothing for the first."""
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
        self._record(self._run.append_numbers, "", found)

    def _of_gpus(self, reading: Reading, machine: Machine) -> dict[str, float]:
        """Return the metrics of GPUs, named ``gpu_<number>`` where there are several."""
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
        """Record nothing any more; wait so long for what is just being recorded."""
        waited = self._lock.acquire(timeout=timeout_s)
        self._closed = True
        if waited:
            self._lock.release()


def between(
    before: Values, after: Values, seconds: float, limits: Mapping[str, float]
) -> dict[str, float]:
    """Return what is recorded of the time between two readings, which is given in seconds.

    A rate is left out where its counter is new, or fell, as that of processes may that are gone. It
    is never above its limit: two clocks never agree to the last digit.
    """
    found = dict(after.present)
    for name, count in after.counted.items():
        if seconds > 0 and name in before.counted and count >= before.counted[name]:
            rate = (count - before.counted[name]) / seconds
            found[name] = min(rate, limits.get(name, rate))
    return found
