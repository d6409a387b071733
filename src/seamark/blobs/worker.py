"""The thread that stores files: one job after the other, failures of the disk again later."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from seamark.process import fork
from seamark.process.interrupts import quietly, raised_by_signal_handler

__all__ = ["RETRY_S", "Job", "Worker"]

RETRY_S: Final = 5.0
"""What failed is tried again after this time, in seconds, or as soon as something else succeeds.

If it fails again, after twice that, and so on up to `_MAX_RETRY_S`: half a checkpoint, written to
see whether it fits, is room that others on the disk do not have meanwhile.
"""
_MAX_RETRY_S: Final = 320.0

log = logging.getLogger("seamark")


def _nothing() -> None:
    """Do nothing."""


@dataclass(eq=False)
class Job:
    """Work for the thread.

    Attributes:
        run: Does it; OSError means that it may work later.
        give_up: Called if it will not be done by this process.
        abandon: Called in a forked child, where it lets go of descriptors; the job is its parent's.
        failed: Whether it was tried before, and that was reported.
    """

    run: Callable[[], object]
    give_up: Callable[[], object] = _nothing
    abandon: Callable[[], object] = _nothing
    failed: bool = False


class Worker:
    """Runs jobs in order on a daemon thread that exists only while there are some.

    A job that fails with an OSError (a full disk) waits until another succeeds, until somebody
    waits for the queue, or for `RETRY_S`, and is then run again. All methods may be called from any
    thread, and after a fork, in whose child the queue is empty.

    Args:
        trouble: Called for the first failure of each job, and for those given up after it.
    """

    def __init__(self, trouble: Callable[[str, BaseException | None], None]) -> None:
        self._trouble = trouble
        self._renew()
        fork.register(self.after_fork)

    def _renew(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._queue: deque[Job] = deque()
        self._later: deque[Job] = deque()
        self._running: list[Job] = []
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._pause_s = RETRY_S

    def after_fork(self) -> None:
        """Forget the jobs of the parent in a forked child."""
        jobs = [*self._queue, *self._later, *self._running]
        self._renew()
        for job in jobs:
            job.abandon()

    @property
    def lock(self) -> threading.Condition:
        """Held while jobs are added and taken; hold it too to record for a job."""
        return self._changed

    @property
    def stopped(self) -> bool:
        """Whether nothing may be recorded any more; look at it with `lock` held."""
        return self._stopped

    def submit(self, job: Job) -> None:
        """Add a job; one whose failure was reported already waits first."""
        with self._changed:
            self._stopped = False
            (self._later if job.failed else self._queue).append(job)
            self._start()

    def _start(self) -> None:
        if self._queue:
            self._changed.notify_all()
        if self._thread is not None or not (self._queue or self._later):
            return
        self._thread = threading.Thread(target=self._work, name="seamark-blobs", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads, or the interpreter is ending; `flush` does the work
            self._thread = None

    def _work(self) -> None:
        try:
            while self._rest():
                self._step()
        finally:
            self._unregister()

    def _rest(self) -> bool:
        """Wait while there is only what failed, then try it again; False if there is nothing."""
        with self._changed:
            only_failed = self._later and not (self._queue or self._stopped)
            if only_failed and not self._changed.wait(self._pause_s):
                self._pause_s = min(2 * self._pause_s, _MAX_RETRY_S)
                self._queue.extend(self._later)
                self._later.clear()
            if self._stopped or not (self._queue or self._later):
                self._unregister()  # under the lock: a job added next has to start a thread
                return False
            return True

    def _step(self) -> bool:
        """Run the next job; False if there is none."""
        with self._changed:
            if self._stopped or not self._queue:
                return False
            job = self._queue.popleft()
            self._running.append(job)
        done = False
        try:
            done = self._run(job)
        finally:
            with self._changed:
                if job in self._running:  # not if a fork came between
                    self._running.remove(job)
                if done:
                    self._pause_s = RETRY_S
                    self._queue.extend(self._later)
                    self._later.clear()
                self._changed.notify_all()
        return True

    def _unregister(self) -> None:
        """Say that the thread that calls this is no longer there for new jobs."""
        with self._changed:
            if self._thread is threading.current_thread():
                self._thread = None
            self._changed.notify_all()

    def _run(self, job: Job) -> bool:
        """Return whether the job is done."""
        try:
            job.run()
        except Exception as error:
            stopped = raised_by_signal_handler(error)  # in whoever waits, where there is no thread
            again = stopped or isinstance(error, OSError)
            if again:
                with self._changed:
                    self._later.append(job)
            if stopped:
                raise
            if not (again and job.failed):
                job.failed = again
                self._report("not stored yet" if again else "not stored", error)
            return False
        return True

    def _report(self, kind: str, error: BaseException | None) -> None:
        with quietly(lambda lost: log.debug("seamark: not counted: %s", kind, exc_info=lost)):
            self._trouble(kind, error)

    def flush(self, timeout_s: float | None) -> bool:
        """Wait until every job was run; those that failed are tried once more.

        Args:
            timeout_s: Seconds; None waits without end.

        Returns:
            Whether all are done.
        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            self._queue.extend(self._later)
            self._later.clear()
            self._start()
        while self._waits(end):
            if not self._step():  # there is no thread
                break
        with self._changed:
            return not (self._queue or self._later or self._running)

    def _waits(self, end: float | None) -> bool:
        """Wait for the thread; True if the caller has to run jobs itself."""
        with self._changed:
            while self._queue or self._running:
                if end is not None and time.monotonic() >= end:
                    return False
                if self._thread is None and not self._running:
                    return True
                self._changed.wait(None if end is None else max(0.0, end - time.monotonic()))
            return False

    def stop(self, timeout_s: float | None) -> bool:
        """Wait for the jobs, then let those go that are left; True if there were none."""
        done = self.flush(timeout_s)
        with self._changed:
            self._stopped = True
            left = [*self._queue, *self._later]
            self._queue.clear()
            self._later.clear()
            self._changed.notify_all()
        for job in left:
            job.give_up()
            if job.failed:
                self._report("not stored", None)
        return done
