"""Metrics of the machine while a run is recorded: CPU, memory, disk, network, GPUs.

A daemon thread of each run reads the metrics every ten seconds (`machine`, which uses `gpus`) and
records them as a row. The training's thread is not involved, because a driver may take seconds to
answer, or hang.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from seamark.process import fork
from seamark.process.queues import wait_for_entry
from seamark.process.rank import current_rank, local_rank

if TYPE_CHECKING:
    from seamark.capture.hardware.machine import Machine, Reading
    from seamark.capture.part import Recorder


log = logging.getLogger("seamark")
_T = TypeVar("_T")

BEGIN_S: Final = 0.5
"""Delay before hardware is examined, in seconds: longer than a script that only adds a tag runs,
and than a training needs to import modules and fork its workers."""
EVERY_S: Final = 10.0
"""Interval of samples, in seconds."""
FIRST_S: Final = 2.0
"""Time from the start to the first sample, in seconds: rates need an interval."""
LAST_S: Final = 1.0
"""Minimum time between the last regular sample and the final one, in seconds."""
# Maximum time that the end of a run waits for the last sample, in seconds.
_STOP_TIMEOUT_S: Final = 0.2
_MAX_CPU: Final = 100.0
_PROCESS_PREFIX: Final = "process_"


def _create_machine() -> Machine:
    with fork.delay_forks():
        from seamark.capture.hardware.machine import Machine
    return Machine()


class Hardware:
    """Records facts about the machine once, and its metrics while the run is being recorded.

    A thread takes samples from `start` to `stop`. `stop` signals it through a queue, because `stop`
    may run in a signal handler, where the interrupted code could hold a lock.
    """

    def __init__(
        self,
        run: Recorder,
        namespace: str,
        *,
        facts: bool = True,
        metrics: bool = True,
        machine: Callable[[], Machine] = _create_machine,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._namespace = namespace
        self._facts = facts
        self._metrics = metrics
        self._create_machine = machine
        self._clock = clock
        self._thread: threading.Thread | None = None
        self._ended: queue.SimpleQueue[None] | None = None
        # A rank above 0 records only its own GPU; the first rank of a host records shared metrics.
        self._local_rank = local_rank() if current_rank().rank else None
        self._host = not self._local_rank

    def start(self) -> None:
        """Start to take samples; do nothing if already started, or if nothing is to be recorded."""
        if self._ended is not None or not (self._facts or self._metrics):
            return
        ended: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self.sample, args=(ended,), name="seamark-hardware", daemon=True
        )
        self._ended = ended
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Record the last sample and end; wait at most 0.2 s for unresponsive hardware."""
        if self._ended is None or self._thread is None:
            return
        self._ended.put(None)
        self._thread.join(min(timeout_s, _STOP_TIMEOUT_S))
        self._ended = None

    def sample(self, ended: queue.SimpleQueue[None]) -> None:
        """Record facts and samples until ``ended`` has an entry; the thread calls this."""
        since = self._clock()
        if not self._wait_until(ended, since + BEGIN_S):
            return
        facts, self._facts = self._facts, False
        try:
            with contextlib.closing(self._create_machine()) as machine:
                for found in machine.facts() if facts else ():
                    if self._ended is ended:
                        self._run.assign_quietly(self._paths("environment/", found))
                if self._metrics and self._ended is ended:
                    self._take_samples(ended, machine, since)
        except Exception:
            log.debug("seamark: hardware could not be recorded", exc_info=True)

    def _take_samples(self, ended: queue.SimpleQueue[None], machine: Machine, since: float) -> None:
        last = self._clock()
        before = self._take_sample(ended, machine, None)
        due = max(since + FIRST_S, self._clock() + LAST_S)
        while self._wait_until(ended, due):
            last, due = self._clock(), self._clock() + EVERY_S
            before = self._take_sample(ended, machine, before)
        if self._clock() - last >= LAST_S:
            self._take_sample(ended, machine, before)

    def _wait_until(self, ended: queue.SimpleQueue[None], until: float) -> bool:
        """Wait until a time; return False if the run ends earlier."""
        return not wait_for_entry(ended, until - self._clock())

    def _take_sample(
        self, ended: queue.SimpleQueue[None], machine: Machine, before: Reading | None
    ) -> Reading | None:
        """Record the values since the previous reading, and return the new reading."""
        try:
            reading = machine.read(self._run.place)
            if before is not None:
                numbers = between(before, reading)
                if not self._host:
                    numbers = {
                        name: numbers[name] for name in numbers if name.startswith(_PROCESS_PREFIX)
                    }
                numbers.update(self._gpu_metrics(reading))
                if numbers and self._ended is ended:
                    self._run.append_numbers(self._paths("", numbers))
        except Exception:
            log.debug("seamark: hardware could not be recorded", exc_info=True)
            return before
        return reading

    def _gpu_metrics(self, reading: Reading) -> dict[str, float]:
        """Return the metrics of GPUs, named ``gpu_<number>`` if there are several."""
        numbers = list(reading.gpus)
        at = self._local_rank if len(numbers) > 1 else None
        wanted = (numbers if at is None else numbers[at : at + 1]) or numbers
        return {
            f"{name}_{number}" if len(numbers) > 1 else name: value
            for number in wanted
            for name, value in reading.gpus[number].items()
        }

    def _paths(self, below: str, values: dict[str, _T]) -> dict[str, _T]:
        return {f"{self._namespace}/{below}{name}": value for name, value in values.items()}


def between(before: Reading, after: Reading) -> dict[str, float]:
    """Return the metrics for the time between two readings.

    A rate is left out if its counter is new or decreased, as counters of processes do when a
    process ends. The load of the CPU is at most 100 %, though the clocks of counters and readings
    differ slightly.
    """
    seconds, found = after.at - before.at, dict(after.present)
    for name, count in after.counted.items():
        if seconds > 0 and name in before.counted and count >= before.counted[name]:
            found[name] = (count - before.counted[name]) / seconds
    if "cpu" in found:
        found["cpu"] = min(found["cpu"], _MAX_CPU)
    return found
