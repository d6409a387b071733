"""Metrics of the machine while a run is recorded: CPU, memory, disk, network, GPUs.

A daemon thread of each run reads the metrics every few seconds (`machine`, which uses `gpus`) and
records a row of them. None of this happens on the training's thread: a driver may take seconds to
answer, or hang.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from seamark.process import fork
from seamark.process.rank import current_rank, local_rank

if TYPE_CHECKING:
    from seamark.capture.hardware.machine import Machine, Reading, Values
    from seamark.capture.part import Recorder

__all__ = ["BEGIN_S", "EVERY_S", "FIRST_S", "LAST_S", "Hardware", "Sampling", "between"]

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
# The longest time that the end of a run waits for the last sample, in seconds.
_GRACE_S: Final = 0.2
_LIMITS: Final = {"cpu": 100.0}


def _machine() -> Machine:
    with fork.held_off():
        from seamark.capture.hardware.machine import Machine
    return Machine()


class Hardware:
    """Records facts of the machine once, and its metrics as long as the run is being recorded."""

    def __init__(
        self,
        run: Recorder,
        namespace: str,
        *,
        facts: bool = True,
        metrics: bool = True,
        machine: Callable[[], Machine] = _machine,
    ) -> None:
        self._run = run
        self._namespace = namespace
        self._facts = facts
        self._metrics = metrics
        self._machine = machine
        self._sampling: Sampling | None = None

    def start(self) -> None:
        """Begin to take samples; does nothing where that has begun, or nothing is left to do."""
        if self._sampling is not None or not (self._facts or self._metrics):
            return
        sampling = Sampling(
            self._run,
            self._namespace,
            facts=self._facts,
            metrics=self._metrics,
            machine=self._machine,
        )
        sampling.thread.start()
        self._sampling, self._facts = sampling, False

    def stop(self, timeout_s: float) -> None:
        """Record the last sample, and end; hardware that does not answer gets 0.2 s at most."""
        sampling, self._sampling = self._sampling, None
        if sampling is not None:
            sampling.stop(min(timeout_s, _GRACE_S))


class Sampling:
    """Samples of a run from one start to one stop, on a thread of their own.

    Stopping talks to the thread through a queue: it may happen in a signal handler, where a lock
    could be held by what was interrupted.
    """

    def __init__(
        self,
        run: Recorder,
        namespace: str,
        *,
        machine: Callable[[], Machine],
        facts: bool = True,
        metrics: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.thread = threading.Thread(target=self.sample, name="seamark-hardware", daemon=True)
        self._make = machine
        self._clock = clock
        self._ended: queue.SimpleQueue[None] = queue.SimpleQueue()
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

    def stop(self, timeout_s: float) -> None:
        """Request the last sample, and wait for it; nothing is recorded when this returns."""
        until = time.monotonic() + timeout_s
        self._ended.put(None)
        self.thread.join(timeout_s)
        waited = self._lock.acquire(timeout=max(0.0, until - time.monotonic()))
        self._closed = True
        if waited:
            self._lock.release()

    def sample(self) -> None:
        """Record facts and samples until the end; the thread calls this."""
        since = self._clock()
        if not self._lasts(since + BEGIN_S):
            return
        try:
            with contextlib.closing(self._make()) as machine:
                for facts in machine.facts() if self._facts else ():
                    self._record(self._run.assign_quietly, "environment/", facts)
                if self._metrics and not self._closed:
                    self._take_all(machine, since)
        except Exception:
            log.debug("seamark: hardware could not be recorded", exc_info=True)

    def _take_all(self, machine: Machine, since: float) -> None:
        last = self._clock()
        self._take(machine)
        due = max(since + FIRST_S, self._clock() + LAST_S)
        while self._lasts(due):
            last, due = self._clock(), self._clock() + EVERY_S
            self._take(machine)
        if self._clock() - last >= LAST_S:
            self._take(machine)

    def _lasts(self, until: float) -> bool:
        """Wait until a time; return False if the run ends before."""
        try:
            self._ended.get(timeout=max(0.0, until - self._clock()))
        except queue.Empty:
            return True
        return False

    def _take(self, machine: Machine) -> None:
        """Record the values between the previous reading and a new one; nothing for the first."""
        try:
            reading = machine.read()
            before, self._before = self._before, reading
            if before is not None:
                found = self._between(before, reading, machine)
                self._record(self._run.append_numbers, "", found)
        except Exception:
            log.debug("seamark: hardware could not be recorded", exc_info=True)

    def _between(self, before: Reading, reading: Reading, machine: Machine) -> dict[str, float]:
        seconds = reading.at - before.at
        found = between(before.process, reading.process, seconds, _LIMITS)
        if self._host:
            found.update(between(before.host, reading.host, seconds, _LIMITS))
            if (place := self._run.place) is not None and (free := machine.free(place)) is not None:
                found["disk_free"] = free
        return {**found, **self._of_gpus(reading, machine)}

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
