"""Guard of a journal: appends run one at a time under a lock, and their errors are handled."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from seamark.process.interrupts import raised_by_signal_handler

__all__ = ["Guard"]

log = logging.getLogger("seamark")


class Guard:
    """Runs one write after the other, for threads and the signal handlers that interrupt them.

    Args:
        interrupted: Called when a write was left with an exception, before anything else is
            written.
        failed: Called with an exception that is a fault of ours, to count and tell it. One that a
            signal handler raised is passed on to the code that was interrupted.

    Attributes:
        lock: Held while something is written.
        busy: Whether something is, by the thread that holds the lock.
        deferred: What signal handlers gave to write meanwhile.
        unsaid: Warnings that are logged as soon as the lock is free. Never under it: a logging
            handler that writes to this very run holds a lock of its own, and may be waiting for
            ours in another thread.
    """

    def __init__(
        self, interrupted: Callable[[], object], failed: Callable[[Exception], object]
    ) -> None:
        self._interrupted, self._failed = interrupted, failed
        self.begin_child()

    def begin_child(self) -> None:
        """Forget what other threads of the parent were doing when this process was forked."""
        self.lock = threading.RLock()
        self.busy = False
        self.deferred: deque[Callable[[], object]] = deque()
        self.unsaid: deque[str] = deque()

    def run(self, write: Callable[[], object]) -> bool:
        """Run ``write`` under the lock; its faults end here.

        If this very thread is writing already (a signal handler), it runs right after that.

        Returns:
            Whether it ran and answered with something true.
        """
        with self.lock:
            if self.busy:
                self.deferred.append(write)
                return False
            try:
                done = self._run(write)
            finally:
                if self.deferred:
                    self.run_deferred()
        if self.unsaid:
            self.speak()
        return done

    def run_deferred(self) -> None:
        """Write what signal handlers gave, also while what they interrupted is left."""
        with self.lock:
            while self.deferred and not self.busy:
                self._run(self._write_next)

    def _write_next(self) -> None:
        if self.deferred:  # looked at again: a handler that came meanwhile may have emptied it
            try:
                self.deferred[0]()
            finally:
                # Not before: who waits to end the process takes an empty queue for written.
                self.deferred.popleft()

    def _run(self, write: Callable[[], object]) -> bool:
        self.busy = True
        try:
            return bool(write())
        except BaseException as error:
            self._interrupted()
            if not isinstance(error, Exception) or raised_by_signal_handler(error):
                raise
            self._failed(error)
            return False
        finally:
            self.busy = False

    def speak(self) -> None:
        """Log the queued warnings; the caller does not hold the lock."""
        while self.unsaid:
            try:
                message = self.unsaid.popleft()
            except IndexError:  # another thread, or a handler, says it
                return
            log.warning("seamark: %s", message)
