"""Losses of a writer: checks of metrics, the lock around appends, and counts of lost records."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from seamark.journal.format import dump_json
from seamark.paths import check_series_path
from seamark.process.interrupts import quietly, raised_by_signal_handler
from seamark.values import to_floats, to_step

if TYPE_CHECKING:
    from seamark.values._numbers import Converted

__all__ = ["Guard", "Losses", "sound_row"]


log = logging.getLogger("seamark")


class Guard:
    """Runs one write after the other, for threads and the signal handlers that interrupt them.

    Args:
        interrupted: Called when an exception ended a write, before anything else is written.
        failed: Called with an exception that is a fault of ours, to count and tell it. One that a
            signal handler raised is passed on to the code that was interrupted.

    Attributes:
        busy: Whether the thread that holds the lock writes.
        deferred: What signal handlers gave to write meanwhile.
        unsaid: Warnings that are logged as soon as the lock is free. Never under it: a logging
            handler that writes to this very run holds a lock of its own, and may be waiting for
            ours.
    """

    def __init__(
        self, interrupted: Callable[[], object], failed: Callable[[Exception], object]
    ) -> None:
        self._interrupted, self._failed = interrupted, failed
        self.begin_child()

    def begin_child(self) -> None:
        """Reset lock and queues after a fork: the parent's other threads do not exist here."""
        self.lock = threading.RLock()
        self.busy = False
        self.deferred: deque[Callable[[], object]] = deque()
        self.unsaid: deque[str] = deque()

    def run(self, write: Callable[[], object]) -> bool:
        """Run ``write`` under the lock; its faults end here. Return whether its answer was true.

        If this very thread is writing already (a signal handler), it runs right after that.
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
        """Write the records of signal handlers, also while an interrupted write is being left."""
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


_MAX_KINDS: Final = 4096
"""Maximum number of different warnings logged; further ones are only counted."""


class Losses:
    """Counts and warnings of one writer, which holds its lock around all but `drop`.

    Attributes:
        counts: Lost records by reason, without those that an earlier journal already holds.
        owed: Whether something was lost because the disk refused it, and no journal holds it yet.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self.counts: dict[str, int] = {}
        self.owed = False
        self._told: dict[str, int] = {}
        self._warned: set[object] = set()

    def drop(self, reason: str, count: int, message: str, once: object = None) -> None:
        """Count something that was lost, and warn of it once; see `JournalWriter.drop`."""
        with quietly():
            with self._guard.lock:
                if count:
                    self.counts[reason] = self.counts.get(reason, 0) + count
                self.warn_once(
                    reason if once is None else once,
                    f"{message}. Training continues; more problems like this are counted silently.",
                )
                if self._guard.busy:
                    return  # said when the lock is free
            self._guard.speak()

    # ---------------------------------------------------------------- in journals

    def payload(self) -> bytes:
        """Return the payload of a heartbeat: totals of the open journal."""
        return dump_json({"dropped": self.counts}) if self.counts else b""

    def mark_recorded(self) -> None:
        """Note that the open journal holds the counts as they are now."""
        self._told, self.owed = dict(self.counts), False

    def start_journal(self) -> None:
        """Start counting again: the next journal reports only losses that the last one did not."""
        self.counts = {
            reason: count - self._told.get(reason, 0)
            for reason, count in self.counts.items()
            if count > self._told.get(reason, 0)
        }
        self._told = {}

    def begin_child(self) -> None:
        """Reset the counts after a fork: the parent reports its own losses."""
        self.counts, self._told, self.owed = {}, {}, False

    # ---------------------------------------------------------------- to people

    def warn_once(self, key: object, message: str) -> None:
        """Warn of something the first time that it happens."""
        if key not in self._warned and len(self._warned) < _MAX_KINDS:
            self._warned.add(key)
            self.warn(message)

    def has_warned(self, key: object) -> bool:
        """Return whether a warning with this key was logged."""
        return key in self._warned

    def warn(self, message: str) -> None:
        """Queue a warning; see `Guard.speak`."""
        self._guard.unsaid.append(message)


def sound_row(
    metrics: Any,
    step: Any,
    found: Converted | None,
    claim: Callable[[str, str], None],
    losses: Losses,
) -> tuple[dict[str, float], float | None] | None:
    """Return the numbers and the step that can be recorded, None without; count and tell the rest.

    ``found`` is what `to_floats` made of the numbers, if that is known: tensors are not moved
    again. ``claim`` takes a path for a family, and raises if it holds another one.
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
