"""The part of a run's captures that records what its machine does."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any, Final

from seamark.capture.hardware.readings import Reading, between
from seamark.capture.hardware.sampler import Sampler, of_process
from seamark.process.rank import current_rank, local_rank

if TYPE_CHECKING:
    from seamark.capture.hardware.machine import Machine
    from seamark.capture.part import Recorder

__all__ = ["Hardware"]

_GRACE_S: Final = 0.2
"""The longest time that the end of a run waits for the last sample, in seconds."""
_LIMITS: Final = {"cpu": 100.0}


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

    It is a `seamark.capture.hardware.sampler.Listener`.

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
