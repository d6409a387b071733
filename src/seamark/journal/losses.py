"""Losses of a writer: checks of metrics, the lock around appends, and counts of lost records."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from seamark.journal.format import dump_json
from seamark.paths import check_series_path
from seamark.process.interrupts import quietly, raised_by_signal_handler
from seamark.values import to_floats, to_step
from seamark.values._numbers import Converted

log = logging.getLogger("seamark")


class Guard:
    """Lock that serializes the writes of threads and of the signal handlers that interrupt them.

    Args:
        interrupted: Called after an exception ended a write, before the next write.
        failed: Called with an internal error, to count and report it. An exception raised by a
            signal handler is passed on to the interrupted code instead.

    Attributes:
        busy: Whether the thread that holds the lock is writing.
        deferred: Writes requested by signal handlers meanwhile.
        queued_warnings: Warnings to log once the lock is free. They are not logged under the lock:
            a logging handler that writes to this run has its own lock, and may be waiting for this
            one.
    """

    def __init__(
        self, interrupted: Callable[[], object], failed: Callable[[Exception], object]
    ) -> None:
        self._interrupted, self._failed = interrupted, failed
        self.begin_child()

    def begin_child(self) -> None:
        """Reset lock and queues after a fork; the parent's other threads do not exist here."""
        self.lock = threading.RLock()
        self.busy = False
        self.deferred: deque[Callable[[], object]] = deque()
        self.queued_warnings: deque[str] = deque()

    def run(self, write: Callable[[], object]) -> bool:
        """Run ``write`` under the lock, handle its errors, and return whether its result was true.

        If this thread is already writing (in a signal handler), ``write`` runs right after that.
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
        if self.queued_warnings:
            self.log_warnings()
        return done

    def run_deferred(self) -> None:
        """Run the deferred writes of signal handlers, also while an exception ends a write."""
        with self.lock:
            while self.deferred and not self.busy:
                self._run(self._write_next)

    def _write_next(self) -> None:
        if self.deferred:  # checked again: another signal handler may have emptied it
            try:
                self.deferred[0]()
            finally:
                # Removed afterwards: code that waits to end the process takes an empty queue as
                # written.
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

    def log_warnings(self) -> None:
        """Log the queued warnings; the caller must not hold the lock."""
        while self.queued_warnings:
            try:
                message = self.queued_warnings.popleft()
            except IndexError:  # another thread, or a signal handler, logs it
                return
            log.warning("seamark: %s", message)


_MAX_KINDS: Final = 4096
"""Maximum number of different warnings logged; further ones are not logged."""


class Losses:
    """Counts and warnings of one writer, which holds its lock around all calls but `drop`.

    Attributes:
        counts: Number of lost records by reason, without those reported in an earlier journal.
        warned: Keys of the warnings so far.
        has_unreported: Whether a loss caused by the disk has not yet been reported in a journal.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self.counts: dict[str, int] = {}
        self.has_unreported = False
        self._reported: dict[str, int] = {}
        self.warned: set[object] = set()

    def drop(self, reason: str, count: int, message: str, once: object = None) -> None:
        """Count a loss and warn once about it; see `JournalWriter.drop`."""
        with quietly():
            with self._guard.lock:
                if count:
                    self.counts[reason] = self.counts.get(reason, 0) + count
                self.warn_once(
                    reason if once is None else once,
                    f"{message}. Training continues; further such problems are only counted.",
                )
                if self._guard.busy:
                    return  # logged when the lock is free
            self._guard.log_warnings()

    # ---------------------------------------------------------------- in journals

    def payload(self) -> bytes:
        """Return the payload of a heartbeat: the loss counts for the open journal."""
        return dump_json({"dropped": self.counts}) if self.counts else b""

    def mark_recorded(self) -> None:
        """Mark the current counts as reported in the open journal."""
        self._reported, self.has_unreported = dict(self.counts), False

    def start_journal(self) -> None:
        """Restart the counts: the next journal reports only losses that the last one did not."""
        self.counts = {
            reason: count - self._reported.get(reason, 0)
            for reason, count in self.counts.items()
            if count > self._reported.get(reason, 0)
        }
        self._reported = {}

    def begin_child(self) -> None:
        """Reset the counts after a fork: the parent reports its own losses."""
        self.counts, self._reported, self.has_unreported = {}, {}, False

    # ---------------------------------------------------------------- warnings

    def warn_once(self, key: object, message: str) -> None:
        """Queue a warning unless one with the same key was queued before."""
        if key not in self.warned and len(self.warned) < _MAX_KINDS:
            self.warned.add(key)
            self.warn(message)

    def warn(self, message: str) -> None:
        """Queue a warning; see `Guard.log_warnings`."""
        self._guard.queued_warnings.append(message)


def sound_row(
    metrics: Any,
    step: Any,
    found: Converted | None,
    claim: Callable[[str, str], None],
    losses: Losses,
) -> tuple[dict[str, float], float | None] | None:
    """Return the numbers and the step to record, or None; count and report invalid values.

    ``found`` is the result of `to_floats`, if known, so that tensors are not copied from their
    device again. ``claim`` assigns a family to a path, and raises if the path has another one.
    """
    if not isinstance(metrics, Mapping):
        what = f"expected a mapping of paths to numbers, got {metrics!r:.120}"
        losses.drop("metrics", 1, f"log_metrics: {what}")
        return None
    if step is not None:
        try:
            step = to_step(step)
        except (TypeError, ValueError) as error:
            losses.drop("step", max(1, len(metrics)), f"log_metrics: {error}")
            return None

    def drop_value(what: str, key: object, error: Exception) -> None:
        message = f"log_metrics: {key!r:.120} is left out: {error}"
        losses.drop(what, 1, message, (what, key))

    values, refused = to_floats(metrics) if found is None else found
    for key, reason in refused.items():
        drop_value("value", key, reason)
    kept = {}
    for key, value in values.items():
        try:
            claim(check_series_path(key), "float_series")
        except (TypeError, ValueError) as error:
            drop_value("path", key, error)
        else:
            kept[key] = value
    return (kept, step) if kept else None
