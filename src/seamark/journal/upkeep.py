"""Background work of a journal writer, and the thread that does it.

At intervals, the thread forces data to disk, writes waiting records, writes a heartbeat as a sign
of life, continues a long journal in a new file, and restores a journal file that was removed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from seamark.process.interrupts import quietly

if TYPE_CHECKING:
    from seamark.journal.losses import Guard, Losses
    from seamark.journal.segment import Segment
    from seamark.journal.stream import Stream


class SyncThread(threading.Thread):
    """Daemon thread of a writer; ``sync_s`` and ``heartbeat_s`` are intervals in seconds."""

    def __init__(self, keep: Callable[..., None], sync_s: float, heartbeat_s: float) -> None:
        super().__init__(name="seamark-sync", daemon=True)
        self._run_round = keep
        self._sync_s = sync_s
        self._heartbeat_s = heartbeat_s
        self.done = threading.Event()
        """Set to make the thread run its last round now."""

    def run(self) -> None:
        """Maintain the journal until `done` is set, then once more."""
        beat_at = time.monotonic() + self._heartbeat_s
        self._run_round()
        while not self.done.wait(self._sync_s):
            beat = time.monotonic() >= beat_at
            if beat:
                beat_at = time.monotonic() + self._heartbeat_s
            self._run_round(heartbeat=beat)
        self._run_round()

    def finish(self, timeout_s: float) -> bool:
        """Run the last round, here if not started; return whether it ended within ``timeout_s``."""
        self.done.set()
        if self.ident is None:
            self._run_round()
        elif self is not threading.current_thread():
            self.join(timeout_s)
        return not self.is_alive()


class Upkeep:
    """Maintenance of the journals of one writer, by ``thread``; None while it is not needed.

    ``every_s`` contains the intervals of ``fdatasync`` and of heartbeats, in seconds. ``limit``
    returns the size in bytes at which a journal is continued in a new one.
    """

    def __init__(
        self,
        stream: Stream,
        guard: Guard,
        losses: Losses,
        *,
        every_s: tuple[float, float],
        limit: Callable[[], int],
        at_heartbeat: Callable[[], object],
    ) -> None:
        self._stream, self._guard, self._losses = stream, guard, losses
        self.every_s, self._limit, self._at_heartbeat = every_s, limit, at_heartbeat
        stream.wake = self.wake
        self.begin_child()

    def begin_child(self) -> None:
        """Reset the thread and its lock after a fork; the parent's thread does not exist here."""
        self._round = threading.Lock()
        self.thread: SyncThread | None = None

    # ---------------------------------------------------------------- the thread

    def wake(self) -> None:
        """Start the background thread unless it exists; the writer holds its lock."""
        if self.thread is None:
            self.thread = SyncThread(self.keep, *self.every_s)
            # While the interpreter shuts down, no thread starts: the writer syncs at its end.
            with contextlib.suppress(RuntimeError):
                self.thread.start()

    def end(self) -> SyncThread | None:
        """Signal the thread to end after a last round, and return it; the writer holds its lock."""
        thread, self.thread = self.thread, None
        if thread is not None:
            thread.done.set()
        return thread

    def finish(self, thread: SyncThread | None, timeout_s: float) -> bool:
        """Wait for the last round of an ending thread; return whether it is done."""
        done = thread is None or thread.finish(timeout_s)
        if not done:
            self._losses.warn(
                f"the disk did not respond within {timeout_s:g} s; "
                f"the last records may be missing from {self._stream.folder.path}"
            )
        self._guard.log_warnings()
        return done

    # ---------------------------------------------------------------- a round

    def keep(self, *, heartbeat: bool = False) -> None:
        """Do all due work; never raises."""
        # Two rounds must not sync or replace the same file.
        with self._round, quietly(self._report_failure):
            self._run_round(heartbeat=heartbeat)

    def _report_failure(self, error: Exception) -> None:
        self._losses.drop("sync", 1, f"the sync thread failed: {error!r:.300}")

    def _run_round(self, *, heartbeat: bool) -> None:
        stream = self._stream
        self._guard.run_deferred()
        if stream.backlog.waiting:
            self._guard.run(stream.catch_up)
        if heartbeat and stream.segment is not None:
            self._guard.run(stream.beat)
            self._at_heartbeat()
        while stream.to_close:
            self._sync_and_close(stream.to_close.popleft())
        if (segment := stream.segment) is not None:
            self._bring_back(segment)
            self._sync(segment)
            self._guard.run(self._rotate_if_long)
        self._guard.log_warnings()

    def _sync_and_close(self, segment: Segment) -> None:
        try:
            if not segment.lost:
                self._bring_back(segment)
            if segment.begun:
                self._sync(segment)
        finally:
            segment.close()

    def _sync(self, segment: Segment) -> None:
        try:
            segment.sync_folder()
            segment.sync()
        except OSError as error:
            with self._guard.lock:
                if segment.fd < 0:
                    return  # closed meanwhile
                if self._stream.segment is segment:
                    self._stream.abandon()
            why = f"could not be forced to disk: {error.strerror}"
            self._losses.drop("sync", 1, f"{segment.path} {why}")

    def _bring_back(self, segment: Segment) -> None:
        # a purged run is not restored
        if segment.is_linked():
            return
        with self._guard.lock:
            if self._guard.busy or segment.fd < 0:
                return
            if segment.folder.is_purged:
                if self._stream.segment is segment:
                    self._stream.abandon()
                what = f"run {segment.folder.run} was purged; nothing more is recorded"
                self._losses.drop("purged", 1, what)
                return
            try:
                segment.bring_back()
            except OSError as error:
                # Tried again at the next interval. Nothing is lost while the file is open.
                if "removed" not in self._losses.warned:
                    why = f"was removed and cannot be restored: {error.strerror}"
                    self._losses.drop("removed", 1, f"{segment.path} {why}")
                return
            if self._stream.segment is segment:
                self._stream.fd = segment.fd
            self._losses.warn(
                f"{segment.path} was removed while recording; it was restored from the open file"
            )

    def _rotate_if_long(self) -> None:
        segment = self._stream.segment
        if segment is not None and segment.size >= self._limit():
            self._stream.rotate()
